/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the other side of a connection of the tcp provider may say on its socket for frames, and what it may not: the
 * other side is the test, byte by byte. What makes no sense breaks that connection, says so, and no other one. Bulk is
 * in test_tcp_bulk.c.
 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/least.h"
#include "base/log.h"
#include "tcp_joined.h"
#include "wire/cursor.h"

enum { REGION_BYTES = 300000, BIG_BYTES = 16 << 20 };

static uint8_t region[REGION_BYTES], local[REGION_BYTES];

/* --- On the socket for frames ----------------------------------------------------------------------------------- */

static void message_of_no_kind_breaks_its_connection(void **state)
{
    (void)state;
    raw_send(frames, "\377\0\0\0", 4);
    expect_broken("no message of tutti's");
    assert_int_equal(raw_dropped(), 1);
}

static void frame_of_no_bytes_breaks_its_connection(void **state)
{
    (void)state;
    raw_message(frames, TT_TCP_FRAME, NULL, 0);
    expect_broken("no message of tutti's");
}

static void frame_over_the_limit_breaks_its_connection_when_its_header_comes(void **state)
{
    uint8_t header[TT_TCP_HEADER_BYTES];
    (void)state;
    tt_tcp_header_encode(TT_TCP_FRAME, TT_P2P_MAX_FRAME_BYTES + 1, header);
    raw_send(frames, header, sizeof(header));
    expect_broken("no message of tutti's");
}

static void frames_before_what_makes_no_sense_are_handed_out(void **state)
{
    enum { FRAMES = 10, ONE = TT_TCP_MESSAGE_ALIGNMENT };
    uint8_t bytes[ONE * FRAMES + 8] = {0};
    (void)state;
    for (int i = 0; i < FRAMES; i++) {
        tt_tcp_header_encode(TT_TCP_FRAME, 1, bytes + (size_t)ONE * i);
    }
    memset(bytes + ONE * FRAMES, 0xff, 8);
    raw_send(frames, bytes, sizeof(bytes));
    assert_true(raw_reaches(&raw.downs, 1));
    assert_int_equal(raw.frames, FRAMES);
    expect_broken("no message of tutti's");
}

static void messages_that_come_byte_by_byte_are_read(void **state)
{
    uint8_t bytes[TT_TCP_MESSAGE_ALIGNMENT];
    (void)state;
    tt_tcp_header_encode(TT_TCP_FRAME, 5, bytes);
    memset(bytes + TT_TCP_HEADER_BYTES, 'x', sizeof(bytes) - TT_TCP_HEADER_BYTES);
    for (uint32_t round = 1; round <= 3; round++) {
        for (size_t i = 0; i < sizeof(bytes); i++) {
            assert_int_equal(raw.frames, round - 1);
            raw_send(frames, bytes + i, 1);
            for (int turn = 0; turn < 3; turn++) {
                raw_turn();
            }
        }
        assert_true(raw_reaches(&raw.frames, round));
    }
}

/* Frames and what a get asks, in one segment; nothing goes before the batch ends. */
static void what_is_sent_in_a_batch_goes_together_when_that_ends(void **state)
{
    enum { SHORT = TT_TCP_MESSAGE_ALIGNMENT };
    const uint32_t length_bytes = 2 * SHORT + tt_tcp_message_bytes(TT_TCP_READ_BYTES);
    uint8_t bytes[200];
    (void)state;
    raw.p2p->batches = true;
    assert_int_equal(tt_p2p_send(raw.peer, "four", 4, false), TUTTI_OK);
    assert_int_equal(tt_p2p_send(raw.peer, "fives", 5, false), TUTTI_OK);
    get(local, 10);
    for (int i = 0; i < 20; i++) {
        raw_turn();
    }
    assert_int_equal(recv(frames, bytes, sizeof(bytes), MSG_DONTWAIT), -1);
    assert_true(raw.p2p->has_batch);
    raw.p2p->batches = false;
    raw.p2p->ops->flush(raw.p2p);
    assert_false(raw.p2p->has_batch);
    assert_int_equal(recv(frames, bytes, sizeof(bytes), 0), length_bytes);
    assert_memory_equal(bytes + TT_TCP_HEADER_BYTES, "four", 4);
    assert_memory_equal(bytes + SHORT + TT_TCP_HEADER_BYTES, "fives", 5);
    assert_int_equal(tt_p2p_send(raw.peer, "x", 1, false), TUTTI_OK); /* at once again */
    assert_int_equal(recv(frames, bytes, sizeof(bytes), 0), SHORT);
}

/* Its first bytes are of its number, the others too. */
static void fill_frame(uint8_t *bytes, uint32_t length_bytes, uint32_t number)
{
    for (uint32_t i = 0; i < length_bytes; i++) {
        bytes[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
    }
}

/* More bodies than are left where they lie, short ones among them, and more than a socket takes: in order, and nobody
 * reads them once the batch has ended. */
static void bodies_in_a_batch_go_in_order_and_are_free_when_it_ends(void **state)
{
    enum { COUNT = 12, HEAD = 3 };
    static const uint32_t lengths_bytes[] = {20000, 5, 32000, 1024 + HEAD, 1000, 9000};
    static uint8_t bytes[COUNT][TT_P2P_MAX_FRAME_BYTES], expected[TT_P2P_MAX_FRAME_BYTES],
        found[TT_P2P_MAX_FRAME_BYTES];
    enum tt_tcp_kind kind;
    raw_end(state);
    raw_room_bytes = 4096;
    join_both(state);
    for (uint32_t round = 0; round < 3; round++) { /* the second one behind what waits for room */
        raw.p2p->batches = true;
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t length_bytes = lengths_bytes[(i + round) % 6];
            fill_frame(bytes[i], length_bytes, round * COUNT + i);
            const struct tt_p2p_frame frame = {.head = bytes[i],
                                               .head_bytes = HEAD,
                                               .body = bytes[i] + HEAD,
                                               .body_bytes = length_bytes - HEAD,
                                               .stays = true};
            assert_int_equal(raw.peer->ops->send(raw.peer, &frame, i % 4 == 2), TUTTI_OK);
        }
        raw.p2p->batches = false;
        raw.p2p->ops->flush(raw.p2p);
        memset(bytes, 0xee, sizeof(bytes));
    }
    for (uint32_t i = 0; i < 3 * COUNT; i++) {
        uint32_t length_bytes = lengths_bytes[(i % COUNT + i / COUNT) % 6];
        fill_frame(expected, length_bytes, i);
        assert_int_equal(raw_next(frames, &kind, found), length_bytes);
        assert_memory_equal(found, expected, length_bytes);
    }
}

/* Wherever the bytes of a segment end: a reduction reads operands there. */
static void frames_are_handed_out_aligned_whole_or_come_in_parts(void **state)
{
    enum { COUNT = 60, EVENTS = 8 };
    static uint8_t stream[COUNT * (TT_TCP_MESSAGE_ALIGNMENT + 4000)];
    size_t length = 0, sent = 0;
    uint32_t come = 0;
    (void)state;
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t length_bytes = 1 + i * 61 % 4000;
        tt_tcp_header_encode(TT_TCP_FRAME, length_bytes, stream + length);
        fill_frame(stream + length + TT_TCP_HEADER_BYTES, length_bytes, i);
        length += tt_tcp_message_bytes(length_bytes);
    }
    for (uint32_t step = 0; come < COUNT; step++) {
        struct tt_p2p_event events[EVENTS];
        size_t more = tt_least(length - sent, 1 + step * 977 % 5000);
        if (more > 0) {
            raw_send(frames, stream + sent, more);
        }
        sent += more;
        uint32_t count = raw.p2p->ops->progress(raw.p2p, events, EVENTS);
        for (uint32_t i = 0; i < count; i++) {
            static uint8_t expected[4000];
            const uint8_t *data = events[i].data;
            assert_int_equal(events[i].type, TT_P2P_FRAME);
            assert_int_equal(events[i].length_bytes, 1 + come * 61 % 4000);
            fill_frame(expected, events[i].length_bytes, come++);
            assert_memory_equal(data, expected, events[i].length_bytes);
            assert_true((uintptr_t)(data - TT_TCP_HEADER_BYTES) % TT_TCP_MESSAGE_ALIGNMENT == 0);
        }
        assert_true(step < 100000);
    }
}

static void placement_of_a_put_that_does_not_exist_breaks_its_connection(void **state)
{
    (void)state;
    raw_id(frames, TT_TCP_WRITTEN, 1);
    expect_broken("no message of tutti's");
}

static void refusal_of_what_does_not_exist_breaks_its_connection(void **state)
{
    (void)state;
    raw_id(frames, TT_TCP_REFUSED, UINT64_MAX);
    expect_broken("no message of tutti's");
}

static void placement_of_a_get_breaks_its_connection_and_ends_the_get(void **state)
{
    (void)state;
    get(local, 100);
    raw_id(frames, TT_TCP_WRITTEN, take_read(100));
    expect_broken("no message of tutti's");
    assert_int_equal(raw.dones, 1);
    assert_int_equal(raw.last_status, TUTTI_ERR_PEER_FAILED);
}

static void second_refusal_of_a_get_breaks_its_connection(void **state)
{
    (void)state;
    get(local, 100);
    uint64_t id = take_read(100);
    raw_id(frames, TT_TCP_REFUSED, id);
    assert_true(raw_reaches(&raw.dones, 1));
    assert_int_equal(raw.last_status, TUTTI_ERR_PROTOCOL);
    assert_non_null(strstr(tt_last_error(), "not registered"));
    raw_id(frames, TT_TCP_REFUSED, id);
    expect_broken("no message of tutti's");
    assert_int_equal(raw.dones, 1);
}

static void wish_for_bulk_from_the_side_that_dials_it_breaks_its_connection(void **state)
{
    (void)state;
    raw_message(frames, TT_TCP_WANT_BULK, NULL, 0);
    expect_broken("no message of tutti's");
}

/* --- Reads ------------------------------------------------------------------------------------------------------ */

static void read_of_no_bytes_breaks_its_connection(void **state)
{
    struct tt_tcp_place place;
    (void)state;
    struct tt_p2p_memory *memory = raw_expose(region, sizeof(region), &place);
    place.length_bytes = 0;
    raw_read(frames, 1, &place);
    expect_broken("no message of tutti's");
    raw.p2p->ops->memory_release(memory);
}

static void read_outside_of_registrations_is_refused(void **state)
{
    struct tt_tcp_place whole, place;
    (void)state;
    struct tt_p2p_memory *memory = raw_expose(region + 1000, REGION_BYTES - 2000, &whole);
    const struct {
        int64_t offset;
        uint64_t length_bytes;
    } places[] = {{-1, 1},
                  {-1, REGION_BYTES},
                  {0, REGION_BYTES - 2000 + 1},
                  {REGION_BYTES - 2000, 1},
                  {5, UINT64_MAX},
                  {5, UINT64_MAX - 4},
                  {0, UINT64_MAX},
                  {1, UINT64_C(1) << 63}};
    for (uint64_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        place = whole;
        place.address += (uint64_t)places[i].offset;
        place.length_bytes = places[i].length_bytes;
        raw_read(frames, i, &place);
        raw_expect_id(frames, TT_TCP_REFUSED, i);
    }
    place = whole;
    place.index += 1;
    raw_read(frames, 100, &place);
    raw_expect_id(frames, TT_TCP_REFUSED, 100);
    place.index = UINT32_MAX;
    raw_read(frames, 101, &place);
    raw_expect_id(frames, TT_TCP_REFUSED, 101);
    place = whole;
    place.token ^= UINT64_C(1) << 63;
    raw_read(frames, 102, &place);
    raw_expect_id(frames, TT_TCP_REFUSED, 102);
    raw.p2p->ops->memory_release(memory);
    raw_read(frames, 103, &whole);
    raw_expect_id(frames, TT_TCP_REFUSED, 103);
    expect_going_on(frames);
    assert_int_equal(raw.downs, 0);
}

/* The header of the next piece of a read. */
static struct tt_tcp_bulk_header take_piece(int bulk)
{
    uint8_t bytes[TT_TCP_BULK_HEADER_BYTES];
    struct tt_tcp_bulk_header header;
    do {
        assert_true(raw_receive(bulk, bytes, sizeof(bytes)));
        assert_true(tt_tcp_bulk_decode(bytes, &header));
    } while (header.kind == TT_TCP_PROBE);
    assert_int_equal(header.kind, TT_TCP_DATA);
    assert_in_range(header.place.length_bytes, 1, TT_TCP_PIECE_BYTES);
    return header;
}

static void sixty_four_reads_at_once_are_served_and_one_more_breaks_its_connection(void **state)
{
    struct tt_tcp_place place;
    (void)state;
    memset(region, 0x5a, sizeof(region));
    struct tt_p2p_memory *memory = raw_expose(region, sizeof(region), &place);
    place.length_bytes = 1000;
    for (uint64_t i = 0; i < TT_TCP_READS_AT_ONCE; i++) { /* they wait for a socket for bulk */
        raw_read(frames, i, &place);
    }
    expect_going_on(frames);
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    for (uint64_t i = 0; i < TT_TCP_READS_AT_ONCE; i++) {
        struct tt_tcp_bulk_header header = take_piece(bulk);
        assert_true(header.id == i && header.place.length_bytes == 1000);
        assert_true(raw_receive(bulk, local, 1000));
        assert_memory_equal(local, region, 1000);
    }
    uint8_t *big = calloc(1, BIG_BYTES);
    struct tt_tcp_place big_place;
    struct tt_p2p_memory *big_memory = raw_expose(big, BIG_BYTES, &big_place);
    for (uint64_t i = 0; i <= TT_TCP_READS_AT_ONCE; i++) { /* nobody drains the socket */
        raw_read(frames, i, &big_place);
    }
    expect_broken("no message of tutti's");
    raw.p2p->ops->memory_release(big_memory);
    free(big); /* the address sanitizer sees who reads it now */
    for (int i = 0; i < 100; i++) {
        raw_turn();
    }
    raw.p2p->ops->memory_release(memory);
}

enum { READS = 4 };

/* What came of some reads at once, whose ids follow each other. */
struct outcome {
    uint8_t *bytes[READS];
    uint64_t came_bytes[READS];
    bool refused[READS];
};

/* What has come on the two sockets. */
static void take_outcome(int bulk, uint64_t first_id, uint64_t length_bytes, struct outcome *outcome)
{
    uint8_t payload[TT_P2P_MAX_FRAME_BYTES], byte;
    enum tt_tcp_kind kind;
    raw_turn();
    while (recv(bulk, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1) {
        struct tt_tcp_bulk_header header = take_piece(bulk);
        uint64_t i = header.id - first_id;
        assert_true(i < READS && header.place.length_bytes <= length_bytes - outcome->came_bytes[i]);
        assert_true(raw_receive(bulk, outcome->bytes[i] + outcome->came_bytes[i], header.place.length_bytes));
        outcome->came_bytes[i] += header.place.length_bytes;
    }
    while (recv(frames, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1) {
        (void)raw_next(frames, &kind, payload);
        uint64_t i = tt_bytes_get(payload, TT_TCP_ID_BYTES) - first_id;
        assert_true(kind == TT_TCP_REFUSED && i < READS && !outcome->refused[i]);
        outcome->refused[i] = true;
    }
}

/* Releases memory while it is read, after so many turns, when the socket may be full in the middle of a piece. */
static void release_amid_reads(int bulk, uint64_t length_bytes, uint32_t turns, uint64_t first_id)
{
    struct outcome outcome = {0};
    struct tt_tcp_place place;
    uint8_t *memory_bytes = malloc(length_bytes);
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    assert_non_null(memory_bytes);
    memset(memory_bytes, 0x31, length_bytes);
    struct tt_p2p_memory *memory = raw_expose(memory_bytes, length_bytes, &place);
    for (uint32_t i = 0; i < READS; i++) {
        outcome.bytes[i] = malloc(length_bytes);
        raw_read(frames, first_id + i, &place);
    }
    for (uint32_t turn = 0; turn < turns; turn++) {
        raw_turn();
    }
    raw.p2p->ops->memory_release(memory);
    free(memory_bytes); /* the address sanitizer sees who reads it now */
    uint32_t over = 0;
    while (over < READS && tt_clock_now_ns() < deadline_ns) {
        take_outcome(bulk, first_id, length_bytes, &outcome);
        while (over < READS && (outcome.refused[over] || outcome.came_bytes[over] == length_bytes)) {
            over++;
        }
    }
    for (int i = 0; i < 20; i++) {
        take_outcome(bulk, first_id, length_bytes, &outcome);
    }
    for (uint32_t i = 0; i < READS; i++) {
        assert_true(outcome.refused[i] != (outcome.came_bytes[i] == length_bytes)); /* one of them, and not both */
        for (uint64_t k = 0; k < outcome.came_bytes[i] && !outcome.refused[i]; k++) {
            assert_int_equal(outcome.bytes[i][k], 0x31);
        }
        free(outcome.bytes[i]);
    }
    expect_going_on(frames);
}

static void read_whose_memory_is_released_meanwhile_is_whole_or_refused(void **state)
{
    static const uint64_t lengths_bytes[] = {1000, TT_TCP_PIECE_BYTES, 2 * TT_TCP_PIECE_BYTES + 1, BIG_BYTES};
    (void)state;
    raw_room_bytes = 4096;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    for (uint32_t i = 0; i < 16; i++) {
        release_amid_reads(bulk, lengths_bytes[i % 4], 2 * (i / 4), (uint64_t)READS * i);
    }
    assert_int_equal(raw.downs, 0);
}

/* --- Sockets that are full, or silent ---------------------------------------------------------------------------- */

/* The last of what the owner of an instance is asked for to come back for, from now on. */
static uint64_t last_tend_ns(void)
{
    static uint64_t now_ns;
    uint64_t due_ns = 0;
    now_ns = now_ns == 0 ? tt_clock_now_ns() : now_ns;
    for (int i = 0; i < 30; i++) {
        now_ns += 100 * TT_NS_PER_MS;
        due_ns = raw.p2p->ops->tend(raw.p2p, now_ns);
    }
    return due_ns;
}

/* An application that stays away would leave them there. */
static void messages_that_wait_for_room_are_tended(void **state)
{
    const struct tt_tcp *tcp = tt_tcp_of(raw.p2p);
    static uint8_t bytes[1 << 16];
    (void)state;
    assert_true(last_tend_ns() == TT_NEVER);
    for (uint32_t i = 0; tcp->blocked_count == 0; i++) {
        assert_true(i < 1000000);
        assert_int_equal(tt_p2p_send(raw.peer, bytes, TT_P2P_MAX_FRAME_BYTES, false), TUTTI_OK);
    }
    assert_int_equal(tcp->blocked_count, 1);
    assert_true(last_tend_ns() != TT_NEVER);
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    while (tcp->blocked_count > 0) {
        assert_true(recv(frames, bytes, sizeof(bytes), MSG_DONTWAIT) != 0 && tt_clock_now_ns() < deadline_ns);
        raw_turn();
    }
    assert_true(last_tend_ns() == TT_NEVER);
}

/* What another rank reads, of one that has nothing more to do itself. */
static void bulk_that_waits_for_room_is_tended(void **state)
{
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    static uint8_t bytes[1 << 16];
    struct tt_tcp_place place;
    (void)state;
    uint8_t *big = calloc(1, BIG_BYTES);
    struct tt_p2p_memory *memory = raw_expose(big, BIG_BYTES, &place);
    raw_room_bytes = 4096;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    assert_true(last_tend_ns() == TT_NEVER);
    raw_read(frames, 1, &place);
    for (int i = 0; i < 1000; i++) {
        raw_turn();
    }
    assert_true(last_tend_ns() != TT_NEVER);
    while (last_tend_ns() != TT_NEVER) {
        while (recv(bulk, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
        }
        assert_true(tt_clock_now_ns() < deadline_ns);
        raw_turn();
    }
    raw.p2p->ops->memory_release(memory);
    free(big);
}

/* As much as there is room for, whole frames only in the end. */
static void flood(int fd)
{
    enum { PAYLOAD = 100, LENGTH = 112 };
    static uint8_t frame[LENGTH];
    static size_t sent_bytes;
    ssize_t sent = 1;
    assert_int_equal(tt_tcp_message_bytes(PAYLOAD), LENGTH);
    tt_tcp_header_encode(TT_TCP_FRAME, PAYLOAD, frame);
    while (sent > 0) {
        sent = send(fd, frame + sent_bytes, LENGTH - sent_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        sent_bytes = sent > 0 ? (sent_bytes + (size_t)sent) % LENGTH : sent_bytes;
    }
}

static void a_death_is_told_though_another_peer_sends_without_end(void **state)
{
    enum { FEW = 8 };
    struct tt_p2p_event events[FEW];
    bool told = false;
    (void)state;
    raw_connect(); /* and the other one has an owner, too */
    flood(frames);
    raw_close(other);
    for (int i = 0; i < 5000 && !told; i++) {
        flood(frames);
        uint32_t count = raw.p2p->ops->progress(raw.p2p, events, FEW);
        for (uint32_t k = 0; k < count; k++) {
            told = told || events[k].type == TT_P2P_PEER_DOWN;
        }
    }
    assert_true(told);
}

/* The system says it to a send, and then no more. */
static void an_error_that_a_send_meets_is_the_reason(void **state)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog deaf = {.len = 1, .filter = &nothing};
    const int one = 1, fd = ((const struct tt_tcp_peer *)raw.peer)->frames.fd;
    struct pollfd error = {.fd = fd};
    (void)state;
    assert_int_equal(setsockopt(frames, SOL_SOCKET, SO_ATTACH_FILTER, &deaf, sizeof(deaf)), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof(one)), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one)), 0);
    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &one, sizeof(one)), 0);
    assert_int_equal(poll(&error, 1, 20000), 1);
    assert_true((error.revents & POLLERR) != 0);
    assert_int_equal(tt_p2p_send(raw.peer, "x", 1, false), TUTTI_OK);
    assert_true(raw_reaches(&raw.downs, 1));
    assert_non_null(strstr(raw.down_text, strerror(ETIMEDOUT)));
    expect_going_on(other);
}

#define WITH_BOTH(name) cmocka_unit_test_setup_teardown(name, join_both, raw_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOTH(message_of_no_kind_breaks_its_connection),
        WITH_BOTH(frame_of_no_bytes_breaks_its_connection),
        WITH_BOTH(frame_over_the_limit_breaks_its_connection_when_its_header_comes),
        WITH_BOTH(frames_before_what_makes_no_sense_are_handed_out),
        WITH_BOTH(messages_that_come_byte_by_byte_are_read),
        WITH_BOTH(what_is_sent_in_a_batch_goes_together_when_that_ends),
        WITH_BOTH(bodies_in_a_batch_go_in_order_and_are_free_when_it_ends),
        WITH_BOTH(frames_are_handed_out_aligned_whole_or_come_in_parts),
        WITH_BOTH(messages_that_wait_for_room_are_tended),
        WITH_BOTH(bulk_that_waits_for_room_is_tended),
        WITH_BOTH(a_death_is_told_though_another_peer_sends_without_end),
        WITH_BOTH(an_error_that_a_send_meets_is_the_reason),
        WITH_BOTH(placement_of_a_put_that_does_not_exist_breaks_its_connection),
        WITH_BOTH(refusal_of_what_does_not_exist_breaks_its_connection),
        WITH_BOTH(placement_of_a_get_breaks_its_connection_and_ends_the_get),
        WITH_BOTH(second_refusal_of_a_get_breaks_its_connection),
        WITH_BOTH(wish_for_bulk_from_the_side_that_dials_it_breaks_its_connection),
        WITH_BOTH(read_of_no_bytes_breaks_its_connection),
        WITH_BOTH(read_outside_of_registrations_is_refused),
        WITH_BOTH(sixty_four_reads_at_once_are_served_and_one_more_breaks_its_connection),
        WITH_BOTH(read_whose_memory_is_released_meanwhile_is_whole_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
