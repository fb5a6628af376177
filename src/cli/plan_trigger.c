/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti plan trigger`: the descriptors by which a NIC would do one rank's part of a collective.
 *
 * Normal path: options, then the checks that need all of them together, then the sequence, compiled as the engine gets
 * it and decoded from its bytes, on standard output.
 *
 * Failures: a collective without such an algorithm, or a rank or root that is none, is refused with the text as it was
 * written, exit status 2; no memory for the sequence of very many ranks is exit status 1.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/plan.h"
#include "cli/plan_trigger_draw.h"
#include "cli/table.h"
#include "offload/compile.h"

enum {
    OPTION_COLLECTIVE,
    OPTION_ALGORITHM,
    OPTION_RANKS,
    OPTION_RANK,
    OPTION_ROOT,
    OPTION_BYTES,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_COUNT
};

enum { RANK_LIMIT = 1 << 16, DEFAULT_BYTES = 1024, SOURCES_BYTES = 16 * 9 };

#define BYTES_LIMIT (UINT64_C(1) << 31)

static const struct tt_option options[OPTION_COUNT] = {
    [OPTION_COLLECTIVE] = {'c', "collective", "COLLECTIVE",
                           "barrier, broadcast, reduce, allreduce, reduce-scatter, allgather, gather or scatter"},
    [OPTION_ALGORITHM] = {'a', "algorithm", "ALGORITHM",
                          "dissemination, binomial, double-tree, recursive-doubling, rabenseifner, ring, "
                          "recursive-halving or direct"},
    [OPTION_RANKS] = {'n', "ranks", "N", "ranks of the group, up to 65536"},
    [OPTION_RANK] = {'r', "rank", "R", "whose descriptors, from 0"},
    [OPTION_ROOT] = {0, "root", "R", "of broadcast, reduce, gather and scatter; 0 if nothing is said"},
    [OPTION_BYTES] = {0, "bytes", "B", "of all of the data, 1K if nothing is said; ranks' blocks share it evenly"},
    [OPTION_JSON] = {0, "json", NULL, "one JSON object instead of the text"},
    [OPTION_HELP] = {'h', "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {
    .name = "plan trigger",
    .synopsis = "-c COLLECTIVE -a ALGORITHM -n N -r R [OPTION]...",
    .purpose =
        "Prints the sequence of descriptors by which a triggered NIC does one rank's part of a collective: a line\n"
        "for each descriptor with its fields, and for few ranks a drawing of what all of them do step by step.",
    .options = options,
    .option_count = OPTION_COUNT,
};

struct arguments {
    const char *collective_text, *algorithm_text, *bytes_text; /* NULL: not given */
    enum tt_schedule_collective collective;
    enum tt_schedule_algorithm algorithm;
    uint64_t rank_count, rank, root, bytes;
    bool has_rank, has_root, json;
};

static bool parse_option(void *target, int option, const char *text)
{
    struct arguments *arguments = target;
    switch (option) {
    case OPTION_COLLECTIVE:
        arguments->collective_text = text;
        if (!tt_schedule_collective_of_word(text, &arguments->collective)) {
            tt_usage_error(usage.name, "--collective '%s': not one of %s", text, options[option].help);
            return false;
        }
        return true;
    case OPTION_ALGORITHM:
        arguments->algorithm_text = text;
        if (!tt_schedule_algorithm_of_word(text, &arguments->algorithm)) {
            tt_usage_error(usage.name, "--algorithm '%s': not one of %s", text, options[option].help);
            return false;
        }
        return true;
    case OPTION_RANKS:
        return tt_arguments_count(usage.name, "-n", text, 1, RANK_LIMIT, &arguments->rank_count);
    case OPTION_RANK:
        arguments->has_rank = true;
        return tt_arguments_count(usage.name, "--rank", text, 0, RANK_LIMIT - 1, &arguments->rank);
    case OPTION_ROOT:
        arguments->has_root = true;
        return tt_arguments_count(usage.name, "--root", text, 0, RANK_LIMIT - 1, &arguments->root);
    case OPTION_BYTES:
        arguments->bytes_text = text;
        return tt_arguments_size(usage.name, "--bytes", text, 0, BYTES_LIMIT, &arguments->bytes);
    default:
        arguments->json = arguments->json || option == OPTION_JSON;
        return true;
    }
}

static bool check_together(const struct arguments *arguments)
{
    if (arguments->collective_text == NULL) {
        tt_usage_error(usage.name, "no collective given (--collective)");
    } else if (arguments->algorithm_text == NULL) {
        tt_usage_error(usage.name, "no algorithm given (--algorithm)");
    } else if (arguments->rank_count == 0) {
        tt_usage_error(usage.name, "no number of ranks given (-n)");
    } else if (!arguments->has_rank) {
        tt_usage_error(usage.name, "no rank given (--rank)");
    } else if (!tt_schedule_is_known(arguments->collective, arguments->algorithm)) {
        tt_usage_error(usage.name, "--algorithm '%s': there is no %s by it", arguments->algorithm_text,
                       arguments->collective_text);
    } else if (arguments->rank >= arguments->rank_count) {
        tt_usage_error(usage.name, "--rank '%" PRIu64 "': there are ranks 0 to %" PRIu64, arguments->rank,
                       arguments->rank_count - 1);
    } else if (arguments->has_root && !tt_schedule_has_root(arguments->collective)) {
        tt_usage_error(usage.name, "--root '%" PRIu64 "': %s has none", arguments->root, arguments->collective_text);
    } else if (arguments->bytes_text != NULL && arguments->collective == TT_SCHEDULE_BARRIER) {
        tt_usage_error(usage.name, "--bytes '%s': a barrier has no data", arguments->bytes_text);
    } else if (arguments->root >= arguments->rank_count) {
        tt_usage_error(usage.name, "--root '%" PRIu64 "': there are ranks 0 to %" PRIu64, arguments->root,
                       arguments->rank_count - 1);
    } else {
        return true;
    }
    return false;
}

/* --- The sequence ------------------------------------------------------------------------------------------------- */

struct sequence {
    struct tt_schedule schedule;
    struct tt_blocks blocks;
    uint64_t *firsts, *counts; /* of ranks' blocks; NULL if there are none */
    struct tt_schedule_step *steps;
    uint8_t *bytes;
    uint64_t count;
};

static void sequence_free(struct sequence *sequence)
{
    free(sequence->firsts);
    free(sequence->counts);
    free(sequence->steps);
    free(sequence->bytes);
}

static bool lay_out(struct sequence *sequence, const struct arguments *arguments)
{
    uint64_t ranks = arguments->rank_count;

    sequence->blocks = (struct tt_blocks){.block_count = tt_schedule_block_count(&sequence->schedule),
                                          .slice_count = arguments->bytes};
    if (!tt_schedule_has_rank_blocks(&sequence->schedule)) {
        return true;
    }
    sequence->firsts = calloc(ranks, sizeof(*sequence->firsts));
    sequence->counts = calloc(ranks, sizeof(*sequence->counts));
    if (sequence->firsts == NULL || sequence->counts == NULL) {
        return false;
    }
    tt_blocks_give_to_ranks(&sequence->blocks, sequence->firsts, sequence->counts);
    return true;
}

/* False: no memory. */
static bool sequence_make(struct sequence *sequence, const struct arguments *arguments)
{
    struct tt_compile_terms terms = {.schedule = &sequence->schedule,
                                     .blocks = &sequence->blocks,
                                     .rank = (uint32_t)arguments->rank,
                                     .element_bytes = 1};
    uint64_t largest_bytes;

    if (!tt_schedule_init(&sequence->schedule, arguments->collective, arguments->algorithm,
                          (uint32_t)arguments->rank_count, (uint32_t)arguments->root) ||
        !lay_out(sequence, arguments)) {
        return false;
    }
    uint64_t room = tt_compile_room(&terms);

    sequence->steps = calloc(room, sizeof(*sequence->steps));
    sequence->bytes = calloc(room, TT_DESCRIPTOR_BYTES);
    return sequence->steps != NULL && sequence->bytes != NULL &&
           tt_compile(&terms, sequence->steps, sequence->bytes, &sequence->count, &largest_bytes) == TUTTI_OK;
}

static bool descriptor_at(const struct sequence *sequence, uint64_t index, struct tt_descriptor *descriptor)
{
    return tt_descriptor_decode(sequence->bytes + index * TT_DESCRIPTOR_BYTES, descriptor);
}

/* --- Printing ----------------------------------------------------------------------------------------------------- */

/* The flags of one bit, in the order of the figure but for CPCount. */
enum { FLAG_COUNT = 10, FLAGS_BEFORE_COUNT = 4 };

static const char *const flag_names[FLAG_COUNT] = {
    "C",          "CH",         "CT", "CP", "SwapLocalData", "SwapLocalVP", "SwapRemoteData", "SwapRemoteAddr",
    "ReduceFlag", "CollEndFlag"};

static void flags_of(const struct tt_descriptor *d, bool *flags)
{
    const bool values[FLAG_COUNT] = {d->collective,
                                     d->head,
                                     d->tail,
                                     d->triggers,
                                     d->swap_local_data,
                                     d->swap_local_vp,
                                     d->swap_remote_data,
                                     d->swap_remote_address,
                                     d->reduce,
                                     d->collective_end};

    memcpy(flags, values, sizeof(values));
}

static const char *format_sources(const struct tt_descriptor *d, char *text)
{
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < d->source_count; i++) {
        int written = snprintf(text + length, SOURCES_BYTES - length, "%s%" PRIu32, i > 0 ? "," : "", d->sources[i]);

        length += (size_t)written;
    }
    return d->source_count > 0 ? text : "-";
}

static void print_row(const struct tt_column *columns, size_t column_count, const struct tt_descriptor *d)
{
    static const char *const bits[] = {"0", "1"};
    char text[5][TT_CELL_BYTES], sources[SOURCES_BYTES];
    const char *cells[TT_TABLE_COLUMN_LIMIT];
    bool flags[FLAG_COUNT];
    size_t at = 0;

    flags_of(d, flags);
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        if (i == FLAGS_BEFORE_COUNT) {
            cells[at++] = tt_cell_count(text[0], d->count);
        }
        cells[at++] = bits[flags[i]];
    }
    cells[at++] = d->triggers ? tt_cell_count(text[1], d->sequence) : "-";
    cells[at++] = d->triggers ? tt_cell_count(text[2], d->destination_node) : "-";
    cells[at++] = tt_cell_count(text[3], d->address_bytes);
    cells[at++] = tt_cell_count(text[4], d->length_bytes);
    cells[at++] = format_sources(d, sources);
    tt_table_row(stdout, columns, column_count, cells);
}

static void print_text(const struct arguments *arguments, const struct sequence *sequence)
{
    static const struct tt_column columns[] = {
        {"C", NULL, 1, false},       {"CH", NULL, 2, false},      {"CT", NULL, 2, false},
        {"CP", NULL, 2, false},      {"CPCount", NULL, 7, false}, {"SLData", NULL, 6, false},
        {"SLVP", NULL, 4, false},    {"SRData", NULL, 6, false},  {"SRAddr", NULL, 6, false},
        {"Reduce", NULL, 6, false},  {"CollEnd", NULL, 7, false}, {"SeqID", NULL, 5, false},
        {"DestID", NULL, 6, false},  {"address", "B", 10, false}, {"length", "B", 10, false},
        {"waits for", NULL, 9, true}};
    enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };
    struct tt_descriptor d;

    printf("# %s by %s: ranks %" PRIu64 ", rank %" PRIu64 ", ", arguments->collective_text, arguments->algorithm_text,
           arguments->rank_count, arguments->rank);
    if (tt_schedule_has_root(arguments->collective)) {
        printf("root %" PRIu64 ", ", arguments->root);
    }
    printf("bytes %" PRIu64 ", descriptors %" PRIu64 "\n", arguments->bytes, sequence->count);
    tt_plan_trigger_draw(&sequence->schedule, &sequence->blocks);
    tt_table_heading(stdout, columns, COLUMNS);
    for (uint64_t i = 0; i < sequence->count && descriptor_at(sequence, i, &d); i++) {
        print_row(columns, COLUMNS, &d);
    }
}

static void print_descriptor_json(struct tt_json *json, const struct tt_descriptor *d)
{
    bool flags[FLAG_COUNT];

    flags_of(d, flags);
    tt_json_begin_object(json, NULL);
    for (size_t i = 0; i < FLAG_COUNT; i++) {
        tt_json_flag(json, flag_names[i], flags[i]);
    }
    tt_json_count(json, "CPCount", d->count);
    tt_json_flag(json, "ReduceBefore", d->reduce_before);
    tt_json_count(json, "JobID", d->job);
    tt_json_count(json, "SeqID", d->sequence);
    tt_json_count(json, "SourceVP", d->source_port);
    tt_json_count(json, "DestVP", d->destination_port);
    tt_json_count(json, "DestID", d->destination_node);
    tt_json_count(json, "address", d->address_bytes);
    tt_json_count(json, "length", d->length_bytes);
    tt_json_begin_array(json, "sources");
    for (uint32_t i = 0; i < d->source_count; i++) {
        tt_json_count(json, NULL, d->sources[i]);
    }
    tt_json_end_array(json);
    tt_json_end_object(json);
}

static void print_json(const struct arguments *arguments, const struct sequence *sequence)
{
    struct tt_descriptor d;
    struct tt_json json;

    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "collective", arguments->collective_text);
    tt_json_text(&json, "algorithm", arguments->algorithm_text);
    tt_json_count(&json, "ranks", arguments->rank_count);
    tt_json_count(&json, "rank", arguments->rank);
    tt_json_count(&json, "root", arguments->root);
    tt_json_count(&json, "bytes", arguments->bytes);
    tt_json_begin_array(&json, "descriptors");
    for (uint64_t i = 0; i < sequence->count && descriptor_at(sequence, i, &d); i++) {
        print_descriptor_json(&json, &d);
    }
    tt_json_end_array(&json);
    tt_json_end_object(&json);
}

int tt_plan_trigger(int argc, char **argv)
{
    struct arguments arguments = {.bytes = DEFAULT_BYTES};
    struct sequence sequence = {.count = 0};
    struct tt_settings settings;
    int status = TT_EXIT_OK;

    if (!tt_command_settings(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    enum tt_parse parse = tt_arguments_read_all(&usage, argc, argv, parse_option, &arguments);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish(usage.name, TT_EXIT_OK);
    }
    if (parse == TT_PARSE_BAD || !check_together(&arguments) || !tt_command_log(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    if (arguments.collective == TT_SCHEDULE_BARRIER) {
        arguments.bytes = 0;
    }
    if (sequence_make(&sequence, &arguments)) {
        (arguments.json ? print_json : print_text)(&arguments, &sequence);
    } else {
        fprintf(stderr, "tutti %s: not enough memory for a sequence of %" PRIu64 " ranks\n", usage.name,
                arguments.rank_count);
        status = TT_EXIT_FAILED;
    }
    sequence_free(&sequence);
    return tt_command_finish(usage.name, status);
}
