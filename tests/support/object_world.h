/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An object group of all nodes of a world (support/world.h): engines over the simulator, each with an application that
 * gives memory (or refuses, or takes its time). What an object group promises is checked at the moment when it counts,
 * and what is found wrong is a problem of the world. Memory that has been given back is scribbled over, and must stay
 * so.
 *
 * Times count from when all members have joined.
 */
#ifndef TT_TESTS_SUPPORT_OBJECT_WORLD_H
#define TT_TESTS_SUPPORT_OBJECT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/objects.h"
#include "support/world.h"

enum { OBJECT_WORLD_OBJECTS = 64 };

/* What a test breaks on purpose, to see that it is noticed. */
enum object_world_plant {
    PLANT_NOTHING,
    PLANT_DEAF,         /* a member does not hear FAIL frames */
    PLANT_EARLY_RELEASE /* a member that fails forgets who may still put there */
};

struct object_world_options {
    struct tt_sim_options sim;         /* its node_count is the number of members */
    struct tt_objects_options objects; /* but key and members */
    uint64_t leave_after_ns;           /* from a member's end until it leaves the group */
    enum object_world_plant plant;
    uint32_t plant_member;
};

/* Puts of one member to another that start late: by so much, and so many of them, after the first `skip`. */
struct object_world_delay {
    uint32_t from, to;
    uint64_t skip, times, by_ns;
};

/* A member's memory for an object. */
struct object_world_memory {
    uint8_t *bytes;     /* NULL: none was given */
    bool is_back;       /* given back, and scribbled over */
    uint64_t answer_ns; /* INCOMING is to be answered then; TT_NEVER */
    uint64_t completed_ns;
};

struct object_world_member {
    struct tt_objects *objects; /* NULL: it has left */
    struct object_world_memory memory[OBJECT_WORLD_OBJECTS];

    /* The application. */
    uint64_t refuse_at;       /* the object whose memory it refuses; UINT64_MAX: none */
    uint64_t answer_after_ns; /* how long it takes to answer INCOMING; TT_NEVER: it never does */
    bool is_guilty;           /* the test does something to it that the others may be told of */

    uint32_t completed;
    bool has_failed, has_finished;
    tutti_status status;
    uint32_t failed_member;
    uint64_t failed_ns, finished_ns, leave_ns;
};

struct object_world_line;

struct object_world {
    struct object_world_options options;
    uint32_t member_count;
    struct tt_world *world;
    struct tt_world_group *group;
    struct tt_sim *sim; /* the world's */
    uint64_t start_ns;  /* of the world's time */
    struct object_world_member *members;
    struct object_world_delay delay;
    struct object_world_line *lines;         /* before connections, where something is late or lost on purpose */
    uint8_t *contents[OBJECT_WORLD_OBJECTS]; /* of the objects that were sent */
    uint64_t sizes[OBJECT_WORLD_OBJECTS];
    uint32_t sent;
};

/* Blocks of 1000 bytes; a byte takes 1 ns on each link, latency is 1 us, frames have no header. Everybody answers at
 * once. */
void object_world_options_init(struct object_world_options *options, uint32_t member_count);

/* Ends the process with a message where the harness itself cannot go on. */
struct object_world *object_world_create(const struct object_world_options *options);
void object_world_destroy(struct object_world *world);

/* Puts that start from now on are late as this says. */
void object_world_delay_puts(struct object_world *world, struct object_world_delay delay);

/* Member 0 sends, a member closes, or gives up; what the engine says to that. */
tutti_status object_world_send(struct object_world *world, uint64_t size_bytes);
tutti_status object_world_close(struct object_world *world, uint32_t member);
void object_world_cancel(struct object_world *world, uint32_t member);

/* The same for all that are alive. */
void object_world_close_all(struct object_world *world);

void object_world_crash(struct object_world *world, uint32_t member, uint64_t at_ns);
void object_world_stall(struct object_world *world, uint32_t member, uint64_t until_ns);

static inline uint64_t object_world_now(const struct object_world *world)
{
    return tt_world_now(world->world) - world->start_ns;
}

void object_world_run(struct object_world *world, uint64_t until_ns);

/* When the last member had object `sequence`; fails the test if one has it not. */
uint64_t object_world_end_of(struct object_world *world, uint64_t sequence);

/* Looks whether every survivor has finished, and what was given back is as it was left. */
void object_world_check_end(struct object_world *world);

/* As check_end, and fails the test if there was any problem. Destroys the world. */
void object_world_end(struct object_world *world);

#endif
