/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Credit: how far the roots may run ahead of the slowest receiver.
 *
 * The paper relies on receivers that keep up (section III-C); processes that share cores do not. So where a chain's
 * data is larger than what a receive queue holds, receivers report how much of every chain they have consumed, in
 * quanta, up a binomial tree, each vertex the minimum of its subtree. Vertex 0 knows what everybody has
 * consumed and tells the roots that are about to need it. A root sends at most two quanta beyond that, or more
 * where all have agreed on more (proto/ahead.h); what is reported then is every fourth part of it.
 *
 * "Consumed" is the highest chunk seen, not the number of chunks: a lost chunk holds nobody up. Credit is advice, never
 * needed for correctness: a root that hears nothing for a while goes on without.
 */
#ifndef TT_PROTO_CREDIT_H
#define TT_PROTO_CREDIT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/action.h"
#include "proto/receive.h"

enum { TT_CREDIT_ALL = 0xFFFFFFFF, TT_CREDIT_AHEAD = 2, TT_CREDIT_MIN_QUANTUM = 16 };

struct tt_credit_config {
    uint32_t size;
    uint32_t vertex; /* own rank relative to the tree's root */
    uint32_t base;   /* rank of vertex 0 */
    uint32_t root_count, chains, subgroups;
    uint32_t own_root_index;         /* or TT_RANK_NONE */
    uint32_t depth_chunks;           /* that all roots together may be ahead in any case */
    const struct tt_stream *streams; /* one a subgroup */
    uint32_t *positions;             /* memory: chains * subgroups */
};

struct tt_credit {
    struct tt_credit_config config;
    bool enabled;
    uint32_t quantum;  /* chunks */
    uint32_t ahead;    /* quanta that a root may be */
    uint32_t told;     /* that others may count on being, as far as this rank knows; what it reports is by that */
    uint32_t own;      /* quanta consumed here */
    uint32_t reported; /* told to the parent; at vertex 0: granted to the roots */
    uint32_t granted;  /* heard, at a root */
    uint32_t children[32];
};

void tt_credit_init(struct tt_credit *credit, const struct tt_credit_config *config);
void tt_credit_reset(struct tt_credit *credit);

/*
 * All roots together may be so far ahead; TT_CREDIT_AHEAD quanta each at least. `is_agreed`: as all have heard, but for
 * some to whom it may be half as much, and a report goes out early enough for those. If not, this rank sends by what it
 * heard last, but the others may have agreed on little since: it reports every quantum.
 */
void tt_credit_open(struct tt_credit *credit, uint32_t ahead_chunks, bool is_agreed);

/* A child's report; false if the sender is no child. */
bool tt_credit_child(struct tt_credit *credit, uint32_t source, uint32_t quanta);

/* Looks at the bitmaps, and tells the parent or the roots what is new. `finished`: this rank takes nothing more from
 * the multicast queues. */
void tt_credit_update(struct tt_credit *credit, bool finished, const struct tt_frame *template,
                      struct tt_collective *collective, struct tt_actions *actions);

/* A GRANT frame: keeps it or sends it on towards its root. */
void tt_credit_grant(struct tt_credit *credit, const struct tt_frame *frame, const struct tt_frame *template,
                     struct tt_collective *collective, struct tt_actions *actions);

/* How many of the own block's chunks of this subgroup may have been sent by now. */
uint32_t tt_credit_limit(const struct tt_credit *credit, uint32_t subgroup);

#endif
