/* SPDX-License-Identifier: BSD-3-Clause */
/* The monotonic clock, and processor time. Not for protocol code: there time comes in as an argument. */
#ifndef TT_BASE_CLOCK_H
#define TT_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

#define TT_NS_PER_US UINT64_C(1000)
#define TT_NS_PER_MS UINT64_C(1000000)
#define TT_NS_PER_S  UINT64_C(1000000000)
#define TT_NEVER     UINT64_MAX /* a deadline that does not come */

static inline uint64_t tt_clock_read_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * TT_NS_PER_S + (uint64_t)now.tv_nsec;
}

static inline uint64_t tt_clock_now_ns(void)
{
    return tt_clock_read_ns(CLOCK_MONOTONIC);
}

/* Of all threads of this process. */
static inline uint64_t tt_clock_cpu_ns(void)
{
    return tt_clock_read_ns(CLOCK_PROCESS_CPUTIME_ID);
}

static inline struct timespec tt_clock_timespec(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / TT_NS_PER_S), .tv_nsec = (long)(ns % TT_NS_PER_S)};
}

#endif
