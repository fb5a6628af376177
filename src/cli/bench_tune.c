/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the measurements behind the table of algorithms.
 *
 * Normal path: for each collective and size one request for every algorithm that can serve it, all on the same buffers;
 * in each iteration all of them take turns, so that whatever else happens on the machine hits them alike. Every byte of
 * every result is compared. The ranks exchange their times, and rank 0 takes for each algorithm the median of the
 * slowest rank's. At the end it writes the table, a text that TUTTI_TABLE takes; what was measured is in its comments.
 *
 * Failures: a call that fails, or wrong bytes, end it in this rank with one line and exit status 1, and then there is
 * no table: a file that was there before stays as it was. A file that cannot be written ends it before it has begun.
 */
#include "cli/bench_tune.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/bench_request.h"
#include "cli/bench_statistics.h"
#include "cli/bench_tune_file.h"
#include "cli/choice_json.h"
#include "cli/command.h"
#include "cli/json.h"
#include "engine/choice_file.h"
#include "tutti/tutti.h"

enum { SAMPLE_LIMIT = (TT_KIND_COUNT - 1) * 64 };

/* Within this share of the fastest, what serves the next smaller size goes on; of more, where rows would be too many.
 */
#define KEEP_RATIO 1.05

struct tune {
    const struct tt_bench_arguments *arguments;
    const struct tt_settings *settings;
    tutti_context *context;
    tutti_group *group;
    tutti_group_info info;
    tutti_request *barrier, *gather;
    tutti_request *measured[TT_METHOD_COUNT]; /* NULL: cannot serve this size */
    struct tt_bench_buffers buffers;
    uint64_t *own_ns, *all_ns; /* by method, then iteration; all: by rank before that */
    uint64_t *scratch_ns;
    uint32_t rank;
    uint64_t round;
    struct tt_tune_sample samples[SAMPLE_LIMIT];
    uint32_t sample_count;
    struct tt_choice choice;
};

/* --- The table ---------------------------------------------------------------------------------------------------- */

enum tt_method tt_tune_best(const struct tt_tune_sample *sample, bool multicast, enum tt_method before,
                            double keep_ratio)
{
    enum tt_method best = TT_METHOD_COUNT;

    for (unsigned method = 0; method < TT_METHOD_COUNT; method++) {
        bool counts = sample->slowest_ns[method] > 0 && (multicast || !tt_method_row(method)->multicasts);
        if (counts && (best == TT_METHOD_COUNT || sample->slowest_ns[method] < sample->slowest_ns[best])) {
            best = (enum tt_method)method;
        }
    }
    if (best != TT_METHOD_COUNT && before != TT_METHOD_COUNT && sample->slowest_ns[before] > 0 &&
        sample->slowest_ns[before] <= keep_ratio * sample->slowest_ns[best]) {
        return before;
    }
    return best;
}

static bool add_section(const struct tt_tune_sample *samples, uint32_t count, enum tt_collective_kind kind,
                        uint32_t ranks, bool multicast, double keep_ratio, struct tt_choice *choice)
{
    enum tt_method before = TT_METHOD_COUNT;
    const char *reason;

    for (uint32_t i = 0; i < count; i++) {
        enum tt_method method;
        if (samples[i].kind != kind) {
            continue;
        }
        method = tt_tune_best(&samples[i], multicast, before, keep_ratio);
        if (method == before || method == TT_METHOD_COUNT) {
            continue;
        }
        struct tt_choice_row row = {.kind = (uint8_t)kind,
                                    .multicast = multicast,
                                    .method = (uint8_t)method,
                                    .ranks = ranks,
                                    .from_bytes = before == TT_METHOD_COUNT ? 0 : samples[i].size_bytes};
        if (!tt_choice_add(choice, &row, &reason)) {
            return false;
        }
        before = method;
    }
    return true;
}

static bool add_rows(const struct tt_tune_sample *samples, uint32_t count, uint32_t ranks, bool multicast,
                     double keep_ratio, struct tt_choice *choice)
{
    struct tt_choice made = {0}, whole;

    for (unsigned network = 0; network < 2; network++) {
        for (unsigned kind = TT_KIND_NONE + 1; kind < TT_KIND_COUNT; kind++) {
            bool with = network == 0;
            if ((multicast || !with) &&
                !add_section(samples, count, (enum tt_collective_kind)kind, ranks, with, keep_ratio, &made)) {
                return false;
            }
        }
    }
    *choice = whole = made;
    return tt_choice_complete(&whole); /* as who loads it does */
}

void tt_tune_rows(const struct tt_tune_sample *samples, uint32_t count, uint32_t ranks, bool multicast,
                  struct tt_choice *choice)
{
    double keep_ratio = KEEP_RATIO;

    while (!add_rows(samples, count, ranks, multicast, keep_ratio, choice)) {
        keep_ratio *= KEEP_RATIO;
    }
}

/* --- Measuring ---------------------------------------------------------------------------------------------------- */

static tutti_status fail(const struct tune *tune, const char *what, tutti_status status)
{
    fprintf(stderr, "tutti bench: rank %" PRIu32 ": %s: %s\n", tune->rank, what,
            tutti_last_error()[0] != '\0' ? tutti_last_error() : tutti_status_text(status));
    return status;
}

static tutti_status run_request(tutti_request *request)
{
    tutti_status status = tutti_post(request);
    return status == TUTTI_OK ? tutti_wait(request) : status;
}

static void finalize(tutti_request **request)
{
    tutti_finalize(*request);
    *request = NULL;
}

/* What rows go by: of a scatter a block, else what a rank puts in. */
static uint64_t choice_bytes(const struct tt_bench_buffers *buffers)
{
    return buffers->job.collective == TT_BENCH_SCATTER ? buffers->block_bytes : buffers->size_bytes;
}

static struct tt_choice_question question_for(const struct tune *tune, enum tt_collective_kind kind)
{
    const struct tt_bench_buffers *buffers = &tune->buffers;
    struct tt_choice_question question =
        tt_choice_question_for(kind, tune->info.multicast, tune->arguments->job.rank_count, choice_bytes(buffers));

    if (tt_kind_row(kind)->combines) {
        question.element_bytes = tt_type_row(buffers->job.type)->bytes;
        question.one_tree = strcmp(tune->settings->deterministic, "strict") == 0;
    }
    return question;
}

static tutti_status init_requests(struct tune *tune, enum tt_collective_kind kind)
{
    struct tt_choice_question question = question_for(tune, kind);
    tutti_status status = TUTTI_OK;

    for (unsigned method = 0; method < TT_METHOD_COUNT && status == TUTTI_OK; method++) {
        tutti_request_options options = {.struct_size = sizeof(options),
                                         .algorithm = (tutti_algorithm)tt_method_algorithm(kind, method)};
        /* Of those that go through objects the others are for comparison: none has a size at which it is the fastest.
         */
        if (!tt_choice_possible(&question, (enum tt_method)method) ||
            (tt_method_row(method)->by_objects && method != TT_METHOD_BINOMIAL_PIPELINE)) {
            continue;
        }
        status = tt_bench_request_init(tune->group, &tune->buffers, NULL, &options, &tune->measured[method]);
        if (status == TUTTI_ERR_TOO_LARGE) {
            status = TUTTI_OK; /* more chunks than PSNs, on all ranks */
        }
    }
    return status == TUTTI_OK ? status : fail(tune, "preparing the collective", status);
}

static tutti_status run_round(struct tune *tune, unsigned method, uint64_t *sample_ns)
{
    struct tt_bench_wrong wrong;

    tt_bench_buffers_prepare(&tune->buffers, tune->round);
    tutti_status status = run_request(tune->barrier);
    if (status != TUTTI_OK) {
        return fail(tune, "aligning the ranks", status);
    }
    uint64_t begun_ns = tt_clock_now_ns();
    status = run_request(tune->measured[method]);
    *sample_ns = tt_clock_now_ns() - begun_ns;
    if (status != TUTTI_OK) {
        return fail(tune, tt_bench_collective_row(tune->buffers.job.collective)->name, status);
    }
    if (tt_bench_buffers_are_long(&tune->buffers)) {
        status = run_request(tune->barrier);
    }
    if (status != TUTTI_OK) {
        return fail(tune, "waiting for all ranks", status);
    }
    tt_bench_buffers_check(&tune->buffers, tune->round++, &wrong);
    if (wrong.bytes > 0) {
        fprintf(stderr, "tutti bench: rank %" PRIu32 ": %s of %" PRIu64 " bytes: %" PRIu64 " wrong bytes\n", tune->rank,
                tt_bench_collective_row(tune->buffers.job.collective)->name, tune->buffers.size_bytes, wrong.bytes);
        return TUTTI_ERR_PROTOCOL;
    }
    return TUTTI_OK;
}

static double median_of_slowest(const struct tune *tune, unsigned method)
{
    uint32_t iterations = tune->arguments->iterations;
    struct tt_statistics statistics;

    for (uint32_t i = 0; i < iterations; i++) {
        tune->scratch_ns[i] = 0;
        for (size_t rank = 0; rank < tune->arguments->job.rank_count; rank++) {
            uint64_t sample = tune->all_ns[(rank * TT_METHOD_COUNT + method) * iterations + i];
            tune->scratch_ns[i] = sample > tune->scratch_ns[i] ? sample : tune->scratch_ns[i];
        }
    }
    tt_statistics_compute(tune->scratch_ns, iterations, &statistics);
    return statistics.median_ns;
}

static tutti_status measure(struct tune *tune, enum tt_collective_kind kind)
{
    const struct tt_bench_arguments *arguments = tune->arguments;
    uint32_t total = arguments->warmup + arguments->iterations;
    struct tt_tune_sample *sample = &tune->samples[tune->sample_count];

    memset(tune->own_ns, 0, (size_t)TT_METHOD_COUNT * arguments->iterations * sizeof(uint64_t));
    tutti_status status = init_requests(tune, kind);
    for (uint32_t i = 0; i < total && status == TUTTI_OK; i++) {
        for (unsigned turn = 0; turn < TT_METHOD_COUNT && status == TUTTI_OK; turn++) {
            unsigned method = (turn + i) % TT_METHOD_COUNT; /* nobody is always the one after the slow one */
            uint64_t sample_ns = 0;
            if (tune->measured[method] != NULL) {
                status = run_round(tune, method, &sample_ns);
            }
            if (i >= arguments->warmup) {
                tune->own_ns[(size_t)method * arguments->iterations + i - arguments->warmup] = sample_ns;
            }
        }
    }
    if (status == TUTTI_OK) {
        status = run_request(tune->gather);
        status = status == TUTTI_OK ? status : fail(tune, "gathering the samples", status);
    }
    *sample = (struct tt_tune_sample){.kind = kind, .size_bytes = choice_bytes(&tune->buffers)};
    for (unsigned method = 0; method < TT_METHOD_COUNT; method++) {
        if (tune->measured[method] != NULL && status == TUTTI_OK) {
            sample->slowest_ns[method] = median_of_slowest(tune, method);
        }
        finalize(&tune->measured[method]);
    }
    tune->sample_count += status == TUTTI_OK;
    return status;
}

/* --- Printing ----------------------------------------------------------------------------------------------------- */

static void print_sample_json(FILE *stream, const struct tt_tune_sample *sample, uint32_t ranks)
{
    struct tt_json json;

    tt_json_init(&json, stream);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "collective", tt_kind_word(sample->kind));
    tt_json_count(&json, "ranks", ranks);
    tt_json_count(&json, "size_bytes", sample->size_bytes);
    tt_json_begin_object(&json, "slowest_us");
    for (unsigned method = 0; method < TT_METHOD_COUNT; method++) {
        if (sample->slowest_ns[method] > 0) {
            tt_json_number(&json, tt_method_word(sample->kind, method), sample->slowest_ns[method] / 1e3);
        }
    }
    tt_json_end_object(&json);
    tt_json_end_object(&json);
}

static void print_sample(FILE *stream, const struct tt_tune_sample *sample)
{
    fprintf(stream, "# %-14s %10" PRIu64 " ", tt_kind_word(sample->kind), sample->size_bytes);
    for (unsigned method = 0; method < TT_METHOD_COUNT; method++) {
        if (sample->slowest_ns[method] > 0) {
            fprintf(stream, "  %s %.1f", tt_method_word(sample->kind, method), sample->slowest_ns[method] / 1e3);
        }
    }
    fputc('\n', stream);
}

static void print_begin(FILE *stream, const struct tune *tune)
{
    const struct tt_bench_arguments *arguments = tune->arguments;
    char date[32];
    time_t now = time(NULL);
    struct tm utc;

    strftime(date, sizeof(date), "%Y-%m-%d %H:%M UTC", gmtime_r(&now, &utc));
    fprintf(stream, "tutti-table %d\n", TT_CHOICE_VERSION);
    fprintf(stream,
            "measured %s, tutti %s, %" PRIu32 " ranks (%" PRIu32 " a host), %s, chunks of %" PRIu32 " B, %" PRIu32
            " chains, %" PRIu32 " workers, %" PRIu32 " iterations, loss %g %%\n",
            date, tutti_version(), arguments->job.rank_count, tune->info.local_ranks, tune->info.interface,
            tune->info.chunk_bytes, tune->info.chains, tune->info.workers, arguments->iterations,
            arguments->loss_ppm / 1e4);
    fprintf(stream, "# collective, bytes of a block or vector, us (median over the iterations of the slowest rank's "
                    "time)\n");
}

static void print_rows(FILE *stream, const struct tt_choice *choice)
{
    fprintf(stream, "# collective, network, ranks, from bytes on, algorithm\n");
    for (uint32_t i = 0; i < choice->row_count; i++) {
        const struct tt_choice_row *row = &choice->rows[i];
        fprintf(stream, "%s %s %" PRIu32 " %" PRIu64 " %s\n", tt_kind_word(row->kind),
                tt_choice_network_word(row->multicast), row->ranks, row->from_bytes,
                tt_method_word(row->kind, row->method));
    }
}

static tutti_status fail_to_write(tutti_status status)
{
    fprintf(stderr, "tutti bench: --write: %s\n", tt_last_error());
    return status;
}

/* Before anything is measured. Nothing is left, however long that takes and however it ends. */
static tutti_status check_file(const char *path)
{
    struct tt_tune_file file;
    tutti_status status = tt_tune_file_open(&file, path);

    if (status != TUTTI_OK) {
        return fail_to_write(status);
    }
    tt_tune_file_abandon(&file);
    return TUTTI_OK;
}

/* The whole file; what is there already is replaced only by a whole one. */
static tutti_status write_file(const struct tune *tune, const char *path)
{
    struct tt_tune_file file;
    tutti_status status = tt_tune_file_open(&file, path);

    if (status == TUTTI_OK) {
        print_begin(file.stream, tune);
        for (uint32_t i = 0; i < tune->sample_count; i++) {
            print_sample(file.stream, &tune->samples[i]);
        }
        print_rows(file.stream, &tune->choice);
        status = tt_tune_file_commit(&file);
    }
    return status == TUTTI_OK ? status : fail_to_write(status);
}

static void print_end(const struct tune *tune)
{
    struct tt_json json;

    if (!tune->arguments->json) {
        print_rows(stdout, &tune->choice);
        return;
    }
    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_choice_write_json(&json, &tune->choice);
    tt_json_end_object(&json);
}

/* --- The whole ---------------------------------------------------------------------------------------------------- */

static tutti_status create_group(struct tune *tune)
{
    const struct tt_bench_arguments *arguments = tune->arguments;
    tutti_context_options options = {
        .struct_size = sizeof(options), .settings = arguments->settings, .setting_count = arguments->setting_count};
    size_t words = (size_t)TT_METHOD_COUNT * arguments->iterations;

    tutti_status status = tutti_context_create(&options, &tune->context);
    if (status == TUTTI_OK) {
        status = tutti_group_create_from_environment(tune->context, &tune->group);
    }
    if (status != TUTTI_OK) {
        return fail(tune, "creating the group", status);
    }
    tune->rank = tutti_group_rank(tune->group);
    tune->info.struct_size = sizeof(tune->info);
    tune->own_ns = calloc(words, sizeof(uint64_t));
    tune->all_ns = calloc(words * arguments->job.rank_count, sizeof(uint64_t));
    tune->scratch_ns = calloc(arguments->iterations, sizeof(uint64_t));
    if (tune->own_ns == NULL || tune->all_ns == NULL || tune->scratch_ns == NULL) {
        return fail(tune, "out of memory", TUTTI_ERR_NO_MEMORY);
    }
    status = tutti_group_query(tune->group, &tune->info);
    return status == TUTTI_OK ? status : fail(tune, "preparing the benchmark", status);
}

/* What the ranks do between the measurements of one kind, with its largest buffers. */
static tutti_status init_between(struct tune *tune)
{
    static uint8_t nothing[2];
    size_t words = (size_t)TT_METHOD_COUNT * tune->arguments->iterations;

    tt_bench_buffers_resize(&tune->buffers, tune->arguments->max_bytes);
    tutti_request_options options = {.struct_size = sizeof(options),
                                     .timeout_ns =
                                         tt_bench_buffers_timeout_ns(&tune->buffers, tune->arguments->timeout_ns)};
    tutti_status status = tutti_allgather_init(tune->group, &nothing[0], &nothing[1], 0, &options, &tune->barrier);
    if (status == TUTTI_OK) {
        status = tutti_allgather_init(tune->group, tune->own_ns, tune->all_ns, words * sizeof(uint64_t), &options,
                                      &tune->gather);
    }
    return status == TUTTI_OK ? status : fail(tune, "preparing the benchmark", status);
}

static void print_measured(const struct tune *tune)
{
    const struct tt_tune_sample *sample = &tune->samples[tune->sample_count - 1];

    if (tune->arguments->json) {
        print_sample_json(stdout, sample, tune->arguments->job.rank_count);
    } else {
        print_sample(stdout, sample);
    }
    fflush(stdout);
}

static tutti_status measure_kind(struct tune *tune, enum tt_collective_kind kind, enum tt_bench_collective collective)
{
    const struct tt_bench_arguments *arguments = tune->arguments;
    uint64_t size_bytes = arguments->min_bytes;
    struct tt_bench_job job = arguments->job;
    job.collective = collective;
    tutti_status status = tt_bench_buffers_init(&tune->buffers, &job, tune->rank, arguments->max_bytes);

    if (status != TUTTI_OK) {
        return fail(tune, "allocating", status);
    }
    status = init_between(tune);
    for (bool more = status == TUTTI_OK; more;
         more = status == TUTTI_OK && tt_bench_next_size(arguments, &size_bytes)) {
        tt_bench_buffers_resize(&tune->buffers, size_bytes);
        if (choice_bytes(&tune->buffers) == 0) {
            continue; /* less than an element of each rank */
        }
        status = measure(tune, kind);
        if (status == TUTTI_OK && tune->rank == 0) {
            print_measured(tune);
        }
    }
    finalize(&tune->gather);
    finalize(&tune->barrier);
    tt_bench_buffers_fini(&tune->buffers);
    return status;
}

static tutti_status run(struct tune *tune)
{
    const char *path = tune->arguments->write_path;
    tutti_status status = create_group(tune);

    if (status == TUTTI_OK && tune->rank == 0 && path != NULL) {
        status = check_file(path);
    }
    if (status == TUTTI_OK && tune->rank == 0 && !tune->arguments->json) {
        print_begin(stdout, tune);
    }
    for (unsigned kind = TT_KIND_NONE + 1; kind < TT_KIND_COUNT && status == TUTTI_OK; kind++) {
        enum tt_bench_collective collective;
        if (tt_bench_collective_parse(tt_kind_word(kind), &collective) &&
            (tune->arguments->tunes_all || collective == tune->arguments->job.collective)) {
            status = measure_kind(tune, (enum tt_collective_kind)kind, collective);
        }
    }
    if (status != TUTTI_OK || tune->rank != 0) {
        return status;
    }
    if (tune->sample_count == 0) {
        fprintf(stderr, "tutti bench: --max-bytes %" PRIu64 ": less than an element of each rank: there is no table\n",
                tune->arguments->max_bytes);
        return TUTTI_ERR_INVALID_ARGUMENT;
    }
    tt_tune_rows(tune->samples, tune->sample_count, tune->arguments->job.rank_count, tune->info.multicast,
                 &tune->choice);
    print_end(tune);
    return path != NULL ? write_file(tune, path) : TUTTI_OK;
}

int tt_bench_tune(const struct tt_bench_arguments *arguments, const struct tt_settings *settings)
{
    struct tune *tune = calloc(1, sizeof(*tune));

    if (tune == NULL) {
        fprintf(stderr, "tutti bench: out of memory\n");
        return TT_EXIT_FAILED;
    }
    tune->arguments = arguments;
    tune->settings = settings;
    tune->rank = settings->rank == TT_AUTO ? 0 : (uint32_t)settings->rank;
    tutti_status status = run(tune);
    tutti_group_destroy(tune->group);
    tutti_context_destroy(tune->context);
    free(tune->own_ns);
    free(tune->all_ns);
    free(tune->scratch_ns);
    free(tune);
    return status == TUTTI_OK ? TT_EXIT_OK : TT_EXIT_FAILED;
}
