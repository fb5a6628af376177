/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The actions of object groups' machines, carried out over the simulator's p2p. Normal path: frames and puts go out,
 * late if the test wants it; what the application is told goes to object_world_check.c. Failures: a put that cannot
 * start is kept, and answered after the step.
 */
#include <string.h>

#include "support/object_world_private.h"

static struct tt_p2p_peer *connection_to(const struct object_world_member *member, uint32_t to)
{
    for (uint32_t i = 0; i < member->group.config.peer_count; i++) {
        if (member->neighbours[i] == to) {
            return member->connections[i];
        }
    }
    object_world_expect(false, "a member that is no neighbour");
    return NULL;
}

static void send_frame(struct object_world_member *member, const struct tt_object_action *action)
{
    struct tt_p2p_peer *connection = connection_to(member, action->to);
    struct tt_object_frame frame = action->body.frame;
    uint8_t bytes[TT_OBJECT_FRAME_MAX_BYTES];
    tutti_status status;

    if (connection == NULL) {
        return;
    }
    if (frame.type == TT_OBJECT_FRAME_READY) {
        const struct object_world_memory *memory = &member->memory[action->sequence];

        frame.body.ready.address += (uint64_t)(uintptr_t)memory->bytes;
        frame.body.ready.key = memory->key;
        frame.body.ready.key_bytes = (uint16_t)memory->key_bytes;
    }
    status = connection->ops->send(connection, bytes, (uint32_t)tt_object_frame_encode(&frame, bytes, sizeof bytes));
    object_world_expect(status == TUTTI_OK || status == TUTTI_ERR_PEER_FAILED, "send");
}

static void start_put(struct object_world_member *member, const struct tt_object_action *action)
{
    struct tt_p2p_peer *connection = connection_to(member, action->to);
    tutti_status status = TUTTI_ERR_PEER_FAILED;

    if (connection != NULL) {
        status = connection->ops->put(
            connection, action->body.put.key, action->body.put.key_bytes, action->body.put.remote_address,
            member->memory[action->sequence].bytes + action->body.put.offset_bytes, action->body.put.length_bytes,
            action->body.put.immediate, (uint64_t)action->to << 32 | action->sequence);
    }
    if (status != TUTTI_OK) {
        object_world_expect(status == TUTTI_ERR_PEER_FAILED, "put");
        member->refused_puts[member->failed_puts] = action->to;
        member->refused_sequences[member->failed_puts++] = action->sequence;
    }
}

void object_world_leave(struct object_world_member *member)
{
    for (uint32_t i = 0; i < member->group.config.peer_count; i++) {
        object_world_disconnect(member, member->neighbours[i]);
    }
    member->leave_ns = TT_NEVER;
}

static void put(struct object_world *world, uint32_t number, const struct tt_object_action *action)
{
    struct object_world_delay *delay = &world->delay;
    struct object_world_late *late = world->late;

    if (delay->from != number || delay->to != action->to || delay->times == 0) {
        start_put(&world->members[number], action);
        return;
    }
    if (delay->skip > 0) {
        delay->skip--;
        start_put(&world->members[number], action);
        return;
    }
    delay->times--;
    late += late->is_used;
    late->is_used = true;
    late->at_ns = tt_sim_now(world->sim) + delay->by_ns;
    late->action = *action;
    memcpy(late->key, action->body.put.key, action->body.put.key_bytes);
    late->action.body.put.key = late->key;
    object_world_note_time(world, late->at_ns);
}

void object_world_start_late_puts(struct object_world *world)
{
    for (uint32_t i = 0; i < TT_OBJECT_MAX_CREDIT; i++) {
        struct object_world_late *late = &world->late[i];

        if (late->is_used && late->at_ns <= tt_sim_now(world->sim)) {
            late->is_used = false;
            start_put(&world->members[world->delay.from], &late->action);
        } else if (late->is_used) {
            object_world_note_time(world, late->at_ns);
        }
    }
}

void object_world_disconnect(struct object_world_member *member, uint32_t to)
{
    for (uint32_t i = 0; i < member->group.config.peer_count; i++) {
        if (member->neighbours[i] == to && member->connections[i] != NULL) {
            member->connections[i]->ops->disconnect(member->connections[i]);
            member->connections[i] = NULL;
        }
    }
}

void object_world_carry_out(struct object_world *world, uint32_t number)
{
    struct object_world_member *member = &world->members[number];

    for (uint32_t i = 0; i < world->actions.count; i++) {
        const struct tt_object_action *action = &world->actions.list[i];

        if (member->has_finished) {
            object_world_problem(world, "member %u asks for action %u after the end", number, action->type);
            return;
        }
        switch (action->type) {
        case TT_OBJECT_DO_SEND:
            send_frame(member, action);
            break;
        case TT_OBJECT_DO_PUT:
            put(world, number, action);
            break;
        case TT_OBJECT_DO_INCOMING:
            object_world_ask(world, number, action);
            break;
        case TT_OBJECT_DO_COMPLETE:
            object_world_on_complete(world, number, action->sequence);
            break;
        case TT_OBJECT_DO_RELEASE:
            object_world_take_back(world, number, action->sequence, false);
            break;
        case TT_OBJECT_DO_ABANDON:
            object_world_disconnect(member, action->to);
            break;
        case TT_OBJECT_DO_JOINED:
            break; /* members of this world are there from the start */
        case TT_OBJECT_DO_FAIL:
            object_world_on_fail(world, number, action->body.finish.status, action->body.finish.member);
            break;
        case TT_OBJECT_DO_FINISH:
            object_world_on_finish(world, number, action);
            break;
        }
    }
}
