/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two instances of a p2p provider in one process, for the tests of what goes on between them, and a list of tests run
 * over each provider that two processes of one host can use.
 */
#ifndef TT_TESTS_PAIR_FIXTURE_H
#define TT_TESTS_PAIR_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/p2p.h"

struct CMUnitTest;

struct pair_provider {
    const char *name;
    tutti_status (*create)(bool lossless, struct tt_p2p **p2p); /* on the loopback interface */
    bool children_lose_sockets; /* else a connection lives as long as a child that was made meanwhile */
    bool must_be_moving;        /* before a process may die: see test_pair_kills.c */
    bool keeps_frames;   /* by itself until a connection is open; else something below it does, and says nothing */
    bool waits_for_both; /* gets and puts move when the other side has connected, too; else when it is there */
    /* Whether all that was sent to a peer has been acknowledged, in which case nothing is probed; NULL: it cannot know.
     */
    bool (*is_received)(const struct tt_p2p_peer *peer);
    void (*note_loss)(struct tt_p2p *p2p, uint64_t now_ns); /* as if TCP had repeated something; NULL: it cannot tell */
};

/* The one whose tests run. Each test begins with a setup of these, or sets it to its *state. */
extern const struct pair_provider *pair_provider;

/* Runs the tests over every provider (or `only` this one, if not NULL), under the name provider/sentence; those over
 * one that this build or host does not have are skipped with the reason. Nothing of a provider is touched in this
 * process before its first test. Returns the number of failed tests. */
int pair_run(const char *only, const char *group, const struct CMUnitTest *tests, size_t count);

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
int pair_choose(void **state); /* sets pair_provider only */
int pair_make(void **state);
int pair_make_connected(void **state); /* with the cookies 100 (A's peer) and 200 (B's) */
int pair_end(void **state);

void pair_join(int from, int to, uint64_t cookie);
void pair_leave(struct side *side);

/* Notes what an event says; one progress of a side, all its events seen. */
void pair_see(struct side *side, const struct tt_p2p_event *event);
uint32_t pair_turn(struct side *side);

/* Turns both sides until *counter reaches `wanted`; false if that takes more than twenty seconds. */
bool pair_reaches(const uint32_t *counter, uint32_t wanted);
void pair_turn_for(uint64_t duration_ns);

/* Sends frame number `value`, whose length follows from the number; the receiving side checks both. */
void pair_send(struct side *side, uint32_t value);

/* Each side sends frame 0 and receives the other's: after this nothing of the connection remains to be made. */
void pair_exchange(void);

void pair_expose(struct side *side, void *address, size_t length_bytes, struct remote *remote);

#endif
