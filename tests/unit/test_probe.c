/* SPDX-License-Identifier: BSD-3-Clause */
/* The start-up probe, step by step on one rank: listening and voting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "probe_world.h"

static void the_root_hears_everybody_and_all_votes_and_tells_the_result(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 3, true, 1);
    assert_true(tt_probe_deadline(&world.probe) == UINT64_MAX);
    assert_int_equal(tt_probe_waits_for(&world.probe), TT_RANK_NONE);
    world_start(&world, 10);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    assert_int_equal(tt_probe_deadline(&world.probe), 10 + TT_PROBE_INTERVAL_NS);
    assert_int_equal(tt_probe_waits_for(&world.probe), 1);
    world_hear(&world, 20, 1, TT_PHASE_VOTE);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 2);
    atomic_store(&world.heard[0], 6);
    world_tick(&world, 30);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 2);
    world_hear(&world, 40, 2, TT_PHASE_VOTE);
    next_says(&world, 1, TT_PHASE_RESULT, true, TT_RANK_NONE);
    next_says(&world, 2, TT_PHASE_RESULT, true, TT_RANK_NONE);
    next_ends(&world, true, TT_RANK_NONE);
    world_tick(&world, 50 * MS);
    no_more(&world.script);
}

static void another_rank_votes_once_it_has_heard_everybody_and_gets_the_result(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 2, 3, true, 1);
    world_start(&world, 10);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 0); /* has not heard it */
    atomic_store(&world.heard[0], 1);
    world_tick(&world, 20);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 1);
    atomic_store(&world.heard[0], 3);
    world_tick(&world, 30);
    next_says(&world, 0, TT_PHASE_VOTE, true, TT_RANK_NONE);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 0);
    world_hear(&world, 40, 0, TT_PHASE_RESULT);
    next_ends(&world, true, TT_RANK_NONE);
    world_tick(&world, 50 * MS);
    no_more(&world.script);
}

/* In a group of 18 rank 4 has the children 5 and 3, in this order, and rank 0 is its parent. */
static void an_inner_rank_speaks_for_its_children_and_passes_on_what_it_is_told(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 4, 18, true, 1);
    assert_int_equal(world.probe.child_count, 2);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    assert_int_equal(tt_probe_waits_for(&world.probe), 3); /* the lowest, though its second child */
    world_tick(&world, 5 * MS);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script); /* not all are probing */
    world_hear(&world, 6 * MS, 3, TT_PHASE_PROBING);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 5);
    world_hear(&world, 7 * MS, 5, TT_PHASE_VOTE); /* is probing, too */
    next_says(&world, 0, TT_PHASE_PROBING, true, TT_RANK_NONE);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 0);
    world_hear(&world, 8 * MS, 0, TT_PHASE_ALL_PROBING);
    next_says(&world, 3, TT_PHASE_ALL_PROBING, true, TT_RANK_NONE);
    no_more(&world.script);                                /* rank 5 has voted already */
    assert_int_equal(tt_probe_waits_for(&world.probe), 0); /* has not heard it */
    atomic_store(&world.heard[0], 0x3FFEF);
    world_tick(&world, 9 * MS);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 3); /* its vote */
    world_hear(&world, 10 * MS, 3, TT_PHASE_VOTE);
    next_says(&world, 0, TT_PHASE_VOTE, true, TT_RANK_NONE);
    no_more(&world.script);
    world_hear(&world, 11 * MS, 0, TT_PHASE_RESULT);
    next_says(&world, 5, TT_PHASE_RESULT, true, TT_RANK_NONE);
    next_says(&world, 3, TT_PHASE_RESULT, true, TT_RANK_NONE);
    next_ends(&world, true, TT_RANK_NONE);
}

static void a_rank_alone_agrees_with_itself(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 1, true, 2);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    next_ends(&world, true, TT_RANK_NONE);
    world_init(&world, 0, 1, false, 0);
    world_start(&world, 0);
    next_ends(&world, false, TT_RANK_NONE);
}

static void lost_probes_are_repeated_at_growing_intervals(void **state)
{
    static const uint64_t times_ms[] = {5, 15, 35, 75, 115, 155};
    struct world world;

    (void)state;
    world_init(&world, 0, 2, true, 1);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    for (size_t i = 0; i < sizeof times_ms / sizeof times_ms[0]; i++) {
        assert_int_equal(tt_probe_deadline(&world.probe), times_ms[i] * MS);
        world_tick(&world, times_ms[i] * MS - 1);
        no_more(&world.script);
        world_tick(&world, times_ms[i] * MS);
        next_is(&world.script, TT_ACTION_PROBE);
        no_more(&world.script);
    }
}

/* On every subgroup. */
static void a_rank_probes_when_the_probe_of_24_ranks_below_has_come(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 30, 40, true, 2);
    world_start(&world, 10);
    no_more(&world.script);
    assert_int_equal(tt_probe_deadline(&world.probe), 10 + TT_PROBE_INTERVAL_NS);
    atomic_store(&world.heard[0], UINT64_C(1) << 6);
    atomic_store(&world.heard[1], UINT64_C(1) << 5 | UINT64_C(1) << 7);
    world_tick(&world, 20);
    no_more(&world.script);
    atomic_store(&world.heard[1], UINT64_C(1) << 6);
    world_tick(&world, 30);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    assert_int_equal(tt_probe_deadline(&world.probe), 30 + TT_PROBE_INTERVAL_NS);
    world_tick(&world, 40);
    no_more(&world.script);
}

static void it_does_not_wait_for_a_probe_that_may_be_lost(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 24, 40, true, 1);
    world_start(&world, 0);
    world_tick(&world, 5 * MS - 1);
    no_more(&world.script);
    world_tick(&world, 5 * MS);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    atomic_store(&world.heard[0], 1);
    world_tick(&world, 6 * MS); /* it has had its turn */
    no_more(&world.script);
    world_init(&world, 23, 40, true, 1);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
}

static void probing_goes_on_until_the_result_is_known(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 1, 2, true, 1);
    atomic_store(&world.heard[0], 1);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 0, TT_PHASE_VOTE, true, TT_RANK_NONE);
    no_more(&world.script);
    assert_int_equal(tt_probe_deadline(&world.probe), 5 * MS);
    world_tick(&world, 5 * MS);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script); /* it has voted: that it is probing need not be said */
    assert_int_equal(tt_probe_deadline(&world.probe), 15 * MS);
    assert_true(world_hear_from(&world, 15 * MS, 0, TT_PHASE_RESULT, false, 0));
    next_ends(&world, false, 0);
}

static void who_is_not_heard_in_time_is_named_and_the_vote_is_no(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 1, 4, true, 1);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    atomic_store(&world.heard[0], 1); /* 0, but not 2 and 3 */
    world_tick(&world, 5 * MS);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 0, TT_PHASE_PROBING, true, TT_RANK_NONE);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 0);
    world_hear(&world, 6 * MS, 0, TT_PHASE_ALL_PROBING);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 2);
    world_tick(&world, 305 * MS);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    assert_int_equal(tt_probe_deadline(&world.probe), 306 * MS);
    world_tick(&world, 306 * MS - 1);
    no_more(&world.script);
    world_tick(&world, 306 * MS);
    next_says(&world, 0, TT_PHASE_VOTE, false, 2);
    no_more(&world.script);
    assert_int_equal(tt_probe_deadline(&world.probe), 325 * MS);
    atomic_store(&world.heard[0], 0xF); /* too late */
    world_tick(&world, 307 * MS);
    no_more(&world.script);
    assert_true(world_hear_from(&world, 308 * MS, 0, TT_PHASE_RESULT, false, 2));
    next_ends(&world, false, 2);
}

static void the_timeout_begins_when_everybody_is_probing(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 2, true, 1);
    world_start(&world, 0);
    world_tick(&world, 2 * (uint64_t)TIMEOUT_NS); /* the other one has not started yet */
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 1);
    world_hear(&world, 2 * (uint64_t)TIMEOUT_NS, 1, TT_PHASE_PROBING);
    next_says(&world, 1, TT_PHASE_ALL_PROBING, true, TT_RANK_NONE);
    no_more(&world.script);
    world_tick(&world, 3 * (uint64_t)TIMEOUT_NS - 1);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    assert_int_equal(tt_probe_deadline(&world.probe), 3 * (uint64_t)TIMEOUT_NS);
    assert_int_equal(world.probe.state, TT_PROBE_LISTEN);
    world_tick(&world, 3 * (uint64_t)TIMEOUT_NS);
    no_more(&world.script);
    assert_int_equal(world.probe.state, TT_PROBE_DECIDED);
    assert_int_equal(world.probe.failed_rank, 1);
    assert_int_equal(tt_probe_waits_for(&world.probe), 1);
    world_hear(&world, 3 * (uint64_t)TIMEOUT_NS, 1, TT_PHASE_VOTE);
    next_says(&world, 1, TT_PHASE_RESULT, false, 1);
    next_ends(&world, false, 1);
}

/* A rank that starts last may know at its start that all are probing, and that it has heard nobody. */
static void a_root_that_starts_last_has_the_whole_timeout_too(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 2, true, 1);
    world_hear(&world, 100 * MS, 1, TT_PHASE_PROBING);
    no_more(&world.script);
    world_start(&world, 2000 * (uint64_t)MS);
    next_is(&world.script, TT_ACTION_PROBE);
    next_says(&world, 1, TT_PHASE_ALL_PROBING, true, TT_RANK_NONE);
    no_more(&world.script);
    world_tick(&world, 2300 * (uint64_t)MS - 1);
    next_is(&world.script, TT_ACTION_PROBE);
    assert_int_equal(tt_probe_deadline(&world.probe), 2300 * (uint64_t)MS);
}

static void every_subgroup_must_be_heard(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 1, 70, true, 2); /* two words a subgroup */
    assert_int_equal(world.probe.child_count, 0);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    atomic_store(&world.heard[0], ~UINT64_C(2));
    atomic_store(&world.heard[1], 0x3F);
    atomic_store(&world.heard[2], ~UINT64_C(2));
    atomic_store(&world.heard[3], 0x1F); /* rank 69 on the second */
    world_tick(&world, 1);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 69);
    atomic_store(&world.heard[3], 0x3F);
    world_tick(&world, 2);
    next_says(&world, 0, TT_PHASE_VOTE, true, TT_RANK_NONE);
    no_more(&world.script);
}

static void one_no_makes_it_no_and_the_lowest_rank_is_named(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 4, true, 1);
    atomic_store(&world.heard[0], 0xE);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    assert_true(world_hear_from(&world, 1, 3, TT_PHASE_VOTE, false, 2));
    assert_true(world_hear_from(&world, 2, 2, TT_PHASE_VOTE, false, 1));
    no_more(&world.script);
    assert_true(world_hear_from(&world, 2, 1, TT_PHASE_VOTE, false, 3));
    for (uint32_t child = 1; child < 4; child++) {
        next_says(&world, child, TT_PHASE_RESULT, false, 1);
    }
    next_ends(&world, false, 1);
}

static void a_vote_of_no_ends_the_listening_of_others(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 4, true, 1);
    world_start(&world, 0);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    assert_true(world_hear_from(&world, 1, 2, TT_PHASE_VOTE, false, 3));
    no_more(&world.script);
    assert_int_equal(world.probe.state, TT_PROBE_DECIDED);
    assert_int_equal(tt_probe_deadline(&world.probe), 5 * MS); /* others may still listen to this one */
    world_hear(&world, 2, 1, TT_PHASE_VOTE);
    world_hear(&world, 2, 3, TT_PHASE_PROBING); /* and begin to wait for that when they know that all are probing */
    next_says(&world, 3, TT_PHASE_ALL_PROBING, false, 3);
    no_more(&world.script);
    world_hear(&world, 3, 3, TT_PHASE_VOTE);
    for (uint32_t child = 1; child < 4; child++) {
        next_says(&world, child, TT_PHASE_RESULT, false, 3); /* nobody is named that was only not waited for */
    }
    next_ends(&world, false, 3);
}

static void without_multicast_ranks_meet_all_the_same(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 0, 2, false, 0);
    world_start(&world, 0);
    no_more(&world.script);
    assert_true(tt_probe_deadline(&world.probe) == UINT64_MAX);
    assert_int_equal(tt_probe_waits_for(&world.probe), 1);
    assert_true(world_hear_from(&world, 1, 1, TT_PHASE_VOTE, false, TT_RANK_NONE));
    next_says(&world, 1, TT_PHASE_RESULT, false, TT_RANK_NONE);
    next_ends(&world, false, TT_RANK_NONE);

    world_init(&world, 1, 2, false, 0);
    world_start(&world, 0);
    next_says(&world, 0, TT_PHASE_VOTE, false, TT_RANK_NONE);
    no_more(&world.script);
    assert_true(tt_probe_deadline(&world.probe) == UINT64_MAX);
    assert_true(world_hear_from(&world, 1, 0, TT_PHASE_RESULT, false, TT_RANK_NONE));
    next_ends(&world, false, TT_RANK_NONE);
}

/* Where others do try, they wait for the word that all are probing, which has to pass through here. */
static void a_rank_without_multicast_says_at_once_that_its_children_are_probing(void **state)
{
    struct world world;

    (void)state;
    world_init(&world, 4, 18, false, 0);
    world_start(&world, 0);
    no_more(&world.script);
    world_hear(&world, 1, 3, TT_PHASE_PROBING);
    no_more(&world.script);
    world_hear(&world, 2, 5, TT_PHASE_PROBING);
    next_says(&world, 0, TT_PHASE_PROBING, false, TT_RANK_NONE);
    no_more(&world.script);
    world_hear(&world, 3, 0, TT_PHASE_ALL_PROBING);
    next_says(&world, 5, TT_PHASE_ALL_PROBING, false, TT_RANK_NONE);
    next_says(&world, 3, TT_PHASE_ALL_PROBING, false, TT_RANK_NONE);
    no_more(&world.script);
}

static const uint64_t two_hosts[] = {1, 1, 1, 2, 2, 2};

static uint64_t speakers_of(const uint64_t *hosts, uint32_t size)
{
    uint64_t speakers[2] = {0, ~UINT64_C(0)};

    tt_probe_choose_speakers(hosts, size, speakers);
    assert_true(size > 64 || speakers[1] == ~UINT64_C(0)); /* no more than is there */
    return speakers[0];
}

static void the_two_lowest_ranks_of_each_host_speak(void **state)
{
    static const uint64_t one[] = {7}, same[] = {7, 7, 7, 7}, turns[] = {1, 2, 3, 1, 2, 3, 1}, alone[] = {1, 2, 3, 4};
    uint64_t hosts[65];

    (void)state;
    assert_int_equal(speakers_of(one, 1), 1);
    assert_int_equal(speakers_of(same, 4), 3);
    assert_int_equal(speakers_of(two_hosts, 6), 0x1B);
    assert_int_equal(speakers_of(turns, 7), 0x3F);
    assert_int_equal(speakers_of(alone, 4), 0xF);
    for (uint32_t rank = 0; rank < 65; rank++) {
        hosts[rank] = rank / 63;
    }
    assert_true(speakers_of(hosts, 65) == (UINT64_C(1) << 63 | 3));
}

static void only_speakers_are_waited_for_and_only_they_speak(void **state)
{
    struct world world;

    (void)state;
    world_init_hosts(&world, 5, 6, two_hosts);
    world_start(&world, 10);
    no_more(&world.script);
    atomic_store(&world.heard[0], 3);
    world_tick(&world, 20);
    no_more(&world.script);
    assert_int_equal(tt_probe_waits_for(&world.probe), 3);
    atomic_store(&world.heard[0], 0x1B);
    world_tick(&world, 30);
    next_says(&world, 0, TT_PHASE_VOTE, true, TT_RANK_NONE);
    no_more(&world.script);
    /* A speaker does not wait for itself. */
    world_init_hosts(&world, 4, 6, two_hosts);
    world_start(&world, 10);
    next_is(&world.script, TT_ACTION_PROBE);
    no_more(&world.script);
    atomic_store(&world.heard[0], 0x0B);
    world_tick(&world, 30);
    next_says(&world, 0, TT_PHASE_VOTE, true, TT_RANK_NONE);
    no_more(&world.script);
}

/* It says that it is probing when its second probe would go, and votes no like the others. */
static void who_does_not_speak_listens_as_long_as_others(void **state)
{
    struct world world;

    (void)state;
    world_init_hosts(&world, 5, 6, two_hosts);
    world_start(&world, 0);
    world_tick(&world, TT_PROBE_INTERVAL_NS);
    next_says(&world, 0, TT_PHASE_PROBING, true, TT_RANK_NONE);
    no_more(&world.script);
    world_hear(&world, 6 * MS, 0, TT_PHASE_ALL_PROBING);
    world_tick(&world, 6 * MS + TIMEOUT_NS);
    next_says(&world, 0, TT_PHASE_VOTE, false, 0);
    no_more(&world.script);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_root_hears_everybody_and_all_votes_and_tells_the_result),
        cmocka_unit_test(another_rank_votes_once_it_has_heard_everybody_and_gets_the_result),
        cmocka_unit_test(an_inner_rank_speaks_for_its_children_and_passes_on_what_it_is_told),
        cmocka_unit_test(a_rank_alone_agrees_with_itself),
        cmocka_unit_test(lost_probes_are_repeated_at_growing_intervals),
        cmocka_unit_test(a_rank_probes_when_the_probe_of_24_ranks_below_has_come),
        cmocka_unit_test(it_does_not_wait_for_a_probe_that_may_be_lost),
        cmocka_unit_test(probing_goes_on_until_the_result_is_known),
        cmocka_unit_test(who_is_not_heard_in_time_is_named_and_the_vote_is_no),
        cmocka_unit_test(the_timeout_begins_when_everybody_is_probing),
        cmocka_unit_test(a_root_that_starts_last_has_the_whole_timeout_too),
        cmocka_unit_test(every_subgroup_must_be_heard),
        cmocka_unit_test(one_no_makes_it_no_and_the_lowest_rank_is_named),
        cmocka_unit_test(a_vote_of_no_ends_the_listening_of_others),
        cmocka_unit_test(the_two_lowest_ranks_of_each_host_speak),
        cmocka_unit_test(only_speakers_are_waited_for_and_only_they_speak),
        cmocka_unit_test(who_does_not_speak_listens_as_long_as_others),
        cmocka_unit_test(without_multicast_ranks_meet_all_the_same),
        cmocka_unit_test(a_rank_without_multicast_says_at_once_that_its_children_are_probing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
