/* SPDX-License-Identifier: BSD-3-Clause */
/* Floats of all magnitudes: in another order they add up to other bits. */
#ifndef TT_TESTS_WILD_H
#define TT_TESTS_WILD_H

#include <stdint.h>
#include <string.h>

#include "base/random.h"

/* The next one, as fp32 (`bytes` 4) or as bf16 (2), which is the upper half of it. */
static inline void tt_wild_next(struct tt_random *random, void *element, size_t bytes)
{
    uint32_t bits = (uint32_t)tt_random_next(random);
    bits = (bits & 0x807FFFFFU) | (100 + bits % 40) << 23;
    memcpy(element, (const uint8_t *)&bits + 4 - bytes, bytes);
}

#endif
