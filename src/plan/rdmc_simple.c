/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: sequential send, chain send and binomial tree (Behrens et al., section 4.3). In all three a member's blocks
 * come in order, in one run of k steps.
 *
 * Normal path: send and receive are each other's inverse; the lists jump from run to run.
 *
 * Failures: none; a step that is outside of a member's runs has no transfer.
 */
#include "plan/rdmc_rule.h"

/* The first step from `step` on within the run [first, first + k). */
static uint64_t within(uint64_t first, uint64_t k, uint64_t step)
{
    if (step < first) {
        return first;
    }
    return step - first < k ? step : TT_RDMC_NEVER;
}

static bool run_at(uint64_t first, uint64_t k, uint64_t step, uint32_t peer, struct tt_rdmc_transfer *transfer)
{
    if (step < first || step - first >= k) {
        return false;
    }
    transfer->block = step - first;
    transfer->peer = peer;
    return true;
}

/* --- Sequential: member r gets all blocks from step (r - 1) k on ------------------------------------------------- */

static uint64_t sequential_steps(uint32_t n, uint64_t k)
{
    return k * (n - 1);
}

static bool sequential_send(uint32_t n, uint64_t k, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer)
{
    if (member != 0 || step / k >= n - 1) {
        return false;
    }
    transfer->block = step % k;
    transfer->peer = (uint32_t)(step / k) + 1;
    return true;
}

static bool sequential_receive(uint32_t n, uint64_t k, uint32_t member, uint64_t step,
                               struct tt_rdmc_transfer *transfer)
{
    (void)n;
    return member != 0 && run_at((member - 1) * k, k, step, 0, transfer);
}

static uint64_t sequential_send_from(uint32_t n, uint64_t k, uint32_t member, uint64_t step)
{
    return member == 0 ? within(0, sequential_steps(n, k), step) : TT_RDMC_NEVER;
}

static uint64_t sequential_receive_from(uint32_t n, uint64_t k, uint32_t member, uint64_t step)
{
    (void)n;
    return member != 0 ? within((member - 1) * k, k, step) : TT_RDMC_NEVER;
}

const struct tt_rdmc_rule tt_rdmc_sequential = {sequential_steps, sequential_send, sequential_receive,
                                                sequential_send_from, sequential_receive_from};

/* --- Chain: member r sends its blocks from step r on -------------------------------------------------------------- */

static uint64_t chain_steps(uint32_t n, uint64_t k)
{
    return n == 1 ? 0 : k + n - 2;
}

static bool chain_send(uint32_t n, uint64_t k, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer)
{
    return member + 1 < n && run_at(member, k, step, member + 1, transfer);
}

static bool chain_receive(uint32_t n, uint64_t k, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer)
{
    (void)n;
    return member != 0 && run_at(member - 1, k, step, member - 1, transfer);
}

static uint64_t chain_send_from(uint32_t n, uint64_t k, uint32_t member, uint64_t step)
{
    return member + 1 < n ? within(member, k, step) : TT_RDMC_NEVER;
}

static uint64_t chain_receive_from(uint32_t n, uint64_t k, uint32_t member, uint64_t step)
{
    (void)n;
    return member != 0 ? within(member - 1, k, step) : TT_RDMC_NEVER;
}

const struct tt_rdmc_rule tt_rdmc_chain = {chain_steps, chain_send, chain_receive, chain_send_from, chain_receive_from};

/* --- Binomial tree: in stage s, the k steps from s k on, the 2^s members that have the object send it to 2^s more ---
 */

static uint64_t tree_steps(uint32_t n, uint64_t k)
{
    return k * tt_log2_up(n);
}

/* The stage in which a member other than 0 gets the object: it sends from the next one on. */
static uint32_t tree_stage(uint32_t member)
{
    return tt_log2_down(member);
}

static bool tree_send(uint32_t n, uint64_t k, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer)
{
    uint64_t stage = step / k;

    if (stage >= tt_log2_up(n) || member >> stage != 0 || member + (UINT64_C(1) << stage) >= n) {
        return false;
    }
    transfer->block = step % k;
    transfer->peer = member + (UINT32_C(1) << stage);
    return true;
}

static bool tree_receive(uint32_t n, uint64_t k, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer)
{
    (void)n;
    return member != 0 &&
           run_at(tree_stage(member) * k, k, step, member - (UINT32_C(1) << tree_stage(member)), transfer);
}

static uint64_t tree_send_from(uint32_t n, uint64_t k, uint32_t member, uint64_t step)
{
    uint64_t first = member == 0 ? 0 : tree_stage(member) + 1, stages = first;

    while (stages < tt_log2_up(n) && member + (UINT64_C(1) << stages) < n) {
        stages++;
    }
    return stages > first ? within(first * k, (stages - first) * k, step) : TT_RDMC_NEVER;
}

static uint64_t tree_receive_from(uint32_t n, uint64_t k, uint32_t member, uint64_t step)
{
    (void)n;
    return member != 0 ? within(tree_stage(member) * k, k, step) : TT_RDMC_NEVER;
}

const struct tt_rdmc_rule tt_rdmc_tree = {tree_steps, tree_send, tree_receive, tree_send_from, tree_receive_from};
