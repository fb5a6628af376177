/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A world of simulated ranks: engines over the simulator, in virtual time and one thread, with groups and collectives
 * whose buffers are watched.
 *
 * Watched means: a request that ends well must have every right byte at that moment, and its send buffer as it was.
 * Then the world scribbles over both, because they are the user's again, and what it wrote must stay as it is until the
 * request is posted again or the world ends. Guards around the buffers must never change. What is found wrong is kept
 * as a text (tt_world_problem_text); the world goes on, so that the rest of the log is there.
 *
 * The same calls give the same run, to the byte of the simulator's log: buffers lie at fixed addresses (they travel in
 * frames), and context ids come from the seed. So there may be only one world at a time.
 */
#ifndef TT_TESTS_SUPPORT_WORLD_H
#define TT_TESTS_SUPPORT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/random.h"
#include "base/settings.h"
#include "engine/engine.h"
#include "engine/group.h"
#include "engine/request.h"
#include "engine/setup.h"
#include "fabric/sim/sim.h"

enum { TT_WORLD_PROBLEMS = 8, TT_WORLD_PROBLEM_BYTES = 256 };

struct tt_world;
struct tt_world_job;

/* A group as one of its ranks sees it. */
struct tt_world_member {
    uint32_t node;
    struct tt_setup *setup;   /* until it has been probed */
    struct tt_group *pending; /* what the setup makes */
    struct tt_group *group;   /* from then on; NULL after it left, or if it never came to be */
    tutti_status status;      /* of its creation, once `is_created` */
    uint32_t failed_rank;     /* that a failed probe was about */
    bool is_created;          /* or has failed */
    bool has_left;
    bool multicast; /* what the probe found */
    uint64_t created_ns;
    bool is_settling; /* waits until nobody needs its copies any more */
    uint64_t settle_until_ns;
    uint32_t running; /* parts posted here whose end was not seen */
};

struct tt_world_group {
    struct tt_world_group *next;
    struct tt_world *world;
    uint32_t index; /* of the groups of the world, in the order of creation */
    uint32_t size;
    uint64_t setup_until_ns;         /* BOOTSTRAP_TIMEOUT */
    struct tt_world_member *members; /* by rank */
    uint32_t *ranks;                 /* by node; TT_RANK_NONE: it is no member */
};

/* One rank's part in a job. `terms` and `in_place` may be changed before the rank's first post. */
struct tt_world_part {
    struct tt_request_options terms; /* send and receive are the world's */
    bool in_place;
    struct tt_request *request;
    uint8_t *send, *receive; /* NULL where the rank has nothing to send, or has it in place; or gets nothing */
    uint64_t send_bytes, receive_bytes;
    bool is_laid_out;
    bool is_within; /* receive is the own part of send */
    uint32_t posts;
    bool is_running; /* posted, and its end not seen */
    bool is_scribbled;
    tutti_status status; /* of the last end */
    uint32_t failed_rank;
    uint64_t posted_ns, ended_ns;
};

/* A collective on all ranks of a group, perhaps posted several times. */
struct tt_world_job {
    struct tt_world_job *next;
    struct tt_world_group *group;
    uint32_t index; /* of the jobs of the world */
    struct tt_world_part *parts;
    uint64_t *counts;  /* of a reduce-scatter, by rank; NULL: the same of all. Freed with the world */
    uint64_t *factors; /* of a pre-multiplied sum: an element each, by rank; NULL. Freed with the world */
    uint8_t *result;   /* what comes of combining the vectors of this post; NULL */
    uint32_t result_posts;
};

/* What is combined, in jobs that combine. */
enum tt_world_elements {
    TT_WORLD_WORDS,  /* sums of 64-bit integers */
    TT_WORLD_BYTES,  /* of bytes */
    TT_WORLD_FLOATS, /* of fp32, whose bits tell the order: with methods that have one tree only */
    TT_WORLD_AFFINE, /* a user's function that does not commute, of 16 bytes: with methods that keep the order */
    TT_WORLD_ELEMENTS
};

struct tt_world_hooks {
    void *argument;
    /* Each may be NULL. The application of a node: called after its engine ran, and when its alarm has come. */
    void (*application)(void *argument, uint32_t node);
    /* A part's request has ended; status and times are set, the buffer is not scribbled over yet. */
    void (*ended)(void *argument, struct tt_world_job *job, uint32_t rank);
};

/* A node's own. Hosts count from whenever they were started. */
struct tt_world_clock {
    struct tt_sim *sim;
    uint64_t ahead_ns; /* of the simulator's */
};

struct tt_world_options {
    struct tt_sim_options sim; /* its node_count is the world's */
    struct tt_settings settings;
    struct tt_world_hooks hooks;
    uint64_t settle_ns;       /* how long a rank stays for others who may need its copies */
    uint64_t clocks_ahead_ns; /* each node's by up to this */
    enum tt_method
        parts_by;   /* how an allreduce's parts are made, whatever the size; TT_METHOD_RING: as it is built in */
    uint32_t hosts; /* what goes around a ring goes around so many, to which ranks are dealt out; 0: none */
};

struct tt_world {
    struct tt_world_options options;
    struct tt_sim *sim;
    struct tt_engine **engines;    /* by node */
    struct tt_world_clock *clocks; /* by node */
    uint64_t *deadlines_ns;        /* by node: of its engine after it ran last */
    uint64_t *alarms_ns;           /* by node: when its application wants to be called; TT_NEVER */
    uint64_t *soonest_ns;          /* a tree: [leaves + node] is when a node wants to run, [i] the lower of [2 i] and
                                    * [2 i + 1]; so nobody who only waits is looked at */
    uint32_t leaves;
    struct tt_world_group *groups;
    struct tt_world_job *jobs;
    uint32_t group_count, job_count;
    uint8_t *arena; /* the buffers' */
    size_t arena_used_bytes;
    uint64_t violations_seen;
    uint32_t problem_count;
    char problems[TT_WORLD_PROBLEMS][TT_WORLD_PROBLEM_BYTES];
};

/* Simple numbers, for times that can be worked out by hand: see world.c. Loads no environment. */
void tt_world_options_init(struct tt_world_options *options, uint32_t node_count);

/* Ends the process with a message where the harness itself cannot go on. */
struct tt_world *tt_world_create(const struct tt_world_options *options);

/* Checks what was promised about ended requests, frees everything; problems it finds go to `problems` if not NULL (of
 * TT_WORLD_PROBLEM_BYTES), and it returns how many there have been in all. */
uint32_t tt_world_destroy(struct tt_world *world, char *first_problem);

/* --- Groups ------------------------------------------------------------------------------------------------------- */

/* Begins a group of these nodes, rank by rank (NULL: the first `size` nodes), up to the start of the probe. */
struct tt_world_group *tt_world_group_begin(struct tt_world *world, const uint32_t *nodes, uint32_t size);

/* Whether every rank that is alive has its group, or the error instead. */
bool tt_world_group_is_created(const struct tt_world_group *group);

/* Begins, and runs until all ranks have it; a problem if one has an error instead. */
struct tt_world_group *tt_world_group_create(struct tt_world *world, const uint32_t *nodes, uint32_t size);

/* Before leaving: whether nobody may still need what the rank keeps, or the time for that is over (a problem). Not yet:
 * ask again; the world's time moves the rest. */
bool tt_world_settle(struct tt_world_group *group, uint32_t rank);

/* The rank finalizes its requests, none of which may be running, and leaves. */
void tt_world_leave(struct tt_world_group *group, uint32_t rank);

/* --- Collectives -------------------------------------------------------------------------------------------------- */

/* A job with the same terms on all ranks; nothing is posted. */
struct tt_world_job *tt_world_job_create(struct tt_world_group *group, enum tt_collective_kind kind, uint32_t root,
                                         uint64_t block_bytes, enum tt_method method);

/* One that combines: `count` elements of each rank; of a reduce-scatter, that each rank gets, but for rank r
 * (count + r) % 5 * count / 3 if they are `uneven`. */
struct tt_combining tt_world_combining(enum tt_world_elements elements);
/* USER is a function that commutes; of opaque elements, of 12 bytes. */
struct tt_combining tt_world_combining_of(enum tt_type type, enum tt_reduce_operation operation);
struct tt_world_job *tt_world_job_combine_as(struct tt_world_group *group, enum tt_collective_kind kind, uint32_t root,
                                             uint64_t count, struct tt_combining combining, bool uneven,
                                             enum tt_method method);
struct tt_world_job *tt_world_job_combine(struct tt_world_group *group, enum tt_collective_kind kind, uint32_t root,
                                          uint64_t count, enum tt_world_elements elements, bool uneven,
                                          enum tt_method method);

/* Posts this rank's part, now. False if the group has failed or is gone there, or the request could not be made. */
bool tt_world_post(struct tt_world_job *job, uint32_t rank);
void tt_world_post_all(struct tt_world_job *job);
bool tt_world_is_running(const struct tt_world_job *job); /* on a rank that is alive */

/* --- Time --------------------------------------------------------------------------------------------------------- */

static inline uint64_t tt_world_now(const struct tt_world *world)
{
    return tt_sim_now(world->sim);
}

/* The node's clock jumps ahead, as that of a virtual machine does that was moved. */
void tt_world_jump(struct tt_world *world, uint32_t node, uint64_t by_ns);

/* The application of the node is called at this time, or before; whatever it still waits for then it says again. */
void tt_world_wake_at(struct tt_world *world, uint32_t node, uint64_t at_ns);

/* Lets everything happen that happens at the next instant, if that is not after until_ns; else it is until_ns, and the
 * answer is false. */
bool tt_world_step(struct tt_world *world, uint64_t until_ns);

void tt_world_run(struct tt_world *world, uint64_t until_ns);

/* Until the job runs nowhere any more; a problem if that is not so at until_ns. */
void tt_world_run_job(struct tt_world_job *job, uint64_t until_ns);

/* --- Checks ------------------------------------------------------------------------------------------------------- */

void tt_world_problem(struct tt_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A line in the simulator's log, if there is one. */
void tt_world_note(struct tt_world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
