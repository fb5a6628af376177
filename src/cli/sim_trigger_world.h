/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Nodes that do collectives in virtual time: each has a triggered engine (src/offload) that executes the real sequences
 * on real data, and what the engine does at once is given the time that it takes, either of a NIC's units or of a
 * host's processors. docs/trigger-costs.md has the model. The same terms give the same result.
 *
 * Data: an element is ELEMENT_BYTES long in time and in room, and one byte in memory, which is enough to see whether
 * each came from where it should; a sum is one modulo 256.
 */
#ifndef TT_CLI_SIM_TRIGGER_WORLD_H
#define TT_CLI_SIM_TRIGGER_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/sim_trigger_costs.h"
#include "offload/operation.h"
#include "plan/schedule.h"

enum {
    TT_COSTSIM_ELEMENT_BYTES = 8,
    TT_COSTSIM_FAULT_BYTES = 160,
    TT_COSTSIM_MOST_NODES = 256,
    TT_COSTSIM_MOST_JOBS = 256
};

struct tt_costsim_terms {
    enum tt_schedule_collective collective;
    enum tt_schedule_algorithm algorithm; /* of the collective */
    uint32_t root, node_count, job_count; /* a job has a rank on every node, with the node's number */
    uint64_t bytes;    /* of all of a job's data, a multiple of the element's; ranks' blocks share it */
    bool is_offloaded; /* by the NIC's units; else by the hosts' processors */
    bool polls_always; /* a processor takes L_poll for every packet, not for RDMA only */
    uint32_t unit_count, lane_count, window, credits; /* credits: pulses that a node has in flight at most */
    uint64_t unit_bytes, packet_bytes; /* of a unit's buffer; the longest operand, a multiple of the element's */
    uint64_t skew_ns, seed;            /* a rank begins so much late at most, at random */
    struct tt_costsim_costs costs;
};

struct tt_costsim_result {
    uint64_t time_ns;                    /* until all ranks of all jobs had ended */
    double mean_ns;                      /* of the jobs: until all their ranks had */
    double use_mean, use_most;           /* percent of the root's slots outside the reserve, over time, and ever */
    uint64_t pulses, pulse_bytes;        /* of a job */
    uint64_t packets, data_bytes;        /* that were accepted */
    uint64_t sent_bytes, received_bytes; /* by ports, with headers and what was sent again, without answers */
    uint64_t busy_ns;                    /* of all units or processors */
    uint64_t events;
    struct tt_offload_counters counters; /* of all nodes */
};

/*
 * False, and `fault` says what: no memory, terms that no engine can have, a sequence that ended in an error or not at
 * all, or a result that is wrong.
 */
bool tt_costsim_world_run(const struct tt_costsim_terms *terms, struct tt_costsim_result *result, char *fault);

/* Whether data goes from memory to memory, announced by a packet of its own, as in the paper's broadcast; else it goes
 * from unit to unit, as in its reductions. */
static inline bool tt_costsim_is_rdma(enum tt_schedule_collective collective)
{
    return collective == TT_SCHEDULE_BROADCAST || collective >= TT_SCHEDULE_ALLGATHER;
}

#endif
