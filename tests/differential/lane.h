/* SPDX-License-Identifier: BSD-3-Clause */
/* A thread of a rank that takes the turns of a lane; all that goes wrong ends the process with a line. */
#ifndef TT_TESTS_DIFFERENTIAL_LANE_H
#define TT_TESTS_DIFFERENTIAL_LANE_H

#include <stdatomic.h>

#include "integration/job.h"
#include "plan.h"

enum { LANE_CREATIONS = 40, EXCHANGE_BYTES = 16384 };

/* Where the members of a group meet for its creation; each has its own, since its predecessor may still be in use. */
struct meeting {
    _Atomic uint32_t arrived, round;
    uint8_t bytes[MOST_RANKS][EXCHANGE_BYTES];
};

/* What all ranks of a job share. */
struct meetings {
    atomic_bool has_failed; /* somebody will not come any more */
    struct meeting of[MOST_LANES][LANE_CREATIONS];
};

/* One collective that is posted, was, or (at ranks that are no members) is elsewhere. */
struct slot {
    bool used, in_progress;
    uint32_t group;
    struct collective collective;
    uint64_t salt;
    bool in_place;
    tutti_request *request; /* NULL: this rank is no member, or the algorithm does not serve */
    uint64_t send_count, receive_count, part_first;
    uint8_t *send, *receive; /* as allocated, with a byte behind */
    uint8_t *from, *to;      /* where the own elements are read, and the result appears */
    uint64_t factor, calls;  /* of the user's function */
};

struct lane {
    struct job_rank *rank;
    const struct job_plan *plan;
    tutti_context *context;
    struct meetings *meetings;
    uint32_t number;
    bool plants; /* one wrong byte, which must be found */
    struct tt_random random;
    struct member_list lists[LANE_GROUPS];
    tutti_group *groups[LANE_GROUPS]; /* NULL: this rank is no member */
    uint32_t own[LANE_GROUPS];        /* its place in the list */
    struct slot slots[LANE_SLOTS];
    uint32_t turn, creations;
    uint64_t completed, refused, objects;
};

/* For pthread_create(); the argument is the lane. */
void *lane_run(void *argument);

/* slot.c: what is in a slot. A collective that the library says it does not serve is none. */
void slot_init(struct lane *lane, struct slot *slot);
void slot_post(struct lane *lane, struct slot *slot, uint64_t salt);
void slot_finish(struct lane *lane, struct slot *slot, bool by_test);
void slot_clear(struct lane *lane, struct slot *slot);

/* objects.c: an object group, from its creation to its end. */
void objects_run(struct lane *lane, uint32_t group, const struct object_turn *turn, uint64_t salt);

/* The condition is looked at once. */
#define LANE_CHECK(lane_, condition, ...)                                                                              \
    do {                                                                                                               \
        bool lane_holds = (condition);                                                                                 \
        char lane_text[600] = "";                                                                                      \
        if (!lane_holds) {                                                                                             \
            atomic_store(&(lane_)->meetings->has_failed, true);                                                        \
            snprintf(lane_text, sizeof lane_text, __VA_ARGS__);                                                        \
        }                                                                                                              \
        JOB_CHECK((lane_)->rank, lane_holds, "lane %u, turn %u: %s: %s", (lane_)->number, (lane_)->turn, #condition,   \
                  lane_text);                                                                                          \
    } while (0)

#define LANE_OK(lane_, call)                                                                                           \
    do {                                                                                                               \
        tutti_status lane_status = (call);                                                                             \
        LANE_CHECK(lane_, lane_status == TUTTI_OK, "%s: %s: %s", #call, tutti_status_name(lane_status),                \
                   tutti_last_error());                                                                                \
    } while (0)

#endif
