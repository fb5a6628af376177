/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the rows of the benchmarks of endpoints.
 *
 * Normal path: what was made is counted as it was made; the doorbell pages and registers are those that the model of
 * mlx5 has for it (plan.h). A row is printed at once, as the next one takes its time.
 *
 * Failures: a wrong result is told after its row, and is an error.
 */
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/bench_rdma.h"
#include "cli/endpoint_columns.h"

enum { COUNT_WIDTH = 7, BYTES_WIDTH = 10, MEASURED_COLUMNS = 8, COLUMNS = MEASURED_COLUMNS + TT_ENDPOINT_COLUMNS + 1 };

/* What was made, priced as the category that it became. */
static struct tt_endpoint_plan resources_of(const struct tt_rdma_wish *wish, const struct tt_traffic_options *options,
                                            const struct tt_endpoint_made *made)
{
    struct tt_endpoint_terms terms = {.category = made->effective,
                                      .driver = wish->driver,
                                      .threads = options->threads / options->threads_per_completion_queue /
                                                 options->threads_per_queue_pair,
                                      .queue_pairs_per_thread = options->lanes * options->threads_per_completion_queue,
                                      .total_uuars = TT_UUARS_DEFAULT,
                                      .low_latency_uuars = TT_UUARS_LOW_LATENCY_DEFAULT};
    struct tt_endpoint_plan plan;

    tt_endpoint_plan(&terms, options->sets, &plan);
    plan.bytes += ((uint64_t)made->protection_domains - plan.protection_domains) * TT_ENDPOINT_DOMAIN_BYTES +
                  ((uint64_t)made->memory_regions - plan.memory_regions) * TT_ENDPOINT_REGION_BYTES;
    plan.contexts = made->contexts;
    plan.protection_domains = made->protection_domains;
    plan.memory_regions = made->memory_regions;
    plan.queue_pairs = made->queue_pairs;
    plan.completion_queues = made->completion_queues;
    plan.thread_domains = made->thread_domains;
    plan.idle_domains = made->idle_domains;
    return plan;
}

uint64_t tt_rdma_mean(const uint64_t *values, uint32_t count)
{
    uint64_t sum = 0;

    assert(count > 0);
    for (uint32_t i = 0; i < count; i++) {
        sum += values[i];
    }
    return sum / count;
}

static double rate_of(const struct tt_rdma_row *row)
{
    return row->duration_ns == 0 ? (double)NAN : (double)row->messages * (double)TT_NS_PER_S / (double)row->duration_ns;
}

static double percent(double value, double base)
{
    return base > 0 ? value * 100 / base : (double)NAN;
}

static void print_heading(const struct tt_rdma_wish *wish, struct tt_column columns[COLUMNS])
{
    const struct tt_column measured[MEASURED_COLUMNS] = {
        {"category", NULL, 14, true}, {"effective", NULL, 14, true}, {wish->bench->label, NULL, 9, true},
        {"time", "ms", 10, false},    {"in RDMA", "ms", 10, false},  {"messages", "/s", 12, false},
        {"% rate", NULL, 7, false},   {"wrong", NULL, 5, false}};

    memcpy(columns, measured, sizeof(measured));
    if (wish->bench->label == NULL) {
        columns[2] = (struct tt_column){"", NULL, 0, true};
    }
    for (unsigned i = 0; i < TT_ENDPOINT_COLUMNS; i++) {
        columns[MEASURED_COLUMNS + i] = tt_endpoint_columns[i];
        columns[MEASURED_COLUMNS + i].width = i + 1 < TT_ENDPOINT_COLUMNS ? COUNT_WIDTH : BYTES_WIDTH;
    }
    columns[COLUMNS - 1] = (struct tt_column){"% uUARs", NULL, COUNT_WIDTH, false};
}

static const char *or_dash(char *cell, double value)
{
    return isnan(value) ? "-" : tt_cell_fixed(cell, value);
}

static void print_table_row(struct tt_rdma_wish *wish, const struct tt_traffic_options *options,
                            const struct tt_endpoint_made *made, const struct tt_endpoint_plan *plan,
                            const struct tt_rdma_row *row)
{
    struct tt_column columns[COLUMNS];
    char text[MEASURED_COLUMNS + 1][TT_CELL_BYTES], resources[TT_ENDPOINT_COLUMNS][TT_CELL_BYTES];
    const char *cells[COLUMNS] = {
        tt_endpoint_category_word(options->category),
        tt_endpoint_category_word(made->effective),
        row->label != NULL ? row->label : "",
        tt_cell_fixed(text[3], (double)row->duration_ns / (double)TT_NS_PER_MS),
        tt_cell_fixed(text[4], (double)row->communication_ns / (double)TT_NS_PER_MS),
        tt_cell_fixed(text[5], rate_of(row)),
        or_dash(text[6], percent(rate_of(row), wish->base_rate)),
        tt_cell_count(text[7], row->wrong),
    };

    print_heading(wish, columns);
    tt_endpoint_cells(plan, resources, &cells[MEASURED_COLUMNS]);
    cells[COLUMNS - 1] = or_dash(text[8], percent((double)plan->uuars_allocated, (double)wish->base_uuars));
    if (!wish->has_heading) {
        fprintf(wish->stream, "# %s, %" PRIu32 " threads; pages and uUARs: as mlx5's %s driver gives them\n",
                wish->device, wish->threads, tt_endpoint_driver_word(wish->driver));
        tt_table_heading(wish->stream, columns, COLUMNS);
        wish->has_heading = true;
    }
    tt_table_row(wish->stream, columns, COLUMNS, cells);
    fflush(wish->stream);
}

static void print_json_row(const struct tt_rdma_wish *wish, const void *own, const struct tt_traffic_options *options,
                           const struct tt_endpoint_made *made, const struct tt_endpoint_plan *plan,
                           const struct tt_rdma_row *row)
{
    struct tt_json json;

    tt_json_init(&json, wish->stream);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "benchmark", strchr(wish->bench->usage->name, ' ') + 1);
    tt_json_text(&json, "device", wish->device);
    tt_json_text(&json, "category", tt_endpoint_category_word(options->category));
    tt_json_text(&json, "effective_category", tt_endpoint_category_word(made->effective));
    if (row->share != NULL) {
        tt_json_text(&json, "share", row->share);
        tt_json_count(&json, "ways", row->ways);
    }
    tt_json_count(&json, "threads", wish->threads);
    if (options->shape == TT_TRAFFIC_RING) {
        tt_json_count(&json, "ranks", options->sets);
        tt_json_count(&json, "threads_per_rank", options->threads);
    }
    wish->bench->print_json(own, &json);
    tt_json_number(&json, "seconds", (double)row->duration_ns / (double)TT_NS_PER_S);
    tt_json_number(&json, "communication_seconds", (double)row->communication_ns / (double)TT_NS_PER_S);
    tt_json_count(&json, "messages", row->messages);
    tt_json_number(&json, "messages_per_second", rate_of(row));
    tt_json_number(&json, "rate_percent", percent(rate_of(row), wish->base_rate));
    tt_json_count(&json, "wrong", row->wrong);
    tt_json_text(&json, "driver", tt_endpoint_driver_word(wish->driver));
    tt_endpoint_json(&json, plan);
    tt_json_number(&json, "uuars_percent", percent((double)plan->uuars_allocated, (double)wish->base_uuars));
    tt_json_number(&json, "doorbell_pages", made->doorbell_pages > 0 ? made->doorbell_pages : (double)NAN);
    tt_json_end_object(&json);
    fflush(wish->stream);
}

tutti_status tt_rdma_print(struct tt_rdma_wish *wish, const void *own, const struct tt_traffic_options *options,
                           const struct tt_endpoint_made *made, const struct tt_rdma_row *row)
{
    struct tt_endpoint_plan plan = resources_of(wish, options, made);

    if (row->is_base) {
        wish->base_rate = rate_of(row);
        wish->base_uuars = plan.uuars_allocated;
    }
    if (wish->json) {
        print_json_row(wish, own, options, made, &plan, row);
    } else {
        print_table_row(wish, options, made, &plan, row);
    }
    if (row->wrong == 0) {
        return TUTTI_OK;
    }
    return tt_error(TT_PART_CLI, TUTTI_ERR_IO, "%s: %" PRIu64 " results are wrong",
                    tt_endpoint_category_word(options->category), row->wrong);
}
