/* SPDX-License-Identifier: BSD-3-Clause */
/* Transmission of a block over a made-up multicast provider that accepts, and completes, as much as the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "engine/group.h"
#include "engine/transmit.h"
#include "fabric/mcast.h"

enum { SUBGROUPS = 3, CHUNK = 16, MOST = 512, TAG = 200, ROOT = 2, BLOCK_LIMIT = 1 << 14 };

/* A subgroup's send queue. */
struct sink {
    struct tt_mcast_queue base;
    uint32_t room;      /* chunks that it still accepts */
    uint32_t completed; /* what `sent` answers */
    uint32_t count;     /* chunks accepted */
    uint32_t posts;
    uint32_t largest_post;
    uint32_t imm[MOST], length_bytes[MOST];
    const void *address[MOST];
};

static uint32_t order[MOST]; /* which subgroup each post went to */
static uint32_t order_count;

static struct sink sinks[SUBGROUPS];

static uint32_t sink_post(struct tt_mcast_queue *queue, const struct tt_send_chunk *chunks, uint32_t count)
{
    struct sink *sink = (struct sink *)queue;
    uint32_t accepted = count < sink->room ? count : sink->room;

    assert_true(count > 0);
    sink->posts++;
    sink->largest_post = count > sink->largest_post ? count : sink->largest_post;
    order[order_count++] = (uint32_t)(sink - sinks);
    for (uint32_t i = 0; i < accepted; i++) {
        assert_true(sink->count < MOST);
        sink->imm[sink->count] = chunks[i].imm;
        sink->length_bytes[sink->count] = chunks[i].length_bytes;
        sink->address[sink->count] = chunks[i].address;
        sink->count++;
    }
    sink->room -= accepted;
    return accepted;
}

static uint32_t sink_sent(struct tt_mcast_queue *queue)
{
    return ((struct sink *)queue)->completed;
}

static const struct tt_mcast_ops sink_ops = {.name = "sink", .post = sink_post, .sent = sink_sent};

struct world {
    struct tt_transmit transmit;
    struct tt_queue queues[SUBGROUPS];
    struct tt_stream streams[SUBGROUPS];
    uint32_t cursors[SUBGROUPS], marks[SUBGROUPS];
    struct tt_pacer pacer;
    uint8_t source[BLOCK_LIMIT], target[BLOCK_LIMIT];
};

/* A transmission of a block, ready to go; nothing is limited, and nothing completes by itself. `before`: what the
 * queues have accepted and completed in earlier collectives. */
static void set_up(struct world *world, uint64_t block_bytes, uint32_t subgroups, uint32_t before)
{
    struct tt_layout layout;

    memset(world, 0, sizeof *world);
    memset(sinks, 0, sizeof sinks);
    order_count = 0;
    assert_true(tt_layout_init(&layout, block_bytes, CHUNK, 4, subgroups, 1 << 24));
    for (uint32_t s = 0; s < subgroups; s++) {
        sinks[s].base.ops = &sink_ops;
        sinks[s].room = MOST;
        sinks[s].completed = before;
        world->queues[s].mcast = &sinks[s].base;
        world->queues[s].posted = before;
        world->queues[s].batch = TT_TRANSMIT_BATCH;
        tt_layout_stripe(&layout, s, &world->streams[s].stripe);
    }
    for (uint32_t i = 0; i < BLOCK_LIMIT; i++) {
        world->source[i] = (uint8_t)(i * 7 + i / 256);
    }
    world->transmit.queues = world->queues;
    world->transmit.streams = world->streams;
    world->transmit.subgroups = subgroups;
    world->transmit.imm = tt_imm_encode(TAG, 0);
    world->transmit.root_index = ROOT;
    world->transmit.source = world->source;
    world->transmit.target = world->target;
    world->transmit.block_bytes = block_bytes;
    world->transmit.cursors = world->cursors;
    world->transmit.marks = world->marks;
    world->transmit.pacer = &world->pacer;
    world->transmit.heard = 1;
    atomic_store(&world->transmit.limit, layout.chunks_per_block);
    atomic_store(&world->transmit.state, TT_TRANSMIT_ACTIVE);
}

static enum tt_transmit_result progress(struct world *world, uint32_t batches)
{
    struct tt_queue *blocked = NULL;
    enum tt_transmit_result result = tt_transmit_progress(&world->transmit, 0, batches, &blocked);

    tt_transmit_check(&world->transmit);
    if (result == TT_TRANSMIT_BLOCKED) {
        assert_non_null(blocked);
    } else {
        assert_null(blocked);
    }
    return result;
}

static bool is_done(struct world *world)
{
    return atomic_load(&world->transmit.state) == TT_TRANSMIT_DONE;
}

static void complete_all(struct world *world)
{
    for (uint32_t s = 0; s < world->transmit.subgroups; s++) {
        sinks[s].completed = world->queues[s].posted;
    }
}

/* Every chunk went out once, from its place in the source, with its number and length. */
static void assert_all_sent(struct world *world)
{
    for (uint32_t s = 0; s < world->transmit.subgroups; s++) {
        const struct tt_stripe *stripe = &world->streams[s].stripe;

        assert_int_equal(sinks[s].count, stripe->chunks);
        for (uint32_t i = 0; i < stripe->chunks; i++) {
            assert_int_equal(tt_imm_tag(sinks[s].imm[i]), TAG);
            assert_int_equal(tt_imm_psn(sinks[s].imm[i]), ROOT * stripe->chunks + i);
            assert_int_equal(sinks[s].length_bytes[i], tt_stripe_length(stripe, i));
            assert_ptr_equal(sinks[s].address[i], world->source + (size_t)(stripe->first_chunk + i) * CHUNK);
        }
    }
}

static void chunks_go_out_in_batches_with_their_numbers_and_lengths(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 200 * CHUNK - 3, 1, 0);
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
    assert_int_equal(sinks[0].posts, 4);
    assert_int_equal(sinks[0].largest_post, TT_TRANSMIT_BATCH);
    assert_all_sent(&world);
    assert_memory_equal(world.target, world.source, 200 * CHUNK - 3);
    assert_int_equal(world.target[200 * CHUNK - 3], 0);
}

static void a_batch_is_as_large_as_the_fabric_likes(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 200 * CHUNK, 1, 0);
    world.queues[0].batch = 63;
    assert_int_equal(progress(&world, 1), TT_TRANSMIT_MOVED);
    assert_true(sinks[0].count == 63 && sinks[0].largest_post == 63);
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
    assert_true(sinks[0].posts == 4 && sinks[0].largest_post == 63);
    assert_all_sent(&world);
}

static void a_call_posts_no_more_batches_than_it_may(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 200 * CHUNK, 1, 0);
    assert_int_equal(progress(&world, 1), TT_TRANSMIT_MOVED);
    assert_int_equal(sinks[0].count, 64);
    assert_memory_equal(world.target, world.source, 64 * CHUNK);
    assert_int_equal(world.target[64 * CHUNK], 0); /* what is not sent is not copied yet */
    assert_int_equal(progress(&world, 2), TT_TRANSMIT_MOVED);
    assert_int_equal(sinks[0].count, 192);
    complete_all(&world);
    assert_int_equal(progress(&world, 2), TT_TRANSMIT_BLOCKED);
    assert_int_equal(sinks[0].count, 200);
}

/* Else the root of a small Broadcast would have to be called again, which is after all others had their turn. */
static void who_may_post_no_more_batches_sees_that_nothing_is_left(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, TT_TRANSMIT_BATCH * CHUNK, 1, 0);
    sinks[0].completed = TT_TRANSMIT_BATCH; /* as soon as it is posted */
    assert_int_equal(progress(&world, 1), TT_TRANSMIT_FINISHED);
    assert_true(is_done(&world));
    assert_all_sent(&world);
}

static void subgroups_take_turns(void **state)
{
    static const uint32_t expected[] = {0, 1, 2, 0, 1, 2, 0, 1};
    static struct world world;

    (void)state;
    set_up(&world, (129 + 129 + 128) * CHUNK, 3, 0);
    assert_int_equal(progress(&world, 2), TT_TRANSMIT_MOVED);
    assert_int_equal(progress(&world, 3), TT_TRANSMIT_MOVED); /* the turn is remembered */
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
    assert_int_equal(order_count, 8);
    assert_memory_equal(order, expected, sizeof expected);
    assert_all_sent(&world);
    assert_memory_equal(world.target, world.source, (129 + 129 + 128) * CHUNK);
}

static void it_is_done_only_when_the_last_chunk_has_completed_on_every_subgroup(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 100 * CHUNK, 2, 7);
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
    assert_false(is_done(&world));
    sinks[0].completed = 7 + 50;
    sinks[1].completed = 7 + 49;
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
    assert_false(is_done(&world));
    sinks[1].completed = 7 + 50;
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_FINISHED);
    assert_true(is_done(&world));
}

static void counts_of_completion_may_wrap(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 100 * CHUNK, 1, 0xFFFFFFFF - 30);
    progress(&world, 100);
    assert_int_equal(world.queues[0].posted, 69);
    assert_false(is_done(&world));
    sinks[0].completed = 0xFFFFFFFF;
    progress(&world, 100);
    assert_false(is_done(&world));
    sinks[0].completed = 69;
    progress(&world, 100);
    assert_true(is_done(&world));
}

/* Another collective posts on the same queue afterwards: this one does not wait for that. */
static void later_chunks_of_others_are_not_waited_for(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 10 * CHUNK, 1, 5);
    progress(&world, 100);
    world.queues[0].posted += 1000;
    sinks[0].completed = 15;
    progress(&world, 100);
    assert_true(is_done(&world));
}

static void a_limit_of_all_subgroups_together_holds_it_back_until_it_grows(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 200 * CHUNK, 2, 0);
    atomic_store(&world.transmit.limit, 10);
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_WAITING);
    assert_int_equal(sinks[0].count, 10);
    assert_int_equal(sinks[1].count, 0);
    complete_all(&world);
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_WAITING);
    assert_false(is_done(&world)); /* all that was allowed is not all */
    assert_int_equal(order_count, 1);
    atomic_store(&world.transmit.limit, 15);
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_WAITING);
    assert_int_equal(sinks[1].count, 5); /* whose turn it was */
    atomic_store(&world.transmit.limit, 200);
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
    complete_all(&world);
    progress(&world, 100);
    assert_true(is_done(&world));
    assert_all_sent(&world);
}

/* Subgroups with one chunk less than the others are through sooner. */
static void the_last_chunks_go_to_the_subgroups_that_have_some(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 4 * CHUNK, 3, 0);
    for (uint32_t limit = 1; limit <= 4; limit++) {
        atomic_store(&world.transmit.limit, limit);
        assert_int_equal(progress(&world, 100), limit < 4 ? TT_TRANSMIT_WAITING : TT_TRANSMIT_BLOCKED);
        assert_int_equal(sinks[0].count + sinks[1].count + sinks[2].count, limit);
    }
    complete_all(&world);
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_FINISHED);
    assert_all_sent(&world);
}

static void a_full_queue_blocks_and_nothing_is_sent_twice(void **state)
{
    static struct world world;
    struct tt_queue *blocked = NULL;

    (void)state;
    set_up(&world, 200 * CHUNK, 2, 0);
    sinks[1].room = 30;
    assert_int_equal(tt_transmit_progress(&world.transmit, 0, 100, &blocked), TT_TRANSMIT_BLOCKED);
    assert_ptr_equal(blocked, &world.queues[1]);
    assert_int_equal(sinks[1].count, 30);
    assert_memory_equal(world.target + 100 * CHUNK, world.source + 100 * CHUNK, 30 * CHUNK);
    assert_int_equal(world.target[130 * CHUNK], 0);
    assert_int_equal(tt_transmit_progress(&world.transmit, 0, 100, &blocked), TT_TRANSMIT_BLOCKED); /* still */
    sinks[1].room = MOST;
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
    complete_all(&world);
    progress(&world, 100);
    assert_true(is_done(&world));
    assert_all_sent(&world);
    assert_memory_equal(world.target, world.source, 200 * CHUNK);
}

static void a_pace_holds_the_next_chunk_back_until_it_is_due(void **state)
{
    enum { CHUNK_NS = 100000 }; /* more than chunks wait for each other */
    static struct world world;
    struct tt_queue *blocked = NULL;

    (void)state;
    set_up(&world, 6 * CHUNK, 2, 0);
    world.transmit.chunk_ns = CHUNK_NS;
    world.transmit.heard = 2;
    for (uint32_t i = 0; i < 6; i++) {
        uint64_t now_ns = 1000 + i * (uint64_t)CHUNK_NS;

        assert_int_equal(order_count, i); /* by turns, one each */
        atomic_store(&world.transmit.limit, i + 1);
        if (i > 0) {
            assert_int_equal(tt_transmit_progress(&world.transmit, now_ns - 1, 100, &blocked), TT_TRANSMIT_PACED);
            assert_int_equal(world.transmit.due_ns, now_ns);
        }
        assert_int_equal(tt_transmit_progress(&world.transmit, now_ns, 100, &blocked),
                         i < 5 ? TT_TRANSMIT_WAITING : TT_TRANSMIT_BLOCKED);
        /* Blocked: a silent device is noticed by who asks it again. */
        assert_true(world.transmit.due_ns == (i < 5 ? TT_NEVER : now_ns + TT_NS_PER_S));
    }
    complete_all(&world);
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_FINISHED);
    assert_all_sent(&world);
}

static void a_cancelation_posts_no_more_and_waits_for_what_was_posted(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 200 * CHUNK, 1, 0);
    assert_int_equal(progress(&world, 1), TT_TRANSMIT_MOVED);
    atomic_store(&world.transmit.canceled, true);
    sinks[0].completed = 63;
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
    assert_int_equal(sinks[0].count, 64);
    assert_false(is_done(&world));
    sinks[0].completed = 64;
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_FINISHED);
    assert_true(is_done(&world));
}

/* It is read until it has left, and the request may be gone once the cancelation is answered. */
static void a_cancelation_waits_for_the_release_alone_too(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 10 * CHUNK, 1, 9);
    world.transmit.releases = true;
    atomic_store(&world.transmit.limit, 0); /* no credit yet */
    assert_int_equal(progress(&world, 1), TT_TRANSMIT_WAITING);
    assert_int_equal(sinks[0].count, 1);
    assert_int_equal(sinks[0].imm[0], tt_imm_encode(TAG, TT_PSN_RELEASE));
    assert_int_equal(sinks[0].length_bytes[0], TT_RELEASE_BYTES);
    assert_ptr_equal(sinks[0].address[0], world.transmit.release);
    atomic_store(&world.transmit.canceled, true);
    assert_int_equal(progress(&world, 1), TT_TRANSMIT_BLOCKED);
    sinks[0].completed = 10;
    assert_int_equal(progress(&world, 1), TT_TRANSMIT_FINISHED);
    assert_int_equal(sinks[0].count, 1);
}

static void a_cancelation_before_the_first_batch_is_done_at_once(void **state)
{
    static const uint32_t before[] = {3, (UINT32_C(1) << 31) + 3};

    (void)state;
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        static struct world world;

        set_up(&world, 200 * CHUNK, 2, before[i]);
        sinks[0].completed = before[i] - 3; /* others' chunks are still on their way */
        atomic_store(&world.transmit.canceled, true);
        assert_int_equal(progress(&world, 100), TT_TRANSMIT_FINISHED);
        assert_true(is_done(&world));
        assert_int_equal(order_count, 0);
    }
}

static void a_block_in_place_is_not_copied(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 100 * CHUNK, 1, 0);
    world.transmit.target = world.source;
    progress(&world, 100);
    complete_all(&world);
    progress(&world, 100);
    assert_true(is_done(&world));
    assert_all_sent(&world);
    assert_int_equal(world.target[0] | world.target[1], 0);
}

static void an_empty_block_is_done_at_once(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 0, 3, 9);
    assert_int_equal(progress(&world, 1), TT_TRANSMIT_FINISHED);
    assert_true(is_done(&world));
    assert_int_equal(order_count, 0);
}

/* However many have been posted to them before, by others. */
static void subgroups_without_chunks_are_skipped(void **state)
{
    static const uint32_t before[] = {0, UINT32_C(1) << 31, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(before) / sizeof(before[0]); i++) {
        static struct world world;

        set_up(&world, 2 * CHUNK - 1, 3, before[i]);
        assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
        complete_all(&world);
        progress(&world, 100);
        assert_true(is_done(&world));
        assert_int_equal(sinks[2].posts, 0);
        assert_all_sent(&world);
        assert_int_equal(sinks[1].length_bytes[0], CHUNK - 1);
    }
}

static void without_queues_the_block_is_only_copied(void **state)
{
    static struct world world;

    (void)state;
    set_up(&world, 1000, 1, 0);
    world.transmit.queues = NULL;
    assert_int_equal(progress(&world, 1), TT_TRANSMIT_FINISHED);
    assert_true(is_done(&world));
    assert_memory_equal(world.target, world.source, 1000);
    assert_int_equal(world.target[1000], 0);
    set_up(&world, 1000, 1, 0);
    world.transmit.queues = NULL;
    atomic_store(&world.transmit.canceled, true);
    progress(&world, 1);
    assert_true(is_done(&world));
    assert_int_equal(world.target[1], 0); /* the user may have its memory back already */
    assert_int_equal(order_count, 0);
}

/* Only its first chunk goes out, and the rest is copied; it is done when that chunk has completed. */
static void a_block_that_nobody_hears_is_copied_but_for_one_chunk(void **state)
{
    static struct world world;

    (void)state;
    for (uint32_t subgroups = 1; subgroups <= SUBGROUPS; subgroups++) {
        set_up(&world, 200 * CHUNK - 3, subgroups, 7);
        world.transmit.silent = true;
        assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
        assert_int_equal(order_count, 1);
        assert_int_equal(sinks[0].count, 1);
        assert_ptr_equal(sinks[0].address[0], world.source);
        assert_memory_equal(world.target, world.source, 200 * CHUNK - 3);
        assert_int_equal(world.target[200 * CHUNK - 3], 0);
        assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
        complete_all(&world);
        assert_int_equal(progress(&world, 100), TT_TRANSMIT_FINISHED);
        assert_int_equal(order_count, 1);
    }
    set_up(&world, 200 * CHUNK, 1, 0); /* the release goes before it, and a full queue is waited for */
    world.transmit.silent = world.transmit.releases = true;
    sinks[0].room = 1;
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
    assert_int_equal(world.target[0], 0);
    sinks[0].room = MOST;
    assert_int_equal(progress(&world, 100), TT_TRANSMIT_BLOCKED);
    assert_int_equal(sinks[0].count, 2);
    assert_int_equal(sinks[0].imm[0], tt_imm_encode(TAG, TT_PSN_RELEASE));
    assert_memory_equal(world.target, world.source, 200 * CHUNK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_go_out_in_batches_with_their_numbers_and_lengths),
        cmocka_unit_test(a_batch_is_as_large_as_the_fabric_likes),
        cmocka_unit_test(a_call_posts_no_more_batches_than_it_may),
        cmocka_unit_test(who_may_post_no_more_batches_sees_that_nothing_is_left),
        cmocka_unit_test(subgroups_take_turns),
        cmocka_unit_test(it_is_done_only_when_the_last_chunk_has_completed_on_every_subgroup),
        cmocka_unit_test(counts_of_completion_may_wrap),
        cmocka_unit_test(later_chunks_of_others_are_not_waited_for),
        cmocka_unit_test(a_limit_of_all_subgroups_together_holds_it_back_until_it_grows),
        cmocka_unit_test(the_last_chunks_go_to_the_subgroups_that_have_some),
        cmocka_unit_test(a_full_queue_blocks_and_nothing_is_sent_twice),
        cmocka_unit_test(a_pace_holds_the_next_chunk_back_until_it_is_due),
        cmocka_unit_test(a_cancelation_posts_no_more_and_waits_for_what_was_posted),
        cmocka_unit_test(a_cancelation_waits_for_the_release_alone_too),
        cmocka_unit_test(a_cancelation_before_the_first_batch_is_done_at_once),
        cmocka_unit_test(a_block_in_place_is_not_copied),
        cmocka_unit_test(an_empty_block_is_done_at_once),
        cmocka_unit_test(subgroups_without_chunks_are_skipped),
        cmocka_unit_test(without_queues_the_block_is_only_copied),
        cmocka_unit_test(a_block_that_nobody_hears_is_copied_but_for_one_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
