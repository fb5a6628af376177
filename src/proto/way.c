/* SPDX-License-Identifier: BSD-3-Clause */
/* The ways, from the rows of base/method.h; and the parts that have next to nothing to do. */
#include "proto/way.h"

#include <assert.h>
#include <stddef.h>

#include "base/method.h"
#include "proto/collective_private.h"

const struct tt_gate tt_gate_open = {.is_open = true, .start = tt_collective_open};

/* --- Nothing to move ---------------------------------------------------------------------------------------------- */

static void begin_nothing(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    (void)now_ns;
    (void)actions;
    c->state = TT_COLLECTIVE_HANDSHAKE;
    c->final.sent = c->final.received = c->receiving.frozen = true;
}

static void finish(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    (void)now_ns;
    if (tt_collective_buffers_are_free(c)) {
        tt_collective_finish(c, TUTTI_OK, TT_RANK_NONE, actions);
    }
}

const struct tt_mover tt_mover_nothing = {.begin = begin_nothing, .advance = finish};

const struct tt_completion tt_completion_none = {.advance = finish};

/* --- Rows --------------------------------------------------------------------------------------------------------- */

const struct tt_way *tt_way_of(unsigned method, bool nothing)
{
#define ROW(method, gate_name, mover_name, completion_name, ...)                                                       \
    [TT_METHOD_##method] = {&tt_gate_##gate_name, &tt_mover_##mover_name, &tt_completion_##completion_name},
    static const struct tt_way ways[TT_METHOD_COUNT] = {TT_METHODS(ROW)};
    static const struct tt_way barrier = {&tt_gate_barrier, &tt_mover_nothing, &tt_completion_none};
#undef ROW

    assert(method < TT_METHOD_COUNT);
    return nothing ? &barrier : &ways[method];
}
