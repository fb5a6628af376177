/* SPDX-License-Identifier: BSD-3-Clause */
/* The lesser and the greater of two numbers; what fits 32 bits comes out as such. The next power of two, and a time
 * that does not wrap. */
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

/* The least power of two that is not less than `count`, of at most 2^31: a ring of so many is indexed without a
 * division. */
static inline uint32_t tt_power_of_two(uint32_t count)
{
    return count <= 1 ? 1 : UINT32_C(1) << (32 - __builtin_clz(count - 1));
}

/* UINT64_MAX, which is never, if it is beyond that. */
static inline uint64_t tt_later(uint64_t from_ns, uint64_t by_ns)
{
    return by_ns < UINT64_MAX - from_ns ? from_ns + by_ns : UINT64_MAX;
}

#endif
