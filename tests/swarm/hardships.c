/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong at once, for long, or for all: long bursts, nodes that die together, networks without multicast or
 * in two parts. */
#include <assert.h>
#include <inttypes.h>
#include <string.h>

#include "base/least.h"
#include "draw.h"

enum {
    MIN_LONG_POSTS = 257, /* a tag comes again after 127 or 128 posts */
    MAX_LONG_POSTS = SWARM_MAX_POSTS,
    MAX_SMALL_SIZE = 8, /* ranks */
    LONG_BYTES = 64,    /* of all blocks */
    LATE_POSTS = 50,    /* by so many a chunk of a long burst may be late */
    DARK_BYTES = 400000,
    DARK_CHUNK_BYTES = 1000,
    DARK_RATE = 1000000000,
    DARK_DEPTH = 48 /* chunks */
};
_Static_assert((int)LATE_POSTS + (int)SWARM_BURST_JOBS < (int)TT_EARLY_AHEAD, "an eager tag means the next one then");

/* The slowest way of a chunk from one node to another through queues that are nearly empty. */
static uint64_t transit_ns(const struct swarm_plan *plan)
{
    enum { CHUNKS = 64 };
    const struct tt_sim_options *sim = &plan->options.sim;
    const struct tt_sim_link *link = plan->slow_node != TT_RANK_NONE ? &plan->slow_link : &sim->uplink;
    uint64_t bits = (uint64_t)CHUNKS * 8 * (sim->max_chunk_bytes + sim->header_bytes);

    return 2 * (link->latency_ns + sim->uplink.latency_ns) + 2 * bits * TT_NS_PER_S / link->bits_per_second;
}

/*
 * Small collectives one after the other, until each tag has come twice or more, and chunks and copies that come late by
 * dozens of them. It is assumed of a network that nothing stays in it until its tag may mean the next collective that
 * has it (docs/protocol.md), so ranks post at a pace at which nothing does: while the last chunk of a collective is
 * being sent, nobody has posted more than all jobs after it.
 */
static void draw_long_burst(struct swarm_plan *plan, struct tt_random *random)
{
    struct tt_sim_faults *faults = &plan->options.sim.faults;
    uint32_t size = plan->groups[0].size, count = (uint32_t)between(random, 2, SWARM_BURST_JOBS);
    struct swarm_group_plan *group = &plan->groups[0];
    uint64_t late_ns = log_between(random, TT_NS_PER_MS, 16 * TT_NS_PER_MS);

    if (!one_in(random, 36) || size < 2 || size > MAX_SMALL_SIZE) {
        return;
    }
    plan->group_count = 1;
    plan->job_count = group->post_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        static const enum tt_method methods[] = {TT_METHOD_EAGER, TT_METHOD_EAGER, TT_METHOD_GATHER,
                                                 TT_METHOD_MULTICAST};
        struct swarm_job_plan *job = &plan->jobs[plan->job_count++];

        memset(job, 0, sizeof *job);
        job->method = PICK(random, methods);
        job->kind = job->method == TT_METHOD_GATHER || one_in(random, 4) ? TT_ALLGATHER : TT_BROADCAST;
        job->root = job->kind == TT_BROADCAST ? (uint32_t)tt_random_below(random, size) : 0;
        job->block_bytes = between(random, 1, LONG_BYTES / size);
        job->in_place = tt_random_next(random);
        job->odd_rank = TT_RANK_NONE;
    }
    assert(count > 0);
    group->post_count = (uint32_t)between(random, MIN_LONG_POSTS, MAX_LONG_POSTS);
    for (uint32_t i = 0; i < group->post_count; i++) {
        group->posts[i] = one_in(random, 4) ? (uint32_t)tt_random_below(random, count) : i % count;
    }
    faults->duplicate_ppm = 300000;
    faults->reorder_ppm = one_in(random, 2) ? 0 : 20000;
    faults->spike_ppm = 0;
    faults->reorder_ns = faults->reorder_ppm > 0 ? late_ns / 2 : late_ns; /* of a copy of a late chunk: twice */
    plan->post_pace_ns = (late_ns + transit_ns(plan)) / LATE_POSTS + 1;
    plan->heal_ns = 2 * group->post_count * plan->post_pace_ns;
}

/* No chunk gets through any more, in the middle of many. */
static void draw_blackout(struct swarm_plan *plan, struct tt_random *random, uint32_t nodes)
{
    struct swarm_job_plan *job = &plan->jobs[0];

    if (nodes < 2 || !one_in(random, 10)) {
        return;
    }
    plan->blackout.comes = true;
    plan->blackout.node = one_in(random, 2) ? TT_SIM_ALL_NODES : (uint32_t)tt_random_below(random, nodes);
    plan->blackout.at_ns = log_between(random, 1000, 20 * TT_NS_PER_MS);
    if (plan->heal_ns <= plan->blackout.at_ns) {
        plan->heal_ns = plan->blackout.at_ns + log_between(random, TT_NS_PER_MS, 300 * TT_NS_PER_MS);
    }
    if (plan->post_pace_ns == 0 && job->odd_rank == TT_RANK_NONE && nodes <= MAX_SMALL_SIZE &&
        plan->options.sim.max_chunk_bytes >= DARK_CHUNK_BYTES) { /* more than roots send without hearing of it */
        *job = (struct swarm_job_plan){.group = job->group,
                                       .kind = TT_BROADCAST,
                                       .method = TT_METHOD_MULTICAST,
                                       .block_bytes = between(random, DARK_BYTES / 2, DARK_BYTES),
                                       .odd_rank = TT_RANK_NONE};
        plan->options.sim.uplink.bits_per_second = plan->options.sim.downlink.bits_per_second = DARK_RATE;
        plan->options.sim.receive_depth = DARK_DEPTH;
        plan->blackout.at_ns = between(random, TT_NS_PER_MS / 20, 5 * TT_NS_PER_MS);
        plan->heal_ns = plan->blackout.at_ns + log_between(random, 10 * TT_NS_PER_MS, 300 * TT_NS_PER_MS);
    }
}

/* Half of the time between neighbours in the order of nodes, as what others have is made when it is needed. */
static void draw_cut(struct swarm_plan *plan, struct tt_random *random, uint32_t nodes)
{
    struct swarm_cut *cut = &plan->cut;

    if (nodes < 2 || !one_in(random, 5)) {
        return;
    }
    cut->comes = true;
    cut->nodes[0] = (uint32_t)tt_random_below(random, nodes);
    cut->nodes[1] = (cut->nodes[0] + (one_in(random, 2) ? 1 : (uint32_t)between(random, 1, nodes - 1))) % nodes;
    cut->at_ns = log_between(random, 1000, 50 * TT_NS_PER_MS);
}

/* The second group comes in the midst of what the first one does, or when that is over, or has failed with a connection
 * that both would use. */
static void draw_late_group(struct swarm_plan *plan, struct tt_random *random)
{
    uint64_t from_ns = plan->cut.comes ? plan->cut.at_ns + plan->options.sim.detection_max_ns : 0;

    if (plan->group_count == 2 && one_in(random, 2)) {
        plan->groups[1].begins_ns = from_ns + log_between(random, 1000, 100 * TT_NS_PER_MS);
    }
}

/* Of groups that are created later the harness needs all registrations. */
static void draw_shortage(struct swarm_plan *plan, struct tt_random *random, uint32_t nodes)
{
    struct swarm_shortage *shortage = &plan->shortage;

    if (one_in(random, 12) && plan->groups[1].begins_ns == 0) {
        shortage->node = (uint32_t)tt_random_below(random, nodes);
        shortage->refused_ppm = one_in(random, 2) ? 1000000 : (uint32_t)tt_random_below(random, 1000000);
        shortage->at_ns = log_between(random, 10000, 20 * TT_NS_PER_MS);
        plan->heal_ns = tt_most(plan->heal_ns, shortage->at_ns + log_between(random, TT_NS_PER_MS, 300 * TT_NS_PER_MS));
    }
}

static void draw_clocks(struct swarm_plan *plan, struct tt_random *random, uint32_t nodes)
{
    if (one_in(random, 2)) {
        plan->options.clocks_ahead_ns = UINT64_C(1) << between(random, 10, 60); /* up to 36 years */
    }
    if (one_in(random, 6)) {
        plan->jump.node = (uint32_t)tt_random_below(random, nodes);
        plan->jump.at_ns = log_between(random, 1000, 50 * TT_NS_PER_MS);
        plan->jump.by_ns = log_between(random, TT_NS_PER_US, TT_NS_PER_S / 4);
    }
}

/* Which side a node is on: by its host, as rings are (run.c), by its number, or as it comes; each side has one. */
static void draw_sides(const struct swarm_plan *plan, struct tt_random *random, uint32_t nodes, bool *is_far)
{
    uint32_t hosts = (uint32_t)(plan->seed % 4), first = (uint32_t)between(random, 1, nodes - 1), any = 0;
    enum { BY_HOST, BY_NUMBER, BY_CHANCE, WAYS } way = (int)tt_random_below(random, WAYS);

    for (uint32_t node = 0; node < nodes; node++) {
        is_far[node] = way == BY_HOST && hosts > 1 ? node % hosts == 0
                       : way == BY_CHANCE          ? one_in(random, 2)
                                                   : node >= first;
        any += is_far[node];
    }
    if (any == 0 || any == nodes) {
        is_far[first] = any == 0;
    }
}

/* Half of the time everybody notices at the same time, as where a switch says that its port is down. */
static void draw_partition(struct swarm_plan *plan, struct tt_random *random, uint32_t nodes)
{
    struct swarm_partition *partition = &plan->partition;
    struct tt_sim_options *sim = &plan->options.sim;
    bool is_far[SWARM_MAX_NODES];
    uint64_t at_ns, spread_ns;

    if (nodes < 2 || !one_in(random, 8)) {
        return;
    }
    partition->comes = true;
    partition->first_ns = UINT64_MAX;
    at_ns = log_between(random, 1000, 50 * TT_NS_PER_MS);
    spread_ns = one_in(random, 2) ? 0 : log_between(random, 1000, 2 * sim->detection_max_ns);
    draw_sides(plan, random, nodes, is_far);
    for (uint32_t node = 0; node < nodes; node++) {
        if (is_far[node]) {
            partition->breaks_ns[node] = at_ns + between(random, 0, spread_ns);
            partition->first_ns = tt_least(partition->first_ns, partition->breaks_ns[node]);
            partition->last_ns = tt_most(partition->last_ns, partition->breaks_ns[node]);
        }
    }
    if (one_in(random, 2)) {
        sim->detection_max_ns = sim->detection_min_ns;
    }
    partition->splits_multicast = one_in(random, 2);
    if (partition->splits_multicast && plan->heal_ns <= partition->first_ns) {
        plan->heal_ns = partition->first_ns + log_between(random, TT_NS_PER_MS, 300 * TT_NS_PER_MS);
    }
    if (plan->group_count == 2 && plan->shortage.refused_ppm == 0 && one_in(random, 2)) { /* connects the sides anew */
        plan->groups[1].begins_ns =
            partition->last_ns + sim->detection_max_ns + log_between(random, 1000, 20 * TT_NS_PER_MS);
    }
}

/* Drawn from numbers of their own, so that what seeds mean without it stays. */
void swarm_plan_draw_hardships(struct swarm_plan *plan, uint32_t nodes)
{
    struct tt_random random;

    tt_random_init(&random, plan->seed * UINT64_C(0x9E3779B97F4A7C15) + 2);
    draw_long_burst(plan, &random);
    if (plan->crash_count == 2 && one_in(&random, 2)) { /* two at once */
        plan->crashes[1].at_ns = plan->crashes[0].at_ns;
        plan->crashes[1].node = (plan->crashes[0].node + (uint32_t)between(&random, 1, nodes - 1)) % nodes;
    }
    draw_blackout(plan, &random, nodes);
    draw_cut(plan, &random, nodes);
    draw_late_group(plan, &random);
    draw_shortage(plan, &random, nodes);
    draw_clocks(plan, &random, nodes);
    draw_partition(plan, &random, nodes);
}

static void print_partition(const struct swarm_plan *plan, FILE *file)
{
    const struct swarm_partition *partition = &plan->partition;

    fprintf(file, "  from %" PRIu64 " to %" PRIu64 " ns what connects nodes", partition->first_ns, partition->last_ns);
    for (uint32_t node = 0; node < plan->options.sim.node_count; node++) {
        if (partition->breaks_ns[node] > 0) {
            fprintf(file, " %u", node);
        }
    }
    fprintf(file, " with the others breaks%s\n",
            partition->splits_multicast ? ", and no chunk passes between them" : "");
}

void swarm_plan_print_hardships(const struct swarm_plan *plan, FILE *file)
{
    const struct tt_sim_options *sim = &plan->options.sim;

    if (plan->post_pace_ns > 0) {
        fprintf(file, "  %u posts, one in %" PRIu64 " ns, chunks late by up to %" PRIu64 " ns\n",
                plan->groups[0].post_count, plan->post_pace_ns,
                (sim->faults.reorder_ppm > 0 ? 2 : 1) * sim->faults.reorder_ns);
    }
    if (plan->blackout.comes) {
        fprintf(file, "  no chunk reaches node %d (-1: any) from %" PRIu64 " ns on\n", (int)plan->blackout.node,
                plan->blackout.at_ns);
    }
    if (plan->cut.comes) {
        fprintf(file, "  what connects nodes %u and %u breaks at %" PRIu64 " ns\n", plan->cut.nodes[0],
                plan->cut.nodes[1], plan->cut.at_ns);
    }
    if (plan->shortage.refused_ppm > 0) {
        fprintf(file, "  %u ppm of node %u's registrations are refused from %" PRIu64 " ns on\n",
                plan->shortage.refused_ppm, plan->shortage.node, plan->shortage.at_ns);
    }
    if (plan->options.clocks_ahead_ns > 0) {
        fprintf(file, "  clocks are ahead by up to %" PRIu64 " ns\n", plan->options.clocks_ahead_ns);
    }
    if (plan->jump.by_ns > 0) {
        fprintf(file, "  the clock of node %u jumps by %" PRIu64 " ns at %" PRIu64 " ns\n", plan->jump.node,
                plan->jump.by_ns, plan->jump.at_ns);
    }
    if (plan->partition.comes) {
        print_partition(plan, file);
    }
}
