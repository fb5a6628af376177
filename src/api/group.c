/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public functions of groups. Creating one alternates local steps (engine/setup.h) with the caller's allgather, and
 * then progresses until the probe has ended or BOOTSTRAP_TIMEOUT has run out. The engine's lock is not held while the
 * caller's allgather runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/log.h"
#include "engine/setup.h"

enum { LITTLE_RANKS = 256, WHY_BYTES = 512 }; /* of groups that can be declined without any memory */

static tutti_status check_options(tutti_context *context, const tutti_group_options *options, tutti_group **group)
{
    if (context == NULL || options == NULL || group == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL",
                        context == NULL   ? "context"
                        : options == NULL ? "options"
                                          : "group");
    }
    if (options->struct_size < sizeof *options) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "struct_size of the group options is %zu, not %zu",
                        options->struct_size, sizeof *options);
    }
    if (options->size == 0 || options->size > TT_MAX_RANKS) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "a group of %u ranks: there may be 1 to %d",
                        options->size, TT_MAX_RANKS);
    }
    if (options->rank >= options->size) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "rank %u of a group of %u ranks", options->rank,
                        options->size);
    }
    if (options->allgather == NULL && options->size > 1) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "allgather is NULL for a group of %u ranks",
                        options->size);
    }
    return TUTTI_OK;
}

/* The caller's allgather; our own says more than yes or no. */
static tutti_status exchange(const tutti_group_options *options, const void *mine, void *all, size_t bytes)
{
    int result;

    if (options->size == 1) {
        memcpy(all, mine, bytes);
        return TUTTI_OK;
    }
    result = options->allgather(options->argument, mine, all, bytes);
    if (result == 0) {
        return memcmp((const uint8_t *)all + options->rank * bytes, mine, bytes) == 0
                   ? TUTTI_OK
                   : tt_error(
                         TT_PART_API, TUTTI_ERR_BOOTSTRAP,
                         "the allgather given to tutti_group_create() did not deliver what rank %u gave (%zu bytes)",
                         options->rank, bytes);
    }
    if (options->allgather == tt_bootstrap_allgather) {
        return (tutti_status)result; /* has said why */
    }
    return tt_error(TT_PART_API, TUTTI_ERR_BOOTSTRAP, "the allgather given to tutti_group_create() returned %d",
                    result);
}

/* In `room`, which was there before the first round: what is refused later could not be told. */
static tutti_status run_rounds(struct tt_setup *setup, const tutti_group_options *options, uint8_t *room)
{
    uint8_t *mine = room, *all = room + TT_SETUP_MOST_BYTES;
    tutti_status status = TUTTI_OK;

    while (status == TUTTI_OK && !tt_setup_done(setup)) {
        size_t bytes = tt_setup_bytes(setup);

        memset(all, 0, options->size * bytes);
        tt_setup_produce(setup, mine);
        status = exchange(options, mine, all, bytes);
        if (status == TUTTI_OK) {
            status = tt_setup_consume(setup, all);
        }
    }
    return status;
}

/* The others wait in the first round for a rank that has no memory to begin: it tells them. */
static tutti_status decline(const tutti_group_options *options, tutti_status status)
{
    uint8_t mine[TT_SETUP_FIRST_BYTES], little[LITTLE_RANKS * TT_SETUP_FIRST_BYTES], *all = little;
    char why[WHY_BYTES];

    (void)snprintf(why, sizeof why, "%s", tt_last_error()); /* the allgather may fail as well, and say so */
    if (options->size > LITTLE_RANKS) {
        all = malloc((size_t)options->size * TT_SETUP_FIRST_BYTES);
    }
    if (options->size > 1 && all != NULL) {
        tt_setup_decline(options->rank, status, mine);
        (void)options->allgather(options->argument, mine, all, TT_SETUP_FIRST_BYTES);
    }
    if (all != little) {
        free(all);
    }
    return tt_error_note(status, "%s", why);
}

static bool has_probed(const void *setup)
{
    return tt_setup_probed(setup);
}

/* Progresses until the probe has ended; with workers the control thread does that. Holds the lock. */
static tutti_status run_probe(struct tt_engine *engine, struct tt_setup *setup)
{
    uint64_t until_ns = tt_engine_now(engine) + engine->settings.bootstrap_timeout_ns;

    tt_setup_probe(setup);
    tt_engine_wait_for(engine, has_probed, setup, until_ns);
    return tt_setup_probed(setup) ? TUTTI_OK : tt_setup_timed_out(setup);
}

tutti_status tutti_group_create(tutti_context *context, const tutti_group_options *options, tutti_group **group)
{
    struct tt_setup *setup = NULL;
    tutti_group *made;
    uint8_t *room;
    tutti_status status;

    tt_clear_error();
    status = check_options(context, options, group);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_log_rank((int)options->rank);
    made = calloc(1, sizeof *made);
    room = malloc((1 + (size_t)options->size) * TT_SETUP_MOST_BYTES);
    if (made != NULL && room != NULL) {
        tt_engine_lock(context->engine);
        status = tt_setup_begin(context->engine, options->rank, options->size, &setup);
        tt_engine_unlock(context->engine);
    } else {
        status = tt_error(TT_PART_API, TUTTI_ERR_NO_MEMORY, "no memory for a group of %u ranks", options->size);
    }
    if (status != TUTTI_OK) {
        status = decline(options, status);
    } else {
        status = run_rounds(setup, options, room);
        tt_engine_lock(context->engine);
        if (status == TUTTI_OK) {
            status = run_probe(context->engine, setup);
        }
        if (status == TUTTI_OK) {
            status = tt_setup_take(setup, &made->group);
        } else {
            tt_setup_give_up(setup, status);
        }
        tt_engine_unlock(context->engine);
    }
    free(room);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    made->context = context;
    atomic_fetch_add(&context->group_count, 1);
    *group = made;
    return TUTTI_OK;
}

/* Whose rank this is, and the way to the others; once a context. Holds the bootstrap lock. */
static tutti_status join_job(tutti_context *context)
{
    struct tt_settings settings = context->settings;
    struct tt_environment environment;
    tutti_status status;

    if (context->has_environment) {
        return TUTTI_OK;
    }
    status = tt_environment_find(&settings, &environment);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tt_environment_meet(&environment, &settings);
    if (status == TUTTI_OK && environment.size > 1) {
        status = tt_bootstrap_create(&settings, &context->bootstrap);
    }
    if (status != TUTTI_OK) {
        tt_environment_release(&environment);
        return status;
    }
    context->environment = environment;
    context->has_environment = true;
    /* Rank 0's address is a hint at the network that is meant. */
    tt_engine_lock(context->engine);
    context->engine->settings.rank = settings.rank;
    memcpy(context->engine->settings.root, settings.root, sizeof settings.root);
    tt_engine_unlock(context->engine);
    return TUTTI_OK;
}

tutti_status tutti_group_create_from_environment(tutti_context *context, tutti_group **group)
{
    tutti_group_options options = {.struct_size = sizeof options, .allgather = tt_bootstrap_allgather};
    tutti_status status;

    tt_clear_error();
    if (context == NULL || group == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", context == NULL ? "context" : "group");
    }
    pthread_mutex_lock(&context->bootstrap_lock); /* its allgather is for one thread at a time */
    status = join_job(context);
    if (status == TUTTI_OK) {
        options.rank = context->environment.rank;
        options.size = context->environment.size;
        options.argument = context->bootstrap;
        status = tutti_group_create(context, &options, group);
    }
    pthread_mutex_unlock(&context->bootstrap_lock);
    return status;
}

tutti_status tutti_group_destroy(tutti_group *group)
{
    tutti_status status = TUTTI_OK;
    struct tt_engine *engine;
    uint32_t requests, objects;

    tt_clear_error();
    if (group == NULL) {
        return TUTTI_OK;
    }
    engine = group->context->engine;
    tt_engine_lock(engine);
    requests = group->group->request_count;
    objects = group->group->objects_count;
    if (requests == 0 && objects == 0) {
        tt_group_settle(group->group);
        if (group->group->member.status == TUTTI_ERR_MISMATCH && !atomic_load(&group->group->failure_told)) {
            status = tt_error_note(TUTTI_ERR_MISMATCH, "%s", group->group->failure_text);
        }
        tt_group_leave(group->group);
    }
    tt_engine_unlock(engine);
    if (requests > 0 || objects > 0) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "the group still has %u requests, %u object groups",
                        requests, objects);
    }
    atomic_fetch_sub(&group->context->group_count, 1);
    free(group);
    return status;
}

uint32_t tutti_group_rank(const tutti_group *group)
{
    return group->group->rank;
}

uint32_t tutti_group_size(const tutti_group *group)
{
    return group->group->size;
}

int tutti_group_failed_rank(const tutti_group *group)
{
    return atomic_load_explicit(&group->group->failed_rank, memory_order_acquire);
}

tutti_status tutti_group_query(const tutti_group *group, tutti_group_info *info)
{
    const struct tt_group *inner;

    tt_clear_error();
    if (group == NULL || info == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", group == NULL ? "group" : "info");
    }
    if (info->struct_size < sizeof *info) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "struct_size of the group info is %zu, not %zu",
                        info->struct_size, sizeof *info);
    }
    _Static_assert(TT_INTERFACE_TEXT_BYTES <= sizeof info->interface, "the name and address of an interface fit");
    inner = group->group;
    info->mcast_provider = inner->multicast ? inner->network->mcast_name : "none";
    info->p2p_provider = inner->network->p2p->ops->name;
    tt_interface_format(&inner->network->interface, info->interface);
    info->local_ranks = inner->local_ranks;
    info->chunk_bytes = inner->chunk_bytes;
    info->subgroups = inner->multicast ? inner->queue_count : 0;
    info->chains = inner->chains;
    info->workers = (uint32_t)inner->engine->settings.workers;
    info->multicast = inner->multicast;
    info->endpoints = inner->network->endpoints;
    return TUTTI_OK;
}

tutti_status tutti_group_counters(const tutti_group *group, tutti_counters *counters)
{
    tt_clear_error();
    if (group == NULL || counters == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL", group == NULL ? "group" : "counters");
    }
    if (counters->struct_size < sizeof *counters) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "struct_size of the counters is %zu, not %zu",
                        counters->struct_size, sizeof *counters);
    }
    tt_group_read_counters(group->group, counters);
    return TUTTI_OK;
}
