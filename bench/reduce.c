/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce: how fast the reduction kernels are. Not installed; see docs/performance.md.
 *
 * Normal path: each kernel goes over its buffers again and again, on one core, with buffers that fit into the
 * first-level cache, into the second, and into neither; beside it memcpy, and a = a + b of doubles in a loop compiled
 * for this very machine, which is what the machine can do. All take turns, for a number of rounds, so that whatever
 * else runs here slows them all down; the best round counts. GB/s are bytes read and bytes written together.
 *
 * Failures: no memory ends the program with one line and status 1. A command line that makes no sense: status 2.
 */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/settings.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/table.h"
#include "offload/reduce.h"
#include "reduce_stream.h"

enum { PLACES = 3, ROUNDS_LIMIT = 1000, ALIGNMENT = 4096, COLUMNS = 7, RANKS = 3, SHIFTS = 16 };

/* How much each of two buffers holds, by default: they lie in caches of 32 KiB and 1 MiB, and in no cache. */
static const char *const place_names[PLACES] = {"l1", "l2", "memory"};

/* What is measured on one type. */
enum kind { COMBINE, SCALE, ADD_SCALED, DIVIDE, ACCUMULATE, WIDEN, NARROW, COPY, STREAM };

struct subject {
    enum kind kind;
    enum tt_type type;
    enum tt_reduce_operation operation;
    double best_bytes_per_second[PLACES];
};

struct bench {
    uint64_t place_bytes[PLACES], round_count, round_ns;
    const char *type, *operation; /* NULL: all */
    unsigned version;
    bool json;
    char *a, *b;  /* a is read and written, b is read */
    char *b_area; /* where b begins, in the first round */
    struct subject subjects[TT_TYPE_COUNT * (TT_REDUCE_STEPS + NARROW) + 2];
    unsigned subject_count;
};

static const char *name_of(const struct subject *subject)
{
    static const char *const names[] = {"",           "scale", "add scaled", "divide",   "accumulate",
                                        "widen fp32", "round", "memcpy",     "a = a + b"};

    return subject->kind == COMBINE ? tt_reduce_operation_row(subject->operation)->name : names[subject->kind];
}

/* Once over buffers of which the larger has `bytes`; returns how many bytes are read and written. */
static uint64_t go_once(const struct bench *bench, const struct subject *subject, uint64_t bytes)
{
    static const double factor_fp64 = 1.0;
    static const float factor_fp32 = 1.0F;
    static const uint64_t factor_integer = 1; /* the first bytes are those of any width where bytes are little-endian */
    const struct tt_reduce_row *row = NULL;
    const void *factor = &factor_integer;
    uint64_t element_bytes = 1, count = bytes;

    if (subject->kind < COPY) {
        row = tt_reduce_version_row(bench->version, subject->type);
        element_bytes = tt_type_row(subject->type)->bytes;
        count = bytes / (subject->kind >= ACCUMULATE ? sizeof(float) : element_bytes);
        if (tt_type_row(subject->type)->class == TT_CLASS_FLOAT) {
            factor = subject->type == TT_TYPE_FP64 ? (const void *)&factor_fp64 : &factor_fp32;
        }
    }
    switch (subject->kind) {
    case COMBINE:
        row->combine[subject->operation](bench->a, bench->a, bench->b, count);
        return 3 * count * element_bytes;
    case SCALE:
        row->scale(bench->a, bench->a, factor, count);
        return 2 * count * element_bytes;
    case ADD_SCALED:
        row->add_scaled(bench->a, bench->a, bench->b, factor, count);
        return 3 * count * element_bytes;
    case DIVIDE:
        row->divide(bench->a, bench->a, RANKS, count);
        return 2 * count * element_bytes;
    case ACCUMULATE:
        row->small->accumulate[TT_REDUCE_SUM]((float *)bench->a, bench->b, count);
        return count * (2 * sizeof(float) + element_bytes);
    case WIDEN:
        row->small->widen((float *)bench->a, bench->b, count);
        return count * (sizeof(float) + element_bytes);
    case NARROW:
        row->small->narrow(bench->a, (const float *)bench->b, count);
        return count * (sizeof(float) + element_bytes);
    case COPY:
        memcpy(bench->a, bench->b, bytes);
        return 2 * bytes;
    case STREAM:
    default:
        tt_stream_add((double *)bench->a, (const double *)bench->b, bytes / sizeof(double));
        return 3 * bytes;
    }
}

static void measure(const struct bench *bench, struct subject *subject, unsigned place)
{
    uint64_t bytes = bench->place_bytes[place], batch = (1 << 20) / bytes + 1, moved = 0, begun_ns, spent_ns;
    double bytes_per_second;

    (void)go_once(bench, subject, bytes);
    begun_ns = tt_clock_cpu_ns();
    do {
        for (uint64_t i = 0; i < batch; i++) {
            moved += go_once(bench, subject, bytes);
            __asm__ volatile("" ::: "memory"); /* memcpy of the same bytes again is not left out */
        }
        spent_ns = tt_clock_cpu_ns() - begun_ns;
    } while (spent_ns < bench->round_ns);
    bytes_per_second = (double)moved * (double)TT_NS_PER_S / (double)spent_ns;
    if (bytes_per_second > subject->best_bytes_per_second[place]) {
        subject->best_bytes_per_second[place] = bytes_per_second;
    }
}

/*
 * Numbers of every type that stay finite: zeros add to zeros, which costs a kernel what any number costs it. Where
 * pages are decides whether a first-level cache that guesses its ways holds both buffers, by a factor of two: one of
 * them moves by a page from round to round.
 */
static void measure_all(struct bench *bench)
{
    for (uint64_t round = 0; round < bench->round_count; round++) {
        bench->b = bench->b_area + round % SHIFTS * ALIGNMENT;
        for (unsigned place = 0; place < PLACES; place++) {
            memset(bench->a, 0, bench->place_bytes[place]);
            memset(bench->b, 0, bench->place_bytes[place]);
            for (unsigned i = 0; i < bench->subject_count; i++) {
                measure(bench, &bench->subjects[i], place);
            }
        }
    }
}

/* --- What to measure ---------------------------------------------------------------------------------------------- */

static void add(struct bench *bench, enum kind kind, enum tt_type type, enum tt_reduce_operation operation)
{
    struct subject *subject = &bench->subjects[bench->subject_count];

    *subject = (struct subject){.kind = kind, .type = type, .operation = operation};
    if (kind >= COPY || bench->operation == NULL || strcmp(bench->operation, name_of(subject)) == 0) {
        bench->subject_count++;
    }
}

static void choose_subjects(struct bench *bench)
{
    add(bench, COPY, TT_TYPE_OPAQUE, TT_REDUCE_USER);
    add(bench, STREAM, TT_TYPE_OPAQUE, TT_REDUCE_USER);
    for (unsigned type = 0; type < TT_TYPE_OPAQUE; type++) {
        const struct tt_reduce_row *row = tt_reduce_version_row(bench->version, (enum tt_type)type);

        if (bench->type != NULL && strcmp(bench->type, tt_type_row(type)->name) != 0) {
            continue;
        }
        for (unsigned step = 0; step < TT_REDUCE_STEPS; step++) {
            if (row->combine[step] != NULL) {
                add(bench, COMBINE, (enum tt_type)type, (enum tt_reduce_operation)step);
            }
        }
        for (unsigned kind = SCALE; kind <= (row->small != NULL ? NARROW : DIVIDE); kind++) {
            add(bench, (enum kind)kind, (enum tt_type)type, TT_REDUCE_USER);
        }
    }
}

/* --- Report ------------------------------------------------------------------------------------------------------- */

static const char *type_of(const struct subject *subject)
{
    return subject->kind >= COPY ? "-" : tt_type_row(subject->type)->name;
}

static void print_table(const struct bench *bench)
{
    static const struct tt_column columns[COLUMNS] = {{"type", NULL, 9, true},       {"kernel", NULL, 11, true},
                                                      {"L1", "GB/s", 8, false},      {"L2", "GB/s", 8, false},
                                                      {"memory", "GB/s", 8, false},  {"/memcpy", "memory", 8, false},
                                                      {"/a=a+b", "memory", 8, false}};
    char cells[COLUMNS][TT_CELL_BYTES];

    printf("# version %s\n", tt_reduce_version_name(bench->version));
    tt_table_heading(stdout, columns, COLUMNS);
    for (unsigned i = 0; i < bench->subject_count; i++) {
        const struct subject *subject = &bench->subjects[i];
        const char *row[COLUMNS] = {type_of(subject), name_of(subject)};

        for (unsigned place = 0; place < PLACES; place++) {
            row[2 + place] = tt_cell_fixed(cells[place], subject->best_bytes_per_second[place] / 1e9);
        }
        for (unsigned other = 0; other < 2; other++) { /* the first two subjects */
            row[2 + PLACES + other] =
                tt_cell_fixed(cells[PLACES + other], subject->best_bytes_per_second[PLACES - 1] /
                                                         bench->subjects[other].best_bytes_per_second[PLACES - 1]);
        }
        tt_table_row(stdout, columns, COLUMNS, row);
    }
}

static void print_json(const struct bench *bench)
{
    for (unsigned i = 0; i < bench->subject_count; i++) {
        const struct subject *subject = &bench->subjects[i];
        struct tt_json json;

        tt_json_init(&json, stdout);
        tt_json_begin_object(&json, NULL);
        tt_json_text(&json, "version", tt_reduce_version_name(bench->version));
        tt_json_text(&json, "type", type_of(subject));
        tt_json_text(&json, "kernel", name_of(subject));
        for (unsigned place = 0; place < PLACES; place++) {
            tt_json_begin_object(&json, place_names[place]);
            tt_json_count(&json, "buffer_bytes", bench->place_bytes[place]);
            tt_json_number(&json, "bytes_per_second", subject->best_bytes_per_second[place]);
            tt_json_end_object(&json);
        }
        tt_json_end_object(&json);
    }
}

/* --- Arguments ---------------------------------------------------------------------------------------------------- */

static int usage(FILE *stream)
{
    fputs("usage: reduce [OPTION]...\n"
          "How fast the reduction kernels are, beside memcpy and the machine's own a = a + b.\n"
          "  --type NAME       of this type only\n"
          "  --operation NAME  this kernel only, as the table names it\n"
          "  --version NAME    plain, avx2 or avx512 (the one that the library would use)\n"
          "  --rounds N        1 to 1000, of which the best counts (16)\n"
          "  --round TIME      the least that each kernel runs in a round (2ms)\n"
          "  --l1 SIZE, --l2 SIZE, --memory SIZE\n"
          "                    what each of two buffers holds, 4K to 1G (8K, 128K, 64M)\n"
          "  --json            an object for each kernel\n",
          stream);
    return stream == stdout ? TT_EXIT_OK : TT_EXIT_USAGE;
}

static bool read_version(struct bench *bench)
{
    for (unsigned i = 0; i < tt_reduce_version_count(); i++) {
        if (strcmp(optarg, tt_reduce_version_name(i)) == 0) {
            bench->version = i;
            return true;
        }
    }
    fprintf(stderr, "reduce: %s: is no version that this processor runs\n", optarg);
    return false;
}

static bool read_option(int letter, struct bench *bench)
{
    enum tt_type type;

    switch (letter) {
    case 't':
        bench->type = optarg;
        return tt_type_parse(optarg, &type) == TUTTI_OK;
    case 'o':
        bench->operation = optarg;
        return true;
    case 'v':
        return read_version(bench);
    case 'n':
        return tt_parse_count(optarg, &bench->round_count) == TUTTI_OK && bench->round_count - 1 < ROUNDS_LIMIT;
    case 'r':
        return tt_parse_time(optarg, &bench->round_ns) == TUTTI_OK;
    case '0':
    case '1':
    case '2': {
        uint64_t *bytes = &bench->place_bytes[letter - '0'];

        return tt_parse_size(optarg, bytes) == TUTTI_OK && *bytes >= ALIGNMENT && *bytes <= 1 << 30 &&
               *bytes % ALIGNMENT == 0;
    }
    case 'j':
        bench->json = true;
        return true;
    default:
        return false;
    }
}

static int run(struct bench *bench)
{
    uint64_t most_bytes = 0;

    for (unsigned i = 0; i < PLACES; i++) {
        most_bytes = bench->place_bytes[i] > most_bytes ? bench->place_bytes[i] : most_bytes;
    }
    bench->a = aligned_alloc(ALIGNMENT, most_bytes);
    bench->b_area = aligned_alloc(ALIGNMENT, most_bytes + (uint64_t)SHIFTS * ALIGNMENT);
    if (bench->a == NULL || bench->b_area == NULL) {
        fprintf(stderr, "reduce: no memory for two buffers of %" PRIu64 " bytes\n", most_bytes);
        free(bench->a);
        free(bench->b_area);
        return TT_EXIT_FAILED;
    }
    measure_all(bench);
    if (bench->json) {
        print_json(bench);
    } else {
        print_table(bench);
    }
    free(bench->a);
    free(bench->b_area);
    return TT_EXIT_OK;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {{"type", required_argument, NULL, 't'},
                                          {"operation", required_argument, NULL, 'o'},
                                          {"version", required_argument, NULL, 'v'},
                                          {"rounds", required_argument, NULL, 'n'},
                                          {"round", required_argument, NULL, 'r'},
                                          {"l1", required_argument, NULL, '0'},
                                          {"l2", required_argument, NULL, '1'},
                                          {"memory", required_argument, NULL, '2'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
    static struct bench bench = {
        .place_bytes = {8 << 10, 128 << 10, 64 << 20}, .round_count = 16, .round_ns = 2 * TT_NS_PER_MS};

    bench.version = tt_reduce_version_count() - 1;
    for (int letter; (letter = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        if (letter == 'h') {
            return usage(stdout);
        }
        if (!read_option(letter, &bench)) {
            return usage(stderr);
        }
    }
    if (optind < argc) {
        fprintf(stderr, "reduce: %s: takes no argument\n", argv[optind]);
        return usage(stderr);
    }
    choose_subjects(&bench);
    if (bench.subject_count == 2) {
        fprintf(stderr, "reduce: no type has a kernel %s\n", bench.operation);
        return usage(stderr);
    }
    return run(&bench);
}
