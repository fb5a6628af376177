/* SPDX-License-Identifier: BSD-3-Clause */
/* The plans of ring and recursive-doubling allgather, for up to 64 ranks and samples to 4096, judged by plan_check.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/allgather.h"
#include "plan/dissemination.h"
#include "plan_check.h"

struct gather {
    enum tt_allgather_algorithm algorithm;
    uint32_t ranks;
    uint32_t more_blocks; /* a mistake: this many too many at step 1 */
    uint32_t off_by;      /* a mistake: the first block is this much too high */
};

static void spoil(const struct gather *gather, uint64_t step, struct tt_allgather_run *run)
{
    if (step == 1) {
        run->block_count += gather->more_blocks;
        run->first_block = (run->first_block + gather->off_by) % gather->ranks;
    }
}

static bool send(const void *context, uint32_t rank, uint32_t lane, uint64_t step, struct plan_transfer *transfer)
{
    const struct gather *gather = context;
    struct tt_allgather_run run;

    (void)lane;
    if (!tt_allgather_send(gather->algorithm, gather->ranks, rank, step, &run)) {
        return false;
    }
    spoil(gather, step, &run);
    *transfer = (struct plan_transfer){run.peer, run.first_block, run.block_count};
    return true;
}

static bool receive(const void *context, uint32_t rank, uint64_t step, struct plan_transfer *transfer)
{
    const struct gather *gather = context;
    struct tt_allgather_run run;

    if (!tt_allgather_receive(gather->algorithm, gather->ranks, rank, step, &run)) {
        return false;
    }
    spoil(gather, step, &run);
    *transfer = (struct plan_transfer){run.peer, run.first_block, run.block_count};
    return true;
}

static bool holds(const void *context, uint32_t rank, uint64_t block)
{
    (void)context;
    return rank == block;
}

static struct plan_limits limits(const void *context, uint32_t rank)
{
    (void)context;
    (void)rank;
    return (struct plan_limits){1, UINT64_MAX};
}

static struct plan_view view_of(const struct gather *gather)
{
    return (struct plan_view){.context = gather,
                              .rank_count = gather->ranks,
                              .block_count = gather->ranks,
                              .lane_count = 1,
                              .step_count = tt_allgather_steps(gather->algorithm, gather->ranks),
                              .send = send,
                              .receive = receive,
                              .holds = holds,
                              .limits = limits};
}

static void check(enum tt_allgather_algorithm algorithm, uint32_t ranks)
{
    struct gather gather = {.algorithm = algorithm, .ranks = ranks};
    struct plan_view view = view_of(&gather);

    assert_true(plan_must_hold(&view, algorithm == TT_ALLGATHER_RING ? "ring" : "recursive doubling") ==
                (uint64_t)ranks * (ranks - 1));
}

static void ring_is_right_for_up_to_64_ranks(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 64; ranks++) {
        assert_int_equal(tt_allgather_steps(TT_ALLGATHER_RING, ranks), ranks - 1);
        check(TT_ALLGATHER_RING, ranks);
    }
    check(TT_ALLGATHER_RING, 500);
}

static void recursive_doubling_is_right_for_up_to_64_ranks_and_samples(void **state)
{
    static const uint32_t samples[] = {100, 127, 128, 129, 1000, 1023, 1024, 1025, 4096};

    (void)state;
    for (uint32_t ranks = 1; ranks <= 64; ranks++) {
        uint32_t rounds = 0;

        while (1U << rounds < ranks) {
            rounds++;
        }
        assert_int_equal(tt_allgather_steps(TT_ALLGATHER_RECURSIVE_DOUBLING, ranks), rounds);
        check(TT_ALLGATHER_RECURSIVE_DOUBLING, ranks);
    }
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        check(TT_ALLGATHER_RECURSIVE_DOUBLING, samples[i]);
    }
}

static void known_runs_are_as_told(void **state)
{
    struct tt_allgather_run run;

    (void)state;
    assert_true(tt_allgather_send(TT_ALLGATHER_RING, 5, 1, 2, &run));
    assert_true(run.peer == 2 && run.first_block == 4 && run.block_count == 1);
    assert_true(tt_allgather_send(TT_ALLGATHER_RECURSIVE_DOUBLING, 8, 5, 1, &run));
    assert_true(run.peer == 7 && run.first_block == 4 && run.block_count == 2);
    assert_true(tt_allgather_receive(TT_ALLGATHER_RECURSIVE_DOUBLING, 8, 5, 2, &run));
    assert_true(run.peer == 1 && run.first_block == 0 && run.block_count == 4);
    assert_true(tt_allgather_send(TT_ALLGATHER_RECURSIVE_DOUBLING, 6, 0, 1, &run));
    assert_true(run.peer == 2 && run.first_block == 5 && run.block_count == 2);
    assert_true(tt_allgather_send(TT_ALLGATHER_RECURSIVE_DOUBLING, 6, 0, 2, &run));
    assert_true(run.peer == 4 && run.first_block == 5 && run.block_count == 2); /* two are all that 4 lacks */
    assert_false(tt_allgather_send(TT_ALLGATHER_RECURSIVE_DOUBLING, 6, 0, 3, &run));
    assert_false(tt_allgather_receive(TT_ALLGATHER_RING, 6, 0, 5, &run));
}

/* So a group needs no further connections for them. */
static void partners_are_neighbours_in_the_dissemination_pattern(void **state)
{
    uint32_t neighbours[2 * TT_DISSEMINATION_MAX_ROUNDS];

    (void)state;
    for (uint32_t ranks = 2; ranks <= 64; ranks++) {
        for (uint32_t rank = 0; rank < ranks; rank++) {
            uint32_t count = tt_dissemination_neighbours(rank, ranks, neighbours);
            struct tt_allgather_run run;

            for (int algorithm = TT_ALLGATHER_RING; algorithm <= TT_ALLGATHER_RECURSIVE_DOUBLING; algorithm++) {
                for (uint64_t step = 0;
                     tt_allgather_send((enum tt_allgather_algorithm)algorithm, ranks, rank, step, &run); step++) {
                    bool known = false;

                    for (uint32_t i = 0; i < count; i++) {
                        known = known || neighbours[i] == run.peer;
                    }
                    assert_true(known);
                }
            }
        }
    }
}

static void mistakes_are_found(void **state)
{
    struct plan_findings findings;

    (void)state;
    for (uint32_t ranks = 3; ranks <= 64; ranks++) {
        for (int algorithm = TT_ALLGATHER_RING; algorithm <= TT_ALLGATHER_RECURSIVE_DOUBLING; algorithm++) {
            struct gather more = {(enum tt_allgather_algorithm)algorithm, ranks, 1, 0};
            struct gather off = {(enum tt_allgather_algorithm)algorithm, ranks, 0, 1};
            struct plan_view view = view_of(&more);

            assert_false(plan_check(&view, &findings));
            view = view_of(&off);
            assert_false(plan_check(&view, &findings));
            view = view_of(&(struct gather){.algorithm = (enum tt_allgather_algorithm)algorithm, .ranks = ranks});
            view.step_count++;
            assert_false(plan_check(&view, &findings));
            view.step_count -= 2;
            assert_false(plan_check(&view, &findings));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_is_right_for_up_to_64_ranks),
        cmocka_unit_test(recursive_doubling_is_right_for_up_to_64_ranks_and_samples),
        cmocka_unit_test(known_runs_are_as_told),
        cmocka_unit_test(partners_are_neighbours_in_the_dissemination_pattern),
        cmocka_unit_test(mistakes_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
