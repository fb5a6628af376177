/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans that are wrong in one place, and formulas that are: the judge of plan_check.h must find each of them. */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/rdmc.h"
#include "rdmc_view.h"

/* --- One transfer, or one step, is not as it should be ------------------------------------------------------------ */

enum fault {
    NO_FAULT,
    WRONG_BLOCK_SENT, /* the sender alone is wrong */
    WRONG_BLOCK,      /* sender and receiver agree on the wrong one */
    WRONG_PEER_SENT,
    WRONG_PEER,
    NOT_SENT,
    NOT_MOVED,
    FAULT_COUNT
};

struct mutant {
    struct plan_view base;
    enum fault fault;
    uint32_t rank, lane; /* the transfer, as its sender sees it */
    uint64_t step;
    struct plan_transfer was;
    uint32_t other; /* the wrong peer */
    uint64_t swapped[2];
    uint64_t last_repeats; /* the step that is the one before it once more */
};

static uint64_t step_of(const struct mutant *mutant, uint64_t step)
{
    for (int i = 0; i < 2; i++) {
        if (step == mutant->swapped[i]) {
            return mutant->swapped[1 - i];
        }
    }
    return step == mutant->last_repeats ? step - 1 : step;
}

static bool mutant_send(const void *context, uint32_t rank, uint32_t lane, uint64_t step,
                        struct plan_transfer *transfer)
{
    const struct mutant *mutant = context;
    bool sends = mutant->base.send(mutant->base.context, rank, lane, step_of(mutant, step), transfer);

    if (mutant->fault == NO_FAULT || rank != mutant->rank || lane != mutant->lane || step != mutant->step) {
        return sends;
    }
    if (mutant->fault == WRONG_BLOCK_SENT || mutant->fault == WRONG_BLOCK) {
        transfer->first_block = (transfer->first_block + 1) % mutant->base.block_count;
    } else if (mutant->fault == WRONG_PEER_SENT || mutant->fault == WRONG_PEER) {
        transfer->peer = mutant->other;
    } else {
        return false;
    }
    return true;
}

static bool mutant_receive(const void *context, uint32_t rank, uint64_t step, struct plan_transfer *transfer)
{
    const struct mutant *mutant = context;
    bool receives = mutant->base.receive(mutant->base.context, rank, step_of(mutant, step), transfer);

    if (mutant->fault == NO_FAULT || step != mutant->step) {
        return receives;
    }
    if (mutant->fault == WRONG_PEER && rank == mutant->other) {
        *transfer = (struct plan_transfer){mutant->rank, mutant->was.first_block, 1};
        return true;
    }
    if (rank == mutant->was.peer && mutant->fault == WRONG_BLOCK) {
        transfer->first_block = (transfer->first_block + 1) % mutant->base.block_count;
    }
    return receives && !(rank == mutant->was.peer && (mutant->fault == WRONG_PEER || mutant->fault == NOT_MOVED));
}

static bool mutant_holds(const void *context, uint32_t rank, uint64_t block)
{
    const struct mutant *mutant = context;

    return mutant->base.holds(mutant->base.context, rank, block);
}

static struct plan_limits mutant_limits(const void *context, uint32_t rank)
{
    const struct mutant *mutant = context;

    return mutant->base.limits(mutant->base.context, rank);
}

static struct mutant mutant_of(const struct tt_rdmc *plan)
{
    return (struct mutant){.base = rdmc_view(plan), .swapped = {UINT64_MAX, UINT64_MAX}, .last_repeats = UINT64_MAX};
}

static bool is_found(const struct mutant *mutant, uint64_t step_count)
{
    struct plan_view view = mutant->base;
    struct plan_findings findings;

    view.context = mutant;
    view.step_count = step_count;
    view.send = mutant_send;
    view.receive = mutant_receive;
    view.holds = mutant_holds;
    view.limits = mutant_limits;
    return !plan_check(&view, &findings);
}

/* All faults of one transfer, with all wrong peers. Returns how many. */
static unsigned plant_in_transfer(struct mutant *mutant, const struct tt_rdmc *plan)
{
    unsigned planted = 0;

    for (enum fault fault = WRONG_BLOCK_SENT; fault < FAULT_COUNT; fault++) {
        bool peers = fault == WRONG_PEER_SENT || fault == WRONG_PEER;

        if (plan->block_count == 1 && fault <= WRONG_BLOCK) {
            continue; /* there is no other block */
        }
        for (uint32_t other = 0; other < (peers ? plan->member_count : 1); other++) {
            mutant->fault = fault;
            mutant->other = other;
            if (peers && other == mutant->was.peer) {
                continue;
            }
            if (!is_found(mutant, plan->step_count)) {
                fail_msg("%s, %u members, %u blocks: fault %d of rank %u at step %u is not found",
                         tt_rdmc_word(plan->algorithm), plan->member_count, (unsigned)plan->block_count, (int)fault,
                         mutant->rank, (unsigned)mutant->step);
            }
            planted++;
        }
    }
    return planted;
}

static unsigned plant_in_all_transfers(const struct tt_rdmc *plan)
{
    struct mutant mutant = mutant_of(plan);
    unsigned planted = 0;

    assert_false(is_found(&mutant, plan->step_count)); /* as it is it is right */
    for (uint64_t step = 0; step < plan->step_count; step++) {
        for (uint32_t rank = 0; rank < plan->member_count; rank++) {
            for (uint32_t lane = 0; lane < TT_RDMC_LANE_COUNT; lane++) {
                if (mutant.base.send(plan, rank, lane, step, &mutant.was)) {
                    mutant.rank = rank;
                    mutant.lane = lane;
                    mutant.step = step;
                    planted += plant_in_transfer(&mutant, plan);
                }
            }
        }
    }
    return planted;
}

static void plant_in_groups(enum tt_rdmc_algorithm algorithm)
{
    for (uint32_t members = 2; members <= 13; members++) {
        for (uint64_t blocks = 1; blocks <= 5; blocks += 2) {
            struct tt_rdmc plan = rdmc_plan(algorithm, members, blocks);

            assert_true(plant_in_all_transfers(&plan) >= (members - 1) * blocks * 3);
        }
    }
}

static void any_wrong_transfer_of_the_pipeline_is_found(void **state)
{
    (void)state;
    plant_in_groups(TT_RDMC_BINOMIAL_PIPELINE);
}

static void any_wrong_transfer_of_the_simple_algorithms_is_found(void **state)
{
    (void)state;
    plant_in_groups(TT_RDMC_SEQUENTIAL);
    plant_in_groups(TT_RDMC_CHAIN);
    plant_in_groups(TT_RDMC_BINOMIAL_TREE);
}

static void any_wrong_transfer_of_the_hybrid_is_found(void **state)
{
    static const uint32_t shapes[][4] = {{1, 3, 0, 0}, {4, 4, 5, 0}, {3, 1, 2, 6}, {2, 2, 0, 0}};

    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (uint64_t blocks = 1; blocks <= 5; blocks += 2) {
            uint32_t firsts[4], racks = shapes[i][2] == 0 ? 2 : shapes[i][3] == 0 ? 3 : 4;
            struct tt_rdmc plan = rdmc_hybrid(shapes[i], racks, blocks, firsts);

            assert_true(plant_in_all_transfers(&plan) >= (plan.member_count - 1) * blocks * 3);
        }
    }
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

static void swap_steps(const struct tt_rdmc *plan, uint64_t first, uint64_t second)
{
    struct mutant mutant = mutant_of(plan);

    mutant.swapped[0] = first;
    mutant.swapped[1] = second;
    if (!is_found(&mutant, plan->step_count)) {
        fail_msg("%s, %u members, %u blocks: steps %u and %u swapped is not found", tt_rdmc_word(plan->algorithm),
                 plan->member_count, (unsigned)plan->block_count, (unsigned)first, (unsigned)second);
    }
}

/*
 * All pairs of steps, but those whose exchange makes another plan that is right: of two runs of k steps in sequential
 * and tree, and of three members in the pipeline, where member 0's first blocks may go to either of the twins.
 */
static void steps_that_are_swapped_are_found(void **state)
{
    (void)state;
    for (uint32_t members = 2; members <= 20; members++) {
        for (int algorithm = 0; algorithm < TT_RDMC_HYBRID; algorithm++) {
            struct tt_rdmc plan = rdmc_plan((enum tt_rdmc_algorithm)algorithm, members, 6);
            bool runs = algorithm == TT_RDMC_SEQUENTIAL || algorithm == TT_RDMC_BINOMIAL_TREE;

            if (algorithm == TT_RDMC_BINOMIAL_PIPELINE && members == 3) {
                continue;
            }
            for (uint64_t first = 0; first < plan.step_count; first++) {
                uint64_t end = runs ? first / 6 * 6 + 6 : plan.step_count;

                for (uint64_t second = first + 1; second < end; second++) {
                    swap_steps(&plan, first, second);
                }
            }
        }
    }
}

static void a_step_too_many_and_one_too_few_are_found(void **state)
{
    (void)state;
    for (uint32_t members = 2; members <= 20; members++) {
        for (int algorithm = 0; algorithm < TT_RDMC_HYBRID; algorithm++) {
            struct tt_rdmc plan = rdmc_plan((enum tt_rdmc_algorithm)algorithm, members, 4);
            struct mutant mutant = mutant_of(&plan);

            assert_true(is_found(&mutant, plan.step_count + 1)); /* nothing in it */
            assert_true(is_found(&mutant, plan.step_count - 1));
            mutant.last_repeats = plan.step_count;
            assert_true(is_found(&mutant, plan.step_count + 1));
            assert_true(is_found(&mutant, plan.step_count)); /* there, but not counted */
        }
    }
}

/* --- Limits ------------------------------------------------------------------------------------------------------- */

static struct plan_limits one_less_ahead(const void *context, uint32_t rank)
{
    struct plan_view view = rdmc_view(context);
    struct plan_limits limits = view.limits(context, rank);

    limits.ahead--;
    return limits;
}

static struct plan_limits one_send(const void *context, uint32_t rank)
{
    struct plan_view view = rdmc_view(context);
    struct plan_limits limits = view.limits(context, rank);

    limits.sends = 1;
    return limits;
}

static void the_pipeline_needs_all_of_the_room_for_blocks_out_of_order(void **state)
{
    (void)state;
    for (uint32_t members = 3; members <= 64; members++) {
        struct tt_rdmc plan = rdmc_plan(TT_RDMC_BINOMIAL_PIPELINE, members, 40);
        struct plan_view view = rdmc_view(&plan);
        struct plan_findings findings;

        view.limits = one_less_ahead;
        assert_false(plan_check(&view, &findings));
        assert_non_null(strstr(findings.fault, "while it lacks"));
        assert_true(tt_rdmc_most_ahead(&plan) == view.limits(&plan, 1).ahead + 1);
    }
}

static void leaders_of_the_hybrid_do_send_twice_in_a_step(void **state)
{
    static const uint32_t sizes[] = {4, 4, 8};
    uint32_t firsts[3];
    struct plan_findings findings;

    (void)state;
    struct tt_rdmc plan = rdmc_hybrid(sizes, 3, 20, firsts);
    struct plan_view view = rdmc_view(&plan);

    view.limits = one_send;
    assert_false(plan_check(&view, &findings));
    assert_non_null(strstr(findings.fault, "sends 2 times"));
    assert_int_equal(tt_rdmc_most_ahead(&plan), 2); /* of the rack of 8 */
}

/* --- The paper's formula, word by word, and with mistakes (section 4.4) ------------------------------------------- */

enum mistake {
    NONE,
    ROTATES_LEFT,
    COUNTS_ONE_MORE_ZERO,
    FORGETS_THE_ZEROS,
    FORGETS_THE_LAST_BLOCK,
    SENDS_TO_THE_SENDER,
    SENDER_IS_ONE_BEHIND,
    DIRECTION_IS_ONE_OFF,
    MISTAKE_COUNT
};

struct paper {
    enum mistake mistake;
    uint32_t l;
    uint64_t k;
};

static uint32_t sigma(uint32_t n, uint64_t r, uint32_t l)
{
    for (; r > 0; r--) {
        n = n >> 1 | (n & 1) << (l - 1);
    }
    return n;
}

static uint64_t tr_ze(uint32_t m)
{
    uint64_t zeros = 0;

    for (; (m & 1) == 0; m >>= 1) {
        zeros++;
    }
    return zeros;
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static bool paper_send(const void *context, uint32_t i, uint32_t lane, uint64_t j, struct plan_transfer *transfer)
{
    const struct paper *paper = context;
    enum mistake mistake = paper->mistake;
    uint32_t l = paper->l;
    uint64_t k = paper->k, direction = (j + (mistake == DIRECTION_IS_ONE_OFF)) % l;
    uint32_t m = sigma(i, mistake == ROTATES_LEFT ? l - j % l : j % l, l);

    if (lane != 0 || j > l + k - 2) {
        return false;
    }
    transfer->peer = i ^ (uint32_t)(UINT64_C(1) << direction);
    transfer->block_count = 1;
    if (m == 0) {
        transfer->first_block = least(j - (mistake == SENDER_IS_ONE_BEHIND && j > 0), k - 1);
        return true;
    }
    uint64_t r = mistake == FORGETS_THE_ZEROS ? 0 : tr_ze(m) + (mistake == COUNTS_ONE_MORE_ZERO);

    if ((m == 1 && mistake != SENDS_TO_THE_SENDER) || j + r < l) {
        return false;
    }
    transfer->first_block = mistake == FORGETS_THE_LAST_BLOCK ? j - l + r : least(j - l + r, k - 1);
    return true;
}

static bool paper_receive(const void *context, uint32_t i, uint64_t j, struct plan_transfer *transfer)
{
    const struct paper *paper = context;
    uint32_t from = i ^ (uint32_t)(UINT64_C(1) << (j + (paper->mistake == DIRECTION_IS_ONE_OFF)) % paper->l);

    if (!paper_send(context, from, 0, j, transfer)) {
        return false;
    }
    transfer->peer = from;
    return true;
}

static bool paper_holds(const void *context, uint32_t rank, uint64_t block)
{
    (void)context;
    (void)block;
    return rank == 0;
}

static struct plan_limits paper_limits(const void *context, uint32_t rank)
{
    const struct paper *paper = context;

    (void)rank;
    return (struct plan_limits){1, paper->l - 1};
}

static struct plan_view paper_view(const struct paper *paper)
{
    return (struct plan_view){.context = paper,
                              .rank_count = UINT32_C(1) << paper->l,
                              .block_count = paper->k,
                              .lane_count = 1,
                              .step_count = paper->l + paper->k - 1,
                              .send = paper_send,
                              .receive = paper_receive,
                              .holds = paper_holds,
                              .limits = paper_limits};
}

static void the_formula_of_the_paper_is_right_and_mistakes_in_it_are_found(void **state)
{
    (void)state;
    for (uint32_t l = 3; l <= 6; l++) { /* with 2 directions some of them are none */
        for (uint64_t k = 2; k <= 40; k++) {
            for (int mistake = NONE; mistake < MISTAKE_COUNT; mistake++) {
                struct paper paper = {(enum mistake)mistake, l, k};
                struct plan_view view = paper_view(&paper);
                struct plan_findings findings;

                if (mistake == NONE) {
                    plan_must_hold(&view, "the paper's formula");
                } else {
                    assert_false(plan_check(&view, &findings));
                }
            }
        }
    }
}

static void the_pipeline_is_the_paper_s_formula_for_powers_of_two(void **state)
{
    (void)state;
    for (uint32_t l = 1; l <= 9; l++) {
        for (uint64_t k = 1; k <= 40; k += 3) {
            struct paper paper = {NONE, l, k};
            struct tt_rdmc plan = rdmc_plan(TT_RDMC_BINOMIAL_PIPELINE, UINT32_C(1) << l, k);
            struct plan_view view = rdmc_view(&plan);

            for (uint64_t step = 0; step < l + k; step++) {
                for (uint32_t rank = 0; rank < plan.member_count; rank++) {
                    struct plan_transfer ours = {0}, theirs = {0};
                    bool sends = paper_send(&paper, rank, 0, step, &theirs);

                    assert_int_equal(view.send(&plan, rank, 0, step, &ours), sends);
                    assert_true(!sends || (ours.peer == theirs.peer && ours.first_block == theirs.first_block));
                }
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_wrong_transfer_of_the_pipeline_is_found),
        cmocka_unit_test(any_wrong_transfer_of_the_simple_algorithms_is_found),
        cmocka_unit_test(any_wrong_transfer_of_the_hybrid_is_found),
        cmocka_unit_test(steps_that_are_swapped_are_found),
        cmocka_unit_test(a_step_too_many_and_one_too_few_are_found),
        cmocka_unit_test(the_pipeline_needs_all_of_the_room_for_blocks_out_of_order),
        cmocka_unit_test(leaders_of_the_hybrid_do_send_twice_in_a_step),
        cmocka_unit_test(the_formula_of_the_paper_is_right_and_mistakes_in_it_are_found),
        cmocka_unit_test(the_pipeline_is_the_paper_s_formula_for_powers_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
