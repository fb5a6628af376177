/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Moderation. Normal path: the pace at which a Broadcast's chunks have come of late says when a quarter of those that
 * are missing will have, so looks come closer together towards the end; and when there is more to tell its roots, who
 * may wait for that, and for nothing before it. If they come slowly, or have ceased to, there
 * is nothing to be saved, and their next one is waited for. Later Broadcasts of the same root come behind the first one
 * (proto/member_turn.c), and have no say. Anything else that waits for chunks wants them at once.
 */
#include "proto/moderation.h"

#include <assert.h>

#include "base/least.h"
#include "proto/collective_private.h"
#include "proto/member_private.h"

enum {
    MOST_NS = 4000 * 1000,
    LEAST_NS = 100 * 1000, /* less is not worth the timer */
    WINDOW_CHUNKS = 16,    /* to know the pace from */
    SLOW_NS = 500 * 1000,  /* a chunk */
    PART_LEFT = 4,
    MOST_CHUNKS = 32
};

/* Nanoseconds a chunk, of late; 0: not known. */
static uint64_t pace_of(struct tt_collective *c, uint32_t received, uint64_t now_ns)
{
    uint32_t since = received - c->moderation.received;
    uint64_t taken_ns = now_ns - c->moderation.since_ns;

    assert(received >= c->moderation.received);
    if (c->moderation.since_ns == 0) {
        c->moderation.since_ns = now_ns;
        c->moderation.received = received;
    } else if (since >= WINDOW_CHUNKS || taken_ns > WINDOW_CHUNKS * (uint64_t)SLOW_NS) {
        c->moderation.chunk_ns = since > 0 ? taken_ns / since : SLOW_NS;
        c->moderation.since_ns = now_ns;
        c->moderation.received = received;
    }
    return c->moderation.chunk_ns;
}

/* Whether its roots do not miss what this rank says of single chunks. */
static bool is_long(const struct tt_collective *c)
{
    return tt_collective_roots(c) == 1 || tt_flow_is_long(c);
}

/* Until there is something to tell; with a look on the way, so that little is left to place by then. */
static uint32_t chunks_to_tell(const struct tt_collective *c)
{
    uint32_t due = tt_flow_due(c), half = tt_flow_step(c) / 2;

    return due != TT_FLOW_ALL && due > half + half / 2 ? due - half : due;
}

static uint64_t moderation_of(struct tt_collective *c, uint64_t now_ns)
{
    uint32_t most = c->flow.enabled ? (uint32_t)tt_least(chunks_to_tell(c), MOST_CHUNKS) : MOST_CHUNKS;
    uint32_t received = tt_collective_received(c), chunks = (c->expected - received) / PART_LEFT;
    uint64_t chunk_ns, moderated_ns;

    assert(received <= c->expected);
    if (!is_long(c) || received == 0) {
        return 0;
    }
    chunk_ns = pace_of(c, received, now_ns);
    chunks = chunks < most ? chunks : most;
    moderated_ns = chunk_ns < SLOW_NS ? chunk_ns * chunks : 0;
    return moderated_ns < LEAST_NS ? 0 : moderated_ns < MOST_NS ? moderated_ns : MOST_NS;
}

uint64_t tt_moderation(struct tt_member *member, uint64_t now_ns)
{
    uint64_t moderated_ns = TT_MODERATION_NONE;
    uint32_t root = TT_RANK_NONE; /* whose chunks come */

    for (uint64_t sequence = member->oldest; sequence < tt_member_end(member); sequence++) {
        struct tt_collective *c = tt_member_slot_of(member, sequence)->collective;

        if (c == NULL || !c->way->mover->multicasts) {
            continue;
        }
        if (c->sending.transmitting && !c->sending.sent && !c->flow.enabled) {
            return 0;
        }
        if (c->state > TT_COLLECTIVE_RECEIVE) {
            continue; /* frames say the rest */
        }
        if (c->state == TT_COLLECTIVE_RECEIVE && c->way->gate->releases) {
            uint64_t own_ns = moderation_of(c, now_ns);

            moderated_ns = own_ns < moderated_ns ? own_ns : moderated_ns;
            root = c->config.terms.root;
        } else if (c->state == TT_COLLECTIVE_BARRIER && c->flow.enabled && c->config.link->users > 0) {
            continue; /* large, and others fill the link until it is its turn */
        } else if (tt_collective_roots(c) > 1 || !c->way->gate->releases || c->config.terms.root != root) {
            return 0;
        }
    }
    return moderated_ns;
}
