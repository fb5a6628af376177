/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control among many ranks: a star of 100 Gbit/s, 1 us a link, chunks of 4 KiB, ports of 2 MiB of which nobody is
 * told. An Allgather of all roots at once, and a Broadcast, against what the links must carry; the first one of a
 * group, and the next ones. `scenario_flow_large RANKS KIND CHUNKS` runs another shape, and prints its figures.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/story.h"

enum { CHUNK = 4096, WIRE_CHUNK = CHUNK + TT_PACER_OVERHEAD_BYTES, PORT_BYTES = 2 << 20, ROUNDS = 3 };

static const uint64_t bits_per_second = UINT64_C(100000000000);

struct figures {
    double ratios[ROUNDS]; /* of the slowest rank's time to the wire's */
    uint64_t lost[ROUNDS];
};

static void begin(struct tt_story *story, uint32_t ranks)
{
    struct tt_sim_link link = {.bits_per_second = bits_per_second, .latency_ns = TT_NS_PER_US};

    tt_story_prepare(story, ranks);
    story->options.settings.bandwidth = TT_AUTO;
    story->options.settings.chunk_bytes = CHUNK;
    story->options.settings.alpha_ns = 100 * TT_NS_PER_MS;
    story->options.sim.uplink = story->options.sim.downlink = link;
    story->options.sim.max_chunk_bytes = CHUNK;
    story->options.sim.header_bytes = TT_PACER_OVERHEAD_BYTES;
    story->options.sim.downlink_queue_bytes = ranks <= 256 ? PORT_BYTES : 4 * PORT_BYTES; /* the probe's chunks */
    story->options.sim.receive_depth = 1 << 14;
    tt_story_begin(story, ranks);
}

static uint64_t drops(const struct tt_story *story, uint32_t ranks)
{
    uint64_t sum = 0;

    for (uint32_t rank = 0; rank < ranks; rank++) {
        struct tt_sim_port port;

        tt_sim_port_counters(story->world->sim, rank, &port);
        sum += port.tail_drops + port.overflow_drops;
    }
    return sum;
}

static struct figures measure(enum tt_collective_kind kind, uint32_t ranks, uint32_t chunks)
{
    uint64_t heard = kind == TT_ALLGATHER ? ranks - 1 : 1, before = 0;
    double wire_ns = (double)heard * chunks * WIRE_CHUNK * 8e9 / (double)bits_per_second;
    struct figures figures;
    struct tt_story story;
    struct tt_world_job *job;

    begin(&story, ranks);
    job = tt_world_job_create(story.group, kind, 0, (uint64_t)chunks * CHUNK, TT_METHOD_MULTICAST);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t start_ns = tt_world_now(story.world), slowest_ns = 0;

        tt_world_post_all(job);
        tt_world_run_job(job, start_ns + 10 * TT_NS_PER_S);
        tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            uint64_t taken_ns = job->parts[rank].ended_ns - start_ns;

            slowest_ns = taken_ns > slowest_ns ? taken_ns : slowest_ns;
        }
        figures.ratios[round] = (double)slowest_ns / wire_ns;
        figures.lost[round] = drops(&story, ranks) - before;
        before += figures.lost[round];
        print_message("%u ranks, %s of %u chunks: %.3f of the wire's %.0f us, %llu lost\n", ranks,
                      kind == TT_ALLGATHER ? "allgather" : "broadcast", chunks, figures.ratios[round], wire_ns / 1e3,
                      (unsigned long long)figures.lost[round]);
    }
    tt_story_end(&story);
    return figures;
}

static void expect(const struct figures *figures)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        assert_true(figures->ratios[round] < (round == 0 ? 1.2 : 1.05));
        assert_true(figures->lost[round] == 0 || round == 0);
    }
}

static void an_allgather_of_64_ranks_fills_the_links(void **state)
{
    struct figures figures = measure(TT_ALLGATHER, 64, 96);

    (void)state;
    expect(&figures);
}

static void a_broadcast_to_256_ranks_fills_the_roots_link(void **state)
{
    struct figures figures = measure(TT_BROADCAST, 256, 2048);

    (void)state;
    expect(&figures);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_allgather_of_64_ranks_fills_the_links),
        cmocka_unit_test(a_broadcast_to_256_ranks_fills_the_roots_link),
    };

    if (argc == 4) {
        measure(strcmp(argv[2], "allgather") == 0 ? TT_ALLGATHER : TT_BROADCAST, (uint32_t)strtoul(argv[1], NULL, 10),
                (uint32_t)strtoul(argv[3], NULL, 10));
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
