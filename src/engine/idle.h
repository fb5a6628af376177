/* SPDX-License-Identifier: BSD-3-Clause */
/* What the control context does while it has nothing to do. */
#ifndef TT_ENGINE_IDLE_H
#define TT_ENGINE_IDLE_H

#include <stdint.h>

struct tt_engine;

/* Polls, yields or sleeps until there may be something to do, or `until_ns`. Holds the lock before and after. */
void tt_engine_idle(struct tt_engine *engine, uint64_t until_ns);

/* Something has come, or was done. Holds the lock. */
void tt_engine_note_work(struct tt_engine *engine, uint64_t now_ns);

/* Wakes the parties to which something has come, as a sleep would: who has something to do all the time never sleeps on
 * their descriptors, and what has come for them must not wait until there is no more room. Holds the lock. */
void tt_engine_look_around(struct tt_engine *engine);

/* Lets others have the core, and notes whether anybody wanted it; may sleep for some 50 us where somebody has for a
 * while. Holds the lock all the time. */
void tt_engine_yield(struct tt_engine *engine);

#endif
