/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The result of `groups`, of the records that all ranks have gathered: a table, or one JSON object. Nothing can fail.
 */
#include <inttypes.h>
#include <stdio.h>

#include "cli/bench_statistics.h"
#include "cli/json.h"
#include "groups.h"

const char *const groups_way_names[WAY_COUNT] = {"one group", "split", "full"};

static const char *const tail_names[TAIL_COUNT] = {"repaired", "cutoffs", "stalls"};

static double kib_each(uint64_t before, uint64_t after, uint64_t count)
{
    return ((double)after - (double)before) / (double)count / 1024;
}

/* Of the requests of one group: a bit a chunk. */
static double bitmap_kib(const struct groups *run, uint64_t block_bytes)
{
    uint64_t chunks = (block_bytes + run->info.chunk_bytes - 1) / run->info.chunk_bytes * run->size;

    return (double)((chunks + 63) / 64 * 8) / 1024;
}

static double slowest_median(const struct groups *run, enum way way)
{
    uint64_t slowest[ROUNDS_LIMIT];
    struct tt_statistics statistics;

    for (uint64_t round = 0; round < run->rounds; round++) {
        slowest[round] = 0;
        for (uint32_t rank = 0; rank < run->size; rank++) {
            uint64_t time = run->all_ns[rank * groups_words(run) + way * run->rounds + round];

            slowest[round] = time > slowest[round] ? time : slowest[round];
        }
    }
    tt_statistics_compute(slowest, run->rounds, &statistics);
    return statistics.median_ns;
}

/* What a rank receives of others in a second, over all groups. */
static double rate_of(const struct groups *run, enum way way)
{
    uint64_t bytes = groups_passes(run, way) * groups_count(run, way) * groups_block_bytes(run, way);

    return (double)(bytes * (run->size - 1)) / slowest_median(run, way);
}

uint64_t groups_all_wrong(const struct groups *run)
{
    uint64_t wrong = 0;

    for (uint32_t rank = 0; rank < run->size; rank++) {
        wrong += run->all_ns[(rank + 1) * groups_words(run) - 1];
    }
    return wrong;
}

static uint64_t all_tail(const struct groups *run, enum way way, enum tail tail)
{
    uint64_t sum = 0;

    for (uint32_t rank = 0; rank < run->size; rank++) {
        sum += run->all_ns[(rank + 1) * groups_words(run) - TAIL_WORDS + way * TAIL_COUNT + tail];
    }
    return sum;
}

static void print_table(const struct groups *run)
{
    printf("%u ranks, %u workers, %" PRIu64 " groups, blocks of %" PRIu64 " bytes in one group, %" PRIu64 " rounds\n",
           run->size, run->info.workers, run->group_count, run->size_bytes, run->rounds);
    printf("%-10s %10s %12s %10s %8s %9s %9s %9s\n", "way", "block", "median us", "GB/s", "ratio",
           tail_names[TAIL_REPAIRED], tail_names[TAIL_CUTOFFS], tail_names[TAIL_STALLS]);
    for (enum way way = 0; way < WAY_COUNT; way++) {
        printf("%-10s %10" PRIu64 " %12.1f %10.4f %8.3f", groups_way_names[way], groups_block_bytes(run, way),
               slowest_median(run, way) / 1e3, rate_of(run, way), rate_of(run, way) / rate_of(run, WAY_ONE));
        for (enum tail tail = 0; tail < TAIL_COUNT; tail++) {
            printf(" %9" PRIu64, all_tail(run, way, tail));
        }
        printf("\n");
    }
    printf(
        "KiB a group: heap %.1f idle, %.1f used; data %.1f idle, %.1f used; requests %.2f more, of which bitmap %.2f\n",
        kib_each(run->alone.heap_bytes, run->idle.heap_bytes, run->all_count - 1),
        kib_each(run->alone.heap_bytes, run->used.heap_bytes, run->all_count - 1),
        kib_each(run->alone.data_bytes, run->idle.data_bytes, run->all_count - 1),
        kib_each(run->alone.data_bytes, run->used.data_bytes, run->all_count - 1),
        kib_each(run->used.heap_bytes, run->prepared.heap_bytes, run->group_count), bitmap_kib(run, run->size_bytes));
    printf("threads: %" PRIu64 " with one group, %" PRIu64 " with %" PRIu64 "; wrong bytes: %" PRIu64 "\n",
           run->alone.threads, run->used.threads, run->all_count, groups_all_wrong(run));
}

static void print_json(const struct groups *run)
{
    struct tt_json json;

    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_count(&json, "ranks", run->size);
    tt_json_count(&json, "workers", run->info.workers);
    tt_json_count(&json, "groups", run->group_count);
    tt_json_count(&json, "size_bytes", run->size_bytes);
    tt_json_count(&json, "rounds", run->rounds);
    for (enum way way = 0; way < WAY_COUNT; way++) {
        tt_json_begin_object(&json, way == WAY_ONE ? "one" : groups_way_names[way]);
        tt_json_count(&json, "block_bytes", groups_block_bytes(run, way));
        tt_json_number(&json, "median_us", slowest_median(run, way) / 1e3);
        tt_json_number(&json, "GBps", rate_of(run, way));
        tt_json_number(&json, "ratio", rate_of(run, way) / rate_of(run, WAY_ONE));
        for (enum tail tail = 0; tail < TAIL_COUNT; tail++) {
            tt_json_count(&json, tail_names[tail], all_tail(run, way, tail));
        }
        tt_json_end_object(&json);
    }
    tt_json_begin_object(&json, "kib_per_group");
    tt_json_number(&json, "heap_idle", kib_each(run->alone.heap_bytes, run->idle.heap_bytes, run->all_count - 1));
    tt_json_number(&json, "heap_used", kib_each(run->alone.heap_bytes, run->used.heap_bytes, run->all_count - 1));
    tt_json_number(&json, "data_idle", kib_each(run->alone.data_bytes, run->idle.data_bytes, run->all_count - 1));
    tt_json_number(&json, "data_used", kib_each(run->alone.data_bytes, run->used.data_bytes, run->all_count - 1));
    tt_json_number(&json, "request", kib_each(run->used.heap_bytes, run->prepared.heap_bytes, run->group_count));
    tt_json_number(&json, "bitmap", bitmap_kib(run, run->size_bytes));
    tt_json_end_object(&json);
    tt_json_begin_object(&json, "threads");
    tt_json_count(&json, "one", run->alone.threads);
    tt_json_count(&json, "all", run->used.threads);
    tt_json_end_object(&json);
    tt_json_count(&json, "wrong", groups_all_wrong(run));
    tt_json_end_object(&json);
}

void groups_print(const struct groups *run)
{
    if (run->json) {
        print_json(run);
    } else {
        print_table(run);
    }
}
