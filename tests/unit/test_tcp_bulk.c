/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What may come over a socket for bulk of the tcp provider, and what may not, and what becomes of a connection whose
 * socket for bulk is closed or cannot be had. The other side is the test, which sends headers and bytes as it likes.
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
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tcp_joined.h"

enum { REGION_BYTES = 300000, BIG_BYTES = 16 << 20 };

static uint8_t region[REGION_BYTES], local[REGION_BYTES];

/* --- Bulk ------------------------------------------------------------------------------------------------------- */

static void bulk_of_no_kind_breaks_its_connection(void **state)
{
    uint8_t garbage[TT_TCP_BULK_HEADER_BYTES];
    (void)state;
    memset(garbage, 0xff, sizeof(garbage));
    raw_send(raw_join(TT_TCP_FOR_BULK, 0), garbage, sizeof(garbage));
    expect_broken("no bulk of tutti's");
}

static void data_that_nobody_asked_for_is_thrown_away(void **state)
{
    const struct tt_tcp_place place = {.length_bytes = sizeof(local)};
    (void)state;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    raw_bulk(bulk, TT_TCP_DATA, 99, &place, 0);
    raw_send(bulk, local, sizeof(local));
    get(local, 100);
    uint64_t id = take_read(100);
    raw_bulk(bulk, TT_TCP_DATA, id + 1, &place, 0); /* not this one either */
    raw_send(bulk, local, sizeof(local));
    raw_bulk(bulk, TT_TCP_DATA, id, &(struct tt_tcp_place){.length_bytes = 100}, 0);
    raw_send(bulk, region, 100);
    assert_true(raw_reaches(&raw.dones, 1));
    assert_int_equal(raw.last_status, TUTTI_OK);
    assert_int_equal(raw.downs, 0);
}

static void data_of_no_bytes_breaks_its_connection(void **state)
{
    (void)state;
    raw_bulk(raw_join(TT_TCP_FOR_BULK, 0), TT_TCP_DATA, 99, &(struct tt_tcp_place){0}, 0);
    expect_broken("no bulk of tutti's");
}

static void more_data_than_was_asked_for_breaks_its_connection_and_is_not_placed(void **state)
{
    (void)state;
    memset(local, 0x11, sizeof(local));
    memset(region, 0x22, sizeof(region));
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    get(local, 100);
    uint64_t id = take_read(100);
    raw_bulk(bulk, TT_TCP_DATA, id, &(struct tt_tcp_place){.length_bytes = 60}, 0);
    raw_send(bulk, region, 60);
    raw_bulk(bulk, TT_TCP_DATA, id, &(struct tt_tcp_place){.length_bytes = 41}, 0);
    expect_broken("no bulk of tutti's");
    assert_int_equal(raw.dones, 1);
    assert_int_equal(raw.last_status, TUTTI_ERR_PEER_FAILED);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(local[i], i < 60 ? 0x22 : 0x11);
    }
}

static void write_outside_of_registrations_is_thrown_away_and_refused(void **state)
{
    struct tt_tcp_place whole, place;
    (void)state;
    memset(region, 0x22, sizeof(region));
    memset(local, 0x11, sizeof(local));
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    struct tt_p2p_memory *memory = raw_expose(region + 1000, 1000, &whole);
    place = whole;
    place.address -= 1;
    raw_bulk(bulk, TT_TCP_WRITE, 1, &place, 7);
    raw_send(bulk, local, 1000);
    raw_expect_id(frames, TT_TCP_REFUSED, 1);
    place = whole;
    place.length_bytes = 1001;
    raw_bulk(bulk, TT_TCP_WRITE, 2, &place, 7);
    raw_send(bulk, local, 1001);
    raw_expect_id(frames, TT_TCP_REFUSED, 2);
    for (int i = 0; i < 4000; i++) {
        assert_int_equal(region[i], 0x22);
    }
    assert_int_equal(raw.immediates, 0);
    raw_bulk(bulk, TT_TCP_WRITE, 3, &whole, 7);
    raw_send(bulk, local, 1000);
    raw_expect_id(frames, TT_TCP_WRITTEN, 3);
    assert_int_equal(raw.immediates, 1);
    for (int i = 0; i < 4000; i++) {
        assert_int_equal(region[i], i >= 1000 && i < 2000 ? 0x11 : 0x22);
    }
    assert_int_equal(raw.downs, 0);
    raw.p2p->ops->memory_release(memory);
}

static void write_whose_memory_is_released_meanwhile_goes_nowhere_and_is_refused(void **state)
{
    struct tt_tcp_place place;
    uint8_t *big = malloc(BIG_BYTES), *bytes = calloc(1, BIG_BYTES);
    (void)state;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    struct tt_p2p_memory *memory = raw_expose(big, BIG_BYTES, &place);
    memset(big, 0x22, BIG_BYTES);
    raw_bulk(bulk, TT_TCP_WRITE, 1, &place, 7);
    raw_send(bulk, bytes, BIG_BYTES / 2);
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    while (big[1000000] != 0 && tt_clock_now_ns() < deadline_ns) {
        raw_turn();
    }
    assert_int_equal(big[1000000], 0);
    raw.p2p->ops->memory_release(memory);
    free(big); /* the address sanitizer sees who writes it now */
    raw_send(bulk, bytes, BIG_BYTES / 2);
    raw_expect_id(frames, TT_TCP_REFUSED, 1);
    assert_int_equal(raw.immediates, 0);
    assert_int_equal(raw.downs, 0);
    expect_going_on(frames);
    free(bytes);
}

/* What the caller answers to a frame, as its own reads, would else wait behind the bytes that came to be asked for with
 * it, in the queues of the host. */
static void frames_are_handed_out_before_what_was_asked_for_with_them_is_sent(void **state)
{
    const int at_once = 1;
    struct tt_tcp_place place;
    uint8_t byte;
    (void)state;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    struct tt_p2p_memory *memory = raw_expose(region, REGION_BYTES, &place);
    assert_int_equal(setsockopt(frames, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof(at_once)), 0);
    raw_read(frames, 1, &place);
    raw_message(frames, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, 1));
    assert_int_equal(recv(bulk, &byte, 1, MSG_DONTWAIT), -1);
    raw_turn();
    assert_int_equal(recv(bulk, &byte, 1, MSG_DONTWAIT), 1);
    raw.p2p->ops->memory_release(memory);
}

/* Where nothing is handed out there is nothing to wait for. */
static void what_is_asked_for_alone_is_sent_at_once(void **state)
{
    struct tt_tcp_place place;
    uint8_t byte;
    (void)state;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    struct tt_p2p_memory *memory = raw_expose(region, REGION_BYTES, &place);
    raw_read(frames, 1, &place);
    raw_turn();
    assert_int_equal(recv(bulk, &byte, 1, MSG_DONTWAIT), 1);
    raw.p2p->ops->memory_release(memory);
}

static void put_into(const struct tt_tcp_place *place, int bulk, uint64_t id)
{
    raw_bulk(bulk, TT_TCP_WRITE, id, place, 7);
    raw_send(bulk, local, place->length_bytes);
    assert_true(raw_reaches(&raw.immediates, (uint32_t)id));
}

/* Until the next progress, whatever the caller does when it hears of it. */
static void data_of_an_immediate_stays_while_others_are_put(void **state)
{
    enum { PUTS = 100 };
    static const struct tt_p2p_immediate later = {.value = 1, .data_bytes = 3, .data = "no"};
    const uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    struct tt_tcp_bulk_header header = {.kind = TT_TCP_WRITE, .id = 5, .immediate = {.value = 7, .data_bytes = 4}};
    uint8_t bytes[TT_TCP_BULK_HEADER_BYTES];
    struct tt_p2p_event event = {0};
    uint32_t count = 0;
    (void)state;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    memcpy(header.immediate.data, "yes", 4);
    tt_tcp_bulk_encode(&header, bytes);
    raw_send(bulk, bytes, sizeof(bytes));
    while (count == 0 && tt_clock_now_ns() < deadline_ns) {
        count = raw.p2p->ops->progress(raw.p2p, &event, 1);
    }
    assert_int_equal(event.type, TT_P2P_IMMEDIATE);
    assert_int_equal(event.length_bytes, 4);
    for (uint64_t i = 0; i < PUTS; i++) {
        assert_int_equal(raw.peer->ops->put(raw.peer, NULL, 0, 0, NULL, 0, &later, i), TUTTI_OK);
    }
    assert_memory_equal(event.data, "yes", 4);
}

/* That a put has been placed is said with what the caller answers to it, in one segment; or at the next call. */
static void placement_goes_with_what_is_sent_next(void **state)
{
    enum { PLACED = TT_TCP_MESSAGE_ALIGNMENT, FRAME = TT_TCP_MESSAGE_ALIGNMENT };
    uint8_t bytes[2 * (PLACED + FRAME)];
    struct tt_tcp_place place;
    (void)state;
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    struct tt_p2p_memory *memory = raw_expose(region, 100, &place);
    put_into(&place, bulk, 1);
    assert_int_equal(recv(frames, bytes, sizeof(bytes), MSG_DONTWAIT), -1);
    assert_int_equal(tt_p2p_send(raw.peer, "four", 4, false), TUTTI_OK);
    assert_int_equal(recv(frames, bytes, sizeof(bytes), 0), PLACED + FRAME);
    assert_memory_equal(bytes + PLACED + TT_TCP_HEADER_BYTES, "four", 4);
    put_into(&place, bulk, 2);
    (void)raw_turn();
    assert_int_equal(recv(frames, bytes, sizeof(bytes), MSG_DONTWAIT), PLACED);
    put_into(&place, bulk, 3);
    (void)raw.p2p->ops->arm(raw.p2p);
    assert_int_equal(recv(frames, bytes, sizeof(bytes), MSG_DONTWAIT), PLACED);
    raw.p2p->ops->memory_release(memory);
}

static void end_of_the_bulk_alone_is_an_end_with_its_reason(void **state)
{
    (void)state;
    get(local, 100);
    (void)take_read(100);
    raw_close(raw_join(TT_TCP_FOR_BULK, 0));
    expect_broken("socket for gets and puts was closed");
    assert_int_equal(raw.dones, 1);
    assert_int_equal(raw.last_status, TUTTI_ERR_PEER_FAILED);
}

/* The bulk alone: nothing gets through for a while, as where something on the way has forgotten it. */
static void let_the_bulk_time_out(void)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const struct sock_fprog deaf = {.len = 1, .filter = &nothing};
    const int one = 1;
    get(local, 100);
    (void)take_read(100);
    int bulk = raw_join(TT_TCP_FOR_BULK, 0);
    struct pollfd error = {.fd = ((const struct tt_tcp_peer *)raw.peer)->bulk.fd};
    assert_int_equal(setsockopt(bulk, SOL_SOCKET, SO_ATTACH_FILTER, &deaf, sizeof(deaf)), 0);
    assert_int_equal(setsockopt(error.fd, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof(one)), 0);
    assert_int_equal(setsockopt(error.fd, IPPROTO_TCP, TCP_KEEPINTVL, &one, sizeof(one)), 0);
    assert_int_equal(setsockopt(error.fd, IPPROTO_TCP, TCP_KEEPCNT, &one, sizeof(one)), 0);
    assert_int_equal(poll(&error, 1, 20000), 1);
    assert_true((error.revents & POLLERR) != 0);
}

static void an_error_of_the_bulk_is_the_reason(void **state)
{
    (void)state;
    let_the_bulk_time_out();
    expect_broken(strerror(ETIMEDOUT));
}

static void an_error_that_a_put_meets_is_the_reason(void **state)
{
    uint8_t key[TT_TCP_KEY_BYTES];
    (void)state;
    let_the_bulk_time_out();
    tt_tcp_key_encode(3, 4, key);
    assert_int_equal(raw_put(key, local, 100, 6, 5), TUTTI_OK);
    expect_broken(strerror(ETIMEDOUT));
}

/* --- Bulk that is refused, where the instance dials ------------------------------------------------------------------
 */

/* For a put the side that has dialed dials once more. */
static void put(uint64_t length_bytes)
{
    uint8_t key[TT_TCP_KEY_BYTES];
    tt_tcp_key_encode(3, 4, key);
    assert_int_equal(raw_put(key, local, length_bytes, 6, 5), TUTTI_OK);
}

enum { LAST_FRAMES = 400, LAST_FRAME_BYTES = 1000 }; /* more than are read at a time */

/* The instance's connection, with frames that it has not read yet and with a goodbye behind them. */
static void leave_with_frames_on_their_way(void)
{
    static const uint8_t bytes[LAST_FRAME_BYTES];
    raw_connect();
    frames = raw_accept();
    raw_say(frames, TT_TCP_WELCOME);
    raw_message(frames, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, 1));
    for (int i = 1; i < LAST_FRAMES; i++) {
        raw_message(frames, TT_TCP_FRAME, bytes, sizeof(bytes));
    }
    raw_message(frames, TT_TCP_BYE, NULL, 0);
    assert_int_equal(raw.frames, 1); /* all of that fits into the sockets */
}

static void expect_all_frames_and_then_the_end(void)
{
    assert_true(raw_reaches(&raw.downs, 1));
    assert_int_equal(raw.frames, LAST_FRAMES);
    assert_non_null(strstr(raw.down_text, "it has left"));
    assert_int_equal(raw.dones, 1);
    assert_int_equal(raw.last_status, TUTTI_ERR_PEER_FAILED);
}

static void last_frames_come_though_nobody_listens_for_bulk_any_more(void **state)
{
    (void)state;
    leave_with_frames_on_their_way();
    raw_close(raw_listener);
    put(100);
    expect_all_frames_and_then_the_end();
}

static void last_frames_come_though_the_bulk_is_refused(void **state)
{
    (void)state;
    leave_with_frames_on_their_way();
    put(100);
    int bulk = accept4(raw_listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(bulk >= 0);
    raw_say(bulk, TT_TCP_GONE);
    expect_all_frames_and_then_the_end();
    close(bulk);
}

static void put_where_the_instance_dials(void)
{
    raw_connect();
    frames = raw_accept();
    raw_say(frames, TT_TCP_WELCOME);
    put(100);
}

static void bulk_that_is_refused_by_who_stays_is_an_end_with_its_reason(void **state)
{
    (void)state;
    put_where_the_instance_dials();
    int bulk = raw_accept();
    raw_say(bulk, TT_TCP_NO_ROOM);
    assert_true(raw_reaches(&raw.downs, 1));
    assert_non_null(strstr(raw.down_text, "no descriptor or memory left"));
    assert_int_equal(raw.down_status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(raw.dones, 1);
    assert_int_equal(raw.last_status, TUTTI_ERR_PEER_FAILED);
}

/* Who is away long enough after it has dialed finds that nobody waits for its greeting any more. */
static void bulk_that_is_closed_without_an_answer_is_dialed_again(void **state)
{
    uint8_t header[1];
    (void)state;
    put_where_the_instance_dials();
    ((struct tt_tcp_peer *)raw.peer)->begun_ns -= 10 * TT_NS_PER_S;
    for (int i = 0; i < 3; i++) {
        raw_close(raw_accept());
    }
    int bulk = raw_accept();
    raw_say(bulk, TT_TCP_WELCOME);
    assert_true(raw_receive(bulk, header, sizeof(header)));
    assert_int_equal(raw.downs + raw.dones, 0);
}

static void bulk_that_is_closed_each_time_is_an_end_with_its_reason(void **state)
{
    (void)state;
    put_where_the_instance_dials();
    for (uint32_t i = 0; i < TT_TCP_TRIES + ((struct tt_tcp_peer *)raw.peer)->quick; i++) {
        raw_close(raw_accept());
    }
    assert_true(raw_reaches(&raw.downs, 1));
    assert_non_null(strstr(raw.down_text, "closed the connection while connecting"));
    assert_int_equal(raw.dones, 1);
}

/* A segment of the first try that is lost is no 50 ms of somebody who waits for data. */
static void bulk_of_a_near_host_is_tried_quickly_first(void **state)
{
    enum { QUICK = 2 };
    struct tt_tcp_peer *peer;
    (void)state;
    raw_connect();
    frames = raw_accept();
    raw_say(frames, TT_TCP_WELCOME);
    peer = (struct tt_tcp_peer *)raw.peer;
    while (peer->frames.stage != TT_TCP_OPEN) {
        raw_turn();
    }
    raw_fill();
    put(100);
    assert_int_equal(peer->quick, QUICK);
    for (uint32_t i = 0; i <= QUICK; i++) {
        uint64_t deadline_ns = tt_clock_now_ns() + 5 * TT_NS_PER_S;
        while (peer->tries <= i) {
            assert_true(tt_clock_now_ns() < deadline_ns);
            raw_turn();
        }
        assert_int_equal(peer->bulk.due_ns - peer->tcp->session.now_ns, TT_TCP_REDIAL_NS >> (QUICK - i));
    }
}

#define WITH_DIALING(name) cmocka_unit_test_setup_teardown(name, raw_begin_above, raw_end)
#define WITH_BOTH(name)    cmocka_unit_test_setup_teardown(name, join_both, raw_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_BOTH(bulk_of_no_kind_breaks_its_connection),
        WITH_BOTH(data_that_nobody_asked_for_is_thrown_away),
        WITH_BOTH(data_of_no_bytes_breaks_its_connection),
        WITH_BOTH(more_data_than_was_asked_for_breaks_its_connection_and_is_not_placed),
        WITH_BOTH(write_outside_of_registrations_is_thrown_away_and_refused),
        WITH_BOTH(write_whose_memory_is_released_meanwhile_goes_nowhere_and_is_refused),
        WITH_BOTH(frames_are_handed_out_before_what_was_asked_for_with_them_is_sent),
        WITH_BOTH(what_is_asked_for_alone_is_sent_at_once),
        WITH_BOTH(data_of_an_immediate_stays_while_others_are_put),
        WITH_BOTH(placement_goes_with_what_is_sent_next),
        WITH_BOTH(end_of_the_bulk_alone_is_an_end_with_its_reason),
        WITH_BOTH(an_error_of_the_bulk_is_the_reason),
        WITH_BOTH(an_error_that_a_put_meets_is_the_reason),
        WITH_DIALING(last_frames_come_though_nobody_listens_for_bulk_any_more),
        WITH_DIALING(last_frames_come_though_the_bulk_is_refused),
        WITH_DIALING(bulk_that_is_refused_by_who_stays_is_an_end_with_its_reason),
        WITH_DIALING(bulk_that_is_closed_without_an_answer_is_dialed_again),
        WITH_DIALING(bulk_that_is_closed_each_time_is_an_end_with_its_reason),
        WITH_DIALING(bulk_of_a_near_host_is_tried_quickly_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
