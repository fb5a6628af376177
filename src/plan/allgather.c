/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: ring and recursive doubling.
 *
 * Normal path: whom a rank sends to and hears from, and the run that a rank sends at a step; what is received is what
 * the other one sends.
 *
 * Failures: none; steps behind the end have no transfer.
 */
#include "plan/allgather.h"

#include "plan/dissemination.h"

uint32_t tt_allgather_steps(enum tt_allgather_algorithm algorithm, uint32_t n)
{
    return algorithm == TT_ALLGATHER_RING ? n - 1 : tt_dissemination_rounds(n);
}

/* What `rank` sends at `step`, without the peer. */
static void find_run(enum tt_allgather_algorithm algorithm, uint32_t n, uint32_t rank, uint32_t step,
                     struct tt_allgather_run *run)
{
    if (algorithm == TT_ALLGATHER_RING) {
        run->first_block = tt_rank_subtract(rank, step, n);
        run->block_count = 1;
        return;
    }
    uint32_t count = UINT32_C(1) << step;

    if (tt_is_power_of_two(n)) {
        run->first_block = rank & ~(count - 1);
    } else {
        /* The rank has the latest `count` blocks up to its own; at the last step the peer lacks fewer. */
        count = count < n - count ? count : n - count;
        run->first_block = tt_rank_subtract(rank, count - 1, n);
    }
    run->block_count = count;
}

static bool is_exchange(enum tt_allgather_algorithm algorithm, uint32_t n)
{
    return algorithm == TT_ALLGATHER_RECURSIVE_DOUBLING && tt_is_power_of_two(n);
}

static uint32_t distance_at(enum tt_allgather_algorithm algorithm, uint64_t step)
{
    return algorithm == TT_ALLGATHER_RING ? 1 : UINT32_C(1) << step;
}

bool tt_allgather_send(enum tt_allgather_algorithm algorithm, uint32_t n, uint32_t rank, uint64_t step,
                       struct tt_allgather_run *run)
{
    if (step >= tt_allgather_steps(algorithm, n)) {
        return false;
    }
    uint32_t distance = distance_at(algorithm, step);

    run->peer = is_exchange(algorithm, n) ? rank ^ distance : tt_rank_add(rank, distance, n);
    find_run(algorithm, n, rank, (uint32_t)step, run);
    return true;
}

bool tt_allgather_receive(enum tt_allgather_algorithm algorithm, uint32_t n, uint32_t rank, uint64_t step,
                          struct tt_allgather_run *run)
{
    if (step >= tt_allgather_steps(algorithm, n)) {
        return false;
    }
    uint32_t distance = distance_at(algorithm, step);

    run->peer = is_exchange(algorithm, n) ? rank ^ distance : tt_rank_subtract(rank, distance, n);
    find_run(algorithm, n, run->peer, (uint32_t)step, run);
    return true;
}
