/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of one rank's credit, in few words. */
#include "credit_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "plan/dissemination.h"

void world_init(struct world *world, const struct shape *shape)
{
    bool allgather = shape->kind == TT_ALLGATHER;
    struct tt_credit_config config;

    memory_init(&world->memory, shape);
    script_init(&world->script, 0);
    world->template = (struct tt_frame){.source = shape->rank, .group = 77, .sequence = 5};
    config = (struct tt_credit_config){
        .size = shape->size,
        .vertex = tt_rank_subtract(shape->rank, shape->root, shape->size),
        .base = shape->root,
        .root_count = allgather ? shape->size : 1,
        .chains = world->memory.config.terms.chains,
        .subgroups = world->memory.config.terms.subgroups,
        .own_root_index = allgather                    ? shape->rank
                          : shape->rank == shape->root ? 0
                                                       : TT_RANK_NONE,
        .depth_chunks = shape->depth_chunks,
        .streams = world->memory.streams,
        .positions = world->memory.positions,
    };
    tt_credit_init(&world->credit, &config);
}

void world_update(struct world *world, bool finished)
{
    script_clear(&world->script);
    tt_credit_update(&world->credit, finished, &world->template, NULL, &world->script.actions);
}

void world_expect_nothing(struct world *world)
{
    world_update(world, false);
    no_more(&world->script);
}

void world_next_report(struct world *world, uint32_t to, uint32_t quanta)
{
    const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_CREDIT, to);

    assert_true(frame->group == 77 && frame->sequence == 5);
    assert_int_equal(frame->body.credit.quanta, quanta);
    no_more(&world->script);
}
