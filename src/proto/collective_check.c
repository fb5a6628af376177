/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What always holds of a collective between two steps, from post to end. The surroundings of tests call it after every
 * step; nothing is changed. What only its gate or its mover knows, these check (proto/way.h).
 */
#include <assert.h>

#include "plan/chain.h"
#include "proto/collective_private.h"
#include "proto/eager.h"

/* Whether its bitmaps say what is here: frames and object groups place bytes without them. */
static bool marks_chunks(const struct tt_collective *c)
{
    return c->way->completion != &tt_completion_none;
}

static uint32_t chunks_of(const struct tt_collective *c)
{
    return c->block_chunks * tt_collective_roots(c);
}

static uint32_t marked_chunks(const struct tt_collective *c)
{
    uint32_t sum = 0;

    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        sum += tt_stream_marked(&c->config.streams[s]);
    }
    return sum;
}

/* The own block goes out behind an open gate, with a turn and with room, and only so far as was allowed. */
static void check_sending(const struct tt_collective *c)
{
    if (!c->sending.transmitting) {
        assert(!c->sending.sent);
        assert(!c->sending.canceled);
        return;
    }
    assert(tt_collective_has_block(c));
    assert(c->sending.activated);
    assert(c->sending.has_turn);
    assert(c->sending.may_send || !c->way->gate->is_open);
    assert(c->sending.limit <= tt_collective_send_limit(c)); /* it only ever grows */
    assert(!c->sending.canceled || c->status != TUTTI_OK);
    assert(c->fetch.own_ready == c->sending.sent); /* and nobody reads it before it is in place */
}

static void check_chains(const struct tt_collective *c)
{
    uint32_t done = 0;

    for (uint32_t chain = 0; chain < c->config.terms.chains; chain++) {
        assert(c->config.done[chain] <= 1);
        done += c->config.done[chain];
    }
    assert(c->sending.chains_done == done);
    assert(!c->sending.told_all || done == c->config.terms.chains);
}

/* Each chunk is here once: it is the own one, or the kernel has placed it, or it was fetched. */
static void check_chunks(const struct tt_collective *c)
{
    uint32_t received = tt_collective_received(c), marked = marked_chunks(c);

    assert(received <= c->expected);
    assert(c->receiving.last_received <= received);
    assert(c->moderation.received <= received);
    assert(marked == (tt_collective_has_block(c) ? c->block_chunks : 0) + received + c->fetch.fetched_chunks);
    if (marks_chunks(c) && c->status == TUTTI_OK && c->state >= TT_COLLECTIVE_HANDSHAKE) {
        assert(marked == chunks_of(c));
    }
    for (uint32_t s = 0; s < c->config.terms.subgroups; s++) {
        tt_stream_check(&c->config.streams[s]);
    }
}

/* The kernel writes from PUBLISH to FROZEN, and gets only afterwards. */
static void check_receiving(const struct tt_collective *c)
{
    assert(!c->receiving.published || c->way->mover->multicasts);
    assert(!c->receiving.freezing || c->receiving.published);
    assert(!c->receiving.frozen || c->receiving.freezing || !c->receiving.published);
    if (c->fetch.active_slots > 0) {
        assert(c->receiving.frozen);
        assert(c->state >= TT_COLLECTIVE_FETCH);
    }
    if (c->state == TT_COLLECTIVE_FETCH || c->state == TT_COLLECTIVE_HANDSHAKE) {
        assert(c->receiving.freezing || c->receiving.frozen);
    }
}

static void check_copy(const struct tt_collective *c)
{
    if (!c->way->completion->keeps_copy) {
        assert(!c->copy.asked);
        assert(!c->copy.right_asked);
        return;
    }
    assert(c->copy.offset + tt_terms_bytes(&c->config.terms, c->config.size) <= TT_EAGER_RING_BYTES);
    assert(c->copy.ask_interval_ns <= TT_EAGER_ASK_MOST_NS || c->copy.ask_interval_ns == c->config.ask_ns);
    if (c->status == TUTTI_OK) { /* nobody reads from the buffer itself */
        assert(c->final.received == (c->state >= TT_COLLECTIVE_HANDSHAKE));
    }
}

static void check_relay(const struct tt_collective *c)
{
    assert(!c->relay.relaying || c->way->mover == &tt_mover_relay || c->way->mover->ahead != NULL);
    assert(!c->relay.may_go_ahead || c->way->mover->ahead != NULL);
    assert(!c->way->mover->makes_block || c->sending.limit == 0 || c->relay.relayed);
    assert(!c->relay.relayed || c->relay.relaying);
    assert(!c->relay.unrelaying || (c->relay.relaying && c->status != TUTTI_OK));
}

/* Before it has been started nothing is asked for, and nothing is owed. */
static void check_idle(const struct tt_collective *c)
{
    assert(!c->everybody);
    assert(!c->receiving.published && !c->receiving.frozen);
    assert(!c->sending.activated && !c->sending.transmitting);
    assert(!c->flow.counted && !c->flow.turn.is_on);
    assert(!c->fetch.used);
}

/* The buffers are the user's again: nobody touches them, and the link is free. */
static void check_finished(const struct tt_collective *c)
{
    assert(tt_collective_buffers_are_free(c));
    assert(!c->flow.counted);
    assert(!c->flow.turn.is_on && !c->flow.turn.waits);
    if (c->status == TUTTI_OK) {
        assert(c->failed_rank == TT_RANK_NONE);
        assert(c->sending.sent || !tt_collective_has_block(c) || c->way->mover == &tt_mover_nothing);
        assert(c->final.received || c->way->completion != &tt_completion_handshake);
    }
}

static void check_state(const struct tt_collective *c)
{
    bool fails = c->status != TUTTI_OK;

    assert(c->state <= TT_COLLECTIVE_FINISHED);
    assert(fails == (c->state == TT_COLLECTIVE_FAILING) || c->state == TT_COLLECTIVE_FINISHED);
    assert(fails || !(c->failing.abandoned || c->failing.looks));
    if (c->state == TT_COLLECTIVE_IDLE) {
        check_idle(c);
    } else if (c->state == TT_COLLECTIVE_FINISHED) {
        check_finished(c);
    }
    if (c->state < TT_COLLECTIVE_HANDSHAKE) {
        assert(!c->final.sent);
    }
    /* What is received shares the link's window, until no more is. */
    assert(!c->flow.counted || c->state == TT_COLLECTIVE_RECEIVE);
    assert(!c->flow.turn.waits || c->state == TT_COLLECTIVE_BARRIER);
    assert(!c->flow.turn.is_on || tt_collective_releases(c));
}

void tt_collective_check(const struct tt_collective *c)
{
    assert(c->template.sequence == c->sequence);
    assert(c->template.source == c->config.rank && c->config.rank < c->config.size);
    assert(c->fetch.own_root_index == c->own_root_index);
    check_state(c);
    check_sending(c);
    check_chains(c);
    check_chunks(c);
    check_receiving(c);
    check_copy(c);
    check_relay(c);
    tt_flow_check(c);
    tt_fetch_check(&c->fetch);
    if (c->state == TT_COLLECTIVE_IDLE || c->status != TUTTI_OK) {
        return;
    }
    if (c->way->gate->check != NULL) {
        c->way->gate->check(c);
    }
    if (c->way->mover->check != NULL) {
        c->way->mover->check(c);
    }
}
