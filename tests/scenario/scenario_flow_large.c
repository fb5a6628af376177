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

#include "support/flow_story.h"

enum { PORT_BYTES = 2 << 20, ROUNDS = 3 };

struct figures {
    uint64_t thousandths[ROUNDS]; /* the slowest rank's time, of the wire's */
    uint64_t lost[ROUNDS];
};

static struct figures measure(enum tt_collective_kind kind, uint32_t ranks, uint32_t chunks)
{
    uint64_t heard = kind == TT_ALLGATHER ? ranks - 1 : 1, before = 0;
    struct flow_story flow = {.chunk_bytes = 4096, .bits_per_second = UINT64_C(100000000000)};
    struct figures figures;
    struct tt_world_job *job;

    flow_story_begin(&flow, ranks, PORT_BYTES);
    job = flow_story_job(&flow, kind, chunks);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        figures.thousandths[round] = flow_story_run(&flow, job, heard * chunks);
        figures.lost[round] = flow_story_lost(&flow) - before;
        before += figures.lost[round];
        print_message("%u ranks, %s of %u chunks: %llu thousandths of the wire's time, %llu lost\n", ranks,
                      kind == TT_ALLGATHER ? "allgather" : "broadcast", chunks,
                      (unsigned long long)figures.thousandths[round], (unsigned long long)figures.lost[round]);
    }
    flow_story_end(&flow);
    return figures;
}

static void expect(const struct figures *figures)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        assert_in_range(figures->thousandths[round], 1000, round == 0 ? 1200 : 1050);
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
