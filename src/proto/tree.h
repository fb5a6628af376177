/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Broadcast down a binomial tree, point to point: for small messages where multicast does not get through. Part of
 * the collective machine.
 *
 * There is no barrier and no handshake. A rank that has posted says READY to its parent, with its terms; a parent sends
 * what it has to the children that are ready, in DATA frames, as it comes in. So nothing arrives before there is a
 * place for it, and nothing waits anywhere but in the fabric. A rank has finished when it has everything and has passed
 * it on: the fabric has its own copy of what was sent.
 *
 * A rank learns of other terms than its own from READY. Ranks that mean different roots may each wait for the other's
 * READY; therefore a parent that waits for long reminds its children with a READY of its own, and terms are compared
 * wherever one arrives.
 */
#ifndef TT_PROTO_TREE_H
#define TT_PROTO_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/dissemination.h"
#include "proto/action.h"

struct tt_collective;

/* The largest block. Beyond it the chain of one-sided reads is faster on slow links too; see docs/performance.md. */
enum { TT_TREE_MAX_BYTES = 64 * 1024 };

/* How long a parent waits for a child before the first reminder; doubles from one to the next, up to the last. */
#define TT_TREE_REMIND_NS      UINT64_C(20000000)
#define TT_TREE_REMIND_LAST_NS UINT64_C(1280000000)

struct tt_tree {
    uint32_t ready;          /* a bit a child: it has posted */
    uint32_t received_bytes; /* from the front; they come in order */
    uint32_t sent_bytes[TT_DISSEMINATION_MAX_ROUNDS];
    uint64_t remind_ns, remind_deadline_ns;
};

/* Posted: says READY to the parent. */
void tt_tree_start(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

/* READY with the terms that are right, or DATA; false if it is out of turn, or not what the parent has to send. */
bool tt_tree_frame(struct tt_collective *collective, const struct tt_frame *frame);

/* Passes on what is here, as far as the list has room (actions->more). Whether all is here and has been passed on. */
bool tt_tree_advance(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

/* When the next reminder is due; UINT64_MAX: none. */
uint64_t tt_tree_deadline(const struct tt_collective *collective);

uint32_t tt_tree_waits_for(const struct tt_collective *collective);

#endif
