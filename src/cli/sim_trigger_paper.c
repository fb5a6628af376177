/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti sim trigger --paper`: figures 5 and 6 and table 1 of Xu et al. (J. NUDT 47(6), 2025, sections 2.2 and
 * 2.3), simulated, beside what the paper says in numbers; and which of its trends are there.
 *
 * Normal path: broadcast, reduce and allreduce of 13 sizes by 1, 8 and 32 jobs, by both models; then the tables.
 *
 * Failures: a fault of a run ends the command before anything is printed.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "cli/sim_trigger_report.h"
#include "cli/table.h"

enum { SIZES = 13, JOBS = 3, FIGURES = 3, BROADCAST = 0, REDUCE = 1, ALLREDUCE = 2 };

static const uint64_t sizes[SIZES] = {256,       4 << 10,   8 << 10,   16 << 10,  32 << 10,  48 << 10, 64 << 10,
                                      128 << 10, 256 << 10, 384 << 10, 512 << 10, 768 << 10, 1 << 20};
static const uint32_t jobs[JOBS] = {1, 8, TT_COSTSIM_PAPER_JOBS};

/* Table 1: mean use of the root's buffers, percent. */
static const double table1[SIZES][JOBS] = {
    {0.01, 0.09, 0.39},    {0.12, 1.13, 4.31},     {0.49, 2.82, 10.10},    {1.61, 5.79, 19.97},  {1.85, 6.37, 23.52},
    {2.27, 10.70, 36.20},  {2.60, 19.10, 49.17},   {4.71, 29.16, 72.36},   {7.16, 45.11, 81.47}, {10.23, 70.15, 89.55},
    {13.79, 85.92, 93.69}, {17.36, 98.20, 101.24}, {23.69, 100.92, 103.47}};

/* The points of the figures whose speed-ups the text gives. Of the reductions it gives the range over three sets of a
 * rising curve: its ends are taken as the ends of the first set. */
static const struct known {
    int figure;
    size_t size, job;
    double speedup;
} known[] = {
    {BROADCAST, 0, 0, 2.11}, {BROADCAST, SIZES - 1, 2, 1.3}, {REDUCE, 0, 0, 1.46}, {REDUCE, SIZES - 1, 0, 2.42}};

enum { KNOWN = sizeof(known) / sizeof(known[0]) };

static const struct figure {
    const char *name, *says;
    enum tt_schedule_collective collective;
} figures[FIGURES] = {
    {"figure 5", "broadcast by double-tree", TT_SCHEDULE_BROADCAST},
    {"figure 6", "reduce by rabenseifner", TT_SCHEDULE_REDUCE},
    {"allreduce", "allreduce by rabenseifner; the paper has no figure of it", TT_SCHEDULE_ALLREDUCE},
};

struct paper {
    struct tt_costsim_terms terms;
    struct tt_costsim_point points[FIGURES][SIZES][JOBS];
};

static double speedup(const struct paper *paper, int figure, size_t size, size_t job)
{
    return tt_costsim_speedup(&paper->points[figure][size][job]);
}

static double use(const struct paper *paper, int figure, size_t size, size_t job)
{
    return paper->points[figure][size][job].offload.use_mean;
}

/* --- Trends ------------------------------------------------------------------------------------------------------- */

enum { MOST_TRENDS = 16 };

struct trend {
    const char *about, *text;
    uint32_t holds, of;     /* points, or pairs of neighbours */
    double found, expected; /* of a number; expected 0: there is none */
};

struct trends {
    struct trend trends[MOST_TRENDS];
    size_t count;
};

static void add_trend(struct trends *trends, const char *about, const char *text, uint32_t holds, uint32_t of)
{
    trends->trends[trends->count++] = (struct trend){.about = about, .text = text, .holds = holds, .of = of};
}

/* A number that the paper gives, to 5 percent. */
static void add_number(struct trends *trends, const char *about, const char *text, double found, double expected)
{
    bool is_near = found >= 0.95 * expected && found <= 1.05 * expected;

    trends->trends[trends->count++] =
        (struct trend){.about = about, .text = text, .holds = is_near, .of = 1, .found = found, .expected = expected};
}

typedef double reader(const struct paper *paper, int figure, size_t size, size_t job);

/* Neighbours in size that rise, or fall if `sign` is -1. */
static uint32_t count_steps(const struct paper *paper, reader *read, int figure, double sign)
{
    uint32_t count = 0;

    for (size_t job = 0; job < JOBS; job++) {
        for (size_t size = 1; size < SIZES; size++) {
            count += sign * (read(paper, figure, size, job) - read(paper, figure, size - 1, job)) > 0;
        }
    }
    return count;
}

static void judge_figures(const struct paper *paper, struct trends *trends)
{
    uint32_t faster[FIGURES] = {0}, more = 0;

    for (size_t size = 0; size < SIZES; size++) {
        for (size_t job = 0; job < JOBS; job++) {
            for (int figure = 0; figure < FIGURES; figure++) {
                faster[figure] += speedup(paper, figure, size, job) > 1;
            }
            more += speedup(paper, ALLREDUCE, size, job) >= speedup(paper, REDUCE, size, job);
        }
    }
    add_trend(trends, "figure 5", "the NIC is faster", faster[BROADCAST], SIZES * JOBS);
    add_trend(trends, "figure 5", "the speed-up falls with the size", count_steps(paper, speedup, BROADCAST, -1),
              (SIZES - 1) * JOBS);
    add_number(trends, "figure 5", "1 job, 256 B", speedup(paper, BROADCAST, 0, 0), 2.11);
    add_number(trends, "figure 5", "32 jobs, 1 MB", speedup(paper, BROADCAST, SIZES - 1, JOBS - 1), 1.3);
    add_trend(trends, "figure 6", "the NIC is faster", faster[REDUCE], SIZES * JOBS);
    add_trend(trends, "figure 6", "the speed-up rises with the size", count_steps(paper, speedup, REDUCE, 1),
              (SIZES - 1) * JOBS);
    add_number(trends, "figure 6", "the small end, 1 job", speedup(paper, REDUCE, 0, 0), 1.46);
    add_number(trends, "figure 6", "the large end, 1 job", speedup(paper, REDUCE, SIZES - 1, 0), 2.42);
    add_trend(trends, "allreduce", "the speed-up is reduce's or more", more, SIZES * JOBS);
}

static void judge_table(const struct paper *paper, struct trends *trends)
{
    uint32_t with_jobs = 0, threefold = 0, unsaturated = 0, bounded = 0;

    for (size_t size = 0; size < SIZES; size++) {
        for (size_t job = 0; job < JOBS; job++) {
            with_jobs += job > 0 && use(paper, ALLREDUCE, size, job) > use(paper, ALLREDUCE, size, job - 1);
            bounded += paper->points[ALLREDUCE][size][job].offload.use_most <= 100 / 0.9 + 1.5; /* slots are whole */
        }
        if (table1[size][1] < 90) {
            unsaturated++;
            threefold += use(paper, ALLREDUCE, size, 1) > 3 * use(paper, ALLREDUCE, size, 0);
        }
    }
    add_trend(trends, "table 1", "use rises with the size", count_steps(paper, use, ALLREDUCE, 1), (SIZES - 1) * JOBS);
    add_trend(trends, "table 1", "use rises with the jobs", with_jobs, SIZES * (JOBS - 1));
    add_trend(trends, "table 1", "8 jobs use more than 3 times what 1 does, below saturation", threefold, unsaturated);
    add_trend(trends, "table 1", "never more than all slots", bounded, SIZES * JOBS);
    add_trend(trends, "table 1", "full with 32 jobs and 1 MB, allreduce",
              use(paper, ALLREDUCE, SIZES - 1, JOBS - 1) >= 90, 1);
}

/* --- Text --------------------------------------------------------------------------------------------------------- */

static double known_speedup(int figure, size_t size, size_t job)
{
    for (size_t i = 0; i < KNOWN; i++) {
        if (known[i].figure == figure && known[i].size == size && known[i].job == job) {
            return known[i].speedup;
        }
    }
    return 0;
}

static void print_figure(const struct paper *paper, int figure)
{
    enum { EACH = 4, COLUMNS = 1 + JOBS * EACH };
    struct tt_column columns[COLUMNS] = {{"size", "B", 8, false}};
    static const char *const titles[JOBS][EACH] = {{"1 job: host", "NIC", "speed-up", "paper"},
                                                   {"8 jobs: host", "NIC", "speed-up", "paper"},
                                                   {"32 jobs: host", "NIC", "speed-up", "paper"}};

    for (size_t i = 0; i < (size_t)JOBS * EACH; i++) {
        const char *title = titles[i / EACH][i % EACH];

        columns[1 + i] = (struct tt_column){title, i % EACH < 2 ? "us" : NULL, i % EACH == 0 ? 13 : 8, false};
    }
    printf("\n# %s: %s\n", figures[figure].name, figures[figure].says);
    tt_table_heading(stdout, columns, COLUMNS);
    for (size_t size = 0; size < SIZES; size++) {
        char text[COLUMNS][TT_CELL_BYTES];
        const char *cells[COLUMNS] = {tt_cell_count(text[0], sizes[size])};

        for (size_t job = 0; job < JOBS; job++) {
            const struct tt_costsim_point *point = &paper->points[figure][size][job];
            double said = known_speedup(figure, size, job);
            size_t at = 1 + job * EACH;

            cells[at] = tt_cell_fixed(text[at], (double)point->host.time_ns / 1000);
            cells[at + 1] = tt_cell_fixed(text[at + 1], (double)point->offload.time_ns / 1000);
            cells[at + 2] = tt_cell_fixed(text[at + 2], tt_costsim_speedup(point));
            cells[at + 3] = said > 0 ? tt_cell_fixed(text[at + 3], said) : "-";
        }
        tt_table_row(stdout, columns, COLUMNS, cells);
    }
}

static void print_table(const struct paper *paper)
{
    static const struct tt_column columns[] = {
        {"size", "B", 8, false},  {"1 job", "%", 8, false},   {"paper", "%", 7, false},   {"8 jobs", "%", 8, false},
        {"paper", "%", 7, false}, {"32 jobs", "%", 8, false}, {"paper", "%", 7, false},   {"reduce: 1", "%", 9, false},
        {"8", "%", 7, false},     {"32", "%", 7, false},      {"refused", NULL, 7, false}};
    enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };

    puts("\n# table 1: mean use of the root's buffers by allreduce, in slots outside the reserve; and by reduce, with "
         "the\n"
         "# packets that 32 jobs' nodes refused");
    tt_table_heading(stdout, columns, COLUMNS);
    for (size_t size = 0; size < SIZES; size++) {
        char text[COLUMNS][TT_CELL_BYTES];
        const char *cells[COLUMNS] = {tt_cell_count(text[0], sizes[size])};

        for (size_t job = 0; job < JOBS; job++) {
            cells[1 + 2 * job] = tt_cell_fixed(text[1 + 2 * job], use(paper, ALLREDUCE, size, job));
            cells[2 + 2 * job] = tt_cell_fixed(text[2 + 2 * job], table1[size][job]);
            cells[7 + job] = tt_cell_fixed(text[7 + job], use(paper, REDUCE, size, job));
        }
        cells[10] = tt_cell_count(text[10], paper->points[REDUCE][size][JOBS - 1].offload.counters.refused);
        tt_table_row(stdout, columns, COLUMNS, cells);
    }
}

static void print_trends(const struct trends *trends)
{
    puts("\n# trends that the paper has: of so many points, or pairs of neighbours; numbers to 5 %");
    for (size_t i = 0; i < trends->count; i++) {
        const struct trend *trend = &trends->trends[i];

        printf("%-9s  %-9s  %s: ",
               trend->holds == trend->of ? "holds"
               : trend->holds > 0        ? "in part"
                                         : "does not",
               trend->about, trend->text);
        if (trend->expected > 0) {
            printf("%.2f, paper %.2f\n", trend->found, trend->expected);
        } else {
            printf("%" PRIu32 " of %" PRIu32 "\n", trend->holds, trend->of);
        }
    }
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void figure_json(struct tt_json *json, const struct paper *paper, int figure)
{
    tt_json_begin_object(json, NULL);
    tt_json_text(json, "name", figures[figure].name);
    tt_json_text(json, "collective", tt_schedule_collective_word(figures[figure].collective));
    tt_json_text(json, "algorithm",
                 tt_schedule_algorithm_word(tt_costsim_default_algorithm(figures[figure].collective)));
    tt_json_begin_array(json, "runs");
    for (size_t job = 0; job < JOBS; job++) {
        for (size_t size = 0; size < SIZES; size++) {
            tt_costsim_json_point(json, &paper->points[figure][size][job]);
        }
    }
    tt_json_end_array(json);
    tt_json_begin_array(json, "paper");
    for (size_t i = 0; i < KNOWN; i++) {
        if (known[i].figure == figure) {
            tt_json_begin_object(json, NULL);
            tt_json_count(json, "size", sizes[known[i].size]);
            tt_json_count(json, "jobs", jobs[known[i].job]);
            tt_json_number(json, "speedup", known[i].speedup);
            tt_json_end_object(json);
        }
    }
    tt_json_end_array(json);
    tt_json_end_object(json);
}

static void table_json(struct tt_json *json, const struct paper *paper)
{
    tt_json_begin_array(json, "table1");
    for (size_t job = 0; job < JOBS; job++) {
        for (size_t size = 0; size < SIZES; size++) {
            tt_json_begin_object(json, NULL);
            tt_json_count(json, "size", sizes[size]);
            tt_json_count(json, "jobs", jobs[job]);
            tt_json_number(json, "use_mean_percent", use(paper, ALLREDUCE, size, job));
            tt_json_number(json, "paper_percent", table1[size][job]);
            tt_json_end_object(json);
        }
    }
    tt_json_end_array(json);
}

static void print_json(const struct paper *paper, const struct trends *trends)
{
    struct tt_json json;

    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_costsim_json_terms(&json, &paper->terms);
    tt_json_begin_array(&json, "figures");
    for (int figure = 0; figure < FIGURES; figure++) {
        figure_json(&json, paper, figure);
    }
    tt_json_end_array(&json);
    table_json(&json, paper);
    tt_json_begin_array(&json, "trends");
    for (size_t i = 0; i < trends->count; i++) {
        const struct trend *trend = &trends->trends[i];

        tt_json_begin_object(&json, NULL);
        tt_json_text(&json, "about", trend->about);
        tt_json_text(&json, "text", trend->text);
        tt_json_count(&json, "holds", trend->holds);
        tt_json_count(&json, "of", trend->of);
        if (trend->expected > 0) {
            tt_json_number(&json, "found", trend->found);
            tt_json_number(&json, "paper", trend->expected);
        }
        tt_json_end_object(&json);
    }
    tt_json_end_array(&json);
    tt_json_end_object(&json);
}

/* --- Runs --------------------------------------------------------------------------------------------------------- */

static bool run_all(struct paper *paper)
{
    for (int figure = 0; figure < FIGURES; figure++) {
        for (size_t job = 0; job < JOBS; job++) {
            for (size_t size = 0; size < SIZES; size++) {
                struct tt_costsim_point *point = &paper->points[figure][size][job];

                *point = (struct tt_costsim_point){.terms = paper->terms, .has_host = true, .has_offload = true};
                point->terms.collective = figures[figure].collective;
                point->terms.algorithm = tt_costsim_default_algorithm(figures[figure].collective);
                point->terms.bytes = sizes[size];
                point->terms.job_count = jobs[job];
                if (!tt_costsim_point_run(point)) {
                    return false;
                }
            }
        }
    }
    return true;
}

bool tt_costsim_paper(const struct tt_costsim_arguments *arguments)
{
    struct paper *paper = malloc(sizeof *paper);
    struct trends trends = {.count = 0};

    if (paper == NULL) {
        fprintf(stderr, "tutti %s: not enough memory\n", tt_sim_trigger_name);
        return false;
    }
    paper->terms = arguments->terms;
    bool is_ok = run_all(paper);

    if (is_ok) {
        judge_figures(paper, &trends);
        judge_table(paper, &trends);
        if (arguments->json) {
            print_json(paper, &trends);
        } else {
            tt_costsim_print_terms(&paper->terms);
            for (int figure = 0; figure < FIGURES; figure++) {
                print_figure(paper, figure);
            }
            print_table(paper);
            print_trends(&trends);
        }
    }
    free(paper);
    return is_ok;
}
