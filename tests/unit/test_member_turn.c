/* SPDX-License-Identifier: BSD-3-Clause */
/* Whose broadcast is transmitted, where a root has several in progress. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "member_world.h"

static const struct shape broadcast = {.block_bytes = WORLD_BYTES},
                          allgather = {.block_bytes = WORLD_BYTES, .kind = TT_ALLGATHER},
                          very_large = {.block_bytes = (16 << 20) + 1, .chunk_bytes = 8192};

/* Rank 1 of two says that it has posted this one, too; the root has everything already. */
static void end_barrier(struct world *world, struct tt_collective *collective)
{
    world_hear_gather(world, 5, collective, 1, collective->sequence);
    assert_true(collective->everybody);
}

static bool transmits(const struct tt_collective *collective)
{
    return collective->sending.transmitting && !collective->sending.sent;
}

static void broadcasts_are_transmitted_in_their_order(void **state)
{
    struct world world;
    struct tt_collective *all[3];

    (void)state;
    world_init(&world, 0, 2, 4);
    for (uint32_t i = 0; i < 3; i++) {
        all[i] = world_post(&world, 0, broadcast);
    }
    for (uint32_t i = 0; i < 3; i++) {
        end_barrier(&world, all[i]);
        assert_true(transmits(all[i]) == (i == 0));
    }
    world_tick(&world, 6);
    assert_false(all[1]->sending.transmitting);
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(transmits(all[i]));
        world_answer(&world, 10 + i, TT_MEMBER_SENT, all[i]);
        if (i < 2) { /* `final` says that the barrier is over, so it goes with the release */
            assert_int_equal(next_sends(&world.script, TT_FRAME_FINAL, 1)->sequence, i + 1);
            next_is_for(&world, TT_ACTION_TRANSMIT, all[i + 1]);
        }
    }
    world_fini(&world);
}

static void one_whose_barrier_is_not_over_holds_nobody_up(void **state)
{
    struct world world;
    struct tt_collective *late, *early;

    (void)state;
    world_init(&world, 0, 2, 4);
    late = world_post(&world, 0, broadcast);
    early = world_post(&world, 0, broadcast);
    end_barrier(&world, early);
    assert_true(transmits(early));
    end_barrier(&world, late); /* older than what is being transmitted: it does not wait for that */
    assert_true(transmits(late));
    world_fini(&world);
}

/* A root's two broadcasts, whose barriers are over. */
static void begin_two(struct world *world, struct shape first, struct shape second, struct tt_collective *both[2])
{
    world_init(world, 0, 2, 4);
    both[0] = world_post(world, 0, first);
    both[1] = world_post(world, 0, second);
    end_barrier(world, both[0]);
    end_barrier(world, both[1]);
}

static void nobody_waits_for_a_very_large_one(void **state)
{
    struct world world;
    struct tt_collective *both[2];

    (void)state;
    begin_two(&world, very_large, broadcast, both);
    assert_true(transmits(both[0]) && transmits(both[1]));
    world_fini(&world);
}

/* Else all that are in flight would end together, at the time of all. */
static void a_very_large_one_waits_for_one_that_is_as_large(void **state)
{
    struct world world;
    struct tt_collective *both[2];

    (void)state;
    begin_two(&world, very_large, very_large, both);
    assert_true(transmits(both[0]) && !transmits(both[1]));
    world_answer(&world, 10, TT_MEMBER_SENT, both[0]);
    assert_true(transmits(both[1]));
    world_fini(&world);
}

static void allgathers_take_no_turns(void **state)
{
    struct world world;
    struct tt_collective *all[4];

    (void)state;
    world_init(&world, 0, 2, 4);
    for (uint32_t i = 0; i < 4; i++) {
        all[i] = world_post(&world, 0, i % 2 == 0 ? allgather : broadcast);
    }
    for (uint32_t i = 0; i < 4; i++) {
        end_barrier(&world, all[i]);
    }
    assert_true(transmits(all[0]) && transmits(all[1]) && transmits(all[2]));
    assert_false(all[3]->sending.transmitting); /* behind the other broadcast */
    world_fini(&world);
}

static void who_waits_for_a_turn_ends_with_the_group(void **state)
{
    struct world world;
    struct tt_collective *both[2];

    (void)state;
    begin_two(&world, broadcast, broadcast, both);
    world_peer_down(&world, 6, 1);
    world_answer(&world, 7, TT_MEMBER_FROZEN, both[1]);
    assert_int_equal(both[1]->state, TT_COLLECTIVE_FINISHED);
    assert_int_equal(both[1]->status, TUTTI_ERR_PEER_FAILED);
    assert_false(both[1]->sending.transmitting);
    world_answer(&world, 8, TT_MEMBER_FROZEN, both[0]);
    world_answer(&world, 9, TT_MEMBER_SENT, both[0]);
    assert_int_equal(both[0]->state, TT_COLLECTIVE_FINISHED);
    assert_false(both[1]->sending.transmitting);
    world_fini(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcasts_are_transmitted_in_their_order),
        cmocka_unit_test(one_whose_barrier_is_not_over_holds_nobody_up),
        cmocka_unit_test(nobody_waits_for_a_very_large_one),
        cmocka_unit_test(a_very_large_one_waits_for_one_that_is_as_large),
        cmocka_unit_test(allgathers_take_no_turns),
        cmocka_unit_test(who_waits_for_a_turn_ends_with_the_group),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
