/* SPDX-License-Identifier: BSD-3-Clause */
/* The p2p contract: gets, puts, and the memory and keys that they need. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "p2p_bodies.h"
#include "p2p_world.h"

enum { MEGABYTE = 1 << 20 };

static void assert_done(const struct p2p_world *world, uint32_t member, uint32_t index, uint64_t cookie)
{
    const struct p2p_record *record = p2p_record_of(world, member, TT_P2P_DONE, index);
    assert_int_equal(record->event.status, TUTTI_OK);
    assert_int_equal(record->event.cookie, cookie);
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
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct p2p_region region = p2p_register(world, 1, 8 * MEGABYTE, 3);
    unsigned char *local = malloc(8 * MEGABYTE + 2);
    assert_non_null(local);
    for (uint32_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const size_t length_bytes = parts[i].length_bytes;
        memset(local, 0xAA, length_bytes + 2);
        p2p_get(world, 0, 1, &region, parts[i].offset, local + 1, length_bytes, 1000 + i);
        p2p_await(world, 0, TT_P2P_DONE, i + 1);
        assert_done(world, 0, i, 1000 + i);
        p2p_assert_pattern(local + 1, parts[i].offset, length_bytes, 3);
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
    struct p2p_world *world = p2p_begin_connected(state, 3);
    struct p2p_region regions[2] = {p2p_register(world, 1, COUNT * STRIDE, 1),
                                    p2p_register(world, 2, COUNT * STRIDE, 2)};
    unsigned char *local = calloc(2 * COUNT, STRIDE);
    bool seen[2 * COUNT] = {false};
    assert_non_null(local);
    for (uint32_t i = 0; i < 2 * COUNT; i++) {
        const uint32_t length_bytes = STRIDE - i * 7;
        p2p_get(world, 0, 1 + i % 2, &regions[i % 2], (size_t)(i / 2) * STRIDE, local + (size_t)i * STRIDE,
                length_bytes, i);
    }
    p2p_await(world, 0, TT_P2P_DONE, 2 * COUNT);
    for (uint32_t i = 0; i < 2 * COUNT; i++) {
        const struct p2p_record *record = p2p_record_of(world, 0, TT_P2P_DONE, i);
        assert_int_equal(record->event.status, TUTTI_OK);
        assert_in_range(record->event.cookie, 0, 2 * COUNT - 1);
        assert_false(seen[record->event.cookie]);
        seen[record->event.cookie] = true;
        p2p_assert_pattern(local + (size_t)i * STRIDE, (size_t)(i / 2) * STRIDE, STRIDE - i * 7, 1 + i % 2);
    }
    free(local);
    p2p_release(world, &regions[0]);
    p2p_release(world, &regions[1]);
    p2p_end(world);
}

static void gets_go_both_ways_at_once_into_registered_memory(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct p2p_region sources[2], targets[2];
    for (uint32_t i = 0; i < 2; i++) {
        sources[i] = p2p_register(world, i, MEGABYTE, 10 + i);
        targets[i] = p2p_register(world, i, MEGABYTE, 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        p2p_get(world, i, 1 - i, &sources[1 - i], 0, targets[i].bytes, MEGABYTE, i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        p2p_await(world, i, TT_P2P_DONE, 1);
        assert_done(world, i, 0, i);
        p2p_assert_pattern(targets[i].bytes, 0, MEGABYTE, 10 + 1 - i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        p2p_release(world, &sources[i]);
        p2p_release(world, &targets[i]);
    }
    p2p_end(world);
}

static void get_of_nothing_is_refused(void **state)
{
    struct p2p_world *world = p2p_begin_connected(state, 2);
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
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct p2p_region region = p2p_register(world, 1, 4 * MEGABYTE, 1);
    unsigned char *local = malloc(4 * MEGABYTE);
    assert_non_null(local);
    for (uint32_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        for (size_t j = 0; j < lengths[i]; j++) {
            local[j] = p2p_pattern(j, 20 + i);
        }
        memset(region.bytes, 0x55, region.length_bytes);
        const uint64_t immediate = UINT64_C(0xFEDCBA9800000000) + i;
        p2p_put(world, 0, 1, &region, 13, local, lengths[i], immediate, i);
        const uint64_t deadline_ns = world->fixture->now_ns(world->world) + P2P_PATIENCE_NS;
        while (p2p_count(world, 1, TT_P2P_IMMEDIATE) <= i && world->fixture->now_ns(world->world) < deadline_ns) {
            p2p_step(world);
        }
        assert_int_equal(p2p_record_of(world, 1, TT_P2P_IMMEDIATE, i)->event.immediate, immediate);
        p2p_assert_pattern(region.bytes + 13, 0, lengths[i], 20 + i);
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
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct p2p_region region = p2p_register(world, 1, 0, 0);
    p2p_put(world, 0, 1, &region, 0, NULL, 0, UINT64_MAX, 1);
    p2p_put(world, 0, 1, &region, 0, NULL, 0, 0, 2);
    p2p_await(world, 1, TT_P2P_IMMEDIATE, 2);
    p2p_await(world, 0, TT_P2P_DONE, 2);
    const uint64_t first = p2p_record_of(world, 1, TT_P2P_IMMEDIATE, 0)->event.immediate;
    const uint64_t second = p2p_record_of(world, 1, TT_P2P_IMMEDIATE, 1)->event.immediate;
    assert_true(first == ~second && (first == 0 || second == 0));
    p2p_release(world, &region);
    p2p_end(world);
}

/* Of any length, and of numbers that are short and long. */
static void data_of_an_immediate_comes_with_it(void **state)
{
    enum { COUNT = 3 * (TT_P2P_MAX_IMMEDIATE_BYTES + 1), LENGTH_BYTES = 300 };
    const uint64_t far = UINT64_C(0xFEDCBA9800000000);
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct p2p_region region = p2p_register(world, 1, COUNT * LENGTH_BYTES, 0);
    struct p2p_region source = p2p_register(world, 0, COUNT * LENGTH_BYTES, 77);
    bool seen[COUNT] = {false};
    for (uint32_t i = 0; i < COUNT; i++) {
        const size_t offset = (size_t)i * LENGTH_BYTES;
        struct tt_p2p_immediate immediate = {.value = i % 2 * far + i, .data_bytes = i / 3};
        for (size_t j = 0; j < immediate.data_bytes; j++) {
            immediate.data[j] = p2p_pattern(j, i);
        }
        p2p_put_with(world, 0, 1, &region, offset, source.bytes + offset, i % 3 == 0 ? 0 : LENGTH_BYTES, &immediate, i);
        memset(&immediate, 0x55, sizeof(immediate)); /* it was copied */
    }
    p2p_await(world, 1, TT_P2P_IMMEDIATE, COUNT);
    p2p_await(world, 0, TT_P2P_DONE, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        const struct p2p_record *record = p2p_record_of(world, 1, TT_P2P_IMMEDIATE, i);
        const uint64_t number = record->event.immediate % far;
        assert_in_range(number, 0, COUNT - 1);
        assert_true(record->event.immediate == number % 2 * far + number);
        assert_false(seen[number]);
        seen[number] = true;
        assert_int_equal(record->event.length_bytes, number / 3);
        p2p_assert_pattern(record->frame, 0, number / 3, (uint32_t)number);
        if (number % 3 != 0) {
            p2p_assert_pattern(region.bytes + number * LENGTH_BYTES, number * LENGTH_BYTES, LENGTH_BYTES, 77);
        }
    }
    p2p_release(world, &region);
    p2p_release(world, &source);
    p2p_end(world);
}

static void many_puts_raise_each_immediate_once(void **state)
{
    enum { COUNT = 60, LENGTH_BYTES = 3001 };
    struct p2p_world *world = p2p_begin_connected(state, 3);
    struct p2p_region region = p2p_register(world, 2, COUNT * LENGTH_BYTES, 0);
    struct p2p_region source = p2p_register(world, 0, COUNT * LENGTH_BYTES, 77);
    bool seen[COUNT] = {false};
    for (uint32_t i = 0; i < COUNT; i++) {
        const size_t offset = (size_t)i * LENGTH_BYTES;
        p2p_put(world, 0, 2, &region, offset, source.bytes + offset, LENGTH_BYTES, i, i);
    }
    p2p_await(world, 2, TT_P2P_IMMEDIATE, COUNT);
    p2p_await(world, 0, TT_P2P_DONE, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        const uint64_t immediate = p2p_record_of(world, 2, TT_P2P_IMMEDIATE, i)->event.immediate;
        assert_in_range(immediate, 0, COUNT - 1);
        assert_false(seen[immediate]);
        seen[immediate] = true;
    }
    p2p_assert_pattern(region.bytes, 0, COUNT * LENGTH_BYTES, 77);
    p2p_release(world, &region);
    p2p_release(world, &source);
    p2p_end(world);
}

/* --- Memory and addresses --------------------------------------------------------------------------------------- */

static void buffers_too_small_for_key_or_address_are_refused(void **state)
{
    struct p2p_world *world = p2p_begin(state, 2);
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
    struct p2p_world *world = p2p_begin(state, 1);
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
    struct p2p_world *world = p2p_begin(state, 1);
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
    struct p2p_world *world = p2p_begin_connected(state, 2);
    struct tt_p2p *p2p = world->members[1].p2p;
    struct p2p_region whole = p2p_register(world, 1, 10000, 4);
    struct p2p_region part = {.bytes = whole.bytes + 100, .length_bytes = 200, .key_bytes = sizeof(part.key)};
    unsigned char local[200];
    assert_int_equal(p2p->ops->memory_register(p2p, part.bytes, part.length_bytes, &part.memory), TUTTI_OK);
    assert_int_equal(p2p->ops->memory_pack(part.memory, part.key, &part.key_bytes), TUTTI_OK);
    p2p_get(world, 0, 1, &part, 0, local, 200, 1);
    p2p_await(world, 0, TT_P2P_DONE, 1);
    p2p_assert_pattern(local, 100, 200, 4);
    p2p->ops->memory_release(part.memory);
    memset(local, 0, sizeof(local));
    p2p_get(world, 0, 1, &whole, 150, local, 200, 2); /* the other one still stands */
    p2p_await(world, 0, TT_P2P_DONE, 2);
    assert_done(world, 0, 1, 2);
    p2p_assert_pattern(local, 150, 200, 4);
    p2p_release(world, &whole);
    p2p_end(world);
}

const struct conformance_body p2p_memory_bodies[] = {
    CONFORMANCE_BODY(gets_of_every_size_and_offset_read_just_that),
    CONFORMANCE_BODY(many_gets_at_once_complete_each_with_its_cookie),
    CONFORMANCE_BODY(gets_go_both_ways_at_once_into_registered_memory),
    CONFORMANCE_BODY(get_of_nothing_is_refused),
    CONFORMANCE_BODY(immediate_of_a_put_comes_when_all_its_bytes_are_there),
    CONFORMANCE_BODY(put_of_zero_bytes_is_its_immediate),
    CONFORMANCE_BODY(data_of_an_immediate_comes_with_it),
    CONFORMANCE_BODY(many_puts_raise_each_immediate_once),
    CONFORMANCE_BODY(buffers_too_small_for_key_or_address_are_refused),
    CONFORMANCE_BODY(bytes_that_are_no_address_are_refused),
    CONFORMANCE_BODY(memory_of_zero_bytes_can_be_registered),
    CONFORMANCE_BODY(registrations_of_one_member_are_apart_and_may_overlap),
};
const size_t p2p_memory_bodies_count = sizeof(p2p_memory_bodies) / sizeof(p2p_memory_bodies[0]);
