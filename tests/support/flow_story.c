/* SPDX-License-Identifier: BSD-3-Clause */
/* Normal path: nobody gives the multicast up, and receive queues have room, so what is lost is lost in ports. Fails the
 * test where a rank was held up, or what it knows of its link is not sound. */
#include "support/flow_story.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

void flow_story_begin(struct flow_story *flow, uint32_t ranks, uint64_t port_bytes)
{
    struct tt_sim_link link = {.bits_per_second = flow->bits_per_second, .latency_ns = TT_NS_PER_US};
    struct tt_world_options *options = &flow->story.options;

    flow->ranks = ranks;
    tt_story_prepare(&flow->story, ranks);
    options->settings.bandwidth = TT_AUTO;
    options->settings.chunk_bytes = flow->chunk_bytes;
    options->settings.alpha_ns = 100 * TT_NS_PER_MS;
    options->settings.timeout_ns = 60 * TT_NS_PER_S; /* links may be very slow */
    options->sim.uplink = options->sim.downlink = link;
    options->sim.max_chunk_bytes = flow->chunk_bytes;
    options->sim.header_bytes = TT_PACER_OVERHEAD_BYTES;
    options->sim.downlink_queue_bytes = port_bytes;
    options->sim.receive_depth = 1 << 14;
    tt_story_begin(&flow->story, ranks);
}

void flow_story_end(struct flow_story *flow)
{
    tt_story_end(&flow->story);
}

void flow_story_set_rate(struct flow_story *flow, uint32_t rank, uint64_t bits_per_second)
{
    struct tt_sim_link link = {.bits_per_second = bits_per_second, .latency_ns = TT_NS_PER_US};

    tt_sim_set_links(flow->story.world->sim, rank, link, link);
}

struct tt_world_job *flow_story_job(struct flow_story *flow, enum tt_collective_kind kind, uint32_t chunks)
{
    return tt_world_job_create(flow->story.group, kind, 0, (uint64_t)chunks * flow->chunk_bytes, TT_METHOD_MULTICAST);
}

uint64_t flow_story_lost(const struct flow_story *flow)
{
    uint64_t drops = 0;

    for (uint32_t rank = 0; rank < flow->ranks; rank++) {
        struct tt_sim_port port;

        tt_sim_port_counters(flow->story.world->sim, rank, &port);
        drops += port.tail_drops + port.overflow_drops;
    }
    return drops;
}

uint64_t flow_story_run(struct flow_story *flow, struct tt_world_job *job, uint64_t chunks)
{
    struct tt_world *world = flow->story.world;
    uint64_t start_ns = tt_world_now(world), slowest_ns = 0;
    uint64_t wire_bits = chunks * (flow->chunk_bytes + TT_PACER_OVERHEAD_BYTES) * 8;

    tt_world_post_all(job);
    tt_world_run_job(job, start_ns + 60 * TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    for (uint32_t rank = 0; rank < flow->ranks; rank++) {
        const struct tt_group *group = flow->story.group->members[rank].group;
        uint64_t taken_ns = job->parts[rank].ended_ns - start_ns;

        slowest_ns = taken_ns > slowest_ns ? taken_ns : slowest_ns;
        tt_link_check(&group->network->link);
        assert_int_equal(group->network->link.users, 0);
        assert_in_range(group->credit_stalls, 0, flow->most_stalls);
    }
    return (uint64_t)((double)slowest_ns * (double)flow->bits_per_second / 1e6 / (double)wire_bits);
}
