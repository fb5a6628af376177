/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Rounds of the dissemination pattern (plan/dissemination.h), in which everybody hears from everybody: a rank sends
 * a round once it has heard those before it. They go from the nearest ranks to the farthest, 0, 1, .., or the other
 * way: what a rank knows of then is itself and those at any sum of the distances so far, so after all rounds that is
 * everybody, in whatever order. In front of what is fetched or goes through an object group, when room
 * among eager collectives is counted anew, and before an object group is closed.
 */
#ifndef TT_PROTO_ROUNDS_H
#define TT_PROTO_ROUNDS_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "plan/dissemination.h"
#include "wire/frame.h"

struct tt_rounds {
    uint32_t sent;  /* rounds */
    uint32_t heard; /* a bit a round */
    bool far_first; /* the last one first; the same at all ranks */
};

/* Number `index` in the order in which they go. */
static inline uint32_t tt_rounds_at(const struct tt_rounds *rounds, uint32_t size, uint32_t index)
{
    return rounds->far_first ? tt_dissemination_rounds(size) - 1 - index : index;
}

/* The first ones in that order: a bit a round. */
static inline uint32_t tt_rounds_first(const struct tt_rounds *rounds, uint32_t size, uint32_t count)
{
    uint32_t bits = (uint32_t)((UINT64_C(1) << count) - 1);

    return rounds->far_first ? bits << (tt_dissemination_rounds(size) - count) : bits;
}

static inline bool tt_rounds_has(const struct tt_rounds *rounds, uint32_t round)
{
    return round < TT_DISSEMINATION_MAX_ROUNDS && (rounds->heard >> round & 1) != 0;
}

/* Whether there is such a round for this rank, and the sender is who sends it. */
static inline bool tt_rounds_is_from(uint32_t rank, uint32_t size, uint32_t round, uint32_t source)
{
    return round < tt_dissemination_rounds(size) && source == tt_dissemination_from(rank, size, round);
}

static inline void tt_rounds_hear(struct tt_rounds *rounds, uint32_t round)
{
    assert(round < TT_DISSEMINATION_MAX_ROUNDS);
    rounds->heard |= UINT32_C(1) << round;
}

/* Whether the next round goes out now; *round is its number then, and it counts as sent. */
static inline bool tt_rounds_next(struct tt_rounds *rounds, uint32_t size, uint32_t *round)
{
    if (rounds->sent == tt_dissemination_rounds(size) ||
        (tt_rounds_first(rounds, size, rounds->sent) & ~rounds->heard) != 0) {
        return false;
    }
    *round = tt_rounds_at(rounds, size, rounds->sent++);
    return true;
}

static inline bool tt_rounds_are_over(const struct tt_rounds *rounds, uint32_t size)
{
    uint32_t count = tt_dissemination_rounds(size);

    assert(rounds->sent <= count);
    return rounds->sent == count && rounds->heard == tt_rounds_first(rounds, size, count);
}

/* Who sends the first round that has not been heard; TT_RANK_NONE: there is none. */
static inline uint32_t tt_rounds_wait_for(const struct tt_rounds *rounds, uint32_t rank, uint32_t size)
{
    for (uint32_t index = 0; index < tt_dissemination_rounds(size); index++) {
        uint32_t round = tt_rounds_at(rounds, size, index);

        if (!tt_rounds_has(rounds, round)) {
            return tt_dissemination_from(rank, size, round);
        }
    }
    return TT_RANK_NONE;
}

/* A round goes out when all before it have come in. */
static inline void tt_rounds_check(const struct tt_rounds *rounds, uint32_t size)
{
    assert(rounds->sent <= tt_dissemination_rounds(size));
    assert((rounds->heard & ~tt_rounds_first(rounds, size, tt_dissemination_rounds(size))) == 0);
    assert(rounds->sent == 0 || (tt_rounds_first(rounds, size, rounds->sent - 1) & ~rounds->heard) == 0);
}

#endif
