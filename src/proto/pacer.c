/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A pace. Normal path: a chunk is due every so many nanoseconds; some that are due in quick succession go together. One
 * that is late catches up, but not by more than a sleeping process is late at times.
 */
#include "proto/pacer.h"

#include <assert.h>

#include "base/least.h"

enum {
    GATHER_NS = 50 * 1000,    /* waking up takes about as long as a few chunks */
    LATE_NS = 2 * 1000 * 1000 /* a sender that got no processor makes up for so much of it */
};

uint64_t tt_pacer_chunk_ns(uint32_t rate_kbit, uint32_t heard, uint32_t chunk_bytes)
{
    uint32_t rate = rate_kbit - rate_kbit / 128; /* a little is left for frames, and for clocks that differ */
    uint64_t bits = (uint64_t)(chunk_bytes + TT_PACER_OVERHEAD_BYTES) * heard * 8;

    assert(heard >= 1); /* the sender is */
    if (rate_kbit == TT_PACER_UNKNOWN) {
        return 0;
    }
    return bits * 1000000 / tt_most(rate, TT_PACER_LEAST_KBIT) + 1;
}

void tt_pacer_start(struct tt_pacer *pacer, uint64_t chunk_ns, uint32_t index, uint32_t heard, uint64_t now_ns)
{
    uint64_t first_ns;

    assert(heard >= 1);
    first_ns = now_ns + index % heard * (chunk_ns / heard);
    if (heard == 1) { /* its own link is in front of every port */
        first_ns = now_ns < LATE_NS ? 0 : now_ns - LATE_NS;
    }
    if (chunk_ns != 0 && pacer->next_ns < first_ns) {
        pacer->next_ns = first_ns;
    }
}

uint64_t tt_pacer_due(const struct tt_pacer *pacer, uint64_t chunk_ns, uint32_t limit)
{
    uint64_t all_ns = chunk_ns * (limit - 1);

    assert(limit >= 1); /* of none, none is due */
    return chunk_ns == 0 ? 0 : pacer->next_ns + (all_ns < GATHER_NS ? all_ns : GATHER_NS);
}

uint32_t tt_pacer_allowed(const struct tt_pacer *pacer, uint64_t chunk_ns, uint32_t limit, uint64_t now_ns)
{
    uint64_t late_ns, chunks;

    if (chunk_ns == 0 || limit == 0) {
        return limit;
    }
    if (now_ns < tt_pacer_due(pacer, chunk_ns, limit)) {
        return 0;
    }
    assert(now_ns >= pacer->next_ns);
    late_ns = now_ns - pacer->next_ns;
    chunks = (late_ns < LATE_NS ? late_ns : LATE_NS) / chunk_ns + 1;
    return chunks < limit ? (uint32_t)chunks : limit;
}

void tt_pacer_took(struct tt_pacer *pacer, uint64_t chunk_ns, uint32_t chunks, uint64_t now_ns)
{
    if (chunk_ns == 0) {
        return;
    }
    assert(now_ns >= pacer->next_ns);        /* nothing goes before it is due */
    if (now_ns > pacer->next_ns + LATE_NS) { /* what is later than that is lost */
        pacer->next_ns = now_ns - LATE_NS;
    }
    pacer->next_ns += chunk_ns * chunks;
}
