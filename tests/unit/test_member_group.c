/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of ranks that exchange frames in memory: collectives under loss, roll calls, and word of failures. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "member_group.h"

static struct group group;

/* --- Collectives -------------------------------------------------------------------------------------------------- */

/* What is gathered. */
static const enum tt_collective_kind kinds[] = {TT_ALLGATHER, TT_ALLREDUCE, TT_REDUCE, TT_REDUCE_SCATTER};

static struct shape random_shape(struct tt_random *random, uint32_t size)
{
    struct shape shape = {.kind = tt_random_chance(random, 500000) ? TT_ALLGATHER : TT_BROADCAST};

    if (tt_random_chance(random, 250000)) { /* a few bytes, so that early ones find room everywhere; or a barrier */
        shape.gather = true;
        shape.block_bytes = tt_random_chance(random, 250000) ? 0 : 1 + tt_random_below(random, 99);
        shape.kind = shape.block_bytes > 0 ? kinds[tt_random_below(random, 4)] : shape.kind;
        shape.root = tt_kind_has_root(shape.kind) ? (uint32_t)tt_random_below(random, size) : 0;
        return shape;
    }
    shape.p2p = tt_random_chance(random, 200000);
    shape.block_bytes = tt_random_below(random, 4) == 0 ? tt_random_below(random, 33) : tt_random_below(random, 4000);
    shape.subgroups = shape.p2p ? 1 : 1 + (uint32_t)tt_random_below(random, MACHINE_SUBGROUPS);
    shape.window_chunks = tt_random_chance(random, 500000) ? 40 : 0;
    if (shape.kind == TT_ALLGATHER) {
        shape.chains = 1 + (uint32_t)tt_random_below(random, size < MACHINE_CHAINS ? size : MACHINE_CHAINS);
    } else {
        shape.root = (uint32_t)tt_random_below(random, size);
    }
    return shape;
}

static void everybody_ends_with_everything_whatever_is_lost(void **state)
{
    static const uint32_t losses[] = {0, 10000, 300000, 1000000};

    (void)state;
    for (uint32_t run = 0; run < 45; run++) {
        uint32_t size = 1 + run % 9, count = 6;

        group_init(&group, size, 1 + run % 3, 1000 + run);
        group.loss_ppm = losses[run % 4];
        for (uint32_t i = 0; i < count; i++) {
            struct shape shape = random_shape(&group.random, size);

            for (uint32_t rank = 0; rank < size; rank++) {
                group_post(&group, rank, shape, UINT64_C(1000000000000));
                for (uint32_t moves = (uint32_t)tt_random_below(&group.random, 20); moves > 0; moves--) {
                    group_move(&group, group.now_ns + 100);
                }
            }
        }
        group_run(&group, UINT64_C(1000000000));
        for (uint32_t rank = 0; rank < size; rank++) {
            assert_int_equal(group_finished(&group, rank), count);
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(group_run_of(&group, rank, i)->status, TUTTI_OK);
            }
            assert_int_equal(group.worlds[rank].member.drops_frame, 0);
        }
        group_fini(&group);
    }
}

/* A rank that has not posted has no room for blocks; they come in several frames. */
static void everybody_ends_with_everything_though_early_blocks_find_no_room(void **state)
{
    uint64_t reminders = 0;

    (void)state;
    for (uint32_t run = 0; run < 40; run++) {
        uint32_t size = 2 + run % 19, count = 3;

        group_init(&group, size, 2, 4000 + run);
        group.loss_ppm = run % 2 * 300000;
        for (uint32_t rank = 0; rank < size; rank++) {
            group.worlds[rank].member.gathered.pool = NULL;
        }
        for (uint32_t i = 0; i < count; i++) {
            struct shape shape = {.gather = true, .kind = kinds[(run + i) % 4], .chunk_bytes = 700};

            shape.block_bytes = 1 + tt_random_below(&group.random, tt_gather_most_bytes(shape.kind, size) / size);
            shape.root = shape.kind == TT_REDUCE ? run % size : 0;
            for (uint32_t posted = 0; posted < size; posted++) { /* begun by some rank */
                group_post(&group, (posted + run * 5) % size, shape, UINT64_C(1000000000000));
                group_move(&group, group.now_ns + 100);
            }
        }
        group_run(&group, UINT64_C(1000000000));
        for (uint32_t rank = 0; rank < size; rank++) {
            assert_int_equal(group_finished(&group, rank), count);
            for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(group_run_of(&group, rank, i)->status, TUTTI_OK);
            }
        }
        reminders += group.frames[TT_FRAME_REMIND];
        group_fini(&group);
    }
    assert_true(reminders > 100);
}

/* --- Roll calls --------------------------------------------------------------------------------------------------- */

static void roll_calls_name_exactly_who_is_missing(void **state)
{
    enum { ASK = MACHINE_TIMEOUT_NS - MACHINE_ROLLCALL_NS };

    (void)state;
    for (uint32_t run = 0; run < 38; run++) {
        uint32_t size = 2 + run % 19, missing = 0, lowest = TT_RANK_NONE;
        bool here[GROUP_MOST];

        group_init(&group, size, 4, 500 + run);
        here[0] = true;
        for (uint32_t rank = 1; rank < size; rank++) {
            here[rank] = !tt_random_chance(&group.random, 300000);
        }
        here[1 + run % (size - 1)] = false;
        for (uint32_t rank = 0; rank < size; rank++) {
            missing += !here[rank];
            lowest = !here[rank] && lowest == TT_RANK_NONE ? rank : lowest;
            if (here[rank]) {
                group.now_ns = rank * 10;
                group_post(&group, rank, (struct shape){.block_bytes = 16}, MACHINE_TIMEOUT_NS);
            }
        }
        group_run(&group, ASK + 1000);
        for (uint32_t rank = 0; rank < size; rank++) {
            for (uint32_t other = 0; other < size; other++) {
                assert_int_equal(tt_member_present(&group.worlds[rank].member, other), here[other]);
            }
        }
        group_run(&group, MACHINE_TIMEOUT_NS + 100000);
        for (uint32_t rank = 0; rank < size; rank++) {
            const struct tt_member *member = &group.worlds[rank].member;

            assert_int_equal(member->status, TUTTI_ERR_TIMED_OUT);
            assert_int_equal(member->failed_rank, group.worlds[0].member.failed_rank);
            assert_false(here[member->failed_rank]);
            assert_true(missing > 1 || member->failed_rank == lowest);
            assert_int_equal(group_finished(&group, rank), here[rank]);
        }
        group_fini(&group);
    }
}

/* Ranks that are at different collectives ask different questions; the answers must not chase each other for ever
 * (group_run gives up after many moves). */
static void roll_calls_about_different_collectives_come_to_an_end(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 60; run++) {
        uint32_t size = 3 + run % 14;

        group_init(&group, size, 8, 9000 + run);
        for (uint32_t rank = 0; rank < size; rank++) {
            uint64_t from = tt_random_below(&group.random, 4);

            /* As if some had finished a few that others have not. */
            group.worlds[rank].member.next_sequence = group.worlds[rank].member.oldest = from;
            for (uint32_t i = (uint32_t)tt_random_below(&group.random, 4); i > 0; i--) {
                group_post(&group, rank, (struct shape){.block_bytes = 16, .p2p = true}, MACHINE_TIMEOUT_NS);
            }
            group.now_ns += tt_random_below(&group.random, 3) * 7;
        }
        group_run(&group, MACHINE_TIMEOUT_NS - 1);
        assert_true(group.frames[TT_FRAME_ROLLCALL] <= 8ULL * 2 * 8 * size * size);
        group_fini(&group);
    }
}

/* --- Failures ----------------------------------------------------------------------------------------------------- */

static void a_dead_rank_ends_everything_on_every_survivor_with_its_name(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 45; run++) {
        uint32_t size = 2 + run % 15, victim = (uint32_t)run * 7 % size, count = 4;

        group_init(&group, size, 2, 30000 + run);
        group.loss_ppm = 100000;
        for (uint32_t i = 0; i < count; i++) {
            struct shape shape = random_shape(&group.random, size);

            for (uint32_t rank = 0; rank < size; rank++) {
                group_post(&group, rank, shape, UINT64_C(1000000000000));
            }
        }
        for (uint32_t moves = (uint32_t)tt_random_below(&group.random, 30 * size); moves > 0; moves--) {
            group_move(&group, group.now_ns + 100);
        }
        group_kill(&group, victim);
        group_run(&group, UINT64_C(10000000000));
        for (uint32_t rank = 0; rank < size; rank++) {
            if (rank == victim) {
                continue;
            }
            assert_int_equal(group_finished(&group, rank), count);
            assert_int_equal(group.worlds[rank].member.status, TUTTI_ERR_PEER_FAILED);
            assert_int_equal(group.worlds[rank].member.failed_rank, victim);
            for (uint32_t i = 0; i < count; i++) {
                const struct member_run *one = group_run_of(&group, rank, i);

                assert_true(one->status == TUTTI_OK ||
                            (one->status == TUTTI_ERR_PEER_FAILED && one->failed_rank == victim));
            }
        }
        group_fini(&group);
    }
}

static void word_of_a_failure_crosses_every_edge_once_a_way_at_most(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= GROUP_MOST; size++) {
        group_init(&group, size, 2, size);
        group_kill(&group, size / 2);
        group_run(&group, 1000);
        for (uint32_t rank = 0; rank < size; rank++) {
            for (uint32_t other = 0; other < size; other++) {
                assert_true(group.ranks[rank].fails[other] <= 1);
                assert_true(rank != other || group.ranks[rank].fails[other] == 0);
            }
            assert_true(rank == size / 2 || group.worlds[rank].member.failed_rank == size / 2);
        }
        group_fini(&group);
    }
}

static void a_rank_that_posts_something_else_ends_the_group_with_a_mismatch(void **state)
{
    (void)state;
    for (uint32_t run = 0; run < 57; run++) {
        uint32_t size = 2 + run % 19, odd = run * 5 % size, pass = run % 3, method = run / 3 % 3;

        group_init(&group, size, 2, 70000 + run);
        for (uint32_t i = 0; i < 3; i++) {
            for (uint32_t rank = 0; rank < size; rank++) {
                struct shape shape = {.block_bytes = 100, .p2p = method == 1, .gather = method == 2};

                shape.kind = method == 2 ? TT_ALLGATHER : TT_BROADCAST;

                shape.block_bytes += rank == odd && i == pass;
                group_post(&group, rank, shape, UINT64_C(1000000000000));
            }
        }
        group_run(&group, UINT64_C(10000000000));
        for (uint32_t rank = 0; rank < size; rank++) {
            assert_int_equal(group.worlds[rank].member.status, TUTTI_ERR_MISMATCH);
            assert_int_equal(group_finished(&group, rank), 3);
            assert_int_equal(group_run_of(&group, rank, pass)->status, TUTTI_ERR_MISMATCH);
        }
        group_fini(&group);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_ends_with_everything_whatever_is_lost),
        cmocka_unit_test(everybody_ends_with_everything_though_early_blocks_find_no_room),
        cmocka_unit_test(roll_calls_name_exactly_who_is_missing),
        cmocka_unit_test(roll_calls_about_different_collectives_come_to_an_end),
        cmocka_unit_test(a_dead_rank_ends_everything_on_every_survivor_with_its_name),
        cmocka_unit_test(word_of_a_failure_crosses_every_edge_once_a_way_at_most),
        cmocka_unit_test(a_rank_that_posts_something_else_ends_the_group_with_a_mismatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
