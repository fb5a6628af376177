/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The beginning and the end of an object group in the engine. Normal path: all memory that it will need is allocated,
 * the machine says who its neighbours are, and those are connected, as far as they are not; then the machine joins. It
 * leaves when its machine has finished, which a group that is given up is made to do.
 *
 * Failures: no memory, or a connection that cannot be begun: nothing is left behind. A machine that does not finish
 * although it has broken its connections, because the fabric does not say that it has done with the memory, is left
 * after a while, with a warning.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/locality.h"
#include "engine/objects.h"
#include "tutti/object.h"

enum { SPARE_EVENTS = 8 }; /* beyond completions: memory asked for, the end */

/* For a machine that lets go, breaks connections, and hears of that. */
#define LEAVE_NS (5 * TT_NS_PER_S)

_Static_assert(TT_OBJECT_PATIENCE_NS +
                       TT_OBJECT_PATIENCE_BYTE_NS * TT_OBJECT_MAX_CREDIT * TUTTI_OBJECT_MAX_BLOCK_BYTES + TT_NS_PER_S <=
                   LEAVE_NS,
               "the largest blocks come to their end before");

/* --- Keys --------------------------------------------------------------------------------------------------------- */

static uint64_t digest_of(const struct tt_group *group, const uint32_t *members, uint32_t member_count)
{
    uint64_t digest = group->party.key;

    for (uint32_t i = 0; i < member_count; i++) {
        digest = tt_locality_key(digest, members[i]);
    }
    return digest;
}

tutti_status tt_objects_next_name(struct tt_group *group, const uint32_t *members, uint32_t member_count,
                                  struct tt_objects_name *name)
{
    uint64_t digest = digest_of(group, members, member_count);
    struct tt_objects_count *count = group->objects_counts;

    while (count != NULL && count->digest != digest) {
        count = count->next;
    }
    if (count == NULL) {
        count = calloc(1, sizeof *count);
        if (count == NULL) {
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for an object group");
        }
        count->digest = digest;
        count->next = group->objects_counts;
        group->objects_counts = count;
    }
    count->created++;
    *name = (struct tt_objects_name){
        .key = tt_locality_key(digest, count->created), .members = digest, .created = (uint32_t)count->created};
    return TUTTI_OK;
}

/* --- Creation ----------------------------------------------------------------------------------------------------- */

static void destroy(struct tt_objects *objects)
{
    assert(!objects->party.awake); /* nobody looks at it any more */
    if (objects->buffers != NULL) {
        tt_objects_release_all(objects);
    }
    for (uint32_t i = 0; i < objects->machine.config.peer_count && objects->peers != NULL; i++) {
        if (objects->peers[i] != NULL) {
            tt_network_disconnect(objects->group->network, objects->peers[i]);
        }
    }
    free(objects->machine.config.peers);
    free(objects->machine.config.objects);
    free(objects->actions.list);
    free(objects->members);
    free(objects->rack_firsts);
    free(objects->peers);
    free(objects->places);
    free(objects->buffers);
    free(objects->events);
    free(objects);
}

/* A copy; one element more, so that there is something to copy. */
static uint32_t *copy_ranks(const uint32_t *ranks, uint32_t count)
{
    uint32_t *copy = calloc((size_t)count + 1, sizeof *copy);

    if (copy != NULL && count > 0) {
        memcpy(copy, ranks, count * sizeof *copy);
    }
    return copy;
}

static struct tt_object_config config_of(const struct tt_objects *objects, const struct tt_objects_options *options)
{
    uint32_t member = 0;

    while (options->members[member] != objects->group->rank) {
        assert(member + 1 < options->member_count);
        member++;
    }
    return (struct tt_object_config){.member = member,
                                     .member_count = options->member_count,
                                     .algorithm = options->algorithm,
                                     .rack_firsts = options->rack_count > 0 ? objects->rack_firsts : NULL,
                                     .rack_count = options->rack_count,
                                     .block_bytes = options->block_bytes,
                                     .credit = options->credit,
                                     .group = options->name.key,
                                     .members = options->name.members,
                                     .created = options->name.created,
                                     .number = objects->party.number,
                                     .object_count = options->object_count,
                                     .may_leave = options->may_leave,
                                     .silence_ns = options->silence_ns,
                                     .deadline_ns = options->deadline_ns};
}

/* Everything that depends on how many neighbours there are. */
static bool allocate(struct tt_objects *objects, const struct tt_objects_options *options, uint32_t *neighbours,
                     struct tt_object_config *config)
{
    config->neighbours = neighbours;
    config->peer_count = tt_object_neighbours(config, neighbours);
    config->peers = calloc((size_t)config->peer_count + 1, sizeof *config->peers);
    config->objects = calloc(options->object_count, sizeof *config->objects);
    objects->machine.config = *config; /* for destroy */
    objects->actions.capacity = tt_object_actions_capacity(config);
    objects->actions.list = calloc(objects->actions.capacity, sizeof *objects->actions.list);
    objects->peers = calloc((size_t)config->peer_count + 1, sizeof(struct tt_peer *));
    objects->places = calloc(options->object_count, sizeof *objects->places);
    objects->kept_count = options->registrations;
    objects->buffer_count = options->object_count + options->registrations;
    objects->buffers = calloc(objects->buffer_count, sizeof *objects->buffers);
    objects->event_capacity = options->object_count + SPARE_EVENTS;
    objects->events = calloc(objects->event_capacity, sizeof *objects->events);
    return config->peers != NULL && config->objects != NULL && objects->actions.list != NULL &&
           objects->peers != NULL && objects->places != NULL && objects->buffers != NULL && objects->events != NULL;
}

static tutti_status connect_peers(struct tt_objects *objects, const uint32_t *neighbours)
{
    const struct tt_group *group = objects->group;
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; status == TUTTI_OK && i < objects->machine.config.peer_count; i++) {
        status = tt_directory_connect(&group->directory, group->network, objects->members[neighbours[i]],
                                      &objects->peers[i]);
        if (status == TUTTI_OK && objects->peers[i]->stray.key == objects->party.key) {
            objects->peers[i]->stray.key = 0; /* it was here sooner */
        }
    }
    return status;
}

static tutti_status prepare(struct tt_objects *objects, const struct tt_objects_options *options, uint32_t *neighbours)
{
    struct tt_object_config config;
    tutti_status status;

    objects->members = copy_ranks(options->members, options->member_count);
    objects->rack_firsts = copy_ranks(options->rack_firsts, options->rack_count);
    if (neighbours == NULL || objects->members == NULL || objects->rack_firsts == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for an object group of %u members",
                        options->member_count);
    }
    config = config_of(objects, options);
    if (!allocate(objects, options, neighbours, &config)) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for an object group of %u members",
                        options->member_count);
    }
    status = connect_peers(objects, neighbours);
    if (status == TUTTI_OK) {
        tt_object_group_init(&objects->machine, &config);
    }
    return status;
}

tutti_status tt_objects_create(struct tt_group *group, const struct tt_objects_options *options,
                               struct tt_objects **objects)
{
    struct tt_objects *made = calloc(1, sizeof *made);
    uint32_t *neighbours = calloc(options->member_count, sizeof *neighbours);
    tutti_status status;

    assert(options->member_count <= group->size);
    assert(options->credit <= TT_OBJECT_MAX_CREDIT);
    assert(options->object_count > 0);
    if (made == NULL) {
        free(neighbours);
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for an object group");
    }
    made->group = group;
    made->owner = options->owner;
    made->party = (struct tt_party){.ops = &tt_objects_ops, .key = options->name.key, .deadline_ns = TT_NEVER};
    atomic_store_explicit(&made->failed_rank, -1, memory_order_relaxed);
    status = tt_party_list(&group->engine->parties, &made->party, &group->party);
    if (status == TUTTI_OK) {
        status = prepare(made, options, neighbours);
        if (status != TUTTI_OK) {
            tt_party_unlist(&group->engine->parties, &made->party);
        }
    }
    free(neighbours);
    if (status != TUTTI_OK) {
        destroy(made);
        return status;
    }
    (void)tt_objects_step(made, &(struct tt_object_event){.type = TT_OBJECT_JOIN});
    tt_objects_check(made);
    *objects = made;
    return TUTTI_OK;
}

static bool has_joined_or_failed(const void *argument)
{
    const struct tt_objects *objects = argument;

    return objects->joined || objects->machine.state != TT_OBJECT_OPEN;
}

tutti_status tt_objects_wait_joined(struct tt_objects *objects)
{
    /* The machine has a deadline. */
    tt_engine_wait_for(objects->group->engine, has_joined_or_failed, objects, TT_NEVER);
    return tt_objects_status(objects);
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

static bool has_finished(const void *objects)
{
    return ((const struct tt_objects *)objects)->machine.state == TT_OBJECT_FINISHED;
}

void tt_objects_leave(struct tt_objects *objects)
{
    struct tt_engine *engine = objects->group->engine;
    uint64_t until_ns = tt_engine_now(engine) + LEAVE_NS;
    const struct tt_object_group *machine = &objects->machine;
    struct tt_object_event end = {.type = TT_OBJECT_FAIL,
                                  .status = TUTTI_ERR_CANCELED,
                                  .member = machine->config.member,
                                  .noticed_by = machine->config.member};

    tt_objects_check(objects);
    if (machine->config.may_leave && machine->completed == machine->offered) {
        end.type = TT_OBJECT_LEAVE;
    }
    (void)tt_objects_step(objects, &end); /* of a group that has ended this is nothing */
    /* In virtual time nothing moves in here: whoever simulates waits before. */
    if (engine->wakeup != NULL) {
        tt_engine_wait_for(engine, has_finished, objects, until_ns);
    }
    if (!has_finished(objects)) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_WARN, "rank %u leaves an object group whose memory may still be in use",
               objects->group->rank);
    }
    tt_party_unlist(&engine->parties, &objects->party);
    tt_objects_keep_word(objects);
    destroy(objects);
}
