/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what many groups of one context cost: time, when an allgather is in flight in each at once, threads, and
 * memory a group. One rank's part; any launcher that tutti knows starts the ranks.
 *
 * Normal path: memory is looked at with the first group alone, and again when the others are there, idle and used. Then
 * rounds, in each of which three ways take turns, with the same bytes: one group with blocks of N bytes, G times one
 * after the other; G groups with N / G each at once, G times; G groups with N each at once. All ranks start together, a
 * rank's time ends when all its requests have ended, and every byte is compared after the clock has stopped. The median
 * over rounds of the slowest rank's time counts.
 *
 * Failures: a call that fails ends this rank with one line and status 1. Wrong bytes are counted and end it with status
 * 1 after the result. A command line that makes no sense: status 2.
 */
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"
#include "cli/bench_pattern.h"
#include "cli/command.h"
#include "groups.h"
#include "options.h"
#include "process_status.h"

static tutti_status say(const struct groups *run, const char *what, tutti_status status)
{
    char sentence[1024]; /* valid until the next call only */

    snprintf(sentence, sizeof(sentence), "%s", tutti_last_error());
    fprintf(stderr, "groups: rank %u: %s: %s: %s\n", run->rank, what, tutti_status_name(status), sentence);
    return status;
}

/* --- Memory ------------------------------------------------------------------------------------------------------- */

static void look(struct holding *holding)
{
    struct mallinfo2 heap = mallinfo2();

    holding->heap_bytes = heap.uordblks + heap.hblkhd;
    holding->data_bytes = process_status("VmData:") * 1024;
    holding->threads = process_status("Threads:");
}

/* --- One round of one way ------------------------------------------------------------------------------------------
 */

/* Groups remember how fast their links were found to be: a way of its own needs groups of its own. */
static uint32_t first_of(const struct groups *run, enum way way)
{
    return way == WAY_ONE ? (run->same ? 1 : 0) : way == WAY_SPLIT || run->same ? 1 : 1 + (uint32_t)run->group_count;
}

static uint8_t *receive_of(const struct groups *run, enum way way, uint32_t group)
{
    return run->memory + group * groups_block_bytes(run, way) * run->size;
}

static tutti_status barrier(struct groups *run)
{
    tutti_request *request;
    tutti_status status = tutti_allgather_init(run->groups[0], NULL, NULL, 0, NULL, &request);

    if (status == TUTTI_OK) {
        status = tutti_post(request);
        status = status == TUTTI_OK ? tutti_wait(request) : status;
        tutti_finalize(request);
    }
    return status;
}

static void prepare(const struct groups *run, enum way way)
{
    uint64_t bytes = groups_block_bytes(run, way);

    for (uint32_t group = 0; group < groups_count(run, way); group++) {
        for (uint32_t rank = 0; rank < run->size; rank++) {
            uint8_t *block = receive_of(run, way, group) + rank * bytes;

            if (rank == run->rank) {
                tt_pattern_fill(block, bytes, rank, run->round + group);
            } else {
                tt_pattern_poison(block, bytes, rank, run->round + group);
            }
        }
    }
}

static void check(struct groups *run, enum way way)
{
    uint64_t bytes = groups_block_bytes(run, way);
    struct tt_pattern_error first;

    for (uint32_t group = 0; group < groups_count(run, way); group++) {
        for (uint32_t rank = 0; rank < run->size; rank++) {
            run->wrong +=
                tt_pattern_check(receive_of(run, way, group) + rank * bytes, bytes, rank, run->round + group, &first);
        }
    }
}

static tutti_status init_requests(struct groups *run, enum way way)
{
    tutti_status status = TUTTI_OK;

    for (uint32_t group = 0; group < groups_count(run, way) && status == TUTTI_OK; group++) {
        status =
            tutti_allgather_init(run->groups[first_of(run, way) + group], TUTTI_IN_PLACE, receive_of(run, way, group),
                                 groups_block_bytes(run, way), NULL, &run->requests[group]);
    }
    return status;
}

static tutti_status finalize_requests(struct groups *run, enum way way)
{
    tutti_status status = TUTTI_OK;

    for (uint32_t group = 0; group < groups_count(run, way) && status == TUTTI_OK; group++) {
        status = tutti_finalize(run->requests[group]);
    }
    return status;
}

static tutti_status pass_once(struct groups *run, enum way way)
{
    tutti_status status = TUTTI_OK;

    for (uint32_t group = 0; group < groups_count(run, way) && status == TUTTI_OK; group++) {
        status = tutti_post(run->requests[group]);
    }
    for (uint32_t group = 0; group < groups_count(run, way) && status == TUTTI_OK; group++) {
        status = tutti_wait(run->requests[group]);
    }
    return status;
}

static tutti_status run_requests(struct groups *run, enum way way)
{
    tutti_status status = TUTTI_OK;

    for (uint64_t pass = 0; pass < groups_passes(run, way) && status == TUTTI_OK; pass++) {
        status = pass_once(run, way);
    }
    return status;
}

/* Adds what all groups have counted, or takes it away again. */
static void count(struct groups *run, enum way way, bool add)
{
    for (uint64_t i = 0; i < run->all_count; i++) {
        tutti_counters counters = {.struct_size = sizeof(counters)};

        if (tutti_group_counters(run->groups[i], &counters) == TUTTI_OK) {
            const uint64_t now[TAIL_COUNT] = {counters.chunks_repaired, counters.cutoffs, counters.credit_stalls};

            for (uint32_t k = 0; k < TAIL_COUNT; k++) {
                run->tail[way][k] += add ? now[k] : -now[k];
            }
        }
    }
}

/* `time_ns` is NULL while warming up. */
static tutti_status run_way(struct groups *run, enum way way, uint64_t *time_ns)
{
    uint64_t begun_ns;
    tutti_status status = init_requests(run, way);

    if (status == TUTTI_OK && way == WAY_FULL) {
        look(&run->prepared);
    }
    prepare(run, way);
    if (status == TUTTI_OK) {
        status = barrier(run);
    }
    count(run, way, false);
    begun_ns = tt_clock_now_ns();
    if (status == TUTTI_OK) {
        status = run_requests(run, way);
    }
    if (status != TUTTI_OK) {
        return say(run, groups_way_names[way], status);
    }
    if (time_ns != NULL) {
        *time_ns = tt_clock_now_ns() - begun_ns;
    }
    count(run, way, true);
    status = barrier(run); /* who compares first would take processors that others still need */
    check(run, way);
    if (status == TUTTI_OK) {
        status = finalize_requests(run, way);
    }
    run->round += run->group_count;
    return status == TUTTI_OK ? status : say(run, groups_way_names[way], status);
}

/* --- The run -------------------------------------------------------------------------------------------------------
 */

/* The first group has been used with all that there is when it is looked at alone. */
static tutti_status use_first(struct groups *run)
{
    tutti_request_options options = {.struct_size = sizeof(options)};
    tutti_status status = TUTTI_OK;

    for (uint32_t i = 0; i < USES && status == TUTTI_OK; i++) {
        tutti_request *request = NULL;

        options.algorithm = i == 0 ? TUTTI_ALGORITHM_RING : TUTTI_ALGORITHM_AUTO;
        status = tutti_allgather_init(run->groups[0], TUTTI_IN_PLACE, run->memory, run->size_bytes, &options, &request);
        if (status == TUTTI_OK) {
            status = tutti_post(request);
        }
        if (status == TUTTI_OK) {
            status = tutti_wait(request);
        }
        tutti_finalize(request);
    }
    return status == TUTTI_OK ? barrier(run) : status;
}

static tutti_status create_groups(struct groups *run)
{
    tutti_status status = use_first(run);

    look(&run->alone);
    for (uint64_t i = 1; i < run->all_count && status == TUTTI_OK; i++) {
        status = tutti_group_create_from_environment(run->context, &run->groups[i]);
    }
    if (status == TUTTI_OK) {
        status = barrier(run);
    }
    look(&run->idle);
    return status;
}

static tutti_status begin(struct groups *run)
{
    tutti_status status = tutti_context_create(NULL, &run->context);
    uint64_t words;

    run->info.struct_size = sizeof(run->info);
    if (status == TUTTI_OK) {
        status = tutti_group_create_from_environment(run->context, &run->groups[0]);
    }
    if (status == TUTTI_OK) {
        status = tutti_group_query(run->groups[0], &run->info);
    }
    if (status != TUTTI_OK) {
        return say(run, "the first group", status);
    }
    run->rank = tutti_group_rank(run->groups[0]);
    run->size = tutti_group_size(run->groups[0]);
    run->all_count = 1 + (run->same ? 1 : 2) * run->group_count;
    run->memory_bytes = run->group_count * run->size_bytes * run->size;
    words = groups_words(run);
    run->memory =
        mmap(NULL, run->memory_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    run->own_ns = calloc(words, sizeof(*run->own_ns));
    run->all_ns = calloc(words * run->size, sizeof(*run->all_ns));
    if (run->memory == MAP_FAILED || run->own_ns == NULL || run->all_ns == NULL) {
        run->memory = run->memory == MAP_FAILED ? NULL : run->memory;
        return say(run, "memory for buffers", TUTTI_ERR_NO_MEMORY);
    }
    status = create_groups(run);
    return status == TUTTI_OK ? status : say(run, "creating groups", status);
}

static tutti_status gather(struct groups *run)
{
    uint64_t words = groups_words(run);
    tutti_request *request;
    tutti_status status;

    memcpy(&run->own_ns[words - TAIL_WORDS], run->tail, sizeof(run->tail));
    run->own_ns[words - 1] = run->wrong;
    status =
        tutti_allgather_init(run->groups[0], run->own_ns, run->all_ns, words * sizeof(*run->own_ns), NULL, &request);
    if (status == TUTTI_OK) {
        status = tutti_post(request);
        status = status == TUTTI_OK ? tutti_wait(request) : status;
        tutti_finalize(request);
    }
    return status == TUTTI_OK ? status : say(run, "gathering times", status);
}

static tutti_status measure(struct groups *run)
{
    tutti_status status = TUTTI_OK;

    for (enum way way = 0; way < WAY_COUNT && status == TUTTI_OK; way++) {
        status = run_way(run, way, NULL);
    }
    look(&run->used);
    for (uint64_t round = 0; round < run->rounds && status == TUTTI_OK; round++) {
        for (uint32_t turn = 0; turn < WAY_COUNT && status == TUTTI_OK; turn++) {
            enum way way = (enum way)((round + turn) % WAY_COUNT);

            status = run_way(run, way, &run->own_ns[way * run->rounds + round]);
        }
    }
    return status == TUTTI_OK ? gather(run) : status;
}

static int run_all(struct groups *run)
{
    tutti_status status = begin(run);

    if (status == TUTTI_OK) {
        status = measure(run);
    }
    if (status == TUTTI_OK && run->rank == 0) {
        groups_print(run);
    }
    run->wrong = status == TUTTI_OK ? groups_all_wrong(run) : 0;
    for (uint64_t i = 0; i < run->all_count && status == TUTTI_OK; i++) {
        status = tutti_group_destroy(run->groups[i]);
        if (status != TUTTI_OK) {
            say(run, "destroying groups", status);
        }
    }
    if (status == TUTTI_OK) {
        status = tutti_context_destroy(run->context);
    }
    if (run->memory != NULL) {
        munmap(run->memory, run->memory_bytes);
    }
    free(run->own_ns);
    free(run->all_ns);
    return status == TUTTI_OK && run->wrong == 0 ? TT_EXIT_OK : TT_EXIT_FAILED;
}

/* --- Arguments -----------------------------------------------------------------------------------------------------
 */

static bool check_range(const char *option, const char *text, uint64_t value, uint64_t least, uint64_t most)
{
    if (value < least || value > most) {
        fprintf(stderr, "groups: --%s=%s: not from %" PRIu64 " to %" PRIu64 "\n", option, text, least, most);
        return false;
    }
    return true;
}

static bool read_option(int letter, void *target)
{
    struct groups *run = target;
    uint64_t value = 0;

    switch (letter) {
    case 'g':
        return tt_parse_count(optarg, &value) == TUTTI_OK &&
               check_range("groups", optarg, run->group_count = value, 1, GROUPS_LIMIT);
    case 's':
        return tt_parse_size(optarg, &value) == TUTTI_OK &&
               check_range("size", optarg, run->size_bytes = value, 1 << 10, 64 << 20);
    case 'r':
        return tt_parse_count(optarg, &value) == TUTTI_OK &&
               check_range("rounds", optarg, run->rounds = value, 1, ROUNDS_LIMIT);
    case 'm':
        return run->same = true;
    case 'j':
        return run->json = true;
    default:
        return false;
    }
}

static const struct option known[] = {{"groups", required_argument, NULL, 'g'},
                                      {"size", required_argument, NULL, 's'},
                                      {"rounds", required_argument, NULL, 'r'},
                                      {"same", no_argument, NULL, 'm'},
                                      {"json", no_argument, NULL, 'j'},
                                      {"help", no_argument, NULL, 'h'},
                                      {0}};

static const struct bench_command command = {
    .name = "groups",
    .help = "usage: groups [OPTION]...\n"
            "Many groups at once against one; any launcher that tutti knows starts the ranks.\n"
            "  --groups N   at once, 1 to 64 (16)\n"
            "  --size SIZE  of a rank's block in one group, 1K to 64M, divided by the groups (1M)\n"
            "  --rounds N   1 to 1000 (8)\n"
            "  --same       all ways in the same groups, which then know of each other's traffic\n"
            "  --json       one object\n",
    .options = known,
    .read = read_option};

int main(int argc, char **argv)
{
    static struct groups run = {.group_count = 16, .size_bytes = 1 << 20, .rounds = 8};
    int status;

    if (!bench_options_read(&command, argc, argv, &run, &status)) {
        return status;
    }
    return run_all(&run);
}
