/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A run. Normal path: the groups are created while faults are on; every rank's application posts its group's list as
 * soon as its group stands, each after a short wait, and leaves at the end if the plan says so. Misfortunes come at
 * their times, and at heal_ns the random faults end. The run is over when nobody has anything left to do.
 *
 * Failures: the world finds wrong bytes, late writes and broken contracts; verdict.c judges what requests and groups
 * ended with. A run that is not over in time is a problem that names what was still running.
 */
#include "run.h"

#include <string.h>

#include "base/least.h"

/* Within this time a collective that has been posted everywhere ends once nothing goes wrong any more. The longest that
 * was seen in 10,000 seeds is a third of it: cutoffs of 100 ms, one behind the other. */
#define LIVENESS_NS TT_NS_PER_S

enum { AFTERMATH_NS = 20 * 1000 * 1000 }; /* late packets may still write where they must not */

static bool may_leave(const struct swarm *swarm, uint32_t g, uint32_t rank)
{
    const struct swarm_rank *own = &swarm->ranks[g][rank];
    const struct tt_world_member *member = &swarm->groups[g]->members[rank];

    return swarm->plan->leaves && member->group != NULL && member->running == 0 &&
           (own->refused || own->posted == swarm->plan->groups[g].post_count);
}

static uint64_t draw_delay(struct swarm *swarm)
{
    uint64_t most_ns = swarm->plan->post_delay_ns;

    return most_ns == 0 || tt_random_below(&swarm->random, 2) == 0 ? 0 : tt_random_below(&swarm->random, most_ns);
}

/* Posts what can be posted by now on one rank of one group. */
static void post_some(struct swarm *swarm, uint32_t g, uint32_t rank)
{
    const struct swarm_group_plan *group = &swarm->plan->groups[g];
    struct swarm_rank *own = &swarm->ranks[g][rank];

    while (!own->refused && own->posted < group->post_count) {
        struct tt_world_job *job = swarm->jobs[group->posts[own->posted]];

        if (job->parts[rank].is_running) {
            return; /* its end calls the application again */
        }
        if (tt_world_now(swarm->world) < own->not_before_ns) {
            tt_world_wake_at(swarm->world, swarm->groups[g]->members[rank].node, own->not_before_ns);
            return;
        }
        own->posted++;
        own->not_before_ns = tt_world_now(swarm->world) + swarm->plan->post_pace_ns + draw_delay(swarm);
        own->refused = !tt_world_post(job, rank);
    }
}

static void application(void *argument, uint32_t node)
{
    struct swarm *swarm = argument;

    for (uint32_t g = 0; g < swarm->plan->group_count; g++) {
        struct tt_world_group *group = swarm->groups[g];
        uint32_t rank = group == NULL ? TT_RANK_NONE : group->ranks[node];

        if (rank == TT_RANK_NONE || group->members[rank].group == NULL) {
            continue;
        }
        post_some(swarm, g, rank);
        if (may_leave(swarm, g, rank) && tt_world_settle(group, rank)) {
            swarm_judge_leave(swarm, group, rank);
            tt_world_leave(group, rank);
        }
    }
}

static void ended(void *argument, struct tt_world_job *job, uint32_t rank)
{
    struct swarm *swarm = argument;
    const struct tt_world_part *part = &job->parts[rank];
    uint64_t since_ns = part->posted_ns > swarm->plan->heal_ns ? part->posted_ns : swarm->plan->heal_ns;
    uint64_t stall_ns = swarm_last_stall_end(swarm->plan);

    since_ns = stall_ns > since_ns ? stall_ns : since_ns;
    if (part->status == TUTTI_OK) {
        swarm->result->ended_ok++;
    } else {
        swarm->result->ended_in_error++;
    }
    if (part->status == TUTTI_OK && part->ended_ns > since_ns) {
        uint64_t took_ns = part->ended_ns - since_ns;

        swarm->result->longest_ns = took_ns > swarm->result->longest_ns ? took_ns : swarm->result->longest_ns;
        if (took_ns > LIVENESS_NS) {
            tt_world_problem(swarm->world, "job %u: rank %u needed %llu ns without faults", job->index, rank,
                             (unsigned long long)took_ns);
        }
    }
    swarm->result->chunks_repaired += part->request->collective.fetch.fetched_chunks;
    swarm_judge_end(swarm, job, rank);
}

/* A group is not begun with a dead member, as the bootstrap would say; nor while one stalls. When next, TT_NEVER: not.
 */
uint64_t swarm_begins_when(const struct swarm *swarm, uint32_t g)
{
    const struct swarm_plan *plan = swarm->plan;
    uint64_t when_ns = plan->groups[g].begins_ns;

    for (uint32_t rank = 0; rank < plan->groups[g].size; rank++) {
        if (tt_sim_is_crashed(swarm->world->sim, plan->groups[g].nodes[rank])) {
            return TT_NEVER;
        }
    }
    for (uint32_t i = 0; i < plan->stall_count; i++) {
        const struct swarm_stall *stall = &plan->stalls[i];

        if (stall->at_ns <= when_ns && stall->until_ns >= when_ns) {
            when_ns = swarm_last_stall_end(plan) + 1;
        }
    }
    return when_ns;
}

static bool is_over(const struct swarm *swarm)
{
    for (uint32_t g = 0; g < swarm->plan->group_count; g++) {
        const struct tt_world_group *group = swarm->groups[g];

        if (group == NULL && swarm_begins_when(swarm, g) == TT_NEVER) {
            continue;
        }
        if (group == NULL || !tt_world_group_is_created(group)) {
            return false;
        }
        for (uint32_t rank = 0; rank < group->size; rank++) {
            const struct tt_world_member *member = &group->members[rank];
            const struct swarm_rank *own = &swarm->ranks[g][rank];

            if (tt_sim_is_crashed(swarm->world->sim, member->node) || (member->group == NULL && !member->has_left)) {
                continue;
            }
            if (member->running > 0 || (!own->refused && own->posted < swarm->plan->groups[g].post_count) ||
                (swarm->plan->leaves && member->group != NULL)) {
                return false;
            }
        }
    }
    return true;
}

/* Another type, operation, root or length of the same collective, as the plan says. */
static void make_odd(struct tt_world_part *part, const struct swarm_job_plan *job)
{
    struct tt_combining combining = part->terms.combining;

    if (job->odd_terms.combining.element_bytes != 0) {
        combining = job->odd_terms.combining;
    }
    part->terms.combining = combining;
    part->terms.root = job->odd_terms.root;
    if (job->odd_terms.block_bytes != job->block_bytes) {
        part->terms.counts = NULL;
        part->terms.block_bytes = job->odd_terms.block_bytes;
    }
}

static void create_job(struct swarm *swarm, uint32_t i)
{
    const struct swarm_job_plan *job = &swarm->plan->jobs[i];
    struct tt_world_group *group = swarm->groups[job->group];

    swarm->jobs[i] =
        tt_kind_row(job->kind)->combines
            ? tt_world_job_combine(group, job->kind, job->root, job->count, job->elements, job->is_uneven, job->method)
            : tt_world_job_create(group, job->kind, job->root, job->block_bytes, job->method);
    swarm->jobs[i]->index = i;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct tt_world_part *part = &swarm->jobs[i]->parts[rank];

        part->in_place = job->in_place >> rank % 64 & 1;
        if (rank != job->odd_rank) {
            continue;
        }
        if (tt_kind_row(job->kind)->combines && job->odd_terms.kind == job->kind) {
            make_odd(part, job);
        } else {
            part->terms = job->odd_terms;
        }
    }
}

static void begin_group(struct swarm *swarm, uint32_t g)
{
    const struct swarm_plan *plan = swarm->plan;

    swarm->groups[g] = tt_world_group_begin(swarm->world, plan->groups[g].nodes, plan->groups[g].size);
    for (uint32_t i = 0; i < plan->job_count; i++) {
        if (plan->jobs[i].group == g) {
            create_job(swarm, i);
        }
    }
}

static void begin(struct swarm *swarm, FILE *log)
{
    static const enum tt_method parts_by[] = {TT_METHOD_RECURSIVE_HALVING, TT_METHOD_TRIGGERED_RING, TT_METHOD_DIRECT,
                                              TT_METHOD_RING /* as it is built in */};
    const struct swarm_plan *plan = swarm->plan;
    struct tt_world_options options = plan->options;

    options.sim.log = log;
    options.hosts = plan->seed % 4;
    options.parts_by = parts_by[plan->seed % (sizeof parts_by / sizeof parts_by[0])];
    options.hooks = (struct tt_world_hooks){.argument = swarm, .application = application, .ended = ended};
    swarm->world = tt_world_create(&options);
    if (plan->slow_node != TT_RANK_NONE) {
        tt_sim_set_links(swarm->world->sim, plan->slow_node, plan->slow_link, plan->slow_link);
    }
    for (uint32_t i = 0; i < plan->crash_count; i++) {
        tt_sim_crash(swarm->world->sim, plan->crashes[i].node, plan->crashes[i].at_ns);
    }
    for (uint32_t g = 0; g < plan->group_count; g++) {
        if (plan->groups[g].begins_ns == 0) {
            begin_group(swarm, g);
        }
    }
}

static uint64_t sooner(uint64_t next_ns, uint64_t at_ns, uint64_t now_ns)
{
    return at_ns > now_ns ? tt_least(at_ns, next_ns) : next_ns;
}

/* The next time when the plan interferes. */
static uint64_t next_interference(const struct swarm *swarm, uint64_t now_ns)
{
    const struct swarm_plan *plan = swarm->plan;
    uint64_t next_ns = sooner(TT_NEVER, plan->heal_ns, now_ns);

    next_ns = plan->blackout.comes ? sooner(next_ns, plan->blackout.at_ns, now_ns) : next_ns;
    next_ns = plan->cut.comes ? sooner(next_ns, plan->cut.at_ns, now_ns) : next_ns;
    for (uint32_t node = 0; now_ns < plan->partition.last_ns && node < plan->options.sim.node_count; node++) {
        next_ns = sooner(next_ns, plan->partition.breaks_ns[node], now_ns);
    }
    next_ns = plan->shortage.refused_ppm > 0 ? sooner(next_ns, plan->shortage.at_ns, now_ns) : next_ns;
    next_ns = plan->jump.by_ns > 0 ? sooner(next_ns, plan->jump.at_ns, now_ns) : next_ns;
    for (uint32_t g = 0; g < plan->group_count; g++) {
        next_ns = swarm->groups[g] == NULL ? sooner(next_ns, swarm_begins_when(swarm, g), now_ns) : next_ns;
    }
    for (uint32_t i = 0; i < plan->stall_count; i++) {
        next_ns = sooner(next_ns, plan->stalls[i].at_ns, now_ns);
    }
    return next_ns;
}

/* Faults of a node, with what has come by now. */
static void set_faults(struct swarm *swarm)
{
    const struct swarm_plan *plan = swarm->plan;

    for (uint32_t node = 0; node < plan->options.sim.node_count; node++) {
        struct tt_sim_faults faults = plan->options.sim.faults;

        if (swarm->is_dark && (plan->blackout.node == node || plan->blackout.node == TT_SIM_ALL_NODES)) {
            faults.loss_ppm = 1000000; /* frames come after the most retransmissions */
        }
        if (swarm->is_short && plan->shortage.node == node) {
            faults.refused_ppm = plan->shortage.refused_ppm;
        }
        tt_sim_set_faults(swarm->world->sim, node, &faults);
    }
}

static void lose_chunks(struct swarm *swarm)
{
    swarm->is_dark = true;
    set_faults(swarm);
    tt_world_note(swarm->world, "node=%d hears no chunk any more", (int)swarm->plan->blackout.node);
}

/* What groups are created with the harness registers, too. */
static void run_short(struct swarm *swarm)
{
    for (uint32_t g = 0; g < swarm->plan->group_count; g++) {
        if (!tt_world_group_is_created(swarm->groups[g])) {
            return;
        }
    }
    swarm->is_short = true;
    set_faults(swarm);
    tt_world_note(swarm->world, "node=%u registers less memory", swarm->plan->shortage.node);
}

static bool sever(struct swarm *swarm, uint32_t one, uint32_t other)
{
    bool any = tt_sim_sever(swarm->world->sim, one, other);

    if (any) {
        swarm->cut_ns[one] = swarm->cut_ns[other] = tt_world_now(swarm->world);
    }
    return any;
}

static void cut(struct swarm *swarm)
{
    const struct swarm_cut *cut = &swarm->plan->cut;

    tt_world_note(swarm->world, "what connects nodes %u and %u breaks: %d", cut->nodes[0], cut->nodes[1],
                  sever(swarm, cut->nodes[0], cut->nodes[1]));
}

/* As far as it comes now. */
static void divide(struct swarm *swarm, uint64_t now_ns)
{
    const struct swarm_partition *partition = &swarm->plan->partition;
    uint32_t nodes = swarm->plan->options.sim.node_count;

    for (uint32_t node = 0; node < nodes; node++) {
        if (partition->splits_multicast && partition->first_ns == now_ns) {
            tt_sim_set_part(swarm->world->sim, node, partition->breaks_ns[node] > 0);
        }
        if (partition->breaks_ns[node] != now_ns) {
            continue;
        }
        for (uint32_t other = 0; other < nodes; other++) {
            if (partition->breaks_ns[other] == 0) {
                sever(swarm, node, other);
            }
        }
        tt_world_note(swarm->world, "what connects node %u with the other side breaks", node);
    }
}

static void interfere(struct swarm *swarm, uint64_t now_ns)
{
    const struct swarm_plan *plan = swarm->plan;

    if (plan->heal_ns == now_ns) {
        tt_sim_set_healed(swarm->world->sim, true);
        tt_world_note(swarm->world, "healed");
    }
    if (plan->blackout.comes && plan->blackout.at_ns == now_ns) {
        lose_chunks(swarm);
    }
    if (plan->cut.comes && plan->cut.at_ns == now_ns) {
        cut(swarm);
    }
    if (plan->partition.comes && now_ns <= plan->partition.last_ns) {
        divide(swarm, now_ns);
    }
    if (plan->shortage.refused_ppm > 0 && plan->shortage.at_ns == now_ns) {
        run_short(swarm);
    }
    if (plan->jump.by_ns > 0 && plan->jump.at_ns == now_ns) {
        tt_world_jump(swarm->world, plan->jump.node, plan->jump.by_ns);
    }
    for (uint32_t i = 0; i < plan->stall_count; i++) {
        if (plan->stalls[i].at_ns == now_ns) {
            tt_sim_stall(swarm->world->sim, plan->stalls[i].node, plan->stalls[i].until_ns);
            tt_world_note(swarm->world, "node=%u stalls", plan->stalls[i].node);
        }
    }
    for (uint32_t g = 0; g < plan->group_count; g++) {
        if (swarm->groups[g] == NULL && swarm_begins_when(swarm, g) == now_ns) {
            begin_group(swarm, g);
        }
    }
}

void swarm_run(const struct swarm_plan *plan, FILE *log, struct swarm_result *result)
{
    struct swarm swarm = {.plan = plan, .result = result};
    uint64_t limit_ns = 20 * TT_NS_PER_S + 3 * plan->options.settings.timeout_ns, next_ns = 0;

    memset(result, 0, sizeof *result);
    tt_random_init(&swarm.random, plan->seed ^ UINT64_C(0x5DEECE66D));
    begin(&swarm, log);
    while (!is_over(&swarm) && swarm.world->problem_count == 0 && tt_world_now(swarm.world) < limit_ns) {
        next_ns = next_interference(&swarm, tt_world_now(swarm.world));
        result->steps++;
        (void)tt_world_step(swarm.world, tt_least(next_ns, limit_ns));
        if (tt_world_now(swarm.world) == next_ns) { /* other things may happen then, too */
            interfere(&swarm, next_ns);
        }
    }
    tt_world_run(swarm.world, tt_world_now(swarm.world) + AFTERMATH_NS);
    swarm_judge_run(&swarm);
    result->digest = tt_sim_digest(swarm.world->sim);
    result->problems = tt_world_destroy(swarm.world, result->first);
}
