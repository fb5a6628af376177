/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the benchmarks of endpoints (`tutti bench msgrate`, `globalarray`, `stencil`) have in common: options, the
 * choice of a device, and rows in which the rate stands beside what it takes from the NIC.
 */
#ifndef TT_CLI_BENCH_RDMA_H
#define TT_CLI_BENCH_RDMA_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/arguments.h"
#include "cli/json.h"
#include "cli/table.h"
#include "endpoint/plan.h"
#include "endpoint/traffic.h"

int tt_bench_msgrate(int argc, char **argv);
int tt_bench_globalarray(int argc, char **argv);
int tt_bench_stencil(int argc, char **argv);

/* The first options of each; its own ones follow. */
enum {
    TT_RDMA_OPTION_THREADS,
    TT_RDMA_OPTION_CATEGORY,
    TT_RDMA_OPTION_DRIVER,
    TT_RDMA_OPTION_DEVICE,
    TT_RDMA_OPTION_JSON,
    TT_RDMA_OPTION_HELP,
    TT_RDMA_OPTION_COUNT
};

#define TT_RDMA_OPTIONS                                                                                                \
    [TT_RDMA_OPTION_THREADS] = {'t', "threads", "T", "threads in all (16)"},                                           \
    [TT_RDMA_OPTION_CATEGORY] = {'c', "category", "CATEGORY",                                                          \
                                 "all, or only this one: mpi-everywhere, 2xdynamic,\ndynamic, shared-dynamic, "        \
                                 "static or mpi+threads"},                                                             \
    [TT_RDMA_OPTION_DRIVER] = {0, "driver", "DRIVER", "whose pages are counted: legacy or current (the default)"},     \
    [TT_RDMA_OPTION_DEVICE] = {'d', "device", "DEVICE", "RDMA device, or device:port (the first that is active)"},     \
    [TT_RDMA_OPTION_JSON] = {0, "json", NULL, "a JSON object a row"},                                                  \
    [TT_RDMA_OPTION_HELP] = {'h', "help", NULL, "this text"}

struct tt_rdma_bench;

/* What is wanted, and where. */
struct tt_rdma_wish {
    const struct tt_rdma_bench *bench;
    const struct tt_endpoint_calls *calls;
    const char *device;
    uint32_t port, gid_index, pkey_index;
    uint32_t threads;
    enum tt_endpoint_category first, last;
    bool chose_category;
    enum tt_endpoint_driver driver;
    bool json;
    FILE *stream; /* where rows go */
    /* The report's. */
    bool has_heading;
    double base_rate; /* of the row that others are compared with; 0: none has been measured */
    uint64_t base_uuars;
};

/* A benchmark; `own` is what it needs beside the wish. */
struct tt_rdma_bench {
    const struct tt_command_usage *usage;
    const char *label; /* title of its column for tt_rdma_row.label; NULL: it has none */
    bool (*read_option)(void *own, int option, const char *text);
    bool (*check)(void *own, const struct tt_rdma_wish *wish); /* what no option is wrong about alone */
    tutti_status (*run)(void *own, struct tt_rdma_wish *wish); /* prints rows */
    void (*print_json)(const void *own, struct tt_json *json); /* its options */
};

/* What has been measured. */
struct tt_rdma_row {
    const char *label;
    const char *share; /* what is shared, x ways; NULL: what the category shares */
    uint32_t ways;
    bool is_base;              /* the others' rates are given in percent of this one's */
    uint64_t duration_ns;      /* of all */
    uint64_t communication_ns; /* of it, what a thread spends posting and waiting, the mean of all */
    uint64_t messages;
    uint64_t wrong; /* results that are not what they must be */
};

/* The whole of a command, from its arguments to its exit status. */
int tt_rdma_command(const struct tt_rdma_bench *bench, void *own, int argc, char **argv);

/* The options of the traffic that follow from the wish. */
struct tt_traffic_options tt_rdma_traffic(const struct tt_rdma_wish *wish, enum tt_endpoint_category category);

/* Of what each thread has measured; there is one at least. */
uint64_t tt_rdma_mean(const uint64_t *values, uint32_t count);

/* Prints a row as soon as it is measured; IO if a result was wrong. */
tutti_status tt_rdma_print(struct tt_rdma_wish *wish, const void *own, const struct tt_traffic_options *options,
                           const struct tt_endpoint_made *made, const struct tt_rdma_row *row);

#endif
