/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of eager collectives in the member machine share: rank 1 of 4, whose left neighbour is 0, and right one 2.
 */
#ifndef TT_TEST_EAGER_WORLD_H
#define TT_TEST_EAGER_WORLD_H

#include "member_world.h"

enum { ASK_NS = 5000000, BYTES = 40, CHUNKS = 3, HALF = TT_EAGER_RING_BYTES / 2 };

/* A Broadcast from rank 0, one from rank 1, and an Allgather; and a Broadcast that is not eager. */
extern const struct shape from_0, from_1, gather, ordinary;

void set_up(struct world *world);
struct memory *memory_of(const struct tt_collective *collective);
struct tt_frame ask_like(const struct tt_collective *collective);
struct tt_frame fetch_of(uint32_t base, uint16_t count, uint64_t bits);

/* Posts what rank 0 sends, and lets it come and end. The copy lies at `place`. */
struct tt_collective *receive_one(struct world *world, uint64_t now_ns, uint64_t place);

#endif
