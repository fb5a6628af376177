/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti doctor`: tells what on this machine keeps the library from working, or from working well.
 *
 * Normal path: the machine's limits, then MTU and multicast of the interface that TUTTI_INTERFACE names, or of every
 * interface that is up and has an address, then what else a job needs at its start; each check ends in ok, warn or fail
 * with what to do about it.
 *
 * Failures: a failed check is exit status 1. One interface on which multicast does not work is a warning while another
 * one works; none is a failure, and so is the one that was asked for. Without an IPv4 address but loopback's there is a
 * warning, since a job on this host still runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/doctor_checks.h"
#include "cli/doctor_job.h"
#include "cli/doctor_pair.h"
#include "cli/launch.h"
#include "cli/table.h"
#include "engine/environment.h"

enum {
    OPTION_RANKS,
    OPTION_JOB,
    OPTION_PAIRS,
    OPTION_LIMIT,
    OPTION_LISTEN,
    OPTION_PEER,
    OPTION_PORT,
    OPTION_WAIT,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_COUNT
};

enum {
    RANK_LIMIT = TT_MAX_RANKS,
    INTERFACE_LIMIT = 64,
    COLUMN_COUNT = 4,
    LIMIT_S = 60,
    MOST_LIMIT_S = 3600,
    WAIT_S = 600,
    MOST_WAIT_S = 86400
};

static const struct tt_option options[OPTION_COUNT] = {
    [OPTION_RANKS] = {'n', "ranks", "RANKS", "that are to run on this machine; default TUTTI_SIZE"},
    [OPTION_JOB] = {0, "job", NULL, "measure the paths between the hosts of a job"},
    [OPTION_PAIRS] = {0, "pairs", NULL, "with --job: rate and loss of every pair"},
    [OPTION_LIMIT] = {0, "limit", "SECONDS", "with --job: measure no longer than this and 10 s; default 60"},
    [OPTION_LISTEN] = {0, "listen", NULL, "wait for --peer of another machine, and measure the path between the two"},
    [OPTION_PEER] = {0, "peer", "HOST", "the machine on which --listen waits"},
    [OPTION_PORT] = {0, "port", "PORT", "with --listen and --peer: TCP port where they meet; default 29500"},
    [OPTION_WAIT] = {0, "wait", "TIME", "with --listen: how long to wait for --peer; default 600s"},
    [OPTION_JSON] = {0, "json", NULL, "one JSON object instead of the table"},
    [OPTION_HELP] = {'h', "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {
    .name = "doctor",
    .synopsis = "[OPTION]...",
    .purpose = "Checks this machine's limits, and tries multicast on each of its interfaces (on one, if\n"
               "TUTTI_INTERFACE is set). No data leaves the machine. Exit status 1 if a check fails.\n\n"
               "With --job it is one rank of a job (under mpirun, srun, torchrun or with TUTTI_RANK, TUTTI_SIZE\n"
               "and TUTTI_ROOT; or -n RANKS starts them here), measures the paths between the job's hosts (MTU,\n"
               "multicast, rate, loss, round trip), and says what is wrong. It fills one path of a host at a\n"
               "time, for some tenths of a second: 1 s a round, 4 rounds, or all with --pairs.\n\n"
               "With --listen on one machine and --peer on another it tries between the two what a job needs\n"
               "(TCP and UDP at TUTTI_PORTS, multicast, MTU), without a job or a launcher, and says on both\n"
               "what works, what does not, why, and what to do.",
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
    count = count < INTERFACE_LIMIT ? count : INTERFACE_LIMIT;
    for (size_t i = 0; i < count; i++) {
        /* What has IPv4 is used over that. */
        bool again = i > 0 && tt_ip_is_ipv6(interfaces[i].ip) && interfaces[i].index == interfaces[i - 1].index;
        if (interfaces[i].up && !tt_ip_is_none(interfaces[i].ip) && !again) {
            candidates++;
            tt_doctor_judge_mtu(&interfaces[i], settings, findings);
            working += tt_doctor_try_multicast(&interfaces[i], false, findings) ? 1 : 0;
        }
    }
    tt_doctor_judge_addresses(interfaces, count, findings);
    if (candidates > 0 && working == 0) {
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

/* What `tutti doctor` is asked for. */
struct request {
    uint64_t rank_count;
    uint64_t limit_s;
    bool json, job, pairs, listen;
    const char *peer; /* NULL: --peer was not given; like all words here, it lives longer than the parsing */
    uint64_t port;
    uint64_t wait_ns;
    const char *job_only;    /* an option that was given and needs --job */
    const char *pair_only;   /* the same of --listen or --peer */
    const char *listen_only; /* the same of --listen */
    const char *ranks;       /* of -n */
};

static bool read_option(void *target, int option, const char *text)
{
    struct request *request = target;
    switch (option) {
    case OPTION_JSON:
        request->json = true;
        return true;
    case OPTION_JOB:
        request->job = true;
        return true;
    case OPTION_PAIRS:
        request->pairs = true;
        request->job_only = "--pairs";
        return true;
    case OPTION_LIMIT:
        request->job_only = "--limit";
        return tt_arguments_count(usage.name, "--limit", text, 1, MOST_LIMIT_S, &request->limit_s);
    case OPTION_LISTEN:
        request->listen = true;
        return true;
    case OPTION_PEER:
        request->peer = text;
        if (text[0] == '\0') {
            tt_usage_error(usage.name, "--peer '': must not be empty");
        }
        return text[0] != '\0';
    case OPTION_PORT:
        request->pair_only = "--port";
        return tt_arguments_count(usage.name, "--port", text, 1, UINT16_MAX, &request->port);
    case OPTION_WAIT:
        request->listen_only = "--wait";
        if (tt_parse_time(text, &request->wait_ns) != TUTTI_OK) {
            tt_usage_error_value(usage.name, "--wait", text, NULL);
            return false;
        }
        if (request->wait_ns == 0 || request->wait_ns > MOST_WAIT_S * TT_NS_PER_S) {
            tt_usage_error(usage.name, "--wait '%s': must be from 1 ns to 24 hours", text);
            return false;
        }
        return true;
    default:
        request->ranks = text;
        return tt_arguments_count(usage.name, "-n", text, 1, RANK_LIMIT, &request->rank_count);
    }
}

/* This machine alone. */
static int examine(const struct request *request, const struct tt_settings *settings)
{
    static struct tt_findings findings;
    struct tt_machine machine;
    tt_machine_examine(settings, &machine);
    tt_doctor_judge_machine(&machine, settings, (uint32_t)request->rank_count, &findings);
    if (strcmp(settings->interface, "auto") == 0) {
        check_all_interfaces(settings, &findings);
    } else {
        check_named_interface(settings, &findings);
    }
    tt_doctor_check_loopback(&findings);
    tt_doctor_check_settings(settings, &findings);
    if (request->json) {
        tt_doctor_print_findings_json(&findings, "interface");
    } else {
        print_table(&findings);
    }
    return findings.worst == TT_VERDICT_FAIL ? TT_EXIT_FAILED : TT_EXIT_OK;
}

/* One rank of a job, or the start of all. */
static int run_job(const struct request *request, struct tt_settings *settings, int argc, char **argv)
{
    struct tt_doctor_job_options job = {
        .pairs = request->pairs, .json = request->json, .limit_ns = request->limit_s * TT_NS_PER_S};
    struct tt_environment environment;
    int status = TT_EXIT_USAGE;
    if (tt_environment_find(settings, &environment) != TUTTI_OK) {
        tt_usage_error(usage.name, "%s", tt_last_error());
        return TT_EXIT_USAGE;
    }
    if (environment.source == TT_ENVIRONMENT_NONE && request->ranks == NULL) {
        tt_usage_error(usage.name,
                       "--job: no launcher has started this process; -n RANKS starts ranks on this machine");
    } else if (environment.source == TT_ENVIRONMENT_NONE) {
        status = tt_launch_again(usage.name, (uint32_t)request->rank_count, argc, argv);
    } else if (request->ranks != NULL && request->rank_count != environment.size) {
        tt_usage_error(usage.name, "-n '%s': this is a rank of a job already (%s)", request->ranks, environment.text);
    } else if (tt_command_log(usage.name, settings)) {
        settings->rank = environment.rank;
        settings->size = environment.size;
        status = tt_doctor_job(&job, settings);
    }
    tt_environment_release(&environment);
    return status;
}

/* One of two that meet by hand. */
static int run_pair(const struct request *request, const struct tt_settings *settings)
{
    struct tt_doctor_pair_options pair = {
        .peer = request->peer, .port = (uint16_t)request->port, .wait_ns = request->wait_ns, .json = request->json};
    return tt_command_log(usage.name, settings) ? tt_doctor_pair(&pair, settings) : TT_EXIT_USAGE;
}

/* Options that are given, but of which each needs another one. */
static bool fit_together(const struct request *request)
{
    bool pair = request->listen || request->peer != NULL;
    if (request->job + request->listen + (request->peer != NULL) > 1) {
        tt_usage_error(usage.name, "only one of --job, --listen and --peer");
    } else if (request->job_only != NULL && !request->job) {
        tt_usage_error(usage.name, "%s: only with --job", request->job_only);
    } else if (request->pair_only != NULL && !pair) {
        tt_usage_error(usage.name, "%s: only with --listen or --peer", request->pair_only);
    } else if (request->listen_only != NULL && !request->listen) {
        tt_usage_error(usage.name, "%s: only with --listen", request->listen_only);
    } else if (request->ranks != NULL && pair) {
        tt_usage_error(usage.name, "-n: not with --listen or --peer");
    } else {
        return true;
    }
    return false;
}

int tt_command_doctor(int argc, char **argv)
{
    struct tt_settings settings;
    if (!tt_command_settings(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    struct request request = {.rank_count = settings.size == TT_AUTO ? 0 : settings.size,
                              .limit_s = LIMIT_S,
                              .port = TT_DOCTOR_PAIR_PORT,
                              .wait_ns = WAIT_S * TT_NS_PER_S};
    /* Parsing reorders its argv; the ranks get what the user wrote. */
    char **scratch = calloc((size_t)argc + 1, sizeof(*scratch));
    if (scratch == NULL) {
        fprintf(stderr, "tutti doctor: out of memory\n");
        return TT_EXIT_FAILED;
    }
    memcpy(scratch, argv, (size_t)argc * sizeof(*argv));
    enum tt_parse parse = tt_arguments_read_all(&usage, argc, scratch, read_option, &request);
    free(scratch);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish(usage.name, TT_EXIT_OK);
    }
    if (parse == TT_PARSE_BAD || !fit_together(&request)) {
        return TT_EXIT_USAGE;
    }
    /* Without a job the log stays silent: what does not work here is a finding, and is in the table. */
    int status = request.job                              ? run_job(&request, &settings, argc, argv)
                 : request.listen || request.peer != NULL ? run_pair(&request, &settings)
                                                          : examine(&request, &settings);
    return tt_command_finish(usage.name, status);
}
