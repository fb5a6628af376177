/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A schedule's steps as a sequence of descriptors (Xu et al., section 1.2): to change the algorithm is to change the
 * sequence. What a rank receives in a row into the same blocks is one descriptor with several sources, and what it then
 * sends of the same blocks is that descriptor's packet; so a vertex of a binomial tree fires once for all its children.
 *
 * FromSource is set where the sequence has not written the operand before, so that it may be read from another buffer
 * than the one that is written. What must lie in that one all the same: tt_schedule_given_blocks.
 */
#ifndef TT_OFFLOAD_COMPILE_H
#define TT_OFFLOAD_COMPILE_H

#include <stdint.h>

#include "plan/blocks.h"
#include "plan/schedule.h"
#include "tutti/status.h"
#include "wire/descriptor.h"

struct tt_compile_terms {
    const struct tt_schedule *schedule;
    const struct tt_blocks *blocks;
    uint32_t rank;
    uint8_t job;
    uint16_t port;         /* the VP of all ranks */
    uint32_t turn;         /* of the schedule's, also of all ranks */
    uint32_t ahead;        /* sends of independent exchanges that go before what is received */
    const uint32_t *nodes; /* NodeID of each of the schedule's ranks, all different; NULL: its number */
    uint32_t element_bytes;
};

static inline uint32_t tt_compile_node(const struct tt_compile_terms *terms, uint32_t rank)
{
    return terms->nodes == NULL ? rank : terms->nodes[rank];
}

/* How many steps and descriptors there must be room for, at least 1. */
uint64_t tt_compile_room(const struct tt_compile_terms *terms);

/*
 * Writes the rank's descriptors, encoded, one behind the other. `steps` is room to work in, and both are as long as
 * tt_compile_room() says. *count is how many they are, 1 or more; *largest_bytes the length of the longest operand.
 * TUTTI_ERR_TOO_LARGE: a message is longer than a packet can say.
 */
tutti_status tt_compile(const struct tt_compile_terms *terms, struct tt_schedule_step *steps, uint8_t *descriptors,
                        uint64_t *count, uint64_t *largest_bytes);

/* The same in two parts: the rank's steps, whose number is returned, and descriptors of these. Slices of the same
 * blocks have the same steps if they are apart, or a vector's. */
uint64_t tt_compile_steps(const struct tt_compile_terms *terms, struct tt_schedule_step *steps);
tutti_status tt_compile_descriptors(const struct tt_compile_terms *terms, const struct tt_schedule_step *steps,
                                    uint64_t step_count, uint8_t *descriptors, uint64_t *count,
                                    uint64_t *largest_bytes);

#endif
