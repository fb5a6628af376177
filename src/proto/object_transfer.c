/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of an object group, in and out.
 *
 * Normal path, in: the plan's receives, of one object after the other, are a list. Its next entry is granted, READY to
 * its sender; an immediate says that the block is in its place. Out: the sends of a lane are a list too, of one object
 * after the other. The next one is started when its block is here, its target is ready for it, and the lane has no put
 * under way. A list of sends and the list of receives at the other end have the transfers between two members in the
 * same order, so places are used in the order in which they were told.
 *
 * So a member waits for one neighbour at a time, and sends to one, as the paper has it (section 4.3), but that a second
 * block may be under way behind the first between the same two. More was tried: to send what comes later while the next
 * one cannot start, and to be ready for two neighbours at once. Blocks that share a port, or take it from the one that
 * is due, come late, and so does all that waits for them: docs/rdmc.md has the figures.
 *
 * Why nothing waits in a circle: of all transfers that have not happened, take the first by object and step. Everything
 * before it has happened, so its block is here; its target has everything from before, so nothing else is granted, and
 * the block is at most ceil(log2 n) - 1 ahead of the lowest one missing; it is granted, and is the first for its
 * target.
 *
 * Failures: a place for another block than the one that is due, or more places than there is credit for, are the
 * neighbour's error. So is a put that is refused there; one that fails with its connection waits for PEER_DOWN.
 */
#include <assert.h>
#include <string.h>

#include "proto/object_private.h"

/* Immediates: the group's number, 16 bits of the object's, 32 of the block's. */
static uint64_t immediate_of(const struct tt_object_group *group, uint64_t object, uint64_t block)
{
    return (uint64_t)group->config.number << 48 | (object & 0xFFFF) << 32 | block;
}

static bool is_here(const struct tt_object *object, uint64_t block)
{
    uint64_t ahead = block - object->lowest;

    return block < object->lowest || (ahead < TT_OBJECT_WINDOW && (object->arrived >> ahead & 1) != 0);
}

bool tt_object_is_whole(const struct tt_object *object)
{
    return object->memory == TT_OBJECT_HERE && object->lowest == object->plan.block_count &&
           object->lanes_loaded == tt_rdmc_lane_count(&object->plan) && object->sends == 0;
}

/* --- In ----------------------------------------------------------------------------------------------------------- */

/* Leave to put goes to one neighbour at a time, and to that one as far as it has credit. */
static bool may_grant(const struct tt_object_group *group, uint32_t peer)
{
    uint32_t granted = group->config.peers[peer].granted;

    return group->granted == granted && granted < group->config.credit;
}

static void grant(struct tt_object_group *group, struct tt_object *object, const struct tt_rdmc_transfer *receive,
                  uint32_t peer, struct tt_object_actions *actions)
{
    struct tt_object_frame *frame =
        tt_object_tell(group, TT_OBJECT_FRAME_READY, receive->peer, group->grant_object, actions);

    assert(receive->block >= object->lowest && !is_here(object, receive->block)); /* each block comes once */
    frame->body.ready.block = receive->block;
    frame->body.ready.address = receive->block * object->block_bytes;
    frame->body.ready.immediate = immediate_of(group, group->grant_object, receive->block);
    object->granted |= UINT64_C(1) << (receive->block - object->lowest);
    object->from[receive->block % TT_OBJECT_WINDOW] = peer;
    group->config.peers[peer].granted++;
    group->granted++;
    group->grant_step = receive->step + 1;
}

void tt_object_grant(struct tt_object_group *group, struct tt_object_actions *actions)
{
    while (group->grant_object < group->offered) {
        struct tt_object *object = tt_object_of(group, group->grant_object);
        struct tt_rdmc_transfer receive;

        if (object->memory != TT_OBJECT_HERE && !tt_object_is_sender(group)) {
            return;
        }
        if (!tt_rdmc_next_receive(&object->plan, group->config.member, group->grant_step, &receive)) {
            group->grant_object++;
            group->grant_step = 0;
            continue;
        }
        uint32_t peer = tt_object_find_peer(group, receive.peer);

        assert(peer != TT_OBJECT_NO_MEMBER); /* tt_object_neighbours has all that the plan speaks of */
        if (receive.block - object->lowest >= TT_OBJECT_WINDOW || !may_grant(group, peer)) {
            return;
        }
        grant(group, object, &receive, peer, actions);
    }
}

/* The object of an immediate, if it is known here; only these can be under way, so 16 bits tell which. */
static bool find_object(const struct tt_object_group *group, uint64_t immediate, uint64_t *sequence)
{
    uint64_t ahead = ((immediate >> 32) - group->completed) & 0xFFFF;

    *sequence = group->completed + ahead;
    return immediate >> 48 == group->config.number && *sequence < group->asked;
}

bool tt_object_arrived(struct tt_object_group *group, uint64_t immediate, uint64_t now_ns)
{
    uint64_t sequence, block = immediate & UINT32_MAX;

    if (!find_object(group, immediate, &sequence)) {
        return false;
    }
    struct tt_object *object = tt_object_of(group, sequence);
    uint64_t ahead = block - object->lowest;

    if (block < object->lowest || ahead >= TT_OBJECT_WINDOW || (object->granted >> ahead & 1) == 0) {
        return false;
    }
    struct tt_object_peer *peer = &group->config.peers[object->from[block % TT_OBJECT_WINDOW]];

    assert(peer->granted > 0 && group->granted > 0);
    peer->granted--;
    group->granted--;
    peer->arrived++;
    peer->heard_ns = now_ns;
    object->granted &= ~(UINT64_C(1) << ahead);
    object->arrived |= UINT64_C(1) << ahead;
    while ((object->arrived & 1) != 0) {
        object->arrived >>= 1;
        object->granted >>= 1;
        object->lowest++;
    }
    return true;
}

/* --- Out ---------------------------------------------------------------------------------------------------------- */

bool tt_object_ready(struct tt_object_group *group, uint32_t index, const struct tt_object_frame *frame)
{
    struct tt_object_peer *peer = &group->config.peers[index];

    if (peer->ready_count == group->config.credit || frame->sequence < group->completed) {
        return false;
    }
    struct tt_object_place *place = &peer->ready[(peer->ready_first + peer->ready_count) % TT_OBJECT_MAX_CREDIT];

    peer->ready_count++;
    place->object = frame->sequence;
    place->block = frame->body.ready.block;
    place->address = frame->body.ready.address;
    place->immediate = frame->body.ready.immediate;
    place->key_bytes = frame->body.ready.key_bytes;
    if (place->key_bytes > 0) {
        memcpy(place->key, frame->body.ready.key, place->key_bytes);
    }
    return true;
}

/* Finds the lane's next send, if it has not. */
static bool find_next(struct tt_object_group *group, uint32_t number)
{
    struct tt_object_lane *lane = &group->lanes[number];

    while (!lane->has_next && lane->object < group->offered) {
        struct tt_object *object = tt_object_of(group, lane->object);
        struct tt_rdmc_transfer send;

        if (!tt_rdmc_next_send(&object->plan, group->config.member, (enum tt_rdmc_lane)number, lane->step, &send)) {
            object->lanes_loaded += number < tt_rdmc_lane_count(&object->plan);
            lane->object++;
            lane->step = 0;
            continue;
        }
        lane->has_next = true;
        lane->next_block = send.block;
        lane->next_peer = tt_object_find_peer(group, send.peer);
        assert(lane->next_peer != TT_OBJECT_NO_MEMBER);
        lane->step = send.step + 1;
        object->sends++;
    }
    return lane->has_next;
}

/* Nothing is under way in the lane, or one put to the same target. */
static bool has_room(const struct tt_object_lane *lane, const struct tt_object_peer *peer)
{
    return lane->puts_under_way == 0 || (lane->puts_under_way == 1 && peer->puts_under_way == 1);
}

static void start(struct tt_object_group *group, uint32_t number, struct tt_object_actions *actions)
{
    struct tt_object_lane *lane = &group->lanes[number];
    struct tt_object_peer *peer = &group->config.peers[lane->next_peer];
    const struct tt_object_place *place = &peer->ready[peer->ready_first];
    const struct tt_object *object = tt_object_of(group, lane->object);
    struct tt_object_action *put = tt_object_actions_add(actions, TT_OBJECT_DO_PUT, peer->member, lane->object);
    uint64_t offset = lane->next_block * object->block_bytes, rest = object->size_bytes - offset;

    assert(lane->has_next && peer->ready_count > 0);
    assert(place->object == lane->object && place->block == lane->next_block);
    assert(offset <= object->size_bytes);
    put->body.put.remote_address = place->address;
    put->body.put.offset_bytes = offset;
    put->body.put.length_bytes = rest < object->block_bytes ? rest : object->block_bytes;
    put->body.put.immediate = place->immediate;
    put->body.put.key = place->key; /* this place of the ring is not written before the next step */
    put->body.put.key_bytes = place->key_bytes;
    peer->ready_first = (peer->ready_first + 1) % TT_OBJECT_MAX_CREDIT;
    peer->ready_count--;
    peer->puts++;
    peer->puts_under_way++;
    peer->lane = number;
    lane->puts_under_way++;
    lane->has_next = false;
}

uint32_t tt_object_put(struct tt_object_group *group, struct tt_object_actions *actions)
{
    for (uint32_t number = 0; number < TT_RDMC_LANE_COUNT; number++) {
        const struct tt_object_lane *lane = &group->lanes[number];

        while (find_next(group, number)) {
            const struct tt_object_peer *peer = &group->config.peers[lane->next_peer];
            const struct tt_object_place *place = &peer->ready[peer->ready_first];

            if (peer->ready_count == 0) {
                break;
            }
            if (place->object != lane->object || place->block != lane->next_block) {
                return peer->member;
            }
            if (!has_room(lane, peer) || !is_here(tt_object_of(group, lane->object), lane->next_block)) {
                break;
            }
            start(group, number, actions);
        }
    }
    return TT_OBJECT_NO_MEMBER;
}

void tt_object_mark_unready(struct tt_object_group *group)
{
    for (uint32_t number = 0; number < TT_RDMC_LANE_COUNT; number++) {
        const struct tt_object_lane *lane = &group->lanes[number];

        if (lane->has_next && is_here(tt_object_of(group, lane->object), lane->next_block)) {
            struct tt_object_peer *peer = &group->config.peers[lane->next_peer];

            peer->is_awaited |= peer->ready_count == 0;
        }
    }
}

void tt_object_put_done(struct tt_object_group *group, const struct tt_object_event *event,
                        struct tt_object_actions *actions)
{
    uint32_t index = tt_object_find_peer(group, event->member);
    struct tt_object_peer *peer = &group->config.peers[index];

    assert(index != TT_OBJECT_NO_MEMBER);
    assert(peer->puts_under_way > 0);
    assert(group->lanes[peer->lane].puts_under_way > 0);
    assert(tt_object_of(group, event->sequence)->sends > 0); /* so that it was not complete without it */
    peer->puts_under_way--;
    group->lanes[peer->lane].puts_under_way--;
    tt_object_of(group, event->sequence)->sends--;
    if (event->status != TUTTI_OK) {
        tt_object_put_failed(group, peer, actions);
    }
    /* Of a failed peer PEER_DOWN tells, behind all that it has said; perhaps it has failed because the group has. Who
     * refuses a put is to blame for that, and for a shortage this member. */
    if (event->status != TUTTI_OK && event->status != TUTTI_ERR_PEER_FAILED) {
        uint32_t culprit = event->status == TUTTI_ERR_PROTOCOL ? event->member : group->config.member;

        tt_object_fail(group, event->status, event->status, culprit, event->now_ns, actions);
    }
}
