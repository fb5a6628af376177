/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine: the only place where protocol machines meet a fabric.
 *
 * An engine belongs to a context. Its *control context* is whoever holds `lock`: it owns the p2p providers and runs the
 * machines. Without worker threads that is any application thread inside tutti_test or tutti_wait, and it also feeds
 * the receive kernels and sends; with worker threads it is the control thread, and receive and send workers do the rest
 * (worker.h). Application threads hand requests over through a lock-free queue.
 */
#ifndef TT_ENGINE_ENGINE_H
#define TT_ENGINE_ENGINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/core.h"

/* --- engine.c ----------------------------------------------------------------------------------------------------- */

/* Reads nothing but `settings`; starts the worker threads that they ask for. */
tutti_status tt_engine_create(const struct tt_settings *settings, struct tt_engine **engine);

/* For the simulator: an engine in virtual time, without threads and without sleeping, on one given network. */
tutti_status tt_engine_create_simulated(const struct tt_settings *settings, uint64_t context_id, struct tt_mcast *mcast,
                                        struct tt_p2p *p2p, uint64_t (*now_ns)(void *argument), void *now_argument,
                                        struct tt_engine **engine);

/* All parties must be gone. NULL is allowed. */
void tt_engine_destroy(struct tt_engine *engine);

/* Asserts what holds between two calls, in the engine and in all that it has. The caller holds the lock; with workers
 * no party may be theirs just now. */
void tt_engine_check(const struct tt_engine *engine);

/* --- progress.c --------------------------------------------------------------------------------------------------- */

/* Moves everything that can move; the caller holds the lock. Returns whether anything did. */
bool tt_engine_progress(struct tt_engine *engine);

/* What was posted is taken over, and sent as far as that is possible at once. At what has come it does not look, if
 * that was done just now, or somebody has control, who does. The caller holds the lock. */
bool tt_engine_begin(struct tt_engine *engine);

/* When progress is due at the latest, if nothing arrives; the caller holds the lock. */
uint64_t tt_engine_deadline(const struct tt_engine *engine);

/* --- control.c ---------------------------------------------------------------------------------------------------- */

/* Control: whoever has it takes turns, and all others that wait rely on it. So there is one way to leave it, which
 * tells them that one of them has to take it. Only who has seen that nobody has it may take it. The caller holds the
 * lock. */
void tt_engine_take_control(struct tt_engine *engine);
void tt_engine_leave_control(struct tt_engine *engine);

/* Progress, or else sleep until something can move or it is `until_ns`. The caller has control, and holds the lock,
 * which is released while it sleeps. */
void tt_engine_turn(struct tt_engine *engine, uint64_t until_ns);

/* Lets an application thread have the lock if one wants it, or has to have it to see what it was told; the caller holds
 * it before and after. May return although nobody has had it, but not more than so many times in a row. */
enum { TT_ENGINE_MOST_ASIDE = 2 };
void tt_engine_step_aside(struct tt_engine *engine);

/* --- wait.c ------------------------------------------------------------------------------------------------------- */

/* Hands something over to one of its parties. Any thread. */
void tt_engine_post(struct tt_engine *engine, struct tt_post *post);

/* Moves things along without blocking, if this thread may, and nobody waits who does. Any thread. */
void tt_engine_poke(struct tt_engine *engine);

typedef bool tt_engine_condition(const void *argument);

/* Returns once is_over(argument), which need not be announced, or it is `until_ns`; sleeps when nothing moves. The
 * caller holds the lock, which may be released meanwhile; is_over is called with it. */
void tt_engine_wait_for(struct tt_engine *engine, tt_engine_condition *is_over, const void *argument,
                        uint64_t until_ns);

/* Returns once *done is set (acquire) or it is `until_ns`; sleeps when nothing moves. Any thread. */
void tt_engine_wait(struct tt_engine *engine, const _Atomic bool *done, uint64_t until_ns);

#endif
