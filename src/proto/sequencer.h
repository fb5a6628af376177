/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The broadcast sequencer (Khalilov et al., section IV-A and appendix A): which root sends when, and how the others
 * learn that a chain of roots is done. Parts of the collective machine.
 *
 * What a rank knows of itself, that its chain is done or that it has everything, it holds back for a while: where
 * nothing was lost everybody has everything by then, and a `done` would only be one more frame to handle. What it hears
 * it passes on at once.
 */
#ifndef TT_PROTO_SEQUENCER_H
#define TT_PROTO_SEQUENCER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/action.h"

struct tt_collective;

/* How long it holds it back, in tail times. */
enum { TT_SEQUENCER_HOLD = 2 };

/* Whether this rank sends as soon as the barrier is over. */
bool tt_sequencer_starts(const struct tt_collective *collective);

/* Transmits if it is this rank's turn, as far as credit goes. */
void tt_sequencer_advance(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

/* The own block is sent and in place. */
void tt_sequencer_sent(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

/* What follows from it: the next root of the chain may send, or the chain is done. */
void tt_sequencer_pass_on(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

/* The left neighbour says that a chain is done, or TT_DONE_ALL_CHAINS are; tells the right one, unless that is the one
 * that said so first, or has everything already. */
void tt_sequencer_done(struct tt_collective *collective, uint32_t chain, uint64_t now_ns, struct tt_actions *actions);

/* Everything is here, so every chain is done. */
void tt_sequencer_complete(struct tt_collective *collective, uint64_t now_ns);

/* Tells the right neighbour what was held back, if it is time and it still waits. */
void tt_sequencer_tell(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

#endif
