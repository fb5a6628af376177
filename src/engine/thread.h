/* SPDX-License-Identifier: BSD-3-Clause */
/* What the engine's threads have in common. */
#ifndef TT_ENGINE_THREAD_H
#define TT_ENGINE_THREAD_H

#include <pthread.h>

/* Starts a thread that leaves all signals to the application's, but for those of a fault: that of an access to the
 * application's memory, which it may have a handler for, comes to the thread that made it, and cannot be left. Returns
 * an errno value, or 0. */
int tt_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);

/* A condition whose deadlines are those of tt_clock_now_ns. */
void tt_thread_condition_init(pthread_cond_t *condition);

#endif
