/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti plan endpoints`: what each category of scalable endpoints would take from the NIC, a row each; or one
 * category queue pair by queue pair.
 *
 * Normal path: reads the command line, counts, prints. Nothing is opened, so it works where there is no NIC.
 *
 * Failures: a command line that cannot be is one line and exit status 2. A plan that is larger than the driver or the
 * NIC allows is printed, with a note of what it exceeds.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/endpoint_columns.h"
#include "cli/json.h"
#include "cli/plan.h"
#include "cli/table.h"
#include "endpoint/plan.h"

enum {
    OPTION_THREADS,
    OPTION_CATEGORY,
    OPTION_DRIVER,
    OPTION_RANKS,
    OPTION_QUEUE_PAIRS,
    OPTION_TOTAL,
    OPTION_LOW_LATENCY,
    OPTION_ASSIGNMENT,
    OPTION_JSON,
    OPTION_HELP,
    OPTION_COUNT
};

static const struct tt_option options[OPTION_COUNT] = {
    [OPTION_THREADS] = {'t', "threads", "T", "threads of a rank, 1 to 4096; must be given"},
    [OPTION_CATEGORY] = {'c', "category", "CATEGORY",
                         "only this one: mpi-everywhere, 2xdynamic, dynamic,\nshared-dynamic, static or mpi+threads"},
    [OPTION_DRIVER] = {'d', "driver", "DRIVER", "legacy (the paper's) or current (since 2020; the default)"},
    [OPTION_RANKS] = {0, "ranks", "R", "ranks on the node, each with T threads (1)"},
    [OPTION_QUEUE_PAIRS] = {0, "queue-pairs-per-thread", "Q", "queue pairs of a thread, with one completion queue (1)"},
    [OPTION_TOTAL] = {0, "total-uuars", "N", "as MLX5_TOTAL_UUARS: even, 2 to 512 (16)"},
    [OPTION_LOW_LATENCY] = {0, "low-latency-uuars", "N", "as MLX5_NUM_LOW_LAT_UUARS: less than the total (4)"},
    [OPTION_ASSIGNMENT] = {0, "assignment", NULL,
                           "one rank's queue pairs, each with its doorbell register;\nof static, or of --category"},
    [OPTION_JSON] = {0, "json", NULL, "a JSON object a row"},
    [OPTION_HELP] = {'h', "help", NULL, "this text"},
};

static const struct tt_command_usage usage = {
    .name = "plan endpoints",
    .synopsis = "--threads T [OPTION]...",
    .purpose =
        "Prints what threads would take from an mlx5 NIC in each category of scalable endpoints: contexts, queues,\n"
        "pages with doorbell registers (uUARs), and bytes of memory.",
    .options = options,
    .option_count = OPTION_COUNT,
};

struct wish {
    struct tt_endpoint_terms terms; /* but the category */
    enum tt_endpoint_category first, last;
    uint32_t ranks;
    bool wants_assignment, wants_json;
};

/* --- The command line --------------------------------------------------------------------------------------------- */

static bool read_count(const char *option, const char *text, uint64_t least, uint64_t most, uint32_t *count)
{
    uint64_t value;

    if (!tt_arguments_count(usage.name, option, text, least, most, &value)) {
        return false;
    }
    *count = (uint32_t)value;
    return true;
}

static bool read_category(const char *text, struct wish *wish)
{
    if (!tt_endpoint_read_category(usage.name, text, &wish->first)) {
        return false;
    }
    wish->last = wish->first;
    return true;
}

static bool read_total(const char *text, struct wish *wish)
{
    if (!read_count("--total-uuars", text, TT_UUARS_PER_PAGE, TT_UUARS_MAX, &wish->terms.total_uuars)) {
        return false;
    }
    if (wish->terms.total_uuars % TT_UUARS_PER_PAGE != 0) {
        tt_usage_error(usage.name, "--total-uuars '%s': must be even, as a page has two", text);
        return false;
    }
    return true;
}

static bool read_option(void *target, int option, const char *text)
{
    struct wish *wish = target;

    switch (option) {
    case OPTION_THREADS:
        return read_count("--threads", text, 1, TT_ENDPOINT_THREADS_MAX, &wish->terms.threads);
    case OPTION_CATEGORY:
        return read_category(text, wish);
    case OPTION_DRIVER:
        return tt_endpoint_read_driver(usage.name, text, &wish->terms.driver);
    case OPTION_RANKS:
        return read_count("--ranks", text, 1, TT_ENDPOINT_RANKS_MAX, &wish->ranks);
    case OPTION_QUEUE_PAIRS:
        return read_count("--queue-pairs-per-thread", text, 1, TT_ENDPOINT_QUEUE_PAIRS_MAX,
                          &wish->terms.queue_pairs_per_thread);
    case OPTION_TOTAL:
        return read_total(text, wish);
    case OPTION_LOW_LATENCY:
        return read_count("--low-latency-uuars", text, 0, TT_UUARS_MAX - 1, &wish->terms.low_latency_uuars);
    case OPTION_ASSIGNMENT:
        wish->wants_assignment = true;
        return true;
    default:
        wish->wants_json = true;
        return true;
    }
}

/* What no option is wrong about alone. */
static bool check_together(const struct wish *wish)
{
    if (wish->terms.threads == 0) {
        tt_usage_error(usage.name, "no number of threads given (--threads T)");
        return false;
    }
    if (wish->terms.low_latency_uuars >= wish->terms.total_uuars) {
        tt_usage_error(usage.name, "--low-latency-uuars '%" PRIu32 "': must be less than the %" PRIu32 " uUARs in all",
                       wish->terms.low_latency_uuars, wish->terms.total_uuars);
        return false;
    }
    if (wish->wants_assignment && wish->ranks != 1) {
        tt_usage_error(usage.name, "--ranks '%" PRIu32 "': not with --assignment, as all ranks are alike", wish->ranks);
        return false;
    }
    return true;
}

static enum tt_parse parse_arguments(int argc, char **argv, struct wish *wish)
{
    enum tt_parse parse = tt_arguments_read_all(&usage, argc, argv, read_option, wish);

    return parse == TT_PARSE_OK && !check_together(wish) ? TT_PARSE_BAD : parse;
}

/* --- The categories, a row each ----------------------------------------------------------------------------------- */

static struct tt_endpoint_plan plan_of(const struct wish *wish, enum tt_endpoint_category category)
{
    struct tt_endpoint_terms terms = wish->terms;
    struct tt_endpoint_plan plan;

    terms.category = category;
    tt_endpoint_plan(&terms, wish->ranks, &plan);
    return plan;
}

/* Of the uUARs that MPI-everywhere allocates. */
static double percent_of(const struct tt_endpoint_plan *plan, const struct tt_endpoint_plan *everywhere)
{
    return (double)plan->uuars_allocated * 100 / (double)everywhere->uuars_allocated;
}

static void print_terms(const struct wish *wish)
{
    const struct tt_endpoint_terms *terms = &wish->terms;

    printf("%" PRIu32 " rank%s of %" PRIu32 " thread%s, %" PRIu32 " queue pair%s a thread; driver: %s, %" PRIu32
           " uUARs, %" PRIu32 " low-latency\n",
           wish->ranks, wish->ranks > 1 ? "s" : "", terms->threads, terms->threads > 1 ? "s" : "",
           terms->queue_pairs_per_thread, terms->queue_pairs_per_thread > 1 ? "s" : "",
           tt_endpoint_driver_word(terms->driver), terms->total_uuars,
           tt_registers_low_latency(terms->total_uuars, terms->low_latency_uuars));
}

static void print_limits(const struct wish *wish, enum tt_endpoint_category category)
{
    struct tt_endpoint_plan plan = plan_of(wish, category);

    if (!plan.fits_context) {
        printf("%s: %" PRIu32 " pages for thread domains in a context; this driver gives %d\n",
               tt_endpoint_category_word(category), plan.domain_pages, TT_UAR_DOMAIN_PAGES_MAX);
    }
    if (!plan.fits_nic) {
        printf("%s: %" PRIu64 " pages; the paper's NIC (ConnectX-4) has %d\n", tt_endpoint_category_word(category),
               plan.uar_pages, TT_UAR_PAGES_OF_NIC);
    }
}

static void print_plans(const struct wish *wish)
{
    enum { COLUMNS = TT_ENDPOINT_COLUMNS + 3 };
    struct tt_column columns[COLUMNS] = {{"category", NULL, 0, true}};
    char text[TT_ENDPOINT_CATEGORY_COUNT][TT_ENDPOINT_COLUMNS + 1][TT_CELL_BYTES];
    const char *cells[TT_ENDPOINT_CATEGORY_COUNT * COLUMNS];
    struct tt_endpoint_plan everywhere = plan_of(wish, TT_ENDPOINT_MPI_EVERYWHERE);
    size_t rows = 0;

    memcpy(&columns[1], tt_endpoint_columns, sizeof(tt_endpoint_columns));
    columns[COLUMNS - 2] = (struct tt_column){"% uUARs", NULL, 0, false};
    columns[COLUMNS - 1] = (struct tt_column){"threads share", NULL, 0, true};
    for (unsigned i = wish->first; i <= (unsigned)wish->last; i++, rows++) {
        struct tt_endpoint_plan plan = plan_of(wish, (enum tt_endpoint_category)i);
        const char **line = &cells[rows * COLUMNS];

        line[0] = tt_endpoint_category_word((enum tt_endpoint_category)i);
        tt_endpoint_cells(&plan, text[rows], &line[1]);
        line[COLUMNS - 2] = tt_cell_fixed(text[rows][TT_ENDPOINT_COLUMNS], percent_of(&plan, &everywhere));
        line[COLUMNS - 1] = tt_endpoint_sharing_word(plan.sharing);
    }
    print_terms(wish);
    putchar('\n');
    tt_table_print(stdout, columns, COLUMNS, cells, rows);
    for (unsigned i = wish->first; i <= (unsigned)wish->last; i++) {
        print_limits(wish, (enum tt_endpoint_category)i);
    }
}

static void print_plans_json(const struct wish *wish)
{
    struct tt_endpoint_plan everywhere = plan_of(wish, TT_ENDPOINT_MPI_EVERYWHERE);
    struct tt_json json;

    for (unsigned i = wish->first; i <= (unsigned)wish->last; i++) {
        struct tt_endpoint_plan plan = plan_of(wish, (enum tt_endpoint_category)i);

        tt_json_init(&json, stdout);
        tt_json_begin_object(&json, NULL);
        tt_json_text(&json, "category", tt_endpoint_category_word((enum tt_endpoint_category)i));
        tt_json_text(&json, "driver", tt_endpoint_driver_word(wish->terms.driver));
        tt_json_count(&json, "ranks", wish->ranks);
        tt_json_count(&json, "threads", wish->terms.threads);
        tt_json_count(&json, "queue_pairs_per_thread", wish->terms.queue_pairs_per_thread);
        tt_endpoint_json(&json, &plan);
        tt_json_number(&json, "uuars_percent", percent_of(&plan, &everywhere));
        tt_json_text(&json, "threads_share", tt_endpoint_sharing_word(plan.sharing));
        tt_json_count(&json, "sharing_level", tt_endpoint_sharing_level(plan.sharing));
        tt_json_flag(&json, "fits_context", plan.fits_context);
        tt_json_flag(&json, "fits_nic", plan.fits_nic);
        tt_json_end_object(&json);
    }
}

/* --- One category, queue pair by queue pair ----------------------------------------------------------------------- */

enum { PLACE_COLUMNS = 9 };

static const struct tt_column place_columns[PLACE_COLUMNS] = {
    {"queue pair", NULL, 10, false}, {"thread", NULL, 6, false},    {"context", NULL, 7, false},
    {"page", NULL, 6, false},        {"uUAR", NULL, 6, false},      {"class", NULL, 14, true},
    {"lock", NULL, 4, true},         {"QPs there", NULL, 9, false}, {"shares", NULL, 7, true}};

static void print_place(const struct tt_endpoint_place *place)
{
    char text[PLACE_COLUMNS][TT_CELL_BYTES];
    const char *thread = place->thread == TT_ENDPOINT_ALL_THREADS ? "all" : tt_cell_count(text[1], place->thread);
    const char *const cells[PLACE_COLUMNS] = {
        tt_cell_count(text[0], place->queue_pair), place->idle ? "idle" : thread,
        tt_cell_count(text[2], place->context),    tt_cell_count(text[3], place->place.page),
        tt_cell_count(text[4], place->place.uuar), tt_register_class_word(place->place.class),
        place->place.locked ? "yes" : "no",        tt_cell_count(text[7], place->place.load),
        tt_endpoint_sharing_word(place->shares),
    };

    tt_table_row(stdout, place_columns, PLACE_COLUMNS, cells);
}

static void print_place_json(const struct tt_endpoint_place *place)
{
    struct tt_json json;

    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_count(&json, "queue_pair", place->queue_pair);
    tt_json_number(&json, "thread", place->thread == TT_ENDPOINT_ALL_THREADS ? (double)NAN : place->thread);
    tt_json_flag(&json, "idle", place->idle);
    tt_json_count(&json, "context", place->context);
    tt_json_count(&json, "page", place->place.page);
    tt_json_count(&json, "uuar", place->place.uuar);
    tt_json_text(&json, "class", tt_register_class_word(place->place.class));
    tt_json_flag(&json, "locked", place->place.locked);
    tt_json_count(&json, "queue_pairs_there", place->place.load);
    tt_json_text(&json, "shares", tt_endpoint_sharing_word(place->shares));
    tt_json_end_object(&json);
}

static void print_assignment(const struct wish *wish, enum tt_endpoint_category category)
{
    struct tt_endpoint_terms terms = wish->terms;
    struct tt_endpoint_assignment assignment;
    struct tt_endpoint_place place;

    terms.category = category;
    tt_endpoint_assignment_init(&assignment, &terms);
    if (!wish->wants_json) {
        printf("%s, ", tt_endpoint_category_word(category));
        print_terms(wish);
        putchar('\n');
        tt_table_heading(stdout, place_columns, PLACE_COLUMNS);
    }
    while (tt_endpoint_assignment_next(&assignment, &place)) {
        (wish->wants_json ? print_place_json : print_place)(&place);
    }
}

int tt_plan_endpoints(int argc, char **argv)
{
    struct wish wish = {.terms = {.driver = TT_ENDPOINT_CURRENT,
                                  .queue_pairs_per_thread = 1,
                                  .total_uuars = TT_UUARS_DEFAULT,
                                  .low_latency_uuars = TT_UUARS_LOW_LATENCY_DEFAULT},
                        .first = (enum tt_endpoint_category)0,
                        .last = (enum tt_endpoint_category)(TT_ENDPOINT_CATEGORY_COUNT - 1),
                        .ranks = 1};
    struct tt_settings settings;

    if (!tt_command_settings(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    enum tt_parse parse = parse_arguments(argc, argv, &wish);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish(usage.name, TT_EXIT_OK);
    }
    if (parse == TT_PARSE_BAD || !tt_command_log(usage.name, &settings)) {
        return TT_EXIT_USAGE;
    }
    if (wish.wants_assignment) {
        print_assignment(&wish, wish.first == wish.last ? wish.first : TT_ENDPOINT_STATIC);
    } else if (wish.wants_json) {
        print_plans_json(&wish);
    } else {
        print_plans(&wish);
    }
    return tt_command_finish(usage.name, TT_EXIT_OK);
}
