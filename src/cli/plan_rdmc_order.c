/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: a plan's transfers as one sequence, in memory for the members alone, however many steps there are.
 *
 * Normal path: every member's sends are a list in order of steps; a heap of the first of each list gives the first of
 * all, whose member then puts in its next.
 *
 * Failures: no memory for the heap.
 */
#include "cli/plan_rdmc_order.h"

#include <stdlib.h>

static bool comes_before(const struct tt_plan_move *a, const struct tt_plan_move *b)
{
    if (a->step != b->step) {
        return a->step < b->step;
    }
    return a->from != b->from ? a->from < b->from : a->lane < b->lane;
}

static bool find_move(const struct tt_rdmc *plan, uint32_t from, enum tt_rdmc_lane lane, uint64_t step,
                      struct tt_plan_move *move)
{
    struct tt_rdmc_transfer transfer;
    if (!tt_rdmc_next_send(plan, from, lane, step, &transfer)) {
        return false;
    }
    *move = (struct tt_plan_move){
        .step = transfer.step, .block = transfer.block, .from = from, .to = transfer.peer, .lane = lane};
    return true;
}

/* Lets the entry at `index` sink to where it belongs. */
static void sink(struct tt_plan_order *order, size_t index)
{
    struct tt_plan_move *heap = order->heap;
    for (;;) {
        size_t first = index;
        for (size_t child = 2 * index + 1; child <= 2 * index + 2 && child < order->count; child++) {
            first = comes_before(&heap[child], &heap[first]) ? child : first;
        }
        if (first == index) {
            return;
        }
        struct tt_plan_move other = heap[first];
        heap[first] = heap[index];
        heap[index] = other;
        index = first;
    }
}

bool tt_plan_order_create(const struct tt_rdmc *plan, struct tt_plan_order *order)
{
    size_t lanes = tt_rdmc_lane_count(plan);
    struct tt_plan_move *heap = calloc(plan->member_count * lanes, sizeof(*heap));
    if (heap == NULL) {
        return false;
    }
    *order = (struct tt_plan_order){.plan = plan, .heap = heap};
    for (uint32_t member = 0; member < plan->member_count; member++) {
        for (size_t lane = 0; lane < lanes; lane++) {
            order->count += find_move(plan, member, (enum tt_rdmc_lane)lane, 0, &heap[order->count]);
        }
    }
    for (size_t i = order->count / 2; i > 0; i--) {
        sink(order, i - 1);
    }
    return true;
}

void tt_plan_order_destroy(struct tt_plan_order *order)
{
    free(order->heap);
    order->heap = NULL;
}

bool tt_plan_order_next(struct tt_plan_order *order, struct tt_plan_move *move)
{
    if (order->count == 0) {
        return false;
    }
    struct tt_plan_move *top = &order->heap[0];
    *move = *top;
    if (!find_move(order->plan, move->from, move->lane, move->step + 1, top)) {
        *top = order->heap[--order->count];
    }
    sink(order, 0);
    return true;
}
