/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An instance of the tcp provider whose other side is the test itself, over plain sockets: it greets, answers and sends
 * what it likes, byte by byte.
 */
#ifndef TT_TESTS_TCP_RAW_H
#define TT_TESTS_TCP_RAW_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/tcp/instance.h"
#include "fabric/tcp/tcp.h"

enum { RAW_COOKIE = 77, RAW_TEXT_BYTES = TT_SESSION_REASON_BYTES };

/* The instance, and what it has raised. */
struct raw_side {
    struct tt_p2p *p2p;
    struct tt_p2p_peer *peer; /* the connection to the test, once raw_connect has made it */
    uint8_t address[TT_TCP_ADDRESS_BYTES];
    uint32_t frames, dones, immediates, downs;
    uint64_t frame_cookie; /* of the last one */
    tutti_status last_status, down_status;
    char down_text[RAW_TEXT_BYTES];
};

extern struct raw_side raw;
extern uint8_t raw_address[TT_TCP_ADDRESS_BYTES]; /* the test's own: a listening socket on 127.0.0.1 */
extern int raw_listener;
extern int raw_room_bytes; /* of what raw_dial receives; 0: as the system likes */

/* cmocka's setup and teardown. In the order of addresses the test is below the instance, or above it. */
int raw_begin_below(void **state);
int raw_begin_above(void **state);
int raw_end(void **state);

/* One progress with its events noted, and a check of what holds between two. */
uint32_t raw_turn(void);
bool raw_reaches(const uint32_t *counter, uint32_t wanted); /* false: not within twenty seconds */
uint64_t raw_dropped(void);                                 /* frames_dropped */

/* The instance connects to the test. */
void raw_connect(void);

/* Sockets of the test's; all of them are closed by raw_end at the latest. */
int raw_dial(void);   /* connected to the instance */
int raw_accept(void); /* what the instance has dialed; its greeting has been read and was right */
void raw_fill(void);  /* the test listens without room for one more: the system drops what asks to be connected */
void raw_close(int fd);
void raw_send(int fd, const void *bytes, size_t length_bytes); /* all of it; the instance makes progress meanwhile */
void raw_greet(int fd, enum tt_tcp_purpose purpose, uint32_t serial);
void raw_say(int fd, enum tt_tcp_answer answer); /* to what the instance has dialed */
void raw_message(int fd, enum tt_tcp_kind kind, const void *payload, uint32_t payload_bytes);
void raw_id(int fd, enum tt_tcp_kind kind, uint64_t id);
void raw_read(int fd, uint64_t id, const struct tt_tcp_place *place);
/* A put of the instance's, to 1000 under this key. */
tutti_status raw_put(const uint8_t key[TT_TCP_KEY_BYTES], const void *local, uint64_t length_bytes, uint64_t immediate,
                     uint64_t cookie);
void raw_bulk(int fd, enum tt_tcp_kind kind, uint64_t id, const struct tt_tcp_place *place, uint64_t immediate);

/* What has come from the instance: exactly so many bytes; false: the socket was closed before that. */
bool raw_receive(int fd, void *bytes, size_t length_bytes);
enum tt_tcp_answer raw_answer(int fd); /* TT_TCP_ANSWER_LIMIT: none, closed */
uint32_t raw_next(int fd, enum tt_tcp_kind *kind, uint8_t payload[TT_P2P_MAX_FRAME_BYTES]); /* but probes */
void raw_expect_id(int fd, enum tt_tcp_kind kind, uint64_t id);
void raw_expect_closed(int fd); /* whatever comes before that */

/* A greeted and welcomed socket for frames of connection `serial`, or for its bulk. */
int raw_join(enum tt_tcp_purpose purpose, uint32_t serial);

/* The instance connects and dials, and the test welcomes it and sends one frame, which has come. Returns the socket. */
int raw_meet(void);

/* The instance registers memory; the place is all of it. */
struct tt_p2p_memory *raw_expose(void *address, size_t length_bytes, struct tt_tcp_place *place);

#endif
