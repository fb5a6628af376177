/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the world of object groups' members watches: the memory that an application gives and gets back, what it is
 * told, and what must hold at the end. Normal path: nothing is found. Failures: each becomes a problem with a text.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/object_world_private.h"

enum { SCRIBBLE = 0xDB };

void object_world_problem(struct object_world *world, const char *format, ...)
{
    char text[OBJECT_WORLD_PROBLEM_BYTES];
    int length = snprintf(text, sizeof text, "at %llu ns: ", (unsigned long long)tt_sim_now(world->sim));
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text + length, sizeof text - (size_t)length, format, arguments);
    va_end(arguments);
    if (world->problem_count < OBJECT_WORLD_PROBLEMS) {
        memcpy(world->problems[world->problem_count], text, sizeof text);
    }
    world->problem_count++;
}

/* --- Memory ------------------------------------------------------------------------------------------------------- */

void object_world_give_memory(struct object_world *world, struct object_world_member *member, uint64_t sequence)
{
    struct object_world_memory *memory = &member->memory[sequence];

    memory->bytes = object_world_allocate(world->sizes[sequence], 1);
    memory->key_bytes = sizeof memory->key;
    object_world_expect(
        member->p2p->ops->memory_register(member->p2p, memory->bytes, world->sizes[sequence], &memory->registration) ==
                TUTTI_OK &&
            member->p2p->ops->memory_pack(memory->registration, memory->key, &memory->key_bytes) == TUTTI_OK,
        "registration");
}

void object_world_take_back(struct object_world *world, uint32_t number, uint64_t sequence, bool is_complete)
{
    struct object_world_memory *memory = &world->members[number].memory[sequence];

    if (memory->bytes == NULL || memory->is_back) {
        object_world_problem(world, "member %u gives back memory of object %llu, which it does not have", number,
                             (unsigned long long)sequence);
        return;
    }
    if (is_complete && memcmp(memory->bytes, world->contents[sequence], world->sizes[sequence]) != 0) {
        object_world_problem(world, "member %u completes object %llu with wrong bytes", number,
                             (unsigned long long)sequence);
    }
    world->members[number].p2p->ops->memory_release(memory->registration);
    memory->registration = NULL;
    memory->is_back = true;
    memset(memory->bytes, SCRIBBLE, world->sizes[sequence]);
}

void object_world_on_complete(struct object_world *world, uint32_t number, uint64_t sequence)
{
    struct object_world_member *member = &world->members[number];

    if (sequence != member->completed || sequence >= world->sent) {
        object_world_problem(world, "member %u completes object %llu after %u", number, (unsigned long long)sequence,
                             member->completed);
    }
    if (member->has_failed) {
        object_world_problem(world, "member %u completes object %llu after it has failed", number,
                             (unsigned long long)sequence);
    }
    object_world_take_back(world, number, sequence, true);
    member->memory[sequence].completed_ns = tt_sim_now(world->sim);
    member->completed++;
}

void object_world_on_fail(struct object_world *world, uint32_t number, tutti_status status, uint32_t about)
{
    struct object_world_member *member = &world->members[number];

    if (member->has_failed || status == TUTTI_OK) {
        object_world_problem(world, "member %u is told twice, or of success: %s", number, tutti_status_name(status));
    }
    if (about >= world->member_count || !world->members[about].is_guilty) {
        object_world_problem(world, "member %u is told that member %u failed, which did not", number, about);
    }
    member->has_failed = true;
    member->status = status;
    member->failed_member = about;
    member->failed_ns = tt_sim_now(world->sim);
}

/* --- What applications are told --- */

static void check_close(struct object_world *world, uint32_t number)
{
    for (uint32_t i = 0; i < world->member_count; i++) {
        if (world->members[i].completed != world->sent) {
            object_world_problem(world, "member %u closes, but member %u has %u of %u objects", number, i,
                                 world->members[i].completed, world->sent);
        }
    }
}

void object_world_on_finish(struct object_world *world, uint32_t number, const struct tt_object_action *action)
{
    struct object_world_member *member = &world->members[number];
    tutti_status status = action->body.finish.status;

    if (member->has_failed ? status != member->status || action->body.finish.member != member->failed_member
                           : status != TUTTI_OK) {
        object_world_problem(world, "member %u finishes with %s, and was told %s", number, tutti_status_name(status),
                             tutti_status_name(member->status));
    }
    if (status == TUTTI_OK) {
        check_close(world, number);
    }
    for (uint32_t object = 0; object < OBJECT_WORLD_OBJECTS; object++) {
        if (member->memory[object].bytes != NULL && !member->memory[object].is_back) {
            object_world_problem(world, "member %u finishes with the memory of object %u", number, object);
        }
        member->memory[object].answer_ns = TT_NEVER;
    }
    member->has_finished = true;
    member->finished_ns = tt_sim_now(world->sim);
    member->leave_ns = member->finished_ns + world->options.leave_after_ns;
    object_world_note_time(world, member->leave_ns);
}

void object_world_ask(struct object_world *world, uint32_t number, const struct tt_object_action *action)
{
    struct object_world_member *member = &world->members[number];
    struct object_world_memory *memory = &member->memory[action->sequence];
    uint64_t now_ns = tt_sim_now(world->sim);

    if (memory->bytes != NULL || memory->answer_ns != TT_NEVER || member->has_failed ||
        action->body.incoming.size_bytes != world->sizes[action->sequence]) {
        object_world_problem(world, "member %u is asked for memory for object %llu of %llu bytes", number,
                             (unsigned long long)action->sequence,
                             (unsigned long long)action->body.incoming.size_bytes);
    }
    memory->answer_ns = member->answer_after_ns == TT_NEVER ? TT_NEVER : now_ns + member->answer_after_ns;
    object_world_note_time(world, memory->answer_ns);
}

/* --- The end --- */

static void check_scribble(struct object_world *world, uint32_t number, uint64_t sequence)
{
    const struct object_world_memory *memory = &world->members[number].memory[sequence];

    for (uint64_t i = 0; memory->is_back && i < world->sizes[sequence]; i++) {
        if (memory->bytes[i] != SCRIBBLE) {
            object_world_problem(world, "member %u: somebody wrote to byte %llu of object %llu, which was given back",
                                 number, (unsigned long long)i, (unsigned long long)sequence);
            return;
        }
    }
}

void object_world_check_end(struct object_world *world)
{
    for (uint32_t i = 0; i < world->member_count; i++) {
        const struct object_world_member *member = &world->members[i];

        if (!tt_sim_is_crashed(world->sim, i) && !member->has_finished) {
            object_world_problem(world, "member %u hangs: %u of %u objects, failed: %d", i, member->completed,
                                 world->sent, member->has_failed);
        }
        for (uint32_t object = 0; object < world->sent; object++) {
            check_scribble(world, i, object);
        }
    }
}
