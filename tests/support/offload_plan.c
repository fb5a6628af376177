/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: random plans for worlds of triggered engines.
 *
 * Normal path: a few or many jobs with any collective and algorithm each, over random nodes in a random order; buffers
 * from a single packet to plenty.
 *
 * Failures: none.
 */
#include <inttypes.h>
#include <string.h>

#include "base/random.h"
#include "offload_world.h"

enum { ELEMENT_BYTES = 16 };

static uint32_t below(struct tt_random *random, uint32_t limit)
{
    return (uint32_t)tt_random_below(random, limit);
}

static void draw_members(struct tt_random *random, uint32_t node_count, struct offload_job_plan *job)
{
    uint32_t nodes[OFFLOAD_MOST_NODES];

    for (uint32_t i = 0; i < node_count; i++) {
        nodes[i] = i;
    }
    job->size = 1 + below(random, node_count);
    for (uint32_t i = 0; i < job->size; i++) {
        uint32_t other = i + below(random, node_count - i), node = nodes[other];

        nodes[other] = nodes[i];
        nodes[i] = node;
        job->nodes[i] = node;
    }
}

static void draw_job(struct tt_random *random, const struct offload_plan *plan, struct offload_job_plan *job)
{
    uint64_t packet_elements = plan->packet_bytes / ELEMENT_BYTES;

    draw_members(random, plan->node_count, job);
    do {
        job->collective = (enum tt_schedule_collective)below(random, TT_SCHEDULE_COLLECTIVE_COUNT);
        job->algorithm = (enum tt_schedule_algorithm)below(random, TT_SCHEDULE_ALGORITHM_COUNT);
    } while (!tt_schedule_is_known(job->collective, job->algorithm));
    job->root = tt_schedule_has_root(job->collective) ? below(random, job->size) : 0;
    job->commutes = below(random, 2) == 0;
    job->has_source = below(random, 2) == 0;
    job->lanes = 1 + below(random, OFFLOAD_MOST_LANES);
    job->pulses = 1 + below(random, 4);
    job->iterations = 1 + below(random, 3);
    /* What is not cut evenly must fit a packet as a whole. */
    job->elements = tt_random_below(
        random, packet_elements * (job->collective >= TT_SCHEDULE_REDUCE_SCATTER ? 1 : job->pulses) + 1);
}

/* Half of all plans send references: of all operands, or of longer ones. A slot has room for either. */
static void draw_inline(struct tt_random *random, struct offload_plan *plan)
{
    bool is_one_slot = plan->unit_bytes == TT_TRIGGER_PACKET_BYTES + plan->packet_bytes;
    uint32_t slot_bytes;

    plan->inline_bytes = plan->packet_bytes;
    if (below(random, 2) == 0) {
        return;
    }
    plan->inline_bytes = below(random, 3) == 0 ? 0 : below(random, plan->packet_bytes);
    slot_bytes =
        plan->inline_bytes < TT_TRIGGER_MAX_REFERENCE_BYTES ? TT_TRIGGER_MAX_REFERENCE_BYTES : plan->inline_bytes;
    if (is_one_slot) {
        plan->unit_bytes = TT_TRIGGER_PACKET_BYTES + slot_bytes;
    }
}

void offload_plan_draw(struct offload_plan *plan, uint64_t seed)
{
    struct tt_random random;

    memset(plan, 0, sizeof *plan);
    tt_random_init(&random, seed);
    bool is_starved = below(&random, 2) == 0;

    plan->seed = seed;
    plan->network_seed = seed ^ UINT64_C(0x5DEECE66D);
    plan->node_count = 1 + below(&random, is_starved ? 6 : 12);
    plan->job_count = 1 + below(&random, is_starved && below(&random, 4) == 0 ? OFFLOAD_MOST_JOBS : 6);
    plan->unit_count = 1 + below(&random, is_starved ? 2 : TT_OFFLOAD_MOST_UNITS);
    plan->window = 1 + below(&random, below(&random, 2) == 0 ? 2 : TT_OFFLOAD_MOST_WINDOW);
    plan->queue_length = 1 + below(&random, 3);
    plan->action_capacity = 1 + below(&random, 16);
    plan->packet_bytes = ELEMENT_BYTES * (1 + below(&random, 63));
    plan->unit_bytes = is_starved ? 4096 : 65536;
    if (is_starved && below(&random, 3) == 0) {
        plan->unit_bytes = TT_TRIGGER_PACKET_BYTES + plan->packet_bytes; /* of one packet */
    }
    plan->most_delay_ns = below(&random, 3) == 0 ? 1 : 10 + below(&random, 2000);
    plan->post_span_ns = below(&random, 3) == 0 ? 0 : below(&random, 20000);
    draw_inline(&random, plan);
    plan->copies = below(&random, 2) == 0 ? 0 : below(&random, plan->window + 1);
    for (uint32_t i = 0; i < plan->job_count; i++) {
        draw_job(&random, plan, &plan->jobs[i]);
    }
    plan->dead_node = OFFLOAD_NOBODY; /* drawn behind all else, so that what seeds mean without it stays */
    if (plan->node_count > 1 && below(&random, 4) == 0) {
        plan->dead_node = below(&random, plan->node_count);
        plan->death_ns = tt_random_below(&random, plan->post_span_ns + 40 * plan->most_delay_ns);
    }
}

void offload_plan_print(const struct offload_plan *plan, FILE *stream)
{
    fprintf(stream,
            "%u nodes, %u units of %" PRIu64
            " bytes, packets of %u (%u inline), window %u with %u copies, queues of %u, %u actions, delays up to "
            "%" PRIu64 " ns\n",
            plan->node_count, plan->unit_count, plan->unit_bytes, plan->packet_bytes, plan->inline_bytes, plan->window,
            plan->copies, plan->queue_length, plan->action_capacity, plan->most_delay_ns);
    if (plan->dead_node != OFFLOAD_NOBODY) {
        fprintf(stream, "  node %u dies at %" PRIu64 " ns\n", plan->dead_node, plan->death_ns);
    }
    for (uint32_t i = 0; i < plan->job_count; i++) {
        const struct offload_job_plan *job = &plan->jobs[i];

        fprintf(stream, "  job %u: %s by %s, root %u, %" PRIu64 " elements, %u pulses, %u lanes, %u times%s, nodes", i,
                tt_schedule_collective_word(job->collective), tt_schedule_algorithm_word(job->algorithm), job->root,
                job->elements, job->pulses, job->lanes, job->iterations, job->has_source ? " from a source" : "");
        for (uint32_t rank = 0; rank < job->size; rank++) {
            fprintf(stream, " %u", job->nodes[rank]);
        }
        fputc('\n', stream);
    }
}
