/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's machine where blocks are gathered. The surroundings, who put the own block into place at PUBLISH, are the
 * fixture.
 */
#ifndef TT_TEST_GATHER_WORLD_H
#define TT_TEST_GATHER_WORLD_H

#include "collective_world.h"

enum { SMALL = 10, PIECE = TT_FRAME_GATHER_BYTES, REST = 56, LARGE = PIECE + REST, PLACE = 4096 };

/* What the receive buffer is to hold in the end. */
extern uint8_t result[MACHINE_BUFFER_BYTES];

/* A collective that is ready to start, with room for its copy at PLACE; all before 5 have ended. */
void make_world(struct world *world, const struct shape *shape);

/* Starts it at time 0, up to PUBLISH; the other actions of that step are in the script. */
void start(struct world *world);

/* An Allgather that has been started. */
void gather_init(struct world *world, uint32_t rank, uint32_t size, uint32_t block_bytes);

/* A piece of the result, as GATHER. */
struct tt_frame piece_of(const struct world *world, uint32_t offset, uint32_t length);
bool hear_piece(struct world *world, uint64_t now_ns, uint32_t source, uint32_t offset, uint32_t length);

/* The blocks of the ranks from `first` on, from a child; nothing may come of any piece but the last. */
void hear_blocks(struct world *world, uint64_t now_ns, uint32_t source, uint32_t first, uint32_t count);

/* The next action must send this piece of the result, out of the buffer. */
void sends_piece(struct world *world, uint32_t to, uint32_t offset, uint32_t length);

/* What comes down is `chunks` long, and comes: nothing else is left to do than to keep a copy of so much. */
void ends_well(struct world *world, uint64_t now_ns, uint32_t chunks, uint64_t length_bytes);

/* The next action must keep a copy of so much, at PLACE. */
void keeps(struct world *world, uint64_t length_bytes);

void assert_guarded(const uint8_t *bytes, size_t count);

#endif
