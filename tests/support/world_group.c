/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Groups of the world. Normal path: the rounds of a group's creation are played for all ranks at one instant, as if the
 * job's launcher carried them; then the probe runs over the simulated network, and every rank takes its group when its
 * own probe has ended.
 *
 * Failures: a round that a rank refuses ends the setup on all ranks. A probe that failed, or that BOOTSTRAP_TIMEOUT cut
 * short, ends it on that rank; the member keeps the status and whom it was about.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "support/world_private.h"

static void give_up(struct tt_world_member *member, tutti_status status)
{
    if (member->setup != NULL) {
        tt_setup_end(member->setup);
    }
    member->setup = NULL;
    member->pending = NULL;
    member->status = status;
    member->is_created = true;
}

/* Plays one round; whether there is another one. */
static bool play_round(struct tt_world_group *group)
{
    size_t bytes = tt_setup_bytes(group->members[0].setup);
    uint8_t *all = tt_world_allocate(group->size, bytes);
    tutti_status failed = TUTTI_OK;

    for (uint32_t rank = 0; rank < group->size; rank++) {
        tt_setup_produce(group->members[rank].setup, all + rank * bytes);
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct tt_world_member *member = &group->members[rank];
        tutti_status status = tt_setup_consume(member->setup, all);

        if (status != TUTTI_OK) {
            failed = status;
            give_up(member, status);
        }
        /* Between the rounds other threads may use the context. */
        tt_engine_progress(group->world->engines[member->node]);
    }
    free(all);
    for (uint32_t rank = 0; rank < group->size && failed != TUTTI_OK; rank++) {
        if (!group->members[rank].is_created) {
            tt_world_problem(group->world, "the setup went on at rank %u and ended elsewhere", rank);
            give_up(&group->members[rank], failed);
        }
    }
    return failed == TUTTI_OK && !tt_setup_done(group->members[0].setup);
}

/* Simulated ranks have hosts of their own; here only their rings are as if they had not. */
static void deal_out(struct tt_group *group, uint32_t host_count)
{
    uint64_t *hosts = tt_world_allocate(group->size, sizeof *hosts);

    assert(group->around == NULL);
    group->around = tt_world_allocate(group->size, sizeof *group->around);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        hosts[rank] = rank % host_count;
    }
    tt_locality_around(hosts, group->size, 0, group->around);
    free(hosts);
}

struct tt_world_group *tt_world_group_begin(struct tt_world *world, const uint32_t *nodes, uint32_t size)
{
    struct tt_world_group *group = tt_world_allocate(1, sizeof *group), **link = &world->groups;

    group->members = tt_world_allocate(size, sizeof *group->members);
    group->ranks = tt_world_allocate(world->options.sim.node_count, sizeof *group->ranks);
    memset(group->ranks, 0xFF, world->options.sim.node_count * sizeof *group->ranks);
    group->world = world;
    group->size = size;
    group->index = world->group_count++;
    group->setup_until_ns = tt_world_now(world) + world->options.settings.bootstrap_timeout_ns;
    while (*link != NULL) {
        link = &(*link)->next;
    }
    *link = group;
    for (uint32_t rank = 0; rank < size; rank++) {
        struct tt_world_member *member = &group->members[rank];

        member->node = nodes == NULL ? rank : nodes[rank];
        group->ranks[member->node] = rank;
        member->failed_rank = TT_RANK_NONE;
        if (tt_setup_begin(world->engines[member->node], rank, size, &member->setup) != TUTTI_OK) {
            abort();
        }
    }
    while (play_round(group)) {
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        struct tt_world_member *member = &group->members[rank];

        if (member->setup != NULL) {
            member->pending = tt_group_of(world->engines[member->node]->parties.first); /* the last one listed */
            if (world->options.hosts > 0) {
                deal_out(member->pending, world->options.hosts);
            }
            tt_setup_probe(member->setup);
            tt_sim_mark_ready(world->sim, member->node);
        }
    }
    return group;
}

bool tt_world_group_is_created(const struct tt_world_group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (!group->members[rank].is_created && !tt_sim_is_crashed(group->world->sim, group->members[rank].node)) {
            return false;
        }
    }
    return true;
}

struct tt_world_group *tt_world_group_create(struct tt_world *world, const uint32_t *nodes, uint32_t size)
{
    struct tt_world_group *group = tt_world_group_begin(world, nodes, size);

    while (!tt_world_group_is_created(group)) {
        if (!tt_world_step(world, group->setup_until_ns + 1)) {
            tt_world_problem(world, "group %u does not get created", group->index);
            break;
        }
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        if (group->members[rank].group == NULL) {
            tt_world_problem(world, "rank %u has no group %u: %s", rank, group->index,
                             tutti_status_text(group->members[rank].status));
        }
    }
    return group;
}

/* The address of the copies travels in frames, so they go where runs do not differ. */
static void move_copies(struct tt_world *world, struct tt_group *group)
{
    struct tt_copies *copies = &group->copies;
    struct tt_p2p *p2p = group->network->p2p;
    size_t key_bytes = sizeof copies->key;

    if (!group->multicast) { /* there are none */
        return;
    }
    tt_copies_fini(copies);
    copies->memory = tt_world_take_arena(world, TT_EAGER_RING_BYTES);
    if (p2p->ops->memory_register(p2p, copies->memory, TT_EAGER_RING_BYTES, &copies->registration) != TUTTI_OK ||
        copies->registration->ops->memory_pack(copies->registration, copies->key, &key_bytes) != TUTTI_OK) {
        fprintf(stderr, "world: %s\n", tt_last_error());
        abort();
    }
    copies->key_bytes = (uint32_t)key_bytes;
}

/* What a rank that died was at will not end. */
static void forget_triggered(struct tt_group *group)
{
    struct tt_triggers *triggers = group->triggers;

    while (triggers != NULL && triggers->first != NULL) {
        triggers->first->is_queued = false;
        triggers->first = triggers->first->next;
    }
    if (triggers != NULL) {
        triggers->last = &triggers->first;
        triggers->fetching = 0;
    }
}

static void leave(struct tt_world_member *member)
{
    if (member->running > 0) {
        forget_triggered(member->group);
    }
    if (member->group->multicast) {
        member->group->copies.memory = NULL; /* the arena's; the registration goes with the group */
    }
    tt_group_leave(member->group);
    member->group = NULL;
}

static void take(struct tt_world_group *group, uint32_t rank)
{
    struct tt_world_member *member = &group->members[rank];

    member->failed_rank = member->pending->member.failed_rank;
    member->status = tt_setup_take(member->setup, &member->group);
    member->setup = NULL;
    member->pending = NULL;
    member->is_created = true;
    if (member->status == TUTTI_OK) {
        member->multicast = member->group->multicast;
        move_copies(group->world, member->group);
        member->created_ns = tt_world_now(group->world);
    }
    tt_world_note(group->world, "group=%u rank=%u created status=%d multicast=%d", group->index, rank, member->status,
                  member->multicast);
}

uint64_t tt_world_look_at_setups(struct tt_world *world, uint32_t node)
{
    uint64_t until_ns = TT_NEVER;

    for (struct tt_world_group *group = world->groups; group != NULL; group = group->next) {
        uint32_t rank = group->ranks[node];
        struct tt_world_member *member = rank == TT_RANK_NONE ? NULL : &group->members[rank];

        if (member == NULL || member->pending == NULL) {
            continue;
        }
        if (tt_setup_probed(member->setup)) {
            take(group, rank);
        } else if (group->setup_until_ns <= tt_world_now(world)) {
            give_up(member, tt_setup_timed_out(member->setup));
            tt_world_note(world, "group=%u rank=%u gave up status=%d", group->index, rank, member->status);
        } else {
            until_ns = group->setup_until_ns < until_ns ? group->setup_until_ns : until_ns;
        }
    }
    return until_ns;
}

bool tt_world_settle(struct tt_world_group *group, uint32_t rank)
{
    struct tt_world_member *member = &group->members[rank];
    uint64_t now_ns = tt_world_now(group->world);
    struct tt_member_event flush = {.type = TT_MEMBER_FLUSH, .now_ns = tt_engine_now(member->group->engine)};

    tt_triggers_flush(member->group->triggers);
    if (!tt_group_is_needed(member->group)) {
        return true;
    }
    if (!member->is_settling) {
        member->is_settling = true;
        member->settle_until_ns = now_ns + (member->group->member.status == TUTTI_OK ? group->world->options.settle_ns
                                                                                     : TT_COLLECTIVE_PATIENCE_NS);
        tt_group_step(member->group, &flush);
        tt_sim_mark_ready(group->world->sim, member->node);
    }
    if (member->settle_until_ns <= now_ns) {
        tt_world_note(group->world, "group=%u rank=%u settles no longer", group->index, rank);
        return true;
    }
    tt_world_wake_at(group->world, member->node, member->settle_until_ns);
    return !tt_group_is_needed(member->group);
}

void tt_world_leave(struct tt_world_group *group, uint32_t rank)
{
    struct tt_world_member *member = &group->members[rank];

    for (struct tt_world_job *job = group->world->jobs; job != NULL; job = job->next) {
        struct tt_world_part *part = &job->parts[rank];

        if (job->group == group && part->request != NULL) {
            tt_world_destroy_request(group->world, part->request);
            member->group->request_count--;
            part->request = NULL;
        }
    }
    leave(member);
    member->has_left = true;
    tt_sim_mark_ready(group->world->sim, member->node);
    tt_world_note(group->world, "group=%u rank=%u left", group->index, rank);
}

/* At the world's end, also of groups with requests that run, of the dead or after a problem: those go after it. */
void tt_world_free_group(struct tt_world_group *group)
{
    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct tt_world_member *member = &group->members[rank];

        if (member->setup != NULL) {
            tt_setup_end(member->setup);
        } else if (member->group != NULL) {
            leave(member);
        }
    }
}
