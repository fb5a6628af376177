/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The progress thread: keeps a context without workers available to its peers while the application stays away.
 *
 * Such a context moves only inside tutti_test and tutti_wait. A rank that has ended an eager collective may yet be
 * asked for its data, and one that has posted a collective and computes meanwhile is waited for. So when something is
 * owed and no application thread has been here for a while, this thread, which otherwise sleeps, becomes the
 * control context; the next application thread that waits takes over from it again.
 */
#ifndef TT_ENGINE_PROGRESS_THREAD_H
#define TT_ENGINE_PROGRESS_THREAD_H

#include <stdbool.h>

#include "tutti/status.h"

struct tt_engine;
struct tt_progress_thread;

/* How long the application must have been away. */
#define TT_PROGRESS_THREAD_PATIENCE_NS UINT64_C(10000000)

tutti_status tt_progress_thread_create(struct tt_engine *engine, struct tt_progress_thread **progress);

/* The caller does not hold the engine's lock. NULL is allowed. */
void tt_progress_thread_destroy(struct tt_progress_thread *progress);

/* An application thread is about to become the control context, or to wait for it; and it is leaving. The caller holds
 * the engine's lock. NULL is allowed. */
void tt_progress_thread_enter(struct tt_progress_thread *progress);
void tt_progress_thread_leave(struct tt_progress_thread *progress);

/* An application thread is about to let go of the engine's lock, with which it may have left something owed without
 * having been inside. The caller holds the lock. NULL is allowed. */
void tt_progress_thread_unlocked(struct tt_progress_thread *progress);

/* A request was posted by a thread that could not have the engine's lock: whoever has it may not have seen the request.
 * Any thread. NULL is allowed. */
void tt_progress_thread_posted(struct tt_progress_thread *progress);

/* Whether it moves things along. The caller holds the engine's lock. NULL is allowed, and does not. */
bool tt_progress_thread_has_control(const struct tt_progress_thread *progress);

/* Asserts what holds between two calls. The caller holds the engine's lock. */
void tt_progress_thread_check(const struct tt_progress_thread *progress);

#endif
