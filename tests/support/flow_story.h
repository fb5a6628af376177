/* SPDX-License-Identifier: BSD-3-Clause */
/* Large collectives in a star of equal links, 1 us each way, whose switch has ports of which nobody is told. */
#ifndef TT_TEST_FLOW_STORY_H
#define TT_TEST_FLOW_STORY_H

#include "support/story.h"

struct flow_story {
    struct tt_story story;
    uint32_t ranks, chunk_bytes;
    uint64_t bits_per_second;
    uint64_t most_stalls; /* so often a root may go on without a report, in all runs */
};

void flow_story_begin(struct flow_story *flow, uint32_t ranks, uint64_t port_bytes);
void flow_story_end(struct flow_story *flow);

void flow_story_set_rate(struct flow_story *flow, uint32_t rank, uint64_t bits_per_second);

struct tt_world_job *flow_story_job(struct flow_story *flow, enum tt_collective_kind kind, uint32_t chunks);

/* Chunks that ports and receive queues have dropped so far. */
uint64_t flow_story_lost(const struct flow_story *flow);

/* Posts everywhere and runs to the end; returns how long the slowest rank took, in thousandths of what a link takes for
 * so many chunks. */
uint64_t flow_story_run(struct flow_story *flow, struct tt_world_job *job, uint64_t chunks);

#endif
