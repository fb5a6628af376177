/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: a point of `tutti sim trigger`: one size and number of jobs, by a host, by the NICs, or both; and its JSON.
 *
 * Normal path: run, then print.
 *
 * Failures: a fault of the world is one line on standard error.
 */
#include "cli/sim_trigger_report.h"

#include <inttypes.h>
#include <math.h>

const char tt_sim_trigger_name[] = "sim trigger";

static bool run(struct tt_costsim_terms *terms, bool is_offloaded, struct tt_costsim_result *result)
{
    char fault[TT_COSTSIM_FAULT_BYTES];

    terms->is_offloaded = is_offloaded;
    if (tt_costsim_world_run(terms, result, fault)) {
        return true;
    }
    fprintf(stderr, "tutti %s: %" PRIu64 " bytes, %" PRIu32 " jobs, by the %s: %s\n", tt_sim_trigger_name, terms->bytes,
            terms->job_count, is_offloaded ? "NIC" : "host", fault);
    return false;
}

bool tt_costsim_point_run(struct tt_costsim_point *point)
{
    return (!point->has_host || run(&point->terms, false, &point->host)) &&
           (!point->has_offload || run(&point->terms, true, &point->offload));
}

double tt_costsim_speedup(const struct tt_costsim_point *point)
{
    return point->has_host && point->has_offload && point->offload.time_ns > 0
               ? (double)point->host.time_ns / (double)point->offload.time_ns
               : 0;
}

void tt_costsim_print_terms(const struct tt_costsim_terms *terms)
{
    printf("# nodes %" PRIu32 ", units %" PRIu32 ", buffer %" PRIu64 " B, packet %" PRIu64 " B, lanes %" PRIu32
           ", credits %" PRIu32 ", skew %" PRIu64 " ns%s\n#",
           terms->node_count, terms->unit_count, terms->unit_bytes, terms->packet_bytes, terms->lane_count,
           terms->credits, terms->skew_ns, terms->polls_always ? ", polls always" : "");
#define X(field, option, value, unit, help) printf(" " option " %" PRIu64, terms->costs.field);
    TT_COSTSIM_COSTS_TABLE(X)
#undef X
    putchar('\n');
}

void tt_costsim_json_terms(struct tt_json *json, const struct tt_costsim_terms *terms)
{
    tt_json_count(json, "nodes", terms->node_count);
    tt_json_count(json, "units", terms->unit_count);
    tt_json_count(json, "buffer", terms->unit_bytes);
    tt_json_count(json, "packet", terms->packet_bytes);
    tt_json_count(json, "lanes", terms->lane_count);
    tt_json_count(json, "credits", terms->credits);
    tt_json_count(json, "skew_ns", terms->skew_ns);
    tt_json_count(json, "seed", terms->seed);
    tt_json_flag(json, "polls_always", terms->polls_always);
    tt_json_begin_object(json, "costs");
#define X(field, option, value, unit, help) tt_json_count(json, option, terms->costs.field);
    TT_COSTSIM_COSTS_TABLE(X)
#undef X
    tt_json_end_object(json);
}

static void result_json(struct tt_json *json, const char *key, const struct tt_costsim_result *result, bool has_buffers)
{
    tt_json_begin_object(json, key);
    tt_json_count(json, "time_ns", result->time_ns);
    tt_json_number(json, "mean_ns", result->mean_ns);
    tt_json_count(json, "busy_ns", result->busy_ns);
    tt_json_count(json, "pulses", result->pulses);
    tt_json_count(json, "pulse_bytes", result->pulse_bytes);
    tt_json_count(json, "packets", result->packets);
    tt_json_count(json, "data_bytes", result->data_bytes);
    tt_json_count(json, "sent_bytes", result->sent_bytes);
    tt_json_count(json, "received_bytes", result->received_bytes);
    tt_json_count(json, "fired", result->counters.fired);
    tt_json_count(json, "read", result->counters.read);
    tt_json_count(json, "read_at_once", result->counters.read_at_once);
    tt_json_count(json, "suspended", result->counters.suspended);
    if (has_buffers) {
        tt_json_count(json, "refused", result->counters.refused);
        tt_json_count(json, "kept_apart", result->counters.kept_apart);
        tt_json_number(json, "use_mean_percent", result->use_mean);
        tt_json_number(json, "use_most_percent", result->use_most);
    }
    tt_json_end_object(json);
}

void tt_costsim_json_point(struct tt_json *json, const struct tt_costsim_point *point)
{
    tt_json_begin_object(json, NULL);
    tt_json_count(json, "size", point->terms.bytes);
    tt_json_count(json, "jobs", point->terms.job_count);
    if (point->has_host) {
        result_json(json, "host", &point->host, false);
    }
    if (point->has_offload) {
        result_json(json, "offload", &point->offload, true);
    }
    if (point->has_host && point->has_offload) {
        double speedup = tt_costsim_speedup(point);

        tt_json_number(json, "speedup", speedup > 0 ? speedup : NAN);
    }
    tt_json_end_object(json);
}
