/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: one rank of a measurement of object groups: how long an object takes from its send until all members have
 * it, by every algorithm, and how that compares with the object's bytes over the link's rate. `tutti run`, or
 * `testbed/testbed run`, starts the ranks.
 *
 * Normal path: for every algorithm an object group of all ranks. A round is: a barrier, the object, and the time until
 * it is complete here; the slowest rank's time counts. Every byte of each object is compared after its round.
 *
 * Failures: a call that fails ends this rank with status 1 and a line; so do wrong bytes. A command line that makes no
 * sense: status 2.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/settings.h"
#include "cli/arguments.h"
#include "cli/bench_pattern.h"
#include "cli/bench_statistics.h"
#include "cli/command.h"
#include "plan/rdmc.h"
#include "tutti/object.h"

enum { ROUND_LIMIT = 100, RACK_LIMIT = 64, ALGORITHMS = TUTTI_OBJECT_HYBRID };

static const struct tt_option options[] = {
    {'b', "bytes", "BYTES", "size of an object (default 64M)"},
    {'i', "iterations", "N", "objects by each algorithm (default 5)"},
    {'a', "algorithm", "NAME", "this one only, as tutti plan rdmc names them"},
    {0, "block", "BYTES", "block size (default: by the object's size)"},
    {0, "credit", "N", "blocks that a neighbour is ready for at once, 1 or 2 (default 2)"},
    {0, "rack", "N", "members of a rank's rack, for the hybrid (default 4)"},
    {0, "rate", "BITS", "of a link; adds a column: the time over bytes / rate"},
    {0, "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {.name = "objects",
                                              .synopsis = "[OPTION]...",
                                              .purpose = "Measures object groups.",
                                              .options = options,
                                              .option_count = sizeof options / sizeof options[0]};

struct bench {
    uint64_t bytes, iterations, block_bytes, credit, rack, bits_per_second;
    int only; /* tutti_object_algorithm; 0: all */
    tutti_context *context;
    tutti_group *group;
    uint8_t *buffer;
    uint64_t round;
    bool is_complete, is_wrong;
    uint64_t complete_ns;
};

static tutti_status failed(const struct bench *bench, const char *what, tutti_status status)
{
    fprintf(stderr, "objects: rank %u: %s: %s\n", bench->group != NULL ? tutti_group_rank(bench->group) : 0, what,
            tutti_last_error());
    return status;
}

static const char *word_of(int algorithm)
{
    return tt_rdmc_word((enum tt_rdmc_algorithm)(algorithm - 1)); /* the same order, behind AUTO */
}

/* --- Callbacks ---------------------------------------------------------------------------------------------------- */

static tutti_status incoming(void *argument, uint64_t sequence, uint64_t size_bytes, void **memory)
{
    (void)sequence, (void)size_bytes;
    *memory = ((struct bench *)argument)->buffer;
    return TUTTI_OK;
}

static void completion(void *argument, uint64_t sequence, void *memory, uint64_t size_bytes)
{
    struct bench *bench = argument;

    (void)sequence, (void)memory, (void)size_bytes;
    bench->complete_ns = tt_clock_now_ns();
    bench->is_complete = true;
}

/* --- Rounds ------------------------------------------------------------------------------------------------------- */

/* What every rank says, to all. Also a barrier. */
static tutti_status gather(const struct bench *bench, uint64_t mine, uint64_t *all)
{
    tutti_request *request;
    tutti_status status = tutti_allgather_init(bench->group, &mine, all, sizeof mine, NULL, &request);

    if (status == TUTTI_OK) {
        status = tutti_post(request);
        status = status == TUTTI_OK ? tutti_wait(request) : status;
        tutti_finalize(request);
    }
    return status;
}

static tutti_status run_round(struct bench *bench, tutti_object_group *objects, uint64_t *all, uint64_t *slowest_ns)
{
    uint32_t rank = tutti_group_rank(bench->group), size = tutti_group_size(bench->group);
    struct tt_pattern_error first;
    tutti_status status;
    uint64_t start_ns;

    bench->round++;
    bench->is_complete = false;
    if (rank == 0) {
        tt_pattern_fill(bench->buffer, bench->bytes, 0, bench->round);
    } else {
        tt_pattern_poison(bench->buffer, bench->bytes, 0, bench->round);
    }
    status = gather(bench, 0, all);
    start_ns = tt_clock_now_ns();
    if (status == TUTTI_OK && rank == 0) {
        status = tutti_object_send(objects, bench->buffer, bench->bytes);
    }
    while (status == TUTTI_OK && !bench->is_complete) {
        status = tutti_object_wait(objects, UINT64_MAX, NULL);
    }
    if (status == TUTTI_OK) {
        status = gather(bench, bench->complete_ns - start_ns, all);
    }
    if (status == TUTTI_OK && tt_pattern_check(bench->buffer, bench->bytes, 0, bench->round, &first) > 0) {
        fprintf(stderr, "objects: rank %u: byte %" PRIu64 " is wrong\n", rank, first.offset_bytes);
        bench->is_wrong = true;
    }
    *slowest_ns = 0;
    for (uint32_t i = 0; status == TUTTI_OK && i < size; i++) {
        *slowest_ns = all[i] > *slowest_ns ? all[i] : *slowest_ns;
    }
    return status;
}

static void print_row(const struct bench *bench, int algorithm, const struct tt_statistics *time)
{
    printf("%-18s %12" PRIu64 " %10.3f %10.3f %10.3f %9.3f", word_of(algorithm), bench->bytes, time->min_ns / 1e6,
           time->median_ns / 1e6, time->max_ns / 1e6, (double)bench->bytes / time->median_ns);
    if (bench->bits_per_second > 0) {
        printf(" %8.3f", time->median_ns / ((double)bench->bytes * 8e9 / (double)bench->bits_per_second));
    }
    putchar('\n');
    fflush(stdout);
}

static tutti_status measure(struct bench *bench, int algorithm, uint64_t *all)
{
    uint32_t size = tutti_group_size(bench->group), racks[RACK_LIMIT], rack_count = 0;
    uint64_t samples_ns[ROUND_LIMIT], warm_up;
    struct tt_statistics time;
    tutti_object_options terms = {.struct_size = sizeof terms,
                                  .algorithm = (tutti_object_algorithm)algorithm,
                                  .block_bytes = bench->block_bytes,
                                  .credit = (uint32_t)bench->credit,
                                  .registrations = 1,
                                  .argument = bench,
                                  .incoming = incoming,
                                  .completion = completion};
    tutti_object_group *objects;
    tutti_status status;

    for (uint32_t left = size; algorithm == TUTTI_OBJECT_HYBRID && left > 0 && rack_count < RACK_LIMIT; rack_count++) {
        racks[rack_count] = left < bench->rack ? left : (uint32_t)bench->rack;
        left -= racks[rack_count];
    }
    terms.rack_sizes = rack_count > 0 ? racks : NULL;
    terms.rack_count = rack_count;
    status = tutti_object_group_create(bench->group, &terms, &objects);
    if (status != TUTTI_OK) {
        return failed(bench, "creating the object group", status);
    }
    status = run_round(bench, objects, all, &warm_up);
    for (uint64_t i = 0; status == TUTTI_OK && i < bench->iterations; i++) {
        status = run_round(bench, objects, all, &samples_ns[i]);
    }
    status = status == TUTTI_OK ? tutti_object_group_close(objects) : status;
    if (status != TUTTI_OK) {
        failed(bench, word_of(algorithm), status);
    } else if (tutti_group_rank(bench->group) == 0) {
        tt_statistics_compute(samples_ns, bench->iterations, &time);
        print_row(bench, algorithm, &time);
    }
    tutti_object_group_destroy(objects);
    return status;
}

static tutti_status run(struct bench *bench)
{
    tutti_status status = tutti_context_create(NULL, &bench->context);
    uint64_t *all;

    if (status == TUTTI_OK) {
        status = tutti_group_create_from_environment(bench->context, &bench->group);
    }
    if (status != TUTTI_OK) {
        return failed(bench, "creating the group", status);
    }
    bench->buffer = malloc(bench->bytes);
    all = calloc(tutti_group_size(bench->group), sizeof *all);
    if (bench->buffer == NULL || all == NULL) {
        free(all);
        fprintf(stderr, "objects: no memory for %" PRIu64 " bytes\n", bench->bytes);
        return TUTTI_ERR_NO_MEMORY;
    }
    if (tutti_group_rank(bench->group) == 0) {
        printf("# %u ranks, %" PRIu64 " objects each, time until the slowest rank has it\n",
               tutti_group_size(bench->group), bench->iterations);
        printf("%-18s %12s %10s %10s %10s %9s%s\n", "algorithm", "bytes", "min ms", "median ms", "max ms", "GB/s",
               bench->bits_per_second > 0 ? "   x wire" : "");
    }
    for (int algorithm = 1; status == TUTTI_OK && algorithm <= ALGORITHMS; algorithm++) {
        if (bench->only == 0 || bench->only == algorithm) {
            status = measure(bench, algorithm, all);
        }
    }
    free(all);
    return status;
}

static bool take_option(void *target, int option, const char *value)
{
    struct bench *bench = target;
    enum tt_rdmc_algorithm algorithm;
    tutti_status status = TUTTI_OK;

    switch (option) {
    case 0:
        status = tt_parse_size(value, &bench->bytes);
        break;
    case 1:
        return tt_arguments_count("objects", "--iterations", value, 1, ROUND_LIMIT, &bench->iterations);
    case 2:
        if (!tt_rdmc_of_word(value, &algorithm)) {
            tt_usage_error("objects", "--algorithm %s: there is none of that name", value);
            return false;
        }
        bench->only = (int)algorithm + 1;
        return true;
    case 3:
        status = tt_parse_size(value, &bench->block_bytes);
        break;
    case 4:
        return tt_arguments_count("objects", "--credit", value, 1, 2, &bench->credit);
    case 5:
        return tt_arguments_count("objects", "--rack", value, 1, TT_MAX_RANKS, &bench->rack);
    default:
        status = tt_parse_rate(value, &bench->bits_per_second);
        break;
    }
    if (status != TUTTI_OK) {
        tt_usage_error("objects", "%s", tutti_last_error());
    }
    return status == TUTTI_OK;
}

int main(int argc, char **argv)
{
    struct bench bench = {.bytes = 64 << 20, .iterations = 5, .rack = 4};
    tutti_status status;
    enum tt_parse parse;

    parse = tt_arguments_read_all(&usage, argc, argv, take_option, &bench);
    if (parse != TT_PARSE_OK) {
        return parse == TT_PARSE_HELP ? TT_EXIT_OK : TT_EXIT_USAGE;
    }
    status = run(&bench);
    tutti_group_destroy(bench.group);
    tutti_context_destroy(bench.context);
    free(bench.buffer);
    return status == TUTTI_OK && !bench.is_wrong ? TT_EXIT_OK : TT_EXIT_FAILED;
}
