/* SPDX-License-Identifier: BSD-3-Clause */
/* The monotonic clock. Not for protocol code: there time comes in as an argument. */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define TT_NS_PER_US UINT64_C(1000)
#define TT_NS_PER_MS UINT64_C(1000000)
#define TT_NS_PER_S  UINT64_C(1000000000)
#define TT_NEVER     UINT64_MAX /* a deadline that does not come */

static inline uint64_t tt_clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * TT_NS_PER_S + (uint64_t)now.tv_nsec;
}

#endif
