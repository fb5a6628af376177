/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Carries out any lists of steps of plan/schedule.h, one a rank, and judges what comes of them. Knows no algorithm, so
 * lists that are wrong on purpose can be handed in as well.
 *
 * A message is taken from where it lies at the sender only when it is accepted: if it is the next one that its receiver
 * reads, or else if there is room. Until then the sender writes nothing, and after `window` such messages sends
 * nothing. So with no room at all it is a world of rendezvous, the worst that the triggered engine may make of its
 * buffers.
 */
#ifndef SCHEDULE_CHECK_H
#define SCHEDULE_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/schedule.h"
#include "support/affine.h"

enum { SCHEDULE_MOST_RANKS = 40, SCHEDULE_MOST_ELEMENTS = 160, SCHEDULE_MOST_STEPS = 400 };

struct schedule_world {
    uint32_t room;   /* messages that a rank keeps besides the next one */
    uint32_t window; /* messages of a rank that are sent and not accepted */
    uint64_t seed;   /* of the order in which ranks go on */
    bool commutes;
};

struct schedule_lists {
    struct tt_schedule schedule;
    struct tt_blocks blocks;
    uint64_t element_count;
    struct tt_schedule_step steps[SCHEDULE_MOST_RANKS][SCHEDULE_MOST_STEPS];
    uint64_t counts[SCHEDULE_MOST_RANKS];
};

/* The lists of all ranks. `element_count` is that of the whole vector. */
void schedule_lists_write(struct schedule_lists *lists, const struct tt_schedule *schedule,
                          const struct tt_blocks *blocks, uint64_t element_count);

/* NULL, or what is wrong. */
const char *schedule_check(const struct schedule_lists *lists, const struct schedule_world *world);

#endif
