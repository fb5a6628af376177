/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the resources of endpoints as all commands print them.
 *
 * Normal path: one list of columns, one of members, in the same order.
 *
 * Failures: a category or a driver that does not exist is reported with the ones that do.
 */
#include "cli/endpoint_columns.h"

#include "cli/arguments.h"

const struct tt_column tt_endpoint_columns[TT_ENDPOINT_COLUMNS] = {
    {"CTX", NULL, 0, false},   {"PD", NULL, 0, false},   {"MR", NULL, 0, false},      {"QP", NULL, 0, false},
    {"CQ", NULL, 0, false},    {"TD", NULL, 0, false},   {"idle TD", NULL, 0, false}, {"pages", NULL, 0, false},
    {"uUARs", NULL, 0, false}, {"used", NULL, 0, false}, {"wasted", NULL, 0, false},  {"bytes", NULL, 0, false},
};

void tt_endpoint_cells(const struct tt_endpoint_plan *plan, char text[TT_ENDPOINT_COLUMNS][TT_CELL_BYTES],
                       const char *cells[TT_ENDPOINT_COLUMNS])
{
    const uint64_t counts[TT_ENDPOINT_COLUMNS] = {
        plan->contexts,          plan->protection_domains, plan->memory_regions, plan->queue_pairs,
        plan->completion_queues, plan->thread_domains,     plan->idle_domains,   plan->uar_pages,
        plan->uuars_allocated,   plan->uuars_used,         plan->uuars_wasted,   plan->bytes,
    };

    for (unsigned i = 0; i < TT_ENDPOINT_COLUMNS; i++) {
        cells[i] = tt_cell_count(text[i], counts[i]);
    }
}

void tt_endpoint_json(struct tt_json *json, const struct tt_endpoint_plan *plan)
{
    tt_json_count(json, "contexts", plan->contexts);
    tt_json_count(json, "protection_domains", plan->protection_domains);
    tt_json_count(json, "memory_regions", plan->memory_regions);
    tt_json_count(json, "queue_pairs", plan->queue_pairs);
    tt_json_count(json, "completion_queues", plan->completion_queues);
    tt_json_count(json, "thread_domains", plan->thread_domains);
    tt_json_count(json, "idle_domains", plan->idle_domains);
    tt_json_count(json, "uar_pages", plan->uar_pages);
    tt_json_count(json, "uuars_allocated", plan->uuars_allocated);
    tt_json_count(json, "uuars_assigned", plan->uuars_assigned);
    tt_json_count(json, "uuars_used", plan->uuars_used);
    tt_json_count(json, "uuars_wasted", plan->uuars_wasted);
    tt_json_count(json, "bytes", plan->bytes);
}

bool tt_endpoint_read_category(const char *command, const char *text, enum tt_endpoint_category *category)
{
    if (tt_endpoint_category_parse(text, category)) {
        return true;
    }
    tt_usage_error(
        command, "--category '%s': not one of mpi-everywhere, 2xdynamic, dynamic, shared-dynamic, static, mpi+threads",
        text);
    return false;
}

bool tt_endpoint_read_driver(const char *command, const char *text, enum tt_endpoint_driver *driver)
{
    if (tt_endpoint_driver_parse(text, driver)) {
        return true;
    }
    tt_usage_error(command, "--driver '%s': not one of legacy, current", text);
    return false;
}
