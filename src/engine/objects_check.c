/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What holds in an object group between two calls, for tests that look after every progress. Normal path: what the
 * machine and the engine both know, the ring of events, then places and the buffers that they use. Never fails; what
 * does not hold ends the process.
 */
#include <assert.h>

#include "engine/objects.h"

static void check_events(const struct tt_objects *objects)
{
    assert(objects->event_count <= objects->event_capacity);
    assert(objects->event_first < objects->event_capacity);
    assert(objects->event_count == 0 || atomic_load_explicit(&objects->has_events, memory_order_relaxed));
    assert(objects->given_back <= objects->machine.completed);
    assert(objects->sent == 0 || objects->machine.config.member == 0);
    assert(objects->sent <= objects->machine.offered);
}

static void check_peers(const struct tt_objects *objects)
{
    const struct tt_object_config *config = &objects->machine.config;

    for (uint32_t i = 0; i < config->peer_count; i++) {
        uint32_t rank = objects->members[config->peers[i].member];

        assert(objects->peers[i] != NULL);
        assert(objects->peers[i]->users > 0);
        assert(objects->peers[i]->context_id == objects->group->directory.contexts[rank]);
    }
}

/* How many places use a buffer. */
static uint32_t count_users(const struct tt_objects *objects, const struct tt_objects_buffer *buffer)
{
    uint32_t users = 0;

    for (uint32_t i = 0; i < objects->machine.config.object_count; i++) {
        const struct tt_objects_place *place = &objects->places[i];

        if (place->buffer == buffer) {
            assert(place->memory == buffer->address);
            assert(place->size_bytes == buffer->length_bytes);
            assert(place->key == buffer->key);
            users++;
        }
    }
    return users;
}

static void check_buffers(const struct tt_objects *objects)
{
    uint32_t idle = 0;

    for (uint32_t i = 0; i < objects->buffer_count; i++) {
        const struct tt_objects_buffer *buffer = &objects->buffers[i];

        assert(buffer->memory != NULL || count_users(objects, buffer) == 0);
        assert(buffer->memory == NULL || buffer->users == count_users(objects, buffer));
        assert(buffer->last_use <= objects->buffer_uses);
        assert(buffer->key_bytes <= sizeof buffer->key);
        idle += buffer->memory != NULL && buffer->users == 0;
    }
    assert(idle <= objects->kept_count);
}

void tt_objects_check(const struct tt_objects *objects)
{
    const struct tt_object_group *machine = &objects->machine;

    assert(objects->group != NULL);
    tt_object_group_check(machine);
    assert(objects->members[machine->config.member] == objects->group->rank);
    assert(machine->config.number == objects->party.number);
    assert(machine->config.group == objects->party.key);
    assert(objects->party.deadline_ns == tt_object_group_deadline(machine));
    assert(!objects->carries_out);
    assert(objects->refused_count == 0);
    assert(objects->trouble == TUTTI_OK);
    assert(machine->status == TUTTI_OK || objects->failure_text[0] != '\0');
    check_events(objects);
    check_peers(objects);
    check_buffers(objects);
}
