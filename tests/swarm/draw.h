/* SPDX-License-Identifier: BSD-3-Clause */
/* How plans are drawn, and by whom. */
#ifndef TT_TESTS_SWARM_DRAW_H
#define TT_TESTS_SWARM_DRAW_H

#include "plan.h"

enum { SWARM_BURST_JOBS = 8 }; /* a burst's, at most: so many collectives of a group are in progress at once */

#define PICK(random, list) ((list)[tt_random_below((random), sizeof(list) / sizeof((list)[0]))])

static inline uint64_t between(struct tt_random *random, uint64_t low, uint64_t high)
{
    return low + tt_random_below(random, high - low + 1);
}

/* As likely to be of one order of magnitude as of another. */
static inline uint64_t log_between(struct tt_random *random, uint64_t low, uint64_t high)
{
    uint64_t top = low;

    while (top < high && tt_random_below(random, 4) != 0) {
        top = top * 4 < high ? top * 4 : high;
    }
    return between(random, low, top);
}

static inline bool one_in(struct tt_random *random, uint32_t n)
{
    return tt_random_below(random, n) == 0;
}

/* Behind all else (hardships.c): what a seed means without it stays. */
void swarm_plan_draw_hardships(struct swarm_plan *plan, uint32_t nodes);

void swarm_plan_print_hardships(const struct swarm_plan *plan, FILE *file);

#endif
