/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `groups` share: one rank's state, and the ways that are compared. */
#ifndef TT_BENCH_GROUPS_H
#define TT_BENCH_GROUPS_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/tutti.h"

enum { GROUPS_LIMIT = 64, ROUNDS_LIMIT = 1000, USES = 5 };

/* The first group, which also carries the barriers; one set of groups for each way but the first. */
enum { ALL_LIMIT = 1 + 2 * GROUPS_LIMIT };

enum way { WAY_ONE, WAY_SPLIT, WAY_FULL, WAY_COUNT };

/* What the ranks tell each other behind their times: by way, how data came late, and what was wrong. */
enum tail { TAIL_REPAIRED, TAIL_CUTOFFS, TAIL_STALLS, TAIL_COUNT, TAIL_WORDS = WAY_COUNT * TAIL_COUNT + 1 };

/* What a process holds. */
struct holding {
    uint64_t heap_bytes; /* allocated and not freed */
    uint64_t data_bytes; /* VmData */
    uint64_t threads;
};

struct groups {
    uint64_t group_count, size_bytes, rounds;
    bool json;
    uint32_t rank, size;
    tutti_context *context;
    bool same; /* one set of groups for all ways */
    uint64_t all_count;
    tutti_group *groups[ALL_LIMIT];
    tutti_group_info info;
    tutti_request *requests[GROUPS_LIMIT];
    uint8_t *memory;
    uint64_t memory_bytes;
    uint64_t round;
    uint64_t wrong;
    uint64_t tail[WAY_COUNT][TAIL_COUNT];
    struct holding alone, idle, used, prepared;
    uint64_t *own_ns, *all_ns; /* way by way, round by round; then what is in enum tail */
};

extern const char *const groups_way_names[WAY_COUNT];

static inline uint32_t groups_count(const struct groups *run, enum way way)
{
    return way == WAY_ONE ? 1 : (uint32_t)run->group_count;
}

static inline uint64_t groups_block_bytes(const struct groups *run, enum way way)
{
    return way == WAY_SPLIT ? run->size_bytes / run->group_count : run->size_bytes;
}

/* How often in a round, one after the other: every way moves the same bytes, and so meets as much of what else the
 * machine does now and then. */
static inline uint64_t groups_passes(const struct groups *run, enum way way)
{
    return way == WAY_FULL ? 1 : run->group_count;
}

/* Of a rank's record. */
static inline uint64_t groups_words(const struct groups *run)
{
    return WAY_COUNT * run->rounds + TAIL_WORDS;
}

/* groups_report.c: what all ranks have told, printed. */
uint64_t groups_all_wrong(const struct groups *run);
void groups_print(const struct groups *run);

#endif
