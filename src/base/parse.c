/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: numbers with units, as people write them in settings and on command lines.
 *
 * Normal path: digits, for some types a fraction, then a unit from a list; the value is exact, never rounded.
 *
 * Failures: anything else (signs, blanks, an unknown unit, digits that the unit cannot hold) leaves the output alone,
 * and "TEXT: what it should have been" in tt_last_error(); so does a number of more than 64 bits, which is told to be
 * too large.
 */
#include "base/settings.h"

#include <string.h>
#include <strings.h>

#include "base/log.h"

enum { SHOWN_BYTES = 64, FRACTION_DIGITS = 9 };

struct unit {
    const char *name;
    uint64_t factor;
};

static const struct unit size_units[] = {
    {"", 1},  {"K", UINT64_C(1) << 10}, {"M", UINT64_C(1) << 20}, {"G", UINT64_C(1) << 30}, {"T", UINT64_C(1) << 40},
    {NULL, 0}};
static const struct unit time_units[] = {
    {"ns", 1}, {"us", 1000}, {"ms", 1000 * 1000}, {"s", 1000 * 1000 * 1000}, {NULL, 0}};
static const struct unit rate_units[] = {
    {"", 1}, {"kbit", 1000}, {"mbit", 1000 * 1000}, {"gbit", 1000 * 1000 * 1000}, {NULL, 0}};
static const struct unit percent_units[] = {{"", 10000}, {"%", 10000}, {NULL, 0}};
static const struct unit no_units[] = {{"", 1}, {NULL, 0}};

static tutti_status refuse(const char *text, const char *reason)
{
    size_t length = strlen(text);
    bool cut = length > SHOWN_BYTES;
    return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "%.*s%s: %s", cut ? SHOWN_BYTES : (int)length, text,
                         cut ? "..." : "", reason);
}

/* What a text is, read as a number. */
enum reading { READING_GOOD, READING_NONE, READING_TOO_LARGE };

/* Reads digits; NONE if there are none, and UINT64_MAX, if their number needs more than 64 bits. */
static enum reading read_digits(const char **text, uint64_t *value)
{
    const char *c = *text;
    uint64_t number = 0;
    bool too_large = false;
    for (; *c >= '0' && *c <= '9'; c++) {
        too_large = too_large || __builtin_mul_overflow(number, 10, &number) ||
                    __builtin_add_overflow(number, (uint64_t)(*c - '0'), &number);
    }
    if (c == *text) {
        return READING_NONE;
    }
    *text = c;
    *value = too_large ? UINT64_MAX : number;
    return too_large ? READING_TOO_LARGE : READING_GOOD;
}

/* As read_digits, behind a decimal point: *value over *scale (a power of ten). */
static bool read_fraction(const char **text, uint64_t *value, uint64_t *scale)
{
    const char *start = *text;
    if (read_digits(text, value) != READING_GOOD || *text - start > FRACTION_DIGITS) {
        return false;
    }
    *scale = 1;
    for (const char *c = start; c < *text; c++) {
        *scale *= 10;
    }
    return true;
}

static uint64_t find_unit(const struct unit *units, const char *name)
{
    for (const struct unit *unit = units; unit->name != NULL; unit++) {
        if (strcasecmp(unit->name, name) == 0) {
            return unit->factor;
        }
    }
    return 0;
}

static enum reading parse_number(const char *text, const struct unit *units, bool fraction_allowed, uint64_t *value)
{
    uint64_t whole, part = 0, scale = 1;
    enum reading reading = read_digits(&text, &whole);
    if (reading == READING_NONE) {
        return READING_NONE;
    }
    if (*text == '.') {
        text++;
        if (!fraction_allowed || !read_fraction(&text, &part, &scale)) {
            return READING_NONE;
        }
    }
    uint64_t factor = find_unit(units, text);
    if (factor == 0 && whole == 0 && scale == 1 && *text == '\0') {
        factor = 1; /* nothing is nothing in any unit */
    }
    /* part < 10^9 and, where fractions are allowed, factor <= 10^9: no overflow. */
    if (factor == 0 || part * factor % scale != 0) {
        return READING_NONE;
    }
    uint64_t number;
    if (reading == READING_TOO_LARGE || __builtin_mul_overflow(whole, factor, &number) ||
        __builtin_add_overflow(number, part * factor / scale, &number)) {
        return READING_TOO_LARGE;
    }
    *value = number;
    return READING_GOOD;
}

/* `expected`: what is said of a text that is no such number. */
static tutti_status judge(const char *text, enum reading reading, const char *expected)
{
    switch (reading) {
    case READING_GOOD:
        return TUTTI_OK;
    case READING_TOO_LARGE:
        return refuse(text, "too large (64 bits cannot hold it)");
    default:
        return refuse(text, expected);
    }
}

tutti_status tt_parse_count(const char *text, uint64_t *value)
{
    return judge(text, parse_number(text, no_units, false, value), "not a count (a decimal number)");
}

tutti_status tt_parse_size(const char *text, uint64_t *value)
{
    return judge(text, parse_number(text, size_units, false, value), "not a size (bytes, with suffix K, M, G or T)");
}

tutti_status tt_parse_time(const char *text, uint64_t *value_ns)
{
    return judge(text, parse_number(text, time_units, true, value_ns),
                 "not a time (a number with suffix ns, us, ms or s)");
}

tutti_status tt_parse_rate(const char *text, uint64_t *bits_per_second)
{
    return judge(text, parse_number(text, rate_units, true, bits_per_second),
                 "not a rate (bits per second, with suffix kbit, mbit or gbit)");
}

tutti_status tt_parse_percent(const char *text, uint32_t *parts_per_million)
{
    uint64_t number;
    if (parse_number(text, percent_units, true, &number) != READING_GOOD || number > 1000000) {
        return refuse(text, "not a percentage (0 to 100, in steps of 0.0001)");
    }
    *parts_per_million = (uint32_t)number;
    return TUTTI_OK;
}

tutti_status tt_parse_algorithm(const char *text, enum tt_algorithm *algorithm)
{
    for (unsigned i = TT_ALGORITHM_AUTO; i < TT_ALGORITHM_COUNT; i++) {
        if (strcmp(text, tt_algorithm_name((enum tt_algorithm)i)) == 0) {
            *algorithm = (enum tt_algorithm)i;
            return TUTTI_OK;
        }
    }
    return refuse(text,
                  "not an algorithm (auto, multicast, eager, gather, ring, chain, tree, sequential, binomial-tree, "
                  "binomial-pipeline, hybrid, binomial, double-tree, recursive-doubling, recursive-halving, "
                  "rabenseifner, triggered-ring, direct, parts or eager-parts)");
}

const char *tt_algorithm_name(enum tt_algorithm algorithm)
{
    enum tt_method method = tt_method_of_algorithm(algorithm);
    const struct tt_method_row *row = tt_method_row(method);

    if (method == TT_METHOD_COUNT) {
        return algorithm == TT_ALGORITHM_AUTO ? "auto" : "unknown";
    }
    return row->algorithm == algorithm ? row->word : row->broadcast_word;
}

/* A dotted address without inet_pton(), which this layer has no use for otherwise. */
static bool read_address(const char **text, uint32_t *address)
{
    uint32_t bits = 0;
    for (int i = 0; i < 4; i++) {
        uint64_t byte;
        if (i > 0 && *(*text)++ != '.') {
            return false;
        }
        if (read_digits(text, &byte) != READING_GOOD || byte > 255) {
            return false;
        }
        bits = bits << 8 | (uint32_t)byte;
    }
    *address = bits;
    return true;
}

tutti_status tt_parse_group_range(const char *text, uint32_t *first, uint32_t *count)
{
    const char *c = text;
    uint32_t address;
    uint64_t bits;
    if (!read_address(&c, &address) || *c++ != '/' || read_digits(&c, &bits) != READING_GOOD || *c != '\0' ||
        bits > 32) {
        return refuse(text, "not a range of addresses (address/bits)");
    }
    if (bits < 4 || address >> 28 != 0xE) {
        return refuse(text, "not multicast: the range must be inside 224.0.0.0/4");
    }
    uint32_t size = UINT32_C(1) << (32 - bits);
    if ((address & (size - 1)) != 0) {
        return refuse(text, "the address has bits set behind the prefix");
    }
    *first = address;
    *count = size;
    return TUTTI_OK;
}

tutti_status tt_parse_ports(const char *text, uint16_t *first, uint16_t *last)
{
    const char *c = text;
    uint64_t low = 0, high;
    bool good = read_digits(&c, &low) != READING_NONE;
    high = low;
    if (good && *c == '-') {
        c++;
        good = read_digits(&c, &high) != READING_NONE;
    }
    if (!good || *c != '\0') {
        return refuse(text, "not a range of ports (first-last)");
    }
    if (low == 0 || high > 65535 || low > high) {
        return refuse(text, "the ports must be from 1 to 65535, the first not above the last");
    }
    *first = (uint16_t)low;
    *last = (uint16_t)high;
    return TUTTI_OK;
}
