/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A queue of the verbs mcast provider over a device that does nothing by itself: what is posted to it is kept,
 * completions and events come when the test says so. Real devices are in tests/guest. There is one of each.
 */
#ifndef TT_TESTS_UNIT_VERBS_WORLD_H
#define TT_TESTS_UNIT_VERBS_WORLD_H

#include "fabric/verbs/mcast_queue.h"

enum { CHUNK_BYTES = 1000, SLOTS = 256, RANK = 1, OTHER_RANK = 0, INLINE_BYTES = 64, MOST_POSTED = 4096 };

struct posted {
    uint32_t imm, length_bytes, lkey, flags;
    uint64_t id;
    const void *address;
};

/* Of the members, and of nobody; network order. */
enum { OTHER_ADDRESS = 0x0200540A, OWN_ADDRESS = 0x0100540A, STRANGER_ADDRESS = 0x0900540A };

/* The device, of which there is one. */
struct verbs_fake {
    struct ibv_context context;
    struct ibv_cq send_queue, receive_queue;
    struct ibv_qp pair;
    struct posted sends[MOST_POSTED];
    uint32_t send_count, lists, longest_list;
    uint32_t polls;
    bool polls_fail;
    int refuse_from; /* the place in the next list that is refused; -1: none */
    struct ibv_wc completions[2][MOST_POSTED];
    uint32_t completion_count[2];
    uint32_t notifies[2], events[2], modified;
    uint32_t receives[MOST_POSTED];
    uint32_t receive_count, receive_lists;
    struct ibv_async_event async[4]; /* the device's, the oldest last */
    uint32_t async_count, async_reads, async_acks;
    void (*between)(void); /* happens after the next request for an event */
};
extern struct verbs_fake fake;

struct verbs_world {
    struct tt_verbs_device device;
    struct tt_verbs_mcast mcast;
    struct tt_verbs_queue queue;
    struct ibv_comp_channel channels[2];
    struct ibv_mr copies_region;
    struct ibv_recv_wr requests[SLOTS];
    uint8_t copies[TT_VERBS_SEND_DEPTH * CHUNK_BYTES];
    uint8_t staging[SLOTS * (TT_VERBS_SLOT_HEAD_BYTES + 4096)];
    uint64_t table[64];
    struct tt_receive_chunk chunks[SLOTS];
};

extern struct verbs_world world;

/* For cmocka: a queue of rank RANK, introduced to itself and OTHER_RANK. */
int verbs_set_up(void **state);

#endif
