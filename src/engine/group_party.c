/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group as one of the engine's parties. Normal path: posts, frames, the ends of gets and peers that are down become
 * steps of the member machine; what the engine asks before it sleeps is read off the group. Frames that do not decode,
 * or name another rank than the one that they come from, are dropped, and the log says so.
 */
#include <assert.h>

#include "base/log.h"
#include "engine/group.h"
#include "engine/relay.h"
#include "engine/request.h"
#include "engine/triggers.h"
#include "proto/moderation.h"

static const struct tt_party_ops ops;

static struct tt_group *group_of(struct tt_party *party)
{
    assert(party->ops == &ops);
    return (struct tt_group *)party;
}

static const struct tt_group *const_group_of(const struct tt_party *party)
{
    assert(party->ops == &ops);
    return (const struct tt_group *)party;
}

/* --- What comes --------------------------------------------------------------------------------------------------- */

static void take_post(struct tt_party *party, struct tt_post *post, uint64_t now_ns)
{
    struct tt_group *group = group_of(party);
    struct tt_request *request = (struct tt_request *)post;
    struct tt_member_event event = {.type = TT_MEMBER_POST, .now_ns = now_ns, .collective = &request->collective};

    assert(request->group == group);
    assert(!atomic_load_explicit(&request->done, memory_order_relaxed));
    assert(request->gets == 0);
    assert(atomic_load_explicit(&request->transmit.state, memory_order_relaxed) != TT_TRANSMIT_ACTIVE);
    request->freezing = request->sent = false;
    request->failed_runs = 0;
    request->transmit.turn = 0;
    request->transmit.posted = 0;
    atomic_store_explicit(&request->transmit.limit, 0, memory_order_relaxed);
    request->transmit.copied_bytes = 0;
    request->transmit.due_ns = TT_NEVER;
    for (uint32_t s = 0; s < request->transmit.subgroups; s++) {
        request->transmit.cursors[s] = 0;
    }
    atomic_store_explicit(&request->transmit.state, TT_TRANSMIT_IDLE, memory_order_relaxed);
    atomic_store_explicit(&request->transmit.canceled, false, memory_order_relaxed);
    request->relay_started = request->relay_offered = request->relay_done = false;
    tt_combine_post(request);
    if (request->carrier != NULL) {
        request->carrier->post(request);
    }
    request->next = NULL;
    *group->active_end = request;
    group->active_end = &request->next;
    group->heard_ns = now_ns;
    tt_group_begin(group, &event);
}

static void take_frame(struct tt_party *party, const struct tt_origin *origin, const uint8_t *bytes,
                       uint32_t length_bytes)
{
    struct tt_group *group = group_of(party);
    struct tt_frame frame;
    struct tt_member_event event = {.type = TT_MEMBER_FRAME, .now_ns = tt_engine_now(group->engine), .frame = &frame};

    if (!tt_frame_decode(bytes, length_bytes, &frame)) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "dropped a malformed frame of %u bytes", length_bytes);
        return;
    }
    tt_group_count(&group->frames_received, 1);
    tt_group_count(&group->frame_bytes_received, length_bytes);
    if (!tt_directory_trusts(&group->directory, origin, frame.source)) {
        tt_group_count(&group->drops_sender, 1);
        return;
    }
    if (frame.type == TT_FRAME_KEPT && group->engine->workers == NULL) {
        /* What the left neighbour has been sent this rank has, too: where ranks are more than cores it may have come
         * long ago, and nobody has looked. Else it is fetched. */
        group->stepping_needed |= tt_group_receive(group, event.now_ns);
    }
    tt_group_step(group, &event);
}

/* A collective that reads has not finished, so its number is still its own. */
static struct tt_request *find_reader(const struct tt_group *group, uint64_t number)
{
    uint64_t oldest = group->member.oldest;
    uint64_t sequence = oldest + (number - oldest) % (UINT64_C(1) << (TT_PARTY_PAYLOAD_BITS - TT_REQUEST_RUN_BITS));
    const struct tt_collective *collective = tt_member_running(&group->member, sequence);

    return collective != NULL ? collective->owner : NULL;
}

static void get_done(struct tt_party *party, uint64_t payload, tutti_status status)
{
    struct tt_group *group = group_of(party);
    struct tt_request *request = find_reader(group, payload >> TT_REQUEST_RUN_BITS);
    struct tt_member_event event = {.type = TT_MEMBER_GOT,
                                    .now_ns = tt_engine_now(group->engine),
                                    .run = payload % (1U << TT_REQUEST_RUN_BITS),
                                    .status = status};

    assert(request != NULL);
    assert(request->gets > 0);
    event.collective = &request->collective;
    request->gets--;
    if (status != TUTTI_OK && status != TUTTI_ERR_PEER_FAILED && status != TUTTI_ERR_CANCELED) {
        group->trouble = status; /* nobody else says so, and those chunks will not come */
    }
    tt_group_step(group, &event);
}

static void peer_down(struct tt_party *party, const struct tt_peer *peer)
{
    struct tt_group *group = group_of(party);

    assert(peer != NULL); /* as are those that are not connected */
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (group->peers[rank] == peer) {
            struct tt_member_event event = {
                .type = TT_MEMBER_PEER_DOWN, .now_ns = tt_engine_now(group->engine), .rank = rank};

            if (peer->starved) {
                struct tt_member_event fail = {.type = TT_MEMBER_FAIL,
                                               .now_ns = event.now_ns,
                                               .status = TUTTI_ERR_NO_RESOURCE,
                                               .rank = group->rank,
                                               .noticed_by = group->rank};

                tt_group_step(group, &fail);
            }
            tt_group_step(group, &event);
        }
    }
}

static void pass_turn(struct tt_party *party, const struct tt_network *network)
{
    struct tt_group *group = group_of(party);

    group->stepping_needed |= group->network == network && group->active != NULL;
}

/* --- Progress ----------------------------------------------------------------------------------------------------- */

static bool progress(struct tt_party *party, uint64_t now_ns, bool looks)
{
    return tt_group_progress(group_of(party), now_ns, looks);
}

static bool after_frames(struct tt_party *party, uint64_t now_ns, bool looked)
{
    struct tt_group *group = group_of(party);
    bool sent;

    (void)now_ns, (void)looked; /* what is due was before the frames */
    sent = group->engine->sends && group->active != NULL && tt_group_send(group, tt_engine_now(group->engine));
    return tt_relays_progress(group) || sent;
}

static uint64_t deadline(const struct tt_party *party)
{
    const struct tt_group *group = const_group_of(party);
    uint64_t deadline_ns = party->deadline_ns;

    if (group->stepping_needed || tt_relays_have_moved(group)) {
        return 0;
    }
    for (const struct tt_request *request = tt_request_in_flight(group->active); request != NULL;
         request = tt_request_in_flight(request->next)) {
        if (!tt_request_has_sender(request) && request->transmit.due_ns < deadline_ns) {
            deadline_ns = request->transmit.due_ns;
        }
    }
    return deadline_ns;
}

/* Where chunks come without a descriptor, or workers take them, a group does not fall asleep. */
static bool may_sleep(const struct tt_party *party)
{
    const struct tt_group *group = const_group_of(party);

    if (group->active != NULL || group->stepping_needed || party->deadline_ns != TT_NEVER ||
        tt_relays_have_moved(group) || group->engine->workers != NULL) {
        return false;
    }
    return tt_group_is_empty(group);
}

static enum tt_party_awaits awaits(const struct tt_party *party)
{
    const struct tt_group *group = const_group_of(party);
    bool steps = tt_triggers_are_under_way(group->triggers); /* and nothing that is long and moved otherwise */

    for (const struct tt_request *request = tt_request_in_flight(group->active); request != NULL;
         request = tt_request_in_flight(request->next)) {
        const struct tt_method_row *row = tt_method_row(request->collective.config.terms.method);

        if (request->freezing) {
            return TT_PARTY_AWAITS_WORKER;
        }
        steps = steps && (row->by_triggers || row->by_parts || row->keeps_copies);
    }
    if (steps) {
        return TT_PARTY_AWAITS_STEPS;
    }
    return group->active == NULL           ? TT_PARTY_AWAITS_NOTHING
           : tt_group_awaits_little(group) ? TT_PARTY_AWAITS_LITTLE
                                           : TT_PARTY_AWAITS_MUCH;
}

static uint64_t moderation(struct tt_party *party, uint64_t now_ns)
{
    return tt_moderation(&group_of(party)->member, now_ns);
}

static bool workers_want(const struct tt_party *party)
{
    const struct tt_group *group = const_group_of(party);

    for (uint32_t s = 0; s < group->queue_count; s++) {
        if (atomic_load_explicit(&group->queues[s].receiver.attention, memory_order_seq_cst) != 0) {
            return true;
        }
    }
    for (const struct tt_request *request = tt_request_in_flight(group->active); request != NULL;
         request = tt_request_in_flight(request->next)) {
        if (!request->sent && request->collective.sending.transmitting &&
            atomic_load_explicit(&request->transmit.state, memory_order_seq_cst) == TT_TRANSMIT_DONE) {
            return true;
        }
    }
    return false;
}

static void check(const struct tt_party *party)
{
    tt_group_check(const_group_of(party));
}

/* --- Listing ------------------------------------------------------------------------------------------------------ */

static const struct tt_party_ops ops = {.magic = TT_FRAME_MAGIC,
                                        .post = take_post,
                                        .frame = take_frame,
                                        .done = get_done,
                                        .peer_down = peer_down,
                                        .pass_turn = pass_turn,
                                        .progress = progress,
                                        .after_frames = after_frames,
                                        .deadline = deadline,
                                        .may_sleep = may_sleep,
                                        .awaits = awaits,
                                        .moderation = moderation,
                                        .workers_want = workers_want,
                                        .check = check};

tutti_status tt_group_list(struct tt_group *group)
{
    tutti_status status;

    group->party.ops = &ops;
    status = tt_party_list(&group->engine->parties, &group->party, NULL);
    if (status == TUTTI_OK) {
        tt_group_note_owes(group);
    }
    return status;
}

void tt_group_unlist(struct tt_group *group)
{
    tt_party_unlist(&group->engine->parties, &group->party);
}

struct tt_group *tt_group_of(struct tt_party *party)
{
    return party->ops == &ops ? group_of(party) : NULL;
}
