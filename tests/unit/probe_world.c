/* SPDX-License-Identifier: BSD-3-Clause */
/* The fixture of the start-up probe's tests. */
#include "probe_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

void world_init(struct world *world, uint32_t rank, uint32_t size, bool multicast, uint32_t subgroups)
{
    memset((void *)world->heard, 0, sizeof world->heard);
    script_init(&world->script, 0);
    tt_probe_init(&world->probe, rank, size, MACHINE_GROUP, multicast, NULL, world->heard, subgroups, TIMEOUT_NS);
}

void world_init_hosts(struct world *world, uint32_t rank, uint32_t size, const uint64_t *hosts)
{
    world_init(world, rank, size, true, 1);
    tt_probe_choose_speakers(hosts, size, world->speakers);
    tt_probe_init(&world->probe, rank, size, MACHINE_GROUP, true, world->speakers, world->heard, 1, TIMEOUT_NS);
}

void world_start(struct world *world, uint64_t now_ns)
{
    script_clear(&world->script);
    tt_probe_start(&world->probe, now_ns, &world->script.actions);
    tt_probe_check(&world->probe);
}

void world_tick(struct world *world, uint64_t now_ns)
{
    script_clear(&world->script);
    tt_probe_tick(&world->probe, now_ns, &world->script.actions);
    tt_probe_check(&world->probe);
}

bool world_hear_from(struct world *world, uint64_t now_ns, uint32_t source, uint32_t phase, bool yes,
                     uint32_t failed_rank)
{
    struct tt_frame frame = {.type = TT_FRAME_PROBE,
                             .source = source,
                             .group = MACHINE_GROUP,
                             .body.probe = {.phase = (uint8_t)phase,
                                            .heard_all = yes,
                                            .failed_rank = failed_rank,
                                            .deaf_rank = failed_rank == TT_RANK_NONE ? TT_RANK_NONE : source,
                                            .deaf_count = failed_rank != TT_RANK_NONE}};
    bool fine;

    script_clear(&world->script);
    fine = tt_probe_frame(&world->probe, now_ns, &frame, &world->script.actions);
    tt_probe_check(&world->probe);
    return fine;
}

void world_hear(struct world *world, uint64_t now_ns, uint32_t source, uint32_t phase)
{
    assert_true(world_hear_from(world, now_ns, source, phase, true, TT_RANK_NONE));
}

void next_says(struct world *world, uint32_t to, uint32_t phase, bool yes, uint32_t failed_rank)
{
    const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_PROBE, to);

    assert_true(frame->group == MACHINE_GROUP && frame->source == world->probe.rank);
    assert_int_equal(frame->body.probe.phase, phase);
    if (phase == TT_PHASE_VOTE || phase == TT_PHASE_RESULT) {
        assert_int_equal(frame->body.probe.heard_all, yes);
        assert_int_equal(frame->body.probe.failed_rank, failed_rank);
    }
}

void next_ends(struct world *world, bool multicast, uint32_t failed_rank)
{
    const struct tt_action *action = next_is(&world->script, TT_ACTION_PROBED);

    assert_int_equal(action->body.probe.multicast, multicast);
    assert_int_equal(action->body.probe.failed_rank, failed_rank);
    no_more(&world->script);
    assert_true(tt_probe_deadline(&world->probe) == UINT64_MAX);
    assert_int_equal(tt_probe_waits_for(&world->probe), TT_RANK_NONE);
}
