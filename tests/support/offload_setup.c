/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: a world of triggered engines as a plan says: nodes, jobs, their inputs and what each rank posts where.
 *
 * Normal path: inputs lie in the buffers that are posted, or in sources of their own.
 *
 * Failures: a plan that makes no sense, or no memory, asserts.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "offload_world_private.h"

enum { RETRY_NS = 500 };

/* The inputs; with a source, the buffer has nothing of them but what it must have. */
static void fill(struct offload_world *world, uint32_t index, uint32_t rank)
{
    struct offload_job *job = &world->jobs[index];
    uint64_t iterations = job->plan->iterations;
    struct affine *inputs = job->buffers[rank];
    uint32_t first, given = tt_schedule_given_blocks(&job->schedule, rank, &first);

    if (job->plan->has_source) {
        inputs = job->sources[rank] = calloc(job->total * iterations + 1, sizeof *inputs);
        assert(inputs != NULL);
        memset(job->buffers[rank], 0xBB, job->total * iterations * sizeof *inputs);
    }
    for (uint64_t i = 0; i < job->total * iterations; i++) {
        inputs[i] =
            affine_initial(job->plan->commutes, offload_data_seed(world, index, i / job->total), rank, i % job->total);
    }
    for (uint64_t i = 0; i < iterations && given > 0; i++) {
        struct tt_block_range range = tt_blocks_run(&job->blocks, first, given);

        memmove(job->buffers[rank] + i * job->total + range.first, inputs + i * job->total + range.first,
                range.count * sizeof *inputs);
    }
}

static void create_job(struct offload_world *world, uint32_t index)
{
    struct offload_job *job = &world->jobs[index];
    const struct offload_job_plan *plan = &world->plan->jobs[index];

    job->plan = plan;
    if (!tt_schedule_init(&job->schedule, plan->collective, plan->algorithm, plan->size, plan->root)) {
        assert(!"a plan without a schedule");
    }
    job->blocks = (struct tt_blocks){.block_count = tt_schedule_block_count(&job->schedule)};
    job->total = plan->elements;
    if (tt_schedule_has_rank_blocks(&job->schedule)) {
        job->total = 0;
        for (uint32_t i = 0; i < plan->size; i++) {
            job->firsts[i] = job->total;
            job->counts[i] = plan->elements / plan->size * (i % 3) / 2;
            job->total += job->counts[i];
            job->longest = job->counts[i] > job->longest ? job->counts[i] : job->longest;
        }
        job->blocks.firsts = job->firsts;
        job->blocks.counts = job->counts;
    }
    job->blocks.slice_count = tt_schedule_has_rank_blocks(&job->schedule) ? job->longest : job->total;
    for (uint32_t rank = 0; rank < plan->size; rank++) {
        job->buffers[rank] = calloc(job->total * plan->iterations + 1, sizeof(struct affine));
        job->results[rank] = calloc(job->total * plan->iterations + 1, sizeof(struct affine));
        assert(job->buffers[rank] != NULL && job->results[rank] != NULL && plan->iterations <= OFFLOAD_MOST_ITERATIONS);
        fill(world, index, rank);
        for (uint32_t l = 0; l < plan->lanes; l++) {
            struct offload_lane *lane = &world->lanes[world->lane_count++];

            *lane = (struct offload_lane){.job = index, .rank = rank, .lane = l, .node = plan->nodes[rank]};
            lane->count = offload_pulses_of(plan, l) * plan->iterations;
            lane->next_ns = tt_random_below(&world->random, world->plan->post_span_ns + 1);
            lane->descriptors = calloc(lane->count + 1, sizeof *lane->descriptors);
            assert(lane->descriptors != NULL);
        }
    }
}

void offload_world_create(struct offload_world *world)
{
    const struct offload_plan *plan = world->plan;

    assert(plan->action_capacity <= 16);
    for (uint32_t node = 0; node < plan->node_count; node++) {
        struct tt_offload_terms terms = {.node = node,
                                         .unit_count = plan->unit_count,
                                         .port_count = plan->job_count * OFFLOAD_MOST_LANES,
                                         .unit_bytes = plan->unit_bytes,
                                         .packet_bytes = plan->packet_bytes,
                                         .inline_bytes = plan->inline_bytes,
                                         .window = plan->window,
                                         .copies = plan->copies,
                                         .queue_length = plan->queue_length,
                                         .retry_ns = RETRY_NS};
        void *memory = malloc(tt_offload_memory_bytes(&terms));

        assert(memory != NULL);
        world->nodes[node] = tt_offload_init(&terms, memory);
        world->closes_ns[node] = UINT64_MAX;
        if (plan->dead_node != OFFLOAD_NOBODY && node != plan->dead_node) {
            world->closes_ns[node] = plan->death_ns + 1 + tt_random_below(&world->random, 10 * plan->most_delay_ns);
        }
    }
    world->lanes = calloc(OFFLOAD_MOST_JOBS * OFFLOAD_MOST_NODES * OFFLOAD_MOST_LANES, sizeof *world->lanes);
    assert(world->lanes != NULL);
    for (uint32_t i = 0; i < plan->job_count; i++) {
        create_job(world, i);
    }
}

void offload_world_destroy(struct offload_world *world)
{
    for (uint32_t i = 0; i < world->lane_count; i++) {
        for (uint64_t s = 0; s < world->lanes[i].posted; s++) {
            free(world->lanes[i].descriptors[s]);
        }
        free(world->lanes[i].descriptors);
    }
    for (uint32_t i = 0; i < world->plan->job_count; i++) {
        for (uint32_t rank = 0; rank < world->jobs[i].schedule.size; rank++) {
            free(world->jobs[i].buffers[rank]);
            free(world->jobs[i].results[rank]);
            free(world->jobs[i].sources[rank]);
        }
    }
    for (uint32_t i = 0; i < world->plan->node_count; i++) {
        free(world->nodes[i]);
    }
    free(world->lanes);
    free(world->flights);
}
