/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's end of the fetch ring, between a left and a right neighbour that the test plays. */
#ifndef TT_TEST_FETCH_WORLD_H
#define TT_TEST_FETCH_WORLD_H

#include "machine.h"
#include "proto/fetch.h"

enum { LEFT = 7, RIGHT = 9 };
#define ADDRESS UINT64_C(0x7F0000000000) /* of the left neighbour's buffer; its key is "abc" */

struct world {
    struct memory memory;
    struct tt_fetch fetch;
    struct tt_frame template;
    struct script script;
};

void world_init(struct world *world, const struct shape *shape, uint32_t own_root_index);

/* Steps of the machine; the script holds what they asked for. */
bool world_pump(struct world *world);
void world_serve(struct world *world);

/* What the left neighbour says, what the right one wants, and a get that ends well. */
bool world_tell(struct world *world, uint8_t slot, const struct tt_window *window);
bool world_want(struct world *world, uint8_t slot, const struct tt_window *window);
void world_got(struct world *world, uint32_t run);

bool window_has(const struct tt_window *window, uint32_t index);

#endif
