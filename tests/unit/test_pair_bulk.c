/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gets and puts of a p2p provider by messages, with two instances in one process: what is refused, what waits, and what
 * becomes of those under way. What they read and write is in the conformance tests, what dies meanwhile in
 * test_pair_kills.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "pair_fixture.h"

enum { REGION_BYTES = 300000, BIG_BYTES = 16 << 20, COOKIE = 7 };

static uint8_t theirs[REGION_BYTES], mine[REGION_BYTES];

/* --- Steps ------------------------------------------------------------------------------------------------------- */

static tutti_status get(const struct remote *remote, const void *address, void *local, uint64_t length_bytes)
{
    struct tt_p2p_peer *peer = pair_sides[A].peer;
    return peer->ops->get(peer, remote->key, remote->key_bytes, (uintptr_t)address, local, length_bytes, COOKIE);
}

static tutti_status put(const struct remote *remote, const void *address, const void *local, uint64_t length_bytes)
{
    struct tt_p2p_peer *peer = pair_sides[A].peer;
    return peer->ops->put(peer, remote->key, remote->key_bytes, (uintptr_t)address, local, length_bytes,
                          &(struct tt_p2p_immediate){.value = 99}, COOKIE);
}

static void release(const struct remote *remote)
{
    remote->memory->ops->memory_release(remote->memory);
}

/* A's next DONE must say `status`. */
static void expect_done(tutti_status status)
{
    uint32_t wanted = pair_sides[A].dones + 1;
    assert_true(pair_reaches(&pair_sides[A].dones, wanted));
    assert_int_equal(pair_sides[A].dones, wanted);
    assert_int_equal(pair_sides[A].last_status, status);
}

static void expect_refusal_of_both(const struct remote *remote, const void *address, uint64_t length_bytes)
{
    memset(mine, 0x11, sizeof(mine));
    memset(theirs, 0x22, sizeof(theirs));
    assert_int_equal(get(remote, address, mine, length_bytes), TUTTI_OK);
    expect_done(TUTTI_ERR_PROTOCOL);
    assert_non_null(strstr(tt_last_error(), "not registered"));
    assert_int_equal(put(remote, address, mine, length_bytes), TUTTI_OK);
    expect_done(TUTTI_ERR_PROTOCOL);
    for (size_t i = 0; i < sizeof(mine); i++) {
        assert_true(mine[i] == 0x11 && theirs[i] == 0x22);
    }
    assert_int_equal(pair_sides[B].immediates, 0);
}

/* --- Refusals --------------------------------------------------------------------------------------------------- */

static void what_no_registration_covers_is_refused_and_left_alone(void **state)
{
    (void)state;
    struct remote remote;
    uint8_t *inside = theirs + 1000;
    const uint64_t inside_bytes = REGION_BYTES - 2000;
    pair_expose(&pair_sides[B], inside, inside_bytes, &remote);
    expect_refusal_of_both(&remote, inside - 1, 10);
    expect_refusal_of_both(&remote, inside, inside_bytes + 1);
    expect_refusal_of_both(&remote, inside + inside_bytes, 1);
    expect_refusal_of_both(&remote, inside + inside_bytes - 5, 6);
    expect_refusal_of_both(&remote, (void *)1, 10);
    expect_refusal_of_both(&remote, (void *)(UINTPTR_MAX - 4), 10);
    assert_int_equal(get(&remote, inside, mine, inside_bytes), TUTTI_OK); /* and the connection is as good as before */
    expect_done(TUTTI_OK);
    assert_int_equal(get(&remote, inside + inside_bytes - 1, mine, 1), TUTTI_OK);
    expect_done(TUTTI_OK);
    assert_int_equal(pair_sides[A].downs + pair_sides[B].downs, 0);
    release(&remote);
}

static void a_length_beyond_all_memory_is_refused(void **state)
{
    (void)state;
    struct remote remote;
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &remote);
    assert_int_equal(get(&remote, theirs + 1, mine, UINT64_MAX), TUTTI_OK);
    expect_done(TUTTI_ERR_PROTOCOL);
    release(&remote);
}

static void the_key_of_a_released_registration_opens_nothing(void **state)
{
    (void)state;
    struct remote first, second;
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &first);
    release(&first);
    expect_refusal_of_both(&first, theirs, 100);
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &second); /* at the same place in the table */
    expect_refusal_of_both(&first, theirs, 100);
    assert_int_equal(get(&second, theirs, mine, 100), TUTTI_OK);
    expect_done(TUTTI_OK);
    release(&second);
}

static void a_key_with_another_token_or_index_is_refused(void **state)
{
    (void)state;
    struct remote remote;
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &remote);
    for (size_t i = 4; i < 16; i++) { /* magic 4, index 4, token 8 */
        remote.key[i] ^= 0x40;
        expect_refusal_of_both(&remote, theirs, 100);
        remote.key[i] ^= 0x40;
    }
    assert_int_equal(get(&remote, theirs, mine, 100), TUTTI_OK);
    expect_done(TUTTI_OK);
    release(&remote);
}

static void bytes_that_are_no_key_are_refused_at_once(void **state)
{
    (void)state;
    struct remote remote;
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &remote);
    remote.key[0] ^= 1;
    assert_int_equal(get(&remote, theirs, mine, 1), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(put(&remote, theirs, mine, 1), TUTTI_ERR_INVALID_ARGUMENT);
    remote.key[0] ^= 1;
    remote.key_bytes = 15;
    assert_int_equal(get(&remote, theirs, mine, 1), TUTTI_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(tt_last_error(), "15 bytes"));
    pair_turn_for(10 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[A].dones, 0);
    release(&remote);
}

/* --- Waiting ---------------------------------------------------------------------------------------------------- */

static void gets_and_puts_wait_until_the_other_side_has_connected(void **state)
{
    (void)state;
    struct remote remote;
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &remote);
    memset(theirs, 0x66, REGION_BYTES);
    pair_join(A, B, 1);
    assert_int_equal(get(&remote, theirs, mine, REGION_BYTES), TUTTI_OK);
    assert_int_equal(put(&remote, theirs, "new", 3), TUTTI_OK);
    pair_send(&pair_sides[A], 0);
    assert_true(pair_reaches(&pair_sides[B].frames, 1));
    pair_turn_for(20 * TT_NS_PER_MS);
    assert_true(!pair_provider->waits_for_both || pair_sides[A].dones == 0);
    pair_join(B, A, 2);
    assert_true(pair_reaches(&pair_sides[A].dones, 2));
    assert_true(pair_reaches(&pair_sides[B].immediates, 1));
    assert_memory_equal(theirs, "new", 3);
    assert_int_equal(mine[REGION_BYTES - 1], 0x66);
    release(&remote);
}

static void those_that_wait_are_canceled_by_disconnect(void **state)
{
    (void)state;
    struct remote remote;
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &remote);
    pair_join(A, B, 1);
    for (int i = 0; i < 40; i++) {
        assert_int_equal(i % 2 == 0 ? get(&remote, theirs, mine, 10) : put(&remote, theirs, mine, 10), TUTTI_OK);
    }
    pair_leave(&pair_sides[A]);
    assert_true(pair_reaches(&pair_sides[A].dones, 40));
    assert_int_equal(pair_sides[A].last_status, TUTTI_ERR_CANCELED);
    pair_turn_for(20 * TT_NS_PER_MS);
    assert_int_equal(pair_sides[A].dones, 40);
    assert_int_equal(pair_sides[B].immediates, 0);
    release(&remote);
}

static void frames_pass_a_get_and_a_put_that_are_under_way(void **state)
{
    (void)state;
    uint8_t *big = calloc(2, BIG_BYTES), *copy = big + BIG_BYTES;
    struct remote remote;
    assert_non_null(big);
    pair_expose(&pair_sides[B], big, BIG_BYTES, &remote);
    for (int i = 0; i < 20; i++) { /* 320 MB each way */
        assert_int_equal(get(&remote, big, copy, BIG_BYTES), TUTTI_OK);
        assert_int_equal(put(&remote, big, copy, BIG_BYTES), TUTTI_OK);
    }
    for (uint32_t i = 0; i < 10; i++) {
        pair_send(&pair_sides[A], i);
        pair_send(&pair_sides[B], i);
        assert_true(pair_reaches(&pair_sides[A].frames, i + 1));
        assert_true(pair_reaches(&pair_sides[B].frames, i + 1));
    }
    assert_in_range(pair_sides[A].dones, 0, 39);
    pair_leave(&pair_sides[A]);
    assert_true(pair_reaches(&pair_sides[A].dones, 40));
    release(&remote);
    free(big);
}

static void disconnect_amid_gets_still_delivers_the_frames(void **state)
{
    (void)state;
    uint8_t *big = calloc(2, BIG_BYTES), *copy = big + BIG_BYTES;
    struct remote remote;
    assert_non_null(big);
    pair_expose(&pair_sides[B], big, BIG_BYTES, &remote);
    assert_int_equal(get(&remote, big, copy, BIG_BYTES), TUTTI_OK);
    pair_turn_for(2 * TT_NS_PER_MS);
    for (uint32_t i = 0; i < 1000; i++) {
        pair_send(&pair_sides[A], i);
    }
    pair_leave(&pair_sides[A]);
    assert_true(pair_reaches(&pair_sides[A].dones, 1));
    memset(copy, 0x77, BIG_BYTES);
    assert_true(pair_reaches(&pair_sides[B].downs, 1));
    assert_int_equal(pair_sides[B].frames_at_down, 1000);
    assert_false(pair_sides[B].order_broken);
    pair_turn_for(20 * TT_NS_PER_MS);
    for (size_t i = 0; i < BIG_BYTES; i++) {
        assert_true(copy[i] == 0x77); /* what was still under way went nowhere */
    }
    release(&remote);
    free(big);
}

/* --- Release ---------------------------------------------------------------------------------------------------- */

static void memory_that_is_released_while_it_is_read_is_not_touched_any_more(void **state)
{
    (void)state;
    uint8_t *big = malloc(BIG_BYTES), *copy = malloc(BIG_BYTES);
    struct remote remote, other;
    assert_true(big != NULL && copy != NULL);
    memset(big, 0x31, BIG_BYTES);
    pair_expose(&pair_sides[B], big, BIG_BYTES, &remote);
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &other);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(get(&remote, big, copy, BIG_BYTES), TUTTI_OK);
    }
    struct tt_p2p_counters before, after;
    pair_sides[A].p2p->ops->counters(pair_sides[A].p2p, &before);
    for (int i = 0; i < 20; i++) {
        pair_turn(&pair_sides[B]); /* A does not drain, so B's socket is full by now */
    }
    release(&remote);
    free(big); /* the address sanitizer sees who reads it now */
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(pair_reaches(&pair_sides[A].dones, i + 1));
        assert_int_equal(pair_sides[A].last_status, TUTTI_ERR_PROTOCOL);
    }
    assert_int_equal(get(&other, theirs, mine, REGION_BYTES), TUTTI_OK);
    expect_done(TUTTI_OK);
    pair_sides[A].p2p->ops->counters(pair_sides[A].p2p, &after);
    assert_int_equal(after.frames_dropped, before.frames_dropped);
    assert_int_equal(pair_sides[A].downs + pair_sides[B].downs, 0);
    release(&other);
    free(copy);
}

#define WITH_TWO(name)       cmocka_unit_test_setup_teardown(name, pair_make, pair_end)
#define WITH_CONNECTED(name) cmocka_unit_test_setup_teardown(name, pair_make_connected, pair_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_CONNECTED(what_no_registration_covers_is_refused_and_left_alone),
        WITH_CONNECTED(a_length_beyond_all_memory_is_refused),
        WITH_CONNECTED(the_key_of_a_released_registration_opens_nothing),
        WITH_CONNECTED(a_key_with_another_token_or_index_is_refused),
        WITH_CONNECTED(bytes_that_are_no_key_are_refused_at_once),
        WITH_TWO(gets_and_puts_wait_until_the_other_side_has_connected),
        WITH_TWO(those_that_wait_are_canceled_by_disconnect),
        WITH_CONNECTED(frames_pass_a_get_and_a_put_that_are_under_way),
        WITH_CONNECTED(disconnect_amid_gets_still_delivers_the_frames),
        WITH_CONNECTED(memory_that_is_released_while_it_is_read_is_not_touched_any_more),
    };
    return pair_run(NULL, "pair_bulk", tests, sizeof(tests) / sizeof(tests[0]));
}
