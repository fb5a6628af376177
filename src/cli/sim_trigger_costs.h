/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The parameters of the cost model of `tutti sim trigger`: one table, from which its options, the values that it starts
 * with and what it prints come. docs/trigger-costs.md says how each is used and where its value is from.
 */
#ifndef TT_CLI_SIM_TRIGGER_COSTS_H
#define TT_CLI_SIM_TRIGGER_COSTS_H

#include <stdint.h>

/* X(field, option, value, unit, help): MB are millions of bytes. */
#define TT_COSTSIM_COSTS_TABLE(X)                                                                                      \
    X(net_ns, "net-ns", 1000, "ns", "L_net: from port to port")                                                        \
    X(jitter_ns, "jitter-ns", 0, "ns", "most that a packet is held up on the way, at random")                          \
    X(io_ns, "io-ns", 300, "ns", "L_io: between memory and NIC, one way")                                              \
    X(cpu_ns, "cpu-ns", 270, "ns", "L_cpu: a processor makes a descriptor")                                            \
    X(poll_ns, "poll-ns", 3900, "ns", "L_poll: a processor notices data that came by RDMA while it had nothing to do") \
    X(unit_ns, "unit-ns", 80, "ns", "a unit takes a packet or an answer, or fires a descriptor")                       \
    X(net_rate, "net-rate", 12500, "MB/s", "of a port, either way")                                                    \
    X(io_rate, "io-rate", 6400, "MB/s", "between memory and NIC, either way")                                          \
    X(unit_rate, "unit-rate", 12800, "MB/s", "at which a unit reduces")                                                \
    X(host_rate, "host-rate", 4500, "MB/s", "at which a processor reduces")                                            \
    X(copy_rate, "copy-rate", 6000, "MB/s", "at which a processor copies what came early")                             \
    X(cores, "cores", 16, "", "processors of a host")

struct tt_costsim_costs {
#define X(field, option, value, unit, help) uint64_t field;
    TT_COSTSIM_COSTS_TABLE(X)
#undef X
};

enum { TT_COSTSIM_COST_MOST = 1000000000 }; /* of each; the least is 1, of times 0 */

#endif
