/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Samples of `soak`: what a process holds while nothing is in flight and only the first group is left.
 *
 * Normal path: all ranks look at themselves between two barriers, tell each other, and keep everything, so that all
 * come to the same verdict. Descriptors, threads, memberships and heap must be where they were at the sample that
 * counts as the beginning; data and resident memory move in pages and may waver by what a heap's arenas waver.
 *
 * Failures: of the library, handed on. What /proc does not tell counts as 0 everywhere.
 */
#include <dirent.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/json.h"
#include "process_status.h"
#include "soak.h"

/* A sanitizer keeps freed memory for a while and has figures of its own: growth of memory says nothing then. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#endif
#ifdef IS_SANITIZED
#define MEMORY_SLACK(bytes) UINT64_MAX
#else
#define MEMORY_SLACK(bytes) (bytes)
#endif

/* Names, and how far above the beginning a field may be later. */
static const struct field {
    const char *name;
    uint64_t slack;
} fields[SOAK_FIELD_COUNT] = {
    [SOAK_DESCRIPTORS] = {"descriptors", 0},
    [SOAK_MEMBERSHIPS] = {"memberships", 0},
    [SOAK_THREADS] = {"threads", 0},
    [SOAK_HEAP_BYTES] = {"heap_bytes", MEMORY_SLACK(64 << 10)},
    [SOAK_DATA_BYTES] = {"data_bytes", MEMORY_SLACK(2 << 20)},
    [SOAK_RESIDENT_BYTES] = {"resident_bytes", MEMORY_SLACK(2 << 20)},
};

/* Of the C library: freed blocks of up to 1032 bytes, seven of each length, count as allocated; and how large a block
 * is mapped by itself depends on those before it. */
enum { CACHED_BLOCKS = 7, CACHED_LENGTHS = 65, LENGTH_STEP = 16, MAPPED_BYTES = 128 << 10 };

void soak_sample_prepare(void)
{
    static void *volatile blocks[CACHED_LENGTHS][CACHED_BLOCKS];

    (void)mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES);
    for (size_t i = 0; i < CACHED_LENGTHS * CACHED_BLOCKS; i++) {
        blocks[i / CACHED_BLOCKS][i % CACHED_BLOCKS] = malloc((i / CACHED_BLOCKS + 1) * LENGTH_STEP - 8);
    }
    for (size_t i = 0; i < CACHED_LENGTHS * CACHED_BLOCKS; i++) {
        free(blocks[i / CACHED_BLOCKS][i % CACHED_BLOCKS]);
    }
}

static uint64_t count_descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    uint64_t count = 0;

    while (directory != NULL && readdir(directory) != NULL) {
        count++;
    }
    if (directory != NULL) {
        closedir(directory);
    }
    return count;
}

/* Of all interfaces of this host: the lines with a group's address, which alone begin with two tabs. */
static uint64_t count_memberships(void)
{
    FILE *file = fopen("/proc/net/igmp", "re");
    char line[256];
    uint64_t count = 0;

    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        count += strncmp(line, "\t\t", 2) == 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

static void look(const struct soak *soak, struct soak_sample *sample)
{
    tutti_counters counters = {.struct_size = sizeof(counters)};
    struct mallinfo2 heap = mallinfo2();

    memset(sample, 0, sizeof(*sample));
    sample->collectives = soak->done;
    sample->elapsed_ns = tt_clock_now_ns() - soak->begun_ns;
    sample->groups_created = soak->groups_created;
    sample->wrong = soak->wrong;
    sample->reduced = soak->reduced;
    sample->fields[SOAK_DESCRIPTORS] = count_descriptors();
    sample->fields[SOAK_MEMBERSHIPS] = soak->options.alone ? count_memberships() : 0;
    sample->fields[SOAK_THREADS] = process_status("Threads:");
    sample->fields[SOAK_HEAP_BYTES] = heap.uordblks + heap.hblkhd;
    sample->fields[SOAK_DATA_BYTES] = process_status("VmData:") * 1024;
    sample->fields[SOAK_RESIDENT_BYTES] = process_status("VmRSS:") * 1024;
    if (tutti_group_counters(soak->families[0].group, &counters) == TUTTI_OK) {
#define ADD_COUNTER(name, help) sample->name = soak->counters.name + counters.name;
        TUTTI_COUNTERS_TABLE(ADD_COUNTER)
#undef ADD_COUNTER
    }
}

tutti_status soak_sample_take(struct soak *soak)
{
    struct soak_sample own;
    tutti_status status;

    if (soak->sample_count == SOAK_SAMPLES_LIMIT) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_TOO_LARGE, "more than %d samples", SOAK_SAMPLES_LIMIT);
    }
    status = soak_gather(soak, NULL, NULL, 0);
    if (status == TUTTI_OK) {
        look(soak, &own);
        status = soak_gather(soak, &own, &soak->samples[(size_t)soak->sample_count * soak->size], sizeof(own));
    }
    soak->sample_count += status == TUTTI_OK;
    return status;
}

/* --- Printing ----------------------------------------------------------------------------------------------------- */

static const struct soak_sample *sample_of(const struct soak *soak, uint32_t index, uint32_t rank)
{
    return &soak->samples[(size_t)index * soak->size + rank];
}

static uint64_t most(const struct soak *soak, uint32_t index, enum soak_field field)
{
    uint64_t value = 0;

    for (uint32_t rank = 0; rank < soak->size; rank++) {
        uint64_t own = sample_of(soak, index, rank)->fields[field];

        value = own > value ? own : value;
    }
    return value;
}

static void add_up(const struct soak *soak, uint32_t index, struct soak_sample *sum)
{
    memset(sum, 0, sizeof(*sum));
    for (uint32_t rank = 0; rank < soak->size; rank++) {
        const struct soak_sample *own = sample_of(soak, index, rank);

        sum->wrong += own->wrong;
#define ADD_COUNTER(name, help) sum->name += own->name;
        TUTTI_COUNTERS_TABLE(ADD_COUNTER)
#undef ADD_COUNTER
    }
}

void soak_sample_head(const struct soak *soak)
{
    if (soak->rank == 0 && !soak->options.json) {
        printf("%11s %8s %7s %6s | %5s %5s %8s %10s %9s %9s | %9s %9s %9s\n%11s %8s %7s %6s | %5s %5s %8s %10s %9s "
               "%9s | %9s %9s %9s\n",
               "collectives", "seconds", "groups", "wrong", "fds", "joins", "threads", "heap", "data", "resident",
               "chunks by", "repaired", "read by", "", "", "created", "bytes", "", "", "", "KiB", "MiB", "MiB",
               "multicast", "", "ring");
        fflush(stdout);
    }
}

static void print_json(const struct soak *soak, const struct soak_sample *sum, uint32_t index)
{
    const struct soak_sample *own = sample_of(soak, index, soak->rank);
    struct tt_json json;

    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_count(&json, "collectives", own->collectives);
    tt_json_number(&json, "seconds", (double)own->elapsed_ns / 1e9);
    tt_json_count(&json, "reductions", own->reduced);
    tt_json_count(&json, "groups_created", own->groups_created);
    tt_json_count(&json, "wrong", sum->wrong);
    tt_json_begin_object(&json, "most");
    for (uint32_t field = 0; field < SOAK_FIELD_COUNT; field++) {
        tt_json_count(&json, fields[field].name, most(soak, index, field));
    }
    tt_json_end_object(&json);
    tt_json_begin_object(&json, "counters");
#define PRINT_COUNTER(name, help) tt_json_count(&json, #name, sum->name);
    TUTTI_COUNTERS_TABLE(PRINT_COUNTER)
#undef PRINT_COUNTER
    tt_json_end_object(&json);
    tt_json_end_object(&json);
}

void soak_sample_print(const struct soak *soak)
{
    uint32_t index = soak->sample_count - 1;
    const struct soak_sample *own = sample_of(soak, index, soak->rank);
    struct soak_sample sum;

    if (soak->rank != 0) {
        return;
    }
    add_up(soak, index, &sum);
    if (soak->options.json) {
        print_json(soak, &sum, index);
    } else {
        printf("%11" PRIu64 " %8.1f %7" PRIu64 " %6" PRIu64 " | %5" PRIu64 " %5" PRIu64 " %8" PRIu64
               " %10.1f %9.2f %9.2f | %9" PRIu64 " %9" PRIu64 " %9" PRIu64 "\n",
               own->collectives, (double)own->elapsed_ns / 1e9, own->groups_created, sum.wrong,
               most(soak, index, SOAK_DESCRIPTORS), most(soak, index, SOAK_MEMBERSHIPS),
               most(soak, index, SOAK_THREADS), (double)most(soak, index, SOAK_HEAP_BYTES) / 1024,
               (double)most(soak, index, SOAK_DATA_BYTES) / 1048576,
               (double)most(soak, index, SOAK_RESIDENT_BYTES) / 1048576, sum.chunks_multicast, sum.chunks_repaired,
               sum.chunks_fetched);
    }
    fflush(stdout);
}

/* --- The verdict -------------------------------------------------------------------------------------------------- */

static uint32_t first_sample(const struct soak *soak)
{
    uint32_t index = 0;

    while (index < soak->sample_count && sample_of(soak, index, 0)->collectives < soak->options.from) {
        index++;
    }
    return index;
}

/* Says in how many samples a rank's field was above the beginning; the first time is where to look. */
static bool has_grown(const struct soak *soak, uint32_t first, uint32_t rank, enum soak_field field)
{
    uint64_t begin = sample_of(soak, first, rank)->fields[field];
    uint32_t last = soak->sample_count - 1;
    uint64_t end = sample_of(soak, last, rank)->fields[field];
    uint64_t slack = fields[field].slack;

    if (field == SOAK_DESCRIPTORS) {
        slack += soak->size - 1; /* two ranks have a socket for reads from their first one on */
    }
    if (end <= begin || end - begin <= slack) {
        return false;
    }
    if (soak->rank == 0) {
        fprintf(stderr,
                "soak: rank %u: %s grew from %" PRIu64 " after %" PRIu64 " collectives to %" PRIu64 " after %" PRIu64
                "\n",
                rank, fields[field].name, begin, sample_of(soak, first, rank)->collectives, end,
                sample_of(soak, last, rank)->collectives);
    }
    return true;
}

/* What no collective may ever count. */
static bool is_suspicious(const struct soak *soak)
{
    struct soak_sample sum;
    bool any;

    add_up(soak, soak->sample_count - 1, &sum);
    any = sum.wrong > 0 || sum.drops_length > 0 || sum.drops_range > 0 || sum.drops_source > 0;
    if (any && soak->rank == 0) {
        fprintf(stderr,
                "soak: %" PRIu64 " wrong bytes; chunks dropped for their length %" PRIu64 ", range %" PRIu64
                ", source %" PRIu64 "\n",
                sum.wrong, sum.drops_length, sum.drops_range, sum.drops_source);
    }
    return any;
}

bool soak_sample_verdict(const struct soak *soak)
{
    uint32_t first = first_sample(soak);
    bool bad = is_suspicious(soak);

    if (first + 1 >= soak->sample_count) {
        if (soak->rank == 0) {
            fprintf(stderr, "soak: no two samples from collective %" PRIu64 " on: nothing is known about growth\n",
                    soak->options.from);
        }
        return true;
    }
    for (uint32_t rank = 0; rank < soak->size; rank++) {
        for (uint32_t field = 0; field < SOAK_FIELD_COUNT; field++) {
            bad |= has_grown(soak, first, rank, field);
        }
    }
    return bad;
}
