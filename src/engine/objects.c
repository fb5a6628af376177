/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Object groups in the control context. Normal path of a step: the machine gets an event, and its actions are carried
 * out in order: frames and puts go out, and what concerns the user becomes an event.
 *
 * Failures: what a connection that is gone was asked for is dropped, since the machine hears of that otherwise; a put
 * that cannot start is answered as one that failed. What the fabric refuses for a reason on this side is the group's
 * trouble, and fails it. A connection that was given up here ends puts with CANCELED; to the machine that is a peer
 * that is down, of which it is told by its own event.
 */
#include "engine/objects.h"

#include <assert.h>
#include <stdio.h>

#include "base/log.h"

/* Cookies of puts: 16 bits of the object's number, the member. */
enum { SEQUENCE_SHIFT = 32 };

static uint64_t cookie_of(const struct tt_objects *objects, uint64_t sequence, uint32_t member)
{
    assert(member < objects->machine.config.member_count);
    return tt_party_cookie(&objects->party, (sequence & 0xFFFF) << SEQUENCE_SHIFT | member);
}

static struct tt_objects_place *place_of(const struct tt_objects *objects, uint64_t sequence)
{
    return &objects->places[sequence % objects->machine.config.object_count];
}

static struct tt_peer *peer_of(const struct tt_objects *objects, const struct tt_object_action *action)
{
    uint32_t index = tt_object_find_peer(&objects->machine, action->to);

    assert(index != TT_OBJECT_NO_MEMBER); /* the machine speaks to neighbours only */
    return objects->peers[index];
}

/* --- Actions ------------------------------------------------------------------------------------------------------ */

static void say(struct tt_objects *objects, const struct tt_objects_event *event)
{
    assert(objects->event_count < objects->event_capacity);
    objects->events[(objects->event_first + objects->event_count++) % objects->event_capacity] = *event;
}

static void wake(struct tt_objects *objects)
{
    atomic_store_explicit(&objects->has_events, true, memory_order_release);
    tt_engine_announce(objects->group->engine);
}

static void send_frame(struct tt_objects *objects, const struct tt_object_action *action)
{
    struct tt_p2p_peer *connection = peer_of(objects, action)->connection; /* NULL: given up, by whomever */
    struct tt_object_frame frame = action->body.frame;
    uint8_t bytes[TT_OBJECT_FRAME_MAX_BYTES];
    tutti_status status;
    size_t length;

    if (connection == NULL) {
        return;
    }
    if (frame.type == TT_OBJECT_FRAME_READY) {
        const struct tt_objects_place *place = place_of(objects, action->sequence);

        assert(place->key != NULL);
        assert(place->key_bytes <= TT_OBJECT_FRAME_MAX_KEY_BYTES);
        frame.body.ready.address += (uint64_t)(uintptr_t)place->memory;
        frame.body.ready.key = place->key;
        frame.body.ready.key_bytes = (uint16_t)place->key_bytes;
    }
    length = tt_object_frame_encode(&frame, bytes, sizeof bytes);
    assert(length > 0);
    TT_LOG(TT_PART_PROTO, TT_LOG_TRACE, "%s of object %llu to member %u", tt_object_frame_name(frame.type),
           (unsigned long long)frame.sequence, action->to);
    status = tt_p2p_send(connection, bytes, (uint32_t)length, false);
    if (status == TUTTI_OK) {
        tt_group_count(&objects->group->frames_sent, 1);
        tt_group_count(&objects->group->frame_bytes_sent, length);
    } else if (status != TUTTI_ERR_PEER_FAILED) {
        objects->trouble = status;
    }
}

static void put(struct tt_objects *objects, const struct tt_object_action *action)
{
    struct tt_p2p_peer *connection = peer_of(objects, action)->connection; /* NULL: given up, by whomever */
    const uint8_t *memory = place_of(objects, action->sequence)->memory;
    tutti_status status = TUTTI_ERR_PEER_FAILED;

    assert(memory != NULL || action->body.put.length_bytes == 0);
    if (connection != NULL) {
        const struct tt_p2p_immediate immediate = {.value = action->body.put.immediate};

        status = connection->ops->put(
            connection, action->body.put.key, action->body.put.key_bytes, action->body.put.remote_address,
            memory == NULL ? NULL : memory + action->body.put.offset_bytes, action->body.put.length_bytes, &immediate,
            cookie_of(objects, action->sequence, action->to));
    }
    if (status == TUTTI_OK) {
        tt_group_count(&objects->group->bytes_served, action->body.put.length_bytes);
        return;
    }
    assert(objects->refused_count < sizeof objects->refused / sizeof objects->refused[0]);
    objects->refused[objects->refused_count++] =
        (struct tt_objects_refused){.member = action->to, .sequence = action->sequence};
    objects->trouble = status != TUTTI_ERR_PEER_FAILED ? status : objects->trouble;
}

static void give_back(struct tt_objects *objects, const struct tt_object_action *action)
{
    struct tt_objects_place *place = place_of(objects, action->sequence);

    tt_objects_unregister(objects, place);
    if (action->type == TT_OBJECT_DO_COMPLETE) {
        tt_group_count(&objects->group->bytes_fetched, objects->machine.config.member == 0 ? 0 : place->size_bytes);
        say(objects, &(struct tt_objects_event){.type = TT_OBJECTS_COMPLETE,
                                                .sequence = action->sequence,
                                                .size_bytes = place->size_bytes,
                                                .memory = place->memory});
    }
}

static void carry_out(struct tt_objects *objects, const struct tt_object_action *action)
{
    switch (action->type) {
    case TT_OBJECT_DO_SEND:
        send_frame(objects, action);
        return;
    case TT_OBJECT_DO_PUT:
        put(objects, action);
        return;
    case TT_OBJECT_DO_INCOMING:
        place_of(objects, action->sequence)->size_bytes = action->body.incoming.size_bytes;
        say(objects, &(struct tt_objects_event){.type = TT_OBJECTS_INCOMING,
                                                .sequence = action->sequence,
                                                .size_bytes = action->body.incoming.size_bytes});
        break;
    case TT_OBJECT_DO_COMPLETE:
    case TT_OBJECT_DO_RELEASE:
        give_back(objects, action);
        break;
    case TT_OBJECT_DO_ABANDON:
        tt_network_abandon(objects->group->network, peer_of(objects, action));
        return;
    case TT_OBJECT_DO_JOINED:
        objects->joined = true;
        for (uint32_t i = 0; i < objects->machine.config.peer_count; i++) {
            objects->peers[i]->stray.key = 0; /* whatever it was, they agree again */
        }
        break;
    case TT_OBJECT_DO_FAIL:
        tt_objects_note_failure(objects, action->body.finish.status, action->body.finish.member);
        return;
    case TT_OBJECT_DO_FINISH:
        say(objects, &(struct tt_objects_event){.type = action->body.finish.status == TUTTI_OK ? TT_OBJECTS_CLOSED
                                                                                               : TT_OBJECTS_FAILED});
        break;
    }
    wake(objects);
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

static tutti_status step_once(struct tt_objects *objects, struct tt_object_event *event)
{
    tutti_status status;

    assert(!objects->carries_out);
    event->now_ns = tt_engine_now(objects->group->engine);
    status = tt_object_group_step(&objects->machine, event, &objects->actions);
    assert(objects->actions.count <= objects->actions.capacity);
    objects->carries_out = true;
    for (uint32_t i = 0; i < objects->actions.count; i++) {
        carry_out(objects, &objects->actions.list[i]);
    }
    objects->carries_out = false;
    return status;
}

/* Whether somebody may wait for an answer. */
static bool owes(const struct tt_object_group *machine)
{
    return machine->state != TT_OBJECT_FINISHED &&
           !(machine->config.may_leave && machine->completed == machine->offered);
}

static void note_step(struct tt_objects *objects)
{
    struct tt_parties *parties = &objects->group->engine->parties;

    objects->party.deadline_ns = tt_object_group_deadline(&objects->machine);
    tt_party_note_owes(parties, &objects->party, owes(&objects->machine));
    tt_party_wake(parties, &objects->party);
    if (objects->owner != NULL) {
        objects->has_moved = true;
        tt_party_wake(parties, objects->owner);
    }
}

tutti_status tt_objects_step(struct tt_objects *objects, struct tt_object_event *event)
{
    tutti_status status = step_once(objects, event);

    while (objects->refused_count > 0) {
        struct tt_objects_refused refused = objects->refused[--objects->refused_count];

        (void)step_once(objects, &(struct tt_object_event){.type = TT_OBJECT_PUT_DONE,
                                                           .member = refused.member,
                                                           .sequence = refused.sequence,
                                                           .status = TUTTI_ERR_PEER_FAILED});
    }
    if (objects->trouble != TUTTI_OK) {
        struct tt_object_event fail = {.type = TT_OBJECT_FAIL,
                                       .status = objects->trouble,
                                       .member = objects->machine.config.member,
                                       .noticed_by = objects->machine.config.member};

        objects->trouble = TUTTI_OK;
        (void)tt_objects_step(objects, &fail); /* of which no put is asked any more */
    }
    note_step(objects);
    return status;
}

tutti_status tt_objects_status(const struct tt_objects *objects)
{
    tutti_status status = objects->machine.status;

    return status == TUTTI_OK ? TUTTI_OK : tt_error_note(status, "%s", objects->failure_text);
}

tutti_status tt_objects_send(struct tt_objects *objects, const void *data, uint64_t size_bytes, const uint8_t *key,
                             uint32_t key_bytes)
{
    uint32_t limit = objects->machine.config.object_count;
    uint64_t sequence = objects->machine.offered;
    struct tt_objects_place *place = place_of(objects, sequence);
    tutti_status status = tt_object_group_may_send(&objects->machine, size_bytes);

    if (objects->machine.status != TUTTI_OK) {
        return tt_objects_status(objects);
    }
    if (status == TUTTI_OK && objects->sent - objects->given_back >= limit) {
        status = TUTTI_ERR_BUSY;
    }
    switch (status) {
    case TUTTI_OK:
        break;
    case TUTTI_ERR_BUSY:
        return tt_error_note(status, "%u objects are under way; completions make room", limit);
    case TUTTI_ERR_TOO_LARGE:
        return tt_error(TT_PART_ENGINE, status, "an object of %llu bytes has more than 2^32 blocks",
                        (unsigned long long)size_bytes);
    default:
        return tt_error(TT_PART_ENGINE, status, "member %u sends%s; only member 0 may, until it closes",
                        objects->machine.config.member, objects->machine.is_closing ? " after it has closed" : "");
    }
    assert(place->buffer == NULL); /* the object that was there has been given back */
    assert(data != NULL || size_bytes == 0);
    *place = (struct tt_objects_place){
        .memory = (void *)(uintptr_t)data, .size_bytes = size_bytes, .key = key, .key_bytes = key_bytes};
    status = tt_objects_register(objects, place);
    if (status != TUTTI_OK) {
        return status;
    }
    objects->sent++;
    return tt_objects_step(objects, &(struct tt_object_event){.type = TT_OBJECT_SEND, .size_bytes = size_bytes});
}

void tt_objects_give(struct tt_objects *objects, uint64_t sequence, void *memory, const uint8_t *key,
                     uint32_t key_bytes)
{
    struct tt_objects_place *place = place_of(objects, sequence);
    tutti_status status;

    if (objects->machine.state == TT_OBJECT_FINISHED) {
        return; /* it has failed meanwhile: the memory stays the user's */
    }
    assert(sequence < objects->machine.offered);
    assert(place->buffer == NULL);
    place->memory = memory;
    place->key = key;
    place->key_bytes = key_bytes;
    status = tt_objects_register(objects, place);
    if (status != TUTTI_OK) {
        tt_objects_refuse(objects, sequence, status, tt_last_error());
        return;
    }
    (void)tt_objects_step(objects, &(struct tt_object_event){.type = TT_OBJECT_MEMORY, .sequence = sequence});
}

void tt_objects_refuse(struct tt_objects *objects, uint64_t sequence, tutti_status status, const char *why)
{
    objects->refusal = why;
    (void)tt_objects_step(objects,
                          &(struct tt_object_event){.type = TT_OBJECT_REFUSE, .sequence = sequence, .status = status});
    objects->refusal = NULL;
}

tutti_status tt_objects_close(struct tt_objects *objects)
{
    tutti_status status = tt_objects_step(objects, &(struct tt_object_event){.type = TT_OBJECT_CLOSE});

    if (status == TUTTI_ERR_INVALID_ARGUMENT) {
        return tt_error(TT_PART_ENGINE, status, "member %u closes an object group twice",
                        objects->machine.config.member);
    }
    return status == TUTTI_OK ? TUTTI_OK : tt_objects_status(objects);
}

bool tt_objects_take(struct tt_objects *objects, struct tt_objects_event *event)
{
    while (objects->event_count > 0) {
        assert(objects->event_first < objects->event_capacity);
        *event = objects->events[objects->event_first];
        objects->event_first = (objects->event_first + 1) % objects->event_capacity;
        objects->event_count--;
        if (event->type == TT_OBJECTS_INCOMING && objects->machine.state != TT_OBJECT_OPEN) {
            continue; /* nobody needs that memory any more */
        }
        objects->given_back += event->type == TT_OBJECTS_COMPLETE;
        return true;
    }
    atomic_store_explicit(&objects->has_events, false, memory_order_relaxed);
    return false;
}

/* --- A party of the engine ---------------------------------------------------------------------------------------- */

static struct tt_objects *objects_of(struct tt_party *party)
{
    assert(party->ops == &tt_objects_ops);
    return (struct tt_objects *)party;
}

/* TT_RANK_NONE: there is no such member. */
static uint32_t rank_of(const struct tt_objects *objects, uint32_t member)
{
    return member < objects->machine.config.member_count ? objects->members[member] : TT_RANK_NONE;
}

static void take_frame(struct tt_party *party, const struct tt_origin *origin, const uint8_t *bytes,
                       uint32_t length_bytes)
{
    struct tt_objects *objects = objects_of(party);
    struct tt_object_frame frame;
    struct tt_object_event event = {.type = TT_OBJECT_FRAME, .frame = &frame};

    if (!tt_object_frame_decode(bytes, length_bytes, &frame)) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "dropped a malformed frame of %u bytes", length_bytes);
        return;
    }
    tt_group_count(&objects->group->frames_received, 1);
    tt_group_count(&objects->group->frame_bytes_received, length_bytes);
    if (tt_directory_trusts(&objects->group->directory, origin, rank_of(objects, frame.source))) {
        (void)tt_objects_step(objects, &event);
    } else {
        tt_group_count(&objects->group->drops_sender, 1);
    }
}

static void put_done(struct tt_party *party, uint64_t payload, tutti_status status)
{
    struct tt_objects *objects = objects_of(party);
    uint64_t completed = objects->machine.completed;
    struct tt_object_event event = {.type = TT_OBJECT_PUT_DONE,
                                    .sequence = completed + (((payload >> SEQUENCE_SHIFT) - completed) & 0xFFFF),
                                    .member = (uint32_t)payload,
                                    .status = status == TUTTI_ERR_CANCELED ? TUTTI_ERR_PEER_FAILED : status};

    assert(event.member < objects->machine.config.member_count); /* from a cookie of its own */
    (void)tt_objects_step(objects, &event);
}

static void take_immediate(struct tt_party *party, uint64_t immediate, const uint8_t *bytes, uint32_t length_bytes)
{
    (void)bytes, (void)length_bytes;
    (void)tt_objects_step(objects_of(party),
                          &(struct tt_object_event){.type = TT_OBJECT_IMMEDIATE, .immediate = immediate});
}

static void peer_down(struct tt_party *party, const struct tt_peer *peer)
{
    struct tt_objects *objects = objects_of(party);

    assert(peer != NULL);
    for (uint32_t i = 0; i < objects->machine.config.peer_count; i++) {
        if (objects->peers[i] == peer) {
            const struct tt_object_config *config = &objects->machine.config;

            if (peer->starved) {
                (void)tt_objects_step(objects, &(struct tt_object_event){.type = TT_OBJECT_FAIL,
                                                                         .status = TUTTI_ERR_NO_RESOURCE,
                                                                         .member = config->member,
                                                                         .noticed_by = config->member});
            }
            (void)tt_objects_step(
                objects, &(struct tt_object_event){.type = TT_OBJECT_PEER_DOWN, .member = config->peers[i].member});
        }
    }
}

/* What is due is not looked at before the frames that may be waiting: they may be what was missed. */
static bool tick(struct tt_party *party, uint64_t now_ns, bool looked)
{
    if (!looked || party->deadline_ns > now_ns) {
        return false;
    }
    (void)tt_objects_step(objects_of(party), &(struct tt_object_event){.type = TT_OBJECT_TICK});
    return true;
}

static uint64_t deadline(const struct tt_party *party)
{
    return party->deadline_ns;
}

static bool may_sleep(const struct tt_party *party)
{
    return party->deadline_ns == TT_NEVER;
}

static void check(const struct tt_party *party)
{
    tt_objects_check((const struct tt_objects *)party);
}

const struct tt_party_ops tt_objects_ops = {.magic = TT_OBJECT_FRAME_MAGIC,
                                            .frame = take_frame,
                                            .done = put_done,
                                            .immediate = take_immediate,
                                            .peer_down = peer_down,
                                            .after_frames = tick,
                                            .deadline = deadline,
                                            .may_sleep = may_sleep,
                                            .check = check};
