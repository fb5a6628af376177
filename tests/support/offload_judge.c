/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what comes of a world of triggered engines, judged.
 *
 * Normal path: every result is compared with what the collective means, computed from the ranks' inputs alone, and all
 * bytes are put into a digest.
 *
 * Failures: the first one is noted.
 */
#include <inttypes.h>

#include "offload_world_private.h"

uint64_t offload_data_seed(const struct offload_world *world, uint32_t job, uint64_t iteration)
{
    return world->plan->seed + job * UINT64_C(7919) + iteration * UINT64_C(104729);
}

static bool is_result(const struct tt_schedule *schedule, uint32_t rank, uint32_t block)
{
    switch (schedule->collective) {
    case TT_SCHEDULE_BARRIER:
        return false;
    case TT_SCHEDULE_REDUCE:
    case TT_SCHEDULE_GATHER:
        return rank == schedule->root;
    case TT_SCHEDULE_REDUCE_SCATTER:
    case TT_SCHEDULE_SCATTER:
        return rank == block;
    default:
        return true;
    }
}

static struct affine result_of(const struct offload_job *job, uint64_t seed, uint32_t block, uint64_t element)
{
    bool commutes = job->plan->commutes;
    struct affine all = affine_initial(commutes, seed, 0, element);

    switch (job->schedule.collective) {
    case TT_SCHEDULE_BROADCAST:
    case TT_SCHEDULE_SCATTER:
        return affine_initial(commutes, seed, job->schedule.root, element);
    case TT_SCHEDULE_ALLGATHER:
    case TT_SCHEDULE_GATHER:
        return affine_initial(commutes, seed, block, element);
    default:
        for (uint32_t rank = 1; rank < job->schedule.size; rank++) {
            all = affine_compose(all, affine_initial(commutes, seed, rank, element));
        }
        return all;
    }
}

static void check_run(struct offload_world *world, uint32_t index, uint64_t iteration)
{
    const struct offload_job *job = &world->jobs[index];
    bool is_known = job->plan->commutes || tt_schedule_keeps_order(&job->schedule);

    for (uint32_t rank = 0; rank < job->schedule.size; rank++) {
        for (uint32_t block = 0; block < job->blocks.block_count; block++) {
            struct tt_block_range range = tt_block_at(&job->blocks, block);

            for (uint64_t i = range.first; is_result(&job->schedule, rank, block) && i < range.first + range.count;
                 i++) {
                struct affine found = job->results[rank][iteration * job->total + i];

                if (is_known &&
                    !affine_is(found, result_of(job, offload_data_seed(world, index, iteration), block, i))) {
                    FAULT(world, "job %u (%s), iteration %" PRIu64 ", rank %u: element %" PRIu64 " is wrong", index,
                          tt_schedule_collective_word(job->schedule.collective), iteration, rank, i);
                }
            }
        }
    }
}

void offload_world_judge(struct offload_world *world)
{
    for (uint32_t i = 0; i < world->lane_count; i++) {
        const struct offload_lane *lane = &world->lanes[i];

        if (lane->ended < lane->count && !offload_is_dead(world, lane->node)) {
            FAULT(world, "node %u, job %u, lane %u is stuck after %" PRIu64 " of %" PRIu64 " sequences", lane->node,
                  lane->job, lane->lane, lane->ended, lane->count);
        }
    }
    for (uint32_t node = 0; node < world->plan->node_count; node++) {
        const uint64_t *counters = (const uint64_t *)tt_offload_counters(world->nodes[node]);
        uint64_t *sums = (uint64_t *)&world->result->counters;

        for (size_t i = 0; i < sizeof world->result->counters / sizeof *sums; i++) {
            sums[i] += counters[i];
        }
        for (uint32_t unit = 0; unit < world->plan->unit_count && !offload_is_dead(world, node); unit++) {
            struct tt_offload_use use;

            tt_offload_use(world->nodes[node], unit, &use);
            if (use.used > 0 || use.ports > 0) {
                FAULT(world, "node %u, unit %u still has %u packets of %u ports", node, unit, use.used, use.ports);
            }
        }
    }
    for (uint32_t index = 0; index < world->plan->job_count; index++) {
        const struct offload_job *job = &world->jobs[index];

        if (offload_is_hit(world, index)) {
            continue;
        }
        for (uint64_t iteration = 0; iteration < job->plan->iterations; iteration++) {
            check_run(world, index, iteration);
        }
        for (uint32_t rank = 0; rank < job->schedule.size; rank++) {
            for (uint64_t i = 0; i < job->plan->iterations * job->total; i++) {
                struct affine element = job->results[rank][i];

                world->result->digest = (world->result->digest ^ element.scale) * UINT64_C(0x100000001B3);
                world->result->digest = (world->result->digest ^ element.offset) * UINT64_C(0x100000001B3);
            }
        }
    }
}
