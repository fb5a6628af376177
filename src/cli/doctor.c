/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti doctor`: tells what on this machine keeps the library from working, or from working well.
 *
 * Normal path: the machine's limits, then MTU and multicast of the interface that TUTTI_INTERFACE names, or of every
 * interface that is up and has an address; each check ends in ok, warn or fail with what to do about it.
 *
 * Failures: a failed check is exit status 1. One interface on which multicast does not work is a warning while another
 * one works; none is a failure, and so is the one that was asked for.
 */
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/doctor_checks.h"
#include "cli/json.h"
#include "cli/table.h"

enum { OPTION_RANKS, OPTION_JSON, OPTION_HELP, OPTION_COUNT };

enum { RANK_LIMIT = TT_MAX_RANKS, INTERFACE_LIMIT = 64, COLUMN_COUNT = 4 };

static const struct tt_option options[OPTION_COUNT] = {
    [OPTION_RANKS] = {'n', "ranks", "RANKS", "that are to run on this machine; default TUTTI_SIZE"},
    [OPTION_JSON] = {0, "json", NULL, "one JSON object instead of the table"},
    [OPTION_HELP] = {'h', "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {
    .name = "doctor",
    .synopsis = "[OPTION]...",
    .purpose = "Checks this machine's limits, and tries multicast on each of its interfaces (on one, if\n"
               "TUTTI_INTERFACE is set). No data leaves the machine. Exit status 1 if a check fails.",
    .options = options,
    .option_count = OPTION_COUNT,
};

static void check_named_interface(const struct tt_settings *settings, struct tt_findings *findings)
{
    struct tt_interface interface;
    if (tt_interface_find(settings->interface, &interface) != TUTTI_OK) {
        tt_findings_add(findings, "interface", TT_VERDICT_FAIL, settings->interface, tt_last_error(),
                        "set TUTTI_INTERFACE to one that `tutti info` lists as up");
        return;
    }
    tt_doctor_judge_mtu(&interface, settings, findings);
    tt_doctor_try_multicast(&interface, true, findings);
}

static void check_all_interfaces(const struct tt_settings *settings, struct tt_findings *findings)
{
    static struct tt_interface interfaces[INTERFACE_LIMIT];
    size_t count;
    size_t candidates = 0;
    size_t working = 0;
    if (tt_interface_list(interfaces, INTERFACE_LIMIT, &count) != TUTTI_OK) {
        tt_findings_add(findings, "interfaces", TT_VERDICT_FAIL, "", tt_last_error(), "");
        return;
    }
    for (size_t i = 0; i < count && i < INTERFACE_LIMIT; i++) {
        if (interfaces[i].up && interfaces[i].address_be != 0) {
            candidates++;
            tt_doctor_judge_mtu(&interfaces[i], settings, findings);
            working += tt_doctor_try_multicast(&interfaces[i], false, findings) ? 1 : 0;
        }
    }
    if (candidates == 0) {
        tt_findings_add(findings, "interfaces", TT_VERDICT_FAIL, "", "none is up and has an IPv4 address",
                        "ip link set lo up, or the interface of the cluster");
    } else if (working == 0) {
        tt_findings_add(findings, "multicast", TT_VERDICT_FAIL, "", "works on no interface",
                        "the library still runs, over slower point-to-point algorithms");
    }
}

static void print_table(const struct tt_findings *findings)
{
    static const struct tt_column columns[COLUMN_COUNT] = {
        {"verdict", NULL, 0, true}, {"check", NULL, 0, true}, {"interface", NULL, 0, true}, {"found", NULL, 0, true}};
    static const char *cells[TT_FINDING_LIMIT * COLUMN_COUNT];
    for (size_t i = 0; i < findings->count; i++) {
        const struct tt_finding *finding = &findings->items[i];
        cells[i * COLUMN_COUNT] = tt_verdict_name(finding->verdict);
        cells[i * COLUMN_COUNT + 1] = finding->check;
        cells[i * COLUMN_COUNT + 2] = finding->subject;
        cells[i * COLUMN_COUNT + 3] = finding->found;
    }
    tt_table_print(stdout, columns, COLUMN_COUNT, cells, findings->count);
    for (size_t i = 0; i < findings->count; i++) {
        const struct tt_finding *finding = &findings->items[i];
        if (finding->advice[0] != '\0') {
            printf("%s: %s%s%s: %s\n", finding->verdict == TT_VERDICT_OK ? "hint" : "to do", finding->check,
                   finding->subject[0] != '\0' ? " of " : "", finding->subject, finding->advice);
        }
    }
    printf("verdict: %s\n", tt_verdict_name(findings->worst));
}

static void print_json(const struct tt_findings *findings)
{
    struct tt_json json;
    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "verdict", tt_verdict_name(findings->worst));
    tt_json_begin_array(&json, "checks");
    for (size_t i = 0; i < findings->count; i++) {
        const struct tt_finding *finding = &findings->items[i];
        tt_json_begin_object(&json, NULL);
        tt_json_text(&json, "check", finding->check);
        tt_json_text(&json, "interface", finding->subject);
        tt_json_text(&json, "verdict", tt_verdict_name(finding->verdict));
        tt_json_text(&json, "found", finding->found);
        tt_json_text(&json, "advice", finding->advice);
        tt_json_end_object(&json);
    }
    tt_json_end_array(&json);
    tt_json_end_object(&json);
}

/* What `tutti doctor` is asked for. */
struct request {
    uint64_t rank_count;
    bool json;
};

static bool read_option(void *target, int option, const char *text)
{
    struct request *request = target;
    if (option == OPTION_JSON) {
        request->json = true;
        return true;
    }
    return tt_arguments_count(usage.name, "-n", text, 1, RANK_LIMIT, &request->rank_count);
}

int tt_command_doctor(int argc, char **argv)
{
    static struct tt_findings findings;
    struct tt_settings settings;
    struct tt_machine machine;
    if (!tt_command_settings(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    struct request request = {.rank_count = settings.size == TT_AUTO ? 0 : settings.size};
    enum tt_parse parse = tt_arguments_read_all(&usage, argc, argv, read_option, &request);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish(usage.name, TT_EXIT_OK);
    }
    /* The log stays silent: what does not work here is a finding, and is in the table. */
    if (parse == TT_PARSE_BAD) {
        return TT_EXIT_USAGE;
    }
    tt_machine_examine(&settings, &machine);
    tt_doctor_judge_machine(&machine, &settings, (uint32_t)request.rank_count, &findings);
    if (strcmp(settings.interface, "auto") == 0) {
        check_all_interfaces(&settings, &findings);
    } else {
        check_named_interface(&settings, &findings);
    }
    if (request.json) {
        print_json(&findings);
    } else {
        print_table(&findings);
    }
    return tt_command_finish(usage.name, findings.worst == TT_VERDICT_FAIL ? TT_EXIT_FAILED : TT_EXIT_OK);
}
