/* SPDX-License-Identifier: BSD-3-Clause */
/* The members of an mcast world, what each of them has received, and waiting for it. */
#ifndef TT_TESTS_CONFORMANCE_MCAST_WORLD_H
#define TT_TESTS_CONFORMANCE_MCAST_WORLD_H

#include "base/clock.h"
#include "fixture.h"

enum {
    MAX_BATCH = TT_MCAST_POLL_LEAST + 4 * 13,
    STEP_NS = 1000000,
    CHUNK_BYTES = 1024,
    MCAST_FEEDER = 1, /* the thread that polls */
    MCAST_OTHER_SENDER = 2,
    MAX_WINDOWS = 3
};

#define PATIENCE_NS (20 * TT_NS_PER_S)  /* for what must come */
#define QUIET_NS    (30 * TT_NS_PER_MS) /* for what must not */

struct received {
    uint32_t imm, length_bytes, source;
    unsigned char *bytes;
};

/* What one queue has received so far. */
struct inbox {
    struct tt_mcast_queue *queue;
    struct received *received;
    uint32_t count, capacity;
};

struct mcast_world {
    const struct conformance_fixture *fixture;
    void *world;
    struct inbox inboxes[CONFORMANCE_MEMBERS];
};

/* The thread that posts to a member's queues: with some members the one that polls, with the others one of its own. */
uint32_t mcast_sender_of(uint32_t member);
struct tt_mcast_queue *mcast_attach(const struct mcast_world *world, uint32_t member,
                                    const struct tt_mcast_address *address, uint32_t chunk_bytes);
/* The members' names by rank; zeros for a rank that is NULL. */
void mcast_collect_names(struct tt_mcast_queue *const members[CONFORMANCE_MEMBERS],
                         uint8_t names[CONFORMANCE_MEMBERS][TT_MCAST_NAME_BYTES]);
/* Introduces the members of a subgroup, by rank, to each other. */
void mcast_introduce(struct tt_mcast_queue *const members[CONFORMANCE_MEMBERS]);
struct tt_mcast_address mcast_address_of(const struct mcast_world *world, uint32_t index);
/* A world in which every member is attached to subgroup 0. */
struct mcast_world mcast_begin(void **state, uint32_t chunk_bytes);
void mcast_clear(struct inbox *inbox);
void mcast_end(struct mcast_world *world);
/* Copies a chunk that was polled. */
void mcast_keep(struct inbox *inbox, const struct tt_receive_chunk *chunk);
/* One poll and repost; returns the count. */
uint32_t mcast_poll_once(struct inbox *inbox, uint32_t max);
void mcast_await(const struct mcast_world *world, struct inbox *inbox, uint32_t count);
void mcast_wait_quietly(const struct mcast_world *world);
/* Nothing comes any more. */
void mcast_assert_quiet(const struct mcast_world *world, struct inbox *inbox);
void mcast_post_all(const struct mcast_world *world, struct tt_mcast_queue *queue, const struct tt_send_chunk *chunks,
                    uint32_t count);
void mcast_await_sent(const struct mcast_world *world, struct tt_mcast_queue *queue, uint32_t count);
/* Bytes that differ with the place and the salt. */
unsigned char *mcast_pattern(size_t length_bytes, uint32_t salt);
const struct received *mcast_find(const struct inbox *inbox, uint32_t imm);
void mcast_assert_received(const struct inbox *inbox, const struct tt_send_chunk *chunk, uint32_t source);
/* How many chunks a queue surely holds, but no more than the tests have memory for. */
uint32_t mcast_safe_count(struct tt_mcast_queue *queue);

#endif
