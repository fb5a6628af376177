/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The broadcast sequencer (Khalilov et al., section IV-A and appendix A): which root sends when, and how the others
 * learn that a chain of roots is done. Parts of the collective machine.
 */
#ifndef TT_PROTO_SEQUENCER_H
#define TT_PROTO_SEQUENCER_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/action.h"

struct tt_collective;

/* Whether this rank sends as soon as the barrier is over. Point to point every root does: it only copies. */
bool tt_sequencer_starts(const struct tt_collective *collective);

/* Transmits if it is this rank's turn, as far as credit goes. */
void tt_sequencer_advance(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

/* The own block is sent and in place. */
void tt_sequencer_sent(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

/* A chain is done, as far as this rank knows; tells the right neighbour, unless it is the one that said so first, or
 * has everything already. */
void tt_sequencer_done(struct tt_collective *collective, uint32_t chain, uint64_t now_ns, struct tt_actions *actions);

/* Every chain is done: this rank holds everything, or its left neighbour does. */
void tt_sequencer_all_done(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

#endif
