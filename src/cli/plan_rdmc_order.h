/* SPDX-License-Identifier: BSD-3-Clause */
/* All transfers of an RDMC plan one by one, in the order of their steps and within a step of their senders. */
#ifndef TT_CLI_PLAN_RDMC_ORDER_H
#define TT_CLI_PLAN_RDMC_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan/rdmc.h"

struct tt_plan_move {
    uint64_t step;
    uint64_t block;
    uint32_t from, to;
    enum tt_rdmc_lane lane;
};

struct tt_plan_order {
    const struct tt_rdmc *plan;
    struct tt_plan_move *heap; /* the next one of every member that has one, in every lane; the order's own */
    size_t count;
};

/* False, and nothing is to be destroyed: no memory. The plan must stay as it is. */
bool tt_plan_order_create(const struct tt_rdmc *plan, struct tt_plan_order *order);
void tt_plan_order_destroy(struct tt_plan_order *order);

/* False: that was the last one. */
bool tt_plan_order_next(struct tt_plan_order *order, struct tt_plan_move *move);

#endif
