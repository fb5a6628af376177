/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank learns of its link: when windows grow, when they shrink, who shares them, and what comes over it at all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "flow_world.h"

#define MS UINT64_C(1000000)

enum { WINDOW = 64, STEP = WINDOW / TT_FLOW_REPORTS, CHUNKS = 9000, WIRE = 16 + TT_PACER_OVERHEAD_BYTES };

static const struct shape receiver = {.rank = 1, .size = 2, .block_bytes = 16 * CHUNKS, .window_chunks = WINDOW};

static struct world world;
static uint32_t come;

static void begin(const struct shape *shape, const uint64_t *hosts)
{
    world_init(&world, shape, hosts);
    come = 0;
}

static uint32_t window(void)
{
    return world.memory.link.window_bytes / WIRE;
}

/* So many chunks of the root come, all that this rank has allowed. */
static void all_that_is_allowed_comes(uint64_t taken_ns)
{
    uint32_t count = world.collective.flow.own - come;

    world_receive(&world, 0, come, count, taken_ns);
    come += count;
}

static void a_step_comes(uint64_t taken_ns)
{
    world_receive(&world, 0, come, STEP, taken_ns);
    come += STEP;
}

static void a_window_that_roots_wait_for_grows_if_it_comes_in_a_short_time(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    all_that_is_allowed_comes(MS); /* from now on it is timed */
    assert_int_equal(window(), WINDOW);
    all_that_is_allowed_comes(2 * MS);
    assert_int_equal(window(), 2 * WINDOW);
}

/* 8 ms are a time that software takes at times; what is longer only fills the port. */
static void it_becomes_no_more_than_what_comes_in_8_ms(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    all_that_is_allowed_comes(MS);
    all_that_is_allowed_comes(6 * MS + MS / 10 * 4);
    assert_int_equal(window(), WINDOW * 5 / 4);
    all_that_is_allowed_comes(8 * MS);
    assert_int_equal(window(), WINDOW * 5 / 4);
}

/* So that the next one of this size need not wait for any report. Its end comes when nothing is limited any more. */
static void a_collective_of_less_than_two_windows_grows_it_as_well(void **state)
{
    struct shape shape = receiver;

    (void)state;
    shape.block_bytes = 16 * (WINDOW + STEP);
    begin(&shape, NULL);
    world_receive(&world, 0, 0, 8, MS);
    world_receive(&world, 0, 8, WINDOW - 8, MS);
    assert_int_equal(world.collective.flow.own, TT_FLOW_ALL);
    assert_int_equal(window(), WINDOW);
    world_receive(&world, 0, WINDOW, STEP - 1, MS);
    assert_int_equal(window(), WINDOW);
    tt_flow_stop(&world.collective); /* as whoever has everything does first */
    world_receive(&world, 0, WINDOW + STEP - 1, 1, MS);
    assert_int_equal(window(), 2 * WINDOW);
}

static void one_that_takes_longer_is_long_enough(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    all_that_is_allowed_comes(MS);
    for (uint32_t i = 0; i < 20; i++) {
        all_that_is_allowed_comes(8 * MS);
        assert_int_equal(window(), WINDOW);
    }
}

/* Chunks come one by one, and every half a window nothing comes for a while: roots wait for credit. */
static void a_link_that_is_idle_between_reports_needs_a_larger_window(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    for (uint32_t i = 0; i < 8 * STEP && window() == WINDOW; i++) {
        world_receive(&world, 0, come++, 1, i % STEP == 0 ? MS / 2 : MS / 100);
    }
    assert_int_equal(window(), 2 * WINDOW);
}

/* Something is always on its way. */
static void one_that_no_root_waits_for_is_large_enough(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    for (uint32_t i = 0; i < 100; i++) {
        a_step_comes(MS / 100);
        assert_int_equal(window(), WINDOW);
    }
}

static void it_grows_no_further_than_receive_queues_hold(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    tt_link_limit(&world.memory.link, 3 * WINDOW * WIRE);
    for (uint32_t i = 0; i < 8; i++) {
        all_that_is_allowed_comes(MS);
    }
    assert_int_equal(window(), 3 * WINDOW);
    tt_link_limit(&world.memory.link, 2 * WINDOW * WIRE); /* another group's */
    assert_int_equal(window(), 2 * WINDOW);
    tt_link_limit(&world.memory.link, WINDOW / 2 * WIRE);
    assert_int_equal(window(), WINDOW / 2);
    tt_link_check(&world.memory.link);
}

/* The loss of `lost` of `count` chunks, which then come. */
static void a_part_comes(uint32_t count, uint32_t lost, uint64_t taken_ns)
{
    memory_receive(&world.memory, 0, come + lost, count - lost);
    world_update(&world, taken_ns);
    come += count;
}

static void a_window_of_which_chunks_are_lost_shrinks(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        all_that_is_allowed_comes(MS);
    }
    assert_int_equal(window(), 4 * WINDOW);
    a_part_comes(4 * STEP, 40, MS);
    assert_int_equal(window(), 2 * WINDOW);
    for (uint32_t i = 0; i < 8; i++) { /* and does not grow again soon */
        all_that_is_allowed_comes(MS);
        assert_int_equal(window(), 2 * WINDOW);
    }
    a_part_comes(4 * STEP, 60, MS);
    a_part_comes(4 * STEP, 60, MS);
    a_part_comes(4 * STEP, 60, MS);
    assert_int_equal(window(), WINDOW); /* never less than the least */
}

/* Steps that were half of what all had agreed on would be more than the window that is left: roots would wait for
 * a report, and this rank for chunks. */
static void a_rank_whose_window_has_become_smaller_reports_in_smaller_steps(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    assert_int_equal(tt_flow_step(&world.collective), STEP);
    world.memory.link.window_bytes = world.memory.link.least_bytes = WINDOW / 2 * WIRE;
    assert_int_equal(tt_flow_step(&world.collective), STEP / 2);
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t before = world.collective.flow.own;

        world_receive(&world, 0, come, before - come - 1, 5 * MS); /* the last one that was allowed is lost */
        come = before;
        assert_true(world.collective.flow.own > before);
    }
}

static void a_few_lost_chunks_are_noise(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        all_that_is_allowed_comes(MS);
    }
    world.memory.link.rest = 100;       /* no trial meanwhile */
    for (uint32_t i = 0; i < 60; i++) { /* one of a hundred */
        a_part_comes(100, 1, 4 * MS);
        assert_int_equal(window(), 4 * WINDOW);
    }
}

/* Patience doubles with every loss; a window's time without one counts. */
static void after_long_without_loss_it_may_grow_again(void **state)
{
    struct tt_link *link = &world.memory.link;
    uint32_t windows = 0;

    (void)state;
    begin(&receiver, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        all_that_is_allowed_comes(MS);
    }
    assert_int_equal(window(), 2 * WINDOW);
    a_part_comes(4 * STEP, 40, MS);
    assert_int_equal(window(), WINDOW);
    assert_int_equal(link->patience, 512);
    while (window() == WINDOW && windows < 1000) {
        if (come > CHUNKS - 4 * WINDOW) { /* another collective, of the same link */
            struct tt_link kept = *link;

            kept.users = kept.dry = 0;
            memory_init(&world.memory, &receiver);
            *link = kept;
            tt_collective_init(&world.collective, &world.memory.config);
            tt_collective_reset(&world.collective, 5);
            tt_flow_start(&world.collective, &(struct tt_release){.window_chunks = window()});
            come = 0;
        }
        all_that_is_allowed_comes(MS);
        windows++;
    }
    assert_in_range(windows, 512, 600);
    assert_int_equal(window(), 2 * WINDOW);
}

/* A window grows to 4 * WINDOW and comes so often then, each time in `taken_ns`. */
static void a_large_window_comes(uint32_t times, uint64_t taken_ns)
{
    begin(&receiver, NULL);
    for (uint32_t i = 0; i < 3; i++) {
        all_that_is_allowed_comes(MS);
    }
    for (uint32_t i = 0; i < times; i++) {
        all_that_is_allowed_comes(taken_ns);
    }
    assert_int_equal(window(), 4 * WINDOW);
}

/* A window of 4 * WINDOW that comes in 11 ms loses more than noise explains, and from then on half of it comes in
 * `taken_ns`. Returns how often, until it is larger again; 100: never. */
static uint32_t half_of_a_window_comes(uint64_t taken_ns)
{
    uint32_t windows = 0;

    a_large_window_comes(16, 11 * MS);
    a_part_comes(4 * STEP, 100, 5 * MS);
    assert_int_equal(window(), 2 * WINDOW);
    while (windows < 30 && window() == 2 * WINDOW) {
        all_that_is_allowed_comes(taken_ns);
        tt_link_check(&world.memory.link);
        windows++;
    }
    return window() == 2 * WINDOW ? 100 : windows;
}

/* As a port does that others fill: the smaller a window, the smaller its part of what the port lets through. */
static void a_window_whose_half_comes_slower_gets_its_size_back(void **state)
{
    const struct tt_link *link = &world.memory.link;

    (void)state;
    assert_int_equal(half_of_a_window_comes(9 * MS), 12); /* a tenth of a second */
    assert_int_equal(window(), 4 * WINDOW);
    assert_int_equal(link->patience, 256); /* as if it had not been halved */
    for (uint32_t i = 0; i < 5; i++) {     /* nor is it again: others are to blame */
        a_part_comes(4 * STEP, 40, 6 * MS);
        assert_int_equal(window(), 4 * WINDOW);
    }
    assert_true(link->excused > 0);
}

/* As one does that holds half of a window and not all. */
static void a_window_whose_half_comes_as_fast_stays_halved(void **state)
{
    (void)state;
    assert_int_equal(half_of_a_window_comes(11 * MS / 2), 100);
    assert_int_equal(world.memory.link.patience, 512);
    assert_int_equal(half_of_a_window_comes(6 * MS), 100);
    assert_int_equal(world.memory.link.excused, 0);
}

/* A trial takes a tenth of a second at least: who had no processor meanwhile has not been slow. */
static void a_moment_without_a_processor_does_not_decide(void **state)
{
    (void)state;
    a_large_window_comes(16, 8 * MS);
    a_part_comes(4 * STEP, 100, 4 * MS);
    assert_int_equal(window(), 2 * WINDOW);
    for (uint32_t i = 0; i < 30; i++) {
        all_that_is_allowed_comes(i == 14 ? 20 * MS : 4 * MS);
        assert_int_equal(window(), 2 * WINDOW);
    }
}

/* More was lost while it was on trial: what was before the first halving counts. */
static void a_window_that_is_halved_twice_is_on_trial_once(void **state)
{
    uint32_t windows = 0;

    (void)state;
    a_large_window_comes(8, 11 * MS);
    a_part_comes(4 * STEP, 100, 5 * MS);
    a_part_comes(4 * STEP, 100, 5 * MS);
    assert_int_equal(window(), WINDOW);
    while (windows < 30 && window() == WINDOW) {
        all_that_is_allowed_comes(7 * MS);
        windows++;
    }
    assert_int_equal(windows, 15); /* 105 ms */
    assert_int_equal(window(), 4 * WINDOW);
}

/* However much of each window is lost: trials come to an end, and excuses. */
static void trials_end_though_most_is_lost(void **state)
{
    uint32_t without = 0;

    (void)state;
    begin(&receiver, NULL);
    all_that_is_allowed_comes(8 * MS);
    for (uint32_t i = 0; i < 20; i++) {
        a_part_comes(WINDOW, WINDOW * 3 / 4, 8 * MS);
    }
    world.memory.link.excused = 20;
    for (uint32_t i = 0; i < 60; i++) {
        a_part_comes(WINDOW, WINDOW * 3 / 4, 8 * MS);
        without += world.memory.link.trial.periods == 0;
    }
    assert_int_equal(world.memory.link.excused, 0);
    assert_in_range(without, 1, 59);
}

/* --- Who shares what ---------------------------------------------------------------------------------------------- */

static void collectives_that_are_received_at_once_share_the_window(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    assert_int_equal(tt_flow_window(&world.collective), WINDOW);
    world.memory.link.users = 4;
    assert_int_equal(tt_flow_window(&world.collective), WINDOW / 4);
    world.memory.link.users = 1000;
    assert_int_equal(tt_flow_window(&world.collective), 8); /* some is always on its way */
    world.memory.link.users = 1;
}

/* Another one that comes over the same link. */
static struct world other;

static void begin_other(void)
{
    struct tt_release agreed = {.window_chunks = WINDOW / 2};

    memory_init(&other.memory, &receiver);
    script_init(&other.script, 0);
    other.now_ns = world.now_ns;
    other.memory.config.link = &world.memory.link;
    tt_collective_init(&other.collective, &other.memory.config);
    tt_collective_reset(&other.collective, 6);
    tt_flow_start(&other.collective, &agreed);
    assert_int_equal(world.memory.link.users, 2);
}

/* It counts what comes of all: of this one alone half a window comes in the time of one, or in half of that while the
 * other one has nothing to send. */
static void the_links_window_is_timed_and_not_each_ones_share(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    begin_other();
    a_step_comes(MS);
    for (uint32_t i = 0; i < 30; i++) {
        a_step_comes(i % 2 == 0 ? 9 * MS : 3 * MS); /* a window in 12, with a gap */
        assert_int_equal(window(), WINDOW);
    }
    assert_int_equal(world.memory.link.come_kbit, (uint64_t)WINDOW * WIRE * 8 / 12);
    tt_flow_stop(&other.collective);
}

/* What one waits for, the other one fills. */
static void roots_of_one_that_wait_say_nothing_while_another_ones_chunks_come(void **state)
{
    enum { SOME = WINDOW / 2 * 3 / 4 };
    uint32_t here = 0;

    (void)state;
    begin(&receiver, NULL);
    begin_other();
    a_step_comes(MS);
    for (uint32_t i = 0; i < 20; i++) {
        other.now_ns = world.now_ns;
        world_receive(&other, 0, here, SOME, MS);
        here += SOME;
        world.now_ns = other.now_ns;
        all_that_is_allowed_comes(MS);
        assert_int_equal(window(), WINDOW);
    }
    assert_true(world.collective.flow.is_dry && !other.collective.flow.is_dry);
    tt_flow_stop(&other.collective);
    assert_int_equal(world.memory.link.dry, 1);
    all_that_is_allowed_comes(MS); /* alone, it has a whole window again */
    all_that_is_allowed_comes(MS);
    assert_true(window() > WINDOW);
}

static void it_is_among_those_that_share_from_the_barrier_to_the_last_chunk(void **state)
{
    struct tt_release agreed = {.window_chunks = WINDOW};

    (void)state;
    begin(&receiver, NULL);
    assert_int_equal(world.memory.link.users, 1);
    tt_flow_start(&world.collective, &agreed); /* the release comes behind a chunk */
    assert_int_equal(world.memory.link.users, 1);
    tt_flow_stop(&world.collective);
    tt_flow_stop(&world.collective);
    assert_int_equal(world.memory.link.users, 0);
}

/* --- Turns -------------------------------------------------------------------------------------------------------- */

enum { FLOWS = 5 };

/* Of one rank and link, and everybody has posted them. */
static struct tt_collective flows[FLOWS];

static void make_flows(void)
{
    begin(&receiver, NULL);
    for (uint32_t i = 0; i < FLOWS; i++) {
        tt_collective_init(&flows[i], &world.memory.config);
        tt_collective_reset(&flows[i], i);
    }
}

static void two_collectives_of_a_root_go_at_a_time_and_the_others_in_their_order(void **state)
{
    struct tt_link *link = &world.memory.link;

    (void)state;
    make_flows();
    assert_true(tt_flow_begin(&flows[0]) && tt_flow_begin(&flows[1]));
    assert_true(tt_flow_begin(&flows[0])); /* asked again */
    for (uint32_t i = 2; i < FLOWS; i++) {
        assert_false(tt_flow_begin(&flows[i]));
        assert_false(tt_flow_begin(&flows[i]));
    }
    tt_link_check(link);
    assert_false(link->turn_passes);
    tt_flow_end(&flows[1]);
    assert_true(link->turn_passes);
    assert_false(tt_flow_begin(&flows[3])); /* not before the one that has waited longer */
    assert_true(tt_flow_begin(&flows[2]));
    assert_false(tt_flow_begin(&flows[3]));
    tt_flow_end(&flows[0]);
    tt_flow_end(&flows[2]);
    assert_true(tt_flow_begin(&flows[3]) && tt_flow_begin(&flows[4]));
    tt_flow_end(&flows[3]);
    tt_flow_end(&flows[4]);
    assert_true(link->turns == 0 && link->first_waiting == NULL);
    tt_link_check(link);
}

static void one_that_fails_while_it_waits_is_not_waited_for(void **state)
{

    (void)state;
    make_flows();
    for (uint32_t i = 0; i < FLOWS; i++) {
        assert_true(tt_flow_begin(&flows[i]) == (i < 2));
    }
    tt_flow_end(&flows[3]);
    tt_flow_end(&flows[2]);
    tt_link_check(&world.memory.link);
    tt_flow_end(&flows[0]);
    assert_true(tt_flow_begin(&flows[4]));
    tt_flow_end(&flows[1]);
    tt_flow_end(&flows[4]);
    tt_link_check(&world.memory.link);
    assert_int_equal(world.memory.link.turns, 0);
}

static void what_is_small_takes_no_turns_and_nobody_waits_for_what_is_very_large(void **state)
{
    struct tt_collective_config config;

    (void)state;
    make_flows();
    config = world.memory.config;
    config.terms.chunk_bytes = (64 << 20) / CHUNKS + 1;
    world.memory.link.least_bytes = world.memory.link.window_bytes = 1 << 20;
    tt_collective_init(&flows[0], &config);
    assert_true(flows[0].flow.enabled && tt_flow_begin(&flows[0]));
    world.memory.link.least_bytes = world.memory.link.window_bytes = 1 << 30;
    tt_collective_init(&flows[1], &world.memory.config);
    assert_true(!flows[1].flow.enabled && tt_flow_begin(&flows[1]));
    assert_int_equal(world.memory.link.turns, 0);
    tt_flow_end(&flows[0]);
    tt_flow_end(&flows[1]);
}

/* Ranks 0 and 1 are on one host, 2 and 3 on another one. */
static const uint64_t two_hosts[] = {7, 7, 8, 8};

static void what_comes_from_the_own_host_is_not_on_the_link(void **state)
{
    struct shape shape = {
        .kind = TT_ALLGATHER, .rank = 1, .size = 4, .chains = 4, .block_bytes = 16 * 300, .window_chunks = WINDOW};

    (void)state;
    begin(&shape, two_hosts);
    world_receive(&world, 0, 0, 300, 10 * MS);
    next_tells(&world, TT_FRAME_CREDIT, 0, 128); /* 64 * 4 / 2 */
    no_more(&world.script);
    world_receive(&world, 2, 0, 20, 10 * MS);
    next_tells(&world, TT_FRAME_CREDIT, 0, 160); /* (20 + 64) * 4 / 2 = 168 */
    no_more(&world.script);
}

/* But it is among the chunks that come until there is something to tell. */
static void what_comes_from_the_own_host_is_counted_until_a_step_is_complete(void **state)
{
    struct shape shape = {
        .kind = TT_ALLGATHER, .rank = 1, .size = 4, .chains = 4, .block_bytes = 16 * 300, .window_chunks = WINDOW};

    (void)state;
    begin(&shape, two_hosts);
    world_receive(&world, 0, 0, 20, 10 * MS);
    world_receive(&world, 2, 0, 20, 10 * MS);
    assert_int_equal(world.collective.flow.own, 168);
    assert_int_equal(tt_flow_due(&world.collective), 18); /* of 24 turns, which would be 192, a fourth is the own */
}

/* Nor does the time between them say that the link was idle. */
static void what_comes_from_the_own_host_meanwhile_is_no_gap(void **state)
{
    struct shape shape = {
        .kind = TT_ALLGATHER, .rank = 1, .size = 4, .chains = 4, .block_bytes = 16 * 1000, .window_chunks = WINDOW};
    uint32_t here = 0;

    (void)state;
    begin(&shape, two_hosts);
    for (uint32_t i = 0; i < 60; i++) {
        world_receive(&world, 2, here, 4, MS / 4);
        world_receive(&world, 3, here, 4, MS / 4);
        here += 4;
        world_receive(&world, 0, i * 8, 8, MS / 2); /* in between, a fourth of all the time */
        world_receive(&world, 0, i * 8, 8, 0);
        assert_int_equal(window(), WINDOW);
    }
    assert_int_equal(world.memory.link.idle_ns, 0);
}

/* A broadcast of the own host's says nothing of the link, whatever its pace. */
static void a_root_on_the_own_host_teaches_nothing(void **state)
{
    struct shape shape = receiver;

    (void)state;
    shape.size = 4;
    begin(&shape, two_hosts);
    for (uint32_t i = 0; i < 8; i++) {
        all_that_is_allowed_comes(MS);
        assert_int_equal(window(), WINDOW);
    }
}

static void where_all_are_on_one_host_that_is_the_link(void **state)
{
    static const uint64_t one_host[] = {7, 7};

    (void)state;
    begin(&receiver, one_host);
    all_that_is_allowed_comes(MS);
    all_that_is_allowed_comes(MS);
    assert_int_equal(window(), 2 * WINDOW);
}

/* --- The rate ----------------------------------------------------------------------------------------------------- */

static void the_rate_is_known_after_a_window(void **state)
{
    (void)state;
    begin(&receiver, NULL);
    a_step_comes(MS);
    assert_int_equal(world.memory.link.come_kbit, 0);
    for (uint32_t i = 0; i < TT_FLOW_REPORTS; i++) {
        a_step_comes(10 * MS);
    }
    assert_int_equal(world.memory.link.come_kbit, (uint64_t)WINDOW * WIRE * 8 * 1000 / (20 * MS / 1000));
    assert_true(world.collective.flow.found_ns == 20 * MS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_that_roots_wait_for_grows_if_it_comes_in_a_short_time),
        cmocka_unit_test(it_becomes_no_more_than_what_comes_in_8_ms),
        cmocka_unit_test(a_collective_of_less_than_two_windows_grows_it_as_well),
        cmocka_unit_test(one_that_takes_longer_is_long_enough),
        cmocka_unit_test(a_link_that_is_idle_between_reports_needs_a_larger_window),
        cmocka_unit_test(one_that_no_root_waits_for_is_large_enough),
        cmocka_unit_test(it_grows_no_further_than_receive_queues_hold),
        cmocka_unit_test(a_window_of_which_chunks_are_lost_shrinks),
        cmocka_unit_test(a_rank_whose_window_has_become_smaller_reports_in_smaller_steps),
        cmocka_unit_test(a_few_lost_chunks_are_noise),
        cmocka_unit_test(after_long_without_loss_it_may_grow_again),
        cmocka_unit_test(a_window_whose_half_comes_slower_gets_its_size_back),
        cmocka_unit_test(a_window_whose_half_comes_as_fast_stays_halved),
        cmocka_unit_test(a_moment_without_a_processor_does_not_decide),
        cmocka_unit_test(a_window_that_is_halved_twice_is_on_trial_once),
        cmocka_unit_test(trials_end_though_most_is_lost),
        cmocka_unit_test(collectives_that_are_received_at_once_share_the_window),
        cmocka_unit_test(the_links_window_is_timed_and_not_each_ones_share),
        cmocka_unit_test(roots_of_one_that_wait_say_nothing_while_another_ones_chunks_come),
        cmocka_unit_test(it_is_among_those_that_share_from_the_barrier_to_the_last_chunk),
        cmocka_unit_test(two_collectives_of_a_root_go_at_a_time_and_the_others_in_their_order),
        cmocka_unit_test(one_that_fails_while_it_waits_is_not_waited_for),
        cmocka_unit_test(what_is_small_takes_no_turns_and_nobody_waits_for_what_is_very_large),
        cmocka_unit_test(what_comes_from_the_own_host_is_not_on_the_link),
        cmocka_unit_test(what_comes_from_the_own_host_is_counted_until_a_step_is_complete),
        cmocka_unit_test(what_comes_from_the_own_host_meanwhile_is_no_gap),
        cmocka_unit_test(a_root_on_the_own_host_teaches_nothing),
        cmocka_unit_test(where_all_are_on_one_host_that_is_the_link),
        cmocka_unit_test(the_rate_is_known_after_a_window),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
