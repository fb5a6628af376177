/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of the schedules share; nobody else includes it. */
#ifndef TT_PLAN_SCHEDULE_RULE_H
#define TT_PLAN_SCHEDULE_RULE_H

#include "plan/fold.h"
#include "plan/schedule.h"

/* Where the steps of one rank go while they are computed: into an array, or, to number messages that another rank sends
 * to this one, to `sender`'s steps. */
struct tt_schedule_list {
    const struct tt_schedule *schedule;
    const struct tt_blocks *blocks;
    uint32_t rank;
    struct tt_schedule_step *steps;
    uint64_t capacity, count;
    /* Of the second. */
    uint32_t sender;
    uint64_t sender_cursor, sender_count;
    uint64_t received;             /* messages so far */
    struct tt_schedule_step *last; /* of the sender's: what the last step so far receives */
};

/* A step with a run of blocks, which may wrap around behind the last block and is cut where it is not in one piece. */
void tt_schedule_add(struct tt_schedule_list *list, enum tt_schedule_kind kind, uint32_t peer, uint32_t first_block,
                     uint32_t block_count, bool before);

/* A run that is sent to one rank and a run that is received from one. */
struct tt_schedule_exchange {
    uint32_t to, sent_first, sent_count;
    uint32_t from, received_first, received_count;
    enum tt_schedule_kind kind; /* COPY or REDUCED */
    bool before;
};

/* Both, piece by piece in turn: who sent all pieces first would wait for each to be taken, while nobody reads. */
void tt_schedule_exchange(struct tt_schedule_list *list, const struct tt_schedule_exchange *exchange);

/* Each adds the steps of list->rank. */
void tt_schedule_barrier(struct tt_schedule_list *list);
void tt_schedule_broadcast_binomial(struct tt_schedule_list *list);
void tt_schedule_broadcast_double_tree(struct tt_schedule_list *list);
void tt_schedule_reduce_binomial(struct tt_schedule_list *list);
void tt_schedule_reduce_halving(struct tt_schedule_list *list);
void tt_schedule_allreduce_doubling(struct tt_schedule_list *list);
void tt_schedule_allreduce_halving(struct tt_schedule_list *list);
void tt_schedule_allreduce_ring(struct tt_schedule_list *list);
void tt_schedule_reduce_scatter_ring(struct tt_schedule_list *list);
void tt_schedule_reduce_scatter_direct(struct tt_schedule_list *list);
void tt_schedule_reduce_scatter_halving(struct tt_schedule_list *list);
void tt_schedule_allgather(struct tt_schedule_list *list);
void tt_schedule_gather(struct tt_schedule_list *list);
void tt_schedule_scatter(struct tt_schedule_list *list);
void tt_schedule_gather_direct(struct tt_schedule_list *list);
void tt_schedule_scatter_direct(struct tt_schedule_list *list);

#endif
