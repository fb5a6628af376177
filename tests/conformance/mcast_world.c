/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The members of an mcast world for the conformance bodies. What must come and does not come in time fails the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "mcast_world.h"

uint32_t mcast_sender_of(uint32_t member)
{
    return member % 2 == 0 ? MCAST_OTHER_SENDER : MCAST_FEEDER;
}

struct tt_mcast_queue *mcast_attach(const struct mcast_world *world, uint32_t member,
                                    const struct tt_mcast_address *address, uint32_t chunk_bytes)
{
    const struct tt_mcast_queue_options options = {.address = *address,
                                                   .rank = member,
                                                   .chunk_bytes = chunk_bytes,
                                                   .feeder = MCAST_FEEDER,
                                                   .sender = mcast_sender_of(member),
                                                   .windows = MAX_WINDOWS};
    struct tt_mcast *mcast = world->fixture->mcast(world->world, member);
    struct tt_mcast_queue *queue = NULL;
    assert_int_equal(mcast->ops->attach(mcast, &options, &queue), TUTTI_OK);
    assert_int_equal(tt_mcast_join(queue), TUTTI_OK);
    assert_non_null(queue);
    assert_ptr_equal(queue->ops, mcast->ops);
    return queue;
}

void mcast_collect_names(struct tt_mcast_queue *const members[CONFORMANCE_MEMBERS],
                         uint8_t names[CONFORMANCE_MEMBERS][TT_MCAST_NAME_BYTES])
{
    memset(names, 0, (size_t)CONFORMANCE_MEMBERS * TT_MCAST_NAME_BYTES);
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (members[i] != NULL) {
            members[i]->ops->describe(members[i], names[i]);
        }
    }
}

void mcast_introduce(struct tt_mcast_queue *const members[CONFORMANCE_MEMBERS])
{
    uint8_t names[CONFORMANCE_MEMBERS][TT_MCAST_NAME_BYTES];
    mcast_collect_names(members, names);
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        if (members[i] != NULL) {
            assert_int_equal(members[i]->ops->introduce(members[i], names, TT_MCAST_NAME_BYTES, CONFORMANCE_MEMBERS),
                             TUTTI_OK);
        }
    }
}

struct tt_mcast_address mcast_address_of(const struct mcast_world *world, uint32_t index)
{
    struct tt_mcast_address address;
    world->fixture->mcast_address(world->world, index, &address);
    return address;
}

struct mcast_world mcast_begin(void **state, uint32_t chunk_bytes)
{
    struct mcast_world world = {.fixture = *state};
    const char *reason = world.fixture->create(&world.world);
    if (reason != NULL) {
        fail_msg("%s: %s", world.fixture->name, reason);
    }
    const struct tt_mcast_address address = mcast_address_of(&world, 0);
    struct tt_mcast_queue *members[CONFORMANCE_MEMBERS];
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        members[i] = world.inboxes[i].queue = mcast_attach(&world, i, &address, chunk_bytes);
    }
    mcast_introduce(members);
    assert_int_equal(members[0]->ops->receive_fd(members[0]) >= 0,
                     (world.fixture->abilities & CONFORMANCE_DESCRIPTORS) != 0);
    return world;
}

void mcast_clear(struct inbox *inbox)
{
    for (uint32_t i = 0; i < inbox->count; i++) {
        free(inbox->received[i].bytes);
    }
    free(inbox->received);
    inbox->received = NULL;
    inbox->count = inbox->capacity = 0;
}

void mcast_end(struct mcast_world *world)
{
    for (uint32_t i = 0; i < CONFORMANCE_MEMBERS; i++) {
        struct inbox *inbox = &world->inboxes[i];
        if (inbox->queue != NULL) {
            tt_mcast_drain(inbox->queue);
            inbox->queue->ops->detach(inbox->queue);
        }
        mcast_clear(inbox);
    }
    world->fixture->destroy(world->world);
}

void mcast_keep(struct inbox *inbox, const struct tt_receive_chunk *chunk)
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

uint32_t mcast_poll_once(struct inbox *inbox, uint32_t max)
{
    struct tt_receive_chunk chunks[MAX_BATCH];
    const uint32_t count = inbox->queue->ops->poll(inbox->queue, chunks, max);
    assert_true(count <= max);
    for (uint32_t i = 0; i < count; i++) {
        mcast_keep(inbox, &chunks[i]);
    }
    inbox->queue->ops->repost(inbox->queue, chunks, count);
    return count;
}

void mcast_await(const struct mcast_world *world, struct inbox *inbox, uint32_t count)
{
    const uint64_t deadline_ns = world->fixture->now_ns(world->world) + PATIENCE_NS;
    while (inbox->count < count && world->fixture->now_ns(world->world) < deadline_ns) {
        if (mcast_poll_once(inbox, MAX_BATCH) == 0) {
            world->fixture->pump(world->world, STEP_NS);
        }
    }
    assert_int_equal(inbox->count, count);
}

void mcast_wait_quietly(const struct mcast_world *world)
{
    const uint64_t deadline_ns = world->fixture->now_ns(world->world) + QUIET_NS;
    while (world->fixture->now_ns(world->world) < deadline_ns) {
        world->fixture->pump(world->world, STEP_NS);
    }
}

void mcast_assert_quiet(const struct mcast_world *world, struct inbox *inbox)
{
    const uint32_t count = inbox->count;
    mcast_wait_quietly(world);
    while (mcast_poll_once(inbox, MAX_BATCH) > 0) {
    }
    assert_int_equal(inbox->count, count);
}

void mcast_post_all(const struct mcast_world *world, struct tt_mcast_queue *queue, const struct tt_send_chunk *chunks,
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

void mcast_await_sent(const struct mcast_world *world, struct tt_mcast_queue *queue, uint32_t count)
{
    const uint64_t deadline_ns = world->fixture->now_ns(world->world) + PATIENCE_NS;
    while (queue->ops->sent(queue) != count && world->fixture->now_ns(world->world) < deadline_ns) {
        world->fixture->pump(world->world, STEP_NS);
    }
    assert_int_equal(queue->ops->sent(queue), count);
}

unsigned char *mcast_pattern(size_t length_bytes, uint32_t salt)
{
    unsigned char *bytes = malloc(length_bytes + 1);
    assert_non_null(bytes);
    for (size_t i = 0; i < length_bytes; i++) {
        bytes[i] = (unsigned char)(i * 131 + i / 256 * 17 + salt * 59 + 1);
    }
    return bytes;
}

const struct received *mcast_find(const struct inbox *inbox, uint32_t imm)
{
    for (uint32_t i = 0; i < inbox->count; i++) {
        if (inbox->received[i].imm == imm) {
            return &inbox->received[i];
        }
    }
    return NULL;
}

void mcast_assert_received(const struct inbox *inbox, const struct tt_send_chunk *chunk, uint32_t source)
{
    const struct received *received = mcast_find(inbox, chunk->imm);
    assert_non_null(received);
    assert_int_equal(received->source, source);
    assert_int_equal(received->length_bytes, chunk->length_bytes);
    if (chunk->length_bytes > 0) {
        assert_memory_equal(received->bytes, chunk->address, chunk->length_bytes);
    }
}

uint32_t mcast_safe_count(struct tt_mcast_queue *queue)
{
    const uint32_t depth = queue->ops->depth_chunks(queue);
    assert_true(depth >= 1);
    return depth > 2000 ? 2000 : depth > 0 ? depth : 1; /* the analyzer does not know that assert_true ends */
}
