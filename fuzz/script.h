/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading a fuzzer's input as a script: numbers from its front, zeros once it has ended. */
#ifndef TT_FUZZ_SCRIPT_H
#define TT_FUZZ_SCRIPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct script {
    const uint8_t *at, *end;
};

static inline bool script_ended(const struct script *script)
{
    return script->at == script->end;
}

static inline uint64_t script_take(struct script *script, uint32_t bytes)
{
    uint64_t value = 0;

    for (uint32_t i = 0; i < bytes && script->at < script->end; i++) {
        value |= (uint64_t)*script->at++ << (8 * i);
    }
    return value;
}

/* A number below `limit` (> 0), from one byte or, for larger limits, two. */
static inline uint32_t script_below(struct script *script, uint32_t limit)
{
    return (uint32_t)(script_take(script, limit > 256 ? 2 : 1) % limit);
}

#endif
