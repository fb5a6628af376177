/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the benchmarks of endpoints from their command lines to their exit statuses.
 *
 * Normal path: settings, arguments, the device and its port, then the benchmark, which prints a row for each thing that
 * it has measured.
 *
 * Failures: a command line that cannot be is one line and exit status 2. No device, a device that refuses something and
 * a wrong result are exit status 1.
 */
#include "cli/bench_rdma.h"

#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"
#include "cli/command.h"
#include "cli/crew.h"
#include "cli/endpoint_columns.h"
#include "fabric/verbs/verbs.h"

enum { DEFAULT_THREADS = 16 };

static bool read_category(const char *command, const char *text, struct tt_rdma_wish *wish)
{
    wish->chose_category = true;
    if (strcmp(text, "all") == 0) {
        wish->first = (enum tt_endpoint_category)0;
        wish->last = (enum tt_endpoint_category)(TT_ENDPOINT_CATEGORY_COUNT - 1);
        return true;
    }
    if (!tt_endpoint_read_category(command, text, &wish->first)) {
        return false;
    }
    wish->last = wish->first;
    return true;
}

/* Where options go: what all these benchmarks share, and a benchmark's own. */
struct parse {
    struct tt_rdma_wish *wish;
    void *own;
    struct tt_settings *settings;
};

static bool read_option(void *target, int option, const char *text)
{
    struct parse *parse = target;
    struct tt_rdma_wish *wish = parse->wish;
    const char *name = wish->bench->usage->name;
    uint64_t count;

    switch (option) {
    case TT_RDMA_OPTION_THREADS:
        if (!tt_arguments_count(name, "--threads", text, 1, TT_ENDPOINT_THREADS_MAX, &count)) {
            return false;
        }
        wish->threads = (uint32_t)count;
        return true;
    case TT_RDMA_OPTION_CATEGORY:
        return read_category(name, text, wish);
    case TT_RDMA_OPTION_DRIVER:
        return tt_endpoint_read_driver(name, text, &wish->driver);
    case TT_RDMA_OPTION_DEVICE:
        if (tt_settings_set(parse->settings, "DEVICE", text) != TUTTI_OK) {
            tt_usage_error_value(name, "--device", text, "DEVICE");
            return false;
        }
        return true;
    case TT_RDMA_OPTION_JSON:
        wish->json = true;
        return true;
    default:
        return wish->bench->read_option(parse->own, option, text);
    }
}

static enum tt_parse parse_arguments(int argc, char **argv, struct tt_rdma_wish *wish, void *own,
                                     struct tt_settings *settings)
{
    struct parse parse = {.wish = wish, .own = own, .settings = settings};
    enum tt_parse status = tt_arguments_read_all(wish->bench->usage, argc, argv, read_option, &parse);

    return status == TT_PARSE_OK && !wish->bench->check(own, wish) ? TT_PARSE_BAD : status;
}

static int run(struct tt_rdma_wish *wish, void *own, const struct tt_settings *settings)
{
    const struct tt_verbs_device_options options = {
        .name = settings->device, .gid_index = settings->gid, .pkey = settings->pkey};
    struct tt_verbs_port port;

    if (tt_verbs_find(&options, &port) != TUTTI_OK) {
        fprintf(
            stderr,
            "tutti %s: %s; an RDMA adapter with its driver (mlx5_ib), rdma-core's libraries and its provider for it "
            "(Debian: librdmacm1, ibverbs-providers) make one, or the kernel's rdma_rxe on any network interface (rdma "
            "link add)\n",
            wish->bench->usage->name, tt_last_error());
        return TT_EXIT_FAILED;
    }
    wish->calls = tt_endpoint_libibverbs();
    wish->device = port.device;
    wish->port = port.port;
    wish->gid_index = port.gid_index;
    wish->pkey_index = port.pkey_index;
    if (wish->bench->run(own, wish) != TUTTI_OK) {
        fprintf(stderr, "tutti %s: %s\n", wish->bench->usage->name, tt_last_error());
        return TT_EXIT_FAILED;
    }
    return TT_EXIT_OK;
}

int tt_rdma_command(const struct tt_rdma_bench *bench, void *own, int argc, char **argv)
{
    const char *name = bench->usage->name;
    struct tt_rdma_wish wish = {.bench = bench,
                                .threads = DEFAULT_THREADS,
                                .last = (enum tt_endpoint_category)(TT_ENDPOINT_CATEGORY_COUNT - 1),
                                .driver = TT_ENDPOINT_CURRENT,
                                .stream = stdout};
    struct tt_settings settings;

    if (!tt_command_settings(name, &settings)) {
        return TT_EXIT_USAGE;
    }
    enum tt_parse parse = parse_arguments(argc, argv, &wish, own, &settings);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish(name, TT_EXIT_OK);
    }
    if (parse == TT_PARSE_BAD || !tt_command_log(name, &settings)) {
        return TT_EXIT_USAGE;
    }
    return tt_command_finish(name, run(&wish, own, &settings));
}

struct tt_traffic_options tt_rdma_traffic(const struct tt_rdma_wish *wish, enum tt_endpoint_category category)
{
    return (struct tt_traffic_options){.calls = wish->calls,
                                       .device = wish->device,
                                       .port = wish->port,
                                       .gid_index = wish->gid_index,
                                       .pkey_index = wish->pkey_index,
                                       .category = category,
                                       .sets = 1,
                                       .threads = wish->threads,
                                       .lanes = 1,
                                       .threads_per_completion_queue = 1,
                                       .threads_per_queue_pair = 1,
                                       .postlist = 1,
                                       .unsignalled = 1,
                                       .yields = wish->threads > tt_crew_cores()};
}
