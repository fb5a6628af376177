/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's flow control, between its parent and its children that the test plays. */
#ifndef TT_TEST_FLOW_WORLD_H
#define TT_TEST_FLOW_WORLD_H

#include "machine.h"
#include "proto/flow.h"

struct world {
    struct memory memory;
    struct tt_collective collective;
    struct script script;
    uint64_t now_ns;
};

/* As a collective of this shape sets it up; its window is the shape's, and all agree on that. `hosts`: by rank, or
 * NULL. */
void world_init(struct world *world, const struct shape *shape, const uint64_t *hosts);

/* An update, `later_ns` after the last one; the script holds what it asks for. */
void world_update(struct world *world, uint64_t later_ns);

/* These chunks of a root come, then an update. */
void world_receive(struct world *world, uint32_t root, uint32_t first, uint32_t count, uint64_t later_ns);

bool world_hear(struct world *world, enum tt_frame_type type, uint32_t source, uint32_t turns);

/* The only frame that the last step sent. */
void world_next(struct world *world, enum tt_frame_type type, uint32_t to, uint32_t turns, const char *file, int line);
#define next_tells(world, type, to, turns) world_next((world), (type), (to), (turns), __FILE__, __LINE__)

#endif
