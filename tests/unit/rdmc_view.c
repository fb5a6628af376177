/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: adapts RDMC's plans to the judge of plan_check.h.
 *
 * Normal path: what may be sent, and how far out of order blocks may come, is said here once more, without the plan's
 * own arithmetic.
 *
 * Failures: a plan that cannot be made fails the test.
 */
#include "rdmc_view.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static bool send(const void *context, uint32_t rank, uint32_t lane, uint64_t step, struct plan_transfer *transfer)
{
    struct tt_rdmc_transfer found;

    if (!tt_rdmc_send(context, rank, (enum tt_rdmc_lane)lane, step, &found)) {
        return false;
    }
    assert_true(found.step == step);
    *transfer = (struct plan_transfer){found.peer, found.block, 1};
    return true;
}

static bool receive(const void *context, uint32_t rank, uint64_t step, struct plan_transfer *transfer)
{
    struct tt_rdmc_transfer found;

    if (!tt_rdmc_receive(context, rank, step, &found)) {
        return false;
    }
    assert_true(found.step == step);
    *transfer = (struct plan_transfer){found.peer, found.block, 1};
    return true;
}

static bool holds(const void *context, uint32_t rank, uint64_t block)
{
    (void)context;
    (void)block;
    return rank == 0;
}

static uint32_t log2_up(uint32_t n)
{
    uint32_t log2 = 0;

    while ((UINT64_C(1) << log2) < n) {
        log2++;
    }
    return log2;
}

static uint32_t pipeline_ahead(uint32_t n)
{
    return n > 1 ? log2_up(n) - 1 : 0;
}

static uint32_t size_of_rack(const struct tt_rdmc *plan, uint32_t rack)
{
    return (rack + 1 < plan->rack_count ? plan->rack_firsts[rack + 1] : plan->member_count) - plan->rack_firsts[rack];
}

bool rdmc_is_leader(const struct tt_rdmc *plan, uint32_t member)
{
    for (uint32_t rack = 0; rack < plan->rack_count; rack++) {
        if (plan->rack_firsts[rack] == member) {
            return true;
        }
    }
    return false;
}

static struct plan_limits one_lane_limits(const void *context, uint32_t rank)
{
    const struct tt_rdmc *plan = context;

    (void)rank;
    return (struct plan_limits){1,
                                plan->algorithm == TT_RDMC_BINOMIAL_PIPELINE ? pipeline_ahead(plan->member_count) : 0};
}

static struct plan_limits hybrid_limits(const void *context, uint32_t rank)
{
    const struct tt_rdmc *plan = context;
    uint32_t rack = 0;

    while (rack + 1 < plan->rack_count && plan->rack_firsts[rack + 1] <= rank) {
        rack++;
    }
    if (plan->rack_firsts[rack] == rank) {
        return (struct plan_limits){2, pipeline_ahead(plan->rack_count)};
    }
    return (struct plan_limits){1, pipeline_ahead(size_of_rack(plan, rack))};
}

struct plan_view rdmc_view(const struct tt_rdmc *plan)
{
    return (struct plan_view){.context = plan,
                              .rank_count = plan->member_count,
                              .block_count = plan->block_count,
                              .lane_count = tt_rdmc_lane_count(plan),
                              .step_count = plan->step_count,
                              .send = send,
                              .receive = receive,
                              .holds = holds,
                              .limits = plan->algorithm == TT_RDMC_HYBRID ? hybrid_limits : one_lane_limits};
}

struct tt_rdmc rdmc_plan(enum tt_rdmc_algorithm algorithm, uint32_t member_count, uint64_t block_count)
{
    struct tt_rdmc plan;

    assert_true(tt_rdmc_init(&plan, algorithm, member_count, block_count, NULL, 0));
    return plan;
}

struct tt_rdmc rdmc_hybrid(const uint32_t *sizes, uint32_t rack_count, uint64_t block_count, uint32_t *firsts)
{
    struct tt_rdmc plan;
    uint32_t member_count = 0;

    for (uint32_t rack = 0; rack < rack_count; rack++) {
        firsts[rack] = member_count;
        member_count += sizes[rack];
    }
    assert_true(tt_rdmc_init(&plan, TT_RDMC_HYBRID, member_count, block_count, firsts, rack_count));
    return plan;
}

static uint64_t hybrid_steps(const struct tt_rdmc *plan)
{
    uint64_t k = plan->block_count, racks = log2_up(plan->rack_count), steps = plan->rack_count > 1 ? k + racks - 1 : 0;

    for (uint32_t rack = 0; rack < plan->rack_count; rack++) {
        uint32_t size = size_of_rack(plan, rack);
        uint64_t end = k + log2_up(size) - 1 + (rack > 0 ? racks + 1 : 0);

        steps = size > 1 && end > steps ? end : steps;
    }
    return steps;
}

uint64_t rdmc_expected_steps(const struct tt_rdmc *plan)
{
    uint64_t n = plan->member_count, k = plan->block_count;

    if (n == 1) {
        return 0;
    }
    switch (plan->algorithm) {
    case TT_RDMC_SEQUENTIAL:
        return k * (n - 1);
    case TT_RDMC_CHAIN:
        return k + n - 2;
    case TT_RDMC_BINOMIAL_TREE:
        return k * log2_up(plan->member_count);
    case TT_RDMC_BINOMIAL_PIPELINE:
        return k + log2_up(plan->member_count) - 1;
    case TT_RDMC_HYBRID:
        return hybrid_steps(plan);
    case TT_RDMC_ALGORITHM_COUNT:
        break;
    }
    fail_msg("algorithm %d", (int)plan->algorithm);
    return 0;
}
