/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Drawing a plan. Everything comes from one generator in a fixed order, so that a seed always means the same plan.
 * Sizes are bounded by the number of chunks that have to be delivered, because that is what a run costs.
 */
#include "draw.h"

#include <inttypes.h>
#include <string.h>

enum {
    CHUNK_BUDGET = 15000, /* deliveries of a seed, about */
    BURST_BUDGET = 4000,
    MOST_GATHERED = 65536, /* of what is combined: with all methods */
    MAX_BURST_POSTS = 84,
    MAX_SINGLE_JOBS = SWARM_MAX_JOBS - SWARM_BURST_JOBS /* each posted twice at most */
};
_Static_assert(MAX_BURST_POSTS + 2 * MAX_SINGLE_JOBS <= SWARM_MAX_POSTS, "all may be one group's");

static void draw_network(struct swarm_plan *plan, struct tt_random *random, uint32_t nodes)
{
    static const uint64_t rates[] = {1000000000, 8000000000, 40000000000, 100000000000};
    static const uint64_t latencies[] = {100, 1000, 10000, 100000};
    static const uint32_t chunks[] = {64, 256, 1000, 1024, 4096};
    struct tt_sim_options *sim = &plan->options.sim;

    tt_sim_options_init(sim, nodes);
    sim->seed = plan->seed;
    sim->uplink.bits_per_second = sim->downlink.bits_per_second = PICK(random, rates);
    sim->uplink.latency_ns = sim->downlink.latency_ns = PICK(random, latencies);
    sim->max_chunk_bytes = PICK(random, chunks);
    sim->receive_depth = one_in(random, 3) ? (uint32_t)between(random, 1, 40) : 1024;
    sim->send_queue_chunks = (uint32_t)log_between(random, 1, 128);
    sim->send_batch = 1;
    sim->p2p_packet_bytes = (uint32_t)between(random, 200, 4096);
    sim->downlink_queue_bytes = one_in(random, 4) ? between(random, 4, 100) * sim->max_chunk_bytes : 0;
    sim->detection_min_ns = log_between(random, 1000, 1000000);
    sim->detection_max_ns = sim->detection_min_ns + log_between(random, 1000, 5000000);
    plan->slow_node = TT_RANK_NONE;
    if (one_in(random, 5)) {
        plan->slow_node = (uint32_t)tt_random_below(random, nodes);
        plan->slow_link = sim->uplink;
        plan->slow_link.bits_per_second /= between(random, 2, 10);
        plan->slow_link.latency_ns *= between(random, 1, 10);
    }
}

static void draw_faults(struct swarm_plan *plan, struct tt_random *random)
{
    struct tt_sim_faults *faults = &plan->options.sim.faults;

    faults->retransmit_ns = log_between(random, 1000, 1000000);
    faults->reorder_ns = log_between(random, 1000, 500000);
    faults->spike_ns = log_between(random, 10000, 3000000);
    if (one_in(random, 4)) {
        return; /* only what else goes wrong */
    }
    faults->loss_ppm = one_in(random, 3) ? (uint32_t)tt_random_below(random, 300001) : 0;
    faults->loss_ppm = one_in(random, 3) ? (uint32_t)tt_random_below(random, 20000) : faults->loss_ppm;
    faults->duplicate_ppm = one_in(random, 3) ? (uint32_t)tt_random_below(random, 200000) : 0;
    faults->reorder_ppm = one_in(random, 2) ? (uint32_t)tt_random_below(random, 300000) : 0;
    faults->spike_ppm = one_in(random, 4) ? (uint32_t)tt_random_below(random, 3000) : 0;
}

static void draw_settings(struct swarm_plan *plan, struct tt_random *random, uint32_t nodes)
{
    struct tt_settings *settings = &plan->options.settings;
    uint64_t rate = plan->options.sim.uplink.bits_per_second;

    settings->chunk_bytes = one_in(random, 3) ? TT_AUTO : plan->options.sim.max_chunk_bytes;
    settings->subgroups = between(random, 1, 4);
    settings->chains = one_in(random, 2) ? 1 : between(random, 1, nodes);
    settings->in_flight = between(random, 1, 8);
    settings->bandwidth = one_in(random, 4)   ? TT_AUTO
                          : one_in(random, 2) ? rate
                          : one_in(random, 2) ? rate * 4
                                              : rate / 4;
    settings->alpha_ns = log_between(random, 100 * TT_NS_PER_US, 100 * TT_NS_PER_MS);
    settings->tail_ns = one_in(random, 8) ? 0 : log_between(random, 10 * TT_NS_PER_US, 2 * TT_NS_PER_MS);
    settings->timeout_ns = 10 * TT_NS_PER_S;
    settings->bootstrap_timeout_ns = 10 * TT_NS_PER_S;
    settings->probe_timeout_ns = 500 * TT_NS_PER_MS;
    settings->algorithm = one_in(random, 12) ? TT_ALGORITHM_RING : TT_ALGORITHM_AUTO;
}

static void draw_groups(struct swarm_plan *plan, struct tt_random *random, uint32_t nodes)
{
    plan->group_count = nodes > 1 && one_in(random, 4) ? 2 : 1;
    for (uint32_t g = 0; g < plan->group_count; g++) {
        struct swarm_group_plan *group = &plan->groups[g];

        for (uint32_t i = 0; i < nodes; i++) {
            group->nodes[i] = i;
        }
        group->size = g == 0 || one_in(random, 2) ? nodes : (uint32_t)between(random, 1, nodes);
        for (uint32_t i = 0; i < nodes && g > 0; i++) { /* the second one in another order */
            uint32_t other = (uint32_t)between(random, i, nodes - 1), node = group->nodes[i];

            group->nodes[i] = group->nodes[other];
            group->nodes[other] = node;
        }
    }
}

static uint64_t draw_bytes(const struct swarm_plan *plan, struct tt_random *random, uint32_t jobs, uint32_t size,
                           uint32_t roots)
{
    uint64_t chunk = plan->options.sim.max_chunk_bytes;
    uint64_t most_chunks = CHUNK_BUDGET / ((uint64_t)size * roots * jobs) + 2;
    uint64_t bytes = log_between(random, 1, most_chunks) * chunk;

    bytes = bytes < 300000 ? bytes : 300000;
    switch (tt_random_below(random, 8)) {
    case 0:
        return tt_random_below(random, 3); /* nothing, or next to it */
    case 1:
        return bytes;
    case 2:
        return tt_random_below(random, chunk + 1);
    default:
        return bytes - tt_random_below(random, chunk);
    }
}

/* Terms that differ from the others' in one way. */
static void draw_odd(struct swarm_job_plan *job, struct tt_random *random, uint32_t size)
{
    struct tt_request_options odd = {
        .kind = job->kind, .root = job->root, .block_bytes = job->block_bytes, .method = job->method};

    job->odd_rank = (uint32_t)tt_random_below(random, size);
    if (tt_method_row(job->method)->keeps_copies && one_in(random, 3)) { /* a size that goes another way */
        odd.block_bytes = TT_EAGER_ALLGATHER_MAX_BYTES + 1;
        odd.method = one_in(random, 2) ? TT_METHOD_MULTICAST : TT_METHOD_RING;
        job->odd_terms = odd;
        return;
    }
    switch (tt_random_below(random, 3)) {
    case 0:
        odd.block_bytes = one_in(random, 2) ? odd.block_bytes + 1 : odd.block_bytes / 2 + 1;
        break;
    case 1:
        odd.kind = odd.kind == TT_BROADCAST ? TT_ALLGATHER : TT_BROADCAST;
        odd.root = 0;
        break;
    default:
        if (odd.kind == TT_BROADCAST) {
            odd.root = (odd.root + 1) % size;
        } else {
            odd.block_bytes += 7;
        }
        break;
    }
    if (odd.block_bytes == job->block_bytes && odd.kind == job->kind && odd.root == job->root) {
        odd.block_bytes++;
    }
    if (tt_method_row(odd.method)->keeps_copies &&
        odd.block_bytes * (odd.kind == TT_ALLGATHER ? size : 1) >
            (odd.method == TT_METHOD_GATHER ? TT_EAGER_MAX_BYTES : tt_eager_most_bytes(odd.kind, 2))) {
        odd.method = TT_METHOD_MULTICAST; /* as the public functions choose */
    }
    if (odd.method == TT_METHOD_GATHER && odd.kind != TT_ALLGATHER && odd.block_bytes > 0) {
        odd.method = one_in(random, 2) ? TT_METHOD_EAGER : TT_METHOD_TREE;
    }
    if (odd.method == TT_METHOD_EAGER && odd.block_bytes == 0 && (odd.kind != TT_ALLGATHER || size != 2)) {
        odd.method = TT_METHOD_MULTICAST;
    }
    if (tt_method_row(odd.method)->by_objects && odd.kind != TT_BROADCAST) {
        odd.method = TT_METHOD_RING;
    }
    if (odd.method == TT_METHOD_TREE && (odd.kind != TT_BROADCAST || odd.block_bytes > TT_TREE_MAX_BYTES)) {
        odd.method = TT_METHOD_RING;
    }
    job->odd_terms = odd;
}

/* An eager collective has bytes, and not too many. */
static uint64_t draw_eager_bytes(const struct swarm_plan *plan, struct tt_random *random, uint64_t most)
{
    uint64_t chunk = plan->options.sim.max_chunk_bytes;

    switch (tt_random_below(random, 8)) {
    case 0:
        return 1;
    case 1:
        return most;
    case 2:
    case 3:
        return between(random, 1, most);
    default:
        return between(random, 1, chunk < most ? chunk : most);
    }
}

/* What is gathered, too; it may be nothing. Of that, a broadcast is a barrier as well. */
static uint64_t draw_gathered_bytes(const struct swarm_plan *plan, struct tt_random *random, uint32_t size,
                                    struct swarm_job_plan *job)
{
    uint64_t bytes = one_in(random, 4) ? 0 : draw_eager_bytes(plan, random, TT_EAGER_MAX_BYTES / size);

    if (bytes > 0) {
        job->kind = TT_ALLGATHER;
        job->root = 0;
    }
    return bytes;
}

/* `jobs`: how many share the budget. */
static struct swarm_job_plan *draw_job(struct swarm_plan *plan, struct tt_random *random, uint32_t jobs, uint32_t group,
                                       enum tt_method method)
{
    struct swarm_job_plan *job = &plan->jobs[plan->job_count++];
    uint32_t size = plan->groups[group].size, roots;

    job->group = group;
    job->method = method;
    job->kind = one_in(random, 2) ? TT_BROADCAST : TT_ALLGATHER;
    job->root = job->kind == TT_BROADCAST ? (uint32_t)tt_random_below(random, size) : 0;
    roots = job->kind == TT_ALLGATHER ? size : 1;
    job->block_bytes = method == TT_METHOD_EAGER
                           ? draw_eager_bytes(plan, random, tt_eager_most_bytes(job->kind, size) / roots)
                       : method == TT_METHOD_GATHER ? draw_gathered_bytes(plan, random, size, job)
                                                    : draw_bytes(plan, random, jobs, size, roots);
    job->in_place = tt_random_next(random);
    job->odd_rank = TT_RANK_NONE;
    if (job->kind == TT_BROADCAST && job->block_bytes <= TT_TREE_MAX_BYTES && one_in(random, 4)) {
        job->method = TT_METHOD_TREE;
    }
    /* Nothing is drawn for these, so that seeds keep their meaning otherwise. */
    if (job->method == TT_METHOD_RING && job->kind == TT_BROADCAST && size > 1 && (plan->seed + job->root) % 2 == 0) {
        job->method = (enum tt_method)(TT_METHOD_SEQUENTIAL + (plan->seed / 2 + plan->job_count) % 4);
    }
    if (method == TT_METHOD_EAGER && job->kind == TT_ALLGATHER && size == 2 &&
        (plan->seed + plan->job_count) % 2 == 0) {
        job->block_bytes = 0; /* a barrier */
    }
    return job;
}

/* What is combined, gathered, scattered, or moved by triggered messages. Drawn behind all else, so that what seeds mean
 * without it stays; and for the same reason it is the count that says which parts are eager. */
static void draw_combined(struct tt_random *random, struct swarm_job_plan *job, uint32_t size)
{
    static const enum tt_collective_kind kinds[] = {TT_BROADCAST,      TT_ALLGATHER, TT_REDUCE, TT_ALLREDUCE,
                                                    TT_REDUCE_SCATTER, TT_GATHER,    TT_SCATTER};
    uint64_t most = 60000 / size;
    bool keeps_order;

    job->kind = PICK(random, kinds);
    job->root = tt_kind_has_root(job->kind) ? (uint32_t)tt_random_below(random, size) : 0;
    do {
        job->method = (enum tt_method)tt_random_below(random, TT_METHOD_EAGER_PARTS);
    } while (!tt_method_serves(job->method, job->kind) || tt_method_row(job->method)->by_objects ||
             job->method == TT_METHOD_TREE ||
             (!tt_kind_row(job->kind)->combines && !tt_method_row(job->method)->by_triggers));
    job->elements = (enum tt_world_elements)tt_random_below(random, TT_WORLD_ELEMENTS);
    keeps_order = tt_method_row(job->method)->one_tree;
    if (!keeps_order ||
        (job->kind == TT_REDUCE &&
         tt_method_row(job->method)
             ->multicasts)) { /* nor where multicast does not get through, as another method serves a reduce then */
        job->elements = (enum tt_world_elements)((uint32_t)job->elements % 2);
    }
    job->count = one_in(random, 8) ? tt_random_below(random, size + 1) : log_between(random, 1, most / 16 + 1);
    if (job->method == TT_METHOD_PARTS && job->count % 2 == 1) {
        job->method = TT_METHOD_EAGER_PARTS;
    } else if (tt_method_row(job->method)->keeps_copies) {
        uint64_t parts = (job->kind == TT_REDUCE_SCATTER ? (uint64_t)size * size : size) * 16;

        job->count %= MOST_GATHERED / parts + 1;
    }
    if (job->method == TT_METHOD_GATHER && job->count % 2 == 1 && tt_kind_may_fold(job->kind, size)) {
        uint32_t one = tt_world_combining(job->elements).element_bytes * (job->kind == TT_REDUCE_SCATTER ? size : 1);
        uint64_t count = job->count + TT_FRAME_GATHER_BYTES / one + 1; /* combined on the way up */

        job->count = count * one * 4 / 3 <= TT_EAGER_MAX_BYTES ? count : job->count; /* of parts, if they are uneven */
    }
    if (job->method == TT_METHOD_TRIGGERED_RING && job->count % 2 == 1) {
        job->count *= 32; /* messages that do not go in frames */
    }
    job->is_uneven = job->kind == TT_REDUCE_SCATTER && one_in(random, 2) &&
                     (!tt_method_row(job->method)->keeps_copies || job->count >= 3);
    job->block_bytes = tt_kind_row(job->kind)->combines ? 0 : job->count;
    if (job->count == 0 && tt_method_row(job->method)->multicasts) {
        job->count = job->block_bytes = 1;
    }
}

/* Chunks that are delivered, about, and frames with blocks. */
static uint64_t cost_of(const struct swarm_plan *plan, const struct swarm_job_plan *job, uint32_t size)
{
    uint64_t chunk = plan->options.sim.max_chunk_bytes, bytes = job->block_bytes;

    if (job->method == TT_METHOD_GATHER) {
        return ((bytes * size + chunk - 1) / chunk + 2 + bytes / TT_FRAME_GATHER_BYTES) * size;
    }
    return (bytes + chunk - 1) / chunk * size * (job->kind == TT_ALLGATHER ? size : 1);
}

/* A loop over a few collectives that leave copies: many in flight from changing roots, more than the ring holds. */
static void draw_burst(struct swarm_plan *plan, struct tt_random *random)
{
    uint32_t first = plan->job_count, count = (uint32_t)between(random, 1, SWARM_BURST_JOBS), budget = BURST_BUDGET;
    struct swarm_group_plan *group;
    uint32_t g = (uint32_t)tt_random_below(random, plan->group_count);

    group = &plan->groups[g];
    assert(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        draw_job(plan, random, count, g, one_in(random, 3) ? TT_METHOD_GATHER : TT_METHOD_EAGER);
    }
    for (uint32_t posts = 0; posts < MAX_BURST_POSTS; posts++) {
        uint32_t index = first + (one_in(random, 4) ? (uint32_t)tt_random_below(random, count) : posts % count);
        uint64_t cost = cost_of(plan, &plan->jobs[index], group->size);

        if (cost > budget) {
            return;
        }
        budget -= (uint32_t)cost;
        group->posts[group->post_count++] = index;
    }
}

static void draw_jobs(struct swarm_plan *plan, struct tt_random *random)
{
    bool mismatch = one_in(random, 12);
    uint32_t count, last;

    if (one_in(random, 3)) {
        draw_burst(plan, random);
    }
    count = (uint32_t)between(random, 1, MAX_SINGLE_JOBS);
    last = plan->job_count + count;
    while (plan->job_count < last) {
        uint32_t i = plan->job_count, g = (uint32_t)tt_random_below(random, plan->group_count);
        enum tt_method method = one_in(random, 6)   ? TT_METHOD_RING
                                : one_in(random, 3) ? TT_METHOD_EAGER
                                : one_in(random, 3) ? TT_METHOD_GATHER
                                                    : TT_METHOD_MULTICAST;
        struct swarm_job_plan *job = draw_job(plan, random, count, g, method);
        struct swarm_group_plan *group = &plan->groups[g];

        if (mismatch && i + 1 == last && group->size > 1) {
            draw_odd(job, random, group->size);
        }
        group->posts[group->post_count++] = i;
        if (job->odd_rank == TT_RANK_NONE && one_in(random, 3)) {
            group->posts[group->post_count++] = i; /* again, as persistent requests are */
        }
    }
    plan->post_delay_ns = one_in(random, 2) ? 0 : log_between(random, 1000, 3 * TT_NS_PER_MS);
}

/* Half of the seeds have such collectives, in the place of some others. */
static void draw_all_combined(struct swarm_plan *plan, struct tt_random *random)
{
    if (!one_in(random, 2)) {
        return;
    }
    for (uint32_t i = 0; i < plan->job_count; i++) {
        if (plan->jobs[i].odd_rank == TT_RANK_NONE && one_in(random, 2)) {
            struct swarm_job_plan *job = &plan->jobs[i];
            uint32_t size = plan->groups[job->group].size;

            draw_combined(random, job, size);
            if (size > 1 && tt_kind_row(job->kind)->combines && job->elements != TT_WORLD_AFFINE &&
                one_in(random, 24)) {
                job->odd_rank = (uint32_t)tt_random_below(random, size); /* wants another operation */
                job->odd_terms = (struct tt_request_options){
                    .kind = job->kind, .root = job->root, .combining = tt_world_combining(job->elements)};
                job->odd_terms.combining.operation = TT_REDUCE_MAX;
            }
        }
    }
}

static void draw_misfortunes(struct swarm_plan *plan, struct tt_random *random, uint32_t nodes)
{
    if (nodes > 1 && one_in(random, 5)) {
        plan->crash_count = one_in(random, 3) && nodes > 2 ? 2 : 1;
    }
    for (uint32_t i = 0; i < plan->crash_count; i++) {
        plan->crashes[i].node = (uint32_t)tt_random_below(random, nodes);
        plan->crashes[i].at_ns = log_between(random, 1000, 50 * TT_NS_PER_MS);
    }
    if (one_in(random, 3)) {
        plan->stall_count = (uint32_t)between(random, 1, SWARM_MAX_STALLS);
    }
    for (uint32_t i = 0; i < plan->stall_count; i++) {
        struct swarm_stall *stall = &plan->stalls[i];

        stall->node = (uint32_t)tt_random_below(random, nodes);
        stall->at_ns = log_between(random, 1000, 20 * TT_NS_PER_MS);
        stall->until_ns = stall->at_ns + log_between(random, 1000, 300 * TT_NS_PER_MS);
    }
    if (nodes > 1 && plan->stall_count > 0 && one_in(random, 3)) {
        struct swarm_stall *stall = &plan->stalls[0];

        plan->options.settings.timeout_ns = plan->options.settings.bootstrap_timeout_ns = 2 * TT_NS_PER_S;
        plan->options.settle_ns = 20 * TT_NS_PER_S; /* who leaves before would be needed by the one that stalls */
        stall->is_long = true;
        stall->until_ns = stall->at_ns + between(random, 4, 8) * TT_NS_PER_S;
    }
    plan->heal_ns = log_between(random, TT_NS_PER_MS, TT_NS_PER_S);
    plan->leaves = one_in(random, 2);
}

/* Last, so that what a seed means without it has stayed the same. */
static void draw_transport(struct swarm_plan *plan, struct tt_random *random)
{
    struct tt_sim_options *sim = &plan->options.sim;

    if (one_in(random, 4)) {
        sim->uc_packet_bytes = (uint32_t)between(random, sim->max_chunk_bytes / 4, sim->max_chunk_bytes);
    }
    if (plan->seed / 2 % 2 == 1) { /* nothing is drawn for it */
        sim->frame_bytes = TT_P2P_MAX_FRAME_BYTES;
    }
}

void swarm_plan_draw(struct swarm_plan *plan, uint64_t seed)
{
    static const uint32_t sizes[] = {1, 2, 2, 3, 3, 4, 4, 5, 5, 7, 7, 8, 8, 13, 16, 33};
    struct tt_random random;
    uint32_t nodes;

    memset(plan, 0, sizeof *plan);
    tt_random_init(&random, seed * UINT64_C(0xD1342543DE82EF95) + 1);
    plan->seed = seed;
    nodes = PICK(&random, sizes);
    if (seed % 64 == 41) {
        nodes = 34 + (uint32_t)(seed / 64 % (SWARM_MAX_NODES - 33));
    }
    tt_world_options_init(&plan->options, nodes);
    draw_network(plan, &random, nodes);
    draw_faults(plan, &random);
    draw_settings(plan, &random, nodes);
    draw_groups(plan, &random, nodes);
    draw_jobs(plan, &random);
    draw_misfortunes(plan, &random, nodes);
    draw_transport(plan, &random);
    draw_all_combined(plan, &random);
    swarm_plan_draw_hardships(plan, nodes);
}

void swarm_plan_print(const struct swarm_plan *plan, FILE *file)
{
    const struct tt_sim_options *sim = &plan->options.sim;
    const struct tt_settings *settings = &plan->options.settings;

    fprintf(file,
            "seed %" PRIu64 ": %u nodes, %" PRIu64 " Mbit/s, %" PRIu64 " ns, chunks %u, depth %u, queue %u, subgroups "
            "%" PRIu64 ", chains %" PRIu64 ", in flight %" PRIu64 ", loss %u dup %u reorder %u spike %u ppm, slow %d, "
            "heal %" PRIu64 " us%s%s",
            plan->seed, sim->node_count, sim->uplink.bits_per_second / 1000000, sim->uplink.latency_ns,
            sim->max_chunk_bytes, sim->receive_depth, sim->send_queue_chunks, settings->subgroups, settings->chains,
            settings->in_flight, sim->faults.loss_ppm, sim->faults.duplicate_ppm, sim->faults.reorder_ppm,
            sim->faults.spike_ppm, (int)plan->slow_node, plan->heal_ns / 1000, plan->leaves ? ", ranks leave" : "",
            settings->algorithm == TT_ALGORITHM_RING ? ", ring" : "");
    if (sim->uc_packet_bytes > 0) {
        fprintf(file, ", UC in packets of %u", sim->uc_packet_bytes);
    }
    if (sim->frame_bytes > TT_P2P_LEAST_FRAME_BYTES) {
        fprintf(file, ", frames of %u", sim->frame_bytes);
    }
    fputc('\n', file);
    swarm_plan_print_hardships(plan, file);
    if (plan->groups[1].begins_ns > 0) {
        fprintf(file, "  group 1 begins at %" PRIu64 " ns\n", plan->groups[1].begins_ns);
    }
    for (uint32_t i = 0; i < plan->job_count; i++) {
        const struct swarm_job_plan *job = &plan->jobs[i];

        fprintf(file, "  job %u: group %u of %u, %s root %u, %" PRIu64 " bytes (or elements), %s, odd rank %d\n", i,
                job->group, plan->groups[job->group].size, tt_kind_word(job->kind), job->root,
                tt_kind_row(job->kind)->combines ? job->count : job->block_bytes, tt_method_row(job->method)->name,
                (int)job->odd_rank);
    }
    for (uint32_t i = 0; i < plan->stall_count; i++) {
        fprintf(file, "  node %u stalls from %" PRIu64 " to %" PRIu64 " ns\n", plan->stalls[i].node,
                plan->stalls[i].at_ns, plan->stalls[i].until_ns);
    }
    for (uint32_t i = 0; i < plan->crash_count; i++) {
        fprintf(file, "  node %u dies at %" PRIu64 " ns\n", plan->crashes[i].node, plan->crashes[i].at_ns);
    }
}
