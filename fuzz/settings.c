/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Any text as the value of any setting, and through every parser of the command line. A parser that refuses must leave
 * its output alone and say why; a setting that was taken must be described by a text that is taken again and is
 * described the same way.
 */
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "check.h"

enum { TEXT_BYTES = TT_SETTING_TEXT_BYTES + 8 };

static const uint64_t untouched = UINT64_C(0xA5A5A5A5A5A5A5A5);

static void check_number(tutti_status (*parse)(const char *, uint64_t *), const char *text)
{
    uint64_t value = untouched;

    tt_clear_error();
    if (parse(text, &value) != TUTTI_OK) {
        FUZZ_CHECK(value == untouched);
        FUZZ_CHECK(tt_last_error()[0] != '\0');
    }
}

static void check_parsers(const char *text)
{
    uint32_t ppm = (uint32_t)untouched, first = 0, count = 0;
    uint16_t low = 1, high = 1;
    enum tt_algorithm algorithm = TT_ALGORITHM_AUTO;

    check_number(tt_parse_count, text);
    check_number(tt_parse_size, text);
    check_number(tt_parse_time, text);
    check_number(tt_parse_rate, text);
    FUZZ_CHECK(tt_parse_percent(text, &ppm) == TUTTI_OK ? ppm <= 1000000 : ppm == (uint32_t)untouched);
    FUZZ_CHECK(tt_parse_algorithm(text, &algorithm) != TUTTI_OK || strcmp(text, tt_algorithm_name(algorithm)) == 0);
    FUZZ_CHECK(tt_parse_group_range(text, &first, &count) != TUTTI_OK || (first >> 28 == 0xE && count > 0));
    FUZZ_CHECK(tt_parse_ports(text, &low, &high) != TUTTI_OK || low <= high);
}

static void check_setting(size_t index, const char *text)
{
    static struct tt_settings defaults;
    static int loaded;
    struct tt_settings settings;
    struct tt_setting_description first, second;

    if (!loaded) {
        FUZZ_CHECK(tt_settings_load(&defaults) == TUTTI_OK);
        loaded = 1;
    }
    settings = defaults;
    tt_settings_describe(&settings, index, &first);
    if (tt_settings_set(&settings, first.name, text) != TUTTI_OK) {
        FUZZ_CHECK(memcmp(&settings, &defaults, sizeof(settings)) == 0);
        return;
    }
    tt_settings_describe(&settings, index, &first);
    FUZZ_CHECK(tt_settings_set(&settings, first.name, first.value_text) == TUTTI_OK);
    tt_settings_describe(&settings, index, &second);
    FUZZ_CHECK(strcmp(first.value_text, second.value_text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_BYTES];

    if (size < 1 || size > TEXT_BYTES) {
        return 0;
    }
    memcpy(text, data + 1, size - 1);
    text[size - 1] = '\0';
    check_parsers(text);
    check_setting(data[0] % tt_settings_count(), text);
    return 0;
}
