/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of one rank's flow control, in few words. */
#include "flow_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

void world_init(struct world *world, const struct shape *shape, const uint64_t *hosts)
{
    struct tt_release agreed = tt_release_of(0);

    memory_init(&world->memory, shape);
    script_init(&world->script, 0);
    world->now_ns = 1000;
    world->memory.config.hosts = hosts;
    tt_collective_init(&world->collective, &world->memory.config);
    tt_collective_reset(&world->collective, 5);
    agreed.window_chunks = tt_flow_window(&world->collective);
    tt_flow_start(&world->collective, &agreed);
    tt_flow_check(&world->collective);
}

void world_update(struct world *world, uint64_t later_ns)
{
    world->now_ns += later_ns;
    script_clear(&world->script);
    tt_flow_update(&world->collective, world->now_ns, &world->script.actions);
    tt_flow_check(&world->collective);
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
    fine = type == TT_FRAME_CREDIT ? tt_flow_credit(&world->collective, &frame)
                                   : tt_flow_grant(&world->collective, &frame, &world->script.actions);
    tt_flow_check(&world->collective);
    return fine;
}

void world_next(struct world *world, enum tt_frame_type type, uint32_t to, uint32_t turns, const char *file, int line)
{
    const struct tt_frame *frame = script_next_send(&world->script, type, to, file, line);

    assert_true(frame->group == MACHINE_GROUP && frame->sequence == 5);
    if (frame->body.credit.turns != turns) {
        print_error("%u turns instead of %u\n", frame->body.credit.turns, turns);
        _fail(file, line);
    }
}
