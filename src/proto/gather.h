/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hearing from everybody by way of one rank. GATHER goes up a tree (plan/gather.h), point to point: a rank says that it
 * has posted, with its terms, once all its children have. So the root knows when everybody has, and how far all have
 * got; it multicasts that. It is P - 1 messages and one datagram, where a dissemination barrier takes P log P messages.
 * Part of the collective machine, in four uses:
 *
 *   - The RNR barrier in front of multicast (Khalilov et al., section III-C). The root sends a release
 *     (TT_PSN_RELEASE). A rank without it knows all the same that the barrier is over when a chunk comes, or a frame
 *     that nobody sends before: only how far all have got it does not know. A rank that multicast does not reach any
 *     more says so in GATHER, and OPEN comes down the tree to it.
 *   - A small Allgather: the blocks go up the tree with the GATHER frames, and the root multicasts what has come
 *     together as an eager broadcast of its own. As everybody has posted by then, nobody needs room for chunks that
 *     come early, and the root needs no acknowledgments. What follows is an eager broadcast's end: copies, ASK, fetch.
 *   - A small reduction: vectors go up in the same way, to memory of their own; the root combines them, and multicasts
 *     what comes of it, or, if that is the root's alone, the release. Longer ones go up the tree along which they are
 *     combined (plan/fold_tree.h), and each rank passes on what has come of its own and its children's.
 *   - A barrier that a user asks for: an Allgather of nothing, where the release is what is broadcast.
 *
 * GATHER that comes before the rank has posted is kept by the member, with blocks only if there is room. A parent that
 * waits for long says REMIND to the children that are missing, and these say again what they have said; it also carries
 * the parent's terms to a child that means another collective.
 */
#ifndef TT_PROTO_GATHER_H
#define TT_PROTO_GATHER_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/gather.h"
#include "proto/action.h"
#include "proto/terms.h"

struct tt_collective;

struct tt_gather {
    struct tt_gather_place place; /* in the tree that blocks go up */
    bool folds;                   /* vectors go up another one (plan/fold_tree.h) instead */
    uint32_t parent;              /* a rank; the root's is itself */
    uint32_t child_count;
    uint64_t complete; /* a bit a child: everything that it speaks for is here */
    uint32_t received_bytes[TT_GATHER_MAX_CHILDREN];
    uint32_t reminded_at_bytes[TT_GATHER_MAX_CHILDREN]; /* of these, when the last reminder was due */
    uint64_t deaf;                                      /* some rank that it speaks for may not hear the release */
    bool told;                                          /* the parent has been told */
    bool again;                                         /* more than once */
    uint64_t remind_ns, remind_deadline_ns;
};

void tt_gather_init(struct tt_collective *collective);

/* Posted. */
void tt_gather_start(struct tt_collective *collective, uint64_t now_ns);

/* GATHER or REMIND, with the terms that are right; false if it is out of turn, or not what a child has to send. */
bool tt_gather_frame(struct tt_collective *collective, const struct tt_frame *frame, struct tt_actions *actions);

/* Tells the parent, once all children are complete, or notes at the root that everybody is; reminds those that are not,
 * and from whom nothing has come meanwhile. */
void tt_gather_advance(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

/* What came from this child could not be kept: it is to say it again. Does nothing about who is complete, or no child.
 */
void tt_gather_ask_again(struct tt_collective *collective, uint32_t rank, struct tt_actions *actions);

/* The barrier is over: says so to the children that may not hear the release. */
void tt_gather_open(struct tt_collective *collective, struct tt_actions *actions);

/* Whether a rank is the parent. */
bool tt_gather_is_parent(const struct tt_collective *collective, uint32_t rank);

/* A release has come. */
void tt_gather_note(struct tt_collective *collective, const struct tt_release *release);

/* When the next reminder is due; UINT64_MAX: none. */
uint64_t tt_gather_deadline(const struct tt_collective *collective);

/* A child that is missing, or else the parent; TT_RANK_NONE: nobody. */
uint32_t tt_gather_waits_for(const struct tt_collective *collective);

/* Asserts what always holds, from the start on. */
void tt_gather_check(const struct tt_collective *collective);

#endif
