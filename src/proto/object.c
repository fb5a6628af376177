/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An object group's machine: the objects themselves, and the step.
 *
 * Normal path: `offered`, `asked` and `completed` count objects; an object passes them in this order. A step notes what
 * the event says and then looks at the whole state (advance): asks for memory, tells who may put here, starts puts,
 * completes what is whole, in order. Offers go down a binomial tree from member 0, and the number of objects that
 * everybody below has comes back up: member 0 offers an object only when there is a place for it everywhere, so an
 * offer never comes too early.
 *
 * Failures: a frame that is out of turn makes the group fail because of its sender; surroundings that refuse memory,
 * because of this member. The rest is in object_failure.c and object_watch.c.
 */
#include "proto/object.h"

#include <assert.h>
#include <string.h>

#include "proto/object_private.h"

void tt_object_group_init(struct tt_object_group *group, const struct tt_object_config *config)
{
    assert(config->member < config->member_count);
    assert(config->credit >= 1 && config->credit <= TT_OBJECT_MAX_CREDIT);
    assert(config->object_count >= 1 && config->object_count <= 32768);
    memset(group, 0, sizeof *group);
    group->config = *config;
    group->failed_member = group->culprit = group->noticed_by = TT_OBJECT_NO_MEMBER;
    group->deadline_ns = UINT64_MAX;
    for (uint32_t i = 0; i < config->peer_count; i++) {
        memset(&config->peers[i], 0, sizeof config->peers[i]);
        assert(i == 0 || config->neighbours[i - 1] < config->neighbours[i]);
        config->peers[i].member = config->neighbours[i];
    }
    group->config.neighbours = NULL;
}

uint32_t tt_object_actions_capacity(const struct tt_object_config *config)
{
    /* To each peer: READY, a put, an ASK or BYE, JOIN, FAIL, ABANDON; for each object: INCOMING, COMPLETE or RELEASE;
     * frames down the tree and of the barrier. */
    return (2 * config->credit + 5) * config->peer_count + 3 * config->object_count + 3 * TT_DISSEMINATION_MAX_ROUNDS +
           16;
}

uint32_t tt_object_find_peer(const struct tt_object_group *group, uint32_t member)
{
    uint32_t low = 0, high = group->config.peer_count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (group->config.peers[middle].member < member) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < group->config.peer_count && group->config.peers[low].member == member ? low : TT_OBJECT_NO_MEMBER;
}

struct tt_object_frame *tt_object_tell(struct tt_object_group *group, enum tt_object_frame_type type, uint32_t to,
                                       uint64_t sequence, struct tt_object_actions *actions)
{
    struct tt_object_frame *frame = &tt_object_actions_add(actions, TT_OBJECT_DO_SEND, to, sequence)->body.frame;

    assert(tt_object_find_peer(group, to) != TT_OBJECT_NO_MEMBER);
    *frame = (struct tt_object_frame){
        .type = type, .source = group->config.member, .group = group->config.group, .sequence = sequence};
    return frame;
}

/* --- The tree ----------------------------------------------------------------------------------------------------- */

bool tt_object_is_child(const struct tt_object_group *group, uint32_t member)
{
    return member != 0 && tt_tree_parent(member) == group->config.member;
}

static bool is_parent(const struct tt_object_group *group, uint32_t member)
{
    return !tt_object_is_sender(group) && tt_tree_parent(group->config.member) == member;
}

void tt_object_tell_children(struct tt_object_group *group, enum tt_object_frame_type type, uint64_t sequence,
                             uint64_t size_bytes, struct tt_object_actions *actions)
{
    for (uint32_t i = 0; i < TT_DISSEMINATION_MAX_ROUNDS - 1; i++) {
        uint32_t child = tt_tree_child(group->config.member, group->config.member_count, i);

        if (child != 0) {
            tt_object_tell(group, type, child, sequence, actions)->body.offer.size_bytes = size_bytes;
        }
    }
}

uint64_t tt_object_reached(const struct tt_object_group *group)
{
    uint64_t least = group->completed;

    for (uint32_t i = 0; i < group->config.peer_count; i++) {
        const struct tt_object_peer *peer = &group->config.peers[i];

        if (tt_object_is_child(group, peer->member) && peer->reached < least) {
            least = peer->reached;
        }
    }
    return least;
}

static void report(struct tt_object_group *group, struct tt_object_actions *actions)
{
    uint64_t count = tt_object_reached(group);

    if (!tt_object_is_sender(group) && count > group->reported) {
        group->reported = count;
        tt_object_tell(group, TT_OBJECT_FRAME_REACHED, tt_tree_parent(group->config.member), count, actions);
    }
    /* The parent may not be there yet, and would not hear it before THERE. */
    if (!tt_object_is_sender(group) && !group->is_joining && !group->has_told_closing &&
        (group->is_closing || group->is_awaited)) {
        group->has_told_closing = true;
        tt_object_tell(group, TT_OBJECT_FRAME_CLOSING, tt_tree_parent(group->config.member), group->offered, actions);
    }
}

/* --- Objects ------------------------------------------------------------------------------------------------------ */

/* Every member comes to the same. */
static uint64_t block_bytes_of(const struct tt_object_config *config, uint64_t size_bytes)
{
    return config->block_bytes != 0 ? config->block_bytes
                                    : tt_rdmc_block_bytes(config->algorithm, config->member_count, size_bytes);
}

static uint64_t block_count(const struct tt_object_group *group, uint64_t size_bytes)
{
    uint64_t block_bytes = block_bytes_of(&group->config, size_bytes);

    return size_bytes == 0 ? 1 : size_bytes / block_bytes + (size_bytes % block_bytes != 0);
}

/* Takes the next place; false if no plan has so many blocks. */
static bool open_object(struct tt_object_group *group, uint64_t size_bytes)
{
    const struct tt_object_config *config = &group->config;
    struct tt_object *object = tt_object_of(group, group->offered);
    struct tt_rdmc plan;

    assert(group->offered < group->completed + config->object_count); /* there is a place */
    if (!tt_rdmc_init(&plan, config->algorithm, config->member_count, block_count(group, size_bytes),
                      config->rack_firsts, config->rack_count)) {
        return false;
    }
    memset(object, 0, sizeof *object);
    object->size_bytes = size_bytes;
    object->block_bytes = block_bytes_of(config, size_bytes);
    object->plan = plan;
    if (tt_object_is_sender(group)) {
        object->memory = TT_OBJECT_HERE;
        object->lowest = plan.block_count;
        group->asked++;
    }
    group->offered++;
    return true;
}

tutti_status tt_object_group_may_send(const struct tt_object_group *group, uint64_t size_bytes)
{
    if (group->status != TUTTI_OK) {
        return group->status;
    }
    if (!tt_object_is_sender(group) || group->is_closing) {
        return TUTTI_ERR_INVALID_ARGUMENT;
    }
    if (block_count(group, size_bytes) > TT_RDMC_MOST_BLOCKS) {
        return TUTTI_ERR_TOO_LARGE;
    }
    return !group->is_joining && group->offered < tt_object_reached(group) + group->config.object_count
               ? TUTTI_OK
               : TUTTI_ERR_BUSY;
}

static tutti_status on_send(struct tt_object_group *group, uint64_t size_bytes, struct tt_object_actions *actions)
{
    tutti_status status = tt_object_group_may_send(group, size_bytes);

    if (status != TUTTI_OK) {
        return status;
    }
    tt_object_tell_children(group, TT_OBJECT_FRAME_OFFER, group->offered, size_bytes, actions);
    (void)open_object(group, size_bytes); /* the number of blocks was looked at */
    return TUTTI_OK;
}

static bool on_offer(struct tt_object_group *group, const struct tt_object_frame *frame,
                     struct tt_object_actions *actions)
{
    if (!is_parent(group, frame->source) || group->is_joining || group->has_ended ||
        frame->sequence != group->offered || group->offered >= group->completed + group->config.object_count ||
        !open_object(group, frame->body.offer.size_bytes)) {
        return false;
    }
    tt_object_tell_children(group, TT_OBJECT_FRAME_OFFER, frame->sequence, frame->body.offer.size_bytes, actions);
    return true;
}

static void ask_for_memory(struct tt_object_group *group, struct tt_object_actions *actions)
{
    while (group->asked < group->offered && group->asked < group->completed + TT_OBJECT_AHEAD) {
        struct tt_object *object = tt_object_of(group, group->asked);

        assert(object->memory == TT_OBJECT_UNASKED);
        object->memory = TT_OBJECT_ASKED;
        tt_object_actions_add(actions, TT_OBJECT_DO_INCOMING, group->config.member, group->asked)
            ->body.incoming.size_bytes = object->size_bytes;
        group->asked++;
    }
}

static uint32_t complete(struct tt_object_group *group, struct tt_object_actions *actions)
{
    uint32_t count = 0;

    while (group->completed < group->asked && tt_object_is_whole(tt_object_of(group, group->completed))) {
        tt_object_of(group, group->completed)->memory = TT_OBJECT_UNASKED;
        tt_object_actions_add(actions, TT_OBJECT_DO_COMPLETE, group->config.member, group->completed);
        group->completed++;
        count++;
    }
    return count;
}

static void on_memory(struct tt_object_group *group, const struct tt_object_event *event,
                      struct tt_object_actions *actions)
{
    struct tt_object *object = tt_object_of(group, event->sequence);

    assert(event->sequence >= group->completed && event->sequence < group->asked);
    assert(object->memory == TT_OBJECT_ASKED); /* it is answered once */
    if (event->type == TT_OBJECT_MEMORY) {
        object->memory = TT_OBJECT_HERE;
        return;
    }
    object->memory = TT_OBJECT_UNASKED;
    tt_object_fail(group, event->status, TUTTI_ERR_PEER_FAILED, group->config.member, event->now_ns, actions);
}

/* --- The step ----------------------------------------------------------------------------------------------------- */

static bool on_reached(struct tt_object_group *group, struct tt_object_peer *peer, uint64_t count)
{
    if (!tt_object_is_child(group, peer->member) || count > group->offered || count <= peer->reached) {
        return false;
    }
    peer->reached = count;
    return true;
}

static void on_frame(struct tt_object_group *group, const struct tt_object_event *event,
                     struct tt_object_actions *actions)
{
    const struct tt_object_frame *frame = event->frame;
    uint32_t index = tt_object_find_peer(group, frame->source);
    struct tt_object_peer *peer = index != TT_OBJECT_NO_MEMBER ? &group->config.peers[index] : NULL;
    bool fine = true;

    if (peer == NULL || peer->is_down || peer->is_abandoned) {
        group->drops++;
        return;
    }
    peer->heard_ns = event->now_ns;
    if (frame->type == TT_OBJECT_FRAME_FAIL) {
        tt_object_fail_frame(group, peer, frame, event->now_ns, actions);
        return;
    }
    if (group->state != TT_OBJECT_OPEN && frame->type != TT_OBJECT_FRAME_JOIN) {
        return; /* sent before the word came there */
    }
    switch (frame->type) {
    case TT_OBJECT_FRAME_JOIN:
    case TT_OBJECT_FRAME_THERE:
        fine = tt_object_join_frame(group, peer, frame, event->now_ns, actions);
        break;
    case TT_OBJECT_FRAME_OFFER:
        fine = on_offer(group, frame, actions);
        break;
    case TT_OBJECT_FRAME_READY:
        fine = tt_object_ready(group, index, frame);
        break;
    case TT_OBJECT_FRAME_REACHED:
        fine = on_reached(group, peer, frame->sequence);
        break;
    case TT_OBJECT_FRAME_CLOSING:
        fine = tt_object_is_child(group, frame->source);
        group->is_awaited |= fine;
        break;
    case TT_OBJECT_FRAME_END:
        fine = is_parent(group, frame->source) && tt_object_close_frame(group, frame, actions);
        break;
    case TT_OBJECT_FRAME_BARRIER:
        fine = tt_object_close_frame(group, frame, actions);
        break;
    case TT_OBJECT_FRAME_BYE:
        fine = tt_object_close_frame(group, frame, actions);
        peer->has_left = fine;
        break;
    case TT_OBJECT_FRAME_ASK:
        tt_object_tell(group, TT_OBJECT_FRAME_ANSWER, frame->source, frame->sequence, actions);
        break;
    default:
        break; /* ANSWER: heard */
    }
    if (!fine) {
        group->drops++;
        tt_object_fail(group, TUTTI_ERR_PROTOCOL, TUTTI_ERR_PROTOCOL, frame->source, event->now_ns, actions);
    }
}

static void on_peer_down(struct tt_object_group *group, const struct tt_object_event *event,
                         struct tt_object_actions *actions)
{
    uint32_t index = tt_object_find_peer(group, event->member);

    if (index == TT_OBJECT_NO_MEMBER) {
        return;
    }
    group->config.peers[index].is_down = true;
    if (!group->config.peers[index].has_left) {
        tt_object_fail(group, TUTTI_ERR_PEER_FAILED, TUTTI_ERR_PEER_FAILED, event->member, event->now_ns, actions);
    }
}

static tutti_status on_close(struct tt_object_group *group, struct tt_object_actions *actions)
{
    if (group->status != TUTTI_OK) {
        return group->status;
    }
    if (group->is_closing || group->is_joining) {
        return TUTTI_ERR_INVALID_ARGUMENT;
    }
    group->is_closing = true;
    if (tt_object_is_sender(group)) {
        group->has_ended = true;
        tt_object_tell_children(group, TT_OBJECT_FRAME_END, group->offered, 0, actions);
    }
    return TUTTI_OK;
}

static void advance(struct tt_object_group *group, const struct tt_object_event *event,
                    struct tt_object_actions *actions)
{
    uint64_t now_ns = event->now_ns;
    bool is_tick = event->type == TT_OBJECT_TICK;
    uint32_t culprit = TT_OBJECT_NO_MEMBER;

    if (group->state == TT_OBJECT_OPEN && group->is_joining) {
        tt_object_advance_join(group, actions);
    }
    if (group->state == TT_OBJECT_OPEN) {
        do {
            ask_for_memory(group, actions);
            tt_object_grant(group, actions);
            culprit = tt_object_put(group, actions);
        } while (complete(group, actions) > 0);
        report(group, actions);
    }
    if (culprit != TT_OBJECT_NO_MEMBER) {
        tt_object_fail(group, TUTTI_ERR_PROTOCOL, TUTTI_ERR_PROTOCOL, culprit, now_ns, actions);
    }
    if (group->state == TT_OBJECT_OPEN) {
        tt_object_advance_close(group, actions);
    }
    if (group->state == TT_OBJECT_OPEN && group->is_joining) {
        tt_object_watch_join(group, now_ns, is_tick, actions);
    } else if (group->state == TT_OBJECT_OPEN) {
        tt_object_watch(group, now_ns, is_tick, actions);
    }
    if (group->state == TT_OBJECT_FAILING) {
        tt_object_let_go(group, now_ns, is_tick, actions);
    }
}

tutti_status tt_object_group_step(struct tt_object_group *group, const struct tt_object_event *event,
                                  struct tt_object_actions *actions)
{
    tutti_status status = TUTTI_OK;

    actions->count = 0;
    if (group->state == TT_OBJECT_FINISHED && group->status != TUTTI_OK && event->type == TT_OBJECT_FRAME &&
        event->frame->type == TT_OBJECT_FRAME_JOIN) {
        on_frame(group, event, actions); /* somebody comes too late, and does not know */
        return TUTTI_OK;
    }
    if (group->state == TT_OBJECT_FINISHED) {
        bool is_call = event->type == TT_OBJECT_SEND || event->type == TT_OBJECT_CLOSE;

        return is_call ? (group->status != TUTTI_OK ? group->status : TUTTI_ERR_INVALID_ARGUMENT) : TUTTI_OK;
    }
    switch (event->type) {
    case TT_OBJECT_JOIN:
        tt_object_on_join(group, event->now_ns, actions);
        break;
    case TT_OBJECT_SEND:
        status = on_send(group, event->size_bytes, actions);
        break;
    case TT_OBJECT_LEAVE:
        assert(group->config.may_leave);
        assert(group->completed == group->offered);
        if (group->status == TUTTI_OK) {
            tt_object_bye(group, actions);
        }
        break;
    case TT_OBJECT_CLOSE:
        status = on_close(group, actions);
        break;
    case TT_OBJECT_MEMORY:
    case TT_OBJECT_REFUSE:
        on_memory(group, event, actions);
        break;
    case TT_OBJECT_FRAME:
        on_frame(group, event, actions);
        break;
    case TT_OBJECT_IMMEDIATE:
        group->drops += !tt_object_arrived(group, event->immediate, event->now_ns);
        break;
    case TT_OBJECT_PUT_DONE:
        tt_object_put_done(group, event, actions);
        break;
    case TT_OBJECT_PEER_DOWN:
        on_peer_down(group, event, actions);
        break;
    case TT_OBJECT_FAIL:
        tt_object_fail_as_told(group, event->status, event->status, event->member, event->noticed_by, event->now_ns,
                               actions);
        break;
    case TT_OBJECT_TICK:
        break;
    }
    advance(group, event, actions);
    return status;
}

uint64_t tt_object_group_deadline(const struct tt_object_group *group)
{
    return group->deadline_ns;
}
