/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's collective machine under a test that plays everybody else. */
#ifndef TT_TEST_COLLECTIVE_WORLD_H
#define TT_TEST_COLLECTIVE_WORLD_H

#include "machine.h"

enum { COLLECTIVE_SEQUENCE = 5, RECEIVER_BYTES = 16 * 10 };

struct world {
    struct memory memory;
    struct tt_collective collective;
    struct script script;
    bool mismatch;
};

/* A collective that is ready to start. */
void world_init(struct world *world, const struct shape *shape);

/* Steps with an event that has no more to it than type and time. */
bool world_step(struct world *world, enum tt_collective_event_type type, uint64_t now_ns);

bool world_got(struct world *world, uint64_t now_ns, uint32_t run, tutti_status status);
void world_fail(struct world *world, uint64_t now_ns, tutti_status status, uint32_t rank);
void world_fail_without_right(struct world *world, uint64_t now_ns, tutti_status status, uint32_t rank);

/* A frame whose body is all zero, or the one given but for source, group and sequence. */
bool world_hear(struct world *world, uint64_t now_ns, enum tt_frame_type type, uint32_t source);
bool world_hear_frame(struct world *world, uint64_t now_ns, struct tt_frame frame, uint32_t source);
bool world_hear_done(struct world *world, uint64_t now_ns, uint32_t source, uint32_t chain);

/* The barrier's frame of a round, with the terms that are right. */
bool world_hear_barrier(struct world *world, uint64_t now_ns, uint32_t round);

/* GATHER or REMIND without bytes, with the terms that are right. */
bool world_hear_gather(struct world *world, uint64_t now_ns, uint32_t source);
bool world_hear_remind(struct world *world, uint64_t now_ns, uint32_t source);

/* The release comes. */
void world_release(struct world *world, uint64_t now_ns);

/* Starts at time 0 and ends the barrier at `now_ns`; the script holds the actions of the step that ended it. */
void world_pass_barrier(struct world *world, uint64_t now_ns);

/* Rank 1 of 3 in a broadcast of RECEIVER_BYTES from rank 0, after a barrier that ended at time 1. */
void world_init_receiver(struct world *world);

/* The left neighbour's answer to a FETCH: these chunks may be read. */
struct tt_frame world_available(const struct tt_frame *fetch, uint64_t bits);

/* The next action must end the collective with this. */
void world_next_finish(struct world *world, tutti_status status, uint32_t rank, const char *file, int line);
#define next_finishes(world, status, rank) world_next_finish((world), (status), (rank), __FILE__, __LINE__)

#endif
