/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * x -> scale x + offset, modulo 2^64. Composition is associative and does not commute, so that what comes of a
 * reduction says in which order it was done; with scale 1 it is a sum, which does not say.
 */
#ifndef SUPPORT_AFFINE_H
#define SUPPORT_AFFINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

struct affine {
    uint64_t scale, offset;
};

/* The right one is applied first. */
static inline struct affine affine_compose(struct affine left, struct affine right)
{
    return (struct affine){left.scale * right.scale, left.scale * right.offset + left.offset};
}

/* The same as a user's operation; *context counts its calls. */
static inline void affine_compose_counted(void *destination, const void *left, const void *right, uint64_t count,
                                          void *context)
{
    struct affine *to = (struct affine *)destination;
    const struct affine *a = (const struct affine *)left, *b = (const struct affine *)right;

    (*(uint64_t *)context)++;
    for (uint64_t i = 0; i < count; i++) {
        to[i] = affine_compose(a[i], b[i]);
    }
}

/* What a rank puts in at an element. */
static inline struct affine affine_initial(bool commutes, uint64_t seed, uint32_t rank, uint64_t element)
{
    struct tt_random random;

    tt_random_init(&random, seed * UINT64_C(0x100000001B3) + rank * UINT64_C(1000003) + element);
    uint64_t scale = commutes ? 1 : tt_random_next(&random) | 1;

    return (struct affine){scale, tt_random_next(&random)};
}

static inline bool affine_is(struct affine a, struct affine b)
{
    return a.scale == b.scale && a.offset == b.offset;
}

#endif
