/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool of slabs that all groups of a context share: a slab is one log's at a time. */
#include "explore.h"
#include "proto/early.h"

enum { FEEDERS = 2, ROUNDS = 2, CHUNK_BYTES = 4, SLAB_BYTES = 64 };

static struct tt_early_pool pool;
static uint8_t memory[TT_EARLY_SLABS * SLAB_BYTES] __attribute__((aligned(8)));
static struct tt_early logs[FEEDERS];
static const uint8_t sent[FEEDERS][CHUNK_BYTES] = {{1, 2, 3, 4}, {5, 6, 7, 8}};

static void begin(void)
{
    tt_early_pool_init(&pool, memory, SLAB_BYTES);
    for (uint32_t f = 0; f < FEEDERS; f++) {
        logs[f] = (struct tt_early){.pool = &pool};
    }
}

/* All but one are somebody else's. */
static void begin_short(void)
{
    begin();
    pool.taken = (1U << TT_EARLY_SLABS) - 2;
}

/* Whether there was room. */
static bool keep_and_read(uint32_t feeder)
{
    struct tt_receive_chunk chunk = {.length_bytes = CHUNK_BYTES, .source = feeder, .address = sent[feeder]};
    uint32_t sequence, next;

    if (!tt_early_add(&logs[feeder], &chunk, feeder)) {
        return false;
    }
    next = tt_early_read(&logs[feeder], 0, &chunk, &sequence);
    EXPLORE_CHECK(sequence == feeder && chunk.source == feeder);
    for (uint32_t b = 0; b < CHUNK_BYTES; b++) {
        EXPLORE_CHECK(((const uint8_t *)chunk.address)[b] == sent[feeder][b]);
    }
    tt_early_remove(&logs[feeder], 0, next);
    return true;
}

static void feed(uint32_t feeder)
{
    for (uint32_t round = 0; round < ROUNDS; round++) {
        EXPLORE_CHECK(keep_and_read(feeder));
    }
}

static void feed_first(void)
{
    feed(0);
}

static void feed_second(void)
{
    feed(1);
}

static void feed_first_with_luck(void)
{
    keep_and_read(0);
    keep_and_read(0);
}

static void feed_second_with_luck(void)
{
    keep_and_read(1);
    keep_and_read(1);
}

static void end(void)
{
    EXPLORE_CHECK(pool.taken == 0);
}

static void end_short(void)
{
    EXPLORE_CHECK(pool.taken == (1U << TT_EARLY_SLABS) - 2);
}

static const struct explore_scenario scenarios[] = {
    {.name = "two_logs_have_a_slab_each",
     .preemptions = 4,
     .begin = begin,
     .end = end,
     .threads = {{"first", feed_first}, {"second", feed_second}}},
    {.name = "the_last_slab_is_one_log_s",
     .preemptions = 4,
     .begin = begin_short,
     .end = end_short,
     .threads = {{"first", feed_first_with_luck}, {"second", feed_second_with_luck}}},
};

int main(int argc, char **argv)
{
    return explore_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
