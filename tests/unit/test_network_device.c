/* SPDX-License-Identifier: BSD-3-Clause */
/* What the settings say of RDMA devices reaches those who open them, and make queue pairs on them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "engine/network.h"

static const struct tt_interface ethernet = {
    .name = "eth0", .index = 7, .ip.bytes = {[10] = 0xFF, 0xFF, 10, 84, 0, 1}, .up = true};
static const struct tt_interface loopback = {
    .name = "lo", .index = 1, .ip.bytes = {[10] = 0xFF, 0xFF, 127, 0, 0, 1}, .up = true, .loopback = true};

static struct tt_settings settings_with(const char *name, const char *value)
{
    struct tt_settings settings;

    assert_int_equal(tt_settings_load(&settings), TUTTI_OK);
    assert_int_equal(tt_settings_set(&settings, name, value), TUTTI_OK);
    return settings;
}

#define NUMBER(name, value, field, expected)                                                                           \
    {                                                                                                                  \
        name, value, offsetof(struct tt_verbs_device_options, field),                                                  \
            sizeof(((struct tt_verbs_device_options *)0)->field), expected                                             \
    }

static void numbers_reach_the_device(void **state)
{
    static const struct {
        const char *name, *value;
        size_t offset, bytes;
        uint64_t expected;
    } cases[] = {
        NUMBER("GID", "auto", gid_index, TT_AUTO),
        NUMBER("GID", "0", gid_index, 0),
        NUMBER("GID", "5", gid_index, 5),
        NUMBER("SERVICE_LEVEL", "0", service_level, 0),
        NUMBER("SERVICE_LEVEL", "15", service_level, 15),
        NUMBER("TRAFFIC_CLASS", "0", traffic_class, 0),
        NUMBER("TRAFFIC_CLASS", "184", traffic_class, 184),
        NUMBER("WORKERS", "0", threads, 1),
        NUMBER("WORKERS", "2", threads, 4), /* receivers, a sender, control */
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tt_settings settings = settings_with(cases[i].name, cases[i].value);
        const struct tt_verbs_device_options options = tt_network_device(&settings, &ethernet);
        uint64_t value = 0;

        memcpy(&value, (const uint8_t *)&options + cases[i].offset, cases[i].bytes); /* little-endian, as all hosts */
        assert_true(value == cases[i].expected);
        assert_int_equal(options.interface_index, 7);
        assert_int_equal(options.address_be, 0x0100540A);
    }
}

static void words_reach_the_device(void **state)
{
    static const struct {
        const char *name, *value;
        size_t offset;
    } cases[] = {
        {"PKEY", "auto", offsetof(struct tt_verbs_device_options, pkey)},
        {"PKEY", "0x8001", offsetof(struct tt_verbs_device_options, pkey)},
        {"DEVICE", "auto", offsetof(struct tt_verbs_device_options, name)},
        {"DEVICE", "mlx5_1:2", offsetof(struct tt_verbs_device_options, name)},
        {"ENDPOINTS", "2xdynamic", offsetof(struct tt_verbs_device_options, endpoints)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tt_settings settings = settings_with(cases[i].name, cases[i].value);
        const struct tt_verbs_device_options options = tt_network_device(&settings, &ethernet);
        const char *word;

        memcpy(&word, (const uint8_t *)&options + cases[i].offset, sizeof word);
        assert_string_equal(word, cases[i].value);
    }
}

/* Any device reaches its own host. */
static void loopback_is_of_no_device_in_particular(void **state)
{
    const struct tt_settings settings = settings_with("GID", "auto");
    const struct tt_verbs_device_options options = tt_network_device(&settings, &loopback);

    (void)state;
    assert_int_equal(options.interface_index, 0);
    assert_int_equal(options.address_be, 0);
}

static void time_of_repetition_reaches_queue_pairs(void **state)
{
    static const struct {
        const char *value;
        uint64_t expected_ns;
    } cases[] = {{"auto", 0}, {"1s", UINT64_C(1000000000)}, {"67ms", UINT64_C(67000000)}};
    struct tt_verbs_device *device = (struct tt_verbs_device *)(uintptr_t)64;

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct tt_settings settings = settings_with("RC_TIMEOUT", cases[i].value);
        const struct tt_rc_options options = tt_network_queue_pairs(&settings, device);

        assert_true(options.ack_timeout_ns == cases[i].expected_ns);
        assert_int_equal(options.thread, 0);
        assert_ptr_equal(options.device, device);
    }
    const struct tt_settings settings = settings_with("WORKERS", "2");
    assert_int_equal(tt_network_queue_pairs(&settings, device).thread, 3); /* control's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_reach_the_device),
        cmocka_unit_test(words_reach_the_device),
        cmocka_unit_test(loopback_is_of_no_device_in_particular),
        cmocka_unit_test(time_of_repetition_reaches_queue_pairs),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
