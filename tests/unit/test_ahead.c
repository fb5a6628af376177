/* SPDX-License-Identifier: BSD-3-Clause */
/* How far roots may be ahead: what it begins with, what lets it grow, and what takes it back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "proto/ahead.h"

enum { CHUNK = 8192, LEAST = (3 << 20) / CHUNK, DEPTH = 1500, MANY = 10000 };

static struct tt_ahead new_ahead(uint32_t depth_chunks)
{
    struct tt_ahead ahead;

    tt_ahead_init(&ahead, depth_chunks, CHUNK);
    return ahead;
}

/* An Allgather of many chunks, without loss, as far ahead as was agreed on. */
static struct tt_ahead_sample good_one(const struct tt_ahead *ahead)
{
    return (struct tt_ahead_sample){.expected = MANY, .agreed_chunks = ahead->agreed_chunks, .has_rivals = true};
}

/* All ranks have the same opinion. */
static void agree(struct tt_ahead *ahead)
{
    tt_ahead_agreed(ahead, ahead->chunks);
}

static void it_begins_with_three_mebibytes_or_what_the_queues_hold(void **state)
{
    struct tt_ahead ahead = new_ahead(DEPTH);

    (void)state;
    assert_true(ahead.chunks == LEAST && ahead.agreed_chunks == LEAST && ahead.least_chunks == LEAST);
    assert_int_equal(ahead.most_chunks, DEPTH);
    ahead = new_ahead(20);
    assert_true(ahead.chunks == 20 && ahead.agreed_chunks == 20 && ahead.least_chunks == 20);
    tt_ahead_init(&ahead, DEPTH, 4 << 20); /* chunks that long exist in simulated networks only */
    assert_int_equal(ahead.chunks, 1);
}

static void it_doubles_up_to_what_the_queues_hold(void **state)
{
    static const uint32_t steps[] = {2 * LEAST, DEPTH, DEPTH};
    struct tt_ahead ahead = new_ahead(DEPTH);

    (void)state;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        struct tt_ahead_sample sample = good_one(&ahead);

        tt_ahead_ended(&ahead, &sample);
        assert_int_equal(ahead.chunks, steps[i]);
        agree(&ahead);
    }
}

/* Else a rank that is not told the agreement would drift away from the others. */
static void it_doubles_what_was_agreed_on_not_what_it_offered(void **state)
{
    struct tt_ahead ahead = new_ahead(DEPTH);
    struct tt_ahead_sample sample = good_one(&ahead);

    (void)state;
    tt_ahead_ended(&ahead, &sample);
    tt_ahead_ended(&ahead, &sample); /* in flight beside the other one */
    assert_int_equal(ahead.chunks, 2 * LEAST);
    sample.agreed_chunks = 10; /* by a rank whose opinion is below what is always allowed */
    tt_ahead_ended(&ahead, &sample);
    assert_int_equal(ahead.chunks, LEAST);
    sample.agreed_chunks = UINT32_MAX;
    sample.expected = UINT32_MAX;
    tt_ahead_ended(&ahead, &sample);
    assert_int_equal(ahead.chunks, LEAST);
}

static void what_does_not_need_so_much_says_nothing(void **state)
{
    struct tt_ahead ahead = new_ahead(DEPTH);
    struct tt_ahead_sample sample = good_one(&ahead);

    (void)state;
    sample.expected = LEAST;
    tt_ahead_ended(&ahead, &sample);
    assert_int_equal(ahead.chunks, LEAST);
    sample.expected = LEAST + 1;
    tt_ahead_ended(&ahead, &sample);
    assert_int_equal(ahead.chunks, 2 * LEAST);
}

static void a_single_root_says_nothing(void **state)
{
    struct tt_ahead ahead = new_ahead(DEPTH);
    struct tt_ahead_sample sample = good_one(&ahead);

    (void)state;
    sample.has_rivals = false;
    tt_ahead_ended(&ahead, &sample);
    assert_int_equal(ahead.chunks, LEAST);
    sample.is_lossy = true; /* unless it loses */
    ahead.chunks = DEPTH;
    tt_ahead_ended(&ahead, &sample);
    assert_int_equal(ahead.chunks, LEAST);
}

static void a_loss_takes_it_back_at_once(void **state)
{
    struct tt_ahead ahead = new_ahead(DEPTH);
    struct tt_ahead_sample sample;

    (void)state;
    tt_ahead_agreed(&ahead, DEPTH);
    ahead.chunks = DEPTH;
    sample = good_one(&ahead);
    sample.is_lossy = true;
    tt_ahead_ended(&ahead, &sample);
    assert_int_equal(ahead.chunks, LEAST);
    assert_int_equal(ahead.agreed_chunks, DEPTH); /* until the next release */
    sample.is_lossy = false;
    tt_ahead_ended(&ahead, &sample); /* in flight beside the other one, and agreed on before the loss */
    assert_int_equal(ahead.chunks, LEAST);
    agree(&ahead);
    sample = good_one(&ahead);
    tt_ahead_ended(&ahead, &sample);
    assert_int_equal(ahead.chunks, 2 * LEAST);
}

static void it_stays_small_while_a_rate_that_was_found_holds_the_roots_back(void **state)
{
    struct tt_ahead ahead = new_ahead(DEPTH);
    struct tt_ahead_sample sample = good_one(&ahead);

    (void)state;
    ahead.chunks = DEPTH;
    sample.is_found = true;
    tt_ahead_ended(&ahead, &sample);
    assert_int_equal(ahead.chunks, LEAST);
    tt_ahead_ended(&ahead, &sample);
    assert_int_equal(ahead.chunks, LEAST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_begins_with_three_mebibytes_or_what_the_queues_hold),
        cmocka_unit_test(it_doubles_up_to_what_the_queues_hold),
        cmocka_unit_test(it_doubles_what_was_agreed_on_not_what_it_offered),
        cmocka_unit_test(what_does_not_need_so_much_says_nothing),
        cmocka_unit_test(a_single_root_says_nothing),
        cmocka_unit_test(a_loss_takes_it_back_at_once),
        cmocka_unit_test(it_stays_small_while_a_rate_that_was_found_holds_the_roots_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
