/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations of objects' memory. Normal path: a buffer that is in use, or was lately, is found by its address and
 * length; another one is registered. Who nobody uses any more goes, unless it is one of the few that stay. Failures are
 * the provider's.
 */
#include <assert.h>
#include <string.h>

#include "engine/objects.h"

static void release(struct tt_objects_buffer *buffer)
{
    assert(buffer->memory != NULL);
    buffer->memory->ops->memory_release(buffer->memory);
    buffer->memory = NULL;
}

/* The buffer, or else a free entry: there are as many as places and buffers that stay. */
static struct tt_objects_buffer *find(struct tt_objects *objects, const struct tt_objects_place *place)
{
    struct tt_objects_buffer *vacant = NULL;

    for (uint32_t i = 0; i < objects->buffer_count; i++) {
        struct tt_objects_buffer *buffer = &objects->buffers[i];

        if (buffer->memory == NULL) {
            vacant = buffer;
        } else if (buffer->address == place->memory && buffer->length_bytes == place->size_bytes) {
            return buffer;
        }
    }
    return vacant;
}

tutti_status tt_objects_register(struct tt_objects *objects, struct tt_objects_place *place)
{
    struct tt_p2p *p2p = objects->group->network->p2p;
    struct tt_objects_buffer *buffer = find(objects, place);
    tutti_status status = TUTTI_OK;

    assert(place->buffer == NULL);
    if (place->key != NULL) {
        return TUTTI_OK;
    }
    assert(buffer != NULL); /* there are as many as places and buffers that stay */
    if (buffer->memory == NULL) {
        size_t key_bytes = sizeof buffer->key;

        status = p2p->ops->memory_register(p2p, place->memory, place->size_bytes, &buffer->memory);
        if (status != TUTTI_OK) {
            buffer->memory = NULL;
            return status;
        }
        status = p2p->ops->memory_pack(buffer->memory, buffer->key, &key_bytes);
        if (status != TUTTI_OK) {
            release(buffer);
            return status;
        }
        assert(key_bytes <= sizeof buffer->key);
        buffer->address = place->memory;
        buffer->length_bytes = place->size_bytes;
        buffer->key_bytes = (uint32_t)key_bytes;
        buffer->users = 0;
    }
    buffer->users++;
    buffer->last_use = ++objects->buffer_uses;
    place->buffer = buffer;
    place->key = buffer->key;
    place->key_bytes = buffer->key_bytes;
    return TUTTI_OK;
}

void tt_objects_unregister(struct tt_objects *objects, struct tt_objects_place *place)
{
    struct tt_objects_buffer *oldest = NULL;
    uint32_t idle = 0;

    if (place->buffer == NULL) {
        return;
    }
    assert(place->buffer->memory != NULL);
    assert(place->buffer->users > 0);
    place->buffer->users--;
    place->buffer = NULL;
    for (uint32_t i = 0; i < objects->buffer_count; i++) {
        struct tt_objects_buffer *buffer = &objects->buffers[i];

        if (buffer->memory != NULL && buffer->users == 0) {
            idle++;
            oldest = oldest == NULL || buffer->last_use < oldest->last_use ? buffer : oldest;
        }
    }
    if (idle > objects->kept_count) {
        release(oldest);
    }
}

void tt_objects_release_all(struct tt_objects *objects)
{
    for (uint32_t i = 0; i < objects->buffer_count; i++) {
        if (objects->buffers[i].memory != NULL) {
            release(&objects->buffers[i]);
        }
    }
}
