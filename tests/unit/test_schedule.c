/* SPDX-License-Identifier: BSD-3-Clause */
/* Every schedule for every number of ranks up to 33, carried out by all ranks: with room for messages and without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/dissemination.h"
#include "plan/schedule.h"
#include "schedule_check.h"

enum { MOST = 33, PAIR_COUNT = 17 };

static struct schedule_lists lists;
static uint64_t firsts[SCHEDULE_MOST_RANKS], counts[SCHEDULE_MOST_RANKS];

/* `next` is called for each pair that there is. */
static uint32_t for_each_pair(void (*next)(enum tt_schedule_collective, enum tt_schedule_algorithm))
{
    uint32_t pairs = 0;

    for (int c = 0; c < TT_SCHEDULE_COLLECTIVE_COUNT; c++) {
        for (int a = 0; a < TT_SCHEDULE_ALGORITHM_COUNT; a++) {
            if (tt_schedule_is_known((enum tt_schedule_collective)c, (enum tt_schedule_algorithm)a)) {
                next((enum tt_schedule_collective)c, (enum tt_schedule_algorithm)a);
                pairs++;
            }
        }
    }
    return pairs;
}

/* Blocks of ranks get lengths from 0 to 4 that differ, or `even` ones. */
static uint64_t lay_out(const struct tt_schedule *schedule, uint64_t element_count, bool even, struct tt_blocks *blocks)
{
    uint64_t total = 0;

    *blocks = (struct tt_blocks){.block_count = tt_schedule_block_count(schedule), .slice_count = element_count};
    if (!tt_schedule_has_rank_blocks(schedule)) {
        return element_count;
    }
    for (uint32_t i = 0; i < schedule->size; i++) {
        firsts[i] = total;
        counts[i] = even ? element_count : (i * 7 + element_count) % 5;
        total += counts[i];
    }
    blocks->firsts = firsts;
    blocks->counts = counts;
    blocks->slice_count = UINT64_MAX;
    return total;
}

/* All ranks' steps in another order of the schedule's. */
static void turn_lists(const struct tt_schedule *schedule, uint32_t turn, uint32_t ahead)
{
    static struct tt_schedule_step steps[SCHEDULE_MOST_STEPS];

    for (uint32_t rank = 0; rank < schedule->size; rank++) {
        memcpy(steps, lists.steps[rank], sizeof steps);
        for (uint64_t i = 0; i < lists.counts[rank]; i++) {
            lists.steps[rank][i] = tt_schedule_turned(schedule, steps, lists.counts[rank], turn, ahead, i);
        }
    }
}

/* With as many messages sent ahead as a window has room for. */
static void must_hold(const struct tt_schedule *schedule, const struct tt_blocks *blocks, uint64_t total, uint32_t turn,
                      uint32_t ahead)
{
    /* All accepted at once; a rendezvous each; and between them. */
    static const struct schedule_world worlds[] = {{.room = 1000, .window = 1000, .seed = 1, .commutes = false},
                                                   {.room = 0, .window = 1, .seed = 2, .commutes = true},
                                                   {.room = 0, .window = 3, .seed = 3, .commutes = false},
                                                   {.room = 1, .window = 2, .seed = 4, .commutes = true}};

    schedule_lists_write(&lists, schedule, blocks, total);
    turn_lists(schedule, turn, ahead);
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
        const char *fault = ahead <= worlds[i].window ? schedule_check(&lists, &worlds[i]) : NULL;

        if (fault != NULL) {
            fail_msg("%s by %s, %u ranks, root %u, %llu elements, turn %u, %u ahead, world %zu: %s",
                     tt_schedule_collective_word(schedule->collective), tt_schedule_algorithm_word(schedule->algorithm),
                     schedule->size, schedule->root, (unsigned long long)total, turn, ahead, i, fault);
        }
    }
}

static void check_all_sizes(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm)
{
    for (uint32_t size = 1; size <= MOST; size++) {
        uint32_t roots = tt_schedule_has_root(collective) ? size : 1;

        for (uint32_t root = 0; root < roots; root += 1 + (size > 20)) {
            static const uint64_t element_counts[] = {0, 1, 4, 35};
            struct tt_schedule schedule;

            assert_true(tt_schedule_init(&schedule, collective, algorithm, size, root));
            for (size_t i = root % 2; i < 4; i += 1 + (root > 0)) {
                struct tt_blocks blocks;
                uint64_t total = lay_out(&schedule, element_counts[i] % (size == 1 ? 99 : 36), false, &blocks);

                for (uint32_t turn = 0; turn < tt_schedule_turns(&schedule); turn++) {
                    must_hold(&schedule, &blocks, total, turn, turn % 4); /* 0 is as good as 1 */
                    must_hold(&schedule, &blocks, total, turn, 1000);
                }
            }
        }
    }
}

static void every_schedule_is_right_and_ends_for_every_number_of_ranks(void **state)
{
    (void)state;
    assert_int_equal(for_each_pair(check_all_sizes), PAIR_COUNT);
}

static void check_slices(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm)
{
    for (uint32_t size = 2; size <= 17; size += 3) {
        struct tt_schedule schedule;
        struct tt_blocks blocks;

        assert_true(tt_schedule_init(&schedule, collective, algorithm, size, 0));
        uint64_t total = lay_out(&schedule, 6, false, &blocks);

        for (uint64_t first = 0; first < 6; first += 2) {
            blocks.slice_first = first;
            blocks.slice_count = 2;
            must_hold(&schedule, &blocks, total, 0, 0);
        }
    }
}

static void a_slice_of_every_block_is_a_collective_too(void **state)
{
    (void)state;
    assert_int_equal(for_each_pair(check_slices), PAIR_COUNT);
}

/* A list from which a step is missing is always found out. */
static void check_missing_steps(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm)
{
    const struct schedule_world world = {.room = 1, .window = 2, .seed = 5, .commutes = true};
    struct tt_schedule schedule;
    struct tt_blocks blocks;

    assert_true(tt_schedule_init(&schedule, collective, algorithm, 7, 0));
    uint64_t total = lay_out(&schedule, 3, true, &blocks);

    for (uint32_t rank = 0; rank < 7; rank++) {
        schedule_lists_write(&lists, &schedule, &blocks, total);
        uint64_t count = lists.counts[rank];

        assert_true(count > 0);
        for (uint64_t i = 0; i < count; i++) {
            schedule_lists_write(&lists, &schedule, &blocks, total);
            memmove(&lists.steps[rank][i], &lists.steps[rank][i + 1], (count - 1 - i) * sizeof lists.steps[0][0]);
            lists.counts[rank]--;
            assert_non_null(schedule_check(&lists, &world));
        }
    }
}

static void a_missing_step_is_found(void **state)
{
    (void)state;
    assert_int_equal(for_each_pair(check_missing_steps), PAIR_COUNT);
}

/* What would be wrong with in-place exchanges if both sides read first: each waits for the other. */
static void ranks_that_wait_in_a_circle_are_found(void **state)
{
    const struct schedule_world world = {.room = 100, .window = 100, .seed = 6, .commutes = true};
    struct tt_schedule schedule;
    struct tt_blocks blocks;

    (void)state;
    assert_true(tt_schedule_init(&schedule, TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RECURSIVE_DOUBLING, 2, 0));
    uint64_t total = lay_out(&schedule, 3, false, &blocks);

    schedule_lists_write(&lists, &schedule, &blocks, total);
    assert_null(schedule_check(&lists, &world));
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct tt_schedule_step first = lists.steps[rank][0];

        lists.steps[rank][0] = lists.steps[rank][1];
        lists.steps[rank][1] = first;
    }
    assert_non_null(schedule_check(&lists, &world));
}

/* Three messages ahead where one may be under way: the first one is in its receiver's own place, the second under way,
 * and nobody gets to reading. */
static void more_ahead_than_the_window_holds_gets_stuck(void **state)
{
    struct schedule_world world = {.room = 0, .window = 1, .seed = 7, .commutes = true};
    struct tt_schedule schedule;
    struct tt_blocks blocks;
    uint64_t total;

    (void)state;
    assert_true(tt_schedule_init(&schedule, TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_DIRECT, 5, 0));
    total = lay_out(&schedule, 3, true, &blocks);
    for (uint32_t window = 1; window <= 2; window++) {
        schedule_lists_write(&lists, &schedule, &blocks, total);
        turn_lists(&schedule, 0, 3);
        world.window = window;
        assert_int_equal(schedule_check(&lists, &world) == NULL, window == 2);
    }
}

/* Of four exchanges, the sends in front and the receptions behind. */
static void sends_go_ahead_in_their_order(void **state)
{
    static const struct {
        uint32_t ahead;
        const char *order;
    } rows[] = {{0, "SRSRSRSR"}, {1, "SRSRSRSR"}, {2, "SSRSRSRR"}, {3, "SSSRSRRR"}, {4, "SSSSRRRR"}, {9, "SSSSRRRR"}};
    struct tt_schedule schedule;
    struct tt_blocks blocks;

    (void)state;
    assert_true(tt_schedule_init(&schedule, TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_DIRECT, 5, 0));
    lay_out(&schedule, 3, true, &blocks);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tt_schedule_step steps[8];
        uint32_t sends = 0, receptions = 0;

        assert_int_equal(tt_schedule_write(&schedule, &blocks, 0, steps, 8), 8);
        for (uint64_t k = 0; k < 8; k++) {
            struct tt_schedule_step step = tt_schedule_turned(&schedule, steps, 8, 1, rows[i].ahead, k);
            bool is_send = step.kind == TT_SCHEDULE_SEND;

            assert_int_equal(is_send, rows[i].order[k] == 'S');
            assert_int_equal(step.peer, is_send ? 1 + (1 + sends) % 4 : 4 - (1 + receptions) % 4);
            if (is_send) {
                assert_int_equal(step.position, sends);
                assert_int_equal(step.ends, sends == 3);
            }
            sends += is_send;
            receptions += !is_send;
        }
    }
}

static uint64_t steps_of(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm, uint32_t size,
                         uint32_t rank)
{
    struct tt_schedule schedule;
    struct tt_blocks blocks;

    assert_true(tt_schedule_init(&schedule, collective, algorithm, size, 0));
    lay_out(&schedule, 2, true, &blocks);
    return tt_schedule_write(&schedule, &blocks, rank, NULL, 0);
}

static void numbers_of_steps_are_the_papers(void **state)
{
    (void)state;
    /* A step here is a message sent or received, so an exchange is two. */
    for (uint32_t power = 0, size = 1; size <= 32; power++, size *= 2) {
        for (uint32_t rank = 0; rank < size; rank++) {
            assert_int_equal(steps_of(TT_SCHEDULE_BARRIER, TT_SCHEDULE_DISSEMINATION, size, rank), 2 * power);
            assert_int_equal(steps_of(TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RECURSIVE_DOUBLING, size, rank), 2 * power);
            assert_int_equal(steps_of(TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RABENSEIFNER, size, rank), 4 * power);
            assert_int_equal(steps_of(TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RING, size, rank), 4 * (size - 1));
            assert_int_equal(steps_of(TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_RING, size, rank), 2 * (size - 1));
            assert_int_equal(steps_of(TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_RECURSIVE_HALVING, size, rank),
                             2 * power);
        }
    }
}

static void nobody_passes_on_in_both_trees_and_each_has_two_children_at_most(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= 64; size++) {
        struct tt_schedule schedule;
        struct tt_blocks blocks;

        assert_true(tt_schedule_init(&schedule, TT_SCHEDULE_BROADCAST, TT_SCHEDULE_DOUBLE_TREE, size, 0));
        lay_out(&schedule, 2, false, &blocks);
        for (uint32_t rank = 0; rank < size; rank++) {
            struct tt_schedule_step steps[8];
            uint64_t count = tt_schedule_write(&schedule, &blocks, rank, steps, 8);
            uint32_t sent[2] = {0, 0};

            assert_true(count <= 4);
            for (uint64_t i = 0; i < count; i++) {
                sent[steps[i].first_block] += steps[i].kind == TT_SCHEDULE_SEND;
            }
            if (rank == 0) {
                assert_int_equal(sent[0] + sent[1], 2);
            } else {
                assert_true(sent[0] == 0 || sent[1] == 0);
                assert_true(sent[0] + sent[1] <= 2);
            }
        }
    }
}

static void what_is_no_schedule_is_refused(void **state)
{
    struct tt_schedule schedule;

    (void)state;
    assert_false(tt_schedule_init(&schedule, TT_SCHEDULE_BARRIER, TT_SCHEDULE_RING, 4, 0));
    assert_false(tt_schedule_init(&schedule, TT_SCHEDULE_BARRIER, TT_SCHEDULE_DISSEMINATION, 0, 0));
    assert_false(tt_schedule_init(&schedule, TT_SCHEDULE_BARRIER, TT_SCHEDULE_DISSEMINATION, 4, 1));
    assert_false(tt_schedule_init(&schedule, TT_SCHEDULE_REDUCE, TT_SCHEDULE_BINOMIAL, 4, 4));
    assert_false(tt_schedule_init(&schedule, TT_SCHEDULE_REDUCE, TT_SCHEDULE_BINOMIAL, (1U << 24) + 1, 0));
    assert_true(tt_schedule_init(&schedule, TT_SCHEDULE_REDUCE, TT_SCHEDULE_BINOMIAL, 4, 3));
}

static void words_lead_back_to_what_they_mean(void **state)
{
    enum tt_schedule_collective collective;
    enum tt_schedule_algorithm algorithm;

    (void)state;
    for (int i = 0; i < TT_SCHEDULE_COLLECTIVE_COUNT; i++) {
        assert_true(
            tt_schedule_collective_of_word(tt_schedule_collective_word((enum tt_schedule_collective)i), &collective));
        assert_int_equal(collective, i);
    }
    for (int i = 0; i < TT_SCHEDULE_ALGORITHM_COUNT; i++) {
        assert_true(
            tt_schedule_algorithm_of_word(tt_schedule_algorithm_word((enum tt_schedule_algorithm)i), &algorithm));
        assert_int_equal(algorithm, i);
    }
    assert_false(tt_schedule_collective_of_word("reduces", &collective));
    assert_false(tt_schedule_algorithm_of_word("", &algorithm));
}

/* Step by step everybody sends to a rank of his own, and only his own block is ever written. */
static void direct_reduce_scatter_permutes_ranks_and_writes_the_own_block_only(void **state)
{
    (void)state;
    for (uint32_t size = 2; size <= MOST; size++) {
        struct tt_schedule schedule;
        struct tt_blocks blocks;

        assert_true(tt_schedule_init(&schedule, TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_DIRECT, size, 0));
        assert_false(tt_schedule_keeps_order(&schedule));
        uint64_t total = lay_out(&schedule, 4, true, &blocks);

        schedule_lists_write(&lists, &schedule, &blocks, total);
        for (uint32_t i = 1; i < size; i++) {
            uint64_t sent_to = 0;

            for (uint32_t rank = 0; rank < size; rank++) {
                const struct tt_schedule_step *sent = &lists.steps[rank][2 * i - 2], *received = sent + 1;

                assert_int_equal(lists.counts[rank], 2 * (size - 1));
                assert_true(sent->kind == TT_SCHEDULE_SEND && sent->peer == (rank + i) % size);
                assert_true(sent->first_block == sent->peer && sent->block_count == 1);
                assert_true(received->kind == TT_SCHEDULE_REDUCED && received->peer == (rank + size - i) % size);
                assert_true(received->first_block == rank && received->block_count == 1);
                sent_to |= UINT64_C(1) << sent->peer;
            }
            assert_true(sent_to == (UINT64_C(1) << size) - 1);
        }
    }
}

/* In each turn everybody begins with another rank. */
static void turns_of_a_direct_reduce_scatter_begin_with_each_rank_once(void **state)
{
    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        struct tt_schedule schedule;
        struct tt_blocks blocks;
        uint64_t begun_with = 0;

        assert_true(tt_schedule_init(&schedule, TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_DIRECT, size, 0));
        assert_int_equal(tt_schedule_turns(&schedule), size > 2 ? size - 1 : 1);
        uint64_t total = lay_out(&schedule, 4, true, &blocks);

        for (uint32_t turn = 0; turn < tt_schedule_turns(&schedule) && size > 1; turn++) {
            schedule_lists_write(&lists, &schedule, &blocks, total);
            turn_lists(&schedule, turn, 0);
            begun_with |= UINT64_C(1) << lists.steps[0][0].peer;
            assert_true(lists.steps[0][0].kind == TT_SCHEDULE_SEND && lists.steps[0][0].position == 0);
            assert_true(lists.steps[0][0].ends == (size == 2));
        }
        assert_true(begun_with == (UINT64_C(1) << size) - 1 - 1 || size == 1);
    }
    struct tt_schedule ring;

    assert_true(tt_schedule_init(&ring, TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_RING, 5, 0));
    assert_int_equal(tt_schedule_turns(&ring), 1); /* each step needs the one before it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_schedule_is_right_and_ends_for_every_number_of_ranks),
        cmocka_unit_test(a_slice_of_every_block_is_a_collective_too),
        cmocka_unit_test(a_missing_step_is_found),
        cmocka_unit_test(more_ahead_than_the_window_holds_gets_stuck),
        cmocka_unit_test(sends_go_ahead_in_their_order),
        cmocka_unit_test(ranks_that_wait_in_a_circle_are_found),
        cmocka_unit_test(numbers_of_steps_are_the_papers),
        cmocka_unit_test(nobody_passes_on_in_both_trees_and_each_has_two_children_at_most),
        cmocka_unit_test(what_is_no_schedule_is_refused),
        cmocka_unit_test(words_lead_back_to_what_they_mean),
        cmocka_unit_test(direct_reduce_scatter_permutes_ranks_and_writes_the_own_block_only),
        cmocka_unit_test(turns_of_a_direct_reduce_scatter_begin_with_each_rank_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
