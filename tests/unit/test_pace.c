/* SPDX-License-Identifier: BSD-3-Clause */
/* Pacing: one sender's turns, and what a rank believes its port can take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/random.h"
#include "proto/pace.h"

/* With its overhead a chunk of this length takes 1000 bytes on the wire. */
enum { CHUNK = 1000 - TT_PACE_OVERHEAD_BYTES, EXPECTED = 1000, MS = 1000000 };

/* 128 Mbit/s, of which a 128th is left: 15,875,000 bytes a second, a chunk in 62,992 ns. */
enum { RATE_KBIT = 128000, CHUNK_NS = 62992 };

/* --- One sender --------------------------------------------------------------------------------------------------- */

static void an_unknown_rate_holds_nobody_back(void **state)
{
    struct tt_pacer pacer;

    (void)state;
    tt_pacer_start(&pacer, TT_PACE_UNKNOWN, 7, 3, CHUNK, 5);
    assert_int_equal(tt_pacer_allowed(&pacer, CHUNK, 1000000, 5), 1000000);
    tt_pacer_took(&pacer, CHUNK, 1000000, 5);
    assert_int_equal(tt_pacer_allowed(&pacer, CHUNK, 77, 5), 77);
}

static void a_root_on_its_own_begins_with_a_burst_and_then_keeps_its_rate(void **state)
{
    struct tt_pacer pacer;
    uint64_t now_ns = 1000 * (uint64_t)MS, sent = 0;

    (void)state;
    tt_pacer_start(&pacer, RATE_KBIT, 1, 0, CHUNK, now_ns);
    sent = tt_pacer_allowed(&pacer, CHUNK, 100000, now_ns);
    assert_in_range(sent, 524, 525); /* 512 KiB, and the chunk that is due */
    tt_pacer_took(&pacer, CHUNK, (uint32_t)sent, now_ns);
    assert_int_equal(tt_pacer_allowed(&pacer, CHUNK, 100000, now_ns), 0);
    for (uint32_t i = 0; i < 1000; i++) {
        now_ns = tt_pacer_due(&pacer, CHUNK, 100000);
        assert_int_equal(tt_pacer_allowed(&pacer, CHUNK, 100000, now_ns - 1), 0);
        assert_in_range(tt_pacer_allowed(&pacer, CHUNK, 100000, now_ns), 7, 8); /* half a millisecond's at once */
        sent += tt_pacer_allowed(&pacer, CHUNK, 100000, now_ns);
        tt_pacer_took(&pacer, CHUNK, tt_pacer_allowed(&pacer, CHUNK, 100000, now_ns), now_ns);
    }
    assert_true(sent * CHUNK_NS <= now_ns - 1000 * (uint64_t)MS + 526 * (uint64_t)CHUNK_NS);
    assert_true(sent * CHUNK_NS + 526 * (uint64_t)CHUNK_NS >= now_ns - 1000 * (uint64_t)MS);
}

static void who_follows_another_has_only_what_that_has_left_of_the_burst(void **state)
{
    struct tt_pacer first, second;
    uint64_t now_ns = 1000 * (uint64_t)MS;

    (void)state;
    tt_pacer_start(&first, RATE_KBIT, 1, 0, CHUNK, now_ns);
    tt_pacer_took(&first, CHUNK, tt_pacer_allowed(&first, CHUNK, 100000, now_ns), now_ns);
    tt_pacer_start(&second, RATE_KBIT, 1, 0, CHUNK, now_ns);
    tt_pacer_follow(&second, first.next_ns);
    assert_int_equal(tt_pacer_allowed(&second, CHUNK, 100000, now_ns), 0);
    now_ns += 10 * (uint64_t)CHUNK_NS; /* it is idle for so long */
    tt_pacer_start(&second, RATE_KBIT, 1, 0, CHUNK, now_ns);
    tt_pacer_follow(&second, first.next_ns);
    assert_in_range(tt_pacer_allowed(&second, CHUNK, 100000, now_ns), 9, 11);
    now_ns += 1000 * (uint64_t)MS; /* and for long */
    tt_pacer_start(&second, RATE_KBIT, 1, 0, CHUNK, now_ns);
    tt_pacer_follow(&second, first.next_ns);
    assert_in_range(tt_pacer_allowed(&second, CHUNK, 100000, now_ns), 524, 525);
}

static void roots_that_send_at_once_share_the_rate_and_do_not_begin_together(void **state)
{
    enum { HEARD = 7 };
    struct tt_pacer pacer;

    (void)state;
    for (uint32_t index = 0; index <= HEARD; index++) {
        uint64_t first_ns = 1000000 + index * (uint64_t)CHUNK_NS;

        tt_pacer_start(&pacer, RATE_KBIT, HEARD, index, CHUNK, 1000000);
        /* Rounding is 1 ns a turn. The first one goes alone: nothing is owed at the start. */
        assert_in_range(tt_pacer_due(&pacer, CHUNK, 1), first_ns - HEARD, first_ns + HEARD);
        assert_int_equal(tt_pacer_allowed(&pacer, CHUNK, 1, first_ns - HEARD - 1), 0);
        assert_int_equal(tt_pacer_allowed(&pacer, CHUNK, 1, first_ns + HEARD), 1);
        tt_pacer_took(&pacer, CHUNK, 1, first_ns + HEARD);
        assert_in_range(tt_pacer_due(&pacer, CHUNK, 1), first_ns + HEARD * (uint64_t)CHUNK_NS - 20,
                        first_ns + HEARD * (uint64_t)CHUNK_NS + 20);
    }
}

static void who_is_late_catches_up_with_no_more_than_a_burst(void **state)
{
    enum { HEARD = 7, BURST = 512 * 1024 / HEARD / 1000 };
    struct tt_pacer pacer;
    uint64_t late_ns = 10000 * (uint64_t)MS;
    uint32_t chunks;

    (void)state;
    tt_pacer_start(&pacer, RATE_KBIT, HEARD, 0, CHUNK, 0);
    assert_in_range(tt_pacer_allowed(&pacer, CHUNK, 100000, 10 * HEARD * CHUNK_NS), 10, 11);
    assert_int_equal(tt_pacer_allowed(&pacer, CHUNK, 9, 10 * HEARD * CHUNK_NS), 9);
    assert_in_range(tt_pacer_allowed(&pacer, CHUNK, 100000, 30 * (uint64_t)HEARD * CHUNK_NS), 30, 31);
    chunks = tt_pacer_allowed(&pacer, CHUNK, 100000, late_ns);
    assert_in_range(chunks, BURST, BURST + 1);
    tt_pacer_took(&pacer, CHUNK, chunks, late_ns);
    assert_int_equal(tt_pacer_allowed(&pacer, CHUNK, 1, late_ns), 0);
    assert_int_equal(tt_pacer_allowed(&pacer, CHUNK, 1, late_ns + HEARD * CHUNK_NS), 1);
}

/* --- What a port can take ----------------------------------------------------------------------------------------- */

/* A collective with the agreed rate, of which `lost` chunks do not come; the others at `kbit` on the wire. */
static void run(struct tt_pace *pace, uint32_t rate_kbit, uint32_t lost, uint32_t kbit)
{
    struct tt_pace_sample sample = {.expected = EXPECTED, .chunk_bytes = CHUNK, .rate_kbit = rate_kbit};
    uint64_t taken_ns = (EXPECTED - lost - 1) * UINT64_C(8000) * MS / kbit;

    tt_pace_saw(&sample, 1, 7 * MS);
    tt_pace_saw(&sample, EXPECTED - lost, 7 * MS + taken_ns);
    tt_pace_saw(&sample, EXPECTED - lost, 900 * (uint64_t)MS + taken_ns); /* nothing new: changes nothing */
    tt_pace_ended(pace, &sample);
}

/* A port that takes 500 Mbit/s, and senders that use all that they may: what is too much is lost. */
static void run_on_link(struct tt_pace *pace, uint64_t sequence, uint32_t link_kbit)
{
    uint32_t rate = tt_pace_offer(pace, sequence), sent = rate == TT_PACE_UNKNOWN ? 4 * link_kbit : rate;
    uint32_t lost = sent > link_kbit ? (uint32_t)((uint64_t)EXPECTED * (sent - link_kbit) / sent) : 0;

    run(pace, rate, lost, sent < link_kbit ? sent : link_kbit);
}

static void nothing_is_believed_about_a_port_that_loses_nothing(void **state)
{
    struct tt_pace pace;

    (void)state;
    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    for (uint64_t sequence = 0; sequence < 100; sequence++) {
        assert_int_equal(tt_pace_offer(&pace, sequence), TT_PACE_UNKNOWN);
        run(&pace, TT_PACE_UNKNOWN, sequence % 10, 300000); /* 0.9 % at most */
    }
    tt_pace_init(&pace, 1000000);
    for (uint64_t sequence = 0; sequence < 100; sequence++) {
        assert_int_equal(tt_pace_offer(&pace, sequence), 1000000);
        run(&pace, 1000000, 0, 900000);
    }
}

static void a_full_port_has_shown_its_rate(void **state)
{
    struct tt_pace pace;

    (void)state;
    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    run(&pace, TT_PACE_UNKNOWN, 300, 500000);
    assert_in_range(pace.limit_kbit, 499990, 500010);
    run(&pace, pace.limit_kbit, 0, 495000);
    assert_in_range(pace.limit_kbit, 499990, 500010);
}

static void few_chunks_say_nothing(void **state)
{
    struct tt_pace_sample sample = {.expected = 63, .chunk_bytes = CHUNK, .rate_kbit = TT_PACE_UNKNOWN};
    struct tt_pace pace;

    (void)state;
    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    tt_pace_saw(&sample, 1, MS);
    tt_pace_saw(&sample, 40, 2 * MS);
    tt_pace_ended(&pace, &sample);
    assert_int_equal(pace.limit_kbit, TT_PACE_UNKNOWN);
    sample.expected = 64;
    tt_pace_ended(&pace, &sample);
    assert_int_not_equal(pace.limit_kbit, TT_PACE_UNKNOWN);
}

/* A segment of `tutti cast` on a path that loses one frame in a hundred: its losses vary. */
static void loss_by_chance_is_not_taken_for_a_full_port(void **state)
{
    enum { SEGMENT = 513, PPM = 10000, COLLECTIVES = 20000 };
    struct tt_random random;
    struct tt_pace pace;
    uint32_t most = 0;

    (void)state;
    tt_random_init(&random, 5);
    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    for (uint32_t i = 0; i < COLLECTIVES; i++) {
        struct tt_pace_sample sample = {.expected = SEGMENT, .chunk_bytes = CHUNK, .rate_kbit = TT_PACE_UNKNOWN};
        uint32_t lost = 0;

        for (uint32_t chunk = 0; chunk < SEGMENT; chunk++) {
            lost += tt_random_below(&random, 1000000) < PPM;
        }
        most = lost > most ? lost : most;
        tt_pace_saw(&sample, 1, MS);
        tt_pace_saw(&sample, SEGMENT - lost, 70 * (uint64_t)MS);
        tt_pace_ended(&pace, &sample);
        assert_int_equal(pace.limit_kbit, TT_PACE_UNKNOWN);
    }
    assert_in_range(most, 14, 20); /* 5.1 on average */
}

/* Who first looks when most has come may see the rest come slowly for any reason. */
static void half_of_what_came_has_to_come_after_the_first_look(void **state)
{
    struct tt_pace_sample sample = {.expected = 513, .chunk_bytes = CHUNK, .rate_kbit = TT_PACE_UNKNOWN};
    struct tt_pace pace;

    (void)state;
    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    tt_pace_saw(&sample, 220, MS);
    tt_pace_saw(&sample, 439, 218 * (uint64_t)MS);
    tt_pace_ended(&pace, &sample);
    assert_int_equal(pace.limit_kbit, TT_PACE_UNKNOWN);
    tt_pace_saw(&sample, 440, 218 * (uint64_t)MS);
    tt_pace_ended(&pace, &sample);
    assert_int_equal(pace.limit_kbit, 220 * 8000 / 217);
}

/* 440 of 513 chunks, at 500 Mbit/s but for the time in which this rank was not there. */
static uint32_t limit_after_absence(bool watches, unsigned away_ms)
{
    struct tt_pace_sample sample = {.expected = 513, .chunk_bytes = CHUNK, .rate_kbit = TT_PACE_UNKNOWN};
    struct tt_pace pace;
    uint64_t now_ns = MS;

    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    pace.watches = watches;
    for (uint32_t received = 1; received <= 441; received += 40) { /* in 0.64 ms */
        tt_pace_saw(&sample, received, now_ns);
        now_ns += received == 201 ? away_ms * (uint64_t)MS : 640000;
    }
    tt_pace_ended(&pace, &sample);
    return pace.limit_kbit;
}

static void who_was_away_has_learnt_nothing(void **state)
{
    (void)state;
    assert_int_equal(limit_after_absence(true, 3), (uint32_t)(440 * 8000 / 9.4));
    assert_int_equal(limit_after_absence(true, 4), TT_PACE_UNKNOWN); /* a third of 10.4 ms is less */
    assert_int_equal(limit_after_absence(true, 200), TT_PACE_UNKNOWN);
    /* Others take the chunks: what is seen of them is their reports, which are as far apart as they are. */
    assert_int_equal(limit_after_absence(false, 200), (uint32_t)(440 * 8000 / 206.4));
}

static void what_is_known_is_given_up_by_half_at_most(void **state)
{
    struct tt_pace pace;

    (void)state;
    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    run(&pace, TT_PACE_UNKNOWN, 300, 500000);
    run(&pace, pace.limit_kbit, 300, 20000);
    assert_in_range(pace.limit_kbit, 249990, 250010);
    run(&pace, pace.limit_kbit, 300, 20000);
    assert_in_range(pace.limit_kbit, 124990, 125010);
}

static void a_known_rate_that_is_far_too_high_comes_down_by_halves(void **state)
{
    static const uint32_t links[] = {240000, 100000, 20000, 17000};

    (void)state;
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++) {
        struct tt_pace pace;

        tt_pace_init(&pace, 500000);
        for (uint64_t sequence = 0; sequence < 40; sequence++) {
            if (pace.halvings > 0) {
                assert_int_equal(tt_pace_offer(&pace, sequence), pace.limit_kbit); /* nothing is tried on the way */
            }
            run_on_link(&pace, sequence, links[i]);
        }
        assert_in_range(pace.limit_kbit, links[i] - links[i] / 16, links[i] + links[i] / 100);
        assert_int_equal(pace.noise_ppm, 0);
    }
}

/* Two in three chunks are lost, however slow the senders are. */
static void a_broken_cable_slows_down_for_a_while_and_then_counts_as_noise(void **state)
{
    struct tt_pace pace;

    (void)state;
    tt_pace_init(&pace, 500000);
    for (uint64_t sequence = 0; sequence < 5 + 3; sequence++) {
        run(&pace, pace.limit_kbit, EXPECTED * 2 / 3, pace.limit_kbit / 3);
        assert_in_range(pace.limit_kbit, 500000 >> (sequence + 1), (500000 >> (sequence + 1)) + 1);
    }
    run(&pace, pace.limit_kbit, EXPECTED * 2 / 3, pace.limit_kbit / 3);
    assert_int_equal(pace.limit_kbit, 500000);
    assert_int_equal(pace.noise_ppm, 666000);
}

static void a_link_is_found_and_hardly_ever_overdriven_again(void **state)
{
    struct tt_pace pace;
    uint32_t over = 0;

    (void)state;
    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    for (uint64_t sequence = 0; sequence < 2000; sequence++) {
        over += tt_pace_offer(&pace, sequence) > 505000;
        run_on_link(&pace, sequence, 500000);
        assert_in_range(pace.limit_kbit, 480000, 505000);
    }
    assert_in_range(over, 5, 40); /* attempts become rare */
    assert_int_equal(pace.interval, 256);
}

static void a_link_that_becomes_faster_is_noticed(void **state)
{
    struct tt_pace pace;

    (void)state;
    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    for (uint64_t sequence = 0; sequence < 50; sequence++) {
        run_on_link(&pace, sequence, 50000);
    }
    assert_in_range(pace.limit_kbit, 48000, 50500);
    for (uint64_t sequence = 50; sequence < 150; sequence++) {
        run_on_link(&pace, sequence, 5000000);
    }
    assert_in_range(pace.limit_kbit, 4500000, 5050000);
}

static void no_attempt_goes_beyond_the_ceiling(void **state)
{
    struct tt_pace pace;

    (void)state;
    tt_pace_init(&pace, 550000);
    run(&pace, 550000, 200, 500000);
    for (uint64_t sequence = 0; sequence < 500; sequence++) {
        assert_true(tt_pace_offer(&pace, sequence) <= 550000);
        run_on_link(&pace, sequence, 2000000);
    }
    assert_int_equal(pace.limit_kbit, 550000);
}

static void loss_that_slower_senders_do_not_mend_slows_nobody_down(void **state)
{
    struct tt_pace pace;

    (void)state;
    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    for (uint64_t sequence = 0; sequence < 100; sequence++) {
        uint32_t rate = tt_pace_offer(&pace, sequence);

        run(&pace, rate, 50, rate < 800000 ? rate : 800000);
        assert_true(pace.limit_kbit > 700000); /* three cuts of a 32nd, never more */
    }
    assert_int_equal(pace.limit_kbit, TT_PACE_UNKNOWN);
    assert_int_equal(pace.noise_ppm, 50000);
    for (uint64_t sequence = 0; sequence < 200; sequence++) {
        run(&pace, TT_PACE_UNKNOWN, 0, 800000);
    }
    assert_int_equal(pace.noise_ppm, 0); /* the cable was changed */
}

/* A quarter more at least, and everybody who has tried often enough to be patient still tries when the others do. */
static void patient_ranks_try_when_impatient_ones_do(void **state)
{
    struct tt_pace often, seldom;
    uint32_t attempts = 0;

    (void)state;
    tt_pace_init(&often, TT_PACE_UNKNOWN);
    often.limit_kbit = 400000;
    seldom = often;
    seldom.interval = 256;
    for (uint64_t sequence = 0; sequence < 10000; sequence++) {
        if (tt_pace_offer(&seldom, sequence) > 400000) {
            assert_int_equal(tt_pace_offer(&seldom, sequence), 500000);
            assert_int_equal(tt_pace_offer(&often, sequence), 500000);
            attempts++;
        }
    }
    assert_in_range(attempts, 20, 60);
}

static void what_credit_held_back_is_no_proof_that_more_can_be_taken(void **state)
{
    struct tt_pace pace;

    (void)state;
    tt_pace_init(&pace, TT_PACE_UNKNOWN);
    pace.limit_kbit = 450000;
    run(&pace, 562500, 0, 500000); /* nothing was lost, but the port was full */
    assert_in_range(pace.limit_kbit, 499990, 500010);
    run(&pace, 625000, 0, 100000); /* nobody sent much */
    assert_in_range(pace.limit_kbit, 499990, 500010);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_rate_holds_nobody_back),
        cmocka_unit_test(a_root_on_its_own_begins_with_a_burst_and_then_keeps_its_rate),
        cmocka_unit_test(who_follows_another_has_only_what_that_has_left_of_the_burst),
        cmocka_unit_test(roots_that_send_at_once_share_the_rate_and_do_not_begin_together),
        cmocka_unit_test(who_is_late_catches_up_with_no_more_than_a_burst),
        cmocka_unit_test(nothing_is_believed_about_a_port_that_loses_nothing),
        cmocka_unit_test(a_full_port_has_shown_its_rate),
        cmocka_unit_test(few_chunks_say_nothing),
        cmocka_unit_test(loss_by_chance_is_not_taken_for_a_full_port),
        cmocka_unit_test(half_of_what_came_has_to_come_after_the_first_look),
        cmocka_unit_test(who_was_away_has_learnt_nothing),
        cmocka_unit_test(what_is_known_is_given_up_by_half_at_most),
        cmocka_unit_test(a_known_rate_that_is_far_too_high_comes_down_by_halves),
        cmocka_unit_test(a_broken_cable_slows_down_for_a_while_and_then_counts_as_noise),
        cmocka_unit_test(a_link_is_found_and_hardly_ever_overdriven_again),
        cmocka_unit_test(a_link_that_becomes_faster_is_noticed),
        cmocka_unit_test(no_attempt_goes_beyond_the_ceiling),
        cmocka_unit_test(loss_that_slower_senders_do_not_mend_slows_nobody_down),
        cmocka_unit_test(patient_ranks_try_when_impatient_ones_do),
        cmocka_unit_test(what_credit_held_back_is_no_proof_that_more_can_be_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
