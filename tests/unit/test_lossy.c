/* SPDX-License-Identifier: BSD-3-Clause */
/* The lossy decorator over a made-up provider that hands out numbered chunks and watches what comes back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "fabric/lossy.h"

enum { LIMIT = 20000, MAX = 64 };

/* The inner provider: one queue at a time. */
struct source {
    struct tt_mcast base;
    bool refuses; /* attach fails */
    bool destroyed;
    uint32_t queues;
    struct tt_mcast_queue queue;
    struct tt_mcast_queue_options options;
    uint32_t tag;  /* of the chunks */
    uint32_t left; /* chunks that wait */
    uint32_t next; /* number of the next one, its PSN */
    uint32_t lent;
    uint32_t polls;
    uint8_t reposted[LIMIT];
};

static struct source *source_of(const struct tt_mcast_queue *queue)
{
    return (struct source *)(uintptr_t)((uintptr_t)queue - offsetof(struct source, queue));
}

static void source_attributes(struct tt_mcast *mcast, struct tt_mcast_attributes *attributes)
{
    (void)mcast;
    *attributes = (struct tt_mcast_attributes){.max_chunk_bytes = 1234, .send_batch = 5};
}

static tutti_status source_attach(struct tt_mcast *mcast, const struct tt_mcast_queue_options *options,
                                  struct tt_mcast_queue **queue)
{
    struct source *source = (struct source *)mcast;

    if (source->refuses) {
        return TUTTI_ERR_IN_USE;
    }
    source->options = *options;
    source->queue.ops = mcast->ops;
    source->queues++;
    *queue = &source->queue;
    return TUTTI_OK;
}

static void source_detach(struct tt_mcast_queue *queue)
{
    source_of(queue)->queues--;
}

static uint32_t source_depth_chunks(const struct tt_mcast_queue *queue)
{
    (void)queue;
    return 99;
}

static uint32_t source_post(struct tt_mcast_queue *queue, const struct tt_send_chunk *chunks, uint32_t count)
{
    (void)queue;
    return chunks[0].imm + count;
}

static uint32_t source_sent(struct tt_mcast_queue *queue)
{
    (void)queue;
    return 17;
}

static uint32_t source_poll(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunks, uint32_t max)
{
    struct source *source = source_of(queue);
    uint32_t count = source->left < max ? source->left : max;

    assert_int_equal(source->lent, 0);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t number = source->next++;
        chunks[i] = (struct tt_receive_chunk){
            .imm = tt_imm_encode(source->tag, number), .length_bytes = number, .source = 3, .staging = number};
    }
    source->left -= count;
    source->lent = count;
    source->polls++;
    return count;
}

static void source_repost(struct tt_mcast_queue *queue, const struct tt_receive_chunk *chunks, uint32_t count)
{
    struct source *source = source_of(queue);

    for (uint32_t i = 0; i < count; i++) {
        source->reposted[chunks[i].staging]++;
    }
    assert_in_range(count, 0, source->lent);
    source->lent -= count;
}

static int source_receive_fd(const struct tt_mcast_queue *queue)
{
    (void)queue;
    return 41;
}

static uint32_t joined_again;

static void source_join_again(struct tt_mcast_queue *queue)
{
    assert_int_equal(source_of(queue)->queues, 1);
    joined_again++;
}

static int source_send_fd(const struct tt_mcast_queue *queue)
{
    (void)queue;
    return 42;
}

static void source_counters(const struct tt_mcast_queue *queue, struct tt_mcast_counters *counters)
{
    *counters = (struct tt_mcast_counters){.datagrams_received = source_of(queue)->next, .drops_injected = 1000};
}

static void source_destroy(struct tt_mcast *mcast)
{
    ((struct source *)mcast)->destroyed = true;
}

static const struct tt_mcast_ops source_ops = {.name = "source",
                                               .attributes = source_attributes,
                                               .attach = source_attach,
                                               .join_again = source_join_again,
                                               .detach = source_detach,
                                               .depth_chunks = source_depth_chunks,
                                               .post = source_post,
                                               .sent = source_sent,
                                               .poll = source_poll,
                                               .repost = source_repost,
                                               .receive_fd = source_receive_fd,
                                               .send_fd = source_send_fd,
                                               .counters = source_counters,
                                               .destroy = source_destroy};

/* Receives `count` chunks with these settings; notes which ones survived, checks all else; returns how many did. */
static uint32_t survive(uint32_t loss_ppm, uint64_t seed, uint32_t rank, uint32_t before, uint32_t tag, uint32_t count,
                        uint8_t *survived)
{
    static struct source source;
    static uint32_t other_address; /* every job has another one; it must not matter */
    struct tt_mcast_queue_options options = {.address = {.group_be = ++other_address, .port = 1}, .rank = rank};
    struct tt_receive_chunk chunks[MAX];
    struct tt_mcast *mcast = NULL;
    struct tt_mcast_queue *queue = NULL;
    struct tt_mcast_counters counters;
    uint32_t kept = 0;
    uint32_t previous = 0;

    memset(&source, 0, sizeof(source));
    memset(survived, 0, LIMIT);
    source.base.ops = &source_ops;
    source.tag = tag;
    source.left = count;
    assert_int_equal(tt_lossy_create(&source.base, loss_ppm, seed, &mcast), TUTTI_OK);
    for (uint32_t i = 0; i < before; i++) {
        assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_OK);
        queue->ops->detach(queue);
    }
    assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_OK);
    for (uint32_t n; (n = queue->ops->poll(queue, chunks, MAX)) > 0;) {
        for (uint32_t i = 0; i < n; i++) {
            uint32_t number = tt_imm_psn(chunks[i].imm);
            assert_int_equal(chunks[i].length_bytes, number);
            assert_true(kept == 0 || number > previous); /* in the order in which they came */
            previous = number;
            survived[number] = 1;
            kept++;
        }
        queue->ops->repost(queue, chunks, n);
    }
    /* Nothing means that nothing waits, and all staging has been given back once. */
    assert_int_equal(source.left, 0);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(source.reposted[i], 1);
    }
    queue->ops->counters(queue, &counters);
    assert_int_equal(counters.datagrams_received, count);
    assert_int_equal(counters.drops_injected, 1000 + count - kept); /* beside those that the inner provider drops */
    queue->ops->detach(queue);
    assert_int_equal(source.queues, 0);
    mcast->ops->destroy(mcast);
    assert_true(source.destroyed);
    return kept;
}

static void share_of_dropped_chunks_is_the_one_asked_for(void **state)
{
    static uint8_t survived[LIMIT];

    (void)state;
    assert_int_equal(survive(0, 1, 0, 1, 5, LIMIT, survived), LIMIT);
    assert_int_equal(survive(1000000, 1, 0, 1, 5, LIMIT, survived), 0);
    /* Five standard deviations around the mean of 20,000 throws. */
    assert_in_range(survive(500000, 1, 0, 1, 5, LIMIT, survived), 10000 - 354, 10000 + 354);
    assert_in_range(survive(10000, 1, 0, 1, 5, LIMIT, survived), 19800 - 71, 19800 + 71);
}

static void same_seed_drops_the_same_chunks(void **state)
{
    static uint8_t first[LIMIT];
    static uint8_t second[LIMIT];

    (void)state;
    survive(300000, 42, 3, 7, 5, LIMIT, first);
    survive(300000, 42, 3, 7, 5, LIMIT, second);
    assert_memory_equal(first, second, LIMIT);
    survive(300000, 43, 3, 7, 5, LIMIT, second);
    assert_memory_not_equal(first, second, LIMIT);
}

static void ranks_and_subgroups_lose_independently(void **state)
{
    static uint8_t survived[3][LIMIT];

    (void)state;
    survive(500000, 42, 0, 7, 5, LIMIT, survived[0]);
    survive(500000, 42, 1, 7, 5, LIMIT, survived[1]);
    survive(500000, 42, 0, 8, 5, LIMIT, survived[2]);
    for (int i = 0; i < 3; i++) {
        uint32_t both = 0;
        for (uint32_t chunk = 0; chunk < LIMIT; chunk++) {
            both += survived[i][chunk] && survived[(i + 1) % 3][chunk];
        }
        assert_in_range(both, 5000 - 310, 5000 + 310);
    }
}

static void start_up_probe_is_never_dropped(void **state)
{
    static uint8_t survived[LIMIT];

    (void)state;
    assert_int_equal(survive(1000000, 1, 0, 1, TT_TAG_PROBE, 500, survived), 500);
}

static void everything_else_goes_to_the_inner_provider(void **state)
{
    static struct source source = {.base.ops = &source_ops};
    const struct tt_mcast_queue_options options = {
        .address = {.group_be = 9, .port = 8, .key = 7}, .rank = 6, .chunk_bytes = 5};
    struct tt_mcast_attributes attributes;
    struct tt_mcast *mcast = NULL;
    struct tt_mcast_queue *queue = NULL;

    (void)state;
    assert_int_equal(tt_lossy_create(&source.base, 10, 1, &mcast), TUTTI_OK);
    mcast->ops->attributes(mcast, &attributes);
    assert_int_equal(attributes.max_chunk_bytes, 1234);
    assert_int_equal(attributes.send_batch, 5);
    assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_OK);
    assert_int_equal(source.options.address.port, 8);
    assert_true(source.options.address.key == 7);
    assert_int_equal(source.options.rank, 6);
    assert_int_equal(source.options.chunk_bytes, 5);
    assert_int_equal(queue->ops->depth_chunks(queue), 99);
    assert_int_equal(queue->ops->post(queue, &(struct tt_send_chunk){.imm = 100}, 1), 101);
    assert_int_equal(queue->ops->sent(queue), 17);
    assert_int_equal(queue->ops->receive_fd(queue), 41);
    assert_int_equal(queue->ops->send_fd(queue), 42);
    queue->ops->join_again(queue);
    assert_int_equal(joined_again, 1);
    queue->ops->detach(queue);
    mcast->ops->detach(NULL);
    assert_int_equal(source.queues, 0);
    source.refuses = true;
    queue = NULL;
    assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_ERR_IN_USE);
    assert_null(queue);
    mcast->ops->destroy(mcast);
}

static void loss_of_more_than_everything_is_refused(void **state)
{
    static struct source source = {.base.ops = &source_ops};
    struct tt_mcast *mcast = NULL;

    (void)state;
    assert_int_equal(tt_lossy_create(&source.base, 1000001, 1, &mcast), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "1000001"));
    assert_null(mcast);
    assert_false(source.destroyed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(share_of_dropped_chunks_is_the_one_asked_for),
        cmocka_unit_test(same_seed_drops_the_same_chunks),
        cmocka_unit_test(ranks_and_subgroups_lose_independently),
        cmocka_unit_test(start_up_probe_is_never_dropped),
        cmocka_unit_test(everything_else_goes_to_the_inner_provider),
        cmocka_unit_test(loss_of_more_than_everything_is_refused),
    };
    tt_log_configure("none", NULL, (char[64]){0}, 64);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
