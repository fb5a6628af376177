/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti sim trigger`: how long collectives take if triggered NICs do them, and if their hosts do.
 *
 * Normal path: options; then a run for each number of jobs, size and model, all of them before anything is printed;
 * then a table, or JSON. With --paper the runs are the paper's (sim_trigger_paper.c).
 *
 * Failures: a command line that makes no sense is exit status 2. A run in which something goes wrong, a wrong result
 * for one, is a line on standard error and exit status 1.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/command.h"
#include "cli/sim.h"
#include "cli/sim_trigger_report.h"
#include "cli/table.h"

static void print_row(const struct tt_column *columns, size_t column_count, const struct tt_costsim_point *point)
{
    const struct tt_offload_counters *counters = &point->offload.counters;
    char text[10][TT_CELL_BYTES];
    const char *cells[TT_TABLE_COLUMN_LIMIT];
    size_t at = 0;

    cells[at++] = tt_cell_count(text[0], point->terms.job_count);
    cells[at++] = tt_cell_count(text[1], point->terms.bytes);
    cells[at++] = point->has_host ? tt_cell_fixed(text[2], (double)point->host.time_ns / 1000) : "-";
    cells[at++] = point->has_offload ? tt_cell_fixed(text[3], (double)point->offload.time_ns / 1000) : "-";
    cells[at++] = tt_costsim_speedup(point) > 0 ? tt_cell_fixed(text[4], tt_costsim_speedup(point)) : "-";
    cells[at++] = point->has_offload ? tt_cell_fixed(text[5], point->offload.use_mean) : "-";
    cells[at++] = point->has_offload ? tt_cell_fixed(text[6], point->offload.use_most) : "-";
    cells[at++] = point->has_offload ? tt_cell_count(text[7], counters->suspended) : "-";
    cells[at++] = point->has_offload ? tt_cell_count(text[8], counters->refused) : "-";
    cells[at++] = point->has_offload ? tt_cell_count(text[9], counters->kept_apart) : "-";
    tt_table_row(stdout, columns, column_count, cells);
}

static void print_text(const struct tt_costsim_arguments *arguments, const struct tt_costsim_point *points,
                       size_t count)
{
    static const struct tt_column columns[] = {
        {"jobs", NULL, 4, false},     {"size", "B", 9, false},  {"host", "us", 9, false}, {"NIC", "us", 9, false},
        {"speed-up", NULL, 8, false}, {"use", "%", 7, false},   {"most", "%", 7, false},  {"suspended", NULL, 9, false},
        {"refused", NULL, 8, false},  {"apart", NULL, 8, false}};
    enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

    printf("# %s by %s\n", tt_schedule_collective_word(arguments->terms.collective),
           tt_schedule_algorithm_word(arguments->terms.algorithm));
    tt_costsim_print_terms(&arguments->terms);
    tt_table_heading(stdout, columns, COLUMNS);
    for (size_t i = 0; i < count; i++) {
        print_row(columns, COLUMNS, &points[i]);
    }
}

static void print_json(const struct tt_costsim_arguments *arguments, const struct tt_costsim_point *points,
                       size_t count)
{
    struct tt_json json;

    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "collective", tt_schedule_collective_word(arguments->terms.collective));
    tt_json_text(&json, "algorithm", tt_schedule_algorithm_word(arguments->terms.algorithm));
    tt_json_count(&json, "root", arguments->terms.root);
    tt_costsim_json_terms(&json, &arguments->terms);
    tt_json_begin_array(&json, "runs");
    for (size_t i = 0; i < count; i++) {
        tt_costsim_json_point(&json, &points[i]);
    }
    tt_json_end_array(&json);
    tt_json_end_object(&json);
}

static bool simulate(const struct tt_costsim_arguments *arguments)
{
    size_t count = arguments->sizes.count * arguments->jobs.count;
    struct tt_costsim_point *points = calloc(count, sizeof *points);
    bool is_ok = points != NULL;

    if (points == NULL) {
        fprintf(stderr, "tutti %s: not enough memory\n", tt_sim_trigger_name);
    }
    for (size_t i = 0; is_ok && i < count; i++) {
        points[i].terms = arguments->terms;
        points[i].terms.job_count = (uint32_t)arguments->jobs.values[i / arguments->sizes.count];
        points[i].terms.bytes = arguments->sizes.values[i % arguments->sizes.count];
        points[i].has_host = arguments->host;
        points[i].has_offload = arguments->offload;
        is_ok = tt_costsim_point_run(&points[i]);
    }
    if (is_ok) {
        (arguments->json ? print_json : print_text)(arguments, points, count);
    }
    free(points);
    return is_ok;
}

int tt_sim_trigger(int argc, char **argv)
{
    struct tt_costsim_arguments arguments;
    struct tt_settings settings;

    if (!tt_command_settings(tt_sim_trigger_name, &settings)) {
        return TT_EXIT_USAGE;
    }
    enum tt_parse parse = tt_costsim_arguments_parse(argc, argv, &arguments);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish(tt_sim_trigger_name, TT_EXIT_OK);
    }
    if (parse == TT_PARSE_BAD || !tt_command_log(tt_sim_trigger_name, &settings)) {
        return TT_EXIT_USAGE;
    }
    bool is_ok = arguments.is_paper ? tt_costsim_paper(&arguments) : simulate(&arguments);

    return tt_command_finish(tt_sim_trigger_name, is_ok ? TT_EXIT_OK : TT_EXIT_FAILED);
}
