/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the world of triggered engines share; nobody else includes it. */
#ifndef SUPPORT_OFFLOAD_WORLD_PRIVATE_H
#define SUPPORT_OFFLOAD_WORLD_PRIVATE_H

#include "affine.h"
#include "base/random.h"
#include "offload_world.h"

enum { OFFLOAD_MOST_ITERATIONS = 3 };

struct offload_job {
    const struct offload_job_plan *plan;
    struct tt_schedule schedule;
    struct tt_blocks blocks; /* without a slice */
    uint64_t firsts[OFFLOAD_MOST_NODES], counts[OFFLOAD_MOST_NODES];
    uint64_t total, longest; /* elements; of a block */
    /* Of the ranks, the iterations' one behind the other; and what was in them when an iteration had ended. */
    struct affine *buffers[OFFLOAD_MOST_NODES], *results[OFFLOAD_MOST_NODES];
    struct affine *sources[OFFLOAD_MOST_NODES];                  /* NULL: they are in the buffers */
    uint64_t ended[OFFLOAD_MOST_NODES][OFFLOAD_MOST_ITERATIONS]; /* sequences */
};

/* What a rank posts to one of its ports, in order. */
struct offload_lane {
    uint32_t job, rank, lane, node;
    uint64_t posted, ended, count; /* sequences */
    uint64_t next_ns;              /* when it posts again */
    uint8_t **descriptors;         /* of each */
};

/* A packet arrives; data that is fetched is read from where it lies; or is all there. */
enum offload_flight_kind { OFFLOAD_ARRIVES, OFFLOAD_IS_READ, OFFLOAD_IS_FETCHED };

/* What a REMOTE packet carries, and some bytes more. */
struct offload_reference {
    const void *operand;
    uint32_t length_bytes;
};

struct offload_flight {
    enum offload_flight_kind kind;
    uint64_t time_ns, order;
    uint32_t from, to;
    uint32_t length_bytes; /* with the header; or of the data */
    uint8_t header[TT_TRIGGER_PACKET_BYTES + TT_TRIGGER_MAX_REFERENCE_BYTES];
    const void *payload; /* or the operand that is fetched */
    void *destination;
    uint16_t port;
    uint64_t done_ns; /* when it is fetched */
    tutti_status status;
};

struct offload_world {
    const struct offload_plan *plan;
    struct offload_result *result;
    FILE *log;
    struct tt_random random;
    uint64_t now_ns, order;
    struct tt_offload *nodes[OFFLOAD_MOST_NODES];
    uint64_t closes_ns[OFFLOAD_MOST_NODES]; /* when it hears of the death; UINT64_MAX: never, or it has */
    struct offload_job jobs[OFFLOAD_MOST_JOBS];
    struct offload_lane *lanes;
    uint32_t lane_count;
    struct offload_flight *flights; /* a heap */
    uint32_t flight_count, flight_room;
};

#define FAULT(world, ...)                                                                                              \
    ((world)->result->fault[0] == '\0'                                                                                 \
         ? (void)snprintf((world)->result->fault, sizeof(world)->result->fault, __VA_ARGS__)                           \
         : (void)0)

/* A lane's, of one iteration. */
static inline uint64_t offload_pulses_of(const struct offload_job_plan *plan, uint32_t lane)
{
    return plan->pulses > lane ? (plan->pulses - lane + plan->lanes - 1) / plan->lanes : 0;
}

/* Whether the node that dies has a rank of the job. */
static inline bool offload_is_hit(const struct offload_world *world, uint32_t job)
{
    const struct offload_job_plan *plan = &world->plan->jobs[job];

    for (uint32_t rank = 0; rank < plan->size; rank++) {
        if (plan->nodes[rank] == world->plan->dead_node) {
            return true;
        }
    }
    return false;
}

static inline bool offload_is_dead(const struct offload_world *world, uint32_t node)
{
    return node == world->plan->dead_node && world->now_ns >= world->plan->death_ns;
}

/* Memory is the world's until it is destroyed. */
void offload_world_create(struct offload_world *world);
void offload_world_destroy(struct offload_world *world);

/* Of the inputs of one iteration of a job. */
uint64_t offload_data_seed(const struct offload_world *world, uint32_t job, uint64_t iteration);

/* At the end: whether all has ended, and rightly. */
void offload_world_judge(struct offload_world *world);

#endif
