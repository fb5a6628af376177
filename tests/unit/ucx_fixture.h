/* SPDX-License-Identifier: BSD-3-Clause */
/* Two instances of the UCX provider in one process, for the tests of what goes on between them. */
#ifndef TT_TESTS_UCX_FIXTURE_H
#define TT_TESTS_UCX_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/ucx/ucx.h"

enum { A, B, SIDES };
/* What one instance has seen. */
struct side {
    struct tt_p2p *p2p;
    struct tt_p2p_peer *peer;
    uint8_t address[TT_P2P_MAX_ADDRESS_BYTES];
    size_t address_bytes;
    uint32_t frames, dones, immediates, downs;
    uint32_t frames_at_down; /* frames seen before the first PEER_DOWN */
    uint64_t down_cookie, last_immediate;
    tutti_status last_status;
    uint32_t next_value; /* of the frames of test_order */
    bool order_broken;
};

extern struct side pair_sides[SIDES];

struct remote {
    struct tt_p2p_memory *memory;
    uint8_t key[TT_P2P_MAX_KEY_BYTES];
    size_t key_bytes;
};

/* cmocka's setup and teardown. */
int pair_make(void **state);
int pair_make_connected(void **state); /* with the cookies 100 (A's peer) and 200 (B's) */
int pair_end(void **state);

void pair_join(int from, int to, uint64_t cookie);
void pair_leave(struct side *side);

/* Notes what an event says; one progress of a side, all its events seen. */
void pair_see(struct side *side, const struct tt_p2p_event *event);
uint32_t pair_turn(struct side *side);

/* Turns both sides until *counter reaches `wanted`; false if that takes more than five seconds. */
bool pair_reaches(const uint32_t *counter, uint32_t wanted);
void pair_turn_for(uint64_t duration_ns);

/* Sends frame number `value`, whose length follows from the number; the receiving side checks both. */
void pair_send(struct side *side, uint32_t value);

void pair_expose(struct side *side, void *address, size_t length_bytes, struct remote *remote);

#endif
