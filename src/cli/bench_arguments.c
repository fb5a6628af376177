/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what `tutti bench` is to measure.
 *
 * Normal path: options in any order, the collective among them; then the checks that need all of it together. Values
 * that are settings of the library are tried on a copy of the settings, so that the library's own limits hold before a
 * process is started, and are handed on as text.
 *
 * Failures: each is reported once, with the text as it was written, and nothing is set.
 */
#include "cli/bench_arguments.h"

#include <getopt.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "offload/reduce.h"

enum {
    DEFAULT_RANKS = 2,
    DEFAULT_FACTOR = 2,
    DEFAULT_ITERATIONS = 20,
    DEFAULT_WARMUP = 5,
    RANK_LIMIT = TT_MAX_RANKS,
    ITERATION_LIMIT = 1000000 /* every rank keeps all samples of all ranks */
};

#define DEFAULT_MIN_BYTES  (UINT64_C(64) << 10)
#define DEFAULT_MAX_BYTES  (UINT64_C(16) << 20)
#define DEFAULT_TUNE_BYTES (UINT64_C(1) << 20)

/* The index of an option in `options`, and the setting that it stands for. */
enum bench_option {
    OPTION_RANKS,
    OPTION_MIN,
    OPTION_MAX,
    OPTION_FACTOR,
    OPTION_ITERATIONS,
    OPTION_WARMUP,
    OPTION_ROOT,
    OPTION_TYPE,
    OPTION_OPERATION,
    OPTION_IN_PLACE,
    OPTION_ALGORITHM,
    OPTION_CHAINS,
    OPTION_SUBGROUPS,
    OPTION_WORKERS,
    OPTION_LOSS,
    OPTION_SEED,
    OPTION_TIMEOUT,
    OPTION_TUNE,
    OPTION_WRITE,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_COUNT
};

static const struct tt_option options[OPTION_COUNT] = {
    [OPTION_RANKS] = {'n', "ranks", "RANKS", "ranks to start on this machine; default 2"},
    [OPTION_MIN] = {'b', "min-bytes", "MIN", "smallest size, 64K or 1M style; default 64K, or MAX if that is less"},
    [OPTION_MAX] = {'e', "max-bytes", "MAX", "largest size; default 16M, or MIN if that is more"},
    [OPTION_FACTOR] = {'f', "factor", "FACTOR", "from one size to the next; default 2"},
    [OPTION_ITERATIONS] = {'i', "iterations", "ITERATIONS", "timed iterations a size; default 20"},
    [OPTION_WARMUP] = {'w', "warmup", "WARMUP", "iterations before those, checked but not timed; default 5"},
    [OPTION_ROOT] = {0, "root", "RANK", "broadcast, reduce, gather, scatter: the root; default 0"},
    [OPTION_TYPE] =
        {0, "type", "TYPE",
         "of what is reduced: int8 to int64, uint8 to uint64, fp8-e4m3, fp8-e5m2, fp16, bf16, fp32, fp64 or "
         "opaque; default fp32"},
    [OPTION_OPERATION] =
        {0, "operation", "OPERATION",
         "sum, product, min, max, and, or, xor, average, premultiplied-sum or (of opaque elements) user; "
         "default sum"},
    [OPTION_IN_PLACE] = {0, "in-place", NULL, "one buffer for source and result, where a rank has both"},
    [OPTION_ALGORITHM] = {0, "algorithm", "ALGORITHM",
                          "auto, multicast, eager, gather, ring, chain, tree, sequential, binomial-tree, "
                          "binomial-pipeline, hybrid, binomial, double-tree, recursive-doubling, "
                          "recursive-halving, rabenseifner, triggered-ring, direct, parts or eager-parts"},
    [OPTION_CHAINS] = {0, "chains", "M", "allgather: roots that multicast at the same time"},
    [OPTION_SUBGROUPS] = {0, "subgroups", "S", "multicast groups that each buffer is split over"},
    [OPTION_WORKERS] = {0, "workers", "W", "receive worker threads a rank; 0: none"},
    [OPTION_LOSS] = {0, "loss", "PERCENT", "drop this share of the received chunks on purpose"},
    [OPTION_SEED] = {0, "seed", "SEED", "of what --loss drops"},
    [OPTION_TIMEOUT] = {0, "timeout", "TIME", "deadline of a collective (2s, 500ms)"},
    [OPTION_TUNE] = {0, "tune", NULL,
                     "measure every algorithm of the collective, or of all, and print the table that follows"},
    [OPTION_WRITE] = {0, "write", "FILE", "with --tune: write the table there too, for TUTTI_TABLE"},
    [OPTION_JSON] = {0, "json", NULL, "one JSON object a line for every size, instead of the table"},
    [OPTION_HELP] = {'h', "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {
    .name = "bench",
    .synopsis = "barrier|broadcast|reduce|allreduce|reduce-scatter|allgather|gather|scatter [OPTION]...\n"
                "       tutti bench --tune [COLLECTIVE] [OPTION]...\n"
                "       tutti bench msgrate|globalarray|stencil [OPTION]...",
    .purpose = "Measures a collective and checks every byte of every result. Sizes are the bytes that a rank puts in\n"
               "(broadcast, scatter: the root), rounded down to whole elements; a barrier has none. Starts the ranks\n"
               "itself, or is one rank of a job if a launcher (mpirun, srun, torchrun) or TUTTI_SIZE says so.",
    .options = options,
    .option_count = OPTION_COUNT,
};

/* What was written, before the defaults and the checks that need all of it. */
struct parse {
    struct tt_settings settings;
    struct tt_bench_arguments arguments;
    const char *given[OPTION_COUNT]; /* the text of each option that was given */
    const char *job;                 /* where settings.size is from */
};

static const char *setting_of(enum bench_option option)
{
    switch (option) {
    case OPTION_ALGORITHM:
        return "ALGORITHM";
    case OPTION_CHAINS:
        return "CHAINS";
    case OPTION_SUBGROUPS:
        return "SUBGROUPS";
    case OPTION_WORKERS:
        return "WORKERS";
    case OPTION_LOSS:
        return "LOSS";
    case OPTION_SEED:
        return "SEED";
    case OPTION_TIMEOUT:
        return "TIMEOUT";
    default:
        return NULL;
    }
}

static bool parse_count32(const char *option, const char *text, uint64_t minimum, uint64_t maximum, uint32_t *value)
{
    uint64_t count;
    if (!tt_arguments_count(usage.name, option, text, minimum, maximum, &count)) {
        return false;
    }
    *value = (uint32_t)count;
    return true;
}

static bool parse_setting(struct parse *parse, enum bench_option option, const char *text)
{
    const char *name = setting_of(option);
    if (tt_settings_set(&parse->settings, name, text) != TUTTI_OK) {
        char written[TT_OPTION_LIMIT];
        snprintf(written, sizeof(written), "--%s", options[option].name);
        tt_usage_error_value(usage.name, written, text, name);
        return false;
    }
    struct tt_bench_arguments *arguments = &parse->arguments;
    size_t index = 0;
    while (index < arguments->setting_count && strcmp(arguments->settings[index].name, name) != 0) {
        index++; /* an option that comes twice: the last one counts */
    }
    arguments->settings[index] = (tutti_setting){name, text};
    if (index == arguments->setting_count) {
        arguments->setting_count++;
    }
    return true;
}

/* The reason is the library's, the words around it the user's. */
static bool parse_type(struct parse *parse, const char *text)
{
    if (tt_type_parse(text, &parse->arguments.job.type) != TUTTI_OK) {
        tt_usage_error_value(usage.name, "--type", text, NULL);
        return false;
    }
    return true;
}

static bool parse_operation(struct parse *parse, const char *text)
{
    if (tt_reduce_operation_parse(text, &parse->arguments.job.operation) != TUTTI_OK) {
        tt_usage_error_value(usage.name, "--operation", text, NULL);
        return false;
    }
    return true;
}

static bool parse_option(void *target, int index, const char *text)
{
    struct parse *parse = target;
    const enum bench_option option = (enum bench_option)index;
    struct tt_bench_arguments *arguments = &parse->arguments;
    parse->given[option] = text != NULL ? text : "";
    switch (option) {
    case OPTION_RANKS:
        return parse_count32("-n", text, 1, RANK_LIMIT, &arguments->job.rank_count);
    case OPTION_MIN:
        return tt_arguments_size(usage.name, "-b", text, 0, UINT64_MAX, &arguments->min_bytes);
    case OPTION_MAX:
        return tt_arguments_size(usage.name, "-e", text, 0, UINT64_MAX, &arguments->max_bytes);
    case OPTION_FACTOR:
        return tt_arguments_count(usage.name, "-f", text, 2, UINT32_MAX, &arguments->factor);
    case OPTION_ITERATIONS:
        return parse_count32("-i", text, 1, ITERATION_LIMIT, &arguments->iterations);
    case OPTION_WARMUP:
        return parse_count32("-w", text, 0, ITERATION_LIMIT, &arguments->warmup);
    case OPTION_ROOT:
        return parse_count32("--root", text, 0, RANK_LIMIT - 1, &arguments->job.root);
    case OPTION_TYPE:
        return parse_type(parse, text);
    case OPTION_OPERATION:
        return parse_operation(parse, text);
    case OPTION_IN_PLACE:
        arguments->job.in_place = true;
        return true;
    case OPTION_JSON:
        arguments->json = true;
        return true;
    case OPTION_TUNE:
        arguments->tune = true;
        return true;
    case OPTION_WRITE:
        arguments->write_path = text;
        return true;
    default:
        return parse_setting(parse, option, text);
    }
}

/* One that was given and cannot be, in the user's words. False. */
static bool refuse(const struct parse *parse, enum bench_option option, const char *why)
{
    if (options[option].value == NULL) {
        tt_usage_error(usage.name, "--%s: %s", options[option].name, why);
    } else {
        tt_usage_error(usage.name, "--%s '%s': %s", options[option].name, parse->given[option], why);
    }
    return false;
}

/* The options that go with --tune, and those that do not. */
static bool check_tune(const struct parse *parse)
{
    static const enum bench_option others[] = {OPTION_ALGORITHM, OPTION_ROOT, OPTION_TYPE, OPTION_OPERATION,
                                               OPTION_IN_PLACE};
    if (!parse->arguments.tune) {
        if (parse->given[OPTION_WRITE] != NULL) {
            tt_usage_error(usage.name, "--write '%s': only with --tune", parse->given[OPTION_WRITE]);
            return false;
        }
        return true;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (parse->given[others[i]] != NULL) {
            return refuse(parse, others[i], "not with --tune");
        }
    }
    if (parse->given[OPTION_WRITE] != NULL && parse->given[OPTION_WRITE][0] == '\0') {
        tt_usage_error(usage.name, "--write '': no file");
        return false;
    }
    return true;
}

/* What --tune measures unless told otherwise. */
static bool settle_tune(struct parse *parse)
{
    struct tt_bench_arguments *arguments = &parse->arguments;
    if (parse->given[OPTION_MIN] == NULL) {
        arguments->min_bytes = 1;
    }
    if (parse->given[OPTION_MAX] == NULL) {
        arguments->max_bytes = DEFAULT_TUNE_BYTES;
    }
    arguments->min_bytes = arguments->min_bytes == 0 ? 1 : arguments->min_bytes; /* nothing is a barrier */
    return arguments->max_bytes > 0 || refuse(parse, OPTION_MAX, "--tune measures from one byte on");
}

static bool parse_collective(int argc, char **argv, struct tt_bench_arguments *arguments)
{
    enum tt_bench_collective *collective = &arguments->job.collective;
    if (optind == argc && arguments->tune) {
        *collective = TT_BENCH_ALLGATHER; /* whose buffers are the largest */
        arguments->tunes_all = true;
        return true;
    }
    if (optind == argc) {
        tt_usage_error(usage.name, "no collective given: %s", tt_bench_collective_names());
        return false;
    }
    const char *text = argv[optind];
    if (!tt_bench_collective_parse(text, collective)) {
        tt_usage_error(usage.name, "unknown collective '%s': %s", text, tt_bench_collective_names());
        return false;
    }
    if (optind + 1 < argc) {
        tt_usage_error(usage.name, "unexpected argument '%s'", argv[optind + 1]);
        return false;
    }
    if (arguments->tune && *collective == TT_BENCH_BARRIER) {
        tt_usage_error(usage.name, "unexpected argument '%s': --tune measures what has sizes", text);
        return false;
    }
    return true;
}

/* The number of ranks, from -n or from the job that this process belongs to. */
static bool settle_ranks(struct parse *parse)
{
    struct tt_bench_arguments *arguments = &parse->arguments;
    uint64_t job_size = parse->settings.size;
    arguments->is_rank = job_size != TT_AUTO;
    if (!arguments->is_rank) {
        return true;
    }
    if (parse->given[OPTION_RANKS] != NULL && arguments->job.rank_count != job_size) {
        tt_usage_error(usage.name, "-n '%s': this is a rank of a job already (%s)", parse->given[OPTION_RANKS],
                       parse->job);
        return false;
    }
    arguments->job.rank_count = (uint32_t)job_size;
    return true;
}

/* Of a barrier, which moves nothing. */
static bool settle_no_sizes(struct parse *parse)
{
    static const enum bench_option others[] = {OPTION_MIN, OPTION_MAX, OPTION_FACTOR, OPTION_IN_PLACE};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (parse->given[others[i]] != NULL) {
            return refuse(parse, others[i], "a barrier has no data");
        }
    }
    parse->arguments.min_bytes = 0;
    parse->arguments.max_bytes = 0;
    return true;
}

static bool settle_sizes(struct parse *parse)
{
    struct tt_bench_arguments *arguments = &parse->arguments;
    const char *max = parse->given[OPTION_MAX];
    const char *min = parse->given[OPTION_MIN];
    if (arguments->job.collective == TT_BENCH_BARRIER) {
        return settle_no_sizes(parse);
    }
    if (arguments->min_bytes > arguments->max_bytes) {
        if (min != NULL && max != NULL) {
            tt_usage_error(usage.name, "-b '%s': more than -e '%s'", min, max);
            return false;
        }
        if (min != NULL) {
            arguments->max_bytes = arguments->min_bytes;
        } else {
            arguments->min_bytes = arguments->max_bytes;
        }
    }
    if (tt_bench_buffers_need(&arguments->job, true, arguments->max_bytes) == UINT64_MAX) {
        tt_usage_error(usage.name, "-%c '%s': too large for %" PRIu32 " ranks", max != NULL ? 'e' : 'b',
                       max != NULL ? max : min, arguments->job.rank_count);
        return false;
    }
    return true;
}

static bool check_collective(const struct parse *parse)
{
    const struct tt_bench_job *job = &parse->arguments.job;
    const struct tt_bench_collective_row *row = tt_bench_collective_row(job->collective);
    const char *root = parse->given[OPTION_ROOT];
    const char *chains = parse->given[OPTION_CHAINS];
    if (root != NULL && !row->has_root) {
        tt_usage_error(usage.name, "--root '%s': %s has no root", root, row->phrase);
        return false;
    }
    if (root != NULL && job->root >= job->rank_count) {
        tt_usage_error(usage.name, "--root '%s': there are %" PRIu32 " ranks, from 0 on", root, job->rank_count);
        return false;
    }
    if (chains != NULL && job->collective != TT_BENCH_ALLGATHER) {
        tt_usage_error(usage.name, "--chains '%s': only an allgather has chains", chains);
        return false;
    }
    return true;
}

/* What is reduced, and how. The benchmark's own operation is one on elements that it alone knows. */
static bool check_reduction(const struct parse *parse)
{
    static const enum bench_option both[] = {OPTION_TYPE, OPTION_OPERATION};
    const struct tt_bench_job *job = &parse->arguments.job;
    const struct tt_bench_collective_row *row = tt_bench_collective_row(job->collective);
    if (!row->reduces) {
        for (size_t i = 0; i < sizeof(both) / sizeof(both[0]); i++) {
            if (parse->given[both[i]] != NULL) {
                tt_usage_error(usage.name, "--%s '%s': %s reduces nothing", options[both[i]].name,
                               parse->given[both[i]], row->phrase);
                return false;
            }
        }
        return true;
    }
    if (tt_reduce_supported(job->type, job->operation) != TUTTI_OK) {
        tt_usage_error(usage.name, "--operation %s", tt_last_error());
        return false;
    }
    if (job->operation == TT_REDUCE_USER && job->type != TT_TYPE_OPAQUE) {
        tt_usage_error(usage.name, "--operation 'user': only with --type opaque, for elements of its own");
        return false;
    }
    return true;
}

enum tt_parse tt_bench_arguments_parse(int argc, char **argv, const struct tt_settings *settings, const char *job,
                                       struct tt_bench_arguments *arguments)
{
    struct parse parse = {
        .settings = *settings,
        .job = job,
        .arguments = {.job = {.rank_count = DEFAULT_RANKS, .type = TT_TYPE_FP32, .operation = TT_REDUCE_SUM},
                      .min_bytes = DEFAULT_MIN_BYTES,
                      .max_bytes = DEFAULT_MAX_BYTES,
                      .factor = DEFAULT_FACTOR,
                      .iterations = DEFAULT_ITERATIONS,
                      .warmup = DEFAULT_WARMUP}};
    enum tt_parse status = tt_arguments_read(&usage, argc, argv, parse_option, &parse);
    if (status != TT_PARSE_OK) {
        return status;
    }
    if (!check_tune(&parse) || !parse_collective(argc, argv, &parse.arguments) ||
        (parse.arguments.tune && !settle_tune(&parse))) {
        return TT_PARSE_BAD;
    }
    if (!settle_ranks(&parse) || !settle_sizes(&parse) || !check_collective(&parse) || !check_reduction(&parse)) {
        return TT_PARSE_BAD;
    }
    parse.arguments.algorithm = parse.settings.algorithm;
    if (parse.given[OPTION_ALGORITHM] != NULL) {
        parse.arguments.requested = (tutti_algorithm)parse.settings.algorithm;
    }
    parse.arguments.loss_ppm = parse.settings.loss_ppm;
    parse.arguments.timeout_ns = parse.settings.timeout_ns;
    *arguments = parse.arguments;
    return TT_PARSE_OK;
}

bool tt_bench_next_size(const struct tt_bench_arguments *arguments, uint64_t *size_bytes)
{
    uint64_t size = *size_bytes;
    if (size > arguments->max_bytes / arguments->factor && size != 0) {
        return false;
    }
    size = size == 0 ? 1 : size * arguments->factor;
    if (size > arguments->max_bytes) {
        return false;
    }
    *size_bytes = size;
    return true;
}
