/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti info`: what this build is, what the machine has, and what every setting is.
 *
 * Normal path: gathers, then prints text, or one JSON object with the same contents.
 *
 * Failures: interfaces that cannot be listed are an error and exit status 1.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/arguments.h"
#include "cli/build_info.h" /* made by the build system */
#include "cli/choice_json.h"
#include "cli/command.h"
#include "cli/info_devices.h"
#include "cli/json.h"
#include "cli/table.h"
#include "engine/choice_file.h"
#include "fabric/udp/interface.h"
#include "tutti/tutti.h"

#ifdef __clang__
#define BUILD_COMPILER __VERSION__
#else
#define BUILD_COMPILER "gcc " __VERSION__
#endif

enum { OPTION_SETTINGS, OPTION_DEVICES, OPTION_TABLE, OPTION_JSON, OPTION_HELP, OPTION_COUNT };

enum { INTERFACE_LIMIT = 256, FLAGS_BYTES = 64, COLUMN_COUNT = 5 };

static const struct tt_option options[OPTION_COUNT] = {
    [OPTION_SETTINGS] = {'c', "settings", NULL, "every setting: its value now, default, unit and meaning"},
    [OPTION_DEVICES] = {'d', "devices", NULL, "RDMA devices: ports, and what a group would use of them"},
    [OPTION_TABLE] = {'t', "table", NULL, "which algorithm serves which size, and where the table is from"},
    [OPTION_JSON] = {0, "json", NULL, "the same as one JSON object"},
    [OPTION_HELP] = {'h', "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {
    .name = "info",
    .synopsis = "[OPTION]...",
    .purpose = "Prints the version, how it was built, and the network interfaces of this machine; the settings; its\n"
               "RDMA devices; or the table of algorithms.",
    .options = options,
    .option_count = OPTION_COUNT,
};

static const struct provider {
    const char *name;
    const char *contract;
    const char *version;
} providers[] = {
    {"udp", "multicast", "IP multicast of the system"},
    {"tcp", "point to point", "TCP of the system"},
    {"ucx", "point to point", TT_BUILD_UCX},
    {"verbs", "multicast and point to point", TT_BUILD_VERBS},
    {"pmix", "launchers", TT_BUILD_PMIX},
};

enum { PROVIDER_COUNT = sizeof(providers) / sizeof(providers[0]) };

static void print_settings(const struct tt_settings *settings)
{
    for (size_t i = 0; i < tt_settings_count(); i++) {
        struct tt_setting_description setting;
        tt_settings_describe(settings, i, &setting);
        printf("TUTTI_%s=%s\n    %s\n    default: %s%s%s\n", setting.name, setting.value_text, setting.help,
               setting.default_text[0] != '\0' ? setting.default_text : "(empty)",
               setting.unit[0] != '\0' ? "; unit: " : "", setting.unit);
    }
}

static void print_settings_json(const struct tt_settings *settings)
{
    struct tt_json json;
    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_begin_array(&json, "settings");
    for (size_t i = 0; i < tt_settings_count(); i++) {
        struct tt_setting_description setting;
        tt_settings_describe(settings, i, &setting);
        tt_json_begin_object(&json, NULL);
        tt_json_text(&json, "name", setting.name);
        tt_json_text(&json, "value", setting.value_text);
        tt_json_text(&json, "default", setting.default_text);
        tt_json_text(&json, "unit", setting.unit);
        tt_json_text(&json, "type", setting.type);
        tt_json_text(&json, "help", setting.help);
        tt_json_end_object(&json);
    }
    tt_json_end_array(&json);
    tt_json_end_object(&json);
}

/* Of what is gathered and combined on the way, a rank's. */
static uint64_t vector_most_bytes(void)
{
    return tt_choice_question_for(TT_ALLREDUCE, true, 2, 0).gather_most_bytes / 2;
}

/* Which limit makes an algorithm stand aside. */
static const char *limit_of(const struct tt_choice_row *row, char *text)
{
    struct tt_choice_question limits = tt_choice_question_for(row->kind, true, row->ranks, 0);
    text[0] = '\0';
    if (tt_method_row(row->method)->gathers && tt_kind_row(row->kind)->combines) {
        snprintf(text, TT_CELL_BYTES, "%" PRIu64 " B", limits.gather_most_bytes / row->ranks);
    } else if (tt_method_row(row->method)->keeps_copies) {
        snprintf(text, TT_CELL_BYTES, "%" PRIu64 " B of all blocks",
                 tt_method_row(row->method)->gathers ? limits.gather_most_bytes : limits.eager_most_bytes);
    } else if (row->method == TT_METHOD_TREE) {
        snprintf(text, TT_CELL_BYTES, "%" PRIu64 " B", limits.tree_most_bytes);
    }
    return text;
}

static void print_table(const struct tt_choice_source *source)
{
    static const struct tt_column columns[] = {{"collective", NULL, 0, true},  {"network", NULL, 0, true},
                                               {"ranks from", NULL, 0, false}, {"bytes from", NULL, 0, false},
                                               {"algorithm", NULL, 0, true},   {"at most", NULL, 0, true}};
    enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };
    char text[TT_CHOICE_MAX_ROWS][3][TT_CELL_BYTES];
    const char *cells[TT_CHOICE_MAX_ROWS * COLUMNS];

    printf("table: %s%s\n", source->path[0] != '\0' ? "TUTTI_TABLE=" : "built in", source->path);
    if (source->measured[0] != '\0') {
        printf("measured: %s\n", source->measured);
    }
    printf(
        "A block's size and the number of ranks choose the row; in a group the table of rank 0 counts. Beyond what an\n"
        "algorithm serves at most: multicast, or without it ring and chain; what is reduced: parts or rabenseifner;\n"
        "gather and scatter: direct.\n\n");
    for (uint32_t i = 0; i < source->choice.row_count; i++) {
        const struct tt_choice_row *row = &source->choice.rows[i];
        const char **line = &cells[(size_t)i * COLUMNS];
        line[0] = tt_kind_word(row->kind);
        line[1] = tt_choice_network_word(row->multicast);
        line[2] = tt_cell_count(text[i][0], row->ranks);
        line[3] = tt_cell_count(text[i][1], row->from_bytes);
        line[4] = tt_method_word(row->kind, row->method);
        line[5] = limit_of(row, text[i][2]);
    }
    tt_table_print(stdout, columns, COLUMNS, cells, source->choice.row_count);
}

static void print_table_json(const struct tt_choice_source *source)
{
    struct tt_choice_question limits = tt_choice_question_for(TT_BROADCAST, true, 1, 0);
    struct tt_json json;
    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "file", source->path);
    tt_json_text(&json, "measured", source->measured);
    tt_json_count(&json, "eager_most_bytes", limits.eager_most_bytes);
    tt_json_count(&json, "eager_allgather_most_bytes",
                  tt_choice_question_for(TT_ALLGATHER, true, 1, 0).eager_most_bytes);
    tt_json_count(&json, "gather_most_bytes", tt_choice_question_for(TT_ALLGATHER, true, 1, 0).gather_most_bytes);
    tt_json_count(&json, "gather_vector_most_bytes", vector_most_bytes());
    tt_json_count(&json, "tree_most_bytes", limits.tree_most_bytes);
    tt_choice_write_json(&json, &source->choice);
    tt_json_end_object(&json);
}

/* The table that a group of this rank 0 would use. */
static int show_table(const struct tt_settings *settings, bool json)
{
    struct tt_choice_source source;
    if (tt_choice_load(settings->table, &source) != TUTTI_OK) {
        fprintf(stderr, "tutti info: %s\n", tt_last_error());
        return TT_EXIT_FAILED;
    }
    (json ? print_table_json : print_table)(&source);
    return TT_EXIT_OK;
}

static void format_address(const struct tt_interface *interface, char text[FLAGS_BYTES])
{
    char address[TT_IP_TEXT_BYTES];
    tt_ip_format(interface->ip, address);
    if (tt_ip_is_none(interface->ip)) {
        snprintf(text, FLAGS_BYTES, "%s", address);
        return;
    }
    snprintf(text, FLAGS_BYTES, "%s/%" PRIu32, address, interface->prefix_bits);
}

static void print_interfaces(const struct tt_interface *interfaces, size_t count)
{
    static const struct tt_column columns[COLUMN_COUNT] = {{"interface", NULL, 0, true},
                                                           {"address", NULL, 0, true},
                                                           {"MTU", NULL, 0, false},
                                                           {"Mbit/s", NULL, 0, false},
                                                           {"flags", NULL, 0, true}};
    static char text[INTERFACE_LIMIT][COLUMN_COUNT][FLAGS_BYTES];
    static const char *cells[INTERFACE_LIMIT * COLUMN_COUNT];
    for (size_t i = 0; i < count; i++) {
        const struct tt_interface *interface = &interfaces[i];
        snprintf(text[i][0], sizeof(text[i][0]), "%.*s", IF_NAMESIZE, interface->name);
        format_address(interface, text[i][1]);
        tt_cell_count(text[i][2], interface->mtu);
        if (interface->speed_mbit != 0) {
            tt_cell_count(text[i][3], interface->speed_mbit);
        } else {
            snprintf(text[i][3], sizeof(text[i][3]), "-");
        }
        snprintf(text[i][4], sizeof(text[i][4]), "%s%s%s", interface->up ? "up" : "down",
                 interface->loopback ? ",loopback" : "", interface->multicast ? ",multicast" : "");
        for (size_t column = 0; column < COLUMN_COUNT; column++) {
            cells[i * COLUMN_COUNT + column] = text[i][column];
        }
    }
    tt_table_print(stdout, columns, COLUMN_COUNT, cells, count);
}

static void print_all(const struct tt_interface *interfaces, size_t count)
{
    printf("tutti %s\ncompiler: %s\nbuild: %s\n", tutti_version(), BUILD_COMPILER, TT_BUILD_OPTIONS);
    for (unsigned i = 0; i < PROVIDER_COUNT; i++) {
        printf("provider: %s (%s; %s)\n", providers[i].name, providers[i].contract, providers[i].version);
    }
    putchar('\n');
    print_interfaces(interfaces, count);
}

static void print_all_json(const struct tt_interface *interfaces, size_t count)
{
    struct tt_json json;
    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "version", tutti_version());
    tt_json_text(&json, "compiler", BUILD_COMPILER);
    tt_json_text(&json, "build", TT_BUILD_OPTIONS);
    tt_json_begin_array(&json, "providers");
    for (unsigned i = 0; i < PROVIDER_COUNT; i++) {
        tt_json_begin_object(&json, NULL);
        tt_json_text(&json, "name", providers[i].name);
        tt_json_text(&json, "contract", providers[i].contract);
        tt_json_text(&json, "version", providers[i].version);
        tt_json_end_object(&json);
    }
    tt_json_end_array(&json);
    tt_json_begin_array(&json, "interfaces");
    for (size_t i = 0; i < count; i++) {
        char address[FLAGS_BYTES];
        format_address(&interfaces[i], address);
        tt_json_begin_object(&json, NULL);
        tt_json_text(&json, "name", interfaces[i].name);
        tt_json_text(&json, "address", tt_ip_is_none(interfaces[i].ip) ? "" : address);
        tt_json_count(&json, "mtu_bytes", interfaces[i].mtu);
        tt_json_count(&json, "speed_mbit", interfaces[i].speed_mbit);
        tt_json_flag(&json, "up", interfaces[i].up);
        tt_json_flag(&json, "loopback", interfaces[i].loopback);
        tt_json_flag(&json, "multicast", interfaces[i].multicast);
        tt_json_end_object(&json);
    }
    tt_json_end_array(&json);
    tt_json_end_object(&json);
}

static int print_machine(bool json)
{
    static struct tt_interface interfaces[INTERFACE_LIMIT];
    size_t count;
    if (tt_interface_list(interfaces, INTERFACE_LIMIT, &count) != TUTTI_OK) {
        fprintf(stderr, "tutti info: %s\n", tt_last_error());
        return TT_EXIT_FAILED;
    }
    if (count > INTERFACE_LIMIT) {
        fprintf(stderr, "tutti info: there are %zu addresses, the first %d are shown\n", count, INTERFACE_LIMIT);
        count = INTERFACE_LIMIT;
    }
    if (json) {
        print_all_json(interfaces, count);
    } else {
        print_all(interfaces, count);
    }
    return TT_EXIT_OK;
}

/* What `tutti info` is asked for. */
struct request {
    bool settings, devices, table, json;
};

static bool read_option(void *target, int option, const char *text)
{
    struct request *request = target;
    (void)text;
    request->settings = request->settings || option == OPTION_SETTINGS;
    request->devices = request->devices || option == OPTION_DEVICES;
    request->table = request->table || option == OPTION_TABLE;
    request->json = request->json || option == OPTION_JSON;
    return true;
}

static enum tt_parse parse_arguments(int argc, char **argv, struct request *request)
{
    enum tt_parse parse = tt_arguments_read_all(&usage, argc, argv, read_option, request);
    if (parse == TT_PARSE_OK && request->settings + request->devices + request->table > 1) {
        tt_usage_error(usage.name, "-c, -d and -t: one at a time");
        parse = TT_PARSE_BAD;
    }
    return parse;
}

int tt_command_info(int argc, char **argv)
{
    struct tt_settings settings;
    struct request request = {0};
    if (!tt_command_settings(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    enum tt_parse parse = parse_arguments(argc, argv, &request);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish(usage.name, TT_EXIT_OK);
    }
    if (parse == TT_PARSE_BAD || !tt_command_log(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    int status = TT_EXIT_OK;
    if (request.table) {
        status = show_table(&settings, request.json);
    } else if (request.devices) {
        status = tt_info_devices(&settings, request.json);
    } else if (!request.settings) {
        status = print_machine(request.json);
    } else if (request.json) {
        print_settings_json(&settings);
    } else {
        print_settings(&settings);
    }
    return tt_command_finish(usage.name, status);
}
