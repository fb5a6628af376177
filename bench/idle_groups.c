/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what groups in which nothing moves cost a small Broadcast in another one, and what it takes to create them.
 * One rank's part; any launcher that tutti knows starts the ranks.
 *
 * Normal path: two contexts with a group each, in which Broadcasts are timed; the second context also has G groups that
 * are idle. The two take turns in batches of N Broadcasts, so that whatever else runs on the machine slows both down;
 * the median of the batches counts.
 *
 * Failures: a call that fails ends this rank with one line and status 1. A command line that makes no sense: status 2.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/settings.h"
#include "cli/command.h"
#include "options.h"
#include "tutti/tutti.h"

enum { WARM = 20, CONTEXTS = 2, GROUPS_LIMIT = 10000, BATCHES_LIMIT = 10000, COUNT_LIMIT = 1000000 };

struct idle_groups {
    uint64_t group_count, batch_count, count, size_bytes;
    tutti_context *contexts[CONTEXTS];
    tutti_group *busy[CONTEXTS];
    tutti_request *requests[CONTEXTS];
    tutti_group **idle;
    void *memory;
    uint64_t *times_ns[CONTEXTS]; /* by batch */
    uint64_t creation_ns;
};

static tutti_status say(const char *what, tutti_status status)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "idle_groups: %s: %s\n", what, tutti_last_error());
    }
    return status;
}

static tutti_status begin(struct idle_groups *run)
{
    tutti_status status = TUTTI_OK;
    uint64_t begun_ns;

    for (uint32_t i = 0; i < CONTEXTS && status == TUTTI_OK; i++) {
        status = tutti_context_create(NULL, &run->contexts[i]);
        if (status == TUTTI_OK) {
            status = tutti_group_create_from_environment(run->contexts[i], &run->busy[i]);
        }
        if (status == TUTTI_OK) {
            status = tutti_broadcast_init(run->busy[i], run->memory, run->memory, run->size_bytes, 0, NULL,
                                          &run->requests[i]);
        }
    }
    begun_ns = tt_clock_now_ns();
    for (uint64_t i = 0; i < run->group_count && status == TUTTI_OK; i++) {
        status = tutti_group_create_from_environment(run->contexts[1], &run->idle[i]);
    }
    run->creation_ns = tt_clock_now_ns() - begun_ns;
    return say("creating groups", status);
}

static tutti_status broadcast(tutti_request *request, uint64_t count)
{
    tutti_status status = TUTTI_OK;

    for (uint64_t i = 0; i < count && status == TUTTI_OK; i++) {
        status = tutti_post(request);
        status = status == TUTTI_OK ? tutti_wait(request) : status;
    }
    return status;
}

static tutti_status measure(struct idle_groups *run)
{
    tutti_status status = TUTTI_OK;

    for (uint64_t batch = 0; batch < run->batch_count && status == TUTTI_OK; batch++) {
        for (uint32_t i = 0; i < CONTEXTS && status == TUTTI_OK; i++) {
            uint64_t begun_ns;

            status = broadcast(run->requests[i], WARM);
            begun_ns = tt_clock_now_ns();
            if (status == TUTTI_OK) {
                status = broadcast(run->requests[i], run->count);
            }
            run->times_ns[i][batch] = tt_clock_now_ns() - begun_ns;
        }
    }
    return say("broadcasting", status);
}

static int compare(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

    return (a > b) - (a < b);
}

static void print(struct idle_groups *run)
{
    double median_us[CONTEXTS];

    for (uint32_t i = 0; i < CONTEXTS; i++) {
        qsort(run->times_ns[i], run->batch_count, sizeof(*run->times_ns[i]), compare);
        median_us[i] = (double)run->times_ns[i][run->batch_count / 2] / (double)run->count / TT_NS_PER_US;
    }
    printf("%" PRIu64 " groups created in %.3f s\n", run->group_count,
           (double)run->creation_ns / (double)(1000 * TT_NS_PER_MS));
    printf("a Broadcast of %" PRIu64 " bytes: alone %.2f us, beside them %.2f us, %.3f times\n", run->size_bytes,
           median_us[0], median_us[1], median_us[1] / median_us[0]);
}

static tutti_status end(struct idle_groups *run)
{
    tutti_status status = TUTTI_OK;

    for (uint64_t i = 0; i < run->group_count && status == TUTTI_OK; i++) {
        status = tutti_group_destroy(run->idle[i]);
    }
    for (uint32_t i = 0; i < CONTEXTS && status == TUTTI_OK; i++) {
        status = tutti_finalize(run->requests[i]);
        status = status == TUTTI_OK ? tutti_group_destroy(run->busy[i]) : status;
        status = status == TUTTI_OK ? tutti_context_destroy(run->contexts[i]) : status;
    }
    return say("destroying groups", status);
}

static int run_all(struct idle_groups *run)
{
    tutti_status status = TUTTI_ERR_NO_MEMORY;

    run->idle = calloc(run->group_count + 1, sizeof(tutti_group *));
    run->memory = calloc(1, run->size_bytes);
    for (uint32_t i = 0; i < CONTEXTS; i++) {
        run->times_ns[i] = calloc(run->batch_count, sizeof(*run->times_ns[i]));
    }
    if (run->idle != NULL && run->memory != NULL && run->times_ns[0] != NULL && run->times_ns[1] != NULL) {
        status = begin(run);
    }
    if (status == TUTTI_OK) {
        status = measure(run);
    }
    if (status == TUTTI_OK && tutti_group_rank(run->busy[0]) == 0) {
        print(run);
    }
    if (status == TUTTI_OK) {
        status = end(run);
    }
    for (uint32_t i = 0; i < CONTEXTS; i++) {
        free(run->times_ns[i]);
    }
    free(run->memory);
    free(run->idle);
    return status == TUTTI_OK ? TT_EXIT_OK : TT_EXIT_FAILED;
}

static bool read_option(int letter, void *target)
{
    struct idle_groups *run = target;

    switch (letter) {
    case 'g':
        return tt_parse_count(optarg, &run->group_count) == TUTTI_OK && run->group_count <= GROUPS_LIMIT;
    case 's':
        return tt_parse_size(optarg, &run->size_bytes) == TUTTI_OK && run->size_bytes - 1 < 64 << 20;
    case 'b':
        return tt_parse_count(optarg, &run->batch_count) == TUTTI_OK && run->batch_count - 1 < BATCHES_LIMIT;
    case 'n':
        return tt_parse_count(optarg, &run->count) == TUTTI_OK && run->count - 1 < COUNT_LIMIT;
    default:
        return false;
    }
}

static const struct option known[] = {
    {"groups", required_argument, NULL, 'g'},  {"size", required_argument, NULL, 's'},
    {"batches", required_argument, NULL, 'b'}, {"count", required_argument, NULL, 'n'},
    {"help", no_argument, NULL, 'h'},          {0}};

static const struct bench_command command = {
    .name = "idle_groups",
    .help = "usage: idle_groups [OPTION]...\n"
            "A small Broadcast beside idle groups, and alone; any launcher that tutti knows starts the ranks.\n"
            "  --groups N   that are idle, up to 10000 (1000)\n"
            "  --size SIZE  of the Broadcast, 1 to 64M (8)\n"
            "  --batches N  1 to 10000 (300)\n"
            "  --count N    Broadcasts in a batch, 1 to 1000000 (500)\n",
    .options = known,
    .read = read_option};

int main(int argc, char **argv)
{
    struct idle_groups run = {.group_count = 1000, .size_bytes = 8, .batch_count = 300, .count = 500};
    int status;

    if (!bench_options_read(&command, argc, argv, &run, &status)) {
        return status;
    }
    return run_all(&run);
}
