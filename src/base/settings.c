/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the settings, read from text and printed as text, all from the one table in settings.h.
 *
 * Normal path: defaults are parsed like any other text, then the environment is walked once, first for LOG and
 * LOG_FILE, so that what the rest has to say goes where the user wants it.
 *
 * Failures: a bad value is an error that holds name and value; nothing is half set, because loading works on a copy. An
 * unknown name is no error, since another version may know it, but a warning with the nearest name that there is.
 */
#include "base/settings.h"

#include <assert.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/least.h"
#include "base/log.h"

enum { PREFIX_BYTES = 6, NAME_BYTES = 32, SHOWN_BYTES = 64 };

static const char prefix[] = "TUTTI_";

enum type { TYPE_TEXT, TYPE_COUNT, TYPE_SIZE, TYPE_TIME, TYPE_RATE, TYPE_PPM, TYPE_ALGORITHM };

struct entry {
    const char *name;
    enum type type;
    const char *type_name;
    const char *default_text;
    const char *unit;
    const char *help;
    size_t offset_bytes; /* of the field */
};

static const struct entry entries[] = {
#define ENTRY(field, name, type, value, unit, help)                                                                    \
    {#name, TYPE_##type, #type, value, unit, help, offsetof(struct tt_settings, field)},
    TT_SETTINGS_TABLE(ENTRY)
#undef ENTRY
};

enum { ENTRY_COUNT = sizeof(entries) / sizeof(entries[0]) };

/* Far beyond use, and far enough from overflow for sums of times. */
#define LONGEST_TIME_NS (UINT64_C(1) << 62)

/* What a number may be; what is not here may be anything. */
static const struct limit {
    const char *name;
    uint64_t minimum, maximum;
} limits[] = {
    {"RANK", 0, TT_MAX_RANKS - 1},
    {"SIZE", 1, TT_MAX_RANKS},
    {"ROOT_FD", 0, INT_MAX},
    {"BOOTSTRAP_TIMEOUT", 1, LONGEST_TIME_NS},
    {"TIMEOUT", 1, LONGEST_TIME_NS},
    {"CHUNK", 64, 65472},
    {"SUBGROUPS", 1, 64},
    {"CHAINS", 1, TT_MAX_RANKS},
    {"WORKERS", 0, 64},
    {"IN_FLIGHT", 1, 64},
    {"POLL", 0, LONGEST_TIME_NS},
    {"BANDWIDTH", 1000000, UINT64_C(1000000000000000)},
    {"ALPHA", 0, LONGEST_TIME_NS},
    {"TAIL", 0, LONGEST_TIME_NS},
    {"RECEIVE_BUFFER", 1, INT_MAX / 2}, /* the kernel doubles it, in an int */
    {"PROBE_TIMEOUT", 0, LONGEST_TIME_NS},
    {"GID", 0, 255}, /* a work request has a byte for it */
    {"RC_TIMEOUT", 4096, UINT64_C(60000000000)},
    {"TTL", 1, 255},
    {"TRAFFIC_CLASS", 0, 255},
    {"SERVICE_LEVEL", 0, 15}, /* an address handle has four bits for it */
    {"PEER_TIMEOUT", UINT64_C(2000000000), UINT64_C(3600000000000)},
};

/* What a text must be one of; what is not here may be anything. */
static const struct choice {
    const char *name;
    const char *words[8];
} choices[] = {
    {"DETERMINISTIC", {"run", "strict"}},
    {"MCAST", {"auto", "udp", "verbs"}},
    {"P2P", {"auto", "tcp", "ucx", "verbs"}},
    {"ENDPOINTS", {"auto", "mpi-everywhere", "2xdynamic", "dynamic", "shared-dynamic", "static", "mpi+threads"}},
};

static const struct entry *find(const char *name, size_t length)
{
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        if (strlen(entries[i].name) == length && memcmp(entries[i].name, name, length) == 0) {
            return &entries[i];
        }
    }
    return NULL;
}

static bool may_be_auto(const struct entry *entry)
{
    return strcmp(entry->default_text, "auto") == 0;
}

static bool may_be_frame(const struct entry *entry)
{
    return strcmp(entry->name, "CHUNK") == 0;
}

/* --- Values as text ----------------------------------------------------------------------------------------------- */

/* The largest unit that holds `value` exactly; units ascend. */
static void format_in_units(uint64_t value, const char *const *names, const uint64_t *factors, int count,
                            const char *space, char *text, size_t text_bytes)
{
    int best = 0;
    for (int i = 1; i < count && value != 0; i++) {
        if (value % factors[i] == 0) {
            best = i;
        }
    }
    snprintf(text, text_bytes, "%" PRIu64 "%s%s", value / factors[best], space, names[best]);
}

const char *tt_format_size(uint64_t size_bytes, char *text, size_t text_bytes)
{
    static const char *const names[] = {"", "K", "M", "G", "T"};
    static const uint64_t factors[] = {1, UINT64_C(1) << 10, UINT64_C(1) << 20, UINT64_C(1) << 30, UINT64_C(1) << 40};
    format_in_units(size_bytes, names, factors, 5, "", text, text_bytes);
    return text;
}

static void format_time(uint64_t value_ns, const char *space, char *text, size_t text_bytes)
{
    static const char *const names[] = {"ns", "us", "ms", "s"};
    static const uint64_t factors[] = {1, TT_NS_PER_US, TT_NS_PER_MS, TT_NS_PER_S};
    format_in_units(value_ns, names, factors, 4, space, text, text_bytes);
}

const char *tt_format_time(uint64_t time_ns, char *text, size_t text_bytes)
{
    format_time(time_ns, " ", text, text_bytes);
    return text;
}

static void format_rate(uint64_t value, char *text, size_t text_bytes)
{
    static const char *const names[] = {"", "kbit", "mbit", "gbit"};
    static const uint64_t factors[] = {1, 1000, 1000000, 1000000000};
    format_in_units(value, names, factors, 4, "", text, text_bytes);
}

static void format_percent(uint64_t parts_per_million, char *text, size_t text_bytes)
{
    int length =
        snprintf(text, text_bytes, "%" PRIu64 ".%04" PRIu64, parts_per_million / 10000, parts_per_million % 10000);
    while (text[length - 1] == '0') {
        text[--length] = '\0';
    }
    if (text[length - 1] == '.') {
        text[length - 1] = '\0';
    }
}

static void format_number(const struct entry *entry, uint64_t value, char *text, size_t text_bytes)
{
    if (value == TT_AUTO && may_be_auto(entry)) {
        snprintf(text, text_bytes, "auto");
    } else if (value == TT_CHUNK_FRAME && may_be_frame(entry)) {
        snprintf(text, text_bytes, "frame");
    } else if (entry->type == TYPE_SIZE) {
        tt_format_size(value, text, text_bytes);
    } else if (entry->type == TYPE_TIME) {
        format_time(value, "", text, text_bytes);
    } else if (entry->type == TYPE_RATE) {
        format_rate(value, text, text_bytes);
    } else if (entry->type == TYPE_PPM) {
        format_percent(value, text, text_bytes);
    } else if (entry->type == TYPE_ALGORITHM) {
        snprintf(text, text_bytes, "%s", tt_algorithm_name((enum tt_algorithm)value));
    } else {
        snprintf(text, text_bytes, "%" PRIu64, value);
    }
}

/* --- Text to values ----------------------------------------------------------------------------------------------- */

static tutti_status refuse(const struct entry *entry, const char *value, const char *reason)
{
    size_t length = strlen(value);
    bool cut = length > SHOWN_BYTES;
    return tt_error(TT_PART_BASE, TUTTI_ERR_INVALID_ARGUMENT, "%s%s=%.*s%s: %s", prefix, entry->name,
                    cut ? SHOWN_BYTES : (int)length, value, cut ? "..." : "", reason);
}

/* The reason that a parser left behind "VALUE: ". */
static tutti_status refuse_as_parsed(const struct entry *entry, const char *value)
{
    const char *reason = strstr(tt_last_error() + strnlen(value, SHOWN_BYTES), ": ");
    assert(reason != NULL);
    return refuse(entry, value, reason + 2);
}

static tutti_status parse_number(const struct entry *entry, const char *value, uint64_t *number)
{
    enum tt_algorithm algorithm;
    uint32_t parts_per_million;
    tutti_status status;

    switch (entry->type) {
    case TYPE_SIZE:
        return tt_parse_size(value, number);
    case TYPE_TIME:
        return tt_parse_time(value, number);
    case TYPE_RATE:
        return tt_parse_rate(value, number);
    case TYPE_PPM:
        status = tt_parse_percent(value, &parts_per_million);
        if (status == TUTTI_OK) {
            *number = parts_per_million;
        }
        return status;
    case TYPE_ALGORITHM:
        status = tt_parse_algorithm(value, &algorithm);
        if (status == TUTTI_OK) {
            *number = (uint64_t)algorithm;
        }
        return status;
    case TYPE_COUNT:
    case TYPE_TEXT:
        break;
    }
    return tt_parse_count(value, number);
}

static tutti_status check_limit(const struct entry *entry, const char *value, uint64_t number)
{
    struct limit limit = {entry->name, 0, may_be_auto(entry) ? TT_AUTO - 1 : UINT64_MAX};
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        if (strcmp(limits[i].name, entry->name) == 0) {
            limit = limits[i];
        }
    }
    if (number >= limit.minimum && number <= limit.maximum) {
        return TUTTI_OK;
    }
    char low[TT_SETTING_TEXT_BYTES], high[TT_SETTING_TEXT_BYTES], reason[2 * TT_SETTING_TEXT_BYTES + 32];
    format_number(entry, limit.minimum, low, sizeof(low));
    format_number(entry, limit.maximum, high, sizeof(high));
    snprintf(reason, sizeof(reason), "must be from %s to %s%s%s", low, high, entry->unit[0] != '\0' ? " " : "",
             entry->unit);
    return refuse(entry, value, reason);
}

static void store_number(struct tt_settings *settings, const struct entry *entry, uint64_t number)
{
    char *field = (char *)settings + entry->offset_bytes;
    if (entry->type == TYPE_PPM) {
        *(uint32_t *)(void *)field = (uint32_t)number;
    } else if (entry->type == TYPE_ALGORITHM) {
        *(enum tt_algorithm *)(void *)field = (enum tt_algorithm)number;
    } else {
        *(uint64_t *)(void *)field = number;
    }
}

static tutti_status check_choice(const struct entry *entry, const char *value)
{
    char reason[TT_SETTING_TEXT_BYTES] = "must be ";
    size_t length = strlen(reason);

    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
        const struct choice *choice = &choices[i];
        if (strcmp(choice->name, entry->name) != 0) {
            continue;
        }
        for (size_t word = 0; choice->words[word] != NULL; word++) {
            if (strcmp(choice->words[word], value) == 0) {
                return TUTTI_OK;
            }
            length += (size_t)snprintf(reason + length, sizeof reason - length, "%s%s", word > 0 ? " or " : "",
                                       choice->words[word]);
        }
        return refuse(entry, value, reason);
    }
    return TUTTI_OK;
}

static tutti_status check_text(const struct entry *entry, const char *value)
{
    char message[TT_SETTING_TEXT_BYTES];
    uint32_t address, count;
    uint16_t first, last;

    if (strlen(value) >= TT_SETTING_TEXT_BYTES) {
        return refuse(entry, value, "too long (255 characters at most)");
    }
    if (value[0] == '\0' && entry->default_text[0] != '\0') {
        return refuse(entry, value, "must not be empty");
    }
    if (strcmp(entry->name, "GROUP_RANGE") == 0 && tt_parse_group_range(value, &address, &count) != TUTTI_OK) {
        return refuse_as_parsed(entry, value);
    }
    if (strcmp(entry->name, "PORTS") == 0 && tt_parse_ports(value, &first, &last) != TUTTI_OK) {
        return refuse_as_parsed(entry, value);
    }
    if (strcmp(entry->name, "LOG") == 0 && tt_log_check(value, message, sizeof(message)) != TUTTI_OK) {
        return refuse(entry, value, message);
    }
    return check_choice(entry, value);
}

static tutti_status set(struct tt_settings *settings, const struct entry *entry, const char *value)
{
    tutti_status status;
    uint64_t number;

    if (entry->type == TYPE_TEXT) {
        status = check_text(entry, value);
        if (status == TUTTI_OK) {
            /* The whole field, so that two equal settings are equal bytes. */
            strncpy((char *)settings + entry->offset_bytes, value, TT_SETTING_TEXT_BYTES);
        }
        return status;
    }
    if (entry->type != TYPE_ALGORITHM && may_be_auto(entry) && strcmp(value, "auto") == 0) {
        store_number(settings, entry, TT_AUTO);
        return TUTTI_OK;
    }
    if (may_be_frame(entry) && strcmp(value, "frame") == 0) {
        store_number(settings, entry, TT_CHUNK_FRAME);
        return TUTTI_OK;
    }
    if (parse_number(entry, value, &number) != TUTTI_OK) {
        return refuse_as_parsed(entry, value);
    }
    status = check_limit(entry, value, number);
    if (status == TUTTI_OK) {
        store_number(settings, entry, number);
    }
    return status;
}

/* --- Unknown names ------------------------------------------------------------------------------------------------ */

/* How many letters must be inserted, removed or replaced to make one word of the other. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
    size_t row[NAME_BYTES + 1];
    assert(b_length <= NAME_BYTES);
    for (size_t j = 0; j <= b_length; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= a_length; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_length; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = tt_least(replaced, tt_least(row[j], row[j - 1]) + 1);
        }
    }
    return row[b_length];
}

/* The known name that `name` most likely was meant to be; NULL if none is near. */
static const char *nearest_name(const char *name, size_t length)
{
    const char *nearest = NULL;
    if (length > NAME_BYTES) {
        return NULL;
    }
    size_t best = (length < 3 ? 1 : length / 3) + 1; /* one more than what counts as near */
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        size_t distance = edit_distance(name, length, entries[i].name, strlen(entries[i].name));
        if (distance < best) {
            best = distance;
            nearest = entries[i].name;
        }
    }
    return nearest;
}

/* "TUTTI_CHUNKS: no such setting; did you mean TUTTI_CHUNK?" */
static const char *describe_unknown(const char *name, size_t length, char *text, size_t text_bytes)
{
    const char *nearest = nearest_name(name, length);
    snprintf(text, text_bytes, "%s%.*s: no such setting%s%s%s%s", prefix, (int)tt_least(length, SHOWN_BYTES), name,
             nearest != NULL ? "; did you mean " : "", nearest != NULL ? prefix : "", nearest != NULL ? nearest : "",
             nearest != NULL ? "?" : "");
    return text;
}

/* --- The whole ---------------------------------------------------------------------------------------------------- */

static bool is_for_log(const struct entry *entry)
{
    return strncmp(entry->name, "LOG", 3) == 0 && (entry->name[3] == '\0' || entry->name[3] == '_');
}

/* Takes the log's settings from the environment, or all the others. */
static tutti_status read_environment(struct tt_settings *settings, bool for_log, bool warn)
{
    char text[TT_SETTING_TEXT_BYTES];
    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        const char *equals = strchr(*variable, '=');
        if (equals == NULL || strncmp(*variable, prefix, PREFIX_BYTES) != 0) {
            continue;
        }
        const char *name = *variable + PREFIX_BYTES;
        const struct entry *entry = find(name, (size_t)(equals - name));
        if (entry == NULL) {
            if (warn) {
                TT_LOG(TT_PART_BASE, TT_LOG_WARN, "%s (ignored)",
                       describe_unknown(name, (size_t)(equals - name), text, sizeof(text)));
            }
            continue;
        }
        if (is_for_log(entry) == for_log) {
            tutti_status status = set(settings, entry, equals + 1);
            if (status != TUTTI_OK) {
                return status;
            }
        }
    }
    return TUTTI_OK;
}

tutti_status tt_settings_check_names(void)
{
    char text[TT_SETTING_TEXT_BYTES];

    for (char **variable = environ; variable != NULL && *variable != NULL; variable++) {
        const char *equals = strchr(*variable, '=');
        if (equals == NULL || strncmp(*variable, prefix, PREFIX_BYTES) != 0) {
            continue;
        }
        const char *name = *variable + PREFIX_BYTES;
        if (find(name, (size_t)(equals - name)) == NULL) {
            return tt_error_note(TUTTI_ERR_INVALID_ARGUMENT, "%s",
                                 describe_unknown(name, (size_t)(equals - name), text, sizeof(text)));
        }
    }
    return TUTTI_OK;
}

tutti_status tt_settings_load(struct tt_settings *settings)
{
    static atomic_flag warned = ATOMIC_FLAG_INIT;
    struct tt_settings loaded;
    char message[TT_SETTING_TEXT_BYTES + 128];

    memset(&loaded, 0, sizeof(loaded));
    for (size_t i = 0; i < ENTRY_COUNT; i++) {
        tutti_status status = set(&loaded, &entries[i], entries[i].default_text);
        assert(status == TUTTI_OK);
        (void)status;
    }
    tutti_status status = read_environment(&loaded, true, false);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tt_log_configure(loaded.log, loaded.log_file, message, sizeof(message));
    if (status != TUTTI_OK) {
        return tt_error(TT_PART_BASE, status, "%sLOG_FILE=%s: %s", prefix, loaded.log_file, message);
    }
    status = read_environment(&loaded, false, !atomic_flag_test_and_set(&warned));
    if (status != TUTTI_OK) {
        return status;
    }
    *settings = loaded;
    return TUTTI_OK;
}

tutti_status tt_settings_set(struct tt_settings *settings, const char *name, const char *value)
{
    const struct entry *entry = find(name, strlen(name));
    if (entry == NULL) {
        const char *nearest = nearest_name(name, strlen(name));
        return tt_error(TT_PART_BASE, TUTTI_ERR_INVALID_ARGUMENT, "%.*s: no such setting%s%s%s", SHOWN_BYTES, name,
                        nearest != NULL ? "; did you mean " : "", nearest != NULL ? nearest : "",
                        nearest != NULL ? "?" : "");
    }
    return set(settings, entry, value);
}

tutti_status tt_settings_check(const struct tt_settings *settings)
{
    if (settings->rank == TT_AUTO) {
        return TUTTI_OK;
    }
    if (settings->size == TT_AUTO && settings->rank > 0) {
        return tt_error(TT_PART_BASE, TUTTI_ERR_INVALID_ARGUMENT,
                        "%sRANK=%" PRIu64 ": %sSIZE is not set, so the only rank is 0", prefix, settings->rank, prefix);
    }
    if (settings->rank >= settings->size) {
        return tt_error(TT_PART_BASE, TUTTI_ERR_INVALID_ARGUMENT, "%sRANK=%" PRIu64 ": must be below %sSIZE=%" PRIu64,
                        prefix, settings->rank, prefix, settings->size);
    }
    return TUTTI_OK;
}

size_t tt_settings_count(void)
{
    return ENTRY_COUNT;
}

void tt_settings_describe(const struct tt_settings *settings, size_t index, struct tt_setting_description *description)
{
    assert(index < ENTRY_COUNT);
    const struct entry *entry = &entries[index];
    const char *field = (const char *)settings + entry->offset_bytes;

    description->name = entry->name;
    description->type = entry->type_name;
    description->default_text = entry->default_text;
    description->unit = entry->unit;
    description->help = entry->help;
    if (entry->type == TYPE_TEXT) {
        memcpy(description->value_text, field, TT_SETTING_TEXT_BYTES);
        return;
    }
    uint64_t number;
    if (entry->type == TYPE_PPM) {
        number = *(const uint32_t *)(const void *)field;
    } else if (entry->type == TYPE_ALGORITHM) {
        number = (uint64_t) * (const enum tt_algorithm *)(const void *)field;
    } else {
        number = *(const uint64_t *)(const void *)field;
    }
    format_number(entry, number, description->value_text, sizeof(description->value_text));
}
