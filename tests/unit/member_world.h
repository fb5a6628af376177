/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's membership under a test that plays its network, its kernels, and the other ranks. */
#ifndef TT_TEST_MEMBER_WORLD_H
#define TT_TEST_MEMBER_WORLD_H

#include "machine.h"
#include "proto/member.h"
#include "support/member_driver.h"

enum { WORLD_IN_FLIGHT = 64, WORLD_REQUESTS = 160, WORLD_BYTES = 160, WORLD_SLAB = 8192 };

struct request {
    struct member_run run;               /* first; the driver's, where there is one */
    uint32_t cursors[MACHINE_SUBGROUPS]; /* of chunks that have been sent */
    bool released;
    struct memory memory;
    struct tt_collective collective;
};

struct world {
    struct tt_member member;
    uint8_t present[2500];
    _Atomic uint64_t heard[4];
    uint32_t request_count;
    struct request *requests[WORLD_REQUESTS];
    struct tt_early_pool pool;
    struct script script; /* from here on it is large, and sets itself up */
    struct tt_member_slot slots[TT_EAGER_WINDOW + 2 * WORLD_IN_FLIGHT];
    struct tt_eager_entry copies[2 * WORLD_IN_FLIGHT];
    _Alignas(8) uint8_t slabs[TT_EARLY_SLABS * WORLD_SLAB];
};

/* A member without requests. world_fini frees what requests it got. */
void world_init(struct world *world, uint32_t rank, uint32_t size, uint32_t in_flight);
void world_fini(struct world *world);

/* Makes a request of this shape (rank and size are the world's) without posting it. */
struct tt_collective *world_request(struct world *world, struct shape shape);

/* Steps; each returns with the script at the first action. */
void world_step(struct world *world, const struct tt_member_event *event);
struct tt_collective *world_post(struct world *world, uint64_t now_ns, struct shape shape);
void world_answer(struct world *world, uint64_t now_ns, enum tt_member_event_type type,
                  struct tt_collective *collective);
void world_tick(struct world *world, uint64_t now_ns);
void world_peer_down(struct world *world, uint64_t now_ns, uint32_t rank);
void world_hear(struct world *world, uint64_t now_ns, struct tt_frame frame, uint32_t source, uint64_t sequence);
void world_hear_type(struct world *world, uint64_t now_ns, enum tt_frame_type type, uint32_t source, uint64_t sequence);

/* The barrier's frame of a round, with this collective's terms. */
void world_hear_barrier(struct world *world, uint64_t now_ns, const struct tt_collective *like, uint64_t sequence,
                        uint32_t round);

/* GATHER of this rank, without bytes, with this collective's terms. */
void world_hear_gather(struct world *world, uint64_t now_ns, const struct tt_collective *like, uint32_t source,
                       uint64_t sequence);

/* The release comes, and says that all before `finished` have ended everywhere. */
void world_release(struct world *world, uint64_t now_ns, struct tt_collective *collective, uint64_t finished);

/* The next action must be of this type and about this collective. */
void world_next_is_for(struct world *world, enum tt_action_type type, const struct tt_collective *collective,
                       const char *file, int line);
#define next_is_for(world, type, collective) world_next_is_for((world), (type), (collective), __FILE__, __LINE__)

void world_next_finish(struct world *world, const struct tt_collective *collective, tutti_status status, uint32_t rank,
                       const char *file, int line);
#define next_finishes(world, collective, status, rank)                                                                 \
    world_next_finish((world), (collective), (status), (rank), __FILE__, __LINE__)

/* The next action must tell this rank of the failure. */
void world_next_fail(struct world *world, uint32_t to, tutti_status status, uint32_t rank, const char *file, int line);
#define next_tells_failure(world, to, status, rank) world_next_fail((world), (to), (status), (rank), __FILE__, __LINE__)

#endif
