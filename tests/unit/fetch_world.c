/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of one fetch machine, in few words. */
#include "fetch_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

void world_init(struct world *world, const struct shape *shape, uint32_t own_root_index)
{
    memory_init(&world->memory, shape);
    script_init(&world->script, 0);
    world->template = (struct tt_frame){.source = 8, .group = 77, .sequence = 5};
    tt_fetch_init(&world->fetch, world->memory.streams, world->memory.config.terms.subgroups, own_root_index);
}

bool world_pump(struct world *world)
{
    bool nothing_missing;

    script_clear(&world->script);
    nothing_missing = tt_fetch_pump(&world->fetch, &world->template, LEFT, NULL, &world->script.actions);
    tt_fetch_check(&world->fetch);
    return nothing_missing;
}

void world_serve(struct world *world)
{
    script_clear(&world->script);
    tt_fetch_serve(&world->fetch, &world->template, RIGHT, NULL, &world->script.actions);
    tt_fetch_check(&world->fetch);
}

bool window_has(const struct tt_window *window, uint32_t index)
{
    return window->bits[index / 64] >> (index % 64) & 1;
}

bool world_tell(struct world *world, uint8_t slot, const struct tt_window *window)
{
    struct tt_frame frame = {
        .type = TT_FRAME_AVAILABLE,
        .source = LEFT,
        .body.available = {
            .slot = slot, .window = *window, .address = ADDRESS, .key_bytes = 3, .key = (const uint8_t *)"abc"}};
    bool fine;

    fine = tt_fetch_available(&world->fetch, &frame);
    tt_fetch_check(&world->fetch);
    return fine;
}

bool world_want(struct world *world, uint8_t slot, const struct tt_window *window)
{
    struct tt_frame frame = {.type = TT_FRAME_FETCH, .source = RIGHT, .body.fetch = {.slot = slot, .window = *window}};
    bool fine = tt_fetch_wanted(&world->fetch, &frame);

    tt_fetch_check(&world->fetch);
    return fine;
}

void world_got(struct world *world, uint32_t run)
{
    assert_true(tt_fetch_got(&world->fetch, run, TUTTI_OK));
    tt_fetch_check(&world->fetch);
}
