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

#include "support/story.h"

enum {
    CHUNK = 4000,
    WIRE_CHUNK = CHUNK + TT_PACER_OVERHEAD_BYTES,
    PORT_BYTES = 512 * 1024, /* of a small switch: twice the window that a link begins with */
    SHALLOW_BYTES = 128 * 1024
};

struct network {
    struct tt_story story;
    uint32_t ranks;
};

static void begin(struct network *network, uint32_t ranks, uint64_t port_bytes)
{
    struct tt_world_options *options = &network->story.options;

    network->ranks = ranks;
    tt_story_prepare(&network->story, ranks);
    options->settings.bandwidth = TT_AUTO;
    options->settings.chunk_bytes = CHUNK;
    options->settings.alpha_ns = 100 * TT_NS_PER_MS; /* nobody gives the multicast up */
    options->sim.max_chunk_bytes = CHUNK;
    options->sim.header_bytes = TT_PACER_OVERHEAD_BYTES;
    options->sim.downlink_queue_bytes = port_bytes;
    options->sim.receive_depth = 1 << 14; /* plenty: what is lost is lost in the network */
    tt_story_begin(&network->story, ranks);
}

static void set_rate(struct network *network, uint32_t rank, uint64_t bits_per_second)
{
    struct tt_sim_link link = {.bits_per_second = bits_per_second, .latency_ns = TT_NS_PER_US};

    tt_sim_set_links(network->story.world->sim, rank, link, link);
}

static struct tt_world_job *allgather(struct network *network, uint32_t chunks)
{
    return tt_world_job_create(network->story.group, TT_ALLGATHER, 0, (uint64_t)chunks * CHUNK, TT_METHOD_MULTICAST);
}

static struct tt_world_job *broadcast(struct network *network, uint32_t chunks)
{
    return tt_world_job_create(network->story.group, TT_BROADCAST, 0, (uint64_t)chunks * CHUNK, TT_METHOD_MULTICAST);
}

static uint64_t lost(struct network *network)
{
    uint64_t drops = 0;

    for (uint32_t rank = 0; rank < network->ranks; rank++) {
        struct tt_sim_port port;

        tt_sim_port_counters(network->story.world->sim, rank, &port);
        drops += port.tail_drops + port.overflow_drops;
    }
    return drops;
}

/* Posts everywhere and runs to the end; returns how long the slowest rank took. */
static uint64_t run(struct network *network, struct tt_world_job *job)
{
    struct tt_world *world = network->story.world;
    uint64_t start_ns = tt_world_now(world), slowest_ns = 0;

    tt_world_post_all(job);
    tt_world_run_job(job, start_ns + 60 * TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    for (uint32_t rank = 0; rank < network->ranks; rank++) {
        uint64_t taken_ns = job->parts[rank].ended_ns - start_ns;

        slowest_ns = taken_ns > slowest_ns ? taken_ns : slowest_ns;
        tt_link_check(&network->story.group->members[rank].group->network->link);
        assert_int_equal(network->story.group->members[rank].group->network->link.users, 0);
        assert_int_equal(network->story.group->members[rank].group->credit_stalls, 0);
    }
    return slowest_ns;
}

/* In thousandths of what the links take for it at 8 Gbit/s: a byte a nanosecond. */
static uint64_t thousandths(uint64_t taken_ns, uint64_t chunks)
{
    return taken_ns * 1000 / (chunks * WIRE_CHUNK);
}

static void all_roots_at_once_fill_every_link_from_the_first_allgather_on(void **state)
{
    static const uint32_t sizes[] = {2, 3, 5, 8, 12, 16, 33};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint32_t ranks = sizes[i], chunks = 3000 / (ranks - 1);
        struct network network;
        struct tt_world_job *job;

        begin(&network, ranks, PORT_BYTES);
        job = allgather(&network, chunks);
        for (uint32_t round = 0; round < 3; round++) {
            uint64_t taken_ns = run(&network, job);

            assert_in_range(thousandths(taken_ns, (uint64_t)(ranks - 1) * chunks), 1000, 1055);
            assert_int_equal(lost(&network), 0);
        }
        tt_story_end(&network.story);
    }
}

static void a_broadcast_fills_the_roots_link(void **state)
{
    static const uint32_t sizes[] = {2, 3, 8, 33, 64};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct network network;
        struct tt_world_job *job;

        begin(&network, sizes[i], PORT_BYTES);
        job = broadcast(&network, 1000);
        for (uint32_t round = 0; round < 2; round++) {
            assert_in_range(thousandths(run(&network, job), 1000), 1000, 1030);
            assert_int_equal(lost(&network), 0);
        }
        tt_story_end(&network.story);
    }
}

/* Whatever the others could take: its port gets a window and then what it delivers. */
static void a_slow_host_is_never_sent_more_than_a_window(void **state)
{
    struct network network;
    struct tt_world_job *first, *second;

    (void)state;
    begin(&network, 8, PORT_BYTES);
    set_rate(&network, 5, 800000000); /* a tenth */
    first = broadcast(&network, 1000);
    second = allgather(&network, 100);
    for (uint32_t round = 0; round < 2; round++) {
        assert_in_range(thousandths(run(&network, first), 1000), 10000, 10300);
        assert_in_range(thousandths(run(&network, second), 700), 10000, 10500);
        assert_int_equal(lost(&network), 0);
    }
    tt_story_end(&network.story);
}

/* Half a window is on the way when it becomes slower. */
static void a_rate_that_changes_is_followed_at_once(void **state)
{
    static const uint64_t rates[] = {8000000000, 4000000000, 1000000000, 8000000000};
    struct network network;
    struct tt_world_job *job;

    (void)state;
    begin(&network, 8, PORT_BYTES);
    job = allgather(&network, 300);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        for (uint32_t rank = 0; rank < 8; rank++) {
            set_rate(&network, rank, rates[i]);
        }
        assert_in_range(thousandths(run(&network, job), 7 * 300), 8000000000 / rates[i] * 1000,
                        8000000000 / rates[i] * 1050);
        assert_int_equal(lost(&network), 0);
    }
    tt_story_end(&network.story);
}

/* A cable that loses one of a hundred slows nobody down: what is on the way is not what has come. */
static void loss_from_elsewhere_does_not_make_windows_small(void **state)
{
    struct tt_sim_faults faults = {.loss_ppm = 10000, .retransmit_ns = 20 * TT_NS_PER_US};
    struct network network;
    struct tt_world_job *job;

    (void)state;
    begin(&network, 8, PORT_BYTES);
    tt_sim_set_faults(network.story.world->sim, TT_SIM_ALL_NODES, &faults);
    job = allgather(&network, 400);
    for (uint32_t round = 0; round < 5; round++) {
        assert_in_range(thousandths(run(&network, job), 7 * 400), 1000, 1150);
    }
    for (uint32_t rank = 0; rank < 8; rank++) {
        const struct tt_link *link = &network.story.group->members[rank].group->network->link;

        assert_true(link->window_bytes >= TT_LINK_WINDOW_BYTES);
    }
    tt_story_end(&network.story);
}

/* Half of the window that a link begins with: what is lost of the first window teaches, and the next collectives lose
 * little. */
static void shallow_ports_make_windows_small(void **state)
{
    struct network network;
    struct tt_world_job *job;
    uint64_t before;

    (void)state;
    begin(&network, 8, SHALLOW_BYTES);
    job = allgather(&network, 400);
    run(&network, job);
    before = lost(&network);
    assert_in_range(before, 1, 8 * 7 * 400 / 10);
    for (uint32_t round = 0; round < 3; round++) {
        assert_in_range(thousandths(run(&network, job), 7 * 400), 1000, 1100);
    }
    assert_in_range(lost(&network) - before, 0, 3 * 8 * 7 * 400 / 100);
    tt_story_end(&network.story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_roots_at_once_fill_every_link_from_the_first_allgather_on),
        cmocka_unit_test(a_broadcast_fills_the_roots_link),
        cmocka_unit_test(a_slow_host_is_never_sent_more_than_a_window),
        cmocka_unit_test(a_rate_that_changes_is_followed_at_once),
        cmocka_unit_test(loss_from_elsewhere_does_not_make_windows_small),
        cmocka_unit_test(shallow_ports_make_windows_small),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
