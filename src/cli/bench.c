/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti bench`: checks the command line, then either is one rank of a job, or starts the ranks, each of which
 * is this program again with the same arguments.
 *
 * What measures endpoints instead of collectives has files of its own (bench_rdma.c), and is called before all that.
 *
 * Normal path: settings, who has started this process, arguments, launch; the ranks do the work (bench_rank.c).
 *
 * Failures: what is wrong with the command line is said before any process is started, with exit status 2; that
 * includes sizes for which this machine has not enough memory. Whatever a rank could not do is exit status 1.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/bench_arguments.h"
#include "cli/bench_rank.h"
#include "cli/bench_rdma.h"
#include "cli/bench_tune.h"
#include "cli/command.h"
#include "cli/launch.h"
#include "engine/environment.h"

/* Ranks that are killed for lack of memory tell nobody why: better to say it first. */
static bool check_memory(const struct tt_bench_arguments *arguments)
{
    const struct tt_bench_job *job = &arguments->job;
    uint64_t root_need = tt_bench_buffers_need(job, true, arguments->max_bytes);
    uint64_t other_need = tt_bench_buffers_need(job, false, arguments->max_bytes);
    long pages = sysconf(_SC_PHYS_PAGES);
    long page_bytes = sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) {
        return true; /* the system does not say */
    }
    uint64_t memory = (uint64_t)pages * (uint64_t)page_bytes;
    if (root_need <= memory && (job->rank_count == 1 || other_need <= (memory - root_need) / (job->rank_count - 1))) {
        return true;
    }
    tt_usage_error("bench",
                   "%" PRIu64 " bytes: %" PRIu32 " ranks on this machine need up to %" PRIu64
                   " MiB each, and it has %" PRIu64 " MiB",
                   arguments->max_bytes, job->rank_count, (root_need > other_need ? root_need : other_need) >> 20,
                   memory >> 20);
    return false;
}

/* The command from its arguments on; the environment has been read. */
static int run_bench(int argc, char **argv, const struct tt_settings *settings, const char *job)
{
    struct tt_bench_arguments arguments;
    /* Parsing reorders its argv; the ranks get what the user wrote. */
    char **scratch = calloc((size_t)argc + 1, sizeof(*scratch));
    if (scratch == NULL) {
        fprintf(stderr, "tutti bench: out of memory\n");
        return TT_EXIT_FAILED;
    }
    memcpy(scratch, argv, (size_t)argc * sizeof(*argv));
    enum tt_parse parse = tt_bench_arguments_parse(argc, scratch, settings, job, &arguments);
    free(scratch);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish("bench", TT_EXIT_OK);
    }
    if (parse == TT_PARSE_BAD || !tt_command_log("bench", settings)) {
        return TT_EXIT_USAGE;
    }
    if (arguments.is_rank) {
        return tt_command_finish("bench", arguments.tune ? tt_bench_tune(&arguments, settings)
                                                         : tt_bench_rank(&arguments, settings));
    }
    return check_memory(&arguments) ? tt_launch_again("bench", arguments.job.rank_count, argc, argv) : TT_EXIT_USAGE;
}

/* What measures endpoints on one device, in this process alone. */
static const struct {
    const char *name;
    int (*run)(int argc, char **argv);
} endpoint_benches[] = {
    {"msgrate", tt_bench_msgrate},
    {"globalarray", tt_bench_globalarray},
    {"stencil", tt_bench_stencil},
};

int tt_command_bench(int argc, char **argv)
{
    for (size_t i = 0; argc > 1 && i < sizeof(endpoint_benches) / sizeof(endpoint_benches[0]); i++) {
        if (strcmp(argv[1], endpoint_benches[i].name) == 0) {
            return endpoint_benches[i].run(argc - 1, argv + 1);
        }
    }
    struct tt_settings settings;
    struct tt_environment environment;
    if (!tt_command_settings("bench", &settings)) {
        return TT_EXIT_USAGE;
    }
    if (tt_environment_find(&settings, &environment) != TUTTI_OK) {
        tt_usage_error("bench", "%s", tt_last_error());
        return TT_EXIT_USAGE;
    }
    if (environment.source != TT_ENVIRONMENT_NONE) {
        settings.rank = environment.rank;
        settings.size = environment.size;
    }
    int status = run_bench(argc, argv, &settings, environment.text);
    tt_environment_release(&environment);
    return status;
}
