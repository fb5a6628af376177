/* SPDX-License-Identifier: BSD-3-Clause */
/* What the system says of this process. */
#ifndef TT_BENCH_PROCESS_STATUS_H
#define TT_BENCH_PROCESS_STATUS_H

#include <stdint.h>

/* The number behind `name` ("Threads:", "VmRSS:", which counts KiB) in /proc/self/status; 0 if it is not told. */
uint64_t process_status(const char *name);

#endif
