/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole group of member machines in memory, each with a driver. Frames travel as bytes, in order between two ranks
 * and in any order otherwise; chunks and releases are lost as the test says. Time goes on when nothing else can. Where
 * blocks are gathered all bytes are there, and are compared at the end.
 *
 * Engines over the simulator cannot take its place: they answer at once, and here answers come when chance wants it, as
 * they do where other threads receive and send.
 */
#ifndef TT_TEST_MEMBER_GROUP_H
#define TT_TEST_MEMBER_GROUP_H

#include "base/random.h"
#include "member_world.h"

enum { GROUP_MOST = 20, GROUP_LETTERS = 20000 };

struct letter {
    uint32_t from, to, length_bytes;
    uint8_t bytes[TT_FRAME_MAX_BYTES];
};

/* One rank of it. */
struct rank {
    struct group *group;
    uint32_t number;
    bool dead;
    struct member_driver driver;
    uint32_t fails[GROUP_MOST]; /* told to each */
    uint8_t copies[TT_EAGER_RING_BYTES];
};

struct group {
    uint32_t size;
    uint64_t now_ns;
    struct tt_random random;
    uint32_t loss_ppm;
    uint32_t letter_count,
        order[GROUP_LETTERS]; /* places of letters: the first `letter_count`, oldest first, are on their way */
    uint64_t frames[TT_FRAME_TYPE_COUNT]; /* sent so far */
    struct rank ranks[GROUP_MOST];
    struct world worlds[GROUP_MOST]; /* from here on nothing needs clearing */
    struct letter letters[GROUP_LETTERS];
};

static inline const struct member_run *group_run_of(const struct group *group, uint32_t rank, uint32_t request)
{
    return &group->worlds[rank].requests[request]->run;
}

void group_init(struct group *group, uint32_t size, uint32_t in_flight, uint64_t seed);
void group_fini(struct group *group);

struct tt_collective *group_post(struct group *group, uint32_t rank, struct shape shape, uint64_t timeout_ns);

/* The rank vanishes: nothing of it or to it arrives any more, and its neighbours learn it, each at some time. */
void group_kill(struct group *group, uint32_t rank);

/* One thing happens; false if nothing can before `until_ns`, and then it is that late. */
bool group_move(struct group *group, uint64_t until_ns);
void group_run(struct group *group, uint64_t until_ns);

/* Requests of this rank that have finished. */
uint32_t group_finished(const struct group *group, uint32_t rank);

#endif
