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

#include "base/clock.h"
#include "runner.h"
#include "skip.h"

enum { MAX_BATCH = 64, STEP_NS = 1000000, CHUNK_BYTES = 1024 };

#define PATIENCE_NS (5 * TT_NS_PER_S)   /* for what must come */
#define QUIET_NS    (30 * TT_NS_PER_MS) /* for what must not */

struct received {
    uint32_t imm, length_bytes, source;
    unsigned char *bytes;
};

/* What one queue has received so far. */
struct inbox {
    struct tt_mcast_queue *queue;
    struct received *received;
    uint32_t count, capacity;
};

struct mcast_world {
    const struct conformance_fixture *fixture;
    void *world;
    struct inbox inboxes[CONFORMANCE_MEMBERS];
};

/* --- Helpers ---------------------------------------------------------------------------------------------------- */

static struct tt_mcast_queue *attach(const struct mcast_world *world, uint32_t member,
                                     const struct tt_mcast_address *address, uint32_t chunk_bytes)
{
    const struct tt_mcast_queue_options options = {.address = *address, .rank = member, .chunk_bytes = chunk_bytes};
    struct tt_mcast *mcast = world->fixture->mcast(world->world, member);
    struct tt_mcast_queue *queue = NULL;
    assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_OK);
    assert_non_null(queue);
    assert_ptr_equal(queue->ops, mcast->ops);
    return queue;
}

static struct tt_mcast_address address_of(const struct mcast_world *world, uint32_t index)
{
    struct tt_mcast_address address;
    world->fixture->mcast_address(world->world, index, &address);
    return address;
}

/* A world in which every member is attached to subgroup 0. */
static struct mcast_world begin(void **state, uint32_t chunk_bytes)
{
    struct mcast_world world = {.fixture = *state};
    const char *reason = world.fixture->create(&world.world);
    if (reason != NULL) {
        TT_SKIP("%s: %s", world.fixture->name, reason);
    }
    const struct tt_mcast_address address = address_of(&world, 0);
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        world.inboxes[i].queue = attach(&world, i, &address, chunk_bytes);
    }
    return world;
}

static void clear(struct inbox *inbox)
{
    for (uint32_t i = 0; i < inbox->count; i++) {
        free(inbox->received[i].bytes);
    }
    free(inbox->received);
    inbox->received = NULL;
    inbox->count = inbox->capacity = 0;
}

static void end(struct mcast_world *world)
{
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        struct inbox *inbox = &world->inboxes[i];
        if (inbox->queue != NULL) {
            inbox->queue->ops->detach(inbox->queue);
        }
        clear(inbox);
    }
    world->fixture->destroy(world->world);
}

static void keep(struct inbox *inbox, const struct tt_receive_chunk *chunk)
{
    if (inbox->count == inbox->capacity) {
        inbox->capacity = inbox->capacity > 0 ? 2 * inbox->capacity : 64;
        inbox->received = realloc(inbox->received, inbox->capacity * sizeof(*inbox->received));
        assert_non_null(inbox->received);
    }
    struct received *received = &inbox->received[inbox->count++];
    *received = (struct received){chunk->imm, chunk->length_bytes, chunk->source, malloc(chunk->length_bytes + 1)};
    assert_non_null(received->bytes);
    if (chunk->length_bytes > 0) {
        memcpy(received->bytes, chunk->address, chunk->length_bytes);
    }
}

/* One poll and repost; returns the count. */
static uint32_t poll_once(struct inbox *inbox, uint32_t max)
{
    struct tt_receive_chunk chunks[MAX_BATCH];
    const uint32_t count = inbox->queue->ops->poll(inbox->queue, chunks, max);
    assert_true(count <= max);
    for (uint32_t i = 0; i < count; i++) {
        keep(inbox, &chunks[i]);
    }
    inbox->queue->ops->repost(inbox->queue, chunks, count);
    return count;
}

static void await(const struct mcast_world *world, struct inbox *inbox, uint32_t count)
{
    const uint64_t deadline_ns = world->fixture->now_ns(world->world) + PATIENCE_NS;
    while (inbox->count < count && world->fixture->now_ns(world->world) < deadline_ns) {
        if (poll_once(inbox, MAX_BATCH) == 0) {
            world->fixture->pump(world->world, STEP_NS);
        }
    }
    assert_int_equal(inbox->count, count);
}

static void wait_quietly(const struct mcast_world *world)
{
    const uint64_t deadline_ns = world->fixture->now_ns(world->world) + QUIET_NS;
    while (world->fixture->now_ns(world->world) < deadline_ns) {
        world->fixture->pump(world->world, STEP_NS);
    }
}

/* Nothing comes any more. */
static void assert_quiet(const struct mcast_world *world, struct inbox *inbox)
{
    const uint32_t count = inbox->count;
    wait_quietly(world);
    while (poll_once(inbox, MAX_BATCH) > 0) {
    }
    assert_int_equal(inbox->count, count);
}

static void post_all(const struct mcast_world *world, struct tt_mcast_queue *queue, const struct tt_send_chunk *chunks,
                     uint32_t count)
{
    const uint64_t deadline_ns = world->fixture->now_ns(world->world) + PATIENCE_NS;
    uint32_t done = 0;
    while (done < count && world->fixture->now_ns(world->world) < deadline_ns) {
        const uint32_t accepted = queue->ops->post(queue, chunks + done, count - done);
        assert_true(accepted <= count - done);
        done += accepted;
        if (accepted == 0) {
            world->fixture->pump(world->world, STEP_NS);
        }
    }
    assert_int_equal(done, count);
}

static void await_sent(const struct mcast_world *world, struct tt_mcast_queue *queue, uint32_t count)
{
    const uint64_t deadline_ns = world->fixture->now_ns(world->world) + PATIENCE_NS;
    while (queue->ops->sent(queue) != count && world->fixture->now_ns(world->world) < deadline_ns) {
        world->fixture->pump(world->world, STEP_NS);
    }
    assert_int_equal(queue->ops->sent(queue), count);
}

/* Bytes that differ with the place and the salt. */
static unsigned char *pattern(size_t length_bytes, uint32_t salt)
{
    unsigned char *bytes = malloc(length_bytes + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < length_bytes; i++) {
        bytes[i] = (unsigned char)(i * 131 + i / 256 * 17 + salt * 59 + 1);
    }
    return bytes;
}

static const struct received *find(const struct inbox *inbox, uint32_t imm)
{
    for (uint32_t i = 0; i < inbox->count; i++) {
        if (inbox->received[i].imm == imm) {
            return &inbox->received[i];
        }
    }
    return NULL;
}

static void assert_received(const struct inbox *inbox, const struct tt_send_chunk *chunk, uint32_t source)
{
    const struct received *received = find(inbox, chunk->imm);
    assert_non_null(received);
    assert_int_equal(received->source, source);
    assert_int_equal(received->length_bytes, chunk->length_bytes);
    if (chunk->length_bytes > 0) {
        assert_memory_equal(received->bytes, chunk->address, chunk->length_bytes);
    }
}

/* --- Bodies ----------------------------------------------------------------------------------------------------- */

static void every_member_gets_what_each_member_posts(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    struct tt_send_chunk chunks[CONFORMANCE_MEMBERS];
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        chunks[i] = (struct tt_send_chunk){.imm = 0xA0000000U + i, .length_bytes = CHUNK_BYTES - i};
        chunks[i].address = pattern(chunks[i].length_bytes, i);
        post_all(&world, world.inboxes[i].queue, &chunks[i], 1);
    }
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        await(&world, &world.inboxes[i], CONFORMANCE_MEMBERS - 1);
        for (uint32_t j = 0; j < CONFORMANCE_MEMBERS; j++) {
            if (i != j) {
                assert_received(&world.inboxes[i], &chunks[j], j);
            }
        }
    }
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        free((void *)(uintptr_t)chunks[i].address);
    }
    end(&world);
}

static void own_chunks_are_never_seen(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    const struct tt_send_chunk chunk = {.imm = 1, .length_bytes = 5, .address = "12345"};
    post_all(&world, world.inboxes[0].queue, &chunk, 1);
    await(&world, &world.inboxes[1], 1);
    assert_quiet(&world, &world.inboxes[0]);
    assert_int_equal(world.inboxes[0].count, 0);
    end(&world);
}

static void chunk_of_zero_bytes_arrives(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    const struct tt_send_chunk chunks[] = {{.imm = 7, .address = NULL}, {.imm = 8, .address = ""}};
    post_all(&world, world.inboxes[2].queue, chunks, 2);
    await(&world, &world.inboxes[0], 2);
    assert_received(&world.inboxes[0], &chunks[0], 2);
    assert_received(&world.inboxes[0], &chunks[1], 2);
    end(&world);
}

static void longest_chunk_arrives_and_a_longer_one_is_refused(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    struct tt_mcast *mcast = world.fixture->mcast(world.world, 0);
    struct tt_mcast_attributes attributes;
    mcast->ops->attributes(mcast, &attributes);
    assert_true(attributes.max_chunk_bytes >= 1024 && attributes.send_batch >= 1);

    const struct tt_mcast_address address = address_of(&world, 1);
    const struct tt_mcast_queue_options longer = {
        .address = address, .rank = 0, .chunk_bytes = attributes.max_chunk_bytes + 1};
    struct tt_mcast_queue *refused = NULL;
    assert_int_equal(mcast->ops->attach(mcast, &longer, &refused), TUTTI_ERR_INVALID_ARGUMENT);
    assert_null(refused);

    struct inbox sender = {.queue = attach(&world, 0, &address, attributes.max_chunk_bytes)};
    struct inbox receiver = {.queue = attach(&world, 1, &address, attributes.max_chunk_bytes)};
    unsigned char *bytes = pattern(attributes.max_chunk_bytes, 5);
    for (uint32_t i = 0; i < 3; i++) {
        const struct tt_send_chunk chunk = {
            .imm = i, .length_bytes = attributes.max_chunk_bytes - i, .address = bytes + i};
        post_all(&world, sender.queue, &chunk, 1);
        await(&world, &receiver, i + 1);
        assert_received(&receiver, &chunk, 0);
    }
    free(bytes);
    clear(&receiver);
    sender.queue->ops->detach(sender.queue);
    receiver.queue->ops->detach(receiver.queue);
    end(&world);
}

/* How many chunks a queue surely holds, but no more than the tests have memory for. */
static uint32_t safe_count(struct tt_mcast_queue *queue)
{
    const uint32_t depth = queue->ops->depth_chunks(queue);
    assert_true(depth >= 1);
    return depth > 2000 ? 2000 : depth > 0 ? depth : 1; /* the analyzer does not know that assert_true ends */
}

static void depth_is_kept_for_queues_that_nobody_polls(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    const uint32_t count = safe_count(world.inboxes[3].queue);
    unsigned char *bytes = pattern((size_t)count * CHUNK_BYTES, 9);
    struct tt_send_chunk *chunks = calloc(count, sizeof(*chunks));
    assert_non_null(chunks);
    for (uint32_t i = 0; i < count; i++) {
        chunks[i] = (struct tt_send_chunk){i, CHUNK_BYTES, bytes + (size_t)i * CHUNK_BYTES};
    }
    post_all(&world, world.inboxes[3].queue, chunks, count);
    await_sent(&world, world.inboxes[3].queue, count);
    wait_quietly(&world);
    for (uint32_t i = 0; i < 3; i++) {
        await(&world, &world.inboxes[i], count);
        for (uint32_t j = 0; j < count; j++) {
            assert_received(&world.inboxes[i], &chunks[j], 3);
        }
    }
    free(chunks);
    free(bytes);
    end(&world);
}

static void batch_beyond_send_batch_arrives(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    struct tt_mcast *mcast = world.fixture->mcast(world.world, 0);
    struct tt_mcast_attributes attributes;
    mcast->ops->attributes(mcast, &attributes);
    uint32_t count = 3 * attributes.send_batch + 1;
    if (count > safe_count(world.inboxes[0].queue)) {
        count = safe_count(world.inboxes[0].queue);
    }
    unsigned char *bytes = pattern(count + CHUNK_BYTES, 2);
    struct tt_send_chunk *chunks = calloc(count, sizeof(*chunks));
    assert_non_null(chunks);
    for (uint32_t i = 0; i < count; i++) {
        chunks[i] = (struct tt_send_chunk){i, 64, bytes + i};
    }
    post_all(&world, world.inboxes[0].queue, chunks, count);
    await(&world, &world.inboxes[1], count);
    for (uint32_t i = 0; i < count; i++) {
        assert_received(&world.inboxes[1], &chunks[i], 0);
    }
    free(chunks);
    free(bytes);
    end(&world);
}

static void batch_of_unequal_lengths_arrives_uncut(void **state)
{
    static const uint32_t lengths[] = {0, 1024, 1024, 1, 1024, 0, 0, 7, 1023, 1024, 512, 512, 512, 511, 1024, 3};
    enum { COUNT = sizeof(lengths) / sizeof(lengths[0]) };
    struct mcast_world world = begin(state, CHUNK_BYTES);
    struct tt_send_chunk chunks[COUNT];
    unsigned char *bytes = pattern(COUNT + CHUNK_BYTES, 4);
    for (uint32_t i = 0; i < COUNT; i++) {
        chunks[i] = (struct tt_send_chunk){i, lengths[i], bytes + i};
    }
    post_all(&world, world.inboxes[1].queue, chunks, COUNT);
    await(&world, &world.inboxes[2], COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_received(&world.inboxes[2], &chunks[i], 1);
    }
    free(bytes);
    end(&world);
}

static void every_bit_of_the_immediate_is_kept(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    static const uint32_t imms[] = {0, 1, 0x80000000U, 0xFFFFFFFFU, 0x12345678U};
    for (uint32_t i = 0; i < 5; i++) {
        const struct tt_send_chunk chunk = {imms[i], 3, "abc"};
        post_all(&world, world.inboxes[3].queue, &chunk, 1);
        await(&world, &world.inboxes[0], i + 1);
        assert_received(&world.inboxes[0], &chunk, 3);
    }
    end(&world);
}

static void keys_keep_groups_on_one_address_apart(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    struct tt_mcast_address address = address_of(&world, 0);
    address.key ^= UINT64_C(1) << 63;
    struct inbox foreign[2] = {{.queue = attach(&world, 2, &address, CHUNK_BYTES)},
                               {.queue = attach(&world, 3, &address, CHUNK_BYTES)}};
    const struct tt_send_chunk ours = {1, 4, "ours"}, theirs = {2, 6, "theirs"};

    post_all(&world, world.inboxes[0].queue, &ours, 1);
    post_all(&world, foreign[0].queue, &theirs, 1);
    await(&world, &world.inboxes[1], 1);
    assert_received(&world.inboxes[1], &ours, 0);
    await(&world, &foreign[1], 1);
    assert_received(&foreign[1], &theirs, 2);
    assert_quiet(&world, &world.inboxes[1]);
    assert_quiet(&world, &foreign[1]);
    struct tt_mcast_counters counters;
    foreign[1].queue->ops->counters(foreign[1].queue, &counters);
    assert_int_equal(counters.drops_key, 1);
    for (uint32_t i = 0; i < 2; i++) {
        foreign[i].queue->ops->detach(foreign[i].queue);
        clear(&foreign[i]);
    }
    end(&world);
}

static void subgroups_of_one_provider_are_apart(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    const struct tt_mcast_address address = address_of(&world, 1);
    struct inbox other[2] = {{.queue = attach(&world, 0, &address, CHUNK_BYTES)},
                             {.queue = attach(&world, 1, &address, CHUNK_BYTES)}};
    const struct tt_send_chunk first = {1, 5, "first"}, second = {2, 6, "second"};
    post_all(&world, world.inboxes[0].queue, &first, 1);
    post_all(&world, other[0].queue, &second, 1);
    await(&world, &world.inboxes[1], 1);
    await(&world, &other[1], 1);
    assert_received(&world.inboxes[1], &first, 0);
    assert_received(&other[1], &second, 0);
    assert_quiet(&world, &world.inboxes[1]);
    assert_quiet(&world, &other[1]);
    for (uint32_t i = 0; i < 2; i++) {
        other[i].queue->ops->detach(other[i].queue);
        clear(&other[i]);
    }
    end(&world);
}

static void poll_of_fewer_leaves_the_rest(void **state)
{
    enum { COUNT = 40 };
    struct mcast_world world = begin(state, CHUNK_BYTES);
    struct inbox *inbox = &world.inboxes[1];
    struct tt_send_chunk chunks[COUNT];
    unsigned char *bytes = pattern(COUNT + CHUNK_BYTES, 8);
    for (uint32_t i = 0; i < COUNT; i++) {
        chunks[i] = (struct tt_send_chunk){i, 200, bytes + i};
    }
    assert_int_equal(inbox->queue->ops->poll(inbox->queue, NULL, 0), 0);
    post_all(&world, world.inboxes[0].queue, chunks, COUNT);
    await_sent(&world, world.inboxes[0].queue, COUNT);
    wait_quietly(&world);
    uint32_t max = 1;
    while (inbox->count < COUNT) {
        assert_true(poll_once(inbox, max) > 0); /* all of them wait already */
        max = max % 7 + 1;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_received(inbox, &chunks[i], 0);
    }
    assert_quiet(&world, inbox);
    free(bytes);
    end(&world);
}

static void staging_stays_as_it_is_until_reposted(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    struct tt_mcast_queue *queue = world.inboxes[1].queue;
    struct tt_receive_chunk held[MAX_BATCH];
    unsigned char *bytes = pattern(2 * CHUNK_BYTES, 6);
    const struct tt_send_chunk first = {1, CHUNK_BYTES, bytes}, later = {2, CHUNK_BYTES, bytes + CHUNK_BYTES};
    uint32_t count = 0;

    post_all(&world, world.inboxes[0].queue, &first, 1);
    for (int i = 0; i < 5000 && count == 0; i++) {
        count = queue->ops->poll(queue, held, MAX_BATCH);
        if (count == 0) {
            world.fixture->pump(world.world, STEP_NS);
        }
    }
    assert_int_equal(count, 1);
    for (uint32_t i = 0; i < 10; i++) {
        post_all(&world, world.inboxes[0].queue, &later, 1);
    }
    wait_quietly(&world);
    assert_memory_equal(held[0].address, bytes, CHUNK_BYTES);
    queue->ops->repost(queue, held, 1);
    await(&world, &world.inboxes[1], 10);
    assert_received(&world.inboxes[1], &later, 0);
    free(bytes);
    end(&world);
}

static void ring_goes_around_many_times(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    const uint32_t burst = safe_count(world.inboxes[0].queue) < 32 ? safe_count(world.inboxes[0].queue) : 32;
    const uint32_t rounds = 4 * (safe_count(world.inboxes[0].queue) / burst + 1);
    unsigned char *bytes = pattern(CHUNK_BYTES + burst, 1);
    struct tt_send_chunk chunks[32];
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < burst; i++) {
            chunks[i] = (struct tt_send_chunk){round * burst + i, 900, bytes + i};
        }
        post_all(&world, world.inboxes[0].queue, chunks, burst);
        for (uint32_t i = 1; i < CONFORMANCE_MEMBERS; i++) {
            await(&world, &world.inboxes[i], burst);
            for (uint32_t j = 0; j < burst; j++) {
                assert_received(&world.inboxes[i], &chunks[j], 0);
            }
            clear(&world.inboxes[i]);
        }
    }
    free(bytes);
    end(&world);
}

static void memory_may_change_once_sent(void **state)
{
    enum { COUNT = 30 };
    struct mcast_world world = begin(state, CHUNK_BYTES);
    struct tt_mcast_queue *queue = world.inboxes[0].queue;
    unsigned char bytes[100];
    assert_int_equal(queue->ops->sent(queue), 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        memset(bytes, (int)i, sizeof(bytes));
        const struct tt_send_chunk chunk = {i, sizeof(bytes), bytes};
        post_all(&world, queue, &chunk, 1);
        await_sent(&world, queue, i + 1);
    }
    await(&world, &world.inboxes[2], COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        memset(bytes, (int)i, sizeof(bytes));
        const struct tt_send_chunk chunk = {i, sizeof(bytes), bytes};
        assert_received(&world.inboxes[2], &chunk, 0);
    }
    end(&world);
}

static void detach_with_chunks_under_way_harms_nobody(void **state)
{
    enum { COUNT = 20 };
    struct mcast_world world = begin(state, CHUNK_BYTES);
    unsigned char *bytes = pattern(CHUNK_BYTES, 3);
    struct tt_send_chunk chunks[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        chunks[i] = (struct tt_send_chunk){i, CHUNK_BYTES, bytes};
    }
    post_all(&world, world.inboxes[0].queue, chunks, COUNT);
    struct tt_mcast_queue *receiver = world.inboxes[1].queue;
    receiver->ops->detach(receiver); /* with chunks on their way to it */
    world.inboxes[1].queue = NULL;
    await(&world, &world.inboxes[2], COUNT);

    post_all(&world, world.inboxes[0].queue, chunks, COUNT);
    struct tt_mcast_queue *sender = world.inboxes[0].queue;
    sender->ops->detach(sender); /* with chunks that may not have left */
    world.inboxes[0].queue = NULL;
    memset(bytes, 0, CHUNK_BYTES);
    free(bytes);
    wait_quietly(&world);

    /* A member that comes back is a member again. */
    const struct tt_mcast_address address = address_of(&world, 0);
    world.inboxes[0].queue = attach(&world, 0, &address, CHUNK_BYTES);
    const struct tt_send_chunk chunk = {99, 4, "back"};
    post_all(&world, world.inboxes[3].queue, &chunk, 1);
    await(&world, &world.inboxes[0], 1);
    assert_received(&world.inboxes[0], &chunk, 3);
    world.inboxes[2].queue->ops->detach(NULL);
    end(&world);
}

static void counters_agree_with_what_was_sent(void **state)
{
    enum { COUNT = 25, LENGTH_BYTES = 100 };
    struct mcast_world world = begin(state, CHUNK_BYTES);
    struct tt_mcast_counters sent, received;
    unsigned char *bytes = pattern(LENGTH_BYTES, 0);
    struct tt_send_chunk chunks[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) {
        chunks[i] = (struct tt_send_chunk){i, LENGTH_BYTES, bytes};
    }
    post_all(&world, world.inboxes[0].queue, chunks, COUNT);
    await_sent(&world, world.inboxes[0].queue, COUNT);
    await(&world, &world.inboxes[1], COUNT);
    world.inboxes[0].queue->ops->counters(world.inboxes[0].queue, &sent);
    world.inboxes[1].queue->ops->counters(world.inboxes[1].queue, &received);
    assert_int_equal(sent.datagrams_sent, COUNT);
    assert_int_equal(received.datagrams_received, COUNT);
    assert_true(sent.bytes_sent >= COUNT * LENGTH_BYTES && sent.bytes_sent < COUNT * (LENGTH_BYTES + 100));
    assert_int_equal(sent.bytes_sent, received.bytes_received);
    assert_int_equal(received.datagrams_sent + received.bytes_sent, 0);
    assert_int_equal(sent.send_errors + received.drops_key + received.drops_length + received.drops_injected, 0);
    free(bytes);
    end(&world);
}

static void descriptor_is_readable_while_chunks_wait(void **state)
{
    struct mcast_world world = begin(state, CHUNK_BYTES);
    struct tt_mcast_queue *queue = world.inboxes[1].queue;
    struct pollfd wait = {.fd = queue->ops->receive_fd(queue), .events = POLLIN};
    struct pollfd write = {.fd = world.inboxes[0].queue->ops->send_fd(world.inboxes[0].queue), .events = POLLOUT};
    if (wait.fd < 0) {
        end(&world);
        TT_SKIP("%s has no descriptors", ((const struct conformance_fixture *)*state)->name);
    }
    const struct tt_send_chunk chunk = {1, 2, "hi"};
    assert_int_equal(poll(&write, 1, 0), 1);
    assert_int_equal(poll(&wait, 1, 0), 0);
    post_all(&world, world.inboxes[0].queue, &chunk, 1);
    assert_int_equal(poll(&wait, 1, 5000), 1);
    await(&world, &world.inboxes[1], 1);
    /* A poll that finds nothing leaves the descriptor quiet. */
    assert_int_equal(poll_once(&world.inboxes[1], MAX_BATCH), 0);
    assert_int_equal(poll(&wait, 1, 0), 0);
    end(&world);
}

int main(int argument_count, char **arguments)
{
    static const struct conformance_fixture *const fixtures[] = {
        &conformance_sim, &conformance_sim_late, &conformance_lossy, &conformance_udp, &conformance_udp_plain};
    static const struct conformance_body bodies[] = {
        CONFORMANCE_BODY(every_member_gets_what_each_member_posts),
        CONFORMANCE_BODY(own_chunks_are_never_seen),
        CONFORMANCE_BODY(chunk_of_zero_bytes_arrives),
        CONFORMANCE_BODY(longest_chunk_arrives_and_a_longer_one_is_refused),
        CONFORMANCE_BODY(depth_is_kept_for_queues_that_nobody_polls),
        CONFORMANCE_BODY(batch_beyond_send_batch_arrives),
        CONFORMANCE_BODY(batch_of_unequal_lengths_arrives_uncut),
        CONFORMANCE_BODY(every_bit_of_the_immediate_is_kept),
        CONFORMANCE_BODY(keys_keep_groups_on_one_address_apart),
        CONFORMANCE_BODY(subgroups_of_one_provider_are_apart),
        CONFORMANCE_BODY(poll_of_fewer_leaves_the_rest),
        CONFORMANCE_BODY(staging_stays_as_it_is_until_reposted),
        CONFORMANCE_BODY(ring_goes_around_many_times),
        CONFORMANCE_BODY(memory_may_change_once_sent),
        CONFORMANCE_BODY(detach_with_chunks_under_way_harms_nobody),
        CONFORMANCE_BODY(counters_agree_with_what_was_sent),
        CONFORMANCE_BODY(descriptor_is_readable_while_chunks_wait),
    };
    return conformance_run("mcast", fixtures, sizeof(fixtures) / sizeof(fixtures[0]), bodies,
                           sizeof(bodies) / sizeof(bodies[0]), argument_count > 1 ? arguments[1] : NULL);
}
