/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's credit, between its parent and its children that the test plays. */
#ifndef TT_TEST_CREDIT_WORLD_H
#define TT_TEST_CREDIT_WORLD_H

#include "machine.h"
#include "proto/credit.h"

struct world {
    struct memory memory;
    struct tt_credit credit;
    struct tt_frame template;
    struct script script;
};

/* As a collective of this shape sets its credit up. */
void world_init(struct world *world, const struct shape *shape);

void world_update(struct world *world, bool finished);

/* An update must report nothing; and what the last one reported must be this and no more. */
void world_expect_nothing(struct world *world);
void world_next_report(struct world *world, uint32_t to, uint32_t quanta);

#endif
