/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Control takes a stream back from the thread that feeds the queue, without a lock. A provider with a few chunks stands
 * for the network; what a thread does to the buffer and the bitmap is checked for being in order with what the other
 * does.
 */
#include "chunk_world.h"
#include "explore.h"
#include "system.h"

enum { NEWS = 0xee };

static struct world_stream next_stream;
static _Atomic bool is_over; /* control's part */

static void begin(bool eager)
{
    explore_system_begin();
    world_begin_chunks(eager, 0);
    world_init_stream(&next_stream);
    world_brought = WORLD_CHUNKS;
    is_over = false;
}

/* --- A stream that is taken back ---------------------------------------------------------------------------------- */

static uint32_t retired_with; /* chunks; control's */

static void begin_retire(void)
{
    begin(false);
    tt_queue_publish(&world_queue, world_tag, &world_stream.stream, 0);
}

static void feed(void)
{
    while (world_polled < WORLD_CHUNKS) {
        tt_queue_receive(&world_queue, 1);
    }
}

static void retire(void)
{
    uint32_t turn = tt_queue_retire(&world_queue, world_tag, 0);

    while (!tt_queue_is_quiet(&world_queue, turn)) {
        sched_yield();
    }
}

/* The buffer is the user's again, who writes to it. */
static void retire_and_write(void)
{
    retire();
    tt_stream_reset(&world_stream.stream);
    memset(world_stream.buffer, NEWS, sizeof world_stream.buffer);
}

/* What has been marked as here is whole, and nothing else is there. */
static void retire_and_read(void)
{
    retire();
    for (uint32_t i = 0; i < WORLD_CHUNKS; i++) {
        bool is_here = tt_stream_word(&world_stream.stream, 0) >> i & 1;

        for (uint32_t b = i * WORLD_CHUNK_BYTES; b < (i + 1) * WORLD_CHUNK_BYTES; b++) {
            EXPLORE_CHECK(world_stream.buffer[b] == (is_here ? world_sent[b] : 0));
        }
    }
    retired_with = world_stream.stream.received;
}

static void end_read(void)
{
    EXPLORE_CHECK(world_stream.stream.received == retired_with && world_queue.receiver.placed == retired_with);
}

static void end_written(void)
{
    EXPLORE_CHECK(world_stream.stream.received == 0 && world_stream.bitmap[0] == 0 &&
                  world_queue.receiver.streams[world_tag] == NULL);
    for (uint32_t b = 0; b < sizeof world_stream.buffer; b++) {
        EXPLORE_CHECK(world_stream.buffer[b] == NEWS);
    }
    EXPLORE_CHECK(world_queue.receiver.placed + world_queue.receiver.stale == WORLD_CHUNKS);
}

/* --- A stream that is looked at while chunks come ----------------------------------------------------------------- */

static void look_at_bits(void)
{
    for (uint32_t look = 0; look < WORLD_CHUNKS; look++) {
        uint64_t word = tt_stream_word(&world_stream.stream, 0);

        for (uint32_t b = 0; b < sizeof world_stream.buffer; b++) {
            EXPLORE_CHECK(!(word >> b / WORLD_CHUNK_BYTES & 1) || world_stream.buffer[b] == world_sent[b]);
        }
    }
}

static void end_looked(void)
{
    EXPLORE_CHECK(world_stream.bitmap[0] == (1U << WORLD_CHUNKS) - 1 && world_stream.stream.received == WORLD_CHUNKS);
}

/* --- A stream that is withheld, and published again --------------------------------------------------------------- */

static bool withheld; /* control's */

static void begin_withhold(void)
{
    begin(true);
    tt_queue_publish(&world_queue, world_tag, &world_stream.stream, 0);
}

static void feed_until_all_is_placed(void)
{
    while (atomic_load_explicit(&world_stream.stream.received, memory_order_relaxed) < WORLD_CHUNKS) {
        if (tt_queue_receive(&world_queue, 1) == 0) {
            sched_yield();
        }
    }
}

/* As the engine reads a block once more, for a frame: only where nothing has been placed over it. */
static void withhold(void)
{
    withheld = tt_queue_withhold(&world_queue, world_tag, &world_stream.stream);
    if (withheld) {
        for (uint32_t b = 0; b < sizeof world_stream.buffer; b++) {
            EXPLORE_CHECK(world_stream.buffer[b] == 0);
        }
    }
    tt_queue_publish(&world_queue, world_tag, &world_stream.stream, 0);
}

static void end_withhold(void)
{
    EXPLORE_CHECK(memcmp(world_stream.buffer, world_sent, sizeof world_sent) == 0 &&
                  world_queue.receiver.placed == WORLD_CHUNKS);
    EXPLORE_CHECK(world_queue.receiver.duplicate == 0 && world_queue.receiver.stale == 0 && world_pool.taken == 0);
}

/* --- A tag that is used again ------------------------------------------------------------------------------------- */

/* The first chunk of a collective is still on its way when this rank, which has fetched it, ends the collective. */
static void begin_reuse(void)
{
    begin(false);
    world_brought = 0;
}

static void feed_until_over(void)
{
    do {
        tt_queue_receive(&world_queue, 1);
        sched_yield();
    } while (!atomic_load_explicit(&is_over, memory_order_acquire));
    tt_queue_receive(&world_queue, 1);
}

static void reuse(void)
{
    atomic_store_explicit(&world_brought, 1, memory_order_release);
    atomic_store_explicit(&world_queue.frontier, TT_TAG_ORDINARY_COUNT, memory_order_release);
    if (tt_queue_may_reuse(&world_queue, TT_TAG_ORDINARY_COUNT)) {
        tt_queue_publish(&world_queue, world_tag, &next_stream.stream, 0);
    }
    atomic_store_explicit(&is_over, true, memory_order_release);
}

static void end_reuse(void)
{
    EXPLORE_CHECK(world_queue.receiver.stale == 1 && next_stream.stream.received == 0);
}

static const struct explore_scenario scenarios[] = {
    {.name = "who_takes_a_stream_back_has_it_alone",
     .preemptions = 4,
     .begin = begin_retire,
     .end = end_written,
     .threads = {{"feeder", feed}, {"control", retire_and_write}}},
    {.name = "a_stream_that_was_taken_back_is_what_its_bits_say",
     .preemptions = 4,
     .begin = begin_retire,
     .end = end_read,
     .threads = {{"feeder", feed}, {"control", retire_and_read}}},
    {.name = "what_a_bit_says_is_here_is_here",
     .preemptions = 4,
     .begin = begin_retire,
     .end = end_looked,
     .threads = {{"feeder", feed}, {"control", look_at_bits}}},
    {.name = "what_is_withheld_is_placed_later",
     .preemptions = 4,
     .begin = begin_withhold,
     .end = end_withhold,
     .threads = {{"feeder", feed_until_all_is_placed}, {"control", withhold}}},
    {.name = "a_tag_is_used_again_when_nothing_waits_of_its_last_collective",
     .preemptions = 4,
     .begin = begin_reuse,
     .end = end_reuse,
     .threads = {{"feeder", feed_until_over}, {"control", reuse}}},
};

int main(int argc, char **argv)
{
    return explore_main(argc, argv, scenarios, sizeof scenarios / sizeof scenarios[0]);
}
