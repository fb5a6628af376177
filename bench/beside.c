/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: small collectives of several builds of the library, or of one with several settings, beside each other in
 * one process, so that what a virtual machine's host does to one it does to all. One rank's part; any launcher that
 * tutti knows starts the ranks.
 *
 * Normal path: each side's library is loaded with its symbols to itself, and gets a context, a group and a request.
 * Then blocks: in each, the sides take turns, the first one another each time, with a number of collectives one behind
 * the other. Of a side counts the median over blocks, and of its ratio to the first side's the median over blocks, too,
 * as two that follow each other have met the same. Rank 0's times; every byte is compared after each block.
 *
 * Failures: a call that fails, or wrong bytes, end this rank with one line and status 1. A command line that makes no
 * sense: status 2.
 */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "options.h"
#include "tutti/tutti.h"

enum { SIDES = 8, SETTINGS = 8, REQUESTS = 2, WARM = 30, BLOCKS_LIMIT = 100000, COUNT_LIMIT = 1000000 };

struct library {
    tutti_status (*context_create)(const tutti_context_options *options, tutti_context **context);
    tutti_status (*context_destroy)(tutti_context *context);
    tutti_status (*group_create)(tutti_context *context, tutti_group **group);
    tutti_status (*group_destroy)(tutti_group *group);
    uint32_t (*rank)(const tutti_group *group);
    uint32_t (*size)(const tutti_group *group);
    tutti_status (*broadcast_init)(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                   uint32_t root, const tutti_request_options *options, tutti_request **request);
    tutti_status (*allgather_init)(tutti_group *group, const void *send, void *receive, uint64_t length_bytes,
                                   const tutti_request_options *options, tutti_request **request);
    tutti_status (*post)(tutti_request *request);
    tutti_status (*wait)(tutti_request *request);
    tutti_status (*finalize)(tutti_request *request);
    const char *(*last_error)(void);
};

struct side {
    const char *name;
    char *file; /* and its settings, cut into pieces */
    tutti_setting settings[SETTINGS];
    size_t setting_count;
    struct library library;
    tutti_context *context;
    tutti_group *group;
    tutti_request *requests[REQUESTS];
    uint64_t *block_ns;
};

enum what { BROADCAST, ALLGATHER, ROUND_TRIP, KINDS };
static const char *const names[] = {"broadcast", "allgather", "round-trip"};

struct beside {
    struct side sides[SIDES];
    uint32_t side_count, rank, rank_count, request_count;
    enum what what;
    uint64_t bytes, blocks, count;
    uint8_t *send, *receive;
};

static bool say(const struct side *side, const char *what, tutti_status status)
{
    if (status != TUTTI_OK) {
        fprintf(stderr, "beside: %s: %s: %s\n", side->name, what, side->library.last_error());
    }
    return status == TUTTI_OK;
}

/* --- A side ------------------------------------------------------------------------------------------------------- */

static bool load(struct side *side)
{
    struct library *library = &side->library;
    const struct {
        const char *name;
        void *pointer; /* to the function's */
    } functions[] = {
        {"tutti_context_create", &library->context_create},
        {"tutti_context_destroy", &library->context_destroy},
        {"tutti_group_create_from_environment", &library->group_create},
        {"tutti_group_destroy", &library->group_destroy},
        {"tutti_group_rank", &library->rank},
        {"tutti_group_size", &library->size},
        {"tutti_broadcast_init", &library->broadcast_init},
        {"tutti_allgather_init", &library->allgather_init},
        {"tutti_post", &library->post},
        {"tutti_wait", &library->wait},
        {"tutti_finalize", &library->finalize},
        {"tutti_last_error", &library->last_error},
    };
    void *file = dlopen(side->file, RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; file != NULL && i < sizeof(functions) / sizeof(functions[0]); i++) {
        void *function = dlsym(file, functions[i].name);
        if (function == NULL) {
            file = NULL;
        }
        memcpy(functions[i].pointer, &function, sizeof(function));
    }
    if (file == NULL) {
        fprintf(stderr, "beside: %s: %s\n", side->name, dlerror());
    }
    return file != NULL;
}

static bool begin(struct beside *run, struct side *side)
{
    const tutti_context_options options = {
        .struct_size = sizeof(options), .settings = side->settings, .setting_count = side->setting_count};
    struct library *library = &side->library;
    tutti_status status;
    if (!load(side) || !say(side, "creating the context", library->context_create(&options, &side->context)) ||
        !say(side, "creating the group", library->group_create(side->context, &side->group))) {
        return false;
    }
    run->rank = library->rank(side->group);
    run->rank_count = library->size(side->group);
    if (run->receive == NULL) {
        run->send = malloc(run->bytes);
        run->receive = malloc(run->bytes * run->rank_count);
        if (run->send == NULL || run->receive == NULL) {
            fprintf(stderr, "beside: no memory for %" PRIu32 " blocks of %" PRIu64 " bytes\n", run->rank_count,
                    run->bytes);
            return false;
        }
        memset(run->send, (int)(run->rank + 1), run->bytes);
    }
    run->request_count = run->what == ROUND_TRIP ? REQUESTS : 1;
    status = run->what == ALLGATHER
                 ? library->allgather_init(side->group, run->send, run->receive, run->bytes, NULL, &side->requests[0])
                 : TUTTI_OK;
    for (uint32_t root = 0; run->what != ALLGATHER && root < run->request_count && status == TUTTI_OK; root++) {
        uint32_t from = root % run->rank_count;
        status = library->broadcast_init(side->group, from == run->rank ? run->send : NULL, run->receive, run->bytes,
                                         from, NULL, &side->requests[root]);
    }
    side->block_ns = calloc(run->blocks, sizeof(*side->block_ns));
    return say(side, "preparing", status) && side->block_ns != NULL;
}

static tutti_status move(const struct beside *run, const struct side *side, uint64_t count)
{
    tutti_status status = TUTTI_OK;
    for (uint64_t i = 0; i < count && status == TUTTI_OK; i++) {
        for (uint32_t k = 0; k < run->request_count && status == TUTTI_OK; k++) {
            status = side->library.post(side->requests[k]);
            status = status == TUTTI_OK ? side->library.wait(side->requests[k]) : status;
        }
    }
    return status;
}

static bool is_right(const struct beside *run)
{
    uint64_t blocks = run->what == ALLGATHER ? run->rank_count : 1, last = (run->request_count - 1) % run->rank_count;
    for (uint64_t i = 0; i < blocks * run->bytes; i++) {
        uint64_t from = run->what == ALLGATHER ? i / run->bytes : last;
        if (run->receive[i] != (uint8_t)(from + 1)) {
            return false;
        }
    }
    return true;
}

static bool measure(struct beside *run, struct side *side, uint64_t block)
{
    memset(run->receive, 0, run->bytes * (run->what == ALLGATHER ? run->rank_count : 1));
    tutti_status status = move(run, side, WARM);
    uint64_t begun_ns = tt_clock_now_ns();
    status = status == TUTTI_OK ? move(run, side, run->count) : status;
    side->block_ns[block] = tt_clock_now_ns() - begun_ns;
    if (!say(side, names[run->what], status)) {
        return false;
    }
    if (!is_right(run)) {
        fprintf(stderr, "beside: rank %" PRIu32 ": %s: wrong bytes\n", run->rank, side->name);
        return false;
    }
    return true;
}

static bool end(const struct beside *run, struct side *side)
{
    tutti_status status = TUTTI_OK;
    for (uint32_t i = 0; i < run->request_count && status == TUTTI_OK; i++) {
        status = side->library.finalize(side->requests[i]);
    }
    status = status == TUTTI_OK ? side->library.group_destroy(side->group) : status;
    status = status == TUTTI_OK ? side->library.context_destroy(side->context) : status;
    return say(side, "ending", status);
}

/* --- Result ------------------------------------------------------------------------------------------------------- */

static int compare(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static bool print(const struct beside *run)
{
    double *us = calloc(run->blocks, sizeof(*us)), *ratios = calloc(run->blocks, sizeof(*ratios));
    if (us == NULL || ratios == NULL) {
        fprintf(stderr, "beside: no memory for %" PRIu64 " blocks\n", run->blocks);
        free(us);
        free(ratios);
        return false;
    }
    printf("# %s of %" PRIu64 " bytes, %" PRIu32 " ranks, %" PRIu64 " blocks of %" PRIu64 " one behind the other\n",
           names[run->what], run->bytes, run->rank_count, run->blocks, run->count);
    printf("# median and lowest tenth over blocks, of one; ratio to the first side's in the same block: median\n");
    printf("%10s %10s %8s  %s\n", "median us", "tenth us", "ratio", "side");
    for (uint32_t s = 0; s < run->side_count; s++) {
        const struct side *side = &run->sides[s];
        for (uint64_t i = 0; i < run->blocks; i++) {
            us[i] = (double)side->block_ns[i] / (double)run->count / TT_NS_PER_US;
            ratios[i] = (double)side->block_ns[i] / (double)run->sides[0].block_ns[i];
        }
        qsort(us, run->blocks, sizeof(*us), compare);
        qsort(ratios, run->blocks, sizeof(*ratios), compare);
        printf("%10.2f %10.2f %8.3f  %s\n", us[run->blocks / 2], us[run->blocks / 10], ratios[run->blocks / 2],
               side->name);
    }
    free(us);
    free(ratios);
    return true;
}

static int run_all(struct beside *run)
{
    bool fine = true;
    for (uint32_t s = 0; s < run->side_count && fine; s++) {
        fine = begin(run, &run->sides[s]);
    }
    for (uint64_t block = 0; block < run->blocks && fine; block++) {
        for (uint32_t i = 0; i < run->side_count && fine; i++) {
            fine = measure(run, &run->sides[(block + i) % run->side_count], block);
        }
    }
    fine = fine && (run->rank != 0 || print(run));
    for (uint32_t s = 0; s < run->side_count && fine; s++) {
        fine = end(run, &run->sides[s]);
    }
    for (uint32_t s = 0; s < run->side_count; s++) {
        free(run->sides[s].block_ns);
        free(run->sides[s].file);
    }
    free(run->receive);
    free(run->send);
    return fine ? TT_EXIT_OK : TT_EXIT_FAILED;
}

/* --- Command line ------------------------------------------------------------------------------------------------- */

/* FILE[@NAME=VALUE[,NAME=VALUE]...] */
static bool read_side(struct beside *run, const char *text)
{
    struct side *side = &run->sides[run->side_count];
    char *rest, *setting;
    if (run->side_count == SIDES || (side->file = strdup(text)) == NULL) {
        fprintf(stderr, "beside: --side %s: more than %d\n", text, SIDES);
        return false;
    }
    side->name = text;
    rest = side->file;
    (void)strsep(&rest, "@");
    while ((setting = strsep(&rest, ",")) != NULL) {
        char *value = strchr(setting, '=');
        if (value == NULL || side->setting_count == SETTINGS) {
            fprintf(stderr, "beside: --side %s: not FILE@NAME=VALUE, or more than %d settings\n", text, SETTINGS);
            return false;
        }
        *value = '\0';
        side->settings[side->setting_count++] = (tutti_setting){.name = setting, .value = value + 1};
    }
    run->side_count++;
    return true;
}

static bool read_option(int letter, void *target)
{
    struct beside *run = target;
    switch (letter) {
    case 's':
        return read_side(run, optarg);
    case 'c':
        for (run->what = BROADCAST; run->what < KINDS && strcmp(optarg, names[run->what]) != 0; run->what++) {
        }
        return run->what < KINDS;
    case 'b':
        return tt_arguments_size("beside", "--bytes", optarg, 1, 64 << 20, &run->bytes);
    case 'n':
        return tt_arguments_count("beside", "--blocks", optarg, 1, BLOCKS_LIMIT, &run->blocks);
    case 'i':
        return tt_arguments_count("beside", "--count", optarg, 1, COUNT_LIMIT, &run->count);
    default:
        return false;
    }
}

static const struct option known[] = {{"side", required_argument, NULL, 's'},
                                      {"collective", required_argument, NULL, 'c'},
                                      {"bytes", required_argument, NULL, 'b'},
                                      {"blocks", required_argument, NULL, 'n'},
                                      {"count", required_argument, NULL, 'i'},
                                      {"help", no_argument, NULL, 'h'},
                                      {0}};

static const struct bench_command command = {
    .name = "beside",
    .help =
        "usage: beside --side FILE[@NAME=VALUE[,NAME=VALUE]...]... [OPTION]...\n"
        "Small collectives of several libtutti.so, or of one with several settings, turn about in one process;\n"
        "any launcher that tutti knows starts the ranks.\n"
        "  --side FILE@...  a library, and settings without TUTTI_; up to 8, the first is what others compare with\n"
        "  --collective C   broadcast (of rank 0), allgather, round-trip (Broadcasts of ranks 0 and 1 in turn)\n"
        "  --bytes SIZE     of a rank, 1 to 64M (8)\n"
        "  --blocks N       1 to 100000 (1000)\n"
        "  --count N        collectives of a side in a block, behind 30 that do not count, 1 to 1000000 (100)\n",
    .options = known,
    .read = read_option};

int main(int argc, char **argv)
{
    struct beside run = {.bytes = 8, .blocks = 1000, .count = 100};
    int status;
    if (!bench_options_read(&command, argc, argv, &run, &status)) {
        return status;
    }
    if (run.side_count == 0) {
        fputs("beside: no --side\n", stderr);
        return TT_EXIT_USAGE;
    }
    return run_all(&run);
}
