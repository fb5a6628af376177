/* SPDX-License-Identifier: BSD-3-Clause */
/* Which ranks of a group are connected. */
#ifndef TT_TEST_NEIGHBOURS_H
#define TT_TEST_NEIGHBOURS_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/dissemination.h"

static inline bool is_neighbour(uint32_t size, uint32_t one, uint32_t other)
{
    uint32_t neighbours[2 * TT_DISSEMINATION_MAX_ROUNDS];
    uint32_t count = tt_dissemination_neighbours(one, size, neighbours);

    for (uint32_t i = 0; i < count; i++) {
        if (neighbours[i] == other) {
            return true;
        }
    }
    return false;
}

#endif
