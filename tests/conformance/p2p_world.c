/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The members of a p2p world for the conformance bodies: they call progress in turn, and each event is kept with a copy
 * of its frame. What does not come within P2P_PATIENCE_NS fails the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "p2p_world.h"

enum { EVENTS_AT_ONCE = 32, STEP_NS = 1000000 };

struct p2p_world *p2p_begin(void **state, uint32_t members)
{
    const struct conformance_fixture *fixture = *state;
    void *inner = NULL;
    const char *reason = fixture->create(&inner);
    if (reason != NULL) {
        fail_msg("%s: %s", fixture->name, reason);
    }
    struct p2p_world *world = calloc(1, sizeof(*world));
    assert_non_null(world);
    world->fixture = fixture;
    world->world = inner;
    for (uint32_t i = 0; i < members; i++) {
        world->members[i].p2p = fixture->p2p(inner, i);
        if (world->members[i].p2p == NULL) {
            fail_msg("%s: member %u: %s", fixture->name, i, tt_last_error());
        }
    }
    return world;
}

struct p2p_world *p2p_begin_connected(void **state, uint32_t members)
{
    struct p2p_world *world = p2p_begin(state, members);
    for (uint32_t i = 0; i < members; i++) {
        for (uint32_t j = 0; j < members; j++) {
            if (i != j) {
                p2p_connect(world, i, j);
            }
        }
    }
    return world;
}

/* All say goodbye while all still move: a destroy whose peers stand still takes its two seconds. */
void p2p_end(struct p2p_world *world)
{
    enum { GOODBYE_NS = 50000000 };
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        for (uint32_t j = 0; j < CONFORMANCE_MEMBERS; j++) {
            if (world->members[i].peers[j] != NULL) {
                p2p_disconnect(world, i, j);
            }
        }
    }
    p2p_settle(world, GOODBYE_NS);
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        for (uint32_t k = 0; k < world->members[i].record_count; k++) {
            free(world->members[i].records[k].frame);
        }
        free(world->members[i].records);
    }
    world->fixture->destroy(world->world);
    free(world);
}

uint64_t p2p_cookie(uint32_t member, uint32_t other)
{
    return UINT64_C(0xC00C1E0000000000) + 256 * member + other;
}

void p2p_connect(struct p2p_world *world, uint32_t member, uint32_t other)
{
    unsigned char address[TT_P2P_MAX_ADDRESS_BYTES];
    size_t length_bytes = sizeof(address);
    struct tt_p2p *from = world->members[member].p2p;
    struct tt_p2p *to = world->members[other].p2p;
    struct tt_p2p_peer *peer = NULL;
    assert_int_equal(to->ops->address(to, address, &length_bytes), TUTTI_OK);
    assert_int_equal(from->ops->connect(from, address, length_bytes, p2p_cookie(member, other), &peer), TUTTI_OK);
    assert_non_null(peer);
    assert_ptr_equal(peer->ops, from->ops);
    memset(address, 0, sizeof(address)); /* was copied */
    world->members[member].peers[other] = peer;
}

void p2p_disconnect(struct p2p_world *world, uint32_t member, uint32_t other)
{
    struct tt_p2p_peer *peer = world->members[member].peers[other];
    world->members[member].peers[other] = NULL;
    peer->ops->disconnect(peer);
}

void p2p_destroy(struct p2p_world *world, uint32_t member)
{
    struct p2p_member *gone = &world->members[member];
    gone->p2p->ops->destroy(gone->p2p);
    gone->p2p = NULL;
    memset(gone->peers, 0, sizeof(gone->peers));
    world->fixture->p2p_forget(world->world, member);
}

void p2p_send(struct p2p_world *world, uint32_t from, uint32_t to, const void *frame, uint32_t length_bytes)
{
    struct tt_p2p_peer *peer = world->members[from].peers[to];
    assert_int_equal(tt_p2p_send(peer, frame, length_bytes, false), TUTTI_OK);
}

void p2p_batch(struct p2p_world *world, uint32_t member, bool on)
{
    struct tt_p2p *p2p = world->members[member].p2p;
    p2p->batches = on;
    if (!on && p2p->has_batch) {
        p2p->ops->flush(p2p);
    }
}

static void keep_bytes(struct p2p_record *record, const struct tt_p2p_event *event)
{
    if (event->length_bytes > 0) {
        record->frame = malloc(event->length_bytes);
        assert_non_null(record->frame);
        memcpy(record->frame, event->data, event->length_bytes);
    }
}

static void keep(struct p2p_member *member, const struct tt_p2p_event *event)
{
    if (member->record_count == member->record_capacity) {
        member->record_capacity = member->record_capacity > 0 ? 2 * member->record_capacity : 64;
        member->records = realloc(member->records, member->record_capacity * sizeof(*member->records));
        assert_non_null(member->records);
    }
    struct p2p_record *record = &member->records[member->record_count++];
    record->event = *event;
    record->frame = NULL;
    if (event->type == TT_P2P_FRAME) {
        assert_in_range(event->length_bytes, 1, TT_P2P_MAX_FRAME_BYTES);
        keep_bytes(record, event);
        assert_in_range(event->address_bytes, 0, sizeof(record->address));
        if (event->address != NULL) {
            memcpy(record->address, event->address, event->address_bytes);
        }
    } else if (event->type == TT_P2P_IMMEDIATE) {
        assert_in_range(event->length_bytes, 0, TT_P2P_MAX_IMMEDIATE_BYTES);
        keep_bytes(record, event);
    }
}

void p2p_step(struct p2p_world *world)
{
    struct tt_p2p_event events[EVENTS_AT_ONCE];
    uint32_t told = 0;
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        struct p2p_member *member = &world->members[i];
        if (member->p2p == NULL || member->is_idle) {
            continue;
        }
        const uint32_t count = member->p2p->ops->progress(member->p2p, events, EVENTS_AT_ONCE);
        assert_true(count <= EVENTS_AT_ONCE);
        for (uint32_t j = 0; j < count; j++) {
            keep(member, &events[j]);
        }
        told += count;
    }
    if (told == 0) {
        world->fixture->pump(world->world, STEP_NS);
    }
}

uint32_t p2p_count(const struct p2p_world *world, uint32_t member, enum tt_p2p_event_type type)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < world->members[member].record_count; i++) {
        count += world->members[member].records[i].event.type == type;
    }
    return count;
}

const struct p2p_record *p2p_record_of(const struct p2p_world *world, uint32_t member, enum tt_p2p_event_type type,
                                       uint32_t index)
{
    for (uint32_t i = 0; i < world->members[member].record_count; i++) {
        const struct p2p_record *record = &world->members[member].records[i];
        if (record->event.type == type && index-- == 0) {
            return record;
        }
    }
    fail_msg("member %u has no such event", member);
    return NULL;
}

void p2p_await(struct p2p_world *world, uint32_t member, enum tt_p2p_event_type type, uint32_t count)
{
    const uint64_t deadline_ns = world->fixture->now_ns(world->world) + P2P_PATIENCE_NS;
    while (p2p_count(world, member, type) < count && world->fixture->now_ns(world->world) < deadline_ns) {
        p2p_step(world);
    }
    assert_int_equal(p2p_count(world, member, type), count);
}

void p2p_settle(struct p2p_world *world, uint64_t time_ns)
{
    const uint64_t deadline_ns = world->fixture->now_ns(world->world) + time_ns;
    while (world->fixture->now_ns(world->world) < deadline_ns) {
        p2p_step(world);
    }
}

unsigned char p2p_pattern(size_t place, uint32_t salt)
{
    return (unsigned char)(place * 131 + place / 256 * 17 + place / 65536 * 5 + salt * 59 + 1);
}

struct p2p_region p2p_register(struct p2p_world *world, uint32_t member, size_t length_bytes, uint32_t salt)
{
    struct p2p_region region = {.length_bytes = length_bytes, .key_bytes = sizeof(region.key)};
    struct tt_p2p *p2p = world->members[member].p2p;
    region.bytes = malloc(length_bytes + 1);
    assert_non_null(region.bytes);
    for (size_t i = 0; i < length_bytes; i++) {
        region.bytes[i] = p2p_pattern(i, salt);
    }
    assert_int_equal(p2p->ops->memory_register(p2p, region.bytes, length_bytes, &region.memory), TUTTI_OK);
    assert_non_null(region.memory);
    assert_ptr_equal(region.memory->ops, p2p->ops);
    assert_int_equal(p2p->ops->memory_pack(region.memory, region.key, &region.key_bytes), TUTTI_OK);
    assert_in_range(region.key_bytes, 1, TT_P2P_MAX_KEY_BYTES);
    return region;
}

void p2p_release(struct p2p_world *world, struct p2p_region *region)
{
    (void)world;
    region->memory->ops->memory_release(region->memory);
    free(region->bytes);
}

void p2p_get(struct p2p_world *world, uint32_t from, uint32_t at, const struct p2p_region *region, size_t offset,
             void *local, uint64_t length_bytes, uint64_t cookie)
{
    struct tt_p2p_peer *peer = world->members[from].peers[at];
    unsigned char key[TT_P2P_MAX_KEY_BYTES];
    memcpy(key, region->key, region->key_bytes);
    assert_int_equal(
        peer->ops->get(peer, key, region->key_bytes, (uintptr_t)region->bytes + offset, local, length_bytes, cookie),
        TUTTI_OK);
    memset(key, 0, sizeof(key)); /* was copied */
}

void p2p_put_with(struct p2p_world *world, uint32_t from, uint32_t at, const struct p2p_region *region, size_t offset,
                  const void *local, uint64_t length_bytes, const struct tt_p2p_immediate *immediate, uint64_t cookie)
{
    struct tt_p2p_peer *peer = world->members[from].peers[at];
    assert_int_equal(peer->ops->put(peer, region->key, region->key_bytes, (uintptr_t)region->bytes + offset, local,
                                    length_bytes, immediate, cookie),
                     TUTTI_OK);
}

void p2p_put(struct p2p_world *world, uint32_t from, uint32_t at, const struct p2p_region *region, size_t offset,
             const void *local, uint64_t length_bytes, uint64_t immediate, uint64_t cookie)
{
    p2p_put_with(world, from, at, region, offset, local, length_bytes, &(struct tt_p2p_immediate){.value = immediate},
                 cookie);
}

void p2p_assert_pattern(const unsigned char *bytes, size_t offset, size_t length_bytes, uint32_t salt)
{
    for (size_t i = 0; i < length_bytes; i++) {
        if (bytes[i] != p2p_pattern(offset + i, salt)) {
            fail_msg("byte %zu of %zu is wrong", i, length_bytes);
        }
    }
}

void p2p_fill(unsigned char *frame, uint32_t length_bytes, uint32_t salt)
{
    for (uint32_t i = 0; i < length_bytes; i++) {
        frame[i] = p2p_pattern(i, salt);
    }
}

void p2p_assert_frame(const struct p2p_world *world, uint32_t member, uint32_t index, uint32_t length_bytes,
                      uint32_t salt)
{
    unsigned char expected[TT_P2P_MAX_FRAME_BYTES];
    const struct p2p_record *record = p2p_record_of(world, member, TT_P2P_FRAME, index);
    p2p_fill(expected, length_bytes, salt);
    assert_int_equal(record->event.length_bytes, length_bytes);
    assert_memory_equal(record->frame, expected, length_bytes);
}
