/* SPDX-License-Identifier: BSD-3-Clause */
/* The p2p contract (fabric/p2p.h), over every provider. `conformance_p2p ucx` runs one of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>

#include "p2p_world.h"
#include "runner.h"
#include "skip.h"

enum { MEGABYTE = 1 << 20 };

/* --- Frames ----------------------------------------------------------------------------------------------------- */

static void fill(unsigned char *frame, uint32_t length_bytes, uint32_t salt)
{
    for (uint32_t i = 0; i < length_bytes; i++) {
        frame[i] = p2p_pattern(i, salt);
    }
}

static void assert_frame(const struct p2p_world *world, uint32_t member, uint32_t index, uint32_t length_bytes,
                         uint32_t salt)
{
    unsigned char expected[TT_P2P_MAX_FRAME_BYTES];
    const struct p2p_record *record = p2p_record_of(world, member, TT_P2P_FRAME, index);
    fill(expected, length_bytes, salt);
    assert_int_equal(record->event.length_bytes, length_bytes);
    assert_memory_equal(record->frame, expected, length_bytes);
}

static void frames_of_every_length_arrive_in_order_both_ways(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    unsigned char frame[TT_P2P_MAX_FRAME_BYTES];
    for (uint32_t length = 1; length <= TT_P2P_MAX_FRAME_BYTES; length++) {
        fill(frame, length, length);
        p2p_send(world, 0, 1, frame, length);
        fill(frame, TT_P2P_MAX_FRAME_BYTES + 1 - length, length + 1);
        p2p_send(world, 1, 0, frame, TT_P2P_MAX_FRAME_BYTES + 1 - length);
        memset(frame, 0, sizeof(frame)); /* was copied */
    }
    p2p_await(world, 0, TT_P2P_FRAME, TT_P2P_MAX_FRAME_BYTES);
    p2p_await(world, 1, TT_P2P_FRAME, TT_P2P_MAX_FRAME_BYTES);
    for (uint32_t length = 1; length <= TT_P2P_MAX_FRAME_BYTES; length++) {
        assert_frame(world, 1, length - 1, length, length);
        assert_frame(world, 0, length - 1, TT_P2P_MAX_FRAME_BYTES + 1 - length, length + 1);
    }
    p2p_end(world);
}

static void many_frames_wait_for_a_receiver_that_is_busy(void **state)
{
    enum { COUNT = 3000 };
    struct p2p_world *world = p2p_begin_connected(state);
    unsigned char frame[TT_P2P_MAX_FRAME_BYTES];
    world->members[2].is_idle = true;
    for (uint32_t i = 0; i < COUNT; i++) {
        fill(frame, 1 + i % 1000, i);
        p2p_send(world, i % 2, 2, frame, 1 + i % 1000);
    }
    p2p_settle(world, 20 * TT_NS_PER_MS);
    assert_int_equal(world->members[2].record_count, 0);
    world->members[2].is_idle = false;
    p2p_await(world, 2, TT_P2P_FRAME, COUNT);
    /* Each sender's frames are in order; its even or odd numbers give it away. */
    uint32_t next[2] = {0, 1};
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct p2p_record *record = &world->members[2].records[i];
        const uint32_t sender =
            record->event.length_bytes == 1 + next[0] % 1000 && record->frame[0] == p2p_pattern(0, next[0]) ? 0 : 1;
        assert_frame(world, 2, i, 1 + next[sender] % 1000, next[sender]);
        next[sender] += 2;
    }
    assert_int_equal(next[0] + next[1], 2 * COUNT + 1);
    p2p_end(world);
}

static void frames_sent_before_the_other_side_connects_arrive(void **state)
{
    struct p2p_world *world = p2p_begin(state);
    p2p_connect(world, 0, 3);
    p2p_send(world, 0, 3, "early", 5);
    p2p_settle(world, P2P_QUIET_NS);
    p2p_connect(world, 3, 0);
    p2p_send(world, 3, 0, "answer", 6);
    p2p_await(world, 3, TT_P2P_FRAME, 1);
    p2p_await(world, 0, TT_P2P_FRAME, 1);
    assert_memory_equal(p2p_record_of(world, 3, TT_P2P_FRAME, 0)->frame, "early", 5);
    assert_memory_equal(p2p_record_of(world, 0, TT_P2P_FRAME, 0)->frame, "answer", 6);
    p2p_end(world);
}

static void frames_of_wrong_length_are_refused(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    unsigned char frame[TT_P2P_MAX_FRAME_BYTES + 1] = {0};
    struct tt_p2p_peer *peer = world->members[0].peers[1];
    assert_int_equal(peer->ops->send(peer, frame, 0), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(peer->ops->send(peer, frame, sizeof(frame)), TUTTI_ERR_INVALID_ARGUMENT);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(world->members[1].record_count, 0);
    p2p_end(world);
}

static void frames_stay_valid_until_the_next_progress(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct tt_p2p *p2p = world->members[1].p2p;
    struct tt_p2p_event event;
    world->members[1].is_idle = true;
    for (uint32_t i = 0; i < 50; i++) {
        unsigned char frame[500];
        fill(frame, sizeof(frame), i);
        p2p_send(world, 0, 1, frame, sizeof(frame));
    }
    for (uint32_t i = 0; i < 50; i++) { /* one event at a time */
        unsigned char expected[500];
        fill(expected, sizeof(expected), i);
        uint32_t count = 0;
        for (int tries = 0; tries < 20000 && count == 0; tries++) {
            count = p2p->ops->progress(p2p, &event, 1);
            if (count == 0) {
                p2p_step(world);
            }
        }
        assert_int_equal(count, 1);
        assert_int_equal(event.type, TT_P2P_FRAME);
        p2p_step(world); /* the others go on */
        assert_int_equal(event.length_bytes, 500);
        assert_memory_equal(event.data, expected, 500);
    }
    p2p_end(world);
}

/* --- Gets and puts ---------------------------------------------------------------------------------------------- */

static void get(struct p2p_world *world, uint32_t from, uint32_t at, const struct p2p_region *region, size_t offset,
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

static void put(struct p2p_world *world, uint32_t from, uint32_t at, const struct p2p_region *region, size_t offset,
                const void *local, uint64_t length_bytes, uint64_t immediate, uint64_t cookie)
{
    struct tt_p2p_peer *peer = world->members[from].peers[at];
    assert_int_equal(peer->ops->put(peer, region->key, region->key_bytes, (uintptr_t)region->bytes + offset, local,
                                    length_bytes, immediate, cookie),
                     TUTTI_OK);
}

static void assert_done(const struct p2p_world *world, uint32_t member, uint32_t index, uint64_t cookie)
{
    const struct p2p_record *record = p2p_record_of(world, member, TT_P2P_DONE, index);
    assert_int_equal(record->event.status, TUTTI_OK);
    assert_int_equal(record->event.cookie, cookie);
}

static void assert_pattern(const unsigned char *bytes, size_t offset, size_t length_bytes, uint32_t salt)
{
    for (size_t i = 0; i < length_bytes; i++) {
        if (bytes[i] != p2p_pattern(offset + i, salt)) {
            fail_msg("byte %zu of %zu is wrong", i, length_bytes);
        }
    }
}

static void gets_of_every_size_and_offset_read_just_that(void **state)
{
    static const struct {
        size_t offset, length_bytes;
    } parts[] = {{0, 1},
                 {1, 1},
                 {12345, 2},
                 {3, 100},
                 {7, 4095},
                 {0, 4096},
                 {1, 4097},
                 {9, 65535},
                 {11, 65537},
                 {4097, MEGABYTE},
                 {1, 3 * MEGABYTE + 1},
                 {0, 8 * MEGABYTE},
                 {8 * MEGABYTE - 1, 1},
                 {5, 8 * MEGABYTE - 5}};
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region region = p2p_register(world, 1, 8 * MEGABYTE, 3);
    unsigned char *local = malloc(8 * MEGABYTE + 2);
    assert_non_null(local);
    for (uint32_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const size_t length_bytes = parts[i].length_bytes;
        memset(local, 0xAA, length_bytes + 2);
        get(world, 0, 1, &region, parts[i].offset, local + 1, length_bytes, 1000 + i);
        p2p_await(world, 0, TT_P2P_DONE, i + 1);
        assert_done(world, 0, i, 1000 + i);
        assert_pattern(local + 1, parts[i].offset, length_bytes, 3);
        assert_int_equal(local[0], 0xAA);
        assert_int_equal(local[length_bytes + 1], 0xAA);
    }
    assert_int_equal(world->members[1].record_count, 0); /* one-sided: the target is told nothing */
    free(local);
    p2p_release(world, &region);
    p2p_end(world);
}

static void many_gets_at_once_complete_each_with_its_cookie(void **state)
{
    enum { COUNT = 48, STRIDE = 20011 };
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region regions[2] = {p2p_register(world, 1, COUNT * STRIDE, 1),
                                    p2p_register(world, 2, COUNT * STRIDE, 2)};
    unsigned char *local = calloc(2 * COUNT, STRIDE);
    bool seen[2 * COUNT] = {false};
    assert_non_null(local);
    for (uint32_t i = 0; i < 2 * COUNT; i++) {
        const uint32_t length_bytes = STRIDE - i * 7;
        get(world, 0, 1 + i % 2, &regions[i % 2], (size_t)(i / 2) * STRIDE, local + (size_t)i * STRIDE, length_bytes,
            i);
    }
    p2p_await(world, 0, TT_P2P_DONE, 2 * COUNT);
    for (uint32_t i = 0; i < 2 * COUNT; i++) {
        const struct p2p_record *record = p2p_record_of(world, 0, TT_P2P_DONE, i);
        assert_int_equal(record->event.status, TUTTI_OK);
        assert_in_range(record->event.cookie, 0, 2 * COUNT - 1);
        assert_false(seen[record->event.cookie]);
        seen[record->event.cookie] = true;
        assert_pattern(local + (size_t)i * STRIDE, (size_t)(i / 2) * STRIDE, STRIDE - i * 7, 1 + i % 2);
    }
    free(local);
    p2p_release(world, &regions[0]);
    p2p_release(world, &regions[1]);
    p2p_end(world);
}

static void gets_go_both_ways_at_once_into_registered_memory(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region sources[2], targets[2];
    for (uint32_t i = 0; i < 2; i++) {
        sources[i] = p2p_register(world, i, MEGABYTE, 10 + i);
        targets[i] = p2p_register(world, i, MEGABYTE, 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        get(world, i, 1 - i, &sources[1 - i], 0, targets[i].bytes, MEGABYTE, i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        p2p_await(world, i, TT_P2P_DONE, 1);
        assert_done(world, i, 0, i);
        assert_pattern(targets[i].bytes, 0, MEGABYTE, 10 + 1 - i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        p2p_release(world, &sources[i]);
        p2p_release(world, &targets[i]);
    }
    p2p_end(world);
}

static void get_of_nothing_is_refused(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region region = p2p_register(world, 1, 10, 0);
    struct tt_p2p_peer *peer = world->members[0].peers[1];
    unsigned char local[1];
    assert_int_equal(peer->ops->get(peer, region.key, region.key_bytes, (uintptr_t)region.bytes, local, 0, 1),
                     TUTTI_ERR_INVALID_ARGUMENT);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(world->members[0].record_count, 0);
    p2p_release(world, &region);
    p2p_end(world);
}

static void immediate_of_a_put_comes_when_all_its_bytes_are_there(void **state)
{
    static const uint32_t lengths[] = {1, 2, 100, 4096, 65537, MEGABYTE, 3 * MEGABYTE + 5};
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region region = p2p_register(world, 3, 4 * MEGABYTE, 1);
    unsigned char *local = malloc(4 * MEGABYTE);
    assert_non_null(local);
    for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t j = 0; j < lengths[i]; j++) {
            local[j] = p2p_pattern(j, 20 + i);
        }
        memset(region.bytes, 0x55, region.length_bytes);
        const uint64_t immediate = UINT64_C(0xFEDCBA9800000000) + i;
        put(world, 0, 3, &region, 13, local, lengths[i], immediate, i);
        const uint64_t deadline_ns = world->fixture->now_ns(world->world) + P2P_PATIENCE_NS;
        while (p2p_count(world, 3, TT_P2P_IMMEDIATE) <= i && world->fixture->now_ns(world->world) < deadline_ns) {
            p2p_step(world);
        }
        assert_int_equal(p2p_record_of(world, 3, TT_P2P_IMMEDIATE, i)->event.immediate, immediate);
        assert_pattern(region.bytes + 13, 0, lengths[i], 20 + i);
        assert_int_equal(region.bytes[12], 0x55);
        assert_int_equal(region.bytes[13 + lengths[i]], 0x55);
        p2p_await(world, 0, TT_P2P_DONE, i + 1);
        assert_done(world, 0, i, i);
    }
    free(local);
    p2p_release(world, &region);
    p2p_end(world);
}

static void put_of_zero_bytes_is_its_immediate(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region region = p2p_register(world, 1, 0, 0);
    put(world, 0, 1, &region, 0, NULL, 0, UINT64_MAX, 1);
    put(world, 0, 1, &region, 0, NULL, 0, 0, 2);
    p2p_await(world, 1, TT_P2P_IMMEDIATE, 2);
    p2p_await(world, 0, TT_P2P_DONE, 2);
    const uint64_t first = p2p_record_of(world, 1, TT_P2P_IMMEDIATE, 0)->event.immediate;
    const uint64_t second = p2p_record_of(world, 1, TT_P2P_IMMEDIATE, 1)->event.immediate;
    assert_true(first == ~second && (first == 0 || second == 0));
    p2p_release(world, &region);
    p2p_end(world);
}

static void many_puts_raise_each_immediate_once(void **state)
{
    enum { COUNT = 60, LENGTH_BYTES = 3001 };
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region region = p2p_register(world, 2, COUNT * LENGTH_BYTES, 0);
    struct p2p_region source = p2p_register(world, 0, COUNT * LENGTH_BYTES, 77);
    bool seen[COUNT] = {false};
    for (uint32_t i = 0; i < COUNT; i++) {
        const size_t offset = (size_t)i * LENGTH_BYTES;
        put(world, 0, 2, &region, offset, source.bytes + offset, LENGTH_BYTES, i, i);
    }
    p2p_await(world, 2, TT_P2P_IMMEDIATE, COUNT);
    p2p_await(world, 0, TT_P2P_DONE, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint64_t immediate = p2p_record_of(world, 2, TT_P2P_IMMEDIATE, i)->event.immediate;
        assert_in_range(immediate, 0, COUNT - 1);
        assert_false(seen[immediate]);
        seen[immediate] = true;
    }
    assert_pattern(region.bytes, 0, COUNT * LENGTH_BYTES, 77);
    p2p_release(world, &region);
    p2p_release(world, &source);
    p2p_end(world);
}

/* --- Memory and addresses --------------------------------------------------------------------------------------- */

static void buffers_too_small_for_key_or_address_are_refused(void **state)
{
    struct p2p_world *world = p2p_begin(state);
    struct tt_p2p *p2p = world->members[0].p2p;
    struct p2p_region region = p2p_register(world, 0, 100, 0);
    unsigned char buffer[TT_P2P_MAX_ADDRESS_BYTES];
    size_t length_bytes = sizeof(buffer);
    assert_int_equal(p2p->ops->address(p2p, buffer, &length_bytes), TUTTI_OK);
    assert_in_range(length_bytes, 1, TT_P2P_MAX_ADDRESS_BYTES);
    size_t less_bytes = length_bytes - 1;
    memset(buffer, 0x77, sizeof(buffer));
    assert_int_equal(p2p->ops->address(p2p, buffer, &less_bytes), TUTTI_ERR_TOO_LARGE);
    assert_int_equal(less_bytes, length_bytes - 1); /* outputs are set only on success */
    assert_int_equal(buffer[0], 0x77);
    less_bytes = region.key_bytes - 1;
    assert_int_equal(p2p->ops->memory_pack(region.memory, buffer, &less_bytes), TUTTI_ERR_TOO_LARGE);
    assert_int_equal(less_bytes, region.key_bytes - 1);
    assert_int_equal(buffer[0], 0x77);
    p2p_release(world, &region);
    p2p_end(world);
}

static void bytes_that_are_no_address_are_refused(void **state)
{
    struct p2p_world *world = p2p_begin(state);
    struct tt_p2p *p2p = world->members[0].p2p;
    struct tt_p2p_peer *peer = NULL;
    unsigned char garbage[40] = {0};
    assert_int_equal(p2p->ops->connect(p2p, garbage, 0, 1, &peer), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(p2p->ops->connect(p2p, garbage, sizeof(garbage), 1, &peer), TUTTI_ERR_INVALID_ARGUMENT);
    assert_null(peer);
    p2p_end(world);
}

static void memory_of_zero_bytes_can_be_registered(void **state)
{
    struct p2p_world *world = p2p_begin(state);
    struct tt_p2p *p2p = world->members[0].p2p;
    struct tt_p2p_memory *memory = NULL;
    unsigned char key[TT_P2P_MAX_KEY_BYTES];
    size_t key_bytes = sizeof(key);
    assert_int_equal(p2p->ops->memory_register(p2p, NULL, 0, &memory), TUTTI_OK);
    assert_int_equal(p2p->ops->memory_pack(memory, key, &key_bytes), TUTTI_OK);
    p2p->ops->memory_release(memory);
    p2p->ops->memory_release(NULL);
    p2p_end(world);
}

static void registrations_of_one_member_are_apart_and_may_overlap(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct tt_p2p *p2p = world->members[1].p2p;
    struct p2p_region whole = p2p_register(world, 1, 10000, 4);
    struct p2p_region part = {.bytes = whole.bytes + 100, .length_bytes = 200, .key_bytes = sizeof(part.key)};
    unsigned char local[200];
    assert_int_equal(p2p->ops->memory_register(p2p, part.bytes, part.length_bytes, &part.memory), TUTTI_OK);
    assert_int_equal(p2p->ops->memory_pack(part.memory, part.key, &part.key_bytes), TUTTI_OK);
    get(world, 0, 1, &part, 0, local, 200, 1);
    p2p_await(world, 0, TT_P2P_DONE, 1);
    assert_pattern(local, 100, 200, 4);
    p2p->ops->memory_release(part.memory);
    memset(local, 0, sizeof(local));
    get(world, 0, 1, &whole, 150, local, 200, 2); /* the other one still stands */
    p2p_await(world, 0, TT_P2P_DONE, 2);
    assert_done(world, 0, 1, 2);
    assert_pattern(local, 150, 200, 4);
    p2p_release(world, &whole);
    p2p_end(world);
}

/* --- The end of connections ------------------------------------------------------------------------------------- */

static void assert_peer_down(struct p2p_world *world, uint32_t member, uint32_t other)
{
    p2p_await(world, member, TT_P2P_PEER_DOWN, 1);
    assert_int_equal(p2p_record_of(world, member, TT_P2P_PEER_DOWN, 0)->event.peer_cookie, p2p_cookie(member, other));
}

static void disconnect_delivers_frames_then_tells_the_other_side_once(void **state)
{
    enum { COUNT = 200 };
    struct p2p_world *world = p2p_begin_connected(state);
    unsigned char frame[1000];
    for (uint32_t i = 0; i < COUNT; i++) {
        fill(frame, sizeof(frame), i);
        p2p_send(world, 0, 1, frame, sizeof(frame));
    }
    p2p_disconnect(world, 0, 1);
    assert_peer_down(world, 1, 0);
    p2p_await(world, 1, TT_P2P_FRAME, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_frame(world, 1, i, sizeof(frame), i);
    }
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 1, TT_P2P_PEER_DOWN), 1);
    assert_int_equal(world->members[0].record_count, 0); /* who disconnects is told nothing */
    assert_int_equal(world->members[2].record_count, 0);

    /* The others are not concerned. */
    p2p_send(world, 0, 2, "hello", 5);
    p2p_send(world, 2, 1, "hello", 5);
    p2p_await(world, 2, TT_P2P_FRAME, 1);
    p2p_await(world, 1, TT_P2P_FRAME, COUNT + 1);
    p2p_end(world);
}

static void when_both_disconnect_nobody_is_told(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    p2p_send(world, 0, 1, "x", 1);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    p2p_disconnect(world, 0, 1);
    p2p_disconnect(world, 1, 0);
    p2p_settle(world, 2 * P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 0, TT_P2P_PEER_DOWN), 0);
    assert_int_equal(p2p_count(world, 1, TT_P2P_PEER_DOWN), 0);
    p2p_end(world);
}

static void nothing_starts_to_a_peer_that_has_failed(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region region = p2p_register(world, 1, 100, 0);
    struct tt_p2p_peer *peer = world->members[0].peers[1];
    unsigned char local[100] = {0};
    p2p_disconnect(world, 1, 0);
    assert_peer_down(world, 0, 1);
    assert_int_equal(peer->ops->send(peer, "x", 1), TUTTI_ERR_PEER_FAILED);
    assert_int_equal(peer->ops->get(peer, region.key, region.key_bytes, (uintptr_t)region.bytes, local, 100, 1),
                     TUTTI_ERR_PEER_FAILED);
    assert_int_equal(peer->ops->put(peer, region.key, region.key_bytes, (uintptr_t)region.bytes, local, 100, 1, 2),
                     TUTTI_ERR_PEER_FAILED);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 0, TT_P2P_DONE), 0);
    assert_int_equal(p2p_count(world, 0, TT_P2P_PEER_DOWN), 1);
    p2p_disconnect(world, 0, 1); /* frees the handle, no more */
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 0, TT_P2P_PEER_DOWN), 1);
    p2p_release(world, &region);
    p2p_end(world);
}

static void get_under_way_to_a_peer_that_goes_completes_once(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region region = p2p_register(world, 1, 4 * MEGABYTE, 6);
    unsigned char *local = calloc(1, 4 * MEGABYTE);
    assert_non_null(local);
    get(world, 0, 1, &region, 0, local, 4 * MEGABYTE, 5);
    p2p_disconnect(world, 1, 0);
    assert_peer_down(world, 0, 1);
    p2p_await(world, 0, TT_P2P_DONE, 1);
    const struct tt_p2p_event *done = &p2p_record_of(world, 0, TT_P2P_DONE, 0)->event;
    assert_int_equal(done->cookie, 5);
    if (done->status == TUTTI_OK) { /* it may have been faster than the farewell */
        assert_pattern(local, 0, 4 * MEGABYTE, 6);
    } else {
        assert_int_equal(done->status, TUTTI_ERR_PEER_FAILED);
    }
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 0, TT_P2P_DONE), 1);
    free(local);
    p2p_release(world, &region);
    p2p_end(world);
}

static void disconnect_ends_what_is_under_way_and_then_leaves_the_memory_alone(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region region = p2p_register(world, 1, 4 * MEGABYTE, 6);
    unsigned char *local = calloc(2, 4 * MEGABYTE);
    assert_non_null(local);
    get(world, 0, 1, &region, 0, local, 4 * MEGABYTE, 0);
    put(world, 0, 1, &region, 0, local + 4 * MEGABYTE, 4 * MEGABYTE, 1, 1);
    for (int i = 0; i < 3; i++) {
        p2p_step(world);
    }
    p2p_disconnect(world, 0, 1);
    p2p_await(world, 0, TT_P2P_DONE, 2);
    for (uint32_t i = 0; i < 2; i++) {
        const struct tt_p2p_event *done = &p2p_record_of(world, 0, TT_P2P_DONE, i)->event;
        assert_in_range(done->cookie, 0, 1);
        assert_true(done->status == TUTTI_OK || done->status == TUTTI_ERR_CANCELED);
    }
    assert_int_not_equal(p2p_record_of(world, 0, TT_P2P_DONE, 0)->event.cookie,
                         p2p_record_of(world, 0, TT_P2P_DONE, 1)->event.cookie);
    memset(local, 0x33, 4 * MEGABYTE);
    p2p_settle(world, P2P_QUIET_NS);
    for (size_t i = 0; i < 4 * MEGABYTE; i++) {
        assert_true(local[i] == 0x33);
    }
    assert_int_equal(p2p_count(world, 0, TT_P2P_PEER_DOWN), 0);
    free(local);
    p2p_release(world, &region);
    p2p_end(world);
}

static void disconnected_members_can_connect_again(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    for (uint32_t i = 0; i < 3; i++) {
        p2p_send(world, 0, 1, "x", 1);
        p2p_await(world, 1, TT_P2P_FRAME, i + 1);
        p2p_disconnect(world, 0, 1);
        p2p_await(world, 1, TT_P2P_PEER_DOWN, i + 1);
        p2p_disconnect(world, 1, 0);
        p2p_connect(world, 0, 1);
        p2p_connect(world, 1, 0);
    }
    p2p_send(world, 0, 1, "again", 5);
    p2p_send(world, 1, 0, "again", 5);
    p2p_await(world, 1, TT_P2P_FRAME, 4);
    p2p_await(world, 0, TT_P2P_FRAME, 1);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 0, TT_P2P_PEER_DOWN), 0);
    assert_int_equal(p2p_count(world, 1, TT_P2P_PEER_DOWN), 3);
    p2p_end(world);
}

static void connecting_to_a_side_that_has_left_ends_in_peer_down(void **state)
{
    struct p2p_world *world = p2p_begin(state);
    p2p_connect(world, 0, 1);
    p2p_send(world, 0, 1, "x", 1);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    p2p_disconnect(world, 0, 1);
    p2p_settle(world, P2P_QUIET_NS);
    p2p_connect(world, 1, 0);
    assert_peer_down(world, 1, 0);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 1, TT_P2P_PEER_DOWN), 1);
    p2p_end(world);
}

static void each_of_two_connections_of_a_pair_ends_for_itself(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct tt_p2p *p2p[2] = {world->members[0].p2p, world->members[1].p2p};
    struct tt_p2p_peer *second[2];
    for (uint32_t i = 0; i < 2; i++) {
        unsigned char address[TT_P2P_MAX_ADDRESS_BYTES];
        size_t length_bytes = sizeof(address);
        assert_int_equal(p2p[1 - i]->ops->address(p2p[1 - i], address, &length_bytes), TUTTI_OK);
        assert_int_equal(p2p[i]->ops->connect(p2p[i], address, length_bytes, 4711 + i, &second[i]), TUTTI_OK);
    }
    p2p_settle(world, P2P_QUIET_NS);
    p2p_disconnect(world, 0, 1); /* the first one */
    assert_peer_down(world, 1, 0);
    assert_int_equal(second[0]->ops->send(second[0], "a", 1), TUTTI_OK);
    assert_int_equal(second[1]->ops->send(second[1], "b", 1), TUTTI_OK);
    p2p_await(world, 0, TT_P2P_FRAME, 1);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    second[1]->ops->disconnect(second[1]);
    p2p_await(world, 0, TT_P2P_PEER_DOWN, 1);
    assert_int_equal(p2p_record_of(world, 0, TT_P2P_PEER_DOWN, 0)->event.peer_cookie, 4711);
    second[0]->ops->disconnect(second[0]);
    p2p_settle(world, P2P_QUIET_NS);
    assert_int_equal(p2p_count(world, 1, TT_P2P_PEER_DOWN), 1);
    p2p_end(world);
}

static void destroy_with_peers_left_delivers_frames_and_tells_them(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    for (uint32_t i = 1; i < CONFORMANCE_MEMBERS; i++) { /* all connections stand */
        p2p_send(world, i, 0, "up", 2);
        p2p_send(world, 0, i, "up", 2);
    }
    p2p_await(world, 0, TT_P2P_FRAME, CONFORMANCE_MEMBERS - 1);
    for (uint32_t i = 1; i < CONFORMANCE_MEMBERS; i++) {
        p2p_await(world, i, TT_P2P_FRAME, 1);
    }
    p2p_destroy(world, 0);
    for (uint32_t i = 1; i < CONFORMANCE_MEMBERS; i++) {
        assert_peer_down(world, i, 0);
        p2p_send(world, i, i % 3 + 1, "alive", 5);
    }
    for (uint32_t i = 1; i < CONFORMANCE_MEMBERS; i++) {
        p2p_await(world, i, TT_P2P_FRAME, 2);
    }
    p2p_settle(world, P2P_QUIET_NS);
    for (uint32_t i = 1; i < CONFORMANCE_MEMBERS; i++) {
        assert_int_equal(p2p_count(world, i, TT_P2P_PEER_DOWN), 1);
    }
    p2p_end(world);
}

static void killed_member_is_noticed_within_two_seconds_by_idle_peers(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    if (world->fixture->kill == NULL) {
        const char *reason = world->fixture->why_no_kill;
        p2p_end(world);
        TT_SKIP("%s", reason);
    }
    struct p2p_region region = p2p_register(world, 2, 4 * MEGABYTE, 0);
    struct p2p_region inbound = p2p_register(world, 0, 100, 0);
    unsigned char *local = calloc(1, 4 * MEGABYTE);
    assert_non_null(local);
    get(world, 0, 2, &region, 0, local, 4 * MEGABYTE, 1);
    put(world, 0, 2, &region, 0, local, 100000, 9, 2);
    world->fixture->kill(world->world, 2);
    world->members[2].is_idle = true;
    const uint64_t killed_ns = world->fixture->now_ns(world->world);
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (i != 2) {
            assert_peer_down(world, i, 2);
        }
    }
    assert_true(world->fixture->now_ns(world->world) - killed_ns <= 2 * TT_NS_PER_S);
    p2p_await(world, 0, TT_P2P_DONE, 2);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(p2p_record_of(world, 0, TT_P2P_DONE, i)->event.status, TUTTI_ERR_PEER_FAILED);
    }
    struct tt_p2p_peer *peer = world->members[1].peers[2];
    assert_int_equal(peer->ops->send(peer, "x", 1), TUTTI_ERR_PEER_FAILED);
    p2p_settle(world, 3 * TT_NS_PER_S);
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        assert_int_equal(p2p_count(world, i, TT_P2P_PEER_DOWN), i == 2 ? 0 : 1);
    }
    p2p_send(world, 0, 1, "alive", 5);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    free(local);
    p2p_release(world, &region);
    p2p_release(world, &inbound);
    p2p_end(world);
}

/* --- Waiting and counters --------------------------------------------------------------------------------------- */

static void sleeper_is_woken_by_a_frame(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_member *sleeper = &world->members[1];
    p2p_send(world, 0, 1, "first", 5);
    p2p_await(world, 1, TT_P2P_FRAME, 1);
    p2p_settle(world, P2P_QUIET_NS);
    sleeper->is_idle = true;
    bool armed = false;
    struct tt_p2p_event event;
    for (int i = 0; i < 1000 && !armed; i++) {
        armed = sleeper->p2p->ops->arm(sleeper->p2p);
        if (!armed) {
            assert_int_equal(sleeper->p2p->ops->progress(sleeper->p2p, &event, 1), 0); /* housekeeping */
        }
    }
    assert_true(armed);
    const int fd = sleeper->p2p->ops->fd(sleeper->p2p);
    p2p_send(world, 0, 1, "second", 6);
    p2p_settle(world, P2P_QUIET_NS);
    if (fd >= 0) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        assert_int_equal(poll(&wait, 1, 2000), 1);
    } else {
        assert_false(sleeper->p2p->ops->arm(sleeper->p2p));
    }
    sleeper->is_idle = false;
    p2p_await(world, 1, TT_P2P_FRAME, 2);
    p2p_end(world);
}

static void counters_agree_with_what_was_sent(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state);
    struct p2p_region region = p2p_register(world, 1, 5000, 0);
    struct tt_p2p_counters counters[2];
    unsigned char local[5000];
    p2p_send(world, 0, 1, "123", 3);
    p2p_send(world, 0, 1, "12345", 5);
    p2p_send(world, 1, 0, "1", 1);
    get(world, 0, 1, &region, 0, local, 5000, 1);
    p2p_await(world, 0, TT_P2P_DONE, 1);
    put(world, 0, 1, &region, 0, local, 700, 1, 2);
    p2p_await(world, 0, TT_P2P_DONE, 2);
    p2p_await(world, 0, TT_P2P_FRAME, 1);
    p2p_await(world, 1, TT_P2P_FRAME, 2);
    for (uint32_t i = 0; i < 2; i++) {
        world->members[i].p2p->ops->counters(world->members[i].p2p, &counters[i]);
    }
    assert_int_equal(counters[0].frames_sent, 2);
    assert_int_equal(counters[0].frames_received, 1);
    assert_int_equal(counters[0].bytes_sent, 8 + 700);
    assert_int_equal(counters[0].bytes_received, 1 + 5000);
    assert_int_equal(counters[1].frames_sent, 1);
    assert_int_equal(counters[1].frames_received, 2);
    assert_int_equal(counters[1].bytes_sent, 1);
    assert_int_equal(counters[1].bytes_received, 8);
    p2p_release(world, &region);
    p2p_end(world);
}

int main(int argument_count, char **arguments)
{
    static const struct conformance_fixture *const fixtures[] = {&conformance_sim, &conformance_sim_late,
                                                                 &conformance_ucx};
    static const struct conformance_body bodies[] = {
        CONFORMANCE_BODY(frames_of_every_length_arrive_in_order_both_ways),
        CONFORMANCE_BODY(many_frames_wait_for_a_receiver_that_is_busy),
        CONFORMANCE_BODY(frames_sent_before_the_other_side_connects_arrive),
        CONFORMANCE_BODY(frames_of_wrong_length_are_refused),
        CONFORMANCE_BODY(frames_stay_valid_until_the_next_progress),
        CONFORMANCE_BODY(gets_of_every_size_and_offset_read_just_that),
        CONFORMANCE_BODY(many_gets_at_once_complete_each_with_its_cookie),
        CONFORMANCE_BODY(gets_go_both_ways_at_once_into_registered_memory),
        CONFORMANCE_BODY(get_of_nothing_is_refused),
        CONFORMANCE_BODY(immediate_of_a_put_comes_when_all_its_bytes_are_there),
        CONFORMANCE_BODY(put_of_zero_bytes_is_its_immediate),
        CONFORMANCE_BODY(many_puts_raise_each_immediate_once),
        CONFORMANCE_BODY(buffers_too_small_for_key_or_address_are_refused),
        CONFORMANCE_BODY(bytes_that_are_no_address_are_refused),
        CONFORMANCE_BODY(memory_of_zero_bytes_can_be_registered),
        CONFORMANCE_BODY(registrations_of_one_member_are_apart_and_may_overlap),
        CONFORMANCE_BODY(disconnect_delivers_frames_then_tells_the_other_side_once),
        CONFORMANCE_BODY(when_both_disconnect_nobody_is_told),
        CONFORMANCE_BODY(nothing_starts_to_a_peer_that_has_failed),
        CONFORMANCE_BODY(get_under_way_to_a_peer_that_goes_completes_once),
        CONFORMANCE_BODY(disconnect_ends_what_is_under_way_and_then_leaves_the_memory_alone),
        CONFORMANCE_BODY(disconnected_members_can_connect_again),
        CONFORMANCE_BODY(connecting_to_a_side_that_has_left_ends_in_peer_down),
        CONFORMANCE_BODY(each_of_two_connections_of_a_pair_ends_for_itself),
        CONFORMANCE_BODY(destroy_with_peers_left_delivers_frames_and_tells_them),
        CONFORMANCE_BODY(killed_member_is_noticed_within_two_seconds_by_idle_peers),
        CONFORMANCE_BODY(sleeper_is_woken_by_a_frame),
        CONFORMANCE_BODY(counters_agree_with_what_was_sent),
    };
    return conformance_run("p2p", fixtures, sizeof(fixtures) / sizeof(fixtures[0]), bodies,
                           sizeof(bodies) / sizeof(bodies[0]), argument_count > 1 ? arguments[1] : NULL);
}
