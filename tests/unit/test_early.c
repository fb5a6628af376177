/* SPDX-License-Identifier: BSD-3-Clause */
/* The log of early chunks, and the pool of slabs that logs share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "proto/early.h"

enum { SLAB = 128 };

struct world {
    struct tt_early_pool pool;
    struct tt_early log;
    _Alignas(8) uint8_t memory[TT_EARLY_SLABS * SLAB];
};

static void set_up(struct world *world)
{
    memset(world, 0, sizeof *world);
    memset(world->memory, 0xC3, sizeof world->memory);
    tt_early_pool_init(&world->pool, world->memory, SLAB);
    world->log.pool = &world->pool;
}

/* A chunk whose bytes all are `value`, and that says in its other fields which one it is. */
static bool add(struct tt_early *log, uint8_t value, uint32_t length_bytes)
{
    uint8_t bytes[SLAB];
    struct tt_receive_chunk chunk = {
        .imm = 0x80000000U + value, .length_bytes = length_bytes, .source = 100U + value, .address = bytes};

    bool added;

    memset(bytes, value, sizeof bytes);
    added = tt_early_add(log, &chunk, (UINT64_C(7) << 32) + value);
    tt_early_check(log);
    return added;
}

static uint32_t assert_chunk(const struct tt_early *log, uint32_t offset, uint8_t value, uint32_t length_bytes)
{
    struct tt_receive_chunk chunk;
    uint32_t sequence, next = tt_early_read(log, offset, &chunk, &sequence);

    tt_early_check(log);
    assert_int_equal(chunk.imm, 0x80000000U + value);
    assert_int_equal(chunk.source, 100U + value);
    assert_int_equal(sequence, value);
    assert_int_equal(chunk.length_bytes, length_bytes);
    assert_int_equal((uintptr_t)chunk.address % 8, 0);
    for (uint32_t i = 0; i < length_bytes; i++) {
        assert_int_equal(((const uint8_t *)chunk.address)[i], value);
    }
    assert_int_equal(next, offset + tt_early_bytes(length_bytes));
    return next;
}

static void a_chunk_takes_16_bytes_and_its_own_in_eights(void **state)
{
    (void)state;
    assert_int_equal(tt_early_bytes(0), 16);
    assert_int_equal(tt_early_bytes(1), 24);
    assert_int_equal(tt_early_bytes(8), 24);
    assert_int_equal(tt_early_bytes(9), 32);
    assert_int_equal(tt_early_bytes(65535), 16 + 65536);
}

static void chunks_are_read_in_the_order_in_which_they_came(void **state)
{
    static const uint32_t lengths[] = {1, 0, 17, 8};
    struct world world;
    uint32_t offset = 0;

    (void)state;
    set_up(&world);
    for (uint8_t i = 0; i < 4; i++) {
        assert_true(add(&world.log, i, lengths[i]));
        assert_int_equal(atomic_load(&world.log.count), i + 1);
    }
    assert_int_equal(world.log.used_bytes, 24 + 16 + 40 + 24);
    for (uint8_t i = 0; i < 4; i++) {
        offset = assert_chunk(&world.log, offset, i, lengths[i]);
    }
    assert_int_equal(offset, world.log.used_bytes);
}

static void a_full_log_takes_what_fits_and_nothing_more(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    assert_true(add(&world.log, 1, 80));  /* 96 of 128 */
    assert_false(add(&world.log, 2, 17)); /* 40 */
    assert_int_equal(atomic_load(&world.log.count), 1);
    assert_true(add(&world.log, 3, 16)); /* 32 */
    assert_int_equal(world.log.used_bytes, SLAB);
    assert_false(add(&world.log, 4, 0));
    assert_chunk(&world.log, assert_chunk(&world.log, 0, 1, 80), 3, 16);
    for (uint32_t i = SLAB; i < sizeof world.memory; i++) {
        assert_int_equal(world.memory[i], 0xC3);
    }
}

static void lengths_beyond_everything_do_not_overflow(void **state)
{
    struct world world;
    struct tt_receive_chunk chunk = {.length_bytes = UINT32_MAX, .address = world.memory};

    (void)state;
    set_up(&world);
    assert_false(tt_early_add(&world.log, &chunk, 0));
    chunk.length_bytes = UINT32_MAX - 22; /* with its header: 0 */
    assert_false(tt_early_add(&world.log, &chunk, 0));
    chunk.length_bytes = SLAB;
    assert_false(tt_early_add(&world.log, &chunk, 0));
    assert_int_equal(atomic_load(&world.pool.taken), 0); /* and nothing was borrowed for it */
}

static void a_chunk_taken_out_of_the_middle_leaves_the_others_in_order(void **state)
{
    struct world world;
    uint32_t second, third;

    (void)state;
    set_up(&world);
    add(&world.log, 1, 9);
    add(&world.log, 2, 20);
    add(&world.log, 3, 1);
    second = assert_chunk(&world.log, 0, 1, 9);
    third = assert_chunk(&world.log, second, 2, 20);
    tt_early_remove(&world.log, second, third);
    assert_int_equal(atomic_load(&world.log.count), 2);
    assert_int_equal(assert_chunk(&world.log, assert_chunk(&world.log, 0, 1, 9), 3, 1), world.log.used_bytes);
    tt_early_remove(&world.log, 0, 32);
    assert_int_equal(assert_chunk(&world.log, 0, 3, 1), world.log.used_bytes);
    assert_true(add(&world.log, 4, 100 - 16)); /* what went left its room */
    assert_chunk(&world.log, 24, 4, 84);
}

static void a_log_that_is_empty_again_gives_its_slab_back(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    assert_int_equal(atomic_load(&world.pool.taken), 0);
    add(&world.log, 1, 8);
    add(&world.log, 2, 8);
    assert_int_equal(atomic_load(&world.pool.taken), 1);
    tt_early_remove(&world.log, 0, 24);
    assert_int_equal(atomic_load(&world.pool.taken), 1);
    tt_early_remove(&world.log, 0, 24);
    assert_int_equal(atomic_load(&world.pool.taken), 0);
    assert_null(world.log.memory);
    assert_int_equal(world.log.used_bytes, 0);
    assert_int_equal(atomic_load(&world.log.count), 0);
}

static void logs_share_the_slabs_and_who_finds_none_has_no_room(void **state)
{
    struct world world;
    struct tt_early logs[TT_EARLY_SLABS + 1];

    (void)state;
    set_up(&world);
    memset(logs, 0, sizeof logs);
    for (uint8_t i = 0; i <= TT_EARLY_SLABS; i++) {
        logs[i].pool = &world.pool;
        assert_int_equal(add(&logs[i], i, 100), i < TT_EARLY_SLABS);
    }
    for (uint8_t i = 0; i < TT_EARLY_SLABS; i++) { /* none lies on another */
        assert_chunk(&logs[i], 0, i, 100);
    }
    assert_int_equal(atomic_load(&world.pool.taken), 0xFFFF);
    tt_early_remove(&logs[7], 0, tt_early_bytes(100));
    assert_int_equal(atomic_load(&world.pool.taken), 0xFF7F);
    assert_true(add(&logs[TT_EARLY_SLABS], 99, 100));
    assert_ptr_equal(logs[TT_EARLY_SLABS].memory, world.memory + 7 * SLAB);
    assert_false(add(&logs[7], 7, 100));
    assert_int_equal(atomic_load(&logs[7].count), 0);
}

static void a_log_that_ends_gives_back_what_it_has(void **state)
{
    struct world world;

    (void)state;
    set_up(&world);
    tt_early_fini(&world.log); /* one that never had anything */
    add(&world.log, 1, 8);
    tt_early_fini(&world.log);
    assert_int_equal(atomic_load(&world.pool.taken), 0);
    assert_int_equal(world.log.used_bytes, 0);
}

static void without_a_pool_nothing_is_kept(void **state)
{
    struct tt_early log = {0};

    (void)state;
    assert_false(add(&log, 1, 0));
    assert_int_equal(atomic_load(&log.count), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chunk_takes_16_bytes_and_its_own_in_eights),
        cmocka_unit_test(chunks_are_read_in_the_order_in_which_they_came),
        cmocka_unit_test(a_full_log_takes_what_fits_and_nothing_more),
        cmocka_unit_test(lengths_beyond_everything_do_not_overflow),
        cmocka_unit_test(a_chunk_taken_out_of_the_middle_leaves_the_others_in_order),
        cmocka_unit_test(a_log_that_is_empty_again_gives_its_slab_back),
        cmocka_unit_test(logs_share_the_slabs_and_who_finds_none_has_no_room),
        cmocka_unit_test(a_log_that_ends_gives_back_what_it_has),
        cmocka_unit_test(without_a_pool_nothing_is_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
