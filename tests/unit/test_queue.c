/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's multicast queue: tags are not used again while datagrams of their last use may wait, and whoever feeds the
 * kernel from the log of early chunks takes a turn as with what was polled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/queue.h"

static uint32_t waiting, waiting_tag = 1; /* chunks in the provider */
static uint32_t polls;
static bool says_dry;

static uint32_t fake_poll(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    static const uint8_t payload[8];
    uint32_t count = waiting < max ? waiting : max;

    for (uint32_t i = 0; i < count; i++) {
        chunks[i] =
            (struct tt_receive_chunk){.imm = tt_imm_encode(waiting_tag, 0), .length_bytes = 8, .address = payload};
    }
    waiting -= count;
    polls++;
    queue->dry = says_dry && count > 0 && waiting == 0;
    return count;
}

static void fake_repost(struct tt_mcast_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count)
{
    (void)queue;
    (void)chunks;
    (void)count;
}

static const struct tt_mcast_ops fake_ops = {.name = "fake", .poll = fake_poll, .repost = fake_repost};
static struct tt_mcast_queue fake = {.ops = &fake_ops};

static void tag_is_not_used_again_before_the_queue_was_seen_dry(void **state)
{
    static struct tt_queue queue;

    (void)state;
    memset(&queue, 0, sizeof queue);
    queue.mcast = &fake;
    assert_true(tt_queue_may_reuse(&queue, 0));
    assert_true(tt_queue_may_reuse(&queue, 126));
    assert_false(tt_queue_may_reuse(&queue, 127)); /* the tag of collective 0 */

    /* Collectives 0 .. 9 have ended, but the queue is never dry: more waits than one call takes. */
    atomic_store(&queue.frontier, 10);
    waiting = TT_QUEUE_BATCH + 5;
    assert_int_equal(tt_queue_receive(&queue, TT_QUEUE_BATCH), TT_QUEUE_BATCH);
    assert_false(tt_queue_may_reuse(&queue, 127));
    assert_int_equal(tt_queue_receive(&queue, TT_QUEUE_BATCH), 5);
    assert_true(tt_queue_may_reuse(&queue, 127));
    assert_true(tt_queue_may_reuse(&queue, 136)); /* the tag of collective 9 */
    assert_false(tt_queue_may_reuse(&queue, 137));

    /* What ends after a dry look waits for the next one. */
    atomic_store(&queue.frontier, 11);
    assert_false(tt_queue_may_reuse(&queue, 137));
    assert_int_equal(tt_queue_receive(&queue, TT_QUEUE_BATCH), 0);
    assert_true(tt_queue_may_reuse(&queue, 137));
}

static void feeding_the_kernel_from_the_log_is_a_turn_and_an_empty_log_is_none(void **state)
{
    static struct tt_queue queue;
    static struct tt_early_pool pool;
    static _Alignas(8) uint8_t slabs[TT_EARLY_SLABS * 64];
    struct tt_receive_chunk chunk = {.imm = tt_imm_encode(TT_TAG_EAGER + 10, 0), .length_bytes = 8, .address = slabs};

    (void)state;
    memset(&queue, 0, sizeof queue);
    queue.mcast = &fake;
    tt_early_pool_init(&pool, slabs, 64);
    queue.receiver.log.pool = &pool;
    assert_int_equal(tt_queue_receive_early(&queue), 0);
    assert_int_equal(atomic_load(&queue.turn), 0);
    assert_true(tt_early_add(&queue.receiver.log, &chunk, 10));
    atomic_store(&queue.frontier, 10);
    assert_int_equal(tt_queue_receive_early(&queue), 0); /* nobody has published it */
    assert_int_equal(queue.receiver.frontier, 10);
    assert_int_equal(atomic_load(&queue.turn), 2);
    assert_true(tt_queue_is_quiet(&queue, 1)); /* that turn is over */
    atomic_store(&queue.frontier, 11);
    assert_int_equal(tt_queue_receive(&queue, TT_QUEUE_BATCH), 0); /* polling looks at the log first: out of date */
    assert_int_equal(atomic_load(&queue.receiver.stale), 1);
    assert_int_equal(atomic_load(&queue.turn), 4);
    assert_int_equal(tt_queue_receive(&queue, TT_QUEUE_BATCH), 0);
    assert_int_equal(atomic_load(&queue.turn), 4);
}

/* Control reads a buffer into which chunks are placed, so it must know that none is, and none will be meanwhile. */
static void chunks_that_are_withheld_wait(void **state)
{
    static struct tt_queue queue;
    static struct tt_early_pool pool;
    static _Alignas(8) uint8_t slabs[TT_EARLY_SLABS * 64];
    static uint8_t buffer[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    static _Atomic uint64_t bitmap[1];
    struct tt_stream stream = {.bitmap = bitmap, .buffer = buffer, .notify_at = UINT32_MAX};
    struct tt_layout layout;
    uint32_t tag = tt_tag_of_sequence(0, true);

    (void)state;
    memset(&queue, 0, sizeof queue);
    queue.mcast = &fake;
    tt_early_pool_init(&pool, slabs, 64);
    queue.receiver.log.pool = &pool;
    assert_true(tt_layout_init(&layout, 8, 8, 1, 1, 256));
    tt_layout_stripe(&layout, 0, &stream.stripe);
    tt_queue_publish(&queue, tag, &stream, 0);

    atomic_store(&queue.turn, 5); /* its worker is placing something */
    assert_false(tt_queue_withhold(&queue, tag, &stream));
    atomic_store(&queue.turn, 6);
    assert_true(tt_queue_withhold(&queue, tag, &stream));
    waiting = 1;
    waiting_tag = tag;
    assert_int_equal(tt_queue_receive(&queue, TT_QUEUE_BATCH), 1);
    assert_int_equal(buffer[0], 1); /* not while it is read */
    tt_queue_publish(&queue, tag, &stream, 0);
    assert_int_equal(tt_queue_receive_early(&queue), 1);
    assert_int_equal(buffer[0], 0);
    assert_false(tt_queue_withhold(&queue, tag, &stream)); /* what it would read is over */
}

/* A worker that starves while 100 collectives end otherwise (what it would have received is fetched): what it finds in
 * the queue then may be of any of them. Their tags, 28 ahead of the frontier's, are not those of early ones. */
static void what_has_waited_in_the_queue_is_not_taken_for_early(void **state)
{
    static struct tt_queue queue;
    static struct tt_early_pool pool;
    static _Alignas(8) uint8_t slabs[TT_EARLY_SLABS * 64];

    (void)state;
    memset(&queue, 0, sizeof queue);
    queue.mcast = &fake;
    tt_early_pool_init(&pool, slabs, 64);
    queue.receiver.log.pool = &pool;
    atomic_store(&queue.frontier, 100);
    waiting = 1;
    waiting_tag = tt_tag_of_sequence(0, true);
    assert_int_equal(tt_queue_receive(&queue, TT_QUEUE_BATCH), 1);
    assert_int_equal(atomic_load(&queue.receiver.stale), 1);
    waiting = 1; /* the queue has been dry: now it is of collective 128 */
    assert_int_equal(tt_queue_receive(&queue, TT_QUEUE_BATCH), 1);
    assert_int_equal(atomic_load(&queue.receiver.early), 1);
}

static void a_provider_that_says_that_it_is_dry_is_not_asked_again(void **state)
{
    static struct tt_queue queue;

    (void)state;
    memset(&queue, 0, sizeof queue);
    queue.mcast = &fake;
    atomic_store(&queue.frontier, 10);
    polls = 0;
    says_dry = true;
    waiting = 3;
    assert_int_equal(tt_queue_receive(&queue, TT_QUEUE_BATCH), 3);
    assert_int_equal(polls, 1);
    assert_false(queue.more);
    assert_true(tt_queue_may_reuse(&queue, 136)); /* as if it had been */
    says_dry = false;
    waiting = 3;
    assert_int_equal(tt_queue_receive(&queue, TT_QUEUE_BATCH), 3);
    assert_int_equal(polls, 3);
}

/* The probe asks for it. Where tags are about to run out, the queue is drained all the same. */
static void what_asks_for_attention_comes_before_what_is_left(void **state)
{
    static struct tt_queue queue;
    static _Atomic uint64_t heard[1];

    (void)state;
    memset(&queue, 0, sizeof queue);
    queue.mcast = &fake;
    queue.receiver.heard = heard;
    queue.receiver.size = 2;
    queue.receiver.rank = 1;
    queue.receiver.probe_bytes = 8;
    waiting_tag = TT_TAG_PROBE;
    polls = 0;
    waiting = TT_QUEUE_BATCH + 1;
    atomic_store(&queue.frontier, 15);
    assert_int_equal(tt_queue_receive_until_attention(&queue, 4 * TT_QUEUE_BATCH), TT_QUEUE_BATCH);
    assert_int_equal(polls, 1);
    assert_true(queue.more);
    atomic_store(&queue.frontier, 16);
    assert_int_equal(tt_queue_receive_until_attention(&queue, 4 * TT_QUEUE_BATCH), 1);
    assert_int_equal(polls, 3);
    assert_false(queue.more);
    waiting = TT_QUEUE_BATCH + 1;
    atomic_store(&queue.frontier, 16);
    assert_int_equal(tt_queue_receive(&queue, 4 * TT_QUEUE_BATCH), TT_QUEUE_BATCH + 1); /* all of it */
    assert_false(queue.more);
    waiting_tag = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tag_is_not_used_again_before_the_queue_was_seen_dry),
        cmocka_unit_test(chunks_that_are_withheld_wait),
        cmocka_unit_test(what_has_waited_in_the_queue_is_not_taken_for_early),
        cmocka_unit_test(feeding_the_kernel_from_the_log_is_a_turn_and_an_empty_log_is_none),
        cmocka_unit_test(a_provider_that_says_that_it_is_dry_is_not_asked_again),
        cmocka_unit_test(what_asks_for_attention_comes_before_what_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
