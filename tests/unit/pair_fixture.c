/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two instances of a p2p provider in one process.
 *
 * Normal path: setup makes them, tests turn them until a counter says what they wait for, teardown ends both sides
 * together. Failures: every wait has a deadline, and says so by its result.
 */
#include "pair_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/tcp/instance.h"
#include "fabric/tcp/tcp.h"
#include "fabric/ucx/ucx.h"
#include "skip.h"
#include "support/provider_tests.h"

enum { KEEP_EVENTS = 64 };

struct side pair_sides[SIDES];
const struct pair_provider *pair_provider;

/* --- Providers -------------------------------------------------------------------------------------------------- */

static tutti_status create_tcp(bool lossless, struct tt_p2p **p2p)
{
    return tt_tcp_create(&(struct tt_tcp_options){.lossless = lossless}, p2p);
}

static bool tcp_is_received(const struct tt_p2p_peer *peer)
{
    const struct tt_tcp_peer *of_tcp = (const struct tt_tcp_peer *)peer;
    return tt_tcp_unreceived(&of_tcp->frames) == 0 && tt_tcp_unreceived(&of_tcp->bulk) == 0;
}

static void tcp_note_loss(struct tt_p2p *p2p, uint64_t now_ns)
{
    (void)tt_tails_lost(&tt_tcp_of(p2p)->tails, now_ns);
}

static tutti_status create_ucx(bool lossless, struct tt_p2p **p2p)
{
    return tt_ucx_create(&(struct tt_ucx_options){.interface = "lo", .lossless = lossless}, p2p);
}

static const struct pair_provider providers[] = {
    {.name = "tcp",
     .create = create_tcp,
     .children_lose_sockets = true,
     .keeps_frames = true,
     .is_received = tcp_is_received,
     .note_loss = tcp_note_loss},
    {.name = "ucx", .create = create_ucx, .must_be_moving = true, .waits_for_both = true},
};

enum { PROVIDERS = sizeof(providers) / sizeof(providers[0]) };

static const char *ask_why_not(const void *provider)
{
    struct tt_p2p *p2p;
    bool lacks = ((const struct pair_provider *)provider)->create(false, &p2p) == TUTTI_ERR_NOT_SUPPORTED;
    return lacks ? tt_last_error() : NULL;
}

int pair_run(const char *only, const char *group, const struct CMUnitTest *tests, size_t count)
{
    char reasons[PROVIDERS][TT_PROVIDER_REASON_BYTES];
    struct CMUnitTest *all = calloc(PROVIDERS * (count + 1), sizeof(*all)), *next = all;
    if (all == NULL) {
        return 1;
    }
    for (size_t i = 0; i < PROVIDERS; i++) {
        if (only != NULL && strcmp(only, providers[i].name) != 0) {
            continue;
        }
        tt_provider_why_not(ask_why_not, &providers[i], reasons[i]);
        if (reasons[i][0] != '\0') {
            *next++ = tt_provider_absent(providers[i].name, reasons[i]);
            continue;
        }
        for (size_t k = 0; k < count; k++, next++) {
            *next = tests[k];
            next->name = tt_provider_test_name(providers[i].name, tests[k].name);
            next->initial_state = (void *)(uintptr_t)&providers[i];
        }
    }
    int failed = _cmocka_run_group_tests(group, all, (size_t)(next - all), NULL, NULL);
    tt_provider_tests_free(all, (size_t)(next - all));
    return failed;
}

int pair_choose(void **state)
{
    pair_provider = *state;
    return 0;
}

/* --- A pair ----------------------------------------------------------------------------------------------------- */

void pair_see(struct side *side, const struct tt_p2p_event *event)
{
    uint32_t value;
    switch (event->type) {
    case TT_P2P_FRAME:
        if (event->length_bytes >= sizeof(value)) {
            memcpy(&value, event->data, sizeof(value));
            side->order_broken |= value != side->next_value || event->length_bytes != 4 + value % 1021;
            side->next_value++;
        }
        side->frames++;
        break;
    case TT_P2P_DONE:
        side->dones++;
        side->last_status = event->status;
        break;
    case TT_P2P_IMMEDIATE:
        side->immediates++;
        side->last_immediate = event->immediate;
        break;
    case TT_P2P_PEER_DOWN:
        if (side->downs++ == 0) {
            side->frames_at_down = side->frames;
        }
        side->down_cookie = event->peer_cookie;
        break;
    }
}

uint32_t pair_turn(struct side *side)
{
    struct tt_p2p_event events[KEEP_EVENTS];
    uint32_t count = side->p2p->ops->progress(side->p2p, events, KEEP_EVENTS);
    for (uint32_t i = 0; i < count; i++) {
        pair_see(side, &events[i]);
    }
    return count;
}

/* Turns both pair_sides until *counter reaches `wanted`; false if that takes more than twenty seconds. */
bool pair_reaches(const uint32_t *counter, uint32_t wanted)
{
    uint64_t deadline_ns = tt_clock_now_ns() + 20 * TT_NS_PER_S;
    while (*counter < wanted && tt_clock_now_ns() < deadline_ns) {
        for (int i = A; i < SIDES; i++) {
            if (pair_sides[i].p2p != NULL) {
                pair_turn(&pair_sides[i]);
            }
        }
    }
    return *counter >= wanted;
}

void pair_turn_for(uint64_t duration_ns)
{
    uint64_t end_ns = tt_clock_now_ns() + duration_ns;
    while (tt_clock_now_ns() < end_ns) {
        for (int i = A; i < SIDES; i++) {
            if (pair_sides[i].p2p != NULL) {
                pair_turn(&pair_sides[i]);
            }
        }
    }
}

static void pair_make_one(struct side *side)
{
    *side = (struct side){.address_bytes = TT_P2P_MAX_ADDRESS_BYTES};
    assert_int_equal(pair_provider->create(false, &side->p2p), TUTTI_OK);
    assert_int_equal(side->p2p->ops->address(side->p2p, side->address, &side->address_bytes), TUTTI_OK);
}

void pair_join(int from, int to, uint64_t cookie)
{
    struct side *side = &pair_sides[from];
    assert_int_equal(
        side->p2p->ops->connect(side->p2p, pair_sides[to].address, pair_sides[to].address_bytes, cookie, &side->peer),
        TUTTI_OK);
}

int pair_make(void **state)
{
    pair_choose(state);
    pair_make_one(&pair_sides[A]);
    pair_make_one(&pair_sides[B]);
    return 0;
}

int pair_make_connected(void **state)
{
    pair_make(state);
    pair_join(A, B, 100);
    pair_join(B, A, 200);
    return 0;
}

void pair_leave(struct side *side)
{
    if (side->peer != NULL) {
        side->peer->ops->disconnect(side->peer);
        side->peer = NULL;
    }
}

int pair_end(void **state)
{
    (void)state;
    pair_leave(&pair_sides[A]);
    pair_leave(&pair_sides[B]);
    pair_turn_for(20 * TT_NS_PER_MS); /* in one process neither destroy can wait for the other side */
    for (int i = A; i < SIDES; i++) {
        if (pair_sides[i].p2p != NULL) {
            pair_sides[i].p2p->ops->destroy(pair_sides[i].p2p);
            pair_sides[i].p2p = NULL;
        }
    }
    return 0;
}

void pair_send(struct side *side, uint32_t value)
{
    uint8_t frame[TT_P2P_LEAST_FRAME_BYTES] = {0};
    memcpy(frame, &value, sizeof(value));
    assert_int_equal(tt_p2p_send(side->peer, frame, 4 + value % 1021, false), TUTTI_OK);
}

void pair_exchange(void)
{
    for (int i = A; i < SIDES; i++) {
        pair_send(&pair_sides[i], 0);
    }
    for (int i = A; i < SIDES; i++) {
        assert_true(pair_reaches(&pair_sides[i].frames, 1));
    }
}

void pair_expose(struct side *side, void *address, size_t length_bytes, struct remote *remote)
{
    remote->key_bytes = sizeof(remote->key);
    assert_int_equal(side->p2p->ops->memory_register(side->p2p, address, length_bytes, &remote->memory), TUTTI_OK);
    assert_int_equal(side->p2p->ops->memory_pack(remote->memory, remote->key, &remote->key_bytes), TUTTI_OK);
}
