/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The mcast contract (fabric/mcast.h), over every provider. `conformance_mcast udp` runs one of them.
 *
 * Datagrams may be lost, but not here: the providers' networks are idle and what is posted stays below depth_chunks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>

#include "mcast_bodies.h"
#include "mcast_world.h"
#include "runner.h"
#include "skip.h"

static void every_member_gets_what_each_member_posts(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_send_chunk chunks[CONFORMANCE_MEMBERS];
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        chunks[i] = (struct tt_send_chunk){.imm = 0xA0000000U + i, .length_bytes = CHUNK_BYTES - i};
        chunks[i].address = mcast_pattern(chunks[i].length_bytes, i);
        mcast_post_all(&world, world.inboxes[i].queue, &chunks[i], 1);
    }
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        mcast_await(&world, &world.inboxes[i], CONFORMANCE_MEMBERS - 1);
        for (uint32_t j = 0; j < CONFORMANCE_MEMBERS; j++) {
            if (i != j) {
                mcast_assert_received(&world.inboxes[i], &chunks[j], j);
            }
        }
    }
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        free((void *)(uintptr_t)chunks[i].address);
    }
    mcast_end(&world);
}

static void own_chunks_are_never_seen(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    const struct tt_send_chunk chunk = {.imm = 1, .length_bytes = 5, .address = "12345"};
    mcast_post_all(&world, world.inboxes[0].queue, &chunk, 1);
    mcast_await(&world, &world.inboxes[1], 1);
    mcast_assert_quiet(&world, &world.inboxes[0]);
    assert_int_equal(world.inboxes[0].count, 0);
    mcast_end(&world);
}

static void chunk_of_zero_bytes_arrives(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    const struct tt_send_chunk chunks[] = {{.imm = 7, .address = NULL}, {.imm = 8, .address = ""}};
    mcast_post_all(&world, world.inboxes[2].queue, chunks, 2);
    mcast_await(&world, &world.inboxes[0], 2);
    mcast_assert_received(&world.inboxes[0], &chunks[0], 2);
    mcast_assert_received(&world.inboxes[0], &chunks[1], 2);
    mcast_end(&world);
}

static void longest_chunk_arrives_and_a_longer_one_is_refused(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast *mcast = world.fixture->mcast(world.world, 0);
    struct tt_mcast_attributes attributes;
    mcast->ops->attributes(mcast, &attributes);
    assert_true(attributes.max_chunk_bytes >= 1024 && attributes.send_batch >= 1);

    const struct tt_mcast_address address = mcast_address_of(&world, 1);
    const struct tt_mcast_queue_options longer = {
        .address = address, .rank = 0, .chunk_bytes = attributes.max_chunk_bytes + 1};
    struct tt_mcast_queue *refused = NULL;
    assert_int_equal(mcast->ops->attach(mcast, &longer, &refused), TUTTI_ERR_INVALID_ARGUMENT);
    assert_null(refused);

    struct inbox sender = {.queue = mcast_attach(&world, 0, &address, attributes.max_chunk_bytes)};
    struct inbox receiver = {.queue = mcast_attach(&world, 1, &address, attributes.max_chunk_bytes)};
    mcast_introduce((struct tt_mcast_queue *[CONFORMANCE_MEMBERS]){sender.queue, receiver.queue});
    unsigned char *bytes = mcast_pattern(attributes.max_chunk_bytes, 5);
    for (uint32_t i = 0; i < 3; i++) {
        const struct tt_send_chunk chunk = {
            .imm = i, .length_bytes = attributes.max_chunk_bytes - i, .address = bytes + i};
        mcast_post_all(&world, sender.queue, &chunk, 1);
        mcast_await(&world, &receiver, i + 1);
        mcast_assert_received(&receiver, &chunk, 0);
    }
    free(bytes);
    mcast_clear(&receiver);
    sender.queue->ops->detach(sender.queue);
    receiver.queue->ops->detach(receiver.queue);
    mcast_end(&world);
}

static void depth_is_kept_for_queues_that_nobody_polls(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    const uint32_t count = mcast_safe_count(world.inboxes[3].queue);
    unsigned char *bytes = mcast_pattern((size_t)count * CHUNK_BYTES, 9);
    struct tt_send_chunk *chunks = calloc(count, sizeof(*chunks));
    assert_non_null(chunks);
    for (uint32_t i = 0; i < count; i++) {
        chunks[i] =
            (struct tt_send_chunk){.imm = i, .length_bytes = CHUNK_BYTES, .address = bytes + (size_t)i * CHUNK_BYTES};
    }
    mcast_post_all(&world, world.inboxes[3].queue, chunks, count);
    mcast_await_sent(&world, world.inboxes[3].queue, count);
    mcast_wait_quietly(&world);
    for (uint32_t i = 0; i < 3; i++) {
        mcast_await(&world, &world.inboxes[i], count);
        for (uint32_t j = 0; j < count; j++) {
            mcast_assert_received(&world.inboxes[i], &chunks[j], 3);
        }
    }
    free(chunks);
    free(bytes);
    mcast_end(&world);
}

static void batch_beyond_send_batch_arrives(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast *mcast = world.fixture->mcast(world.world, 0);
    struct tt_mcast_attributes attributes;
    mcast->ops->attributes(mcast, &attributes);
    uint32_t count = 3 * attributes.send_batch + 1;
    if (count > mcast_safe_count(world.inboxes[0].queue)) {
        count = mcast_safe_count(world.inboxes[0].queue);
    }
    unsigned char *bytes = mcast_pattern(count + CHUNK_BYTES, 2);
    struct tt_send_chunk *chunks = calloc(count, sizeof(*chunks));
    assert_non_null(chunks);
    for (uint32_t i = 0; i < count; i++) {
        chunks[i] = (struct tt_send_chunk){.imm = i, .length_bytes = 64, .address = bytes + i};
    }
    mcast_post_all(&world, world.inboxes[0].queue, chunks, count);
    mcast_await(&world, &world.inboxes[1], count);
    for (uint32_t i = 0; i < count; i++) {
        mcast_assert_received(&world.inboxes[1], &chunks[i], 0);
    }
    free(chunks);
    free(bytes);
    mcast_end(&world);
}

static void batch_of_unequal_lengths_arrives_uncut(void **state)
{
    static const uint32_t lengths[] = {0, 1024, 1024, 1, 1024, 0, 0, 7, 1023, 1024, 512, 512, 512, 511, 1024, 3};
    enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_send_chunk chunks[COUNT];
    unsigned char *bytes = mcast_pattern(COUNT + CHUNK_BYTES, 4);
    for (uint32_t i = 0; i < COUNT; i++) {
        chunks[i] = (struct tt_send_chunk){.imm = i, .length_bytes = lengths[i], .address = bytes + i};
    }
    mcast_post_all(&world, world.inboxes[1].queue, chunks, COUNT);
    mcast_await(&world, &world.inboxes[2], COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        mcast_assert_received(&world.inboxes[2], &chunks[i], 1);
    }
    free(bytes);
    mcast_end(&world);
}

static void chunk_that_came_before_the_introduction_is_kept(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    const struct tt_mcast_address address = mcast_address_of(&world, 1);
    struct inbox sender = {.queue = mcast_attach(&world, 0, &address, CHUNK_BYTES)};
    struct inbox receiver = {.queue = mcast_attach(&world, 1, &address, CHUNK_BYTES)};
    struct tt_mcast_queue *members[CONFORMANCE_MEMBERS] = {sender.queue, receiver.queue};
    uint8_t names[CONFORMANCE_MEMBERS][TT_MCAST_NAME_BYTES];
    const struct tt_send_chunk chunk = {.imm = 5, .length_bytes = 5, .address = "early"};

    mcast_collect_names(members, names);
    assert_int_equal(sender.queue->ops->introduce(sender.queue, names, TT_MCAST_NAME_BYTES, 2), TUTTI_OK);
    mcast_post_all(&world, sender.queue, &chunk, 1);
    mcast_wait_quietly(&world);
    mcast_poll_once(&receiver, MAX_BATCH);
    assert_int_equal(receiver.queue->ops->introduce(receiver.queue, names, TT_MCAST_NAME_BYTES, 2), TUTTI_OK);
    mcast_await(&world, &receiver, 1);
    mcast_assert_received(&receiver, &chunk, 0);
    sender.queue->ops->detach(sender.queue);
    receiver.queue->ops->detach(receiver.queue);
    mcast_clear(&receiver);
    mcast_end(&world);
}

/* Registered, not registered, and of both kinds in one post. */
static void registered_memory_is_sent_from_as_any_other(void **state)
{
    enum { COUNT = 24 };
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast *mcast = world.fixture->mcast(world.world, 0);
    struct tt_send_chunk chunks[COUNT];
    unsigned char *bytes = mcast_pattern(COUNT * CHUNK_BYTES, 14);
    struct tt_mcast_memory *memory = mcast->ops->memory_register(mcast, mcast_sender_of(0), bytes, COUNT * CHUNK_BYTES);

    for (uint32_t i = 0; i < COUNT; i++) {
        const uint32_t length_bytes = i % 5 == 4 ? i : CHUNK_BYTES - i; /* the short ones may go another way */
        chunks[i] = (struct tt_send_chunk){.imm = i,
                                           .length_bytes = length_bytes,
                                           .address = bytes + i * CHUNK_BYTES,
                                           .memory = i % 3 == 0 ? NULL : memory};
    }
    mcast_post_all(&world, world.inboxes[0].queue, chunks, COUNT);
    mcast_await_sent(&world, world.inboxes[0].queue, COUNT);
    mcast->ops->memory_release(memory);
    mcast_await(&world, &world.inboxes[1], COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        mcast_assert_received(&world.inboxes[1], &chunks[i], 0);
    }
    mcast->ops->memory_release(NULL);
    free(bytes);
    mcast_end(&world);
}

/* Whoever has filled the send queue may sleep until there is room, where there is a descriptor, or try again. */
static void full_send_queue_takes_more_once_there_is_room(void **state)
{
    enum { ENOUGH = 4096, BATCH = 64 };
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast_queue *queue = world.inboxes[0].queue;
    struct pollfd wait = {.fd = queue->ops->send_fd(queue), .events = POLLIN | POLLOUT};
    unsigned char *bytes = mcast_pattern(CHUNK_BYTES, 15);
    struct tt_send_chunk chunks[BATCH];
    uint32_t accepted = BATCH, posted = 0;

    for (uint32_t i = 0; i < BATCH; i++) {
        chunks[i] = (struct tt_send_chunk){.imm = i, .length_bytes = CHUNK_BYTES, .address = bytes};
    }
    while (accepted == BATCH && posted < ENOUGH) {
        accepted = queue->ops->post(queue, chunks, BATCH);
        posted += accepted;
    }
    if (accepted < BATCH) {
        if (wait.fd >= 0) {
            assert_int_equal(poll(&wait, 1, 5000), 1);
            assert_true(wait.revents & (POLLIN | POLLOUT));
        }
        mcast_post_all(&world, queue, chunks, BATCH);
        posted += BATCH;
        mcast_await_sent(&world, queue, posted);
    }
    free(bytes);
    mcast_end(&world);
    if (accepted == BATCH) { /* an emulated device sends while it is posted to */
        assert_true(wait.fd >= 0);
        TT_SKIP("%s: its send queue is never full", ((const struct conformance_fixture *)*state)->name);
    }
}

static void every_bit_of_the_immediate_is_kept(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    static const uint32_t imms[] = {0, 1, 0x80000000U, 0xFFFFFFFFU, 0x12345678U};
    for (uint32_t i = 0; i < 5; i++) {
        const struct tt_send_chunk chunk = {.imm = imms[i], .length_bytes = 3, .address = "abc"};
        mcast_post_all(&world, world.inboxes[3].queue, &chunk, 1);
        mcast_await(&world, &world.inboxes[0], i + 1);
        mcast_assert_received(&world.inboxes[0], &chunk, 3);
    }
    mcast_end(&world);
}

static void keys_keep_groups_on_one_address_apart(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast_address address = mcast_address_of(&world, 0);
    address.key ^= UINT64_C(1) << 63;
    struct inbox foreign[2] = {{.queue = mcast_attach(&world, 2, &address, CHUNK_BYTES)},
                               {.queue = mcast_attach(&world, 3, &address, CHUNK_BYTES)}};
    mcast_introduce((struct tt_mcast_queue *[CONFORMANCE_MEMBERS]){NULL, NULL, foreign[0].queue, foreign[1].queue});
    const struct tt_send_chunk ours = {.imm = 1, .length_bytes = 4, .address = "ours"},
                               theirs = {.imm = 2, .length_bytes = 6, .address = "theirs"};

    mcast_post_all(&world, world.inboxes[0].queue, &ours, 1);
    mcast_post_all(&world, foreign[0].queue, &theirs, 1);
    mcast_await(&world, &world.inboxes[1], 1);
    mcast_assert_received(&world.inboxes[1], &ours, 0);
    mcast_await(&world, &foreign[1], 1);
    mcast_assert_received(&foreign[1], &theirs, 2);
    mcast_assert_quiet(&world, &world.inboxes[1]);
    mcast_assert_quiet(&world, &foreign[1]);
    struct tt_mcast_counters counters;
    foreign[1].queue->ops->counters(foreign[1].queue, &counters);
    assert_int_equal(counters.drops_key, 1);
    for (uint32_t i = 0; i < 2; i++) {
        foreign[i].queue->ops->detach(foreign[i].queue);
        mcast_clear(&foreign[i]);
    }
    mcast_end(&world);
}

static void subgroups_of_one_provider_are_apart(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    const struct tt_mcast_address address = mcast_address_of(&world, 1);
    struct inbox other[2] = {{.queue = mcast_attach(&world, 0, &address, CHUNK_BYTES)},
                             {.queue = mcast_attach(&world, 1, &address, CHUNK_BYTES)}};
    mcast_introduce((struct tt_mcast_queue *[CONFORMANCE_MEMBERS]){other[0].queue, other[1].queue});
    const struct tt_send_chunk first = {.imm = 1, .length_bytes = 5, .address = "first"},
                               second = {.imm = 2, .length_bytes = 6, .address = "second"};
    mcast_post_all(&world, world.inboxes[0].queue, &first, 1);
    mcast_post_all(&world, other[0].queue, &second, 1);
    mcast_await(&world, &world.inboxes[1], 1);
    mcast_await(&world, &other[1], 1);
    mcast_assert_received(&world.inboxes[1], &first, 0);
    mcast_assert_received(&other[1], &second, 0);
    mcast_assert_quiet(&world, &world.inboxes[1]);
    mcast_assert_quiet(&world, &other[1]);
    for (uint32_t i = 0; i < 2; i++) {
        other[i].queue->ops->detach(other[i].queue);
        mcast_clear(&other[i]);
    }
    mcast_end(&world);
}

static void poll_of_fewer_leaves_the_rest(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct inbox *inbox = &world.inboxes[1];
    const uint32_t safe = mcast_safe_count(inbox->queue), count = safe < 1000 ? safe : 1000;
    struct tt_send_chunk *chunks = calloc(count, sizeof(*chunks));
    unsigned char *bytes = mcast_pattern(count + CHUNK_BYTES, 8);
    assert_non_null(chunks);
    assert_true(count > 2 * TT_MCAST_POLL_LEAST);
    for (uint32_t i = 0; i < count; i++) {
        chunks[i] = (struct tt_send_chunk){.imm = i, .length_bytes = 200, .address = bytes + i};
    }
    mcast_post_all(&world, world.inboxes[0].queue, chunks, count);
    mcast_await_sent(&world, world.inboxes[0].queue, count);
    mcast_wait_quietly(&world);
    uint32_t max = TT_MCAST_POLL_LEAST;
    while (inbox->count < count) {
        assert_true(mcast_poll_once(inbox, max) > 0); /* all of them wait already */
        max = max == MAX_BATCH ? TT_MCAST_POLL_LEAST : max + 13;
    }
    for (uint32_t i = 0; i < count; i++) {
        mcast_assert_received(inbox, &chunks[i], 0);
    }
    mcast_assert_quiet(&world, inbox);
    free(chunks);
    free(bytes);
    mcast_end(&world);
}

/* Four queues of one member, two by two with one feeder; what waits in one is not touched by polls of another. */
static void queues_of_one_feeder_and_of_others_keep_what_is_theirs(void **state)
{
    enum { QUEUES = 4, COUNT = 100 };
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast *mcast = world.fixture->mcast(world.world, 0);
    struct inbox receivers[QUEUES], senders[QUEUES];
    struct tt_send_chunk chunks[QUEUES][COUNT];
    unsigned char *bytes = mcast_pattern(QUEUES * COUNT + CHUNK_BYTES, 12);
    for (uint32_t q = 0; q < QUEUES; q++) {
        const struct tt_mcast_queue_options options = {
            .address = mcast_address_of(&world, q + 1), .rank = 0, .chunk_bytes = CHUNK_BYTES, .feeder = 3 + q / 2};
        receivers[q] = (struct inbox){0};
        assert_int_equal(mcast->ops->attach(mcast, &options, &receivers[q].queue), TUTTI_OK);
        assert_int_equal(tt_mcast_join(receivers[q].queue), TUTTI_OK);
        senders[q] = (struct inbox){.queue = mcast_attach(&world, 1, &options.address, CHUNK_BYTES)};
        mcast_introduce((struct tt_mcast_queue *[CONFORMANCE_MEMBERS]){receivers[q].queue, senders[q].queue});
    }
    for (uint32_t q = 0; q < QUEUES; q++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            chunks[q][i] = (struct tt_send_chunk){
                .imm = q * COUNT + i, .length_bytes = CHUNK_BYTES - q, .address = bytes + q * COUNT + i};
        }
        mcast_post_all(&world, senders[q].queue, chunks[q], COUNT);
        mcast_await_sent(&world, senders[q].queue, COUNT);
    }
    mcast_wait_quietly(&world);
    /* The chunks of the first two queues are both held, with a feeder each, while the others are under way. */
    struct tt_receive_chunk held[2][TT_MCAST_POLL_LEAST];
    uint32_t counts[2];
    for (uint32_t f = 0; f < 2; f++) {
        counts[f] = receivers[2 * f].queue->ops->poll(receivers[2 * f].queue, held[f], TT_MCAST_POLL_LEAST);
        assert_true(counts[f] > 0);
    }
    for (uint32_t f = 0; f < 2; f++) {
        for (uint32_t i = 0; i < counts[f]; i++) {
            mcast_keep(&receivers[2 * f], &held[f][i]);
        }
        receivers[2 * f].queue->ops->repost(receivers[2 * f].queue, held[f], counts[f]);
    }
    for (bool any = true; any;) { /* in turn, so that each finds the staging as the other left it */
        any = false;
        for (uint32_t q = 0; q < QUEUES; q++) {
            any |= mcast_poll_once(&receivers[q], TT_MCAST_POLL_LEAST) > 0;
        }
    }
    for (uint32_t q = 0; q < QUEUES; q++) {
        assert_int_equal(receivers[q].count, COUNT);
        for (uint32_t i = 0; i < COUNT; i++) {
            mcast_assert_received(&receivers[q], &chunks[q][i], 1);
        }
        receivers[q].queue->ops->detach(receivers[q].queue);
        senders[q].queue->ops->detach(senders[q].queue);
        mcast_clear(&receivers[q]);
    }
    free(bytes);
    mcast_end(&world);
}

/* All of them queues of one member, each with memory that is registered for its sender. */
static void feeder_and_sender_are_any_two_threads_or_one(void **state)
{
    static const uint32_t threads[][2] = {{0, 0}, {0, CONFORMANCE_THREADS - 1}, {CONFORMANCE_THREADS - 1, 0}};
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast *mcast = world.fixture->mcast(world.world, 0);
    unsigned char *bytes = mcast_pattern(2 * CHUNK_BYTES, 13);

    for (uint32_t i = 0; i < sizeof(threads) / sizeof(threads[0]); i++) {
        const struct tt_mcast_queue_options options = {.address = mcast_address_of(&world, i + 1),
                                                       .rank = 0,
                                                       .chunk_bytes = CHUNK_BYTES,
                                                       .feeder = threads[i][0],
                                                       .sender = threads[i][1]};
        struct inbox here = {0}, there = {.queue = mcast_attach(&world, 1, &options.address, CHUNK_BYTES)};
        assert_int_equal(mcast->ops->attach(mcast, &options, &here.queue), TUTTI_OK);
        assert_int_equal(tt_mcast_join(here.queue), TUTTI_OK);
        mcast_introduce((struct tt_mcast_queue *[CONFORMANCE_MEMBERS]){here.queue, there.queue});
        struct tt_mcast_memory *memory = mcast->ops->memory_register(mcast, threads[i][1], bytes, 2 * CHUNK_BYTES);
        const struct tt_send_chunk out = {
            .imm = 20 + i, .length_bytes = CHUNK_BYTES, .address = bytes + i, .memory = memory};
        const struct tt_send_chunk back = {.imm = 30 + i, .length_bytes = CHUNK_BYTES - i, .address = bytes};

        mcast_post_all(&world, here.queue, &out, 1);
        mcast_post_all(&world, there.queue, &back, 1);
        mcast_await(&world, &there, 1);
        mcast_await(&world, &here, 1);
        mcast_assert_received(&there, &out, 0);
        mcast_assert_received(&here, &back, 1);
        mcast_await_sent(&world, here.queue, 1);
        mcast->ops->memory_release(memory);
        here.queue->ops->detach(here.queue);
        there.queue->ops->detach(there.queue);
        mcast_clear(&here);
        mcast_clear(&there);
    }
    free(bytes);
    mcast_end(&world);
}

static void staging_stays_as_it_is_until_reposted(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast_queue *queue = world.inboxes[1].queue;
    struct tt_receive_chunk held[MAX_BATCH];
    unsigned char *bytes = mcast_pattern(2 * CHUNK_BYTES, 6);
    const struct tt_send_chunk first = {.imm = 1, .length_bytes = CHUNK_BYTES, .address = bytes},
                               later = {.imm = 2, .length_bytes = CHUNK_BYTES, .address = bytes + CHUNK_BYTES};
    uint32_t count = 0;

    mcast_post_all(&world, world.inboxes[0].queue, &first, 1);
    for (int i = 0; i < 5000 && count == 0; i++) {
        count = queue->ops->poll(queue, held, MAX_BATCH);
        if (count == 0) {
            world.fixture->pump(world.world, STEP_NS);
        }
    }
    assert_int_equal(count, 1);
    for (uint32_t i = 0; i < 10; i++) {
        mcast_post_all(&world, world.inboxes[0].queue, &later, 1);
    }
    mcast_wait_quietly(&world);
    assert_memory_equal(held[0].address, bytes, CHUNK_BYTES);
    queue->ops->repost(queue, held, 1);
    mcast_await(&world, &world.inboxes[1], 10);
    mcast_assert_received(&world.inboxes[1], &later, 0);
    free(bytes);
    mcast_end(&world);
}

static void ring_goes_around_many_times(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    const uint32_t burst =
        mcast_safe_count(world.inboxes[0].queue) < 32 ? mcast_safe_count(world.inboxes[0].queue) : 32;
    const uint32_t rounds = 4 * (mcast_safe_count(world.inboxes[0].queue) / burst + 1);
    unsigned char *bytes = mcast_pattern(CHUNK_BYTES + burst, 1);
    struct tt_send_chunk chunks[32];
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < burst; i++) {
            chunks[i] = (struct tt_send_chunk){.imm = round * burst + i, .length_bytes = 900, .address = bytes + i};
        }
        mcast_post_all(&world, world.inboxes[0].queue, chunks, burst);
        for (uint32_t i = 1; i < CONFORMANCE_MEMBERS; i++) {
            mcast_await(&world, &world.inboxes[i], burst);
            for (uint32_t j = 0; j < burst; j++) {
                mcast_assert_received(&world.inboxes[i], &chunks[j], 0);
            }
            mcast_clear(&world.inboxes[i]);
        }
    }
    free(bytes);
    mcast_end(&world);
}

static void memory_may_change_once_sent(void **state)
{
    enum { COUNT = 30 };
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast_queue *queue = world.inboxes[0].queue;
    unsigned char bytes[100];
    assert_int_equal(queue->ops->sent(queue), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        memset(bytes, (int)i, sizeof(bytes));
        const struct tt_send_chunk chunk = {.imm = i, .length_bytes = sizeof(bytes), .address = bytes};
        mcast_post_all(&world, queue, &chunk, 1);
        mcast_await_sent(&world, queue, i + 1);
    }
    mcast_await(&world, &world.inboxes[2], COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        memset(bytes, (int)i, sizeof(bytes));
        const struct tt_send_chunk chunk = {.imm = i, .length_bytes = sizeof(bytes), .address = bytes};
        mcast_assert_received(&world.inboxes[2], &chunk, 0);
    }
    mcast_end(&world);
}

static void detach_with_chunks_under_way_harms_nobody(void **state)
{
    enum { COUNT = 20 };
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    unsigned char *bytes = mcast_pattern(CHUNK_BYTES, 3);
    struct tt_send_chunk chunks[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        chunks[i] = (struct tt_send_chunk){.imm = i, .length_bytes = CHUNK_BYTES, .address = bytes};
    }
    mcast_post_all(&world, world.inboxes[0].queue, chunks, COUNT);
    struct tt_mcast_queue *receiver = world.inboxes[1].queue;
    receiver->ops->detach(receiver); /* with chunks on their way to it */
    world.inboxes[1].queue = NULL;
    mcast_await(&world, &world.inboxes[2], COUNT);

    mcast_post_all(&world, world.inboxes[0].queue, chunks, COUNT);
    struct tt_mcast_queue *sender = world.inboxes[0].queue;
    sender->ops->detach(sender); /* with chunks that may not have left */
    world.inboxes[0].queue = NULL;
    memset(bytes, 0, CHUNK_BYTES);
    free(bytes);
    mcast_wait_quietly(&world);

    /* A member that comes back is a member again. */
    const struct tt_mcast_address address = mcast_address_of(&world, 0);
    world.inboxes[0].queue = mcast_attach(&world, 0, &address, CHUNK_BYTES);
    mcast_introduce((struct tt_mcast_queue *[CONFORMANCE_MEMBERS]){world.inboxes[0].queue, NULL, world.inboxes[2].queue,
                                                                   world.inboxes[3].queue});
    const struct tt_send_chunk chunk = {.imm = 99, .length_bytes = 4, .address = "back"};
    mcast_post_all(&world, world.inboxes[3].queue, &chunk, 1);
    mcast_await(&world, &world.inboxes[0], 1);
    mcast_assert_received(&world.inboxes[0], &chunk, 3);
    world.inboxes[2].queue->ops->detach(NULL);
    mcast_end(&world);
}

static void counters_agree_with_what_was_sent(void **state)
{
    enum { COUNT = 25, LENGTH_BYTES = 100 };
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast_counters sent, received;
    unsigned char *bytes = mcast_pattern(LENGTH_BYTES, 0);
    struct tt_send_chunk chunks[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        chunks[i] = (struct tt_send_chunk){.imm = i, .length_bytes = LENGTH_BYTES, .address = bytes};
    }
    mcast_post_all(&world, world.inboxes[0].queue, chunks, COUNT);
    mcast_await_sent(&world, world.inboxes[0].queue, COUNT);
    mcast_await(&world, &world.inboxes[1], COUNT);
    world.inboxes[0].queue->ops->counters(world.inboxes[0].queue, &sent);
    world.inboxes[1].queue->ops->counters(world.inboxes[1].queue, &received);
    assert_int_equal(sent.datagrams_sent, COUNT);
    assert_int_equal(received.datagrams_received, COUNT);
    assert_true(sent.bytes_sent >= COUNT * LENGTH_BYTES && sent.bytes_sent < COUNT * (LENGTH_BYTES + 100));
    assert_int_equal(sent.bytes_sent, received.bytes_received);
    assert_int_equal(received.datagrams_sent + received.bytes_sent, 0);
    assert_int_equal(sent.send_errors + received.drops_key + received.drops_length + received.drops_injected, 0);
    free(bytes);
    mcast_end(&world);
}

static void descriptor_is_readable_while_chunks_wait(void **state)
{
    struct mcast_world world = mcast_begin(state, CHUNK_BYTES);
    struct tt_mcast_queue *queue = world.inboxes[1].queue;
    struct pollfd wait = {.fd = queue->ops->receive_fd(queue), .events = POLLIN};
    const struct tt_send_chunk chunk = {.imm = 1, .length_bytes = 2, .address = "hi"};
    assert_int_equal(poll(&wait, 1, 0), 0);
    mcast_post_all(&world, world.inboxes[0].queue, &chunk, 1);
    assert_int_equal(poll(&wait, 1, 5000), 1);
    mcast_await(&world, &world.inboxes[1], 1);
    /* A poll that finds nothing leaves the descriptor quiet. */
    assert_int_equal(mcast_poll_once(&world.inboxes[1], MAX_BATCH), 0);
    assert_int_equal(poll(&wait, 1, 0), 0);
    mcast_end(&world);
}

int main(int argument_count, char **arguments)
{
    static const struct conformance_fixture *const fixtures[] = {
        &conformance_sim, &conformance_sim_late,  &conformance_sim_uc,     &conformance_lossy,
        &conformance_udp, &conformance_udp_plain, &conformance_verbs_mcast};
    static const struct conformance_body bodies[] = {
        CONFORMANCE_BODY(every_member_gets_what_each_member_posts),
        CONFORMANCE_BODY(own_chunks_are_never_seen),
        CONFORMANCE_BODY(chunk_of_zero_bytes_arrives),
        CONFORMANCE_BODY(longest_chunk_arrives_and_a_longer_one_is_refused),
        CONFORMANCE_BODY(depth_is_kept_for_queues_that_nobody_polls),
        CONFORMANCE_BODY(batch_beyond_send_batch_arrives),
        CONFORMANCE_BODY(batch_of_unequal_lengths_arrives_uncut),
        CONFORMANCE_BODY(chunk_that_came_before_the_introduction_is_kept),
        CONFORMANCE_BODY(registered_memory_is_sent_from_as_any_other),
        CONFORMANCE_BODY_NEEDS(full_send_queue_takes_more_once_there_is_room, CONFORMANCE_FULL),
        CONFORMANCE_BODY(every_bit_of_the_immediate_is_kept),
        CONFORMANCE_BODY(keys_keep_groups_on_one_address_apart),
        CONFORMANCE_BODY(subgroups_of_one_provider_are_apart),
        CONFORMANCE_BODY(poll_of_fewer_leaves_the_rest),
        CONFORMANCE_BODY(queues_of_one_feeder_and_of_others_keep_what_is_theirs),
        CONFORMANCE_BODY(feeder_and_sender_are_any_two_threads_or_one),
        CONFORMANCE_BODY(staging_stays_as_it_is_until_reposted),
        CONFORMANCE_BODY(ring_goes_around_many_times),
        CONFORMANCE_BODY(memory_may_change_once_sent),
        CONFORMANCE_BODY(detach_with_chunks_under_way_harms_nobody),
        CONFORMANCE_BODY(counters_agree_with_what_was_sent),
        CONFORMANCE_BODY_NEEDS(descriptor_is_readable_while_chunks_wait, CONFORMANCE_DESCRIPTORS),
    };
    const struct conformance_table tables[] = {{bodies, sizeof(bodies) / sizeof(bodies[0])},
                                               {mcast_window_bodies, mcast_window_bodies_count}};
    return conformance_run("mcast", fixtures, sizeof(fixtures) / sizeof(fixtures[0]), tables,
                           sizeof(tables) / sizeof(tables[0]), argument_count > 1 ? arguments[1] : NULL);
}
