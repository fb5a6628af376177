/* SPDX-License-Identifier: BSD-3-Clause */
/* The lesser and the greater of two numbers; what fits 32 bits comes out as such. And a time that does not wrap. */
#ifndef TT_BASE_LEAST_H
#define TT_BASE_LEAST_H

#include <stdint.h>

static inline uint64_t tt_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t tt_most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* UINT64_MAX, which is never, if it is beyond that. */
static inline uint64_t tt_later(uint64_t from_ns, uint64_t by_ns)
{
    return by_ns < UINT64_MAX - from_ns ? from_ns + by_ns : UINT64_MAX;
}

#endif
