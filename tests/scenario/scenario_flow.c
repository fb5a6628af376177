/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control over links whose switch has ports with finite buffers: nobody says what the links take, and ports are
 * never overrun though all roots send at once. Links as in support/story.h unless said otherwise: 8 Gbit/s, 1 us each
 * way; chunks of 4,000 bytes, which take 4.082 us on each with their headers.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/flow_story.h"

enum {
    PORT_BYTES = 512 * 1024, /* of a small switch: twice the window that a link begins with */
    SHALLOW_BYTES = 128 * 1024
};

static const struct flow_story links = {.chunk_bytes = 4000, .bits_per_second = 8000000000};

static void all_roots_at_once_fill_every_link_from_the_first_allgather_on(void **state)
{
    static const uint32_t sizes[] = {2, 3, 5, 8, 12, 16, 33};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t ranks = sizes[i], chunks = 3000 / (ranks - 1);
        struct flow_story flow = links;
        struct tt_world_job *job;

        flow_story_begin(&flow, ranks, PORT_BYTES);
        job = flow_story_job(&flow, TT_ALLGATHER, chunks);
        for (uint32_t round = 0; round < 3; round++) {
            assert_in_range(flow_story_run(&flow, job, (uint64_t)(ranks - 1) * chunks), 1000, 1055);
            assert_int_equal(flow_story_lost(&flow), 0);
        }
        flow_story_end(&flow);
    }
}

static void a_broadcast_fills_the_roots_link(void **state)
{
    static const uint32_t sizes[] = {2, 3, 8, 33, 64};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct flow_story flow = links;
        struct tt_world_job *job;

        flow_story_begin(&flow, sizes[i], PORT_BYTES);
        job = flow_story_job(&flow, TT_BROADCAST, 1000);
        for (uint32_t round = 0; round < 2; round++) {
            assert_in_range(flow_story_run(&flow, job, 1000), 1000, 1030);
            assert_int_equal(flow_story_lost(&flow), 0);
        }
        flow_story_end(&flow);
    }
}

/* Whatever the others could take: its port gets a window and then what it delivers. */
static void a_slow_host_is_never_sent_more_than_a_window(void **state)
{
    struct flow_story flow = links;
    struct tt_world_job *first, *second;

    (void)state;
    flow_story_begin(&flow, 8, PORT_BYTES);
    flow_story_set_rate(&flow, 5, 800000000); /* a tenth */
    first = flow_story_job(&flow, TT_BROADCAST, 1000);
    second = flow_story_job(&flow, TT_ALLGATHER, 100);
    for (uint32_t round = 0; round < 2; round++) {
        assert_in_range(flow_story_run(&flow, first, 1000), 10000, 10300);
        assert_in_range(flow_story_run(&flow, second, 700), 10000, 10500);
        assert_int_equal(flow_story_lost(&flow), 0);
    }
    flow_story_end(&flow);
}

/* A window of 256 KiB takes 35 and 28 ms: a larger one is tried in vain, and meanwhile reports of each half of it come
 * before roots go on without them. */
static void a_slow_link_holds_no_root_up_for_a_report(void **state)
{
    static const uint64_t rates[] = {60000000, 75000000};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        struct flow_story flow = links;
        struct tt_world_job *job;

        flow.bits_per_second = rates[i];
        flow.most_stalls = 3; /* when nothing is known yet, or a window has become smaller */
        flow_story_begin(&flow, 3, 2 * PORT_BYTES);
        for (uint32_t rank = 0; rank < 3; rank++) {
            flow_story_set_rate(&flow, rank, rates[i]);
        }
        job = flow_story_job(&flow, TT_ALLGATHER, 2000);
        for (uint32_t round = 0; round < 2; round++) {
            assert_in_range(flow_story_run(&flow, job, 2 * 2000), 1000, 1030);
            assert_int_equal(flow_story_lost(&flow), 0);
        }
        flow_story_end(&flow);
    }
}

/* Half a window is on the way when it becomes slower. */
static void a_rate_that_changes_is_followed_at_once(void **state)
{
    static const uint64_t rates[] = {8000000000, 4000000000, 1000000000, 8000000000};
    struct flow_story flow = links;
    struct tt_world_job *job;

    (void)state;
    flow_story_begin(&flow, 8, PORT_BYTES);
    job = flow_story_job(&flow, TT_ALLGATHER, 300);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        for (uint32_t rank = 0; rank < 8; rank++) {
            flow_story_set_rate(&flow, rank, rates[i]);
        }
        assert_in_range(flow_story_run(&flow, job, 7 * 300), 8000000000 / rates[i] * 1000,
                        8000000000 / rates[i] * 1050);
        assert_int_equal(flow_story_lost(&flow), 0);
    }
    flow_story_end(&flow);
}

/* A cable that loses one of a hundred slows nobody down: what is on the way is not what has come. */
static void loss_from_elsewhere_does_not_make_windows_small(void **state)
{
    struct tt_sim_faults faults = {.loss_ppm = 10000, .retransmit_ns = 20 * TT_NS_PER_US};
    struct flow_story flow = links;
    struct tt_world_job *job;

    (void)state;
    flow_story_begin(&flow, 8, PORT_BYTES);
    tt_sim_set_faults(flow.story.world->sim, TT_SIM_ALL_NODES, &faults);
    job = flow_story_job(&flow, TT_ALLGATHER, 400);
    for (uint32_t round = 0; round < 5; round++) {
        assert_in_range(flow_story_run(&flow, job, 7 * 400), 1000, 1150);
    }
    for (uint32_t rank = 0; rank < 8; rank++) {
        const struct tt_link *link = &flow.story.group->members[rank].group->network->link;

        assert_true(link->window_bytes >= TT_LINK_WINDOW_BYTES);
    }
    flow_story_end(&flow);
}

/* Half of the window that a link begins with: what is lost of the first window teaches, and the next collectives lose
 * little. */
static void shallow_ports_make_windows_small(void **state)
{
    struct flow_story flow = links;
    struct tt_world_job *job;
    uint64_t before;

    (void)state;
    flow_story_begin(&flow, 8, SHALLOW_BYTES);
    job = flow_story_job(&flow, TT_ALLGATHER, 400);
    flow_story_run(&flow, job, 7 * 400);
    before = flow_story_lost(&flow);
    assert_in_range(before, 1, 8 * 7 * 400 / 10);
    for (uint32_t round = 0; round < 3; round++) {
        assert_in_range(flow_story_run(&flow, job, 7 * 400), 1000, 1100);
    }
    assert_in_range(flow_story_lost(&flow) - before, 0, 3 * 8 * 7 * 400 / 100);
    flow_story_end(&flow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_roots_at_once_fill_every_link_from_the_first_allgather_on),
        cmocka_unit_test(a_broadcast_fills_the_roots_link),
        cmocka_unit_test(a_slow_link_holds_no_root_up_for_a_report),
        cmocka_unit_test(a_slow_host_is_never_sent_more_than_a_window),
        cmocka_unit_test(a_rate_that_changes_is_followed_at_once),
        cmocka_unit_test(loss_from_elsewhere_does_not_make_windows_small),
        cmocka_unit_test(shallow_ports_make_windows_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
