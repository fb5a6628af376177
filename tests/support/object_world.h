/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A world of object groups' members: one group of all nodes, each with a machine over the simulator's p2p, and an
 * application that gives memory (or refuses, or takes its time). Every step is watched: what an object group promises
 * is checked at the moment when it counts, and what is found wrong is kept as a text; see check_ in object_world.c.
 * Memory that has been given back is scribbled over, and must stay so.
 */
#ifndef TT_TESTS_SUPPORT_OBJECT_WORLD_H
#define TT_TESTS_SUPPORT_OBJECT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "fabric/sim/sim.h"
#include "proto/object.h"

enum { OBJECT_WORLD_PROBLEMS = 8, OBJECT_WORLD_PROBLEM_BYTES = 256, OBJECT_WORLD_OBJECTS = 64 };

/* What a test breaks on purpose, to see that it is noticed. */
enum object_world_plant {
    PLANT_NOTHING,
    PLANT_DEAF,         /* a member does not hear FAIL frames */
    PLANT_EARLY_RELEASE /* a member that fails forgets who may still put there */
};

struct object_world_options {
    struct tt_sim_options sim; /* its node_count is the number of members */
    enum tt_rdmc_algorithm algorithm;
    const uint32_t *rack_firsts;
    uint32_t rack_count;
    uint32_t block_bytes, credit, object_count;
    uint64_t silence_ns, deadline_ns;
    uint64_t leave_after_ns; /* from a member's end until it disconnects */
    enum object_world_plant plant;
    uint32_t plant_member;
};

/* Puts of one member to another that start late: by so much, and so many of them, after the first `skip`. */
struct object_world_delay {
    uint32_t from, to;
    uint64_t skip, times, by_ns;
};

/* A put that starts late. */
struct object_world_late {
    bool is_used;
    uint64_t at_ns;
    struct tt_object_action action;
    uint8_t key[TT_P2P_MAX_KEY_BYTES];
};

/* A member's memory for an object. */
struct object_world_memory {
    uint8_t *bytes; /* NULL: none was given */
    struct tt_p2p_memory *registration;
    uint8_t key[TT_P2P_MAX_KEY_BYTES];
    size_t key_bytes;
    bool is_back;       /* given back, and scribbled over */
    uint64_t answer_ns; /* INCOMING is to be answered then; TT_NEVER */
    uint64_t completed_ns;
};

struct object_world_member {
    struct tt_object_group group;
    struct tt_object_peer *peers;
    struct tt_object *objects;
    uint32_t *neighbours;
    struct tt_p2p *p2p;
    struct tt_p2p_peer **connections; /* by peer; NULL: disconnected */
    struct object_world_memory memory[OBJECT_WORLD_OBJECTS];
    uint64_t failed_puts; /* that could not start and are to be answered: a count for each peer in .. */
    uint32_t *refused_puts;
    uint64_t *refused_sequences;

    /* The application. */
    uint64_t refuse_at;       /* the object whose memory it refuses; UINT64_MAX: none */
    uint64_t answer_after_ns; /* how long it takes to answer INCOMING; TT_NEVER: it never does */
    bool is_guilty;           /* the test does something to it that the others may be told of */

    uint32_t completed;
    bool has_failed, has_finished;
    tutti_status status;
    uint32_t failed_member;
    uint64_t failed_ns, finished_ns, leave_ns, deadline_ns;
};

struct object_world {
    struct object_world_options options;
    uint32_t member_count;
    struct tt_sim *sim;
    struct object_world_member *members;
    struct tt_object_actions actions;
    struct object_world_delay delay;
    struct object_world_late late[TT_OBJECT_MAX_CREDIT];
    uint8_t *contents[OBJECT_WORLD_OBJECTS]; /* of the objects that were sent */
    uint64_t sizes[OBJECT_WORLD_OBJECTS];
    uint32_t sent;
    uint64_t soonest_ns; /* no deadline or answer is due before */
    uint64_t violations_seen, steps;
    uint32_t problem_count;
    char problems[OBJECT_WORLD_PROBLEMS][OBJECT_WORLD_PROBLEM_BYTES];
};

/* Blocks of 1000 bytes; a byte takes 1 ns on each link, latency is 1 us, frames have no header. Everybody answers at
 * once. */
void object_world_options_init(struct object_world_options *options, uint32_t member_count);

/* Ends the process with a message where the harness itself cannot go on. */
struct object_world *object_world_create(const struct object_world_options *options);
void object_world_destroy(struct object_world *world);

/* Member 0 sends, a member closes, or its surroundings give up; what the machine says to that. */
tutti_status object_world_send(struct object_world *world, uint64_t size_bytes);
tutti_status object_world_close(struct object_world *world, uint32_t member);
void object_world_cancel(struct object_world *world, uint32_t member);

/* The same for all that are alive. */
void object_world_close_all(struct object_world *world);

void object_world_crash(struct object_world *world, uint32_t member, uint64_t at_ns);
void object_world_stall(struct object_world *world, uint32_t member, uint64_t until_ns);

/* Until nothing is left to happen, or this time. */
void object_world_run(struct object_world *world, uint64_t until_ns);

/* When the last member had object `sequence`; fails the test if one has it not. */
uint64_t object_world_end_of(struct object_world *world, uint64_t sequence);

/* Looks whether every survivor has finished, and what was given back is as it was left. */
void object_world_check_end(struct object_world *world);

/* As check_end, and fails the test if there was any problem. Destroys the world. */
void object_world_end(struct object_world *world);

void object_world_problem(struct object_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
