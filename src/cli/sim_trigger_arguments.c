/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the command line of `tutti sim trigger`.
 *
 * Normal path: options, of which each parameter of the cost model is one; then what is not said, and the checks that
 * need all of it together.
 *
 * Failures: each is reported once, with the text as it was written.
 */
#include "cli/sim_trigger_arguments.h"

#include <inttypes.h>
#include <string.h>

#include "base/settings.h"

enum sim_option {
    OPTION_COLLECTIVE,
    OPTION_ALGORITHM,
    OPTION_SIZE,
    OPTION_JOBS,
    OPTION_NODES,
    OPTION_ROOT,
    OPTION_UNITS,
    OPTION_BUFFER,
    OPTION_PACKET,
    OPTION_LANES,
    OPTION_CREDITS,
    OPTION_MODEL,
    OPTION_POLL_ALWAYS,
    OPTION_SKEW,
    OPTION_SEED,
    OPTION_PAPER,
#define X(field, option, value, unit, help) OPTION_##field,
    TT_COSTSIM_COSTS_TABLE(X)
#undef X
        OPTION_JSON,
    OPTION_HELP,
    OPTION_COUNT
};

#define MOST_BUFFER_BYTES (UINT64_C(64) << 20)
#define MOST_BYTES        (UINT64_C(1) << 30)
#define MOST_DATA_BYTES   (UINT64_C(32) << 30) /* of all ranks, as simulated: an eighth of it in memory */

static const struct tt_option options[OPTION_COUNT] = {
    [OPTION_COLLECTIVE] = {'c', "collective", "COLLECTIVE",
                           "barrier, broadcast, reduce, allreduce, reduce-scatter, allgather, gather or scatter"},
    [OPTION_ALGORITHM] = {'a', "algorithm", "ALGORITHM",
                          "as tutti plan trigger has them; what the paper measures if nothing is said"},
    [OPTION_SIZE] = {'s', "size", "SIZES", "of a job's data: 4K or 256,4K,1M or 256-1M (each twice the last); 1M"},
    [OPTION_JOBS] = {'j', "jobs", "JOBS", "at the same time: 8 or 1,8,32 or 1-32; 1 if nothing is said"},
    [OPTION_NODES] = {'n', "nodes", "N", "1 to 256, each a rank of every job; 32 if nothing is said"},
    [OPTION_ROOT] = {0, "root", "R", "of broadcast, reduce, gather and scatter; 0 if nothing is said"},
    [OPTION_UNITS] = {0, "units", "U", "of a NIC, 1 to 8; 8 if nothing is said"},
    [OPTION_BUFFER] = {0, "buffer", "BYTES", "packet memory of a unit; 512K if nothing is said"},
    [OPTION_PACKET] = {0, "packet", "BYTES", "longest data of a packet; 16K if nothing is said"},
    [OPTION_LANES] = {0, "lanes", "L", "ports of a job, 1 to 8; 8 if nothing is said"},
    [OPTION_CREDITS] = {0, "credits", "K", "pulses that a node has in flight, 1 to 512; 256 if nothing is said"},
    [OPTION_MODEL] = {0, "model", "MODEL", "host, offload or both; both if nothing is said"},
    [OPTION_POLL_ALWAYS] = {0, "poll-always", NULL, "a host takes L_poll for every packet, not for RDMA only"},
    [OPTION_SKEW] = {0, "skew", "NS", "each rank begins so much late at most, at random; 0 if nothing is said"},
    [OPTION_SEED] = {0, "seed", "SEED", "of --skew, --jitter-ns and data; 1 if nothing is said"},
    [OPTION_PAPER] = {0, "paper", NULL, "figures 5 and 6 and table 1 of Xu et al., beside their numbers"},
#define X(field, option, value, unit, help)                                                                            \
    [OPTION_##field] = {0, option, unit[0] == '\0' ? "N" : unit, help "; " #value " if nothing is said"},
    TT_COSTSIM_COSTS_TABLE(X)
#undef X
        [OPTION_JSON] = {0, "json", NULL, "one JSON object instead of the text"},
    [OPTION_HELP] = {'h', "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {
    .name = "sim trigger",
    .synopsis = "-c COLLECTIVE [OPTION]...\n       tutti sim trigger --paper [OPTION]...",
    .purpose =
        "Simulates jobs that do a collective at the same time on nodes with triggered NICs: how long it takes if\n"
        "the NICs' units execute the descriptors, and how long if the hosts do, as a table; and how full the\n"
        "units' buffers of the root's NIC are. MB are millions of bytes.",
    .options = options,
    .option_count = OPTION_COUNT,
};

struct parse {
    struct tt_costsim_arguments arguments;
    const char *given[OPTION_COUNT]; /* the text of each option that was given */
};

/* --- Lists -------------------------------------------------------------------------------------------------------- */

typedef tutti_status number_reader(const char *text, uint64_t *value);

static bool add_number(struct tt_costsim_list *list, const char *option, const char *text, uint64_t value)
{
    if (list->count == TT_COSTSIM_LIST_LIMIT) {
        tt_usage_error(usage.name, "%s '%s': more than %d values", option, text, TT_COSTSIM_LIST_LIMIT);
        return false;
    }
    list->values[list->count++] = value;
    return true;
}

static bool read_number(const char *option, const char *text, const char *number, number_reader *read, uint64_t *value)
{
    if (number[0] == '\0') {
        tt_usage_error(usage.name, "%s '%s': a number is missing", option, text);
        return false;
    }
    if (read(number, value) != TUTTI_OK) {
        tt_usage_error_value(usage.name, option, number, NULL);
        return false;
    }
    return true;
}

/* "N", or "N-M": N, twice N, ... up to M. */
static bool add_item(struct tt_costsim_list *list, const char *option, const char *text, char *item,
                     number_reader *read)
{
    char *dash = strchr(item, '-');
    uint64_t first, last;

    if (dash != NULL) {
        *dash = '\0';
    }
    if (!read_number(option, text, item, read, &first) ||
        (dash != NULL && !read_number(option, text, dash + 1, read, &last))) {
        return false;
    }
    if (dash == NULL) {
        return add_number(list, option, text, first);
    }
    if (first == 0 || last < first) {
        tt_usage_error(usage.name, "%s '%s': a range begins with a number that is not 0, nor above its end", option,
                       text);
        return false;
    }
    for (uint64_t value = first; value <= last; value *= 2) {
        if (!add_number(list, option, text, value)) {
            return false;
        }
        if (value > last / 2) {
            break;
        }
    }
    return true;
}

static bool read_list(struct tt_costsim_list *list, const char *option, const char *text, number_reader *read,
                      uint64_t least, uint64_t most)
{
    char copy[256], *rest = copy;

    list->count = 0;
    if (strlen(text) >= sizeof copy) {
        tt_usage_error(usage.name, "%s '%s': too long", option, text);
        return false;
    }
    memcpy(copy, text, strlen(text) + 1);
    for (char *item = strsep(&rest, ","); item != NULL; item = strsep(&rest, ",")) {
        if (!add_item(list, option, text, item, read)) {
            return false;
        }
    }
    for (size_t i = 0; i < list->count; i++) {
        if (list->values[i] < least || list->values[i] > most) {
            tt_usage_error(usage.name, "%s '%s': must be from %" PRIu64 " to %" PRIu64, option, text, least, most);
            return false;
        }
    }
    return true;
}

/* --- Options ------------------------------------------------------------------------------------------------------ */

static bool read_count32(const char *option, const char *text, uint64_t least, uint64_t most, uint32_t *value)
{
    uint64_t count;

    if (!tt_arguments_count(usage.name, option, text, least, most, &count)) {
        return false;
    }
    *value = (uint32_t)count;
    return true;
}

static bool read_bytes(const char *option, const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
    uint64_t bytes;

    if (!tt_arguments_size(usage.name, option, text, 0, UINT64_MAX, &bytes)) {
        return false;
    }
    if (bytes < least || bytes > most || bytes % TT_COSTSIM_ELEMENT_BYTES != 0) {
        tt_usage_error(usage.name, "%s '%s': must be a multiple of %d from %" PRIu64 " to %" PRIu64, option, text,
                       TT_COSTSIM_ELEMENT_BYTES, least, most);
        return false;
    }
    *value = bytes;
    return true;
}

static bool read_sizes(struct tt_costsim_list *sizes, const char *text)
{
    if (!read_list(sizes, "--size", text, tt_parse_size, 0, MOST_BYTES)) {
        return false;
    }
    for (size_t i = 0; i < sizes->count; i++) {
        if (sizes->values[i] % TT_COSTSIM_ELEMENT_BYTES != 0) {
            tt_usage_error(usage.name, "--size '%s': %" PRIu64 " is no multiple of an element's %d bytes", text,
                           sizes->values[i], TT_COSTSIM_ELEMENT_BYTES);
            return false;
        }
    }
    return true;
}

static bool read_model(struct tt_costsim_arguments *arguments, const char *text)
{
    bool is_both = strcmp(text, "both") == 0;

    arguments->host = is_both || strcmp(text, "host") == 0;
    arguments->offload = is_both || strcmp(text, "offload") == 0;
    if (!arguments->host && !arguments->offload) {
        tt_usage_error(usage.name, "--model '%s': not one of %s", text, "host, offload or both");
        return false;
    }
    return true;
}

static bool read_cost(struct tt_costsim_costs *costs, enum sim_option option, const char *text)
{
    char written[32];
    uint64_t *field, least = 1;

    switch (option) {
#define X(name, words, value, unit, help)                                                                              \
    case OPTION_##name:                                                                                                \
        field = &costs->name;                                                                                          \
        least = strcmp(unit, "ns") == 0 ? 0 : 1;                                                                       \
        break;
        TT_COSTSIM_COSTS_TABLE(X)
#undef X
    default:
        return false;
    }
    snprintf(written, sizeof written, "--%s", options[option].name);
    return tt_arguments_count(usage.name, written, text, least, TT_COSTSIM_COST_MOST, field);
}

static bool read_word(struct tt_costsim_terms *terms, enum sim_option option, const char *text)
{
    bool is_known = option == OPTION_COLLECTIVE ? tt_schedule_collective_of_word(text, &terms->collective)
                                                : tt_schedule_algorithm_of_word(text, &terms->algorithm);

    if (!is_known) {
        tt_usage_error(usage.name, "--%s '%s': not one", options[option].name, text);
    }
    return is_known;
}

static bool parse_option(void *target, int index, const char *text)
{
    struct parse *parse = target;
    struct tt_costsim_arguments *arguments = &parse->arguments;
    struct tt_costsim_terms *terms = &arguments->terms;
    const enum sim_option option = (enum sim_option)index;

    text = text != NULL ? text : ""; /* of options without a value */
    parse->given[option] = text;
    switch (option) {
    case OPTION_COLLECTIVE:
    case OPTION_ALGORITHM:
        return read_word(terms, option, text);
    case OPTION_SIZE:
        return read_sizes(&arguments->sizes, text);
    case OPTION_JOBS:
        return read_list(&arguments->jobs, "--jobs", text, tt_parse_count, 1, TT_COSTSIM_MOST_JOBS);
    case OPTION_NODES:
        return read_count32("--nodes", text, 1, TT_COSTSIM_MOST_NODES, &terms->node_count);
    case OPTION_ROOT:
        return read_count32("--root", text, 0, TT_COSTSIM_MOST_NODES - 1, &terms->root);
    case OPTION_UNITS:
        return read_count32("--units", text, 1, TT_OFFLOAD_MOST_UNITS, &terms->unit_count);
    case OPTION_BUFFER:
        return read_bytes("--buffer", text, TT_COSTSIM_ELEMENT_BYTES, MOST_BUFFER_BYTES, &terms->unit_bytes);
    case OPTION_PACKET:
        return read_bytes("--packet", text, TT_COSTSIM_ELEMENT_BYTES, MOST_BUFFER_BYTES, &terms->packet_bytes);
    case OPTION_LANES:
        return read_count32("--lanes", text, 1, TT_OPERATION_MOST_LANES, &terms->lane_count);
    case OPTION_CREDITS:
        return read_count32("--credits", text, 1, TT_PULSE_MOST_COUNTERS, &terms->credits);
    case OPTION_MODEL:
        return read_model(arguments, text);
    case OPTION_SKEW:
        return tt_arguments_count(usage.name, "--skew", text, 0, TT_COSTSIM_COST_MOST, &terms->skew_ns);
    case OPTION_SEED:
        return tt_arguments_count(usage.name, "--seed", text, 0, UINT64_MAX, &terms->seed);
    case OPTION_POLL_ALWAYS:
        terms->polls_always = true;
        return true;
    case OPTION_PAPER:
        arguments->is_paper = true;
        return true;
    case OPTION_JSON:
        arguments->json = true;
        return true;
    default:
        return read_cost(&terms->costs, option, text);
    }
}

/* --- Together ----------------------------------------------------------------------------------------------------- */

enum tt_schedule_algorithm tt_costsim_default_algorithm(enum tt_schedule_collective collective)
{
    switch (collective) {
    case TT_SCHEDULE_BARRIER:
        return TT_SCHEDULE_DISSEMINATION;
    case TT_SCHEDULE_BROADCAST:
        return TT_SCHEDULE_DOUBLE_TREE;
    case TT_SCHEDULE_REDUCE:
    case TT_SCHEDULE_ALLREDUCE:
        return TT_SCHEDULE_RABENSEIFNER;
    case TT_SCHEDULE_REDUCE_SCATTER:
        return TT_SCHEDULE_RECURSIVE_HALVING;
    case TT_SCHEDULE_ALLGATHER:
        return TT_SCHEDULE_RECURSIVE_DOUBLING;
    default:
        return TT_SCHEDULE_BINOMIAL;
    }
}

static bool check_paper(const struct parse *parse)
{
    static const enum sim_option others[] = {OPTION_COLLECTIVE, OPTION_ALGORITHM, OPTION_SIZE,
                                             OPTION_JOBS,       OPTION_MODEL,     OPTION_ROOT};

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        if (parse->given[others[i]] != NULL) {
            tt_usage_error(usage.name, "--%s '%s': not with --paper", options[others[i]].name, parse->given[others[i]]);
            return false;
        }
    }
    return true;
}

static bool check_schedule(const struct parse *parse)
{
    const struct tt_costsim_terms *terms = &parse->arguments.terms;

    if (parse->given[OPTION_COLLECTIVE] == NULL) {
        tt_usage_error(usage.name, "no collective given (--collective)");
    } else if (!tt_schedule_is_known(terms->collective, terms->algorithm)) {
        tt_usage_error(usage.name, "--algorithm '%s': there is no %s by it", parse->given[OPTION_ALGORITHM],
                       parse->given[OPTION_COLLECTIVE]);
    } else if (parse->given[OPTION_ROOT] != NULL && !tt_schedule_has_root(terms->collective)) {
        tt_usage_error(usage.name, "--root '%s': %s has none", parse->given[OPTION_ROOT],
                       parse->given[OPTION_COLLECTIVE]);
    } else if (parse->given[OPTION_SIZE] != NULL && terms->collective == TT_SCHEDULE_BARRIER) {
        tt_usage_error(usage.name, "--size '%s': a barrier has no data", parse->given[OPTION_SIZE]);
    } else if (terms->root >= terms->node_count) {
        tt_usage_error(usage.name, "--root '%" PRIu32 "': there are nodes 0 to %" PRIu32, terms->root,
                       terms->node_count - 1);
    } else {
        return true;
    }
    return false;
}

static bool check_room(const struct parse *parse)
{
    const struct tt_costsim_arguments *arguments = &parse->arguments;
    uint64_t most_bytes = 0, most_jobs = 1;

    for (size_t i = 0; i < arguments->sizes.count; i++) {
        most_bytes = arguments->sizes.values[i] > most_bytes ? arguments->sizes.values[i] : most_bytes;
    }
    for (size_t i = 0; i < arguments->jobs.count; i++) {
        most_jobs = arguments->jobs.values[i] > most_jobs ? arguments->jobs.values[i] : most_jobs;
    }
    if (most_bytes > MOST_DATA_BYTES / (most_jobs * arguments->terms.node_count)) {
        tt_usage_error(usage.name, "--size '%s': too much for %" PRIu64 " jobs on %" PRIu32 " nodes",
                       parse->given[OPTION_SIZE] != NULL ? parse->given[OPTION_SIZE] : "1M", most_jobs,
                       arguments->terms.node_count);
        return false;
    }
    if (arguments->terms.credits < most_jobs) { /* else nodes could admit different ones, which wait for each other */
        tt_usage_error(usage.name, "--credits '%" PRIu32 "': too few for %" PRIu64 " jobs, which need one each",
                       arguments->terms.credits, most_jobs);
        return false;
    }
    if (arguments->terms.packet_bytes + TT_TRIGGER_PACKET_BYTES > arguments->terms.unit_bytes) {
        tt_usage_error(usage.name,
                       "--buffer '%" PRIu64 "': no room for a packet of %" PRIu64 " bytes and its header of %d",
                       arguments->terms.unit_bytes, arguments->terms.packet_bytes, TT_TRIGGER_PACKET_BYTES);
        return false;
    }
    return true;
}

enum tt_parse tt_costsim_arguments_parse(int argc, char **argv, struct tt_costsim_arguments *arguments)
{
    struct parse parse = {.arguments = {.terms = {.node_count = 32,
                                                  .unit_count = 8,
                                                  .lane_count = 8,
                                                  .window = TT_OFFLOAD_MOST_WINDOW,
                                                  .credits = 256,
                                                  .unit_bytes = 512 << 10,
                                                  .packet_bytes = 16 << 10,
                                                  .seed = 1},
                                        .sizes = {.values = {1 << 20}, .count = 1},
                                        .jobs = {.values = {1}, .count = 1},
                                        .host = true,
                                        .offload = true}};
#define X(field, option, value, unit, help) parse.arguments.terms.costs.field = value;
    TT_COSTSIM_COSTS_TABLE(X)
#undef X
    enum tt_parse status = tt_arguments_read_all(&usage, argc, argv, parse_option, &parse);

    if (status != TT_PARSE_OK) {
        return status;
    }
    if (parse.given[OPTION_ALGORITHM] == NULL) {
        parse.arguments.terms.algorithm = tt_costsim_default_algorithm(parse.arguments.terms.collective);
    }
    if (parse.arguments.is_paper) { /* its sizes end where the default is */
        parse.arguments.jobs.values[0] = TT_COSTSIM_PAPER_JOBS;
    } else if (parse.arguments.terms.collective == TT_SCHEDULE_BARRIER) {
        parse.arguments.sizes.values[0] = 0; /* else it would be as many barriers as there are pulses */
    }
    if (!(parse.arguments.is_paper ? check_paper(&parse) : check_schedule(&parse)) || !check_room(&parse)) {
        return TT_PARSE_BAD;
    }
    *arguments = parse.arguments;
    return TT_PARSE_OK;
}
