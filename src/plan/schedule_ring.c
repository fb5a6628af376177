/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: schedules around a ring, among them reduce-scatter from everybody to everybody, and those of
 * plan/allgather.h as such.
 *
 * Normal path: to reduce, block b starts behind its rank, at b + 1, and each rank adds its part on the way to b; to
 * gather, every rank passes on what it got last. Direct: step i is with the ranks that are i away.
 *
 * Failures: none; one rank has no steps.
 */
#include "plan/allgather.h"
#include "plan/dissemination.h"
#include "plan/schedule_rule.h"

void tt_schedule_reduce_scatter_ring(struct tt_schedule_list *list)
{
    uint32_t size = list->schedule->size;
    uint32_t right = tt_rank_add(list->rank, 1, size), left = tt_rank_subtract(list->rank, 1, size);

    for (uint32_t step = 0; step + 1 < size; step++) {
        tt_schedule_exchange(list, &(struct tt_schedule_exchange){
                                       .to = right,
                                       .sent_first = tt_rank_subtract(left, step, size),
                                       .sent_count = 1,
                                       .from = left,
                                       .received_first = tt_rank_subtract(left, step + 1, size),
                                       .received_count = 1,
                                       .kind = TT_SCHEDULE_REDUCED,
                                       .before = true,
                                   });
    }
}

void tt_schedule_reduce_scatter_direct(struct tt_schedule_list *list)
{
    uint32_t size = list->schedule->size, rank = list->rank;

    for (uint32_t step = 1; step < size; step++) {
        uint32_t to = tt_rank_add(rank, step, size);

        tt_schedule_exchange(list, &(struct tt_schedule_exchange){
                                       .to = to,
                                       .sent_first = to,
                                       .sent_count = 1,
                                       .from = tt_rank_subtract(rank, step, size),
                                       .received_first = rank,
                                       .received_count = 1,
                                       .kind = TT_SCHEDULE_REDUCED,
                                       .before = true,
                                   });
    }
}

static void gather_by(struct tt_schedule_list *list, enum tt_allgather_algorithm algorithm)
{
    uint32_t size = list->schedule->size;
    struct tt_allgather_run sent, received;

    for (uint32_t step = 0; tt_allgather_send(algorithm, size, list->rank, step, &sent) &&
                            tt_allgather_receive(algorithm, size, list->rank, step, &received);
         step++) {
        tt_schedule_exchange(list, &(struct tt_schedule_exchange){
                                       .to = sent.peer,
                                       .sent_first = sent.first_block,
                                       .sent_count = sent.block_count,
                                       .from = received.peer,
                                       .received_first = received.first_block,
                                       .received_count = received.block_count,
                                       .kind = TT_SCHEDULE_COPY,
                                   });
    }
}

void tt_schedule_allgather(struct tt_schedule_list *list)
{
    gather_by(list,
              list->schedule->algorithm == TT_SCHEDULE_RING ? TT_ALLGATHER_RING : TT_ALLGATHER_RECURSIVE_DOUBLING);
}

void tt_schedule_allreduce_ring(struct tt_schedule_list *list)
{
    tt_schedule_reduce_scatter_ring(list);
    gather_by(list, TT_ALLGATHER_RING);
}
