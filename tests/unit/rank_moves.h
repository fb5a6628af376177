/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks, each a process, that read from and write to one another's memory by a p2p provider, many pieces at a time; one
 * of them, the victim, is killed meanwhile. What the survivors have to see is checked here: operations that end, each
 * once, with the right data or, to the victim only, as PEER_FAILED; and one PEER_DOWN, of the victim, once it was
 * killed. Ranks find each other through shared memory.
 */
#ifndef TT_TESTS_RANK_MOVES_H
#define TT_TESTS_RANK_MOVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/p2p.h"

enum { SURVIVORS = 2, VICTIM = SURVIVORS, RANKS = SURVIVORS + 1 };

/* What a rank shows the others; the victim's is written anew for each life of it. */
struct moves_shown {
    uint8_t address[TT_P2P_MAX_ADDRESS_BYTES], key[TT_P2P_MAX_KEY_BYTES];
    size_t address_bytes, key_bytes;
    uint64_t source, targets; /* a piece to read; a piece of each rank to write */
};

/* In shared memory, which is the test's. */
struct moves_shared {
    struct moves_shown shown[RANKS];
    _Atomic uint64_t killed_ns; /* when the victim was killed, written before; 0: it lives */
};

/* This process's, from moves_show on. */
extern struct moves {
    struct tt_p2p *p2p;
    struct tt_p2p_peer *peers[RANKS];
    uint32_t pending[RANKS], done_well[RANKS]; /* pieces from and to each */
    uint32_t frames;
    bool down; /* the victim is, since moves_connect */
} moves;

/* Writes this rank's part of `shared`; `pieces` is how many move at once to each of the others. Takes over `p2p`. */
void moves_show(int own, struct tt_p2p *p2p, uint32_t pieces, struct moves_shared *shared);
void moves_connect(int other);
void moves_start(int other);

/* Sees what has come, starts a piece anew that has ended well, sleeps for up to `wait_ms` if nothing has come. */
void moves_turn(int wait_ms);

/* For the end, as others may have left before: nothing is started anew, and nothing but ends of pieces is looked at. */
void moves_last_turn(void);
void moves_end(void);

#endif
