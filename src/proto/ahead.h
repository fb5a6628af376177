/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far the roots of a collective may be ahead of the slowest receiver, all of them together.
 *
 * A receive queue may hold much more than the switch ports in front of it, and while nobody knows what those take, all
 * that the roots are ahead may have to wait there. So a group begins with little, and allows twice as much after every
 * Allgather of which nothing was lost, up to what the queues hold; who is ahead by more waits for credit less often.
 * Where something was lost, be it because a rank got no processor and its queue was full, it is little again, and stays
 * so as long as a rate that was found (proto/pace.h) holds the roots back: a port that is full has no room to give.
 *
 * All of it is for each subgroup: their queues are drained side by side, and so are they filled.
 *
 * Ranks learn each for itself; the barrier finds the least of all, which is what holds (struct tt_release).
 */
#ifndef TT_PROTO_AHEAD_H
#define TT_PROTO_AHEAD_H

#include <stdbool.h>
#include <stdint.h>

struct tt_ahead {
    uint32_t least_chunks;  /* always allowed */
    uint32_t most_chunks;   /* what every receive queue of the group holds */
    uint32_t chunks;        /* what this rank thinks right, and says in the barrier */
    uint32_t agreed_chunks; /* the last that all agreed on, as far as this rank has heard */
};

/* What a rank has seen of a collective. */
struct tt_ahead_sample {
    uint32_t expected;      /* chunks of a subgroup */
    uint32_t agreed_chunks; /* how far the roots were allowed to be ahead */
    bool has_rivals;        /* several roots sent at once */
    bool is_lossy;          /* more was lost than noise explains */
    bool is_found;          /* the rate is one that was found by losing */
};

void tt_ahead_init(struct tt_ahead *ahead, uint32_t depth_chunks, uint32_t chunk_bytes);

/* All ranks agree on this much. */
void tt_ahead_agreed(struct tt_ahead *ahead, uint32_t chunks);

/* A collective has ended. */
void tt_ahead_ended(struct tt_ahead *ahead, const struct tt_ahead_sample *sample);

#endif
