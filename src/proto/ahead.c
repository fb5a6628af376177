/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Normal path: an Allgather of more than was allowed ends without loss, and the next one may be twice as far ahead. A
 * loss, or a rate that was found, takes it back at once. What a single root sends says nothing: its own link is in
 * front of every port.
 */
#include "proto/ahead.h"

enum {
    LEAST_BYTES = 3 << 20 /* a few milliseconds of slow links, and more than the time between two looks on others */
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

void tt_ahead_init(struct tt_ahead *ahead, uint32_t depth_chunks, uint32_t chunk_bytes)
{
    uint32_t cautious = chunk_bytes < LEAST_BYTES ? LEAST_BYTES / chunk_bytes : 1;

    ahead->most_chunks = depth_chunks;
    ahead->least_chunks = least(cautious, depth_chunks);
    ahead->chunks = ahead->agreed_chunks = ahead->least_chunks;
}

void tt_ahead_agreed(struct tt_ahead *ahead, uint32_t chunks)
{
    ahead->agreed_chunks = chunks;
}

void tt_ahead_ended(struct tt_ahead *ahead, const struct tt_ahead_sample *sample)
{
    if (sample->is_lossy || sample->is_found) {
        ahead->chunks = ahead->least_chunks;
    } else if (sample->has_rivals && sample->expected > sample->agreed_chunks &&
               sample->agreed_chunks <= ahead->chunks) { /* or it was agreed on before a loss */
        uint32_t twice = least(sample->agreed_chunks, UINT32_MAX / 2) * 2;

        ahead->chunks = twice < ahead->least_chunks ? ahead->least_chunks : least(twice, ahead->most_chunks);
    }
}
