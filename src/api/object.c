/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Public functions of object groups. Normal path: arguments are checked, the engine's group (engine/objects.h) is made;
 * its events are taken one by one, and become calls of the user's callbacks, between which, but not during which, the
 * engine's lock is held. Failures: what cannot be is refused before anything is made; a callback that comes back into
 * what has called it is told BUSY.
 */
#include <stdlib.h>
#include <string.h>

#include "api/handles.h"
#include "base/log.h"
#include "engine/objects.h"

enum { DEFAULT_CREDIT = TT_OBJECT_MAX_CREDIT, MOST_REGISTRATIONS = 64 };

/* Without a setting, how long members are waited for; a member that is awaited and silent is asked after a part of it.
 */
#define DEFAULT_TIMEOUT_NS (60 * TT_NS_PER_S)

struct tutti_object_group {
    tutti_group *group;
    struct tt_objects *objects;
    tutti_object_options options; /* the callbacks */
    bool is_inside;               /* of a callback */
    bool is_closed, has_failed;   /* and the user has been told */
};

/* --- Creation ----------------------------------------------------------------------------------------------------- */

static tutti_status check_numbers(const tutti_object_options *options)
{
    if ((unsigned)options->algorithm > TUTTI_OBJECT_HYBRID) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "object algorithm %d does not exist",
                        (int)options->algorithm);
    }
    if (options->block_bytes != 0 &&
        (options->block_bytes < TUTTI_OBJECT_MIN_BLOCK_BYTES || options->block_bytes > TUTTI_OBJECT_MAX_BLOCK_BYTES)) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "blocks of %llu bytes: %d to %d are possible",
                        (unsigned long long)options->block_bytes, TUTTI_OBJECT_MIN_BLOCK_BYTES,
                        TUTTI_OBJECT_MAX_BLOCK_BYTES);
    }
    if (options->credit > TT_OBJECT_MAX_CREDIT) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "a credit of %u blocks: 1 or 2 are possible",
                        options->credit);
    }
    if (options->registrations > MOST_REGISTRATIONS) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%u registrations: at most %d can stay",
                        options->registrations, MOST_REGISTRATIONS);
    }
    return TUTTI_OK;
}

/* Members, each a rank of the group and there once, the own one among them. `seen` is a byte a rank, zeros. */
static tutti_status check_members(const struct tt_group *group, const uint32_t *members, uint32_t count, uint8_t *seen)
{
    for (uint32_t i = 0; i < count; i++) {
        if (members[i] >= group->size) {
            return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "member %u is rank %u of a group of %u ranks", i,
                            members[i], group->size);
        }
        if (seen[members[i]] != 0) {
            return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "rank %u is a member twice", members[i]);
        }
        seen[members[i]] = 1;
    }
    if (seen[group->rank] == 0) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "the own rank %u is no member", group->rank);
    }
    return TUTTI_OK;
}

/* The first member of each rack. */
static tutti_status find_racks(const tutti_object_options *options, uint32_t member_count, uint32_t *rack_firsts)
{
    uint64_t first = 0;

    for (uint32_t i = 0; i < options->rack_count; i++) {
        if (options->rack_sizes[i] == 0) {
            return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "rack %u has no members", i);
        }
        rack_firsts[i] = (uint32_t)first;
        first += options->rack_sizes[i];
        if (first > member_count) {
            break;
        }
    }
    return first == member_count
               ? TUTTI_OK
               : tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "racks of %s%llu members in a group of %u",
                          first > member_count ? "at least " : "", (unsigned long long)first, member_count);
}

static tutti_status check_racks(const tutti_object_options *options, uint32_t member_count)
{
    bool is_hybrid = options->algorithm == TUTTI_OBJECT_HYBRID;

    if (!is_hybrid && (options->rack_sizes != NULL || options->rack_count != 0)) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%u racks, which only the hybrid has",
                        options->rack_count);
    }
    if (is_hybrid && (options->rack_sizes == NULL || options->rack_count == 0 || options->rack_count > member_count)) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "the hybrid with %s%u racks of %u members",
                        options->rack_sizes == NULL ? "NULL for " : "", options->rack_count, member_count);
    }
    return TUTTI_OK;
}

static enum tt_rdmc_algorithm algorithm_of(tutti_object_algorithm algorithm)
{
    switch (algorithm) {
    case TUTTI_OBJECT_SEQUENTIAL:
        return TT_RDMC_SEQUENTIAL;
    case TUTTI_OBJECT_CHAIN:
        return TT_RDMC_CHAIN;
    case TUTTI_OBJECT_BINOMIAL_TREE:
        return TT_RDMC_BINOMIAL_TREE;
    case TUTTI_OBJECT_HYBRID:
        return TT_RDMC_HYBRID;
    default:
        return TT_RDMC_BINOMIAL_PIPELINE;
    }
}

static uint64_t timeout_of(const struct tt_engine *engine, const tutti_object_options *options)
{
    return options->timeout_ns != 0                 ? options->timeout_ns
           : engine->settings.timeout_ns != TT_AUTO ? engine->settings.timeout_ns
                                                    : DEFAULT_TIMEOUT_NS;
}

/* With the engine's lock. */
static tutti_status create_inner(struct tt_group *group, const tutti_object_options *options,
                                 const struct tt_objects_name *name, const uint32_t *members, uint32_t member_count,
                                 const uint32_t *rack_firsts, struct tt_objects **objects)
{
    struct tt_objects_options inner = {.name = *name,
                                       .members = members,
                                       .member_count = member_count,
                                       .algorithm = algorithm_of(options->algorithm),
                                       .rack_firsts = options->rack_count > 0 ? rack_firsts : NULL,
                                       .rack_count = options->rack_count,
                                       .block_bytes = (uint32_t)options->block_bytes,
                                       .credit = options->credit != 0 ? options->credit : DEFAULT_CREDIT,
                                       .object_count = TUTTI_OBJECT_QUEUE,
                                       .registrations = options->registrations,
                                       .deadline_ns = timeout_of(group->engine, options)};
    tutti_status status;

    inner.silence_ns = inner.deadline_ns / 4;
    status = tt_objects_create(group, &inner, objects);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tt_objects_wait_joined(*objects);
    if (status != TUTTI_OK) {
        char text[sizeof(*objects)->failure_text];

        memcpy(text, (*objects)->failure_text, sizeof text);
        tt_objects_leave(*objects);
        return tt_error_note(status, "%s", text);
    }
    group->objects_count++;
    return TUTTI_OK;
}

/* What may be wrong at this member alone, or at all. */
static tutti_status check_rest(const struct tt_group *group, const tutti_object_options *options,
                               const uint32_t *members, uint32_t count, uint32_t *rack_firsts)
{
    tutti_status status = check_numbers(options);

    if (status == TUTTI_OK && members[0] != group->rank && options->incoming == NULL) {
        status =
            tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "incoming is NULL at a receiver, rank %u", group->rank);
    }
    if (status == TUTTI_OK) {
        status = check_racks(options, count);
    }
    if (status == TUTTI_OK && options->rack_count > 0) {
        status = find_racks(options, count, rack_firsts);
    }
    return status;
}

static tutti_status create(tutti_group *group, const tutti_object_options *options, uint32_t *members,
                           uint32_t *rack_firsts, uint8_t *seen, struct tt_objects **objects)
{
    struct tt_group *inner = group->group;
    uint32_t count = options->members != NULL ? options->member_count : inner->size;
    tutti_status status;
    struct tt_objects_name name = {0};

    if (members == NULL || rack_firsts == NULL || seen == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_NO_MEMORY, "no memory for an object group of %u members", count);
    }
    for (uint32_t i = 0; i < count; i++) {
        members[i] = options->members != NULL ? options->members[i] : i;
    }
    status = check_members(inner, members, count, seen);
    if (status != TUTTI_OK) {
        return status;
    }
    tt_engine_lock(inner->engine);
    /* First, so that a call that fails here, and by its absence at the others, has been counted everywhere. */
    status = tt_objects_next_name(inner, members, count, &name);
    if (status == TUTTI_OK) {
        status = check_rest(inner, options, members, count, rack_firsts);
    }
    if (status == TUTTI_OK) {
        status = create_inner(inner, options, &name, members, count, rack_firsts, objects);
    }
    tt_engine_unlock(inner->engine);
    return status;
}

tutti_status tutti_object_group_create(tutti_group *group, const tutti_object_options *options,
                                       tutti_object_group **objects)
{
    tutti_object_group *made;
    uint32_t *members, *rack_firsts, count;
    uint8_t *seen;
    tutti_status status;

    tt_clear_error();
    if (group == NULL || options == NULL || objects == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s is NULL",
                        group == NULL     ? "group"
                        : options == NULL ? "options"
                                          : "objects");
    }
    if (options->struct_size < sizeof *options) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "struct_size of the object options is %zu, not %zu",
                        options->struct_size, sizeof *options);
    }
    count = options->members != NULL ? options->member_count : group->group->size;
    if (count == 0 || count > group->group->size || (options->members == NULL && options->member_count != 0)) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "%s%u members in a group of %u ranks",
                        options->members == NULL ? "NULL for " : "", options->member_count, group->group->size);
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_NO_MEMORY, "no memory for an object group");
    }
    members = calloc(count, sizeof *members);
    rack_firsts = calloc((size_t)count + 1, sizeof *rack_firsts); /* there are no more racks than members */
    seen = calloc(group->group->size, 1);
    status = create(group, options, members, rack_firsts, seen, &made->objects);
    free(members);
    free(rack_firsts);
    free(seen);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    made->group = group;
    made->options = *options;
    *objects = made;
    return TUTTI_OK;
}

/* --- Callbacks ---------------------------------------------------------------------------------------------------- */

static tutti_status check_outside(const tutti_object_group *objects)
{
    if (objects == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "objects is NULL");
    }
    return !objects->is_inside ? TUTTI_OK
                               : tt_error(TT_PART_API, TUTTI_ERR_BUSY, "called from a callback of the same group");
}

static void ask(tutti_object_group *objects, const struct tt_objects_event *event)
{
    struct tt_engine *engine = objects->group->context->engine;
    void *memory = NULL;
    const char *why = "";
    tutti_status status =
        objects->options.incoming(objects->options.argument, event->sequence, event->size_bytes, &memory);

    if (status == TUTTI_OK && memory == NULL && event->size_bytes > 0) {
        status = tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "incoming gave NULL for %llu bytes",
                          (unsigned long long)event->size_bytes);
        why = tt_last_error();
    }
    tt_engine_lock(engine);
    if (status == TUTTI_OK) {
        tt_objects_give(objects->objects, event->sequence, memory, NULL, 0);
    } else {
        tt_objects_refuse(objects->objects, event->sequence, status < 0 ? status : TUTTI_ERR_CANCELED, why);
    }
    tt_engine_unlock(engine);
}

static void call(tutti_object_group *objects, const struct tt_objects_event *event)
{
    const tutti_object_options *options = &objects->options;

    objects->is_inside = true;
    switch (event->type) {
    case TT_OBJECTS_INCOMING:
        ask(objects, event);
        break;
    case TT_OBJECTS_COMPLETE:
        if (options->completion != NULL) {
            options->completion(options->argument, event->sequence, event->memory, event->size_bytes);
        }
        break;
    case TT_OBJECTS_FAILED:
        objects->has_failed = true;
        if (options->failure != NULL) {
            options->failure(options->argument, objects->objects->machine.status,
                             tutti_object_group_failed_rank(objects));
        }
        break;
    case TT_OBJECTS_CLOSED:
        objects->is_closed = true;
        break;
    }
    objects->is_inside = false;
}

/* Returns how many events there were. */
static uint32_t call_all(tutti_object_group *objects)
{
    struct tt_engine *engine = objects->group->context->engine;
    struct tt_objects_event event;
    uint32_t count = 0;

    for (;;) {
        bool any;

        tt_engine_lock(engine);
        any = tt_objects_take(objects->objects, &event);
        tt_engine_unlock(engine);
        if (!any) {
            return count;
        }
        call(objects, &event);
        count++;
    }
}

/* An error only after its callback: until then memory may be in use. What a callback was told is not this call's. */
static tutti_status status_of(const tutti_object_group *objects)
{
    tt_clear_error();
    return objects->has_failed ? tt_objects_status(objects->objects) : TUTTI_OK;
}

tutti_status tutti_object_test(tutti_object_group *objects, uint32_t *callbacks)
{
    return tutti_object_wait(objects, 0, callbacks);
}

tutti_status tutti_object_wait(tutti_object_group *objects, uint64_t timeout_ns, uint32_t *callbacks)
{
    struct tt_engine *engine;
    tutti_status status;
    uint64_t now_ns, until_ns;
    uint32_t count;

    tt_clear_error();
    status = check_outside(objects);
    if (status != TUTTI_OK) {
        return status;
    }
    engine = objects->group->context->engine;
    now_ns = tt_engine_now(engine);
    until_ns = timeout_ns < TT_NEVER - now_ns ? now_ns + timeout_ns : TT_NEVER;
    if (timeout_ns == 0) {
        tt_engine_poke(engine);
    }
    count = call_all(objects);
    /* What has woken it may be nothing by now: memory that a failing group does not ask for any more. */
    while (count == 0 && !objects->is_closed && !objects->has_failed && tt_engine_now(engine) < until_ns) {
        tt_engine_wait(engine, &objects->objects->has_events, until_ns);
        count = call_all(objects);
    }
    if (callbacks != NULL) {
        *callbacks = count;
    }
    return status_of(objects);
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

tutti_status tutti_object_send(tutti_object_group *objects, const void *data, uint64_t size_bytes)
{
    struct tt_engine *engine;
    tutti_status status;

    tt_clear_error();
    if (objects == NULL) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "objects is NULL");
    }
    if (data == NULL && size_bytes > 0) {
        return tt_error(TT_PART_API, TUTTI_ERR_INVALID_ARGUMENT, "data is NULL for %llu bytes",
                        (unsigned long long)size_bytes);
    }
    engine = objects->group->context->engine;
    tt_engine_lock(engine);
    status = tt_objects_send(objects->objects, data, size_bytes, NULL, 0);
    tt_engine_unlock(engine);
    return status;
}

tutti_status tutti_object_group_close(tutti_object_group *objects)
{
    struct tt_engine *engine;
    tutti_status status;
    bool is_over;

    tt_clear_error();
    status = check_outside(objects);
    if (status != TUTTI_OK) {
        return status;
    }
    engine = objects->group->context->engine;
    tt_engine_lock(engine);
    status = tt_objects_close(objects->objects);
    is_over = objects->objects->machine.status != TUTTI_OK; /* then its callbacks are still due */
    tt_engine_unlock(engine);
    if (status != TUTTI_OK && !is_over) {
        return status;
    }
    call_all(objects);
    while (!objects->is_closed && !objects->has_failed) {
        tt_engine_wait(engine, &objects->objects->has_events, TT_NEVER); /* the machine has deadlines */
        call_all(objects);
    }
    return status_of(objects);
}

int tutti_object_group_failed_rank(const tutti_object_group *objects)
{
    return atomic_load_explicit(&objects->objects->failed_rank, memory_order_acquire);
}

tutti_status tutti_object_group_destroy(tutti_object_group *objects)
{
    struct tt_engine *engine;
    tutti_status status;

    tt_clear_error();
    if (objects == NULL) {
        return TUTTI_OK;
    }
    status = check_outside(objects);
    if (status != TUTTI_OK) {
        return status;
    }
    engine = objects->group->context->engine;
    tt_engine_lock(engine);
    tt_objects_leave(objects->objects);
    objects->group->group->objects_count--;
    tt_engine_unlock(engine);
    free(objects);
    return TUTTI_OK;
}
