/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory is refused to the tcp provider where its queues and pools grow while data moves: whoever asked is told, or the
 * connection that needed it breaks and names it; the other connection goes on, and what is in order stays so.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "refuse.h"
#include "tcp_joined.h"

enum { REGION_BYTES = 100000, POOL = 64, MANY = 4000, FIRST_PART = 3 };

static uint8_t region[REGION_BYTES], local[REGION_BYTES];
static bool sends_a_part; /* FIRST_PART bytes, once */

ssize_t __real_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags);

ssize_t __wrap_sendmsg(int fd, const struct msghdr *message, int flags)
{
    struct iovec part = {.iov_base = message->msg_iov[0].iov_base, .iov_len = FIRST_PART};
    struct msghdr first = {.msg_iov = &part, .msg_iovlen = 1};
    if (!sends_a_part) {
        return __real_sendmsg(fd, message, flags);
    }
    sends_a_part = false;
    return __real_sendmsg(fd, &first, flags);
}

static void refuse_next(uint32_t request)
{
    refuse_counts = true;
    refuse_after = request;
}

static int end(void **state)
{
    refuse_counts = sends_a_part = false;
    refuse_after = 0;
    return raw_end(state);
}

/* What was to be refused has been. */
static void expect_refused(void)
{
    assert_int_equal(refuse_after, 0);
    refuse_counts = false;
}

/* Every request that the queue makes in turn, from its first bytes to its largest. */
static void frames_that_no_queue_holds_break_their_connection(void **state)
{
    uint8_t frame[TT_P2P_LEAST_FRAME_BYTES] = {0};
    uint32_t refusals = 0;
    raw_end(state);
    for (bool was_refused = true; was_refused; refusals += was_refused) {
        raw_room_bytes = 4096;
        join_both(state);
        refuse_next(refusals + 1);
        for (int i = 0; i < MANY && raw.downs == 0 && refuse_after > 0; i++) {
            assert_int_equal(tt_p2p_send(raw.peer, frame, sizeof(frame), false), TUTTI_OK);
        }
        was_refused = refuse_after == 0;
        refuse_after = 0;
        if (was_refused) {
            expect_broken("no memory for what is sent to it");
            assert_int_equal(raw.down_status, TUTTI_ERR_NO_RESOURCE); /* the peer is not to blame */
        }
        raw_end(state);
    }
    print_message("%u requests\n", refusals);
    assert_true(refusals > 3);
    join_both(state);
}

/* What has come of these frames, each with its number in all bytes, up to where the stream ends: returns how many are
 * whole, and nothing else may be among them. */
static uint32_t count_whole(uint32_t length_bytes)
{
    static uint8_t stream[1 << 17];
    size_t come = 0;
    uint32_t whole = 0;
    for (int quiet = 0; quiet < 300; quiet++) {
        ssize_t more = recv(frames, stream + come, sizeof(stream) - come, MSG_DONTWAIT);
        if (more == 0) {
            break;
        }
        quiet = more > 0 ? 0 : quiet;
        come += more > 0 ? (size_t)more : 0;
        (void)raw_turn();
    }
    for (; (whole + 1) * tt_tcp_message_bytes(length_bytes) <= come; whole++) {
        const uint8_t *message = stream + (size_t)whole * tt_tcp_message_bytes(length_bytes);
        enum tt_tcp_kind kind;
        uint32_t payload_bytes;
        assert_true(tt_tcp_header_decode(message, &kind, &payload_bytes));
        assert_true(kind == TT_TCP_FRAME && payload_bytes == length_bytes);
        for (uint32_t i = 0; i < length_bytes; i++) {
            assert_int_equal(message[TT_TCP_HEADER_BYTES + i], whole);
        }
    }
    return whole;
}

/* A body that stays is in no queue yet when there is no memory for what follows it, or for itself. */
static void bodies_that_no_queue_holds_leave_no_hole(void **state)
{
    enum { COUNT = 30, LENGTH = 3000, HEAD = 3 };
    static uint8_t bytes[COUNT][LENGTH];
    uint32_t refusals = 0;
    raw_end(state);
    for (bool was_refused = true; was_refused; refusals += was_refused) {
        raw_room_bytes = 4096;
        join_both(state);
        struct tt_tcp_queue *spare = &tt_tcp_of(raw.p2p)->spare_queue; /* another connection has it */
        free(spare->bytes);
        *spare = (struct tt_tcp_queue){0};
        refuse_next(refusals + 1);
        raw.p2p->batches = true;
        for (uint32_t i = 0; i < COUNT; i++) {
            const struct tt_p2p_frame frame = {.head = bytes[i],
                                               .head_bytes = HEAD,
                                               .body = bytes[i] + HEAD,
                                               .body_bytes = LENGTH - HEAD,
                                               .stays = i % 3 != 2};
            memset(bytes[i], (int)i, LENGTH);
            (void)raw.peer->ops->send(raw.peer, &frame, false);
        }
        raw.p2p->batches = false;
        raw.p2p->ops->flush(raw.p2p);
        memset(bytes, 0xee, sizeof(bytes));
        was_refused = refuse_after == 0;
        refuse_after = 0;
        uint32_t whole = count_whole(LENGTH);
        assert_true(was_refused || whole == COUNT);
        assert_in_range(whole, 0, COUNT);
        raw_end(state);
    }
    print_message("%u requests\n", refusals);
    assert_true(refusals > 1);
    join_both(state);
}

/* It is sent where all that was queued is with the system, but has not arrived. */
static void probe_of_which_a_part_was_sent_breaks_its_connection(void **state)
{
    struct tt_tcp_peer *peer;
    uint8_t frame[TT_P2P_LEAST_FRAME_BYTES] = {0};
    raw_end(state);
    raw_room_bytes = 4096;
    join_both(state);
    peer = (struct tt_tcp_peer *)raw.peer;
    while (tt_tcp_unreceived(&peer->frames) == 0) {
        assert_int_equal(tt_p2p_send(raw.peer, frame, sizeof(frame), false), TUTTI_OK);
    }
    assert_int_equal(peer->out.begin, peer->out.end);
    free(peer->out.bytes);
    peer->out = (struct tt_tcp_queue){0};
    sends_a_part = true;
    refuse_next(1);
    tt_tcp_probe(peer, tt_clock_now_ns());
    expect_refused();
    expect_broken("no memory for what is sent to it");
    assert_int_equal(raw.down_status, TUTTI_ERR_NO_RESOURCE);
}

/* POOL are under way, as their answers stay out. */
static void get_or_put_without_memory_is_refused_and_the_others_go_on(void **state)
{
    uint8_t key[TT_TCP_KEY_BYTES];
    uint64_t first = 0;
    (void)state;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    tt_tcp_key_encode(3, 4, key);
    for (int i = 0; i < POOL; i++) {
        get(local + i, 1);
        uint64_t id = take_read(1);
        first = i == 0 ? id : first;
    }
    refuse_next(1);
    assert_int_equal(raw.peer->ops->get(raw.peer, key, sizeof(key), 1000, local, 1, 5), TUTTI_ERR_NO_MEMORY);
    assert_non_null(strstr(tt_last_error(), "no memory for a get or put"));
    expect_refused();
    refuse_next(1);
    assert_int_equal(raw_put(key, local, 1, 5, 6), TUTTI_ERR_NO_MEMORY);
    expect_refused();
    for (uint64_t i = 0; i < POOL; i++) {
        raw_bulk(bulk, TT_TCP_DATA, first + i, &(struct tt_tcp_place){.length_bytes = 1}, 0);
        raw_send(bulk, "y", 1);
    }
    assert_true(raw_reaches(&raw.dones, POOL));
    assert_int_equal(raw.last_status, TUTTI_OK);
    assert_int_equal(raw.downs, 0);
    expect_going_on(frames);
}

static void fill_pools(void)
{
    uint8_t key[TT_TCP_KEY_BYTES];
    tt_tcp_key_encode(3, 4, key);
    for (int i = 0; i < POOL; i++) { /* nobody has a socket for bulk yet */
        assert_int_equal(raw_put(key, local, 1, 5, 6), TUTTI_OK);
    }
}

/* Operations have got their second block by then, streams have not. */
static void put_whose_bytes_find_no_memory_to_wait_in_is_refused(void **state)
{
    uint8_t key[TT_TCP_KEY_BYTES];
    (void)state;
    tt_tcp_key_encode(3, 4, key);
    fill_pools();
    refuse_next(2);
    assert_int_equal(raw_put(key, local, 1, 5, 6), TUTTI_ERR_NO_MEMORY);
    assert_non_null(strstr(tt_last_error(), "no memory for a put"));
    expect_refused();
    assert_int_equal(raw_put(key, local, 1, 5, 6), TUTTI_OK);
    expect_going_on(frames);
}

static void read_that_finds_no_memory_breaks_its_connection(void **state)
{
    struct tt_tcp_place place;
    (void)state;
    struct tt_p2p_memory *memory = raw_expose(region, sizeof(region), &place);
    fill_pools();
    refuse_next(1);
    raw_read(frames, 1, &place);
    expect_broken("no memory for what it reads");
    assert_int_equal(raw.down_status, TUTTI_ERR_NO_RESOURCE);
    expect_refused();
    raw.p2p->ops->memory_release(memory);
}

static void write_that_finds_no_memory_breaks_its_connection(void **state)
{
    struct tt_tcp_place place;
    (void)state;
    struct tt_p2p_memory *memory = raw_expose(region, sizeof(region), &place);
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    for (int i = 0; i < POOL; i++) {
        get(local + i, 1);
        take_read(1);
    }
    refuse_next(1);
    place.length_bytes = 1;
    raw_bulk(bulk, TT_TCP_WRITE, 9, &place, 1);
    raw_send(bulk, "z", 1);
    expect_broken("no memory for what it writes");
    assert_int_equal(raw.down_status, TUTTI_ERR_NO_RESOURCE);
    expect_refused();
    assert_int_equal(raw.dones, POOL);
    assert_int_equal(raw.last_status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(((const struct tt_tcp_memory *)memory)->users,
                     0); /* else another's read goes on when it is gone */
    raw.p2p->ops->memory_release(memory);
}

int main(void)
{
#define JOINED(test) cmocka_unit_test_setup_teardown(test, join_both, end)
    const struct CMUnitTest tests[] = {
        JOINED(frames_that_no_queue_holds_break_their_connection),
        JOINED(bodies_that_no_queue_holds_leave_no_hole),
        JOINED(probe_of_which_a_part_was_sent_breaks_its_connection),
        JOINED(get_or_put_without_memory_is_refused_and_the_others_go_on),
        JOINED(put_whose_bytes_find_no_memory_to_wait_in_is_refused),
        JOINED(read_that_finds_no_memory_breaks_its_connection),
        JOINED(write_that_finds_no_memory_breaks_its_connection),
    };
    return cmocka_run_group_tests_name("tcp_memory", tests, NULL, NULL);
}
