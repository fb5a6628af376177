/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of one rank's flow control, in few words. */
#include "flow_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "plan/dissemination.h"

void world_init(struct world *world, const struct shape *shape, const uint64_t *hosts)
{
    bool allgather = shape->kind == TT_ALLGATHER;
    struct tt_flow_config config;
    struct tt_release agreed = tt_release_of(0);

    memory_init(&world->memory, shape);
    script_init(&world->script, 0);
    world->now_ns = 1000;
    world->template = (struct tt_frame){.source = shape->rank, .group = 77, .sequence = 5};
    config = (struct tt_flow_config){
        .size = shape->size,
        .vertex = tt_rank_subtract(shape->rank, shape->root, shape->size),
        .base = shape->root,
        .root_count = allgather ? shape->size : 1,
        .lanes = world->memory.config.terms.chains,
        .subgroups = world->memory.config.terms.subgroups,
        .own_root_index = allgather                    ? shape->rank
                          : shape->rank == shape->root ? 0
                                                       : TT_RANK_NONE,
        .chunk_bytes = world->memory.config.terms.chunk_bytes,
        .heard = world->memory.config.heard,
        .hosts = hosts,
        .streams = world->memory.streams,
        .positions = world->memory.positions,
        .link = world->memory.config.link,
    };
    tt_flow_init(&world->flow, &config);
    tt_flow_reset(&world->flow);
    agreed.window_chunks = tt_flow_window(&world->flow);
    tt_flow_start(&world->flow, &agreed);
    tt_flow_check(&world->flow);
}

void world_update(struct world *world, uint64_t later_ns)
{
    world->now_ns += later_ns;
    script_clear(&world->script);
    tt_flow_update(&world->flow, world->now_ns, &world->template, NULL, &world->script.actions);
    tt_flow_check(&world->flow);
}

void world_receive(struct world *world, uint32_t root, uint32_t first, uint32_t count, uint64_t later_ns)
{
    memory_receive(&world->memory, 0, root * world->memory.streams[0].stripe.chunks + first, count);
    world_update(world, later_ns);
}

bool world_hear(struct world *world, enum tt_frame_type type, uint32_t source, uint32_t turns)
{
    struct tt_frame frame = {.type = type, .source = source, .body.credit.turns = turns};
    bool fine;

    script_clear(&world->script);
    fine = type == TT_FRAME_CREDIT
               ? tt_flow_credit(&world->flow, &frame)
               : tt_flow_grant(&world->flow, &frame, &world->template, NULL, &world->script.actions);
    tt_flow_check(&world->flow);
    return fine;
}

void world_next(struct world *world, enum tt_frame_type type, uint32_t to, uint32_t turns, const char *file, int line)
{
    const struct tt_frame *frame = script_next_send(&world->script, type, to, file, line);

    assert_true(frame->group == 77 && frame->sequence == 5);
    if (frame->body.credit.turns != turns) {
        print_error("%u turns instead of %u\n", frame->body.credit.turns, turns);
        _fail(file, line);
    }
}
