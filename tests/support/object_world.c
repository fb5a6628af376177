/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Object groups' applications in a world. Normal path: after a node's engine ran, its application answers what is due,
 * takes its events, and leaves when it is time. Failures: of the harness itself end the process; of object groups are
 * problems of the world.
 */
#include "support/object_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "support/object_world_line.h"
#include "support/world_private.h"

enum { SCRIBBLE = 0xDB };

static void expect(bool fine, const char *what)
{
    if (!fine) {
        fprintf(stderr, "object world: %s: %s\n", what, tt_last_error());
        abort();
    }
}

/* --- Applications ------------------------------------------------------------------------------------------------- */

static void give(struct object_world *world, uint32_t number, uint64_t sequence)
{
    struct object_world_member *member = &world->members[number];
    struct object_world_memory *memory = &member->memory[sequence];

    memory->answer_ns = TT_NEVER;
    if (member->refuse_at == sequence) {
        tt_objects_refuse(member->objects, sequence, TUTTI_ERR_NO_MEMORY, "");
    } else {
        memory->bytes = tt_world_allocate(world->sizes[sequence], 1);
        tt_objects_give(member->objects, sequence, memory->bytes, NULL, 0);
    }
}

static void on_incoming(struct object_world *world, uint32_t number, const struct tt_objects_event *event)
{
    struct object_world_member *member = &world->members[number];
    struct object_world_memory *memory = &member->memory[event->sequence];

    if (memory->bytes != NULL || memory->answer_ns != TT_NEVER || member->has_failed ||
        event->size_bytes != world->sizes[event->sequence]) {
        tt_world_problem(world->world, "member %u is asked for memory for object %llu of %llu bytes", number,
                         (unsigned long long)event->sequence, (unsigned long long)event->size_bytes);
    }
    if (member->answer_after_ns != TT_NEVER) {
        memory->answer_ns = tt_world_now(world->world) + member->answer_after_ns;
    }
}

static void take_back(struct object_world_memory *memory, uint64_t size_bytes)
{
    memory->is_back = true;
    memset(memory->bytes, SCRIBBLE, size_bytes);
}

static void on_complete(struct object_world *world, uint32_t number, const struct tt_objects_event *event)
{
    struct object_world_member *member = &world->members[number];
    struct object_world_memory *memory = &member->memory[event->sequence];
    uint64_t size_bytes = world->sizes[event->sequence];

    if (event->sequence != member->completed || event->sequence >= world->sent || member->has_failed) {
        tt_world_problem(world->world, "member %u completes object %llu after %u (failed: %d)", number,
                         (unsigned long long)event->sequence, member->completed, member->has_failed);
    }
    if (memory->bytes == NULL || memory->is_back || event->memory != memory->bytes) {
        tt_world_problem(world->world, "member %u gives back memory of object %llu, which it does not have", number,
                         (unsigned long long)event->sequence);
        return;
    }
    if (event->size_bytes != size_bytes || memcmp(memory->bytes, world->contents[event->sequence], size_bytes) != 0) {
        tt_world_problem(world->world, "member %u completes object %llu with wrong bytes", number,
                         (unsigned long long)event->sequence);
    }
    take_back(memory, size_bytes);
    memory->completed_ns = object_world_now(world);
    member->completed++;
}

static void note_failure(struct object_world *world, uint32_t number)
{
    struct object_world_member *member = &world->members[number];

    if (member->has_failed || member->objects->machine.status == TUTTI_OK) {
        return;
    }
    member->has_failed = true;
    member->status = member->objects->machine.status;
    member->failed_member = (uint32_t)member->objects->failed_rank;
    member->failed_ns = object_world_now(world);
    if (member->failed_member >= world->member_count || !world->members[member->failed_member].is_guilty) {
        tt_world_problem(world->world, "member %u is told that member %u failed, which did not", number,
                         member->failed_member);
    }
}

static void check_close(struct object_world *world, uint32_t number)
{
    if (world->members[number].objects->machine.status != TUTTI_OK) {
        tt_world_problem(world->world, "member %u has failed, and closes", number);
    }
    for (uint32_t i = 0; i < world->member_count; i++) {
        if (world->members[i].completed != world->sent) {
            tt_world_problem(world->world, "member %u closes, but member %u has %u of %u objects", number, i,
                             world->members[i].completed, world->sent);
        }
    }
}

/* After a failure all memory is the application's from here on. */
static void on_end(struct object_world *world, uint32_t number, bool closed)
{
    struct object_world_member *member = &world->members[number];

    note_failure(world, number);
    if (closed) {
        check_close(world, number);
    }
    for (uint32_t object = 0; object < OBJECT_WORLD_OBJECTS; object++) {
        struct object_world_memory *memory = &member->memory[object];

        if (memory->bytes != NULL && !memory->is_back) {
            if (closed) {
                tt_world_problem(world->world, "member %u closes with the memory of object %u", number, object);
            }
            take_back(memory, world->sizes[object]);
        }
        memory->answer_ns = TT_NEVER;
    }
    if (member->has_finished) {
        tt_world_problem(world->world, "member %u is told of the end twice", number);
    }
    member->has_finished = true;
    member->finished_ns = object_world_now(world);
    member->leave_ns = tt_world_now(world->world) + world->options.leave_after_ns;
}

static void answer(struct object_world *world, uint32_t number)
{
    struct object_world_member *member = &world->members[number];

    for (uint32_t object = 0; object < world->sent; object++) {
        if (member->memory[object].answer_ns <= tt_world_now(world->world)) {
            give(world, number, object);
            tt_sim_mark_ready(world->sim, number);
        }
        tt_world_wake_at(world->world, number, member->memory[object].answer_ns);
    }
}

static void release_early(struct tt_objects *objects)
{
    const struct tt_object_config *config = &objects->machine.config;

    for (uint32_t i = 0; i < config->peer_count; i++) {
        config->peers[i].has_stopped = true;
        config->peers[i].stopped_at = config->peers[i].arrived;
    }
    (void)tt_objects_step(objects, &(struct tt_object_event){.type = TT_OBJECT_TICK});
}

static void leave(struct object_world *world, uint32_t number)
{
    struct object_world_member *member = &world->members[number];

    tt_objects_leave(member->objects);
    member->objects = NULL;
    member->leave_ns = TT_NEVER;
}

/* What the application of a node does whenever its engine ran, or the test called it. */
static void look(void *argument, uint32_t number)
{
    struct object_world *world = argument;
    struct object_world_member *member = &world->members[number];
    struct tt_objects_event event;

    if (member->objects == NULL) {
        return;
    }
    object_world_start_late_puts(world, number);
    if (world->options.plant == PLANT_EARLY_RELEASE && number == world->options.plant_member &&
        member->objects->machine.status != TUTTI_OK) {
        release_early(member->objects);
    }
    while (tt_objects_take(member->objects, &event)) {
        switch (event.type) {
        case TT_OBJECTS_INCOMING:
            on_incoming(world, number, &event);
            answer(world, number);
            break;
        case TT_OBJECTS_COMPLETE:
            on_complete(world, number, &event);
            break;
        case TT_OBJECTS_FAILED:
        case TT_OBJECTS_CLOSED:
            on_end(world, number, event.type == TT_OBJECTS_CLOSED);
            break;
        }
    }
    note_failure(world, number);
    answer(world, number);
    tt_world_wake_at(world->world, number, member->leave_ns);
    if (member->leave_ns <= tt_world_now(world->world)) {
        leave(world, number);
        tt_world_leave(world->group, number);
    }
}

/* --- Life --------------------------------------------------------------------------------------------------------- */

void object_world_options_init(struct object_world_options *options, uint32_t member_count)
{
    struct tt_world_options world;

    tt_world_options_init(&world, member_count);
    memset(options, 0, sizeof *options);
    options->sim = world.sim;
    options->objects = (struct tt_objects_options){.member_count = member_count,
                                                   .algorithm = TT_RDMC_BINOMIAL_PIPELINE,
                                                   .block_bytes = 1000,
                                                   .credit = TT_OBJECT_MAX_CREDIT,
                                                   .object_count = 8,
                                                   .silence_ns = 50 * TT_NS_PER_MS,
                                                   .deadline_ns = TT_NS_PER_S};
}

static void create_member(struct object_world *world, uint32_t number, const uint32_t *members)
{
    struct object_world_member *member = &world->members[number];
    struct tt_group *group = world->group->members[number].group;
    struct tt_objects_options options = world->options.objects;

    options.members = members;
    expect(tt_objects_next_name(group, members, options.member_count, &options.name) == TUTTI_OK &&
               tt_objects_create(group, &options, &member->objects) == TUTTI_OK,
           "an object group");
    tt_sim_mark_ready(world->sim, number);
    member->refuse_at = UINT64_MAX;
    member->leave_ns = TT_NEVER;
    member->failed_member = TT_OBJECT_NO_MEMBER;
    for (uint32_t i = 0; i < OBJECT_WORLD_OBJECTS; i++) {
        member->memory[i].answer_ns = TT_NEVER;
    }
}

static bool have_joined(const struct object_world *world)
{
    for (uint32_t i = 0; i < world->member_count; i++) {
        if (!world->members[i].objects->joined) {
            return false;
        }
    }
    return true;
}

struct object_world *object_world_create(const struct object_world_options *options)
{
    struct object_world *world = tt_world_allocate(1, sizeof *world);
    uint32_t count = options->sim.node_count, *members = tt_world_allocate(count, sizeof *members);
    struct tt_world_options inner;

    tt_log_configure("none", NULL, (char[256]){0}, 256);
    tt_world_options_init(&inner, count);
    inner.sim = options->sim;
    inner.settings.algorithm = TT_ALGORITHM_RING; /* nothing multicasts, so nothing is probed */
    inner.hooks.argument = world;
    inner.hooks.application = look;
    world->options = *options;
    world->member_count = count;
    world->members = tt_world_allocate(count, sizeof *world->members);
    world->world = tt_world_create(&inner);
    world->sim = world->world->sim;
    world->group = tt_world_group_create(world->world, NULL, count);
    for (uint32_t i = 0; i < count; i++) {
        members[i] = i;
    }
    for (uint32_t i = 0; i < count; i++) {
        create_member(world, i, members);
    }
    free(members);
    while (!have_joined(world)) {
        expect(tt_world_step(world->world, TT_NEVER - 1), "the members do not join");
    }
    for (uint32_t i = 0; i < count && options->plant == PLANT_DEAF; i++) {
        object_world_lay_line(world, i, options->plant_member);
    }
    world->start_ns = tt_world_now(world->world);
    return world;
}

void object_world_destroy(struct object_world *world)
{
    for (uint32_t i = 0; i < world->member_count; i++) {
        if (world->members[i].objects != NULL) {
            leave(world, i);
        }
    }
    (void)tt_world_destroy(world->world, NULL);
    for (uint32_t i = 0; i < world->member_count; i++) {
        for (uint32_t object = 0; object < OBJECT_WORLD_OBJECTS; object++) {
            free(world->members[i].memory[object].bytes);
        }
    }
    object_world_free_lines(world);
    for (uint32_t object = 0; object < world->sent; object++) {
        free(world->contents[object]);
    }
    free(world->members);
    free(world);
}

/* --- What tests do ------------------------------------------------------------------------------------------------ */

/* A test called the engine of this member. */
static tutti_status called(struct object_world *world, uint32_t number, tutti_status status)
{
    tt_sim_mark_ready(world->sim, number);
    look(world, number);
    return status;
}

tutti_status object_world_send(struct object_world *world, uint64_t size_bytes)
{
    struct object_world_member *member = &world->members[0];
    uint32_t sequence = world->sent;
    uint8_t *bytes;
    tutti_status status;

    if (member->objects == NULL) {
        return member->status == TUTTI_OK ? TUTTI_ERR_INVALID_ARGUMENT : member->status;
    }
    expect(sequence < OBJECT_WORLD_OBJECTS, "too many objects");
    bytes = tt_world_allocate(size_bytes, 1);
    for (uint64_t i = 0; i < size_bytes; i++) {
        bytes[i] = (uint8_t)((i * 2654435761U + sequence * 40503U) >> 11);
    }
    status = tt_objects_send(member->objects, bytes, size_bytes, NULL, 0);
    if (status != TUTTI_OK) {
        free(bytes);
        return status;
    }
    member->memory[sequence].bytes = bytes;
    world->contents[sequence] = tt_world_allocate(size_bytes, 1);
    memcpy(world->contents[sequence], bytes, size_bytes);
    world->sizes[sequence] = size_bytes;
    world->sent++;
    return called(world, 0, TUTTI_OK);
}

tutti_status object_world_close(struct object_world *world, uint32_t member)
{
    struct tt_objects *objects = world->members[member].objects;

    return objects == NULL ? world->members[member].status : called(world, member, tt_objects_close(objects));
}

void object_world_close_all(struct object_world *world)
{
    for (uint32_t i = 0; i < world->member_count; i++) {
        if (tt_world_node_runs(world->world, i)) {
            (void)object_world_close(world, i);
        }
    }
}

void object_world_cancel(struct object_world *world, uint32_t member)
{
    struct tt_objects *objects = world->members[member].objects;
    struct tt_object_event event = {
        .type = TT_OBJECT_FAIL, .status = TUTTI_ERR_CANCELED, .member = member, .noticed_by = member};

    world->members[member].is_guilty = true;
    if (objects != NULL) {
        (void)called(world, member, tt_objects_step(objects, &event));
    }
}

void object_world_crash(struct object_world *world, uint32_t member, uint64_t at_ns)
{
    world->members[member].is_guilty = true;
    tt_sim_crash(world->sim, member, world->start_ns + at_ns);
}

void object_world_stall(struct object_world *world, uint32_t member, uint64_t until_ns)
{
    world->members[member].is_guilty = true;
    tt_sim_stall(world->sim, member, world->start_ns + until_ns);
}

void object_world_run(struct object_world *world, uint64_t until_ns)
{
    tt_world_run(world->world, world->start_ns + until_ns);
}

uint64_t object_world_end_of(struct object_world *world, uint64_t sequence)
{
    uint64_t last_ns = 0;

    for (uint32_t i = 0; i < world->member_count; i++) {
        assert_true(world->members[i].completed > sequence);
        if (world->members[i].memory[sequence].completed_ns > last_ns) {
            last_ns = world->members[i].memory[sequence].completed_ns;
        }
    }
    return last_ns;
}

static void check_scribble(struct object_world *world, uint32_t number, uint64_t sequence)
{
    const struct object_world_memory *memory = &world->members[number].memory[sequence];

    for (uint64_t i = 0; memory->is_back && i < world->sizes[sequence]; i++) {
        if (memory->bytes[i] != SCRIBBLE) {
            tt_world_problem(world->world,
                             "member %u: somebody wrote to byte %llu of object %llu, which was given back", number,
                             (unsigned long long)i, (unsigned long long)sequence);
            return;
        }
    }
}

void object_world_check_end(struct object_world *world)
{
    for (uint32_t i = 0; i < world->member_count; i++) {
        const struct object_world_member *member = &world->members[i];

        if (!tt_sim_is_crashed(world->sim, i) && !member->has_finished) {
            tt_world_problem(world->world, "member %u hangs: %u of %u objects, failed: %d", i, member->completed,
                             world->sent, member->has_failed);
        }
        for (uint32_t object = 0; object < world->sent; object++) {
            check_scribble(world, i, object);
        }
    }
}

void object_world_end(struct object_world *world)
{
    uint32_t problems;

    object_world_check_end(world);
    problems = world->world->problem_count;
    for (uint32_t i = 0; i < problems && i < TT_WORLD_PROBLEMS; i++) {
        print_error("%s\n", world->world->problems[i]);
    }
    object_world_destroy(world);
    assert_int_equal(problems, 0);
}
