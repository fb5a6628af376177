/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that do the same work at the same time, and meet in between. */
#ifndef TT_CLI_CREW_H
#define TT_CLI_CREW_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/status.h"

struct tt_crew;

/* The work of one thread; one that fails leaves its text in tt_last_error(). */
typedef tutti_status tt_crew_work(void *argument, struct tt_crew *crew, uint32_t thread);

/*
 * Runs the work on so many threads, which start together; each has a core of its own if there are enough. Returns when
 * all have ended: OK, or the first failure with its text. *duration_ns is from the start to the end of the last one.
 */
tutti_status tt_crew_run(uint32_t threads, tt_crew_work *work, void *argument, uint64_t *duration_ns);

/* Waits until all threads are here; CANCELED once any has failed, TIMED_OUT after a minute. */
tutti_status tt_crew_meet(struct tt_crew *crew);

/* The same, and the duration counts from here on: what came before was preparation. */
tutti_status tt_crew_begin(struct tt_crew *crew);

/* Cores that this process may use. */
uint32_t tt_crew_cores(void);

#endif
