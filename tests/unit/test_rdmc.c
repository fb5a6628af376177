/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMC's plans: all for up to 64 members and 40 blocks, samples up to 4096 members, judged by plan_check.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "patience.h"
#include "plan/dissemination.h"
#include "plan/rdmc.h"
#include "rdmc_view.h"

enum { MOST_MEMBERS = 64, MOST_BLOCKS = 40, MOST_RACKS = 64 };

static void check_plan(const struct tt_rdmc *plan)
{
    struct plan_view view = rdmc_view(plan);

    if (plan->step_count != rdmc_expected_steps(plan)) {
        fail_msg("%s, %u members, %u blocks: %u steps", tt_rdmc_word(plan->algorithm), plan->member_count,
                 (unsigned)plan->block_count, (unsigned)plan->step_count);
    }
    assert_true(plan_must_hold(&view, tt_rdmc_word(plan->algorithm)) == plan->block_count * (plan->member_count - 1));
}

static void check_all_small(enum tt_rdmc_algorithm algorithm)
{
    for (uint32_t members = 1; members <= MOST_MEMBERS; members++) {
        for (uint64_t blocks = 1; blocks <= MOST_BLOCKS; blocks++) {
            struct tt_rdmc plan = rdmc_plan(algorithm, members, blocks);

            check_plan(&plan);
        }
    }
}

static void sequential_is_right_for_all_small_groups(void **state)
{
    (void)state;
    check_all_small(TT_RDMC_SEQUENTIAL);
}

static void chain_is_right_for_all_small_groups(void **state)
{
    (void)state;
    check_all_small(TT_RDMC_CHAIN);
}

static void binomial_tree_is_right_for_all_small_groups(void **state)
{
    (void)state;
    check_all_small(TT_RDMC_BINOMIAL_TREE);
}

static void binomial_pipeline_is_right_for_all_small_groups(void **state)
{
    (void)state;
    check_all_small(TT_RDMC_BINOMIAL_PIPELINE);
}

static void binomial_pipeline_is_right_around_powers_of_two_up_to_4096(void **state)
{
    static const uint64_t blocks[] = {1, 2, 5, 11, 12, 13, 40};

    (void)state;
    for (uint32_t power = 128; power <= 4096; power *= 2) {
        const uint32_t members[] = {power - 1, power, power + 1, power + power / 3};

        for (size_t i = 0; i < 4 && members[i] <= 4096; i++) {
            for (size_t j = 0; j < sizeof blocks / sizeof blocks[0]; j++) {
                struct tt_rdmc plan = rdmc_plan(TT_RDMC_BINOMIAL_PIPELINE, members[i], blocks[j]);

                check_plan(&plan);
            }
        }
    }
}

static void the_other_algorithms_are_right_for_samples_up_to_4096(void **state)
{
    static const struct {
        enum tt_rdmc_algorithm algorithm;
        uint32_t members;
        uint64_t blocks;
    } samples[] = {{TT_RDMC_SEQUENTIAL, 65, 40},     {TT_RDMC_SEQUENTIAL, 1000, 2},    {TT_RDMC_SEQUENTIAL, 4096, 1},
                   {TT_RDMC_CHAIN, 65, 41},          {TT_RDMC_CHAIN, 1000, 40},        {TT_RDMC_CHAIN, 4096, 3},
                   {TT_RDMC_BINOMIAL_TREE, 127, 40}, {TT_RDMC_BINOMIAL_TREE, 128, 40}, {TT_RDMC_BINOMIAL_TREE, 129, 40},
                   {TT_RDMC_BINOMIAL_TREE, 3000, 7}, {TT_RDMC_BINOMIAL_TREE, 4096, 40}};

    (void)state;
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++) {
        struct tt_rdmc plan = rdmc_plan(samples[i].algorithm, samples[i].members, samples[i].blocks);

        check_plan(&plan);
    }
}

/* Between racks only leaders send, in their own lane; each block enters each rack once. */
static void check_racks(const struct tt_rdmc *plan)
{
    uint64_t entered = 0;

    for (uint32_t member = 0; member < plan->member_count; member++) {
        struct tt_rdmc_transfer transfer;

        for (uint64_t step = 0; tt_rdmc_next_send(plan, member, TT_RDMC_MAIN, step, &transfer);
             step = transfer.step + 1) {
            assert_true(rdmc_is_leader(plan, member) && rdmc_is_leader(plan, transfer.peer));
            entered++;
        }
        for (uint64_t step = 0; tt_rdmc_next_send(plan, member, TT_RDMC_RACK, step, &transfer);
             step = transfer.step + 1) {
            uint32_t low = member < transfer.peer ? member : transfer.peer, high = member + transfer.peer - low;

            for (uint32_t between = low + 1; between <= high; between++) {
                assert_false(rdmc_is_leader(plan, between));
            }
        }
    }
    assert_true(entered == plan->block_count * (plan->rack_count - 1));
}

static void check_hybrid(const uint32_t *sizes, uint32_t rack_count, uint64_t blocks)
{
    uint32_t firsts[MOST_RACKS];
    struct tt_rdmc plan = rdmc_hybrid(sizes, rack_count, blocks, firsts);

    check_plan(&plan);
    check_racks(&plan);
}

/* Bit i of `cuts`: a rack ends behind member i. */
static void hybrid_is_right_for_all_racks_of_up_to_ten_members(void **state)
{
    (void)state;
    for (uint32_t members = 1; members <= 10; members++) {
        for (uint32_t cuts = 0; cuts < 1U << (members - 1); cuts++) {
            uint32_t sizes[MOST_RACKS] = {0}, racks = 0;

            for (uint32_t member = 0; member < members; member++) {
                sizes[racks]++;
                racks += cuts >> member & 1;
            }
            for (uint64_t blocks = 1; blocks <= 12; blocks++) {
                check_hybrid(sizes, racks + 1, blocks);
            }
        }
    }
}

static void hybrid_is_right_for_random_racks_of_up_to_64_members(void **state)
{
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 1);
    for (int round = 0; round < 400 / TT_PATIENCE; round++) {
        uint32_t sizes[MOST_RACKS], racks = 0, members = 0;

        while (racks == 0 || tt_random_below(&random, 8) != 0) {
            uint32_t size = 1 + (uint32_t)tt_random_below(&random, 20);

            if (members + size > MOST_MEMBERS) {
                break;
            }
            sizes[racks++] = size;
            members += size;
        }
        check_hybrid(sizes, racks, 1 + tt_random_below(&random, MOST_BLOCKS));
    }
}

static void hybrid_is_right_for_64_racks_of_64(void **state)
{
    uint32_t sizes[MOST_RACKS];

    (void)state;
    for (uint32_t rack = 0; rack < MOST_RACKS; rack++) {
        sizes[rack] = 64;
    }
    check_hybrid(sizes, MOST_RACKS, 1);
    check_hybrid(sizes, MOST_RACKS, 40);
    sizes[17] = 1;
    sizes[18] = 64;
    check_hybrid(sizes, 63, 40);
}

static void hybrid_leader_sends_into_its_rack_while_it_still_receives(void **state)
{
    static const uint32_t sizes[] = {4, 4, 8};
    uint32_t firsts[3];
    struct tt_rdmc_transfer transfer;
    uint32_t both = 0;

    (void)state;
    struct tt_rdmc plan = rdmc_hybrid(sizes, 3, 20, firsts);

    for (uint64_t step = 0; step < plan.step_count; step++) {
        both += tt_rdmc_receive(&plan, 8, step, &transfer) && tt_rdmc_send(&plan, 8, TT_RDMC_RACK, step, &transfer);
    }
    assert_int_equal(both, 20 + 2 - 1 - 3); /* from step ceil(log2 3) + 1 to the leaders' last */
}

static void one_rack_and_racks_of_one_are_the_plain_pipeline(void **state)
{
    static const uint32_t whole[] = {11}, ones[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    uint32_t firsts[2][11];

    (void)state;
    for (uint64_t blocks = 1; blocks <= MOST_BLOCKS; blocks++) {
        struct tt_rdmc plain = rdmc_plan(TT_RDMC_BINOMIAL_PIPELINE, 11, blocks);
        struct tt_rdmc one = rdmc_hybrid(whole, 1, blocks, firsts[0]), many = rdmc_hybrid(ones, 11, blocks, firsts[1]);

        assert_true(one.step_count == plain.step_count && many.step_count == plain.step_count);
        for (uint32_t member = 0; member < 11; member++) {
            for (uint64_t step = 0; step < plain.step_count; step++) {
                struct tt_rdmc_transfer a, b, c;
                bool receives = tt_rdmc_receive(&plain, member, step, &a);

                assert_int_equal(tt_rdmc_receive(&one, member, step, &b), receives);
                assert_int_equal(tt_rdmc_receive(&many, member, step, &c), receives);
                assert_true(!receives || (a.peer == b.peer && a.block == b.block));
                assert_true(!receives || (a.peer == c.peer && a.block == c.block));
            }
        }
    }
}

/* A power of two within the limits, never smaller for a larger object; and for large ones few enough steps on top. */
static void blocks_are_small_enough_for_the_pipeline_and_within_their_limits(void **state)
{
    (void)state;
    for (unsigned algorithm = 0; algorithm < TT_RDMC_ALGORITHM_COUNT; algorithm++) {
        for (uint32_t n = 1; n <= 4096; n = n * 2 + (n > 8)) {
            uint64_t before = 0;

            for (uint64_t bytes = 0; bytes < UINT64_C(1) << 50; bytes = bytes * 3 + 1) {
                uint64_t block = tt_rdmc_block_bytes((enum tt_rdmc_algorithm)algorithm, n, bytes);

                assert_in_range(block, 4096, 16 << 20);
                assert_int_equal(block & (block - 1), 0);
                assert_true(block >= before || before == 0);
                before = block;
            }
        }
    }
    assert_int_equal(tt_rdmc_block_bytes(TT_RDMC_BINOMIAL_PIPELINE, 8, 64 << 20), 1 << 20);
    assert_int_equal(tt_rdmc_block_bytes(TT_RDMC_BINOMIAL_PIPELINE, 8, UINT64_C(4) << 30), 8 << 20);
    assert_int_equal(tt_rdmc_block_bytes(TT_RDMC_BINOMIAL_PIPELINE, 8, 1), 4096);
    for (uint32_t n = 3; n <= 512; n++) {
        uint64_t block = tt_rdmc_block_bytes(TT_RDMC_BINOMIAL_PIPELINE, n, 64 << 20), blocks = (64 << 20) / block;

        assert_true((tt_dissemination_rounds(n) - 1) * 8 <= blocks); /* an eighth of the steps at most */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequential_is_right_for_all_small_groups),
        cmocka_unit_test(chain_is_right_for_all_small_groups),
        cmocka_unit_test(binomial_tree_is_right_for_all_small_groups),
        cmocka_unit_test(binomial_pipeline_is_right_for_all_small_groups),
        cmocka_unit_test(binomial_pipeline_is_right_around_powers_of_two_up_to_4096),
        cmocka_unit_test(the_other_algorithms_are_right_for_samples_up_to_4096),
        cmocka_unit_test(hybrid_is_right_for_all_racks_of_up_to_ten_members),
        cmocka_unit_test(hybrid_is_right_for_random_racks_of_up_to_64_members),
        cmocka_unit_test(hybrid_is_right_for_64_racks_of_64),
        cmocka_unit_test(hybrid_leader_sends_into_its_rack_while_it_still_receives),
        cmocka_unit_test(one_rack_and_racks_of_one_are_the_plain_pipeline),
        cmocka_unit_test(blocks_are_small_enough_for_the_pipeline_and_within_their_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
