/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control: how far each root of a collective may send, and when. Whoever wants to know why a chunk waits reads
 * this file and flow.c; docs/flow.md has the theory.
 *
 * A root sends a chunk when two things allow it (engine/transmit.c, allowance):
 *
 *   - The *limit*: a window, as a transport's receive window is one, but of all roots together. Each receiver says how
 *     far roots may go: as far as chunks have come here, and a window more, which may be on its way through the last
 *     port in front of this host. The least of all ranks goes up a tree (CREDIT; plan/report.h) and down another one
 *     (GRANT; plan/tree.h), and is every root's limit. So the slowest port clocks the roots: no port is sent more than
 *     a window at once, whatever its rate is or becomes, and nobody has to know that rate.
 *   - The *pace*: a rate that all roots keep to together, where the user gives one (TUTTI_BANDWIDTH).
 *
 * The paper divides the link's rate among the roots that send at once (Khalilov et al., section IV-A: B_link / M), and
 * takes B_link for known; the window is ours.
 *
 * "Come" is the highest chunk seen, not the number of chunks: a lost chunk holds nobody up. Credit is advice, never
 * needed for correctness: a root that hears nothing for a while goes on by a window.
 */
#ifndef TT_PROTO_FLOW_H
#define TT_PROTO_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/report.h"
#include "proto/action.h"
#include "proto/link.h"
#include "proto/receive.h"

enum { TT_FLOW_ALL = 0xFFFFFFFF /* turns: to the end */, TT_FLOW_REPORTS = 2 /* a window */ };

/* --- One collective ----------------------------------------------------------------------------------------------- */

/*
 * Roots send in M lanes side by side, in each lane one after the other (plan/chain.h; unless the user says otherwise
 * every root is a lane of its own). Limits count turns: in every turn one lane sends one chunk, lane 0 first, so that
 * turn t is chunk t / M of lane t % M. So a window may be smaller than a chunk for each root.
 */
struct tt_flow {
    uint64_t turns; /* that the collective takes */
    bool watches;   /* what comes tells something of the link */
    bool enabled;   /* there is more to send than the least window */

    bool counted; /* among the link's users */
    struct tt_turn turn;
    uint32_t agreed;   /* the turns of the least window of all ranks; 0: not known. From here on a run's own. */
    uint32_t own;      /* turns that this rank allows */
    uint32_t reported; /* told to the parent; at vertex 0: granted to all */
    uint32_t granted;  /* heard, at a root */
    uint32_t children[TT_REPORT_MOST_CHILDREN];
    uint32_t looked, come, remote; /* at the last look: chunks received, that had come, and of these over the link */
    uint32_t due;                  /* how many will have been received when there is more to tell; TT_FLOW_ALL: none */
    uint32_t seen, lost;           /* chunks that had come, and that were lost of these, as far as that is known */
    uint32_t missing;              /* of those that the link has been told of */
    uint32_t memory;               /* the part of the link's calm in which that was */
    bool is_dry;                   /* all has come that most roots may send: counted by the link */
    uint64_t begun_ns, found_ns;   /* the first look; how much later the link's rate was known; 0: never */
};

void tt_flow_init(struct tt_collective *collective);
void tt_flow_reset(struct tt_collective *collective);

/* The window of this rank, in chunks, as it is told in the barrier. */
uint32_t tt_flow_window(const struct tt_collective *collective);

/* Whether it is more than roots may send at once, as far as that is known. */
bool tt_flow_is_long(const struct tt_collective *collective);

/* Everybody has posted a collective that this rank is to release: whether it may (tt_link_take_turn). Asked again until
 * it may. */
bool tt_flow_begin(struct tt_collective *collective);

/* It is over, or will never begin. */
void tt_flow_end(struct tt_collective *collective);

/*
 * The barrier is over: roots may send as far as the least window of all ranks, which everybody knows that has heard the
 * release. NULL: this rank has not. Then it counts on the least that there is, and reports every turn, as it does not
 * know what a step is; and this is called again should the release come.
 */
void tt_flow_start(struct tt_collective *collective, const struct tt_release *least);

/* Nothing more is taken from the multicast queues. */
void tt_flow_stop(struct tt_collective *collective);

/* CREDIT: false if the sender is no child, or nobody waits for any. */
bool tt_flow_credit(struct tt_collective *collective, const struct tt_frame *frame);

/* GRANT: keeps it and passes it on; false if the sender is not the parent, or nobody waits for any. */
bool tt_flow_grant(struct tt_collective *collective, const struct tt_frame *frame, struct tt_actions *actions);

/* Looks at what has come, and tells the parent, or the roots, what is new. */
void tt_flow_update(struct tt_collective *collective, uint64_t now_ns, struct tt_actions *actions);

/* For how long a root hears nothing before it goes on by itself. Where receive queues hold less than the least window
 * it goes on by less each time, and so waits for a shorter time. */
uint64_t tt_flow_patience(const struct tt_collective *collective);

/* A root has heard nothing for so long: it goes on by its window. The least of all would be kinder to that receiver,
 * but where reports are lost again and again, as in a port that others fill, it is all that passes. */
void tt_flow_stalled(struct tt_collective *collective);

/* How many of the own block's chunks, of all subgroups together, may have been sent by now. */
uint32_t tt_flow_limit(const struct tt_collective *collective);

/* After how many turns there is something to tell. */
uint32_t tt_flow_step(const struct tt_collective *collective);

/* After how many more chunks there is, if they go on coming as they do; 0: it may be now. TT_FLOW_ALL: nothing more. */
uint32_t tt_flow_due(const struct tt_collective *collective);

/* Asserts what always holds. */
void tt_flow_check(const struct tt_collective *collective);

#endif
