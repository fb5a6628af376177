/* SPDX-License-Identifier: BSD-3-Clause */
/* The receive kernel and chunks of eager collectives that have not been published yet. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "receive_world.h"

enum { FRONTIER = 1000, SLAB = 256 }; /* 1000 = 7 * 128 + 104: its eager tag is 128 + 104 */

struct early_world {
    struct world world;
    struct tt_early_pool pool;
    _Alignas(8) uint8_t slabs[TT_EARLY_SLABS * SLAB];
};

static void set_up_early(struct early_world *early)
{
    set_up(&early->world);
    tt_early_pool_init(&early->pool, early->slabs, SLAB);
    early->world.receiver.log.pool = &early->pool;
    early->world.receiver.frontier = early->world.receiver.drained = FRONTIER;
}

static uint32_t receive_eager(struct early_world *early, uint64_t sequence, uint32_t psn, uint8_t first_byte)
{
    return receive(&early->world, tt_tag_of_sequence(sequence, true), psn, 2, 4, first_byte);
}

static void chunks_are_early_from_the_frontier_to_64_sequence_numbers_ahead(void **state)
{
    struct early_world early;
    struct tt_receiver *receiver = &early.world.receiver;

    (void)state;
    set_up_early(&early);
    receiver->drained = FRONTIER - 64; /* what is older has been taken out of the queue */
    for (uint64_t sequence = FRONTIER - 64; sequence < FRONTIER + 64; sequence++) {
        bool is_early = sequence >= FRONTIER;
        uint64_t stale = atomic_load(&receiver->stale);

        assert_int_equal(receive_eager(&early, sequence, 0, 1), 0);
        assert_int_equal(atomic_load(&receiver->stale), stale + !is_early);
        if (is_early) { /* make room */
            assert_int_equal(atomic_load(&receiver->log.count), 1);
            tt_early_remove(&receiver->log, 0, 24);
        }
    }
    assert_int_equal(receive(&early.world, tt_tag_of_sequence(FRONTIER, false), 0, 2, 4, 1), 0); /* an ordinary tag */
    assert_counters(&early.world, (uint64_t[]){0, 65, 0, 0, 0, 0, 64});
    assert_nothing_changed(&early.world);
}

static void early_chunks_are_placed_once_when_their_collective_is_published(void **state)
{
    struct early_world early;
    struct world *world = &early.world;

    (void)state;
    set_up_early(&early);
    receive_eager(&early, FRONTIER + 3, 1, 9); /* another one's, which stays */
    receive_eager(&early, FRONTIER, 0, 10);
    receive_eager(&early, FRONTIER, 1, 20);
    receive_eager(&early, FRONTIER, 0, 30); /* a duplicate */
    assert_int_equal(receive_early(world), 0);
    assert_int_equal(atomic_load(&world->receiver.log.count), 4);
    tt_receiver_publish(&world->receiver, tt_tag_of_sequence(FRONTIER, true), &world->stream);
    assert_int_equal(receive_eager(&early, FRONTIER, 1, 40), 1); /* straight into place, before the log is looked at */
    assert_int_equal(receive_early(world), 1);
    assert_int_equal(receive_early(world), 0);
    assert_int_equal(world->memory[MARGIN], 10);
    assert_int_equal(world->memory[MARGIN + 4], 40);
    assert_int_equal(atomic_load(&world->stream.received), 2);
    assert_int_equal(atomic_load(&world->bitmap[0]), 3);
    assert_counters(world, (uint64_t[]){2, 0, 0, 0, 0, 2, 4});
    assert_int_equal(atomic_load(&world->receiver.log.count), 1);
}

static void early_chunks_that_do_not_fit_their_collective_are_counted_and_change_nothing(void **state)
{
    struct early_world early;
    struct world *world = &early.world;
    uint32_t tag = tt_tag_of_sequence(FRONTIER, true);

    (void)state;
    set_up_early(&early);
    receive(world, tag, 6, 2, 4, 1); /* range */
    receive(world, tag, 0, 3, 4, 1); /* source */
    receive(world, tag, 0, 2, 3, 1); /* length */
    tt_receiver_publish(&world->receiver, tag, &world->stream);
    assert_int_equal(receive_early(world), 0);
    assert_counters(world, (uint64_t[]){0, 0, 1, 1, 1, 0, 3});
    assert_nothing_changed(world);
    assert_int_equal(atomic_load(&early.pool.taken), 0);
}

/* They were fetched meanwhile, or sent twice, and their tag will mean something else. */
static void early_chunks_that_the_frontier_has_passed_are_dropped(void **state)
{
    struct early_world early;
    struct world *world = &early.world;

    (void)state;
    set_up_early(&early);
    receive_eager(&early, FRONTIER, 0, 10);
    receive_eager(&early, FRONTIER + 1, 0, 20);
    receive_eager(&early, FRONTIER + 2, 0, 30);
    world->receiver.frontier = FRONTIER + 2;
    assert_int_equal(receive_early(world), 0);
    assert_counters(world, (uint64_t[]){0, 2, 0, 0, 0, 0, 3});
    tt_receiver_publish(&world->receiver, tt_tag_of_sequence(FRONTIER + 2, true), &world->stream);
    assert_int_equal(receive_early(world), 1);
    assert_int_equal(world->memory[MARGIN], 30);
    assert_int_equal(atomic_load(&early.pool.taken), 0);
}

static void what_finds_no_room_in_the_log_is_stale(void **state)
{
    struct early_world early;

    (void)state;
    set_up_early(&early);
    for (uint32_t i = 0; i < 11; i++) { /* 10 of 24 bytes in 256 */
        receive_eager(&early, FRONTIER, i, 1);
    }
    assert_counters(&early.world, (uint64_t[]){0, 1, 0, 0, 0, 0, 10});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_are_early_from_the_frontier_to_64_sequence_numbers_ahead),
        cmocka_unit_test(early_chunks_are_placed_once_when_their_collective_is_published),
        cmocka_unit_test(early_chunks_that_do_not_fit_their_collective_are_counted_and_change_nothing),
        cmocka_unit_test(early_chunks_that_the_frontier_has_passed_are_dropped),
        cmocka_unit_test(what_finds_no_room_in_the_log_is_stale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
