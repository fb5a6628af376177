/* SPDX-License-Identifier: BSD-3-Clause */
/* The start-up probe's frames on one rank: early, said twice, and out of turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe_world.h"

static void frames_before_the_start_are_kept(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 4, true, 1);
    atomic_store(&world.heard[0], 0xE);
    world_hear(&world, 0, 1, TT_PHASE_PROBING);
    assert_true(world_hear_from(&world, 0, 2, TT_PHASE_VOTE, false, 3));
    world_hear(&world, 0, 3, TT_PHASE_VOTE);
    no_more(&world.script);
    assert_true(tt_probe_deadline(&world.probe) == UINT64_MAX);
    world_start(&world, 9);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 1, TT_PHASE_ALL_PROBING, false, 3);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 1);
    world_hear(&world, 10, 1, TT_PHASE_VOTE);
    for (uint32_t child = 1; child < 4; child++) {
        next_says(&world, child, TT_PHASE_RESULT, false, 3);
    }
    next_ends(&world, false, 3);

    world_init(&world, 0, 2, true, 1); /* all there is to know */
    atomic_store(&world.heard[0], 2);
    world_hear(&world, 0, 1, TT_PHASE_VOTE);
    no_more(&world.script);
    world_start(&world, 9);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 1, TT_PHASE_RESULT, true, TT_RANK_NONE);
    next_ends(&world, true, TT_RANK_NONE);
}

static void frames_said_twice_change_nothing(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 4, 18, true, 1);
    atomic_store(&world.heard[0], 0x3FFEF);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    world_tick(&world, 5 * MS);
    next_is(&world.script, TT_ACTION_PROBE);
    world_hear(&world, 6 * MS, 3, TT_PHASE_PROBING);
    world_hear(&world, 6 * MS, 3, TT_PHASE_PROBING);
    no_more(&world.script);
    world_hear(&world, 6 * MS, 5, TT_PHASE_PROBING);
    next_says(&world, 0, TT_PHASE_PROBING, true, TT_RANK_NONE);
    no_more(&world.script);
    world_hear(&world, 7 * MS, 0, TT_PHASE_ALL_PROBING);
    next_says(&world, 5, TT_PHASE_ALL_PROBING, true, TT_RANK_NONE);
    next_says(&world, 3, TT_PHASE_ALL_PROBING, true, TT_RANK_NONE);
    no_more(&world.script);
    world_hear(&world, 8 * MS, 0, TT_PHASE_ALL_PROBING);
    no_more(&world.script);
    assert_int_equal(world.probe.deadline_ns, 307 * MS);
    world_hear(&world, 9 * MS, 3, TT_PHASE_VOTE);
    assert_true(world_hear_from(&world, 9 * MS, 3, TT_PHASE_VOTE, false, 1)); /* the first word counts */
    world_hear(&world, 9 * MS, 3, TT_PHASE_PROBING);
    no_more(&world.script);
    world_hear(&world, 9 * MS, 5, TT_PHASE_VOTE);
    next_says(&world, 0, TT_PHASE_VOTE, true, TT_RANK_NONE);
    no_more(&world.script);
    world_hear(&world, 10 * MS, 0, TT_PHASE_RESULT);
    next_says(&world, 5, TT_PHASE_RESULT, true, TT_RANK_NONE);
    next_says(&world, 3, TT_PHASE_RESULT, true, TT_RANK_NONE);
    next_ends(&world, true, TT_RANK_NONE);
    assert_true(world_hear_from(&world, 11 * MS, 0, TT_PHASE_RESULT, false, 1));
    no_more(&world.script);
    world_hear(&world, 11 * MS, 0, TT_PHASE_ALL_PROBING);
    no_more(&world.script);
    world_hear(&world, 11 * MS, 3, TT_PHASE_VOTE);
    no_more(&world.script);
    world_tick(&world, 400 * MS);
    no_more(&world.script);
}

/* Refused, with all that the rank knows as it was. */
static void refuses(struct world *world, uint32_t source, uint32_t phase, bool yes, uint32_t failed_rank)
{
    struct tt_probe before;

    memcpy(&before, &world->probe, sizeof before); /* with what is between the members */
    assert_false(world_hear_from(world, 1, source, phase, yes, failed_rank));
    no_more(&world->script);
    assert_memory_equal(&before, &world->probe, sizeof before);
}

static void frames_out_of_turn_are_refused(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 4, 18, true, 1);
    for (uint32_t started = 0; started < 2; started++) {
        for (uint32_t source = 0; source < 18; source++) {
            for (uint32_t phase = 0; phase < TT_PHASE_COUNT; phase++) {
                bool is_down = phase == TT_PHASE_ALL_PROBING || phase == TT_PHASE_RESULT;

                /* The parent answers, but nothing has been said; others but the children have nothing to say. */
                if (is_down || (source != 3 && source != 5)) {
                    refuses(&world, source, phase, true, TT_RANK_NONE);
                    refuses(&world, source, phase, false, 3);
                }
            }
        }
        refuses(&world, 3, TT_PHASE_COUNT, true, TT_RANK_NONE);
        refuses(&world, 0, 255, true, TT_RANK_NONE);
        refuses(&world, 3, TT_PHASE_VOTE, false, 18); /* there is no such rank */
        if (started == 0) {
            world_start(&world, 0);
            next_is(&world.script, TT_ACTION_PROBE);
        }
    }
    world_hear(&world, 5 * MS, 3, TT_PHASE_PROBING);
    next_is(&world.script, TT_ACTION_PROBE);
    world_hear(&world, 5 * MS, 5, TT_PHASE_PROBING);
    next_says(&world, 0, TT_PHASE_PROBING, true, TT_RANK_NONE);
    refuses(&world, 0, TT_PHASE_RESULT, true, TT_RANK_NONE); /* without this rank's vote */
    refuses(&world, 3, TT_PHASE_ALL_PROBING, true, TT_RANK_NONE);
    world_hear(&world, 5 * MS, 0, TT_PHASE_ALL_PROBING);
    refuses(&world, 0, TT_PHASE_RESULT, false, 3);
}

static void nobody_tells_the_root_anything_from_above(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 5, true, 1);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    for (uint32_t source = 0; source < 5; source++) {
        refuses(&world, source, TT_PHASE_ALL_PROBING, true, TT_RANK_NONE);
        refuses(&world, source, TT_PHASE_RESULT, true, TT_RANK_NONE);
    }
    refuses(&world, 0, TT_PHASE_PROBING, true, TT_RANK_NONE);
    refuses(&world, 0, TT_PHASE_VOTE, true, TT_RANK_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_before_the_start_are_kept),
        cmocka_unit_test(frames_said_twice_change_nothing),
        cmocka_unit_test(frames_out_of_turn_are_refused),
        cmocka_unit_test(nobody_tells_the_root_anything_from_above),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
