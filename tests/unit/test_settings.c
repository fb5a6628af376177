/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: parsers, limits, the environment, and the sentences about what is wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/settings.h"

static char *empty_environment[] = {NULL};

/* Errors are looked at through tt_last_error(); the log need not repeat them. */
static int setup(void **state)
{
    char message[256];
    (void)state;
    environ = empty_environment;
    return tt_log_configure("none", NULL, message, sizeof(message)) == TUTTI_OK ? 0 : -1;
}

static void load(struct tt_settings *settings)
{
    setenv("TUTTI_LOG", "none", 1);
    assert_int_equal(tt_settings_load(settings), TUTTI_OK);
}

static void assert_refused(struct tt_settings *settings, const char *name, const char *value, const char *text)
{
    struct tt_settings before = *settings;
    tt_clear_error();
    assert_int_equal(tt_settings_set(settings, name, value), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tt_last_error(), text);
    assert_memory_equal(settings, &before, sizeof(before));
}

static void defaults_are_as_the_table_says(void **state)
{
    struct tt_settings settings;
    (void)state;
    load(&settings);
    assert_true(settings.rank == TT_AUTO);
    assert_true(settings.size == TT_AUTO);
    assert_string_equal(settings.root, "");
    assert_true(settings.bootstrap_timeout_ns == UINT64_C(30000000000));
    assert_true(settings.timeout_ns == TT_AUTO);
    assert_string_equal(settings.interface, "auto");
    assert_int_equal(settings.algorithm, TT_ALGORITHM_AUTO);
    assert_true(settings.chunk_bytes == TT_AUTO);
    assert_int_equal(settings.workers, 0);
    assert_int_equal(settings.in_flight, 8);
    assert_int_equal(settings.alpha_ns, 100000000);
    assert_int_equal(settings.tail_ns, 200000);
    assert_string_equal(settings.group_range, "239.192.0.0/14");
    assert_string_equal(settings.ports, "47000-49999");
    assert_int_equal(settings.loss_ppm, 0);
    assert_int_equal(settings.seed, 1);
}

static void counts_are_decimal_digits_only(void **state)
{
    static const char *const bad[] = {
        "", " 1", "1 ", "+1", "-1", "0x10", "1.0", "1K", "18446744073709551616", "1e3", "99999999999999999999999"};
    uint64_t value = 42;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tt_parse_count(bad[i], &value), TUTTI_ERR_INVALID_ARGUMENT);
        assert_int_equal(value, 42);
    }
    assert_string_equal(tt_last_error(), "99999999999999999999999: too large (64 bits cannot hold it)");
    assert_int_equal(tt_parse_count("99999999999999999999999x", &value), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tt_last_error(), "99999999999999999999999x: not a count (a decimal number)");
    assert_int_equal(tt_parse_count("18446744073709551615", &value), TUTTI_OK);
    assert_true(value == UINT64_MAX);
    assert_int_equal(tt_parse_count("007", &value), TUTTI_OK);
    assert_int_equal(value, 7);
}

static void sizes_have_binary_suffixes(void **state)
{
    static const char *const bad[] = {"12Q", "K", "1.5K", "1KK", "1KB", "16777216T", "-1K", "1 K"};
    uint64_t value = 42;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tt_parse_size(bad[i], &value), TUTTI_ERR_INVALID_ARGUMENT);
        assert_int_equal(value, 42);
    }
    assert_int_equal(tt_parse_size("8K", &value), TUTTI_OK);
    assert_int_equal(value, 8192);
    assert_int_equal(tt_parse_size("3m", &value), TUTTI_OK);
    assert_int_equal(value, 3 << 20);
    assert_int_equal(tt_parse_size("2G", &value), TUTTI_OK);
    assert_true(value == UINT64_C(2147483648));
    assert_int_equal(tt_parse_size("16777215T", &value), TUTTI_OK);
    assert_true(value == UINT64_C(16777215) << 40);
    assert_int_equal(tt_parse_size("0", &value), TUTTI_OK);
    assert_int_equal(value, 0);
}

static void times_have_units_and_exact_fractions(void **state)
{
    static const char *const bad[] = {"5",     "5m",           "s",  "1.s", ".5s", "1.5ns", "0.0000000001s",
                                      "1..5s", "18446744074s", "0.", "1s "};
    uint64_t value = 42;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tt_parse_time(bad[i], &value), TUTTI_ERR_INVALID_ARGUMENT);
        assert_int_equal(value, 42);
    }
    assert_int_equal(tt_parse_time("30s", &value), TUTTI_OK);
    assert_true(value == UINT64_C(30000000000));
    assert_int_equal(tt_parse_time("1.5ms", &value), TUTTI_OK);
    assert_int_equal(value, 1500000);
    assert_int_equal(tt_parse_time("0.000000001s", &value), TUTTI_OK);
    assert_int_equal(value, 1);
    assert_int_equal(tt_parse_time("7ns", &value), TUTTI_OK);
    assert_int_equal(value, 7);
    assert_int_equal(tt_parse_time("0", &value), TUTTI_OK);
    assert_int_equal(value, 0);
}

static void rates_are_decimal(void **state)
{
    uint64_t value = 42;
    (void)state;
    assert_int_equal(tt_parse_rate("100gbit", &value), TUTTI_OK);
    assert_true(value == UINT64_C(100000000000));
    assert_int_equal(tt_parse_rate("2.5gbit", &value), TUTTI_OK);
    assert_true(value == UINT64_C(2500000000));
    assert_int_equal(tt_parse_rate("500mbit", &value), TUTTI_OK);
    assert_int_equal(value, 500000000);
    assert_int_equal(tt_parse_rate("9600", &value), TUTTI_OK);
    assert_int_equal(value, 9600);
    assert_int_equal(tt_parse_rate("1G", &value), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_parse_rate("18446744074gbit", &value), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(value, 9600);
}

static void percentages_end_at_a_hundred_and_are_never_rounded(void **state)
{
    uint32_t value = 42;
    (void)state;
    assert_int_equal(tt_parse_percent("100.0001", &value), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_parse_percent("0.00001", &value), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_parse_percent("4294967297", &value), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(tt_parse_percent("-1", &value), TUTTI_ERR_INVALID_ARGUMENT);
    assert_int_equal(value, 42);
    assert_int_equal(tt_parse_percent("0.5", &value), TUTTI_OK);
    assert_int_equal(value, 5000);
    assert_int_equal(tt_parse_percent("100", &value), TUTTI_OK);
    assert_int_equal(value, 1000000);
    assert_int_equal(tt_parse_percent("0.0001%", &value), TUTTI_OK);
    assert_int_equal(value, 1);
}

static void ranges_of_multicast_addresses_are_checked(void **state)
{
    static const char *const bad[] = {"239.192.0.0",
                                      "239.192.0.0/",
                                      "239.192.0.0/33",
                                      "239.192.0.0/14 ",
                                      "239.192.0.256/32",
                                      "239.192.0/14",
                                      "10.0.0.0/8",
                                      "239.192.0.1/14",
                                      "224.0.0.0/3",
                                      "240.0.0.0/8",
                                      "",
                                      "239.192.0.0.0/14",
                                      "0.0.0.0/0",
                                      "a.b.c.d/14"};
    uint32_t first = 42, count = 42;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tt_parse_group_range(bad[i], &first, &count), TUTTI_ERR_INVALID_ARGUMENT);
    }
    assert_int_equal(first, 42);
    assert_int_equal(count, 42);
    assert_int_equal(tt_parse_group_range("239.192.0.0/14", &first, &count), TUTTI_OK);
    assert_true(first == UINT32_C(0xEFC00000));
    assert_int_equal(count, 1 << 18);
    assert_int_equal(tt_parse_group_range("239.255.255.255/32", &first, &count), TUTTI_OK);
    assert_int_equal(count, 1);
    assert_int_equal(tt_parse_group_range("224.0.0.0/4", &first, &count), TUTTI_OK);
    assert_int_equal(count, 1 << 28);
}

static void ranges_of_ports_are_checked(void **state)
{
    static const char *const bad[] = {"", "0", "0-5", "5-4", "1-65536", "1-", "-1", "1-2-3", "1 - 2", "65536"};
    uint16_t first = 42, last = 42;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(tt_parse_ports(bad[i], &first, &last), TUTTI_ERR_INVALID_ARGUMENT);
    }
    assert_int_equal(first, 42);
    assert_int_equal(last, 42);
    assert_int_equal(tt_parse_ports("47000-47999", &first, &last), TUTTI_OK);
    assert_int_equal(first, 47000);
    assert_int_equal(last, 47999);
    assert_int_equal(tt_parse_ports("65535", &first, &last), TUTTI_OK);
    assert_int_equal(first, 65535);
    assert_int_equal(last, 65535);
}

static void a_bad_value_is_an_error_that_holds_it(void **state)
{
    struct tt_settings settings;
    (void)state;
    load(&settings);
    assert_refused(&settings, "CHUNK", "12Q", "TUTTI_CHUNK=12Q: not a size (bytes, with suffix K, M, G or T)");
    assert_refused(&settings, "CHUNK", "", "TUTTI_CHUNK=: not a size (bytes, with suffix K, M, G or T)");
    assert_refused(&settings, "WORKERS", "a: b", "TUTTI_WORKERS=a: b: not a count (a decimal number)");
    assert_refused(&settings, "WORKERS", "\xCD\xC2\x8D\xC2", "TUTTI_WORKERS=????: not a count (a decimal number)");
    assert_refused(&settings, "WORKERS", "auto", "TUTTI_WORKERS=auto: not a count (a decimal number)");
    assert_refused(&settings, "ALPHA", "1", "TUTTI_ALPHA=1: not a time (a number with suffix ns, us, ms or s)");
    assert_refused(&settings, "BANDWIDTH", "fast",
                   "TUTTI_BANDWIDTH=fast: not a rate (bits per second, with suffix kbit, mbit or gbit)");
    assert_refused(&settings, "LOSS", "101", "TUTTI_LOSS=101: not a percentage (0 to 100, in steps of 0.0001)");
    assert_refused(&settings, "ALGORITHM", "Ring",
                   "TUTTI_ALGORITHM=Ring: not an algorithm (auto, multicast, eager, gather, ring, chain, tree, "
                   "sequential, binomial-tree, binomial-pipeline, hybrid, binomial, double-tree, "
                   "recursive-doubling, recursive-halving, rabenseifner, triggered-ring, direct, parts or "
                   "eager-parts)");
    assert_refused(&settings, "INTERFACE", "", "TUTTI_INTERFACE=: must not be empty");
    assert_refused(&settings, "LOG", "warn,x:info",
                   "TUTTI_LOG=warn,x:info: 'x' is no part of the library (base, proto, fabric, engine, api, cli)");
    assert_refused(&settings, "GROUP_RANGE", "10.0.0.0/8",
                   "TUTTI_GROUP_RANGE=10.0.0.0/8: not multicast: the range must be inside 224.0.0.0/4");
    assert_refused(&settings, "PORTS", "9-8",
                   "TUTTI_PORTS=9-8: the ports must be from 1 to 65535, the first not above the last");
    assert_refused(&settings, "SEED", "18446744073709551616",
                   "TUTTI_SEED=18446744073709551616: too large (64 bits cannot hold it)");
    assert_refused(&settings, "CHUNK", "16777216T", "TUTTI_CHUNK=16777216T: too large (64 bits cannot hold it)");
    assert_refused(&settings, "ALPHA", "18446744074s", "TUTTI_ALPHA=18446744074s: too large (64 bits cannot hold it)");
    assert_refused(&settings, "BANDWIDTH", "99999999999gbit",
                   "TUTTI_BANDWIDTH=99999999999gbit: too large (64 bits cannot hold it)");
    assert_refused(
        &settings, "PORTS", "1-18446744073709551617",
        "TUTTI_PORTS=1-18446744073709551617: the ports must be from 1 to 65535, the first not above the last");
}

static void a_number_out_of_its_range_is_refused_with_the_range(void **state)
{
    struct tt_settings settings;
    (void)state;
    load(&settings);
    assert_refused(&settings, "MCAST", "ucx", "TUTTI_MCAST=ucx: must be auto or udp or verbs");
    assert_refused(&settings, "BANDWIDTH", "999999", "TUTTI_BANDWIDTH=999999: must be from 1mbit to 1000000gbit bit/s");
    assert_refused(&settings, "GID", "256", "TUTTI_GID=256: must be from 0 to 255");
    assert_refused(&settings, "TTL", "0", "TUTTI_TTL=0: must be from 1 to 255");
    assert_refused(&settings, "TTL", "256", "TUTTI_TTL=256: must be from 1 to 255");
    assert_refused(&settings, "SERVICE_LEVEL", "16", "TUTTI_SERVICE_LEVEL=16: must be from 0 to 15");
    assert_refused(&settings, "TRAFFIC_CLASS", "256", "TUTTI_TRAFFIC_CLASS=256: must be from 0 to 255");
    assert_refused(&settings, "RC_TIMEOUT", "4us", "TUTTI_RC_TIMEOUT=4us: must be from 4096ns to 60s");
    assert_refused(&settings, "RC_TIMEOUT", "61s", "TUTTI_RC_TIMEOUT=61s: must be from 4096ns to 60s");
    assert_refused(&settings, "PEER_TIMEOUT", "1s", "TUTTI_PEER_TIMEOUT=1s: must be from 2s to 3600s");
    assert_refused(&settings, "CHUNK", "63", "TUTTI_CHUNK=63: must be from 64 to 65472 bytes");
    assert_refused(&settings, "CHUNK", "64K", "TUTTI_CHUNK=64K: must be from 64 to 65472 bytes");
    assert_refused(&settings, "SUBGROUPS", "0", "TUTTI_SUBGROUPS=0: must be from 1 to 64");
    assert_refused(&settings, "SUBGROUPS", "65", "TUTTI_SUBGROUPS=65: must be from 1 to 64");
    assert_refused(&settings, "CHAINS", "0", "TUTTI_CHAINS=0: must be from 1 to 65535");
    assert_refused(&settings, "WORKERS", "65", "TUTTI_WORKERS=65: must be from 0 to 64 threads");
    assert_refused(&settings, "IN_FLIGHT", "0", "TUTTI_IN_FLIGHT=0: must be from 1 to 64 requests");
    assert_refused(&settings, "SIZE", "0", "TUTTI_SIZE=0: must be from 1 to 65535 ranks");
    assert_refused(&settings, "SIZE", "65536", "TUTTI_SIZE=65536: must be from 1 to 65535 ranks");
    assert_refused(&settings, "RANK", "65535", "TUTTI_RANK=65535: must be from 0 to 65534");
    assert_refused(&settings, "TIMEOUT", "18446744073709551615ns",
                   "TUTTI_TIMEOUT=18446744073709551615ns: must be from 1ns to 4611686018427387904ns");
    assert_int_equal(tt_settings_set(&settings, "CHUNK", "64"), TUTTI_OK);
    assert_int_equal(settings.chunk_bytes, 64);
    assert_int_equal(tt_settings_set(&settings, "CHUNK", "65472"), TUTTI_OK);
    assert_int_equal(settings.chunk_bytes, 65472);
    assert_int_equal(tt_settings_set(&settings, "CHUNK", "auto"), TUTTI_OK);
    assert_true(settings.chunk_bytes == TT_AUTO);
    assert_int_equal(tt_settings_set(&settings, "CHUNK", "frame"), TUTTI_OK);
    assert_true(settings.chunk_bytes == TT_CHUNK_FRAME);
    assert_refused(&settings, "IN_FLIGHT", "frame", "TUTTI_IN_FLIGHT=frame: not a count (a decimal number)");
}

static void a_text_that_is_too_long_is_refused_and_shown_in_part(void **state)
{
    struct tt_settings settings;
    char value[TT_SETTING_TEXT_BYTES + 1], expected[256];
    (void)state;
    load(&settings);
    memset(value, 'e', TT_SETTING_TEXT_BYTES);
    value[TT_SETTING_TEXT_BYTES] = '\0';
    snprintf(expected, sizeof(expected), "TUTTI_INTERFACE=%.64s...: too long (255 characters at most)", value);
    assert_refused(&settings, "INTERFACE", value, expected);
    snprintf(expected, sizeof(expected), "TUTTI_CHUNK=%.64s...: not a size (bytes, with suffix K, M, G or T)", value);
    assert_refused(&settings, "CHUNK", value, expected);
    value[TT_SETTING_TEXT_BYTES - 1] = '\0';
    assert_int_equal(tt_settings_set(&settings, "INTERFACE", value), TUTTI_OK);
    assert_string_equal(settings.interface, value);
}

static void an_unknown_name_is_refused_with_the_nearest(void **state)
{
    struct tt_settings settings;
    (void)state;
    load(&settings);
    assert_refused(&settings, "CHUNKS", "1", "CHUNKS: no such setting; did you mean CHUNK?");
    assert_refused(&settings, "chunk", "1", "chunk: no such setting");
    assert_refused(&settings, "BANDWITH", "1", "BANDWITH: no such setting; did you mean BANDWIDTH?");
    assert_refused(&settings, "", "1", ": no such setting");
    assert_refused(&settings, "WORKERSWORKERSWORKERSWORKERSWORKERS", "1",
                   "WORKERSWORKERSWORKERSWORKERSWORKERS: no such setting");
}

static void the_environment_wins_over_the_default_and_a_set_over_both(void **state)
{
    struct tt_settings settings;
    (void)state;
    setenv("TUTTI_CHUNK", "4K", 1);
    setenv("TUTTI_ALGORITHM", "ring", 1);
    setenv("TUTTI_LOSS", "2.5", 1);
    setenv("TUTTI_INTERFACE", "lo", 1);
    setenv("OTHER_CHUNK", "12Q", 1);
    load(&settings);
    assert_int_equal(settings.chunk_bytes, 4096);
    assert_int_equal(settings.algorithm, TT_ALGORITHM_RING);
    assert_int_equal(settings.loss_ppm, 25000);
    assert_string_equal(settings.interface, "lo");
    assert_int_equal(tt_settings_set(&settings, "CHUNK", "1K"), TUTTI_OK);
    assert_int_equal(settings.chunk_bytes, 1024);
}

static void a_bad_variable_leaves_all_settings_alone(void **state)
{
    struct tt_settings settings, before;
    (void)state;
    memset(&settings, 0x5A, sizeof(settings));
    before = settings;
    setenv("TUTTI_LOG", "none", 1);
    setenv("TUTTI_WORKERS", "3", 1);
    setenv("TUTTI_CHUNK", "12Q", 1);
    assert_int_equal(tt_settings_load(&settings), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tt_last_error(), "TUTTI_CHUNK=12Q: not a size (bytes, with suffix K, M, G or T)");
    assert_memory_equal(&settings, &before, sizeof(settings));
    unsetenv("TUTTI_CHUNK");
    setenv("TUTTI_LOG_FILE", "/nonexistent/x", 1);
    assert_int_equal(tt_settings_load(&settings), TUTTI_ERR_IO);
    assert_string_equal(tt_last_error(),
                        "TUTTI_LOG_FILE=/nonexistent/x: the log file '/nonexistent/x' cannot be opened: "
                        "No such file or directory");
    assert_memory_equal(&settings, &before, sizeof(settings));
}

static void what_must_hold_between_settings_is_checked(void **state)
{
    struct tt_settings settings;
    (void)state;
    load(&settings);
    assert_int_equal(tt_settings_check(&settings), TUTTI_OK);
    settings.rank = 4;
    assert_int_equal(tt_settings_check(&settings), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tt_last_error(), "TUTTI_RANK=4: TUTTI_SIZE is not set, so the only rank is 0");
    settings.size = 4;
    assert_int_equal(tt_settings_check(&settings), TUTTI_ERR_INVALID_ARGUMENT);
    assert_string_equal(tt_last_error(), "TUTTI_RANK=4: must be below TUTTI_SIZE=4");
    settings.rank = 3;
    assert_int_equal(tt_settings_check(&settings), TUTTI_OK);
    settings.rank = 0;
    settings.size = TT_AUTO;
    assert_int_equal(tt_settings_check(&settings), TUTTI_OK);
}

/* In a process of its own, because the library warns once a process: loads twice, and writes the log to `path`. */
static void load_twice_elsewhere(const char *path)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        struct tt_settings settings;
        setenv("TUTTI_LOG", "warn", 1);
        setenv("TUTTI_LOG_FILE", path, 1);
        setenv("TUTTI_CHUNKS", "4K", 1);
        setenv("TUTTI_PONY", "yes", 1);
        setenv("TUTTI_", "yes", 1);
        _exit(tt_settings_load(&settings) == TUTTI_OK && tt_settings_load(&settings) == TUTTI_OK ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static int occurrences(const char *text, const char *word)
{
    int count = 0;
    for (const char *c = strstr(text, word); c != NULL; c = strstr(c + 1, word)) {
        count++;
    }
    return count;
}

static void unknown_variables_are_warned_about_once_with_the_nearest_name(void **state)
{
    char path[] = "/tmp/tutti-test-settings-XXXXXX";
    char log[4096];
    int fd = mkostemp(path, O_CLOEXEC);
    (void)state;
    assert_true(fd >= 0);
    load_twice_elsewhere(path);
    ssize_t length = read(fd, log, sizeof(log) - 1);
    close(fd);
    unlink(path);
    assert_true(length > 0);
    log[length] = '\0';
    assert_non_null(strstr(log, "warn base: TUTTI_CHUNKS: no such setting; did you mean TUTTI_CHUNK? (ignored)\n"));
    assert_non_null(strstr(log, "warn base: TUTTI_PONY: no such setting (ignored)\n"));
    assert_non_null(strstr(log, "warn base: TUTTI_: no such setting (ignored)\n"));
    assert_int_equal(occurrences(log, "\n"), 3);
}

static void what_describe_prints_can_be_read_back(void **state)
{
    static const char *const values[][2] = {
        {"CHUNK", "4K"},
        {"CHUNK", "1500"},
        {"CHUNK", "frame"},
        {"TIMEOUT", "90s"},
        {"POLL", "1500us"},
        {"BANDWIDTH", "2500mbit"},
        {"LOSS", "0.0001"},
        {"LOSS", "12.5"},
        {"LOSS", "100"},
        {"ALGORITHM", "chain"},
        {"SEED", "18446744073709551615"},
        {"INTERFACE", "eth7"},
        {"RANK", "auto"},
        {"POLL", "0ns"},
        {"RECEIVE_BUFFER", "3M"},
        {"LOSS", "10"},
    };
    struct tt_settings settings;
    struct tt_setting_description description;
    (void)state;
    load(&settings);
    for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
        bool found = false;
        assert_int_equal(tt_settings_set(&settings, values[i][0], values[i][1]), TUTTI_OK);
        for (size_t j = 0; j < tt_settings_count(); j++) {
            tt_settings_describe(&settings, j, &description);
            if (strcmp(description.name, values[i][0]) == 0) {
                assert_string_equal(description.value_text, values[i][1]);
                found = true;
            }
        }
        assert_true(found);
    }
}

static void every_setting_describes_itself_and_takes_back_its_value(void **state)
{
    struct tt_settings settings, copy;
    struct tt_setting_description description;
    (void)state;
    load(&settings);
    copy = settings;
    assert_true(tt_settings_count() > 20);
    for (size_t i = 0; i < tt_settings_count(); i++) {
        tt_settings_describe(&settings, i, &description);
        assert_true(strlen(description.help) > 0);
        assert_true(strlen(description.type) > 0);
        assert_int_equal(tt_settings_set(&copy, description.name, description.value_text), TUTTI_OK);
        assert_int_equal(tt_settings_set(&copy, description.name, description.default_text), TUTTI_OK);
        assert_int_equal(tt_settings_set(&copy, description.name, description.value_text), TUTTI_OK);
    }
    assert_memory_equal(&copy, &settings, sizeof(copy));
}

static void times_are_written_in_the_largest_exact_unit(void **state)
{
    char text[64];
    (void)state;
    assert_string_equal(tt_format_time(UINT64_C(30000000000), text, sizeof(text)), "30 s");
    assert_string_equal(tt_format_time(1500000000, text, sizeof(text)), "1500 ms");
    assert_string_equal(tt_format_time(0, text, sizeof(text)), "0 ns");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First: its child process must be one that has not warned yet. */
        cmocka_unit_test_setup(unknown_variables_are_warned_about_once_with_the_nearest_name, setup),
        cmocka_unit_test_setup(defaults_are_as_the_table_says, setup),
        cmocka_unit_test_setup(counts_are_decimal_digits_only, setup),
        cmocka_unit_test_setup(sizes_have_binary_suffixes, setup),
        cmocka_unit_test_setup(times_have_units_and_exact_fractions, setup),
        cmocka_unit_test_setup(rates_are_decimal, setup),
        cmocka_unit_test_setup(percentages_end_at_a_hundred_and_are_never_rounded, setup),
        cmocka_unit_test_setup(ranges_of_multicast_addresses_are_checked, setup),
        cmocka_unit_test_setup(ranges_of_ports_are_checked, setup),
        cmocka_unit_test_setup(a_bad_value_is_an_error_that_holds_it, setup),
        cmocka_unit_test_setup(a_number_out_of_its_range_is_refused_with_the_range, setup),
        cmocka_unit_test_setup(a_text_that_is_too_long_is_refused_and_shown_in_part, setup),
        cmocka_unit_test_setup(an_unknown_name_is_refused_with_the_nearest, setup),
        cmocka_unit_test_setup(the_environment_wins_over_the_default_and_a_set_over_both, setup),
        cmocka_unit_test_setup(a_bad_variable_leaves_all_settings_alone, setup),
        cmocka_unit_test_setup(what_must_hold_between_settings_is_checked, setup),
        cmocka_unit_test_setup(what_describe_prints_can_be_read_back, setup),
        cmocka_unit_test_setup(every_setting_describes_itself_and_takes_back_its_value, setup),
        cmocka_unit_test_setup(times_are_written_in_the_largest_exact_unit, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
