/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's part of one collective of any size: it is cut into pulses, each a sequence of its own on one of the job's
 * ports, so that as many are in flight as there are ports and the node's pulse controller has credits (Xu et al.,
 * section 1.3). Pulse i is on port i modulo their number at all ranks, whenever it starts there.
 *
 * A pulse is a slice of the vector, or the same slice of every rank's block. All ranks must have the same blocks, ports
 * and pulse size.
 *
 * With a source nothing is copied from it to the buffer before, but what tt_schedule_given_blocks names, a pulse at a
 * time. Whoever has a buffer for a part of the elements says which: that part must have the blocks that the schedule
 * writes, as with a DIRECT algorithm the own one.
 */
#ifndef TT_OFFLOAD_OPERATION_H
#define TT_OFFLOAD_OPERATION_H

#include "offload/compile.h"
#include "offload/offload.h"
#include "offload/pulse.h"

enum { TT_OPERATION_MOST_LANES = 8 };

struct tt_operation_terms {
    struct tt_compile_terms compile; /* `port` is the first of the ports, `blocks` all of the data, without a slice */
    uint32_t lane_count;             /* ports, 1 .. TT_OPERATION_MOST_LANES */
    uint32_t first_lane;             /* below lane_count: which of them the first pulse goes to */
    uint64_t pulse_elements;
    void *buffer;
    struct tt_block_range window;         /* the elements that the buffer has; a count of 0: all */
    const void *source;                   /* all elements, which the buffer has none of yet; NULL: it has them */
    const struct tt_reduction *reduction; /* NULL: nothing is reduced */
    uint64_t retry_ns;                    /* who is not admitted tries again after this */
    uint32_t tries;                       /* and gives up after so many; 0: never */
};

struct tt_operation_lane {
    bool is_busy;
    uint32_t counter;
    uint64_t elements; /* of its pulse */
    uint8_t *descriptors;
};

struct tt_operation {
    struct tt_operation_terms terms;
    struct tt_block_range window; /* of the buffer */
    uint64_t whole_bytes, whole,
        each; /* of all elements; elements of the vector or of the longest block; and of a pulse's slice */
    uint64_t pulse_count, next, ended; /* pulses; started; and over */
    uint32_t held;                     /* counters */
    uint32_t tried;
    uint64_t due_ns; /* when it asks to be admitted again */
    bool is_admitted, is_done;
    tutti_status status;            /* the first that is not OK */
    struct tt_schedule_step *steps; /* of every pulse */
    uint64_t step_count;
    struct tt_operation_lane lanes[TT_OPERATION_MOST_LANES];
};

/* 0: terms that make no sense; a pulse must have an element of each block, if blocks are ranks'. */
size_t tt_operation_memory_bytes(const struct tt_operation_terms *terms);

/* `memory` of so many bytes, aligned to 8, is the operation's until it is done. What the terms point at must stay. */
void tt_operation_init(struct tt_operation *operation, const struct tt_operation_terms *terms, void *memory);

/* Once more, before it has begun or when it is done: of its terms nothing but the buffer, the source, the JobID and the
 * first lane may have changed. So the steps, which cost the more the more ranks there are, are not computed again. */
void tt_operation_again(struct tt_operation *operation, const struct tt_operation_terms *terms);

/* Posts what may be posted; before every step of the engine's that is to execute it, and when it is due. */
void tt_operation_advance(struct tt_operation *operation, struct tt_offload *offload, struct tt_pulses *pulses,
                          uint64_t now_ns);

/* A COMPLETE of one of its ports. After an error it closes the others, and is done when all have ended. */
void tt_operation_ended(struct tt_operation *operation, struct tt_offload *offload, struct tt_pulses *pulses,
                        const struct tt_offload_action *action);

/* UINT64_MAX: never by itself. */
uint64_t tt_operation_deadline(const struct tt_operation *operation);

/* Done, with a status: OK, what a port ended with, or TUTTI_ERR_NO_RESOURCE if it was never admitted. */
static inline bool tt_operation_is_done(const struct tt_operation *operation, tutti_status *status)
{
    if (operation->is_done) {
        *status = operation->status;
    }
    return operation->is_done;
}

#endif
