/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The collectives that `tutti bench` measures: one row each, of what all other files go by. A size is the bytes that a
 * rank puts in; of a scatter, those of the root.
 */
#ifndef TT_CLI_BENCH_COLLECTIVE_H
#define TT_CLI_BENCH_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

enum tt_bench_collective {
    TT_BENCH_BARRIER,
    TT_BENCH_BROADCAST,
    TT_BENCH_REDUCE,
    TT_BENCH_ALLREDUCE,
    TT_BENCH_REDUCE_SCATTER,
    TT_BENCH_ALLGATHER,
    TT_BENCH_GATHER,
    TT_BENCH_SCATTER,
    TT_BENCH_COLLECTIVE_COUNT
};

enum tt_bench_who { TT_BENCH_NOBODY, TT_BENCH_ROOT, TT_BENCH_EVERYBODY };

/* How much of all ranks' data a buffer holds. */
enum tt_bench_share {
    TT_BENCH_WHOLE, /* one block, which is all there is */
    TT_BENCH_OWN,   /* one block of as many as there are ranks: the rank's own */
    TT_BENCH_ALL    /* all of them, in the order of ranks */
};

struct tt_bench_collective_row {
    const char *name;
    const char *phrase; /* "a reduce-scatter" */
    bool has_root;
    bool reduces;             /* has a type and an operation */
    bool is_sourced_in_place; /* the source has no send buffer, whatever --in-place says */
    enum tt_bench_who sends;  /* has a send buffer */
    enum tt_bench_who receives;
    enum tt_bench_share sent, received;
    unsigned bus_trips; /* how often busbw counts the share (ranks - 1) / ranks of the data; 0: all of it, once */
};

const struct tt_bench_collective_row *tt_bench_collective_row(enum tt_bench_collective collective);

/* By name. False: there is none. */
bool tt_bench_collective_parse(const char *text, enum tt_bench_collective *collective);

/* "barrier, broadcast, ... or scatter", static. */
const char *tt_bench_collective_names(void);

/* Whether the size is that of all blocks, and not of one. */
static inline bool tt_bench_collective_divides(enum tt_bench_collective collective)
{
    return tt_bench_collective_row(collective)->sent == TT_BENCH_ALL;
}

static inline bool tt_bench_is_among(enum tt_bench_who who, bool is_root)
{
    return who == TT_BENCH_EVERYBODY || (who == TT_BENCH_ROOT && is_root);
}

#endif
