/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the table of collectives. Factors of busbw are those of nccl-tests (its doc/PERFORMANCE.md; for gather and
 * scatter its sources).
 *
 * Failures: a name that no row has.
 */
#include "cli/bench_collective.h"

#include <stddef.h>
#include <string.h>

static const struct tt_bench_collective_row rows[TT_BENCH_COLLECTIVE_COUNT] = {
    [TT_BENCH_BARRIER] = {.name = "barrier", .phrase = "a barrier"},
    [TT_BENCH_BROADCAST] = {.name = "broadcast",
                            .phrase = "a broadcast",
                            .has_root = true,
                            .is_sourced_in_place = true,
                            .receives = TT_BENCH_EVERYBODY},
    [TT_BENCH_REDUCE] = {.name = "reduce",
                         .phrase = "a reduce",
                         .has_root = true,
                         .reduces = true,
                         .sends = TT_BENCH_EVERYBODY,
                         .receives = TT_BENCH_ROOT},
    [TT_BENCH_ALLREDUCE] = {.name = "allreduce",
                            .phrase = "an allreduce",
                            .reduces = true,
                            .sends = TT_BENCH_EVERYBODY,
                            .receives = TT_BENCH_EVERYBODY,
                            .bus_trips = 2},
    [TT_BENCH_REDUCE_SCATTER] = {.name = "reduce-scatter",
                                 .phrase = "a reduce-scatter",
                                 .reduces = true,
                                 .sends = TT_BENCH_EVERYBODY,
                                 .receives = TT_BENCH_EVERYBODY,
                                 .sent = TT_BENCH_ALL,
                                 .received = TT_BENCH_OWN,
                                 .bus_trips = 1},
    [TT_BENCH_ALLGATHER] = {.name = "allgather",
                            .phrase = "an allgather",
                            .sends = TT_BENCH_EVERYBODY,
                            .receives = TT_BENCH_EVERYBODY,
                            .sent = TT_BENCH_OWN,
                            .received = TT_BENCH_ALL,
                            .bus_trips = 1},
    [TT_BENCH_GATHER] = {.name = "gather",
                         .phrase = "a gather",
                         .has_root = true,
                         .sends = TT_BENCH_EVERYBODY,
                         .receives = TT_BENCH_ROOT,
                         .sent = TT_BENCH_OWN,
                         .received = TT_BENCH_ALL,
                         .bus_trips = 1},
    [TT_BENCH_SCATTER] = {.name = "scatter",
                          .phrase = "a scatter",
                          .has_root = true,
                          .sends = TT_BENCH_ROOT,
                          .receives = TT_BENCH_EVERYBODY,
                          .sent = TT_BENCH_ALL,
                          .received = TT_BENCH_OWN,
                          .bus_trips = 1},
};

const struct tt_bench_collective_row *tt_bench_collective_row(enum tt_bench_collective collective)
{
    return &rows[collective];
}

bool tt_bench_collective_parse(const char *text, enum tt_bench_collective *collective)
{
    for (unsigned i = 0; i < TT_BENCH_COLLECTIVE_COUNT; i++) {
        if (strcmp(text, rows[i].name) == 0) {
            *collective = (enum tt_bench_collective)i;
            return true;
        }
    }
    return false;
}

const char *tt_bench_collective_names(void)
{
    return "barrier, broadcast, reduce, allreduce, reduce-scatter, allgather, gather or scatter";
}
