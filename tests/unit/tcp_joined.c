/* SPDX-License-Identifier: BSD-3-Clause */
/* Two connections of an instance of the tcp provider to the test. */
#include "tcp_joined.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

int frames, other;

int join_both(void **state)
{
    raw_begin_below(state); /* the test dials */
    frames = raw_join(TT_TCP_FOR_FRAMES, 0);
    raw_connect();
    other = raw_join(TT_TCP_FOR_FRAMES, 1);
    return 0;
}

void expect_going_on(int fd)
{
    uint32_t wanted = raw.frames + 1;
    raw_message(fd, TT_TCP_FRAME, "x", 1);
    assert_true(raw_reaches(&raw.frames, wanted));
}

void expect_broken(const char *part)
{
    assert_true(raw_reaches(&raw.downs, 1));
    if (strstr(raw.down_text, part) == NULL) {
        fail_msg("'%s' does not say '%s'", raw.down_text, part);
    }
    raw_expect_closed(frames);
    assert_int_equal(raw.downs, 1);
    expect_going_on(other);
}

void get(uint8_t *to, uint64_t length_bytes)
{
    uint8_t key[TT_TCP_KEY_BYTES];
    tt_tcp_key_encode(3, 4, key);
    assert_int_equal(raw.peer->ops->get(raw.peer, key, sizeof(key), 1000, to, length_bytes, 5), TUTTI_OK);
}

/* The id of the get that the instance asks for next. */
uint64_t take_read(uint64_t length_bytes)
{
    uint8_t payload[TT_P2P_MAX_FRAME_BYTES];
    enum tt_tcp_kind kind;
    struct tt_tcp_place place;
    uint64_t id;
    raw_next(frames, &kind, payload);
    assert_int_equal(kind, TT_TCP_READ);
    tt_tcp_read_decode(payload, &id, &place);
    assert_true(place.index == 3 && place.token == 4 && place.address == 1000 && place.length_bytes == length_bytes);
    return id;
}
