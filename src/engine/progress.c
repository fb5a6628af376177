/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Progress. Normal path: take over what applications posted, let every party that is awake receive, send and step, and
 * hand out the events of the p2p providers. Frames, gets and immediates of nobody that is here are dropped, but for the
 * first word of members of an object group that has failed.
 */
#include <assert.h>
#include <stdio.h>

#include "base/log.h"
#include "engine/engine.h"
#include "engine/idle.h"
#include "engine/objects.h"
#include "wire/frame_header.h"

enum { P2P_EVENTS = 64, P2P_ROUNDS = 4 };

#define AROUND_NS (200 * TT_NS_PER_US)

/* At the time of all that follows in this progress: a machine's time does not go back. */
static bool take_posted(struct tt_engine *engine, uint64_t now_ns)
{
    struct tt_task *task = tt_tasks_take(&engine->posted);
    bool any = task != NULL;

    while (task != NULL) {
        struct tt_post *post = (struct tt_post *)task;

        task = task->next;
        assert(post->party->ops->post != NULL);
        post->party->ops->post(post->party, post, now_ns);
    }
    return any;
}

static void take_frame(struct tt_engine *engine, const struct tt_p2p_event *event)
{
    const struct tt_origin origin = {.peer = (const struct tt_peer *)(uintptr_t)event->peer_cookie,
                                     .address = event->address,
                                     .address_bytes = event->address_bytes};
    struct tt_party *party = NULL;
    uint16_t magic = 0;
    uint64_t key = 0;

    if (tt_frame_header_address(event->data, event->length_bytes, &magic, &key)) {
        party = tt_party_with_key(&engine->parties, magic, key);
    }
    if (party == NULL && magic == TT_OBJECT_FRAME_MAGIC &&
        tt_objects_answer_late(engine, (struct tt_peer *)(uintptr_t)event->peer_cookie, key, event->data,
                               event->length_bytes)) {
        return;
    }
    if (party == NULL) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "dropped a frame of %u bytes for a group that is not here",
               event->length_bytes);
        return;
    }
    party->ops->frame(party, &origin, event->data, event->length_bytes);
}

static void take_done(struct tt_engine *engine, const struct tt_p2p_event *event)
{
    struct tt_party *party = tt_party_with_number(&engine->parties, event->cookie);

    if (party != NULL) {
        party->ops->done(party, tt_party_payload(event->cookie), event->status);
    }
}

static void take_immediate(struct tt_engine *engine, const struct tt_p2p_event *event)
{
    struct tt_party *party = tt_party_with_number(&engine->parties, event->immediate);

    if (party != NULL && party->ops->immediate != NULL) {
        party->ops->immediate(party, event->immediate, event->data, event->length_bytes);
    }
}

static void peer_down(struct tt_engine *engine, struct tt_network *network, struct tt_peer *peer)
{
    assert(peer != NULL);
    peer->down = true; /* a group that is created meanwhile makes a new connection */
    for (struct tt_party *party = engine->parties.first; party != NULL; party = party->next) {
        party->ops->peer_down(party, peer);
    }
    tt_network_peer_down(network, peer);
}

static void lose(struct tt_engine *engine, struct tt_network *network, const struct tt_p2p_event *event)
{
    struct tt_peer *peer = (struct tt_peer *)(uintptr_t)event->peer_cookie;

    snprintf(peer->reason, sizeof peer->reason, "%.*s", (int)event->length_bytes,
             event->data != NULL ? (const char *)event->data : "");
    peer->starved = event->status == TUTTI_ERR_NO_RESOURCE;
    peer_down(engine, network, peer);
}

/* Groups that share a connection which another one gave up hear of it as of a peer that is down. */
static bool tell_abandoned(struct tt_engine *engine, struct tt_network *network)
{
    bool any = network->abandons;

    while (network->abandons) {
        struct tt_peer *peer = network->peers;

        while (peer != NULL && !peer->abandoned) {
            peer = peer->next;
        }
        if (peer == NULL) {
            network->abandons = false;
        } else {
            assert(peer->connection == NULL);
            peer->abandoned = false;
            peer_down(engine, network, peer);
        }
    }
    return any;
}

/* Whether what is sent from now on may wait for more; what waits goes when it may not. */
static void batch(struct tt_network *network, bool on)
{
    network->p2p->batches = on;
    if (!on && network->p2p->has_batch) {
        network->p2p->ops->flush(network->p2p);
    }
}

static void batch_all(struct tt_engine *engine, bool on)
{
    for (uint32_t i = 0; i < engine->network_count; i++) {
        batch(engine->networks[i], on);
    }
}

/* What waits for more goes at once, and what follows may wait again. */
static void flush_all(struct tt_engine *engine)
{
    for (uint32_t i = 0; i < engine->network_count; i++) {
        if (engine->networks[i]->p2p->has_batch) {
            batch(engine->networks[i], false);
            batch(engine->networks[i], true);
        }
    }
}

static bool take_p2p_events(struct tt_engine *engine, struct tt_network *network)
{
    struct tt_p2p_event events[P2P_EVENTS];
    uint32_t count = P2P_EVENTS;
    bool any = false;

    for (uint32_t round = 0; round < P2P_ROUNDS && count > 0 && !engine->ended && (round == 0 || !engine->sends);
         round++) {
        batch(network, false); /* what progress moves may be much, and take its time */
        count = network->p2p->ops->progress(network->p2p, events, P2P_EVENTS);
        batch(network, true);
        assert(count <= P2P_EVENTS);
        for (uint32_t i = 0; i < count; i++) {
            any = true;
            switch (events[i].type) {
            case TT_P2P_FRAME:
                take_frame(engine, &events[i]);
                break;
            case TT_P2P_DONE:
                take_done(engine, &events[i]);
                break;
            case TT_P2P_PEER_DOWN:
#ifdef TT_FAULT_ONE_DOWN_AT_ONCE
                if (i > 0 && events[i - 1].type == TT_P2P_PEER_DOWN) {
                    break;
                }
#endif
                lose(engine, network, &events[i]);
                break;
            case TT_P2P_IMMEDIATE:
                take_immediate(engine, &events[i]);
                break;
            }
        }
    }
    return any;
}

/* What nobody asks the p2p providers for. */
static void tend(struct tt_engine *engine, uint64_t now_ns)
{
    for (uint32_t i = 0; i < engine->network_count; i++) {
        struct tt_network *network = engine->networks[i];
        bool was_due = network->tend_ns <= now_ns;

        network->tend_ns = network->p2p->ops->tend(network->p2p, now_ns);
        if (was_due) {
            struct tt_p2p_counters counters;

            network->p2p->ops->counters(network->p2p, &counters);
            atomic_store_explicit(&network->probes_sent, counters.probes_sent, memory_order_relaxed);
        }
    }
}

static bool progress_parties(struct tt_engine *engine, uint64_t now_ns, bool looks)
{
    bool any = false;

    for (struct tt_party *party = engine->parties.awake; party != NULL; party = party->next_awake) {
        any |= party->ops->progress != NULL && party->ops->progress(party, now_ns, looks);
    }
    return any;
}

static bool progress_after_frames(struct tt_engine *engine, uint64_t now_ns, bool looked)
{
    bool any = false;

    for (struct tt_party *party = engine->parties.awake; party != NULL; party = party->next_awake) {
        any |= party->ops->after_frames(party, now_ns, looked);
    }
    return any;
}

/* `looks`: at what has come, too. */
static bool move(struct tt_engine *engine, uint64_t now_ns, bool looks)
{
    bool any, frames;

    assert(!engine->carries_out);
    engine->ended = engine->announced = engine->chunks_wait = false;
    batch_all(engine, true);
    any = take_posted(engine, now_ns);
    if (any) { /* others wait for these frames, and not for what is seen to now */
        flush_all(engine);
    }
    if (looks && engine->wakeup != NULL && engine->parties.listed > 1 && now_ns - engine->around_ns >= AROUND_NS) {
        engine->around_ns = now_ns;
        tt_engine_look_around(engine);
    }
    /* Chunks before frames: when the frame that says "all is sent" is looked at, what came before it has been placed.
     */
    any |= progress_parties(engine, now_ns, looks);
    engine->sends = false;
    /* And whoever waits for a request that has ended is not kept by what else may have come. */
    frames = looks && !engine->chunks_wait && (!engine->ended || now_ns - engine->frames_ns >= TT_ENGINE_LOOK_NS);
    if (frames) {
        engine->ended = false;
        engine->frames_ns = now_ns;
    }
    for (uint32_t i = 0; i < engine->network_count; i++) {
        any |= frames && take_p2p_events(engine, engine->networks[i]);
        any |= tell_abandoned(engine, engine->networks[i]);
    }
    if (engine->sends) { /* frames before chunks: others send when they have them */
        flush_all(engine);
    }
    any |= progress_after_frames(engine, now_ns, frames);
    any |= engine->announced; /* a step that nothing has come for may be the last one */
    batch_all(engine, false);
    tend(engine, now_ns);
    if (engine->wakeup != NULL) {
        tt_parties_fall_asleep(&engine->parties);
    }
    if (any) {
        tt_engine_note_work(engine, now_ns);
    }
    return any;
}

bool tt_engine_progress(struct tt_engine *engine)
{
    engine->looked_ns = tt_engine_now(engine);
    engine->begun = false;
    return move(engine, engine->looked_ns, true);
}

bool tt_engine_begin(struct tt_engine *engine)
{
    uint64_t now_ns = tt_engine_now(engine);

    assert(now_ns >= engine->looked_ns);
    if (engine->wakeup == NULL || (!engine->controlled && now_ns - engine->looked_ns >= TT_ENGINE_LOOK_NS)) {
        return tt_engine_progress(engine);
    }
    engine->begun = true;
    return move(engine, now_ns, false);
}

uint64_t tt_engine_deadline(const struct tt_engine *engine)
{
    uint64_t deadline_ns = TT_NEVER;

    for (uint32_t i = 0; i < engine->network_count; i++) {
        uint64_t tend_ns = engine->networks[i]->tend_ns;

        deadline_ns = tend_ns < deadline_ns ? tend_ns : deadline_ns;
    }
    for (const struct tt_party *party = engine->parties.awake; party != NULL && deadline_ns > 0;
         party = party->next_awake) {
        uint64_t own_ns = party->ops->deadline(party);

        deadline_ns = own_ns < deadline_ns ? own_ns : deadline_ns;
    }
    return deadline_ns;
}
