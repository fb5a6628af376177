/* SPDX-License-Identifier: BSD-3-Clause */
/* The start-up probe: step by step on one rank, and groups of ranks that exchange frames in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/random.h"
#include "machine.h"
#include "plan/dissemination.h"
#include "proto/probe.h"

enum { MS = 1000 * 1000, TIMEOUT_NS = 300 * MS, MOST = 20 };

struct world {
    struct tt_probe probe;
    _Atomic uint64_t heard[4];
    struct script script;
};

static void set_up(struct world *world, uint32_t rank, uint32_t size, bool multicast, uint32_t subgroups)
{
    memset(world, 0, sizeof *world);
    script_init(&world->script, 0);
    tt_probe_init(&world->probe, rank, size, MACHINE_GROUP, multicast, world->heard, subgroups, TIMEOUT_NS);
}

static void start(struct world *world, uint64_t now_ns)
{
    script_clear(&world->script);
    tt_probe_start(&world->probe, now_ns, &world->script.actions);
}

static void tick(struct world *world, uint64_t now_ns)
{
    script_clear(&world->script);
    tt_probe_tick(&world->probe, now_ns, &world->script.actions);
}

static bool hear_from(struct world *world, uint64_t now_ns, uint32_t source, uint32_t phase, uint32_t round, bool yes,
                      uint32_t failed_rank)
{
    struct tt_frame frame = {.type = TT_FRAME_PROBE,
                             .source = source,
                             .group = MACHINE_GROUP,
                             .body.probe = {(uint8_t)phase, (uint8_t)round, yes, failed_rank}};

    script_clear(&world->script);
    return tt_probe_frame(&world->probe, now_ns, &frame, &world->script.actions);
}

/* The frame of that phase and round, from whom it ought to come. */
static void hear(struct world *world, uint64_t now_ns, uint32_t phase, uint32_t round, bool yes)
{
    uint32_t source = tt_dissemination_from(world->probe.rank, world->probe.size, round);

    assert_true(hear_from(world, now_ns, source, phase, round, yes, yes ? TT_RANK_NONE : 0));
}

static void next_says(struct world *world, uint32_t to, uint32_t phase, uint32_t round, bool yes, uint32_t failed_rank)
{
    const struct tt_frame *frame = next_sends(&world->script, TT_FRAME_PROBE, to);

    assert_true(frame->group == MACHINE_GROUP && frame->source == world->probe.rank);
    assert_int_equal(frame->body.probe.phase, phase);
    assert_int_equal(frame->body.probe.round, round);
    if (phase == 1) {
        assert_int_equal(frame->body.probe.heard_all, yes);
        assert_int_equal(frame->body.probe.failed_rank, failed_rank);
    }
}

static void next_ends(struct world *world, bool multicast, uint32_t failed_rank)
{
    const struct tt_action *action = next_is(&world->script, TT_ACTION_PROBED);

    assert_int_equal(action->body.probe.multicast, multicast);
    assert_int_equal(action->body.probe.failed_rank, failed_rank);
    no_more(&world->script);
    assert_true(tt_probe_deadline(&world->probe) == UINT64_MAX);
}

static void two_ranks_meet_probe_and_vote(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 2, true, 1);
    assert_true(tt_probe_deadline(&world.probe) == UINT64_MAX);
    start(&world, 10);
    next_says(&world, 1, 0, 0, true, TT_RANK_NONE);
    no_more(&world.script); /* nobody is probed before it is there */
    assert_int_equal(tt_probe_waits_for(&world.probe), 1);
    hear(&world, 20, 0, 0, true);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 1, 2, 0, true, TT_RANK_NONE);
    no_more(&world.script);
    assert_int_equal(tt_probe_deadline(&world.probe), 20 + TT_PROBE_INTERVAL_NS);
    atomic_store(&world.heard[0], 2);
    tick(&world, 30);
    next_says(&world, 1, 1, 0, true, TT_RANK_NONE);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 1);
    hear(&world, 40, 1, 0, true);
    next_ends(&world, true, TT_RANK_NONE);
    assert_int_equal(tt_probe_waits_for(&world.probe), TT_RANK_NONE);
    tick(&world, 50);
    no_more(&world.script);
}

static void a_rank_alone_agrees_with_itself(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 1, true, 2);
    start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    next_ends(&world, true, TT_RANK_NONE);
}

static void lost_probes_are_repeated_at_growing_intervals(void **state)
{
    static const uint64_t times_ms[] = {5, 15, 35, 75, 115, 155};
    struct world world;

    (void)state;
    set_up(&world, 0, 2, true, 1);
    start(&world, 0);
    hear(&world, 0, 0, 0, true);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 1, 2, 0, true, TT_RANK_NONE);
    for (size_t i = 0; i < sizeof times_ms / sizeof times_ms[0]; i++) {
        assert_int_equal(tt_probe_deadline(&world.probe), times_ms[i] * MS);
        tick(&world, times_ms[i] * MS - 1);
        no_more(&world.script);
        tick(&world, times_ms[i] * MS);
        next_is(&world.script, TT_ACTION_PROBE);
        no_more(&world.script);
    }
}

static void probing_goes_on_while_others_vote(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 2, true, 1);
    atomic_store(&world.heard[0], 2);
    start(&world, 0);
    hear(&world, 0, 0, 0, true);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 1, 2, 0, true, TT_RANK_NONE);
    next_says(&world, 1, 1, 0, true, TT_RANK_NONE);
    no_more(&world.script);
    assert_int_equal(tt_probe_deadline(&world.probe), 5 * MS);
    tick(&world, 5 * MS);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
}

static void who_is_not_heard_in_time_is_named_and_the_vote_is_no(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 1, 4, true, 1);
    start(&world, 0);
    hear(&world, 0, 0, 0, true);
    hear(&world, 1 * MS, 0, 1, true);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 2, 2, 0, true, TT_RANK_NONE);
    hear(&world, 1 * MS, 2, 0, true);
    next_says(&world, 3, 2, 1, true, TT_RANK_NONE);
    hear(&world, 1 * MS, 2, 1, true);
    no_more(&world.script);
    atomic_store(&world.heard[0], 1); /* 0, but not 2 and 3 */
    tick(&world, 300 * MS);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    tick(&world, 301 * MS);
    next_says(&world, 2, 1, 0, false, 2);
    no_more(&world.script);
    hear(&world, 302 * MS, 1, 1, true);
    no_more(&world.script);
    hear(&world, 303 * MS, 1, 0, true);
    next_says(&world, 3, 1, 1, false, 2);
    next_ends(&world, false, 2);
}

static void the_timeout_begins_when_everybody_is_probing(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 2, true, 1);
    start(&world, 0);
    hear(&world, 0, 0, 0, true);
    tick(&world, 2 * (uint64_t)TIMEOUT_NS); /* the other one has not come out of the barrier yet */
    assert_int_equal(world.probe.state, TT_PROBE_LISTEN);
    assert_int_equal(tt_probe_waits_for(&world.probe), 1);
    hear(&world, 2 * (uint64_t)TIMEOUT_NS, 2, 0, true);
    assert_int_equal(tt_probe_waits_for(&world.probe), TT_RANK_NONE);
    tick(&world, 3 * (uint64_t)TIMEOUT_NS - 1);
    assert_int_equal(world.probe.state, TT_PROBE_LISTEN);
    tick(&world, 3 * (uint64_t)TIMEOUT_NS);
    assert_int_equal(world.probe.state, TT_PROBE_VOTE);
    assert_int_equal(world.probe.failed_rank, 1);
}

static void every_subgroup_must_be_heard(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 70, true, 2); /* two words a subgroup */
    world.probe.state = TT_PROBE_LISTEN;
    world.probe.deadline_ns = TIMEOUT_NS;
    world.probe.next_probe_ns = TIMEOUT_NS;
    world.probe.sent[2] = 7; /* everybody is probing */
    world.probe.received[2] = 0x7F;
    atomic_store(&world.heard[0], ~UINT64_C(1));
    atomic_store(&world.heard[1], 0x3F);
    atomic_store(&world.heard[2], ~UINT64_C(1));
    atomic_store(&world.heard[3], 0x1F); /* rank 69 on the second */
    tick(&world, 1);
    no_more(&world.script);
    atomic_store(&world.heard[3], 0x3F);
    tick(&world, 2);
    next_says(&world, 1, 1, 0, true, TT_RANK_NONE);
    no_more(&world.script);
}

static void one_no_makes_it_no_and_the_lowest_rank_is_named(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4, true, 1);
    atomic_store(&world.heard[0], 0xE);
    start(&world, 0);
    hear(&world, 0, 0, 0, true);
    hear(&world, 0, 0, 1, true);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 1, 2, 0, true, TT_RANK_NONE);
    next_says(&world, 1, 1, 0, true, TT_RANK_NONE);
    no_more(&world.script);
    assert_true(hear_from(&world, 1, 3, 1, 0, false, 3));
    next_says(&world, 2, 1, 1, false, 3);
    no_more(&world.script);
    assert_true(hear_from(&world, 2, 2, 1, 1, false, 1));
    next_ends(&world, false, 1);
}

static void a_vote_of_no_ends_the_listening_of_others(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4, true, 1);
    start(&world, 0);
    hear(&world, 0, 0, 0, true);
    hear(&world, 0, 0, 1, true);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 1, 2, 0, true, TT_RANK_NONE);
    no_more(&world.script);
    assert_true(hear_from(&world, 1, 2, 1, 1, false, 2));
    next_says(&world, 1, 1, 0, false, 2);
    no_more(&world.script);
    assert_true(tt_probe_deadline(&world.probe) == UINT64_MAX); /* nor any more probes */
}

static void without_multicast_ranks_meet_all_the_same(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 2, false, 0);
    start(&world, 0);
    next_says(&world, 1, 0, 0, false, TT_RANK_NONE);
    no_more(&world.script);
    hear(&world, 1, 0, 0, true);
    next_says(&world, 1, 2, 0, false, TT_RANK_NONE);
    next_says(&world, 1, 1, 0, false, TT_RANK_NONE);
    no_more(&world.script);
    hear(&world, 2, 1, 0, true);
    next_ends(&world, false, TT_RANK_NONE);
}

static void frames_before_the_start_are_kept(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 4, true, 1);
    atomic_store(&world.heard[0], 0xE);
    hear(&world, 0, 0, 1, true);
    no_more(&world.script);
    hear(&world, 0, 0, 0, true);
    hear(&world, 0, 1, 1, true);
    no_more(&world.script);
    assert_true(tt_probe_deadline(&world.probe) == UINT64_MAX);
    start(&world, 9);
    next_says(&world, 1, 0, 0, true, TT_RANK_NONE);
    next_says(&world, 2, 0, 1, true, TT_RANK_NONE);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 1, 2, 0, true, TT_RANK_NONE);
    next_says(&world, 1, 1, 0, true, TT_RANK_NONE);
    no_more(&world.script);
}

static void frames_out_of_turn_are_refused(void **state)
{
    struct world world;

    (void)state;
    set_up(&world, 0, 5, true, 1);
    start(&world, 0);
    assert_false(hear_from(&world, 0, 1, 0, 0, true, TT_RANK_NONE));
    assert_false(hear_from(&world, 0, 4, 0, 1, true, TT_RANK_NONE));
    assert_false(hear_from(&world, 0, 4, 0, 3, true, TT_RANK_NONE)); /* there are three rounds */
    assert_false(hear_from(&world, 0, 4, 1, 31, false, 0));
    no_more(&world.script);
    assert_true(world.probe.heard_all);
    assert_int_equal(world.probe.received[0], 0);
}

/* --- Groups ------------------------------------------------------------------------------------------------------- */

struct letter {
    uint32_t to;
    struct tt_frame frame;
};

struct group {
    uint32_t size;
    struct world worlds[MOST];
    bool deaf[MOST][MOST]; /* [who][whom it does not hear] */
    struct letter letters[4096];
    uint32_t letter_count;
    uint32_t ended[MOST];
    bool multicast[MOST];
    uint32_t failed_rank[MOST];
    struct tt_random random;
};

static void carry_out(struct group *group, uint32_t rank)
{
    struct script *script = &group->worlds[rank].script;

    for (uint32_t i = 0; i < script->actions.count; i++) {
        const struct tt_action *action = &script->list[i];

        switch (action->type) {
        case TT_ACTION_SEND:
            assert_true(action->to < group->size && action->to != rank && group->letter_count < 4096);
            group->letters[group->letter_count++] = (struct letter){action->to, action->body.frame};
            break;
        case TT_ACTION_PROBE:
            for (uint32_t other = 0; other < group->size; other++) {
                if (other != rank && !group->deaf[other][rank] && tt_random_chance(&group->random, 700000)) {
                    atomic_fetch_or(&group->worlds[other].heard[0], UINT64_C(1) << rank);
                }
            }
            break;
        default:
            assert_int_equal(action->type, TT_ACTION_PROBED);
            group->ended[rank]++;
            group->multicast[rank] = action->body.probe.multicast;
            group->failed_rank[rank] = action->body.probe.failed_rank;
        }
    }
}

/* Everybody starts at some time, frames arrive in any order and a third of the probes are lost. */
static void run_group(struct group *group, uint32_t size)
{
    uint32_t ended = 0;

    group->size = size;
    group->letter_count = 0;
    memset(group->ended, 0, sizeof group->ended);
    for (uint32_t rank = 0; rank < size; rank++) {
        set_up(&group->worlds[rank], rank, size, true, 1);
    }
    for (uint64_t now_ns = 0; ended < size; now_ns += MS) {
        assert_true(now_ns < 2000 * UINT64_C(1000000));
        for (uint32_t rank = 0; rank < size; rank++) {
            struct world *world = &group->worlds[rank];

            if (now_ns == rank % 3 * UINT64_C(20) * MS) {
                start(world, now_ns);
            } else {
                tick(world, now_ns);
            }
            carry_out(group, rank);
        }
        for (uint32_t i = group->letter_count / 2 + 1; i > 0 && group->letter_count > 0; i--) {
            uint32_t pick = (uint32_t)tt_random_below(&group->random, group->letter_count);
            struct letter letter = group->letters[pick];
            struct world *world = &group->worlds[letter.to];

            group->letters[pick] = group->letters[--group->letter_count];
            script_clear(&world->script);
            assert_true(tt_probe_frame(&world->probe, now_ns, &letter.frame, &world->script.actions));
            carry_out(group, letter.to);
        }
        ended = 0;
        for (uint32_t rank = 0; rank < size; rank++) {
            ended += group->ended[rank];
        }
    }
}

static void all_ranks_learn_the_same_answer_and_it_is_right(void **state)
{
    static struct group group;

    (void)state;
    tt_random_init(&group.random, 77);
    for (uint32_t run = 0; run < 120; run++) {
        uint32_t size = 1 + run % MOST, deaf = run % 4 == 0 ? 0 : (uint32_t)tt_random_below(&group.random, 3);
        bool unheard[MOST] = {0}, fine = true;

        memset(group.deaf, 0, sizeof group.deaf);
        for (uint32_t i = 0; i < deaf && size > 1; i++) {
            uint32_t who = (uint32_t)tt_random_below(&group.random, size);
            uint32_t whom = (who + 1 + (uint32_t)tt_random_below(&group.random, size - 1)) % size;

            group.deaf[who][whom] = true;
            unheard[whom] = true;
            fine = false;
        }
        run_group(&group, size);
        for (uint32_t rank = 0; rank < size; rank++) {
            assert_int_equal(group.ended[rank], 1);
            assert_int_equal(group.multicast[rank], fine);
            assert_int_equal(group.failed_rank[rank], group.failed_rank[0]);
        }
        assert_true(fine ? group.failed_rank[0] == TT_RANK_NONE : unheard[group.failed_rank[0]]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ranks_meet_probe_and_vote),
        cmocka_unit_test(a_rank_alone_agrees_with_itself),
        cmocka_unit_test(lost_probes_are_repeated_at_growing_intervals),
        cmocka_unit_test(probing_goes_on_while_others_vote),
        cmocka_unit_test(who_is_not_heard_in_time_is_named_and_the_vote_is_no),
        cmocka_unit_test(the_timeout_begins_when_everybody_is_probing),
        cmocka_unit_test(every_subgroup_must_be_heard),
        cmocka_unit_test(one_no_makes_it_no_and_the_lowest_rank_is_named),
        cmocka_unit_test(a_vote_of_no_ends_the_listening_of_others),
        cmocka_unit_test(without_multicast_ranks_meet_all_the_same),
        cmocka_unit_test(frames_before_the_start_are_kept),
        cmocka_unit_test(frames_out_of_turn_are_refused),
        cmocka_unit_test(all_ranks_learn_the_same_answer_and_it_is_right),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
