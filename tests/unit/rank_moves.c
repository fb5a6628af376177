/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Normal path: show, connect, start; then turns, in which every piece that has arrived is checked and moved again.
 * Failures: what is not as it should be ends the process (rank_check.h).
 */
#include "rank_moves.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "rank_check.h"

enum { PIECE_BYTES = 200000, EVENTS = 16 };

struct moves moves;

static struct moves_shared *in_common;
static struct tt_p2p_memory *memory;
static uint8_t *block, *copies; /* block: source, then targets */
static uint32_t piece_count;

static uint8_t *copy_of(uint64_t cookie)
{
    return copies + cookie * PIECE_BYTES;
}

static void check_status(tutti_status status, uint32_t other)
{
    CHECK(status == TUTTI_OK || (status == TUTTI_ERR_PEER_FAILED && other == VICTIM));
}

/* Every other piece is a get, the rest are puts of this rank's source to its place at the other side. */
static void start_piece(uint64_t cookie)
{
    uint32_t other = (uint32_t)cookie / piece_count;
    const struct moves_shown *shown = &in_common->shown[other];
    struct tt_p2p_peer *peer = moves.peers[other];
    tutti_status status;
    if (cookie % 2 == 0) {
        memset(copy_of(cookie), 0xee, PIECE_BYTES);
        status =
            peer->ops->get(peer, shown->key, shown->key_bytes, shown->source, copy_of(cookie), PIECE_BYTES, cookie);
    } else {
        status = peer->ops->put(peer, shown->key, shown->key_bytes, shown->targets + (uint64_t)rank * PIECE_BYTES,
                                block, PIECE_BYTES, &(struct tt_p2p_immediate){.value = cookie}, cookie);
    }
    check_status(status, other);
    moves.pending[other] += status == TUTTI_OK;
}

static void note_end(uint64_t cookie)
{
    uint32_t other = (uint32_t)cookie / piece_count;
    CHECK(moves.pending[other] > 0);
    moves.pending[other]--;
}

static void piece_done(uint64_t cookie, tutti_status status)
{
    uint32_t other = (uint32_t)cookie / piece_count;
    note_end(cookie);
    check_status(status, other);
    if (status == TUTTI_OK) {
        const uint8_t *copy = copy_of(cookie);
        moves.done_well[other]++;
        for (uint32_t i = 0; i < PIECE_BYTES && cookie % 2 == 0; i++) {
            CHECK(copy[i] == (uint8_t)(i * 7 + other));
        }
        start_piece(cookie);
    }
}

void moves_show(int own, struct tt_p2p *p2p, uint32_t pieces, struct moves_shared *shared)
{
    struct moves_shown *shown = &shared->shown[own];
    const size_t block_bytes = (size_t)(1 + RANKS) * PIECE_BYTES;
    rank = own;
    in_common = shared;
    piece_count = pieces;
    moves.p2p = p2p;
    block = malloc(block_bytes);
    copies = malloc((size_t)RANKS * piece_count * PIECE_BYTES);
    CHECK(block != NULL && copies != NULL);
    for (uint32_t i = 0; i < PIECE_BYTES; i++) {
        block[i] = (uint8_t)(i * 7 + (uint32_t)rank);
    }
    shown->address_bytes = sizeof(shown->address);
    shown->key_bytes = sizeof(shown->key);
    shown->source = (uintptr_t)block;
    shown->targets = (uintptr_t)block + PIECE_BYTES;
    CHECK(p2p->ops->address(p2p, shown->address, &shown->address_bytes) == TUTTI_OK);
    CHECK(p2p->ops->memory_register(p2p, block, block_bytes, &memory) == TUTTI_OK);
    CHECK(p2p->ops->memory_pack(memory, shown->key, &shown->key_bytes) == TUTTI_OK);
}

void moves_connect(int other)
{
    const struct moves_shown *shown = &in_common->shown[other];
    if (other == VICTIM) {
        moves.down = false;
        moves.done_well[VICTIM] = 0;
    }
    CHECK(moves.p2p->ops->connect(moves.p2p, shown->address, shown->address_bytes, (uint64_t)other,
                                  &moves.peers[other]) == TUTTI_OK);
}

void moves_start(int other)
{
    for (uint64_t i = 0; i < piece_count; i++) {
        start_piece((uint64_t)other * piece_count + i);
    }
}

void moves_turn(int wait_ms)
{
    struct tt_p2p_event events[EVENTS];
    uint32_t count = moves.p2p->ops->progress(moves.p2p, events, EVENTS);
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].type == TT_P2P_DONE) {
            piece_done(events[i].cookie, events[i].status);
        } else if (events[i].type == TT_P2P_FRAME) {
            moves.frames++;
        } else if (events[i].type == TT_P2P_PEER_DOWN) {
            CHECK(events[i].peer_cookie == VICTIM && rank != VICTIM && in_common->killed_ns != 0 && !moves.down);
            moves.down = true;
        }
    }
    struct pollfd wait = {.fd = moves.p2p->ops->fd(moves.p2p), .events = POLLIN};
    if (count == 0 && moves.p2p->ops->arm(moves.p2p)) {
        poll(&wait, 1, wait_ms);
    }
}

void moves_last_turn(void)
{
    struct tt_p2p_event events[EVENTS];
    uint32_t count = moves.p2p->ops->progress(moves.p2p, events, EVENTS);
    for (uint32_t i = 0; i < count; i++) {
        if (events[i].type == TT_P2P_DONE) {
            note_end(events[i].cookie);
        }
    }
}

void moves_end(void)
{
    moves.p2p->ops->memory_release(memory);
    moves.p2p->ops->destroy(moves.p2p);
    free(block);
    free(copies);
}
