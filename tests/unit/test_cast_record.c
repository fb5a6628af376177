/* SPDX-License-Identifier: BSD-3-Clause */
/* What the processes of a cast tell one another: to bytes and back, and what is not believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/cast_record.h"

#define SEGMENT (UINT64_C(1) << 20)

static const struct tt_cast_offer sender = {.is_sender = true,
                                            .host = "head",
                                            .by = TT_CAST_BY_PIPELINE,
                                            .mode = 0640,
                                            .size_bytes = UINT64_C(0x123456789A),
                                            .segment_bytes = SEGMENT,
                                            .ahead = TT_CAST_AHEAD,
                                            .first_bytes = {SEGMENT, TT_CAST_END},
                                            .name = "a\nname"};

static tutti_status recode(const struct tt_cast_offer *offer, struct tt_cast_offer *decoded)
{
    uint8_t bytes[TT_OFFER_BYTES];
    tt_cast_offer_encode(offer, bytes);
    return tt_cast_offer_decode(bytes, decoded);
}

static void offers_and_reports_decode_to_what_was_encoded(void **state)
{
    struct tt_cast_offer offer;
    struct tt_cast_report report = {.failed = true, .text = "why", .bytes = UINT64_MAX, .duration_ns = 77}, decoded;
    uint8_t bytes[TT_REPORT_BYTES];
    (void)state;
    assert_int_equal(recode(&sender, &offer), TUTTI_OK);
    assert_true(offer.is_sender);
    assert_int_equal(offer.by, TT_CAST_BY_PIPELINE);
    assert_int_equal(offer.mode, 0640);
    assert_int_equal(offer.ahead, TT_CAST_AHEAD);
    assert_true(offer.size_bytes == sender.size_bytes && offer.segment_bytes == SEGMENT);
    assert_true(offer.first_bytes[0] == SEGMENT && offer.first_bytes[1] == TT_CAST_END);
    assert_string_equal(offer.host, "head");
    assert_string_equal(offer.name, "a\nname");

    memset(report.digest, 0xA5, sizeof(report.digest));
    tt_cast_report_encode(&report, bytes);
    assert_int_equal(tt_cast_report_decode(bytes, &decoded), TUTTI_OK);
    assert_true(decoded.failed && decoded.bytes == UINT64_MAX && decoded.duration_ns == 77);
    assert_string_equal(decoded.text, "why");
    assert_memory_equal(decoded.digest, report.digest, sizeof(report.digest));
}

static void a_mode_of_nothing_is_told_from_none_at_all(void **state)
{
    static const uint32_t modes[] = {0, 0777, TT_CAST_MODE_UNKNOWN};
    (void)state;
    for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
        struct tt_cast_offer offer = sender;
        offer.mode = modes[i];
        assert_int_equal(recode(&offer, &offer), TUTTI_OK);
        assert_true(offer.mode == modes[i]);
    }
}

static void a_receiver_offers_no_more_than_its_host(void **state)
{
    const struct tt_cast_offer receiver = {.host = "h7"};
    struct tt_cast_offer decoded;
    (void)state;
    assert_int_equal(recode(&receiver, &decoded), TUTTI_OK);
    assert_false(decoded.is_sender);
    assert_string_equal(decoded.host, "h7");
}

static void assert_not_believed(struct tt_cast_offer offer)
{
    struct tt_cast_offer decoded, before;
    memset(&decoded, 0x5A, sizeof(decoded));
    before = decoded;
    assert_int_equal(recode(&offer, &decoded), TUTTI_ERR_PROTOCOL);
    assert_memory_equal(&decoded, &before, sizeof(before));
}

#define CHANGED(...)                                                                                                   \
    do {                                                                                                               \
        struct tt_cast_offer changed = sender;                                                                         \
        changed.__VA_ARGS__;                                                                                           \
        assert_not_believed(changed);                                                                                  \
    } while (0)

static void sizes_that_would_overrun_a_segment_are_not_believed(void **state)
{
    (void)state;
    CHANGED(segment_bytes = TT_CAST_MIN_SEGMENT_BYTES - 1);
    CHANGED(segment_bytes = TT_CAST_MAX_SEGMENT_BYTES + 1);
    CHANGED(ahead = 0);
    CHANGED(ahead = TT_CAST_AHEAD + 1);
    CHANGED(first_bytes[0] = SEGMENT + 1);
    CHANGED(first_bytes[1] = TT_CAST_END - 1);
    CHANGED(mode = 01000);
    CHANGED(mode = 04755); /* would run with its owner's rights */
    CHANGED(by = TT_CAST_BY_AUTO);
    CHANGED(by = (enum tt_cast_way)200);
}

static void texts_without_an_end_are_not_believed(void **state)
{
    struct tt_cast_offer offer = sender;
    struct tt_cast_report report = {.failed = true};
    uint8_t bytes[TT_REPORT_BYTES];
    (void)state;
    memset(offer.host, 'h', sizeof(offer.host));
    assert_not_believed(offer);
    offer = sender;
    memset(offer.name, 'n', sizeof(offer.name));
    assert_not_believed(offer);
    memset(report.text, 't', sizeof(report.text));
    tt_cast_report_encode(&report, bytes);
    assert_int_equal(tt_cast_report_decode(bytes, &report), TUTTI_ERR_PROTOCOL);
}

static void another_version_is_told_from_nonsense(void **state)
{
    uint8_t bytes[TT_OFFER_BYTES];
    struct tt_cast_offer offer;
    (void)state;
    tt_cast_offer_encode(&sender, bytes);
    bytes[4]++;
    assert_int_equal(tt_cast_offer_decode(bytes, &offer), TUTTI_ERR_MISMATCH);
    bytes[0]++;
    assert_int_equal(tt_cast_offer_decode(bytes, &offer), TUTTI_ERR_PROTOCOL);
}

static void a_segment_must_be_the_one_that_is_due(void **state)
{
    const struct tt_segment_header last = {.number = 9, .later_bytes = TT_CAST_END};
    const struct tt_segment_header long_one = {.number = 9, .later_bytes = SEGMENT + 1};
    struct tt_segment_header decoded = {.number = 1};
    uint8_t bytes[TT_SEGMENT_HEADER_BYTES];
    (void)state;
    tt_segment_header_encode(&last, bytes);
    assert_int_equal(tt_segment_header_decode(bytes, 8, SEGMENT, &decoded), TUTTI_ERR_PROTOCOL);
    assert_int_equal(decoded.number, 1);
    assert_int_equal(tt_segment_header_decode(bytes, 9, SEGMENT, &decoded), TUTTI_OK);
    assert_true(decoded.number == 9 && decoded.later_bytes == TT_CAST_END);
    tt_segment_header_encode(&long_one, bytes);
    assert_int_equal(tt_segment_header_decode(bytes, 9, SEGMENT, &decoded), TUTTI_ERR_PROTOCOL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offers_and_reports_decode_to_what_was_encoded),
        cmocka_unit_test(a_mode_of_nothing_is_told_from_none_at_all),
        cmocka_unit_test(a_receiver_offers_no_more_than_its_host),
        cmocka_unit_test(sizes_that_would_overrun_a_segment_are_not_believed),
        cmocka_unit_test(texts_without_an_end_are_not_believed),
        cmocka_unit_test(another_version_is_told_from_nonsense),
        cmocka_unit_test(a_segment_must_be_the_one_that_is_due),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
