/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verdict: every failure needs a cause, and every cause that hits unfinished work must end it.
 *
 * Nothing but a small broadcast may end before all ranks have posted it.
 *
 * Causes: a rank that died before, a mismatch that was posted, a stall beyond the deadline, and a group that did not
 * come to be on a rank for one of these. A status without its cause, an error that names somebody else, and an end that
 * comes later than detection and word of mouth allow, are problems.
 */
#include "base/least.h"
#include "run.h"

/* How long word of a failure may take through faults, retransmissions and slow links. */
#define SPREAD_NS (500 * TT_NS_PER_MS)

static bool is_dead(const struct swarm *swarm, uint32_t node)
{
    return tt_sim_is_crashed(swarm->world->sim, node);
}

/* A rank that gave its group up, and left. */
static bool has_given_up(const struct tt_world_group *group, uint32_t rank)
{
    return group->members[rank].is_created && group->members[rank].status != TUTTI_OK;
}

/* When everybody has noticed by that something broke at this time. */
static uint64_t noticed_ns(const struct swarm *swarm, uint64_t at_ns)
{
    uint64_t stall_ns = swarm_last_stall_end(swarm->plan); /* nodes that stalled may have been the messengers */

    return tt_most(at_ns + swarm->plan->options.sim.detection_max_ns, stall_ns);
}

/* Whether one of its connections has broken, which groups that began later do not share. */
static bool is_cut(const struct swarm *swarm, const struct tt_world_group *group, uint32_t node)
{
    uint64_t begun_ns = group->setup_until_ns - swarm->plan->options.settings.bootstrap_timeout_ns;

    return swarm->cut_ns[node] > 0 && begun_ns <= noticed_ns(swarm, swarm->cut_ns[node]);
}

/* Where all that connects two sides breaks before anybody notices, no word of one side's comes from the other. */
static bool may_be_cut_off(const struct swarm *swarm, uint32_t from, uint32_t node)
{
    const struct swarm_partition *partition = &swarm->plan->partition;
    const struct swarm_cut *cut = &swarm->plan->cut;

    return (cut->comes && (cut->nodes[0] == node || cut->nodes[1] == node)) ||
           (partition->breaks_ns[from] > 0) != (partition->breaks_ns[node] > 0) ||
           partition->last_ns - partition->first_ns >= swarm->plan->options.sim.detection_min_ns;
}

/* Its memory could not be registered for a while: it does not go on, or its group fails. */
static bool is_short(const struct swarm *swarm, uint32_t node)
{
    return swarm->is_short && swarm->plan->shortage.node == node;
}

/* Whom a rank may say to have failed: one that did, that gave up and left, or the other end of what broke. */
static bool may_blame(const struct swarm *swarm, const struct tt_world_group *group, uint32_t rank, uint32_t culprit)
{
    uint32_t node = culprit < group->size ? group->members[culprit].node : TT_RANK_NONE;

    if (node == TT_RANK_NONE || culprit == rank) {
        return false;
    }
    return is_dead(swarm, node) ||
           (is_cut(swarm, group, node) && may_be_cut_off(swarm, group->members[rank].node, node)) ||
           has_given_up(group, culprit) || (is_short(swarm, node) && swarm->plan->leaves);
}

static bool stalls_long(const struct swarm *swarm, uint32_t node)
{
    for (uint32_t i = 0; i < swarm->plan->stall_count; i++) {
        if (swarm->plan->stalls[i].is_long && swarm->plan->stalls[i].node == node) {
            return true;
        }
    }
    return false;
}

static bool anybody_stalls_long(const struct swarm *swarm)
{
    return swarm->plan->stall_count > 0 && swarm->plan->stalls[0].is_long;
}

static const struct swarm_job_plan *mismatch_of(const struct swarm *swarm, const struct tt_world_group *group)
{
    for (uint32_t i = 0; i < swarm->plan->job_count; i++) {
        const struct swarm_job_plan *job = &swarm->plan->jobs[i];

        if (job->odd_rank != TT_RANK_NONE && swarm->groups[job->group] == group &&
            swarm->jobs[i]->parts[job->odd_rank].posts > 0) {
            return job;
        }
    }
    return NULL;
}

uint64_t swarm_last_stall_end(const struct swarm_plan *plan)
{
    uint64_t last_ns = 0;

    for (uint32_t i = 0; i < plan->stall_count; i++) {
        last_ns = tt_most(last_ns, plan->stalls[i].until_ns);
    }
    return last_ns;
}

static void judge_time(struct swarm *swarm, const struct tt_world_job *job, uint32_t rank, uint32_t node)
{
    const struct tt_world_part *part = &job->parts[rank];
    uint64_t since_ns = tt_most(part->posted_ns, swarm_last_stall_end(swarm->plan));

    for (uint32_t i = 0; i < swarm->plan->crash_count; i++) {
        const struct swarm_crash *crash = &swarm->plan->crashes[i];

        since_ns = crash->node == node ? tt_most(since_ns, noticed_ns(swarm, crash->at_ns)) : since_ns;
    }
    if (is_cut(swarm, job->group, node)) {
        since_ns = tt_most(since_ns, noticed_ns(swarm, swarm->cut_ns[node]));
    }
    if (part->ended_ns > since_ns + SPREAD_NS) {
        tt_world_problem(swarm->world, "job %u: rank %u learned of the end of node %u %llu ns too late", job->index,
                         rank, node, (unsigned long long)(part->ended_ns - since_ns - SPREAD_NS));
    }
}

/* Only these may end anywhere before all ranks have posted. */
static bool is_loose(const struct tt_request_options *terms)
{
    return terms->kind == TT_BROADCAST && terms->block_bytes > 0 &&
           (terms->method == TT_METHOD_EAGER || terms->method == TT_METHOD_TREE);
}

static void judge_barrier(struct swarm *swarm, const struct tt_world_job *job, uint32_t rank)
{
    for (uint32_t other = 0; other < job->group->size; other++) {
        if (job->parts[other].posts < job->parts[rank].posts) {
            tt_world_problem(swarm->world, "job %u: post %u of rank %u ends well before rank %u has posted it",
                             job->index, job->parts[rank].posts, rank, other);
            return;
        }
    }
}

void swarm_judge_end(struct swarm *swarm, const struct tt_world_job *job, uint32_t rank)
{
    const struct tt_world_part *part = &job->parts[rank];
    const struct tt_world_group *group = job->group;
    uint32_t culprit = part->failed_rank;
    uint32_t node = culprit < group->size ? group->members[culprit].node : TT_RANK_NONE;
    bool has_cause = false;

    switch (part->status) {
    case TUTTI_OK:
        has_cause = true;
        if (!is_loose(&part->terms)) {
            judge_barrier(swarm, job, rank);
        }
        /* Without a barrier a rank may have all it wants before anybody sees that others want something else. */
        if (swarm->plan->jobs[job->index].odd_rank != TT_RANK_NONE && part->terms.method != TT_METHOD_EAGER &&
            part->terms.method != TT_METHOD_TREE) {
            tt_world_problem(swarm->world, "job %u: ranks disagree, and rank %u ends well", job->index, rank);
        }
        break;
    case TUTTI_ERR_PEER_FAILED:
        has_cause = may_blame(swarm, group, rank, culprit);
        if (has_cause && (is_dead(swarm, node) || is_cut(swarm, group, node))) {
            judge_time(swarm, job, rank, node);
        }
        break;
    case TUTTI_ERR_MISMATCH:
        has_cause = mismatch_of(swarm, group) != NULL;
        break;
    case TUTTI_ERR_TIMED_OUT:
        /* Who does not go on and leaves says so. */
        has_cause =
            node != TT_RANK_NONE && (stalls_long(swarm, node) || (is_short(swarm, node) && !swarm->plan->leaves));
        break;
    case TUTTI_ERR_NO_MEMORY:
        has_cause = node != TT_RANK_NONE && is_short(swarm, node);
        break;
    default:
        break;
    }
    if (!has_cause) {
        tt_world_problem(swarm->world, "job %u: rank %u ends with \"%s\" about rank %d, without a cause", job->index,
                         rank, tutti_status_text(part->status), (int)culprit);
    }
}

void swarm_judge_leave(struct swarm *swarm, const struct tt_world_group *group, uint32_t rank)
{
    const struct tt_group *leaving = group->members[rank].group;

    if (leaving->member.status == TUTTI_OK && tt_group_is_needed(leaving)) {
        tt_world_problem(swarm->world, "group %u: rank %u leaves, although others may need what it keeps", group->index,
                         rank);
    }
}

/* A group that failed while it was created. */
static void judge_creation(struct swarm *swarm, const struct tt_world_group *group, uint32_t rank)
{
    const struct tt_world_member *member = &group->members[rank];
    uint32_t culprit = member->failed_rank;
    bool has_cause = false;

    switch (member->status) {
    case TUTTI_OK:
        has_cause = true;
        break;
    case TUTTI_ERR_PEER_FAILED:
        has_cause = may_blame(swarm, group, rank, culprit);
        break;
    case TUTTI_ERR_TIMED_OUT:
        has_cause = anybody_stalls_long(swarm);
        break;
    case TUTTI_ERR_MISMATCH: /* others had the group already, and posted */
        has_cause = mismatch_of(swarm, group) != NULL;
        break;
    default:
        break;
    }
    if (!has_cause) {
        tt_world_problem(swarm->world, "group %u: rank %u could not create it: \"%s\" about rank %d, without a cause",
                         group->index, rank, tutti_status_text(member->status), (int)culprit);
    }
}

static void judge_group(struct swarm *swarm, const struct tt_world_group *group)
{
    bool any = false, multicast = false;

    for (uint32_t rank = 0; rank < group->size; rank++) {
        const struct tt_world_member *member = &group->members[rank];

        if (!member->is_created) {
            if (!is_dead(swarm, member->node)) {
                tt_world_problem(swarm->world, "group %u: rank %u never learned what became of it", group->index, rank);
            }
            continue;
        }
        judge_creation(swarm, group, rank);
        if (member->status == TUTTI_OK && any && member->multicast != multicast) {
            tt_world_problem(swarm->world, "group %u: rank %u thinks %d of multicast, others %d", group->index, rank,
                             member->multicast, multicast);
        }
        if (member->status == TUTTI_OK) {
            any = true;
            multicast = member->multicast;
        }
    }
}

static void judge_job(struct swarm *swarm, const struct tt_world_job *job)
{
    for (uint32_t rank = 0; rank < job->group->size; rank++) {
        const struct tt_world_part *part = &job->parts[rank];

        if (part->is_running && !is_dead(swarm, job->group->members[rank].node)) {
            tt_world_problem(swarm->world, "job %u: post %u of rank %u never ended (state %d)", job->index, part->posts,
                             rank, (int)part->request->collective.state);
        }
    }
}

void swarm_judge_run(struct swarm *swarm)
{
    for (uint32_t g = 0; g < swarm->plan->group_count; g++) {
        if (swarm->groups[g] != NULL) {
            judge_group(swarm, swarm->groups[g]);
        } else if (swarm_begins_when(swarm, g) != TT_NEVER) {
            tt_world_problem(swarm->world, "group %u never began", g);
        }
    }
    for (uint32_t i = 0; i < swarm->plan->job_count; i++) {
        if (swarm->jobs[i] != NULL) {
            judge_job(swarm, swarm->jobs[i]);
        }
    }
}
