/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every setting of the library: one table for the name, type, default, unit and help. The environment variable is
 * TUTTI_ and the name. Precedence: explicit settings given to tutti_context_create(), then the environment, then the
 * default.
 */
#ifndef TT_BASE_SETTINGS_H
#define TT_BASE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/method.h"
#include "tutti/status.h"

enum { TT_SETTING_TEXT_BYTES = 256 };

enum { TT_MAX_RANKS = 65535 }; /* of a group: a rank, and how many, are 16 bits in what travels */

/*
 * X(field, NAME, type, default text, unit, help). Types: TEXT (char[TT_SETTING_TEXT_BYTES]), COUNT (uint64_t; a decimal
 * number), SIZE (uint64_t bytes; suffixes K, M, G, T of 1024), TIME (uint64_t ns; suffixes ns, us, ms, s), RATE
 * (uint64_t bits per second; suffixes kbit, mbit, gbit), PPM (uint32_t parts per million; written in percent: 0.5),
 * ALGORITHM (enum tt_algorithm). "auto" is allowed where the default is auto, and is UINT64_MAX in the field.
 */
#define TT_SETTINGS_TABLE(X)                                                                                           \
    X(rank, RANK, COUNT, "auto", "", "this process's rank in the job, 0 .. SIZE-1")                                    \
    X(size, SIZE, COUNT, "auto", "ranks", "number of ranks in the job")                                                \
    X(root, ROOT, TEXT, "", "host:port", "where rank 0 listens for the others while the job starts")                   \
    X(root_fd, ROOT_FD, COUNT, "auto", "", "for rank 0: an inherited socket that listens at ROOT already")             \
    X(bootstrap_timeout_ns, BOOTSTRAP_TIMEOUT, TIME, "30s", "", "how long the ranks have to find each other")          \
    X(timeout_ns, TIMEOUT, TIME, "auto", "", "deadline of a collective; auto: 60 s and 1 s for every 10 MB")           \
    X(interface, INTERFACE, TEXT, "auto", "name or address",                                                           \
      "network interface; auto: loopback where all ranks are "                                                         \
      "on one host, else one that reaches all of them")                                                                \
    X(algorithm, ALGORITHM, ALGORITHM, "auto", "",                                                                     \
      "auto, multicast, eager, gather, ring, chain, tree, sequential, binomial-tree, binomial-pipeline, hybrid, "      \
      "binomial, double-tree, recursive-doubling, recursive-halving, rabenseifner, triggered-ring, direct, parts or "  \
      "eager-parts")                                                                                                   \
    X(table, TABLE, TEXT, "", "path",                                                                                  \
      "which algorithm serves which size, as tutti bench --tune writes it; "                                           \
      "empty: built in")                                                                                               \
    X(deterministic, DETERMINISTIC, TEXT, "run", "",                                                                   \
      "whose bits reductions repeat: run or strict; run: those of the same algorithm; strict: one tree over the "      \
      "ranks, "                                                                                                        \
      "so those of any algorithm")                                                                                     \
    X(chunk_bytes, CHUNK, SIZE, "auto", "bytes",                                                                       \
      "payload of a datagram; auto: what the path carries, at most 8K; frame: what a frame of it carries, at most "    \
      "8956")                                                                                                          \
    X(subgroups, SUBGROUPS, COUNT, "auto", "",                                                                         \
      "multicast groups that each buffer is split over; auto: one a "                                                  \
      "receive worker")                                                                                                \
    X(chains, CHAINS, COUNT, "auto", "",                                                                               \
      "roots that multicast at the same time in an allgather; "                                                        \
      "auto: all")                                                                                                     \
    X(workers, WORKERS, COUNT, "0", "threads",                                                                         \
      "receive workers; 0: everything moves inside tutti_test and "                                                    \
      "tutti_wait")                                                                                                    \
    X(in_flight, IN_FLIGHT, COUNT, "8", "requests", "collectives of one group that run at once; more wait in line")    \
    X(poll_ns, POLL, TIME, "auto", "", "how long to poll before sleeping; auto: 50us to 400us, 0 in receive workers")  \
    X(bandwidth, BANDWIDTH, RATE, "auto", "bit/s",                                                                     \
      "rate that roots which send at once keep to together, and the cutoff counts on; auto: as fast as receivers "     \
      "say that chunks come (the cutoff: the interface's speed, or 1gbit)")                                            \
    X(alpha_ns, ALPHA, TIME, "100ms", "", "the cutoff's allowance beyond the wire time")                               \
    X(tail_ns, TAIL, TIME, "200us", "", "how long after the roots are done a missing chunk may still be under way")    \
    X(receive_buffer_bytes, RECEIVE_BUFFER, SIZE, "auto", "bytes",                                                     \
      "socket buffer of a subgroup, or its registered staging; auto: 16M (staging: 4M), "                              \
      "or as much as the system allows")                                                                               \
    X(mcast, MCAST, TEXT, "auto", "",                                                                                  \
      "multicast provider: auto, udp or verbs; auto: verbs where every rank's interface is that of an RDMA device "    \
      "which DEVICE names or which is rdma_rxe's")                                                                     \
    X(p2p, P2P, TEXT, "auto", "",                                                                                      \
      "provider of the reliable side: auto, tcp, ucx or verbs; auto: ucx where TUTTI_UCX_TLS is set, else verbs "      \
      "where multicast is verbs, else tcp")                                                                            \
    X(device, DEVICE, TEXT, "auto", "name or name:port",                                                               \
      "RDMA device; auto: the one that the network interface is of, or on loopback the first")                         \
    X(gid, GID, COUNT, "auto", "", "index of the RDMA device's GID; auto: of RoCE v2, with the interface's address")   \
    X(pkey, PKEY, TEXT, "auto", "P_Key",                                                                               \
      "partition of the RDMA device's port, as 0x8001; auto: the first one of its table")                              \
    X(service_level, SERVICE_LEVEL, COUNT, "0", "",                                                                    \
      "of all that RDMA devices send, 0 .. 15; InfiniBand maps it to virtual lanes, RoCE to priorities")               \
    X(rc_timeout_ns, RC_TIMEOUT, TIME, "auto", "",                                                                     \
      "how long a queue pair waits for an acknowledgement before it repeats, of seven times; rounded up to a power "   \
      "of "                                                                                                            \
      "two; auto: 67ms, 134ms of a device of software")                                                                \
    X(mgid, MGID, TEXT, "", "GID[/LID]",                                                                               \
      "multicast GID that all subgroups use on the RDMA device, where they cannot join groups by IP address; empty: "  \
      "they join")                                                                                                     \
    X(endpoints, ENDPOINTS, TEXT, "auto", "",                                                                          \
      "what of the RDMA device each thread has of its own: auto, mpi-everywhere, 2xdynamic, dynamic, shared-dynamic, " \
      "static or mpi+threads; auto: dynamic with workers, static without")                                             \
    X(group_range, GROUP_RANGE, TEXT, "239.192.0.0/14", "address/bits", "multicast addresses to choose from")          \
    X(ports, PORTS, TEXT, "47000-49999", "port-port", "UDP and TCP ports to choose from")                              \
    X(ttl, TTL, COUNT, "1", "", "how far multicast goes: 1 is this network, each router takes one off")                \
    X(traffic_class, TRAFFIC_CLASS, COUNT, "0", "",                                                                    \
      "of all that is sent: the byte of the IP header whose upper six bits are the DSCP; 0: the system's")             \
    X(peer_timeout_ns, PEER_TIMEOUT, TIME, "5s", "",                                                                   \
      "after how long a silent host is taken to be gone, over TCP, where nothing is under way to it; in full seconds") \
    X(probe_timeout_ns, PROBE_TIMEOUT, TIME, "500ms", "", "how long to wait for the multicast probes of every host")   \
    X(loss_ppm, LOSS, PPM, "0", "percent", "testing: drop this share of the received chunks")                          \
    X(seed, SEED, COUNT, "1", "", "testing: seed of what LOSS drops")                                                  \
    X(ucx_tls, UCX_TLS, TEXT, "auto", "",                                                                              \
      "transports of the reliable side, in UCX's words; auto: our choice unless "                                      \
      "UCX's own variable UCX_TLS is set")                                                                             \
    X(log, LOG, TEXT, "none", "level[,part:level...]",                                                                 \
      "none, error, warn, info, debug or trace; parts base, proto, "                                                   \
      "fabric, engine, api, cli")                                                                                      \
    X(log_file, LOG_FILE, TEXT, "", "path", "where the log goes; %h is the host, %p the process; empty: stderr")

#define TT_SETTING_TYPE_TEXT      char
#define TT_SETTING_TYPE_COUNT     uint64_t
#define TT_SETTING_TYPE_SIZE      uint64_t
#define TT_SETTING_TYPE_TIME      uint64_t
#define TT_SETTING_TYPE_RATE      uint64_t
#define TT_SETTING_TYPE_PPM       uint32_t
#define TT_SETTING_TYPE_ALGORITHM enum tt_algorithm
#define TT_SETTING_SUFFIX_TEXT    [TT_SETTING_TEXT_BYTES]
#define TT_SETTING_SUFFIX_COUNT
#define TT_SETTING_SUFFIX_SIZE
#define TT_SETTING_SUFFIX_TIME
#define TT_SETTING_SUFFIX_RATE
#define TT_SETTING_SUFFIX_PPM
#define TT_SETTING_SUFFIX_ALGORITHM

#define TT_AUTO        UINT64_MAX       /* a setting whose text is "auto" */
#define TT_CHUNK_FRAME (UINT64_MAX - 1) /* the setting CHUNK, if it is "frame"; sizes in bytes are less */

struct tt_settings {
#define TT_SETTING_FIELD(field, name, type, value, unit, help) TT_SETTING_TYPE_##type field TT_SETTING_SUFFIX_##type;
    TT_SETTINGS_TABLE(TT_SETTING_FIELD)
#undef TT_SETTING_FIELD
};

/* The defaults, then the environment. An unknown TUTTI_ name is warned about (log), once a process; a bad value is an
 * error whose text (tt_last_error) names the variable and the value. On an error *settings is unchanged. Configures the
 * log from LOG and LOG_FILE on the way, so that what it has to say goes where the user wants it. */
tutti_status tt_settings_load(struct tt_settings *settings);

/* Refuses a TUTTI_ name in the environment that no setting has: for programs, which are stricter than the library. */
tutti_status tt_settings_check_names(void);

/* Sets one setting by its name without TUTTI_ ("CHUNK"); an unknown name or a bad value is an error with its text. */
tutti_status tt_settings_set(struct tt_settings *settings, const char *name, const char *value);

/* What must hold between settings (RANK below SIZE); to be called once all of them are set. */
tutti_status tt_settings_check(const struct tt_settings *settings);

/* For `tutti info -c`: the number of settings, and one of them; value_text is its current value, formatted. */
struct tt_setting_description {
    const char *name, *type, *default_text, *unit, *help;
    char value_text[TT_SETTING_TEXT_BYTES];
};
size_t tt_settings_count(void);
void tt_settings_describe(const struct tt_settings *settings, size_t index, struct tt_setting_description *description);

/* Parsers that the command line shares. Each sets *value only on success; on a failure tt_last_error() has the text and
 * what is wrong with it ("12Q: not a size (...)"), but nothing is logged: that is the caller's, who knows the name. */
tutti_status tt_parse_count(const char *text, uint64_t *value);
tutti_status tt_parse_size(const char *text, uint64_t *value);
tutti_status tt_parse_time(const char *text, uint64_t *value_ns);
tutti_status tt_parse_rate(const char *text, uint64_t *bits_per_second);
tutti_status tt_parse_percent(const char *text, uint32_t *parts_per_million);
tutti_status tt_parse_algorithm(const char *text, enum tt_algorithm *algorithm);
/* "239.192.0.0/14": the first address (host order) and how many there are, all of them multicast. */
tutti_status tt_parse_group_range(const char *text, uint32_t *first, uint32_t *count);
/* "47000-47999", or one port. */
tutti_status tt_parse_ports(const char *text, uint16_t *first, uint16_t *last);
/* Writes a size in the largest unit that is exact: "64K", "1500". Returns `text`. */
const char *tt_format_size(uint64_t size_bytes, char *text, size_t text_bytes);
/* Writes a time in the largest unit that is exact, with a space: "30 s", "1500 ms". Returns `text`. */
const char *tt_format_time(uint64_t time_ns, char *text, size_t text_bytes);
const char *tt_algorithm_name(enum tt_algorithm algorithm);

#endif
