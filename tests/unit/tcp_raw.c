/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An instance of the tcp provider, and plain sockets to it. Normal path: sockets of the test do not block, and whatever
 * waits for the instance turns it. Failures: every wait has a deadline, and fails the test.
 */
#include "tcp_raw.h"

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "wire/cursor.h"

enum { EVENTS = 256, SOCKETS = 512 }; /* more events than a socket gives at a time */

#define LATE_NS (20 * TT_NS_PER_S)

struct raw_side raw;
uint8_t raw_address[TT_TCP_ADDRESS_BYTES];
int raw_listener = -1;
int raw_room_bytes;

static int sockets[SOCKETS];
static uint32_t socket_count;

/* --- The instance ----------------------------------------------------------------------------------------------- */

uint32_t raw_turn(void)
{
    struct tt_p2p_event events[EVENTS];
    uint32_t count = raw.p2p->ops->progress(raw.p2p, events, EVENTS);
    for (uint32_t i = 0; i < count; i++) {
        switch (events[i].type) {
        case TT_P2P_FRAME:
            raw.frames++;
            raw.frame_cookie = events[i].peer_cookie;
            break;
        case TT_P2P_DONE:
            raw.dones++;
            raw.last_status = events[i].status;
            break;
        case TT_P2P_IMMEDIATE:
            raw.immediates++;
            break;
        case TT_P2P_PEER_DOWN:
            raw.downs++;
            assert_in_range(events[i].length_bytes, 1, RAW_TEXT_BYTES - 1);
            raw.down_status = events[i].status;
            (void)snprintf(raw.down_text, sizeof(raw.down_text), "%.*s", (int)events[i].length_bytes,
                           (const char *)events[i].data);
            break;
        }
    }
    tt_session_check((const struct tt_session *)raw.p2p);
    return count;
}

bool raw_reaches(const uint32_t *counter, uint32_t wanted)
{
    uint64_t deadline_ns = tt_clock_now_ns() + LATE_NS;
    while (*counter < wanted && tt_clock_now_ns() < deadline_ns) {
        raw_turn();
    }
    return *counter >= wanted;
}

uint64_t raw_dropped(void)
{
    struct tt_p2p_counters counters;
    raw.p2p->ops->counters(raw.p2p, &counters);
    return counters.frames_dropped;
}

void raw_connect(void)
{
    assert_int_equal(raw.p2p->ops->connect(raw.p2p, raw_address, sizeof(raw_address), RAW_COOKIE, &raw.peer), TUTTI_OK);
    tt_session_check((const struct tt_session *)raw.p2p);
}

struct tt_p2p_memory *raw_expose(void *address, size_t length_bytes, struct tt_tcp_place *place)
{
    struct tt_p2p_memory *memory;
    uint8_t key[TT_TCP_KEY_BYTES];
    size_t key_bytes = sizeof(key);
    *place = (struct tt_tcp_place){.address = (uintptr_t)address, .length_bytes = length_bytes};
    assert_int_equal(raw.p2p->ops->memory_register(raw.p2p, address, length_bytes, &memory), TUTTI_OK);
    assert_int_equal(raw.p2p->ops->memory_pack(memory, key, &key_bytes), TUTTI_OK);
    assert_true(tt_tcp_key_decode(key, key_bytes, place));
    return memory;
}

/* --- Sockets ---------------------------------------------------------------------------------------------------- */

static int keep(int fd)
{
    assert_true(fd >= 0 && socket_count < SOCKETS);
    sockets[socket_count++] = fd;
    return fd;
}

void raw_close(int fd)
{
    for (uint32_t i = 0; i < socket_count; i++) {
        if (sockets[i] == fd) {
            sockets[i] = sockets[--socket_count];
            close(fd);
            return;
        }
    }
}

int raw_dial(void)
{
    struct tt_tcp_address address;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = keep(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    assert_true(tt_tcp_address_decode(raw.address, sizeof(raw.address), &address));
    to.sin_port = htons(address.port);
    if (raw_room_bytes > 0) {
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &raw_room_bytes, sizeof(raw_room_bytes)), 0);
    }
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

void raw_fill(void)
{
    enum { MOST = 16 };
    struct sockaddr_storage at;
    socklen_t at_bytes = sizeof(at);
    assert_int_equal(listen(raw_listener, 0), 0);
    assert_int_equal(getsockname(raw_listener, (struct sockaddr *)&at, &at_bytes), 0);
    for (int i = 0; i < MOST; i++) {
        int fd = keep(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
        (void)connect(fd, (struct sockaddr *)&at, at_bytes);
    }
}

void raw_send(int fd, const void *bytes, size_t length_bytes)
{
    const uint8_t *at = bytes;
    uint64_t deadline_ns = tt_clock_now_ns() + LATE_NS;
    while (length_bytes > 0) {
        ssize_t sent = send(fd, at, length_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(sent > 0 || errno == EAGAIN);
        assert_true(tt_clock_now_ns() < deadline_ns);
        if (sent > 0) {
            at += sent;
            length_bytes -= (size_t)sent;
        } else {
            raw_turn();
        }
    }
}

bool raw_receive(int fd, void *bytes, size_t length_bytes)
{
    uint8_t *at = bytes;
    uint64_t deadline_ns = tt_clock_now_ns() + LATE_NS;
    while (length_bytes > 0) {
        ssize_t count = recv(fd, at, length_bytes, MSG_DONTWAIT);
        if (count == 0 || (count < 0 && errno != EAGAIN)) {
            return false;
        }
        if (count > 0) {
            at += count;
            length_bytes -= (size_t)count;
        } else {
            assert_true(tt_clock_now_ns() < deadline_ns);
            raw_turn();
        }
    }
    return true;
}

void raw_expect_closed(int fd)
{
    uint8_t byte;
    while (raw_receive(fd, &byte, 1)) {
    }
}

/* --- Greetings -------------------------------------------------------------------------------------------------- */

void raw_greet(int fd, enum tt_tcp_purpose purpose, uint32_t serial)
{
    uint8_t bytes[TT_TCP_GREETING_BYTES];
    struct tt_tcp_greeting greeting = {.purpose = purpose, .version = TT_TCP_VERSION, .serial = serial};
    memcpy(greeting.to, raw.address, sizeof(greeting.to));
    memcpy(greeting.from, raw_address, sizeof(greeting.from));
    tt_tcp_greeting_encode(&greeting, bytes);
    raw_send(fd, bytes, sizeof(bytes));
}

enum tt_tcp_answer raw_answer(int fd)
{
    uint8_t bytes[TT_TCP_ANSWER_BYTES];
    enum tt_tcp_answer answer;
    if (!raw_receive(fd, bytes, sizeof(bytes))) {
        return TT_TCP_ANSWER_LIMIT;
    }
    assert_true(tt_tcp_answer_decode(bytes, &answer));
    return answer;
}

void raw_say(int fd, enum tt_tcp_answer answer)
{
    uint8_t bytes[TT_TCP_ANSWER_BYTES];
    tt_tcp_answer_encode(answer, bytes);
    raw_send(fd, bytes, sizeof(bytes));
}

int raw_join(enum tt_tcp_purpose purpose, uint32_t serial)
{
    int fd = raw_dial();
    raw_greet(fd, purpose, serial);
    assert_int_equal(raw_answer(fd), TT_TCP_WELCOME);
    return fd;
}

int raw_accept(void)
{
    uint8_t bytes[TT_TCP_GREETING_BYTES];
    struct tt_tcp_greeting greeting;
    uint64_t deadline_ns = tt_clock_now_ns() + LATE_NS;
    int fd = -1;
    while (fd < 0) {
        assert_true(tt_clock_now_ns() < deadline_ns);
        raw_turn();
        fd = accept4(raw_listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    keep(fd);
    assert_true(raw_receive(fd, bytes, sizeof(bytes)));
    assert_true(tt_tcp_greeting_decode(bytes, &greeting));
    assert_memory_equal(greeting.to, raw_address, sizeof(raw_address));
    assert_memory_equal(greeting.from, raw.address, sizeof(raw.address));
    assert_int_equal(greeting.version, TT_TCP_VERSION);
    return fd;
}

/* --- Messages --------------------------------------------------------------------------------------------------- */

int raw_meet(void)
{
    raw_connect();
    int frames = raw_accept();
    raw_say(frames, TT_TCP_WELCOME);
    raw_message(frames, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, 1));
    return frames;
}

void raw_message(int fd, enum tt_tcp_kind kind, const void *payload, uint32_t payload_bytes)
{
    uint8_t bytes[TT_TCP_MESSAGE_MAX_BYTES] = {0};
    tt_tcp_header_encode(kind, payload_bytes, bytes);
    if (payload_bytes > 0) {
        memcpy(bytes + TT_TCP_HEADER_BYTES, payload, payload_bytes);
    }
    raw_send(fd, bytes, tt_tcp_message_bytes(payload_bytes));
}

void raw_id(int fd, enum tt_tcp_kind kind, uint64_t id)
{
    uint8_t bytes[TT_TCP_ID_BYTES];
    tt_bytes_put(bytes, id, sizeof(bytes));
    raw_message(fd, kind, bytes, sizeof(bytes));
}

void raw_read(int fd, uint64_t id, const struct tt_tcp_place *place)
{
    uint8_t bytes[TT_TCP_READ_BYTES];
    tt_tcp_read_encode(id, place, bytes);
    raw_message(fd, TT_TCP_READ, bytes, sizeof(bytes));
}

tutti_status raw_put(const uint8_t key[TT_TCP_KEY_BYTES], const void *local, uint64_t length_bytes, uint64_t immediate,
                     uint64_t cookie)
{
    return raw.peer->ops->put(raw.peer, key, TT_TCP_KEY_BYTES, 1000, local, length_bytes,
                              &(struct tt_p2p_immediate){.value = immediate}, cookie);
}

void raw_bulk(int fd, enum tt_tcp_kind kind, uint64_t id, const struct tt_tcp_place *place, uint64_t immediate)
{
    uint8_t bytes[TT_TCP_BULK_HEADER_BYTES];
    struct tt_tcp_bulk_header header = {.kind = kind, .id = id, .place = *place, .immediate = {.value = immediate}};
    tt_tcp_bulk_encode(&header, bytes);
    raw_send(fd, bytes, sizeof(bytes));
}

uint32_t raw_next(int fd, enum tt_tcp_kind *kind, uint8_t payload[TT_P2P_MAX_FRAME_BYTES])
{
    uint8_t header[TT_TCP_HEADER_BYTES], padding[TT_TCP_MESSAGE_ALIGNMENT];
    uint32_t payload_bytes;
    do {
        assert_true(raw_receive(fd, header, sizeof(header)));
        assert_true(tt_tcp_header_decode(header, kind, &payload_bytes));
        assert_true(raw_receive(fd, payload, payload_bytes));
        assert_true(raw_receive(fd, padding, tt_tcp_message_bytes(payload_bytes) - sizeof(header) - payload_bytes));
    } while (*kind == TT_TCP_PROBE);
    return payload_bytes;
}

void raw_expect_id(int fd, enum tt_tcp_kind kind, uint64_t id)
{
    uint8_t payload[TT_P2P_MAX_FRAME_BYTES] = {0};
    enum tt_tcp_kind found;
    raw_next(fd, &found, payload);
    assert_int_equal(found, kind);
    assert_true(tt_bytes_get(payload, TT_TCP_ID_BYTES) == id);
}

/* --- Begin and end ---------------------------------------------------------------------------------------------- */

static int begin(uint64_t instance)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct tt_tcp_address address = {.family = 4, .instance = instance, .ip = {127, 0, 0, 1}};
    socklen_t length_bytes = sizeof(at);
    size_t address_bytes = sizeof(raw.address);
    raw = (struct raw_side){0};
    assert_int_equal(tt_tcp_create(NULL, &raw.p2p), TUTTI_OK);
    assert_int_equal(raw.p2p->ops->address(raw.p2p, raw.address, &address_bytes), TUTTI_OK);
    raw_listener = keep(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    assert_int_equal(bind(raw_listener, (struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(raw_listener, 16), 0);
    assert_int_equal(getsockname(raw_listener, (struct sockaddr *)&at, &length_bytes), 0);
    address.port = ntohs(at.sin_port);
    tt_tcp_address_encode(&address, raw_address);
    return 0;
}

int raw_begin_below(void **state)
{
    (void)state;
    return begin(0);
}

int raw_begin_above(void **state)
{
    (void)state;
    return begin(UINT64_C(0xffffffffff));
}

int raw_end(void **state)
{
    (void)state;
    while (socket_count > 0) {
        raw_close(sockets[0]);
    }
    raw_listener = -1;
    raw_room_bytes = 0;
    if (raw.p2p != NULL) {
        raw.p2p->ops->destroy(raw.p2p); /* with sockets that are closed, nobody is waited for */
        raw.p2p = NULL;
    }
    return 0;
}
