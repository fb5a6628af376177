/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the data of the world of `tutti sim trigger`, and whether it is right at the end.
 *
 * Normal path: each rank of each job has elements of its own values; the results are compared with what the collective
 * means, computed from the values alone.
 *
 * Failures: the first wrong element is the run's fault.
 */
#include <stdlib.h>
#include <string.h>

#include "cli/sim_trigger_world_private.h"

enum { PLACES = 1 << 16, JOB_STEP = 977, RANK_STEP = 1021 };

/* What a rank of a job has at first: a piece of one long row of random bytes, from a place of its own on. */
static const uint8_t *values_of(const struct tt_costsim_world *world, uint32_t job, uint32_t rank)
{
    return world->tape + (job * JOB_STEP + rank * RANK_STEP) % PLACES;
}

bool tt_costsim_data_create(struct tt_costsim_world *world)
{
    const struct tt_costsim_terms *terms = world->terms;
    struct tt_random random;

    world->data = malloc((uint64_t)terms->job_count * terms->node_count * world->elements + 1);
    world->tape = malloc(world->elements + PLACES);
    if (world->data == NULL || world->tape == NULL) {
        return false;
    }
    tt_random_init(&random, terms->seed);
    for (uint64_t i = 0; i < world->elements + PLACES; i++) {
        world->tape[i] = (uint8_t)tt_random_next(&random);
    }
    for (uint32_t job = 0; job < terms->job_count; job++) {
        for (uint32_t rank = 0; rank < terms->node_count; rank++) {
            memcpy(tt_costsim_data(world, job, rank), values_of(world, job, rank), world->elements);
        }
    }
    return true;
}

static bool is_result(const struct tt_costsim_world *world, uint32_t rank, uint32_t block)
{
    switch (world->terms->collective) {
    case TT_SCHEDULE_REDUCE:
    case TT_SCHEDULE_GATHER:
        return rank == world->terms->root;
    case TT_SCHEDULE_REDUCE_SCATTER:
    case TT_SCHEDULE_SCATTER:
        return rank == block;
    default:
        return true;
    }
}

uint64_t tt_costsim_result_bytes(const struct tt_costsim_world *world, uint32_t rank, const struct tt_blocks *blocks)
{
    uint64_t elements = 0;

    for (uint32_t block = 0; world->terms->collective != TT_SCHEDULE_BARRIER && block < blocks->block_count; block++) {
        elements += is_result(world, rank, block) ? tt_block_at(blocks, block).count : 0;
    }
    return elements * TT_COSTSIM_ELEMENT_BYTES;
}

/* The ranks' values together, of all elements of a job. */
static void sum(const struct tt_costsim_world *world, uint32_t job, uint8_t *sums)
{
    memcpy(sums, values_of(world, job, 0), world->elements);
    for (uint32_t rank = 1; rank < world->terms->node_count; rank++) {
        tt_reduce(TT_TYPE_UINT8, TT_REDUCE_SUM, sums, values_of(world, job, rank), world->elements);
    }
}

static void check_block(struct tt_costsim_world *world, uint32_t job, uint32_t rank, uint32_t block,
                        const uint8_t *sums)
{
    const struct tt_costsim_terms *terms = world->terms;
    struct tt_block_range range = tt_block_at(&world->blocks, block);
    bool is_from_block = terms->collective == TT_SCHEDULE_ALLGATHER || terms->collective == TT_SCHEDULE_GATHER;
    const uint8_t *expected = sums != NULL ? sums : values_of(world, job, is_from_block ? block : terms->root);
    const uint8_t *found = tt_costsim_data(world, job, rank);

    for (uint64_t i = range.first;
         memcmp(found + range.first, expected + range.first, range.count) != 0 && i < range.first + range.count; i++) {
        if (found[i] != expected[i]) {
            TT_COSTSIM_FAULT(world, "job %" PRIu32 ", rank %" PRIu32 ": element %" PRIu64 " is %d, not %d", job, rank,
                             i, found[i], expected[i]);
            return;
        }
    }
}

void tt_costsim_data_check(struct tt_costsim_world *world)
{
    const struct tt_costsim_terms *terms = world->terms;
    uint8_t *sums = NULL;
    bool is_summed = terms->collective == TT_SCHEDULE_REDUCE || terms->collective == TT_SCHEDULE_ALLREDUCE ||
                     terms->collective == TT_SCHEDULE_REDUCE_SCATTER;

    if (terms->collective == TT_SCHEDULE_BARRIER) {
        return;
    }
    if (is_summed) {
        sums = malloc(world->elements + 1);
        if (sums == NULL) {
            TT_COSTSIM_FAULT(world, "not enough memory to check the results");
            return;
        }
    }
    for (uint32_t job = 0; job < terms->job_count; job++) {
        if (sums != NULL) {
            sum(world, job, sums);
        }
        for (uint32_t rank = 0; rank < terms->node_count; rank++) {
            for (uint32_t block = 0; block < world->blocks.block_count; block++) {
                if (is_result(world, rank, block)) {
                    check_block(world, job, rank, block, sums);
                }
            }
        }
    }
    free(sums);
}
