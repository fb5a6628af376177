/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A whole group of member machines in memory. Frames travel as bytes, in order between two ranks and in any order
 * otherwise; answers come when they like; chunks and releases are lost as the test says. Time goes on when nothing else
 * can. Where blocks are gathered all bytes are there, and are compared at the end.
 */
#ifndef TT_TEST_MEMBER_GROUP_H
#define TT_TEST_MEMBER_GROUP_H

#include "base/random.h"
#include "member_world.h"

enum { GROUP_MOST = 20, GROUP_LETTERS = 20000, GROUP_ANSWERS = 8000 };

struct letter {
    uint32_t from, to, length_bytes;
    uint8_t bytes[TT_FRAME_MAX_BYTES];
};

struct answer {
    uint32_t rank;
    struct tt_member_event event;
};

/* What the surroundings know of one run of a request. */
struct run {
    bool published, frozen, canceled, released, kept, sent, finished;
    uint32_t cursors[MACHINE_SUBGROUPS];
    tutti_status status;
    uint32_t failed_rank;
};

struct group {
    uint32_t size;
    uint64_t now_ns;
    struct tt_random random;
    uint32_t loss_ppm;
    struct run runs[GROUP_MOST][WORLD_REQUESTS];
    bool dead[GROUP_MOST];
    uint32_t letter_count,
        order[GROUP_LETTERS]; /* places of letters: the first `letter_count`, oldest first, are on their way */
    uint32_t answer_count;
    uint64_t frames[TT_FRAME_TYPE_COUNT]; /* sent so far */
    uint32_t fails[GROUP_MOST][GROUP_MOST];
    uint8_t copies[GROUP_MOST][TT_EAGER_RING_BYTES];
    struct world worlds[GROUP_MOST]; /* from here on nothing needs clearing */
    struct letter letters[GROUP_LETTERS];
    struct answer answers[GROUP_ANSWERS];
};

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
