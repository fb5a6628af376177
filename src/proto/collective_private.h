/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the collective machine share. */
#ifndef TT_PROTO_COLLECTIVE_PRIVATE_H
#define TT_PROTO_COLLECTIVE_PRIVATE_H

#include <assert.h>

#include "plan/dissemination.h"
#include "proto/collective.h"

static inline uint32_t tt_collective_left(const struct tt_collective *c)
{
    return tt_rank_subtract(c->config.rank, 1, c->config.size);
}

static inline uint32_t tt_collective_right(const struct tt_collective *c)
{
    return tt_rank_add(c->config.rank, 1, c->config.size);
}

/* Where a rank is in a tree of the root's, and who is there. */
static inline uint32_t tt_collective_vertex(const struct tt_collective *c, uint32_t rank)
{
    return tt_rank_subtract(rank, c->config.terms.root, c->config.size);
}

static inline uint32_t tt_collective_rank(const struct tt_collective *c, uint32_t vertex)
{
    return tt_rank_add(vertex, c->config.terms.root, c->config.size);
}

static inline struct tt_frame *tt_collective_send(struct tt_collective *c, enum tt_frame_type type, uint32_t to,
                                                  struct tt_actions *actions)
{
    assert(to < c->config.size && to != c->config.rank);
    return tt_actions_send(actions, c, type, to, &c->template);
}

static inline bool tt_collective_has_block(const struct tt_collective *c)
{
    return c->own_root_index != TT_RANK_NONE;
}

/* Whether the own block is still being made. */
static inline bool tt_collective_awaits_block(const struct tt_collective *c)
{
    return c->way->mover->makes_block && !c->relay.relayed;
}

/* Whether one rank hears from everybody before anything is multicast. */
static inline bool tt_collective_gathers(const struct tt_collective *c)
{
    return c->way->gate->gathers || c->way->mover->gathers;
}

/* --- collective.c ------------------------------------------------------------------------------------------------- */

/* Chunks that the kernels have placed so far. */
uint32_t tt_collective_received(const struct tt_collective *c);

/* To a rank that may not hear the release: the barrier is over. */
static inline void tt_collective_send_open(struct tt_collective *c, uint32_t to, struct tt_actions *actions)
{
    struct tt_frame *frame = tt_collective_send(c, TT_FRAME_OPEN, to, actions);

    frame->body.open.known = c->everybody;
    frame->body.open.least = c->least;
}

/* The gate is open: data moves. */
void tt_collective_open(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions);

/* When the feeding threads should wake the control context. */
void tt_collective_set_notify(struct tt_collective *c);

void tt_collective_freeze(struct tt_collective *c, struct tt_actions *actions);
void tt_collective_enter_fetch(struct tt_collective *c, struct tt_actions *actions);
void tt_collective_enter_handshake(struct tt_collective *c, struct tt_actions *actions);
void tt_collective_finish(struct tt_collective *c, tutti_status status, uint32_t rank, struct tt_actions *actions);

static inline bool tt_collective_buffers_are_free(const struct tt_collective *c)
{
    return (c->receiving.frozen || !c->receiving.published) && (!c->sending.transmitting || c->sending.sent) &&
           c->fetch.active_runs == 0 && (!c->relay.relaying || c->relay.relayed);
}

/* Whether a chunk of another host has come through the kernel; while nothing is fetched. */
bool tt_collective_has_heard(const struct tt_collective *c);

/* --- gate.c ------------------------------------------------------------------------------------------------------- */

/* Counts from now on, or from when the own block is made, until what has not come is taken for lost. */
void tt_collective_set_cutoff(struct tt_collective *c, uint64_t now_ns);

/* Looks whether the release has come; it may come behind what else says that the barrier is over. */
void tt_collective_note_release(struct tt_collective *c, uint64_t now_ns);

/* --- flow_window.c ------------------------------------------------------------------------------------------------ */

/* What a look at the lanes finds. */
struct tt_flow_view {
    uint64_t sum;    /* chunks that have come, in lanes that count and are not through */
    uint32_t lanes;  /* these */
    uint32_t dry;    /* of them: those of which all has come that was allowed */
    uint32_t come;   /* chunks of all lanes; a lost one has come when a later one has */
    uint32_t remote; /* of those, which came over the link */
    uint32_t active; /* all lanes that are not through, also those that do not count */
};

static inline uint32_t tt_flow_wire_bytes(const struct tt_collective *c)
{
    return c->config.terms.chunk_bytes + TT_PACER_OVERHEAD_BYTES;
}

/* Collectives that share the window, this one among them. */
static inline uint32_t tt_flow_users(const struct tt_collective *c)
{
    return c->config.link->users + !c->flow.counted;
}

/* Makes the link's window fit what has come. */
void tt_flow_adapt(struct tt_collective *c, const struct tt_flow_view *view, uint64_t now_ns);

/* What has come since the last look, and whether roots have to wait. */
void tt_flow_note_come(struct tt_collective *c, const struct tt_flow_view *view, uint64_t now_ns);
void tt_flow_note_dry(struct tt_collective *c, bool is_dry);

/* --- collective_failure.c ----------------------------------------------------------------------------------------- */

void tt_collective_on_fail(struct tt_collective *c, const struct tt_collective_event *event,
                           struct tt_actions *actions);

/* In FAILING. */
void tt_collective_advance_failing(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions);

/* Whether there are reads that will be waited for until the patience ends. */
bool tt_collective_needs_patience(const struct tt_collective *c);

/* --- mover_relay.c ------------------------------------------------------------------------------------------------ */

/* Has somebody else begin to move the data, if that has not gone ahead. */
void tt_collective_relay(struct tt_collective *c, struct tt_actions *actions);

/* --- mover_chunks.c ----------------------------------------------------------------------------------------------- */

/* What chunks and reads have in common, before and after what is here is served. */
void tt_collective_move_chunks(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions);
void tt_collective_end_chunks(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions);

/* FETCH or AVAILABLE; false if it is neither, or out of turn. */
bool tt_collective_note_fetch(struct tt_collective *c, const struct tt_frame *frame);

/* --- All ---------------------------------------------------------------------------------------------------------- */

/* Whether the left neighbour has been asked for data. */
static inline bool tt_collective_has_fetched(const struct tt_collective *c)
{
    return c->fetch.scan_subgroup > 0 || c->fetch.scan_psn > 0;
}

/* How many roots the collective has. */
static inline uint32_t tt_collective_roots(const struct tt_collective *c)
{
    return tt_terms_roots(&c->config.terms, c->config.size);
}

/* Whether a root is on this rank's host. */
static inline bool tt_collective_root_is_near(const struct tt_collective *c, uint32_t root_index)
{
    return tt_is_same_host(c->config.hosts, tt_collective_roots(c) > 1 ? root_index : c->config.terms.root,
                           c->config.rank);
}

#endif
