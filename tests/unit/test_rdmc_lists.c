/* SPDX-License-Identifier: BSD-3-Clause */
/* A member's transfers as lists, known plans transfer by transfer, and plans too large to be carried out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "plan/rdmc.h"
#include "rdmc_view.h"

static const uint32_t huge_racks[] = {0, 1, 7, 1000, 65535};

/* --- Lists -------------------------------------------------------------------------------------------------------- */

static bool scan_send(const struct tt_rdmc *plan, uint32_t member, enum tt_rdmc_lane lane, uint64_t step,
                      struct tt_rdmc_transfer *transfer)
{
    for (; step < plan->step_count; step++) {
        if (tt_rdmc_send(plan, member, lane, step, transfer)) {
            return true;
        }
    }
    return false;
}

static bool scan_receive(const struct tt_rdmc *plan, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer)
{
    for (; step < plan->step_count; step++) {
        if (tt_rdmc_receive(plan, member, step, transfer)) {
            return true;
        }
    }
    return false;
}

static void assert_same(bool found, const struct tt_rdmc_transfer *a, bool expected, const struct tt_rdmc_transfer *b)
{
    assert_int_equal(found, expected);
    assert_true(!found || (a->step == b->step && a->block == b->block && a->peer == b->peer));
}

static void check_lists(const struct tt_rdmc *plan)
{
    for (uint32_t member = 0; member < plan->member_count; member++) {
        for (uint64_t step = 0; step <= plan->step_count + 1; step++) {
            struct tt_rdmc_transfer found = {0}, expected = {0};

            for (int lane = 0; lane < TT_RDMC_LANE_COUNT; lane++) {
                bool there = scan_send(plan, member, (enum tt_rdmc_lane)lane, step, &expected);

                assert_same(tt_rdmc_next_send(plan, member, (enum tt_rdmc_lane)lane, step, &found), &found, there,
                            &expected);
                assert_true(!there || (unsigned)lane < tt_rdmc_lane_count(plan));
            }
            bool there = scan_receive(plan, member, step, &expected);

            assert_same(tt_rdmc_next_receive(plan, member, step, &found), &found, there, &expected);
        }
        struct tt_rdmc_transfer none;

        assert_false(tt_rdmc_next_receive(plan, member, UINT64_MAX, &none));
        assert_false(tt_rdmc_next_send(plan, member, TT_RDMC_MAIN, UINT64_MAX, &none));
    }
}

static void lists_are_what_a_look_at_every_step_finds(void **state)
{
    (void)state;
    for (uint32_t members = 1; members <= 20; members++) {
        for (uint64_t blocks = 1; blocks <= 9; blocks += 2) {
            for (int algorithm = 0; algorithm < TT_RDMC_HYBRID; algorithm++) {
                struct tt_rdmc plan = rdmc_plan((enum tt_rdmc_algorithm)algorithm, members, blocks);

                check_lists(&plan);
            }
        }
    }
}

static void lists_of_the_hybrid_are_what_a_look_at_every_step_finds(void **state)
{
    struct tt_random random;

    (void)state;
    tt_random_init(&random, 2);
    for (int round = 0; round < 100; round++) {
        uint32_t sizes[6], firsts[6], racks = 1 + (uint32_t)tt_random_below(&random, 6);

        for (uint32_t rack = 0; rack < racks; rack++) {
            sizes[rack] = 1 + (uint32_t)tt_random_below(&random, 6);
        }
        struct tt_rdmc plan = rdmc_hybrid(sizes, racks, 1 + tt_random_below(&random, 9), firsts);

        check_lists(&plan);
    }
}

/* --- Known plans -------------------------------------------------------------------------------------------------- */

struct known {
    uint64_t step;
    uint32_t from, to;
    uint64_t block;
};

/* All sends in the order of step, sender and lane. */
static void check_known(const struct tt_rdmc *plan, const struct known *known, size_t count)
{
    struct tt_rdmc_transfer transfer;
    size_t found = 0;

    for (uint64_t step = 0; step < plan->step_count; step++) {
        for (uint32_t member = 0; member < plan->member_count; member++) {
            for (int lane = 0; lane < TT_RDMC_LANE_COUNT; lane++) {
                if (tt_rdmc_send(plan, member, (enum tt_rdmc_lane)lane, step, &transfer)) {
                    assert_true(found < count);
                    assert_true(known[found].step == step && known[found].from == member);
                    assert_true(known[found].to == transfer.peer && known[found].block == transfer.block);
                    found++;
                }
            }
        }
    }
    assert_int_equal(found, count);
}

/* Figure 3 (left) of the paper. */
static void binomial_tree_of_eight_is_the_paper_s_figure(void **state)
{
    static const struct known known[] = {{0, 0, 1, 0}, {1, 0, 2, 0}, {1, 1, 3, 0}, {2, 0, 4, 0},
                                         {2, 1, 5, 0}, {2, 2, 6, 0}, {2, 3, 7, 0}};

    (void)state;
    struct tt_rdmc plan = rdmc_plan(TT_RDMC_BINOMIAL_TREE, 8, 1);

    check_known(&plan, known, sizeof known / sizeof known[0]);
}

/* Figure 3 (center and right): the sender sends 0, 1, 2, 2, 2; members exchange their highest blocks. */
static void binomial_pipeline_of_eight_is_the_paper_s_figure(void **state)
{
    static const struct known known[] = {
        {0, 0, 1, 0}, {1, 0, 2, 1}, {1, 1, 3, 0}, {2, 0, 4, 2}, {2, 1, 5, 0}, {2, 2, 6, 1}, {2, 3, 7, 0},
        {3, 0, 1, 2}, {3, 2, 3, 1}, {3, 3, 2, 0}, {3, 4, 5, 2}, {3, 5, 4, 0}, {3, 6, 7, 1}, {3, 7, 6, 0},
        {4, 0, 2, 2}, {4, 1, 3, 2}, {4, 3, 1, 1}, {4, 4, 6, 2}, {4, 5, 7, 2}, {4, 6, 4, 1}, {4, 7, 5, 1}};

    (void)state;
    struct tt_rdmc plan = rdmc_plan(TT_RDMC_BINOMIAL_PIPELINE, 8, 3);

    check_known(&plan, known, sizeof known / sizeof known[0]);
}

static void twins_take_turns_and_exchange_at_the_end(void **state)
{
    static const struct known known[] = {{0, 0, 1, 0}, {1, 0, 2, 1}, {2, 0, 1, 2},
                                         {2, 1, 2, 0}, {3, 1, 2, 2}, {3, 2, 1, 1}};

    (void)state;
    struct tt_rdmc plan = rdmc_plan(TT_RDMC_BINOMIAL_PIPELINE, 3, 3);

    check_known(&plan, known, sizeof known / sizeof known[0]);
}

static void chain_and_sequential_of_three_are_as_told(void **state)
{
    static const struct known in_chain[] = {{0, 0, 1, 0}, {1, 0, 1, 1}, {1, 1, 2, 0}, {2, 1, 2, 1}};
    static const struct known in_turn[] = {{0, 0, 1, 0}, {1, 0, 1, 1}, {2, 0, 2, 0}, {3, 0, 2, 1}};

    (void)state;
    struct tt_rdmc chain = rdmc_plan(TT_RDMC_CHAIN, 3, 2), sequential = rdmc_plan(TT_RDMC_SEQUENTIAL, 3, 2);

    check_known(&chain, in_chain, 4);
    check_known(&sequential, in_turn, 4);
}

/* Two racks of two: rack 0's pipeline runs with the leaders', rack 1's two steps behind. */
static void hybrid_of_two_racks_is_as_told(void **state)
{
    static const uint32_t sizes[] = {2, 2};
    static const struct known known[] = {{0, 0, 2, 0}, {0, 0, 1, 0}, {1, 0, 2, 1},
                                         {1, 0, 1, 1}, {2, 2, 3, 0}, {3, 2, 3, 1}};
    uint32_t firsts[2];

    (void)state;
    struct tt_rdmc plan = rdmc_hybrid(sizes, 2, 2, firsts);

    assert_int_equal(plan.step_count, 4);
    check_known(&plan, known, sizeof known / sizeof known[0]);
}

/* --- Large ones --------------------------------------------------------------------------------------------------- */

/* Every block of the last `window` once, all behind `step`, and what is received is what the peer sends. */
static void check_tail(const struct tt_rdmc *plan, uint32_t member, uint64_t step)
{
    enum { WINDOW = 20 };
    uint64_t first = plan->block_count - WINDOW, seen = 0;
    struct tt_rdmc_transfer received, sent;

    for (; tt_rdmc_next_receive(plan, member, step, &received); step = received.step + 1) {
        bool sends = false;

        for (int lane = 0; lane < TT_RDMC_LANE_COUNT && !sends; lane++) {
            sends =
                tt_rdmc_send(plan, received.peer, (enum tt_rdmc_lane)lane, received.step, &sent) && sent.peer == member;
        }
        assert_true(sends && sent.block == received.block);
        assert_true(received.block < plan->block_count && received.step < plan->step_count);
        if (received.block >= first) {
            assert_true((seen >> (received.block - first) & 1) == 0);
            seen |= UINT64_C(1) << (received.block - first);
        }
    }
    assert_true(seen == (UINT64_C(1) << WINDOW) - 1);
}

static void check_tails(const struct tt_rdmc *plan)
{
    const uint32_t sample[] = {1,
                               2,
                               plan->member_count / 2,
                               plan->member_count / 2 + 1,
                               plan->member_count / 3 * 2,
                               plan->member_count - 2,
                               plan->member_count - 1};

    for (size_t i = 0; i < sizeof sample / sizeof sample[0]; i++) {
        struct tt_rdmc_transfer first, end;
        uint64_t run = plan->block_count - 1;

        assert_true(tt_rdmc_next_receive(plan, sample[i], 0, &first));
        assert_int_equal(first.block < 64, 1);
        assert_false(tt_rdmc_next_receive(plan, sample[i], first.step + run + 80, &end));
        check_tail(plan, sample[i], first.step + run - 200);
    }
}

static void plans_of_two_to_the_32_blocks_do_not_overflow(void **state)
{
    static const uint32_t members[] = {
        65535, 65536, 65537, UINT32_C(1) << 20, TT_RDMC_MOST_MEMBERS - 1, TT_RDMC_MOST_MEMBERS};

    (void)state;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        for (int algorithm = 0; algorithm < TT_RDMC_HYBRID; algorithm++) {
            struct tt_rdmc plan = rdmc_plan((enum tt_rdmc_algorithm)algorithm, members[i], TT_RDMC_MOST_BLOCKS);

            assert_true(plan.step_count == rdmc_expected_steps(&plan));
            check_tails(&plan);
        }
    }
    struct tt_rdmc plan;

    assert_true(tt_rdmc_init(&plan, TT_RDMC_HYBRID, 65600, TT_RDMC_MOST_BLOCKS, huge_racks, 5));
    check_tails(&plan);
}

/* Would take minutes if the list were looked for step by step. */
static void lists_that_have_ended_or_never_begin_are_known_to_be_over_at_once(void **state)
{
    struct tt_rdmc_transfer transfer;

    (void)state;
    struct tt_rdmc two = rdmc_plan(TT_RDMC_BINOMIAL_PIPELINE, 2, TT_RDMC_MOST_BLOCKS);
    struct tt_rdmc tree = rdmc_plan(TT_RDMC_BINOMIAL_TREE, 65536, TT_RDMC_MOST_BLOCKS);
    struct tt_rdmc sequential = rdmc_plan(TT_RDMC_SEQUENTIAL, 65536, TT_RDMC_MOST_BLOCKS);

    for (int i = 0; i < 100000; i++) {
        assert_false(tt_rdmc_next_send(&two, 1, TT_RDMC_MAIN, 0, &transfer));
        assert_false(tt_rdmc_next_receive(&two, 0, 0, &transfer));
        assert_false(tt_rdmc_next_send(&tree, 65535, TT_RDMC_MAIN, 0, &transfer));
        assert_true(tt_rdmc_next_send(&tree, 5, TT_RDMC_MAIN, 0, &transfer));
        assert_true(transfer.step == 3 * TT_RDMC_MOST_BLOCKS && transfer.peer == 13);
        assert_true(tt_rdmc_next_receive(&tree, 65535, 0, &transfer));
        assert_true(transfer.step == 15 * TT_RDMC_MOST_BLOCKS);
        assert_true(tt_rdmc_next_receive(&sequential, 65535, 0, &transfer));
        assert_true(transfer.step == 65534 * TT_RDMC_MOST_BLOCKS);
    }
}

/* So that following a list costs O(log n) a call, with none left out. */
static void in_the_middle_of_a_pipeline_nobody_is_idle_for_two_steps(void **state)
{
    (void)state;
    for (uint32_t members = 3; members <= 300; members++) {
        struct tt_rdmc plan = rdmc_plan(TT_RDMC_BINOMIAL_PIPELINE, members, TT_RDMC_MOST_BLOCKS);
        struct tt_rdmc_transfer transfer;

        for (uint32_t member = 0; member < members; member++) {
            for (uint64_t step = TT_RDMC_MOST_BLOCKS / 2; step < TT_RDMC_MOST_BLOCKS / 2 + 20; step++) {
                assert_true(tt_rdmc_next_send(&plan, member, TT_RDMC_MAIN, step, &transfer));
                assert_true(transfer.step <= step + 1);
                assert_int_equal(tt_rdmc_receive(&plan, member, step, &transfer), member != 0);
            }
        }
    }
}

/* Each member's list of receives has every block, each list of sends as many as there are to be. */
static void lists_of_65536_members_are_whole(void **state)
{
    (void)state;
    for (uint32_t members = 65536; members <= 65537; members++) {
        struct tt_rdmc plan = rdmc_plan(TT_RDMC_BINOMIAL_PIPELINE, members, 3);
        struct tt_rdmc_transfer transfer;
        uint64_t sends = 0;

        for (uint32_t member = 0; member < members; member++) {
            unsigned blocks = 0;

            for (uint64_t step = 0; tt_rdmc_next_receive(&plan, member, step, &transfer); step = transfer.step + 1) {
                assert_true((blocks >> transfer.block & 1) == 0);
                blocks |= 1U << transfer.block;
            }
            assert_int_equal(blocks, member == 0 ? 0 : 7);
            for (uint64_t step = 0; tt_rdmc_next_send(&plan, member, TT_RDMC_MAIN, step, &transfer);
                 step = transfer.step + 1) {
                sends++;
            }
        }
        assert_true(sends == 3 * (uint64_t)(members - 1));
    }
}

/* --- What cannot be, and words ------------------------------------------------------------------------------------ */

static void init_refuses_what_cannot_be_and_sets_nothing(void **state)
{
    static const uint32_t good[] = {0, 3}, late[] = {1, 3}, equal[] = {0, 3, 3}, behind[] = {0, 8};
    struct tt_rdmc plan, before;

    (void)state;
    memset(&plan, 0xA5, sizeof plan);
    memcpy(&before, &plan, sizeof plan);
    assert_false(tt_rdmc_init(&plan, TT_RDMC_CHAIN, 0, 1, NULL, 0));
    assert_false(tt_rdmc_init(&plan, TT_RDMC_CHAIN, 8, 0, NULL, 0));
    assert_false(tt_rdmc_init(&plan, TT_RDMC_CHAIN, TT_RDMC_MOST_MEMBERS + 1, 1, NULL, 0));
    assert_false(tt_rdmc_init(&plan, TT_RDMC_CHAIN, 8, TT_RDMC_MOST_BLOCKS + 1, NULL, 0));
    assert_false(tt_rdmc_init(&plan, TT_RDMC_CHAIN, 8, 1, good, 2));
    assert_false(tt_rdmc_init(&plan, TT_RDMC_HYBRID, 8, 1, NULL, 0));
    assert_false(tt_rdmc_init(&plan, TT_RDMC_HYBRID, 8, 1, good, 0));
    assert_false(tt_rdmc_init(&plan, TT_RDMC_HYBRID, 8, 1, late, 2));
    assert_false(tt_rdmc_init(&plan, TT_RDMC_HYBRID, 8, 1, equal, 3));
    assert_false(tt_rdmc_init(&plan, TT_RDMC_HYBRID, 8, 1, behind, 2));
    assert_memory_equal(&plan, &before, sizeof plan);
    assert_true(tt_rdmc_init(&plan, TT_RDMC_HYBRID, 8, 1, good, 2));
}

static void one_member_has_no_steps(void **state)
{
    static const uint32_t firsts[] = {0};
    struct tt_rdmc plan;

    (void)state;
    for (int algorithm = 0; algorithm < TT_RDMC_ALGORITHM_COUNT; algorithm++) {
        bool hybrid = algorithm == TT_RDMC_HYBRID;

        assert_true(tt_rdmc_init(&plan, (enum tt_rdmc_algorithm)algorithm, 1, 9, hybrid ? firsts : NULL, hybrid));
        assert_true(plan.step_count == 0);
        check_lists(&plan);
    }
}

static void words_and_algorithms_are_each_others_inverse(void **state)
{
    enum tt_rdmc_algorithm algorithm = TT_RDMC_CHAIN;

    (void)state;
    assert_false(tt_rdmc_of_word("binomial", &algorithm));
    assert_false(tt_rdmc_of_word("", &algorithm));
    assert_int_equal(algorithm, TT_RDMC_CHAIN);
    for (int i = 0; i < TT_RDMC_ALGORITHM_COUNT; i++) {
        assert_true(tt_rdmc_of_word(tt_rdmc_word((enum tt_rdmc_algorithm)i), &algorithm));
        assert_int_equal(algorithm, i);
    }
    assert_string_equal(tt_rdmc_word(TT_RDMC_BINOMIAL_PIPELINE), "binomial-pipeline");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lists_are_what_a_look_at_every_step_finds),
        cmocka_unit_test(lists_of_the_hybrid_are_what_a_look_at_every_step_finds),
        cmocka_unit_test(binomial_tree_of_eight_is_the_paper_s_figure),
        cmocka_unit_test(binomial_pipeline_of_eight_is_the_paper_s_figure),
        cmocka_unit_test(twins_take_turns_and_exchange_at_the_end),
        cmocka_unit_test(chain_and_sequential_of_three_are_as_told),
        cmocka_unit_test(hybrid_of_two_racks_is_as_told),
        cmocka_unit_test(plans_of_two_to_the_32_blocks_do_not_overflow),
        cmocka_unit_test(lists_that_have_ended_or_never_begin_are_known_to_be_over_at_once),
        cmocka_unit_test(in_the_middle_of_a_pipeline_nobody_is_idle_for_two_steps),
        cmocka_unit_test(lists_of_65536_members_are_whole),
        cmocka_unit_test(init_refuses_what_cannot_be_and_sets_nothing),
        cmocka_unit_test(one_member_has_no_steps),
        cmocka_unit_test(words_and_algorithms_are_each_others_inverse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
