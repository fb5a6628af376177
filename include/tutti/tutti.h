/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tutti: collective operations that move every byte over every link once.
 *
 * The order of use is context, group, request:
 *
 *     tutti_context *context;              settings, and later the network and the worker threads
 *     tutti_group *group;                  the ranks that take part, all of which create it together
 *     tutti_request *request;              one collective on fixed buffers, posted as often as wanted
 *
 *     tutti_context_create(NULL, &context);
 *     tutti_group_create_from_environment(context, &group);
 *     tutti_broadcast_init(group, TUTTI_IN_PLACE, buffer, bytes, root, NULL, &request);
 *     tutti_post(request);
 *     tutti_wait(request);
 *     tutti_finalize(request);
 *     tutti_group_destroy(group);
 *     tutti_context_destroy(context);
 *
 * Every rank posts the same collectives of a group in the same order, as in MPI. Sizes are in bytes, times in
 * nanoseconds. A function that fails returns a negative status, sets no output, and leaves a sentence with the
 * offending value in tutti_last_error().
 *
 * Threads: a context and all that was made from it may be used from several threads at once, but one request by only
 * one thread at a time, and the order in which requests of one group are posted must be the same on every rank. A
 * thread that calls the library needs 64 KiB of stack.
 * The library installs no signal handlers and does not survive fork(): the child must not use what its parent created,
 * and the library's connections are closed in it, so that other ranks hear at once when its parent dies, though the
 * child (a worker of a data loader) lives on. What UCX and RDMA devices keep open stays open in the child, and all does
 * in one that is made by _Fork() or clone().
 *
 * Buffers are memory that the processor reads and writes: what is in a GPU's own memory is the caller's to copy from
 * and to. All ranks have the same order of bytes and size of words.
 *
 * Protocol: Khalilov et al., "Network-Offloaded Bandwidth-Optimal Broadcast and Allgather for Distributed AI", SC'24,
 * sections III to V and appendix A.
 */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/export.h"
#include "tutti/status.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_VERSION_MAJOR 0
#define TUTTI_VERSION_MINOR 1
#define TUTTI_VERSION_PATCH 0

typedef struct tutti_context tutti_context;
typedef struct tutti_group tutti_group;
typedef struct tutti_request tutti_request;

/* As the send buffer: the data is in the receive buffer already. */
#define TUTTI_IN_PLACE ((const void *)(intptr_t)-1)

/* The library's version, "0.1.0"; static storage. Thread-safe. */
TUTTI_EXPORT const char *tutti_version(void);

/* What the calling thread's last call that returns a status said if it failed, with the offending value; "" if it did
 * not. Valid until the thread's next call of the library. */
TUTTI_EXPORT const char *tutti_last_error(void);

/* --- Context ---------------------------------------------------------------------------------------------------- */

/* A setting by its name without the prefix TUTTI_ ("CHUNK") and its value as text ("8K"), as `tutti info -c` lists
 * them. Wins over the environment. */
typedef struct tutti_setting {
    const char *name;
    const char *value;
} tutti_setting;

typedef struct tutti_context_options {
    size_t struct_size;            /* sizeof(tutti_context_options) */
    const tutti_setting *settings; /* read during the call only; may be NULL if setting_count is 0 */
    size_t setting_count;
} tutti_context_options;

/*
 * Creates a context: reads the settings, but touches no network yet. `options` may be NULL. The caller owns the
 * context until tutti_context_destroy().
 * Errors: INVALID_ARGUMENT (an unknown setting or a value that cannot be, also a TABLE that cannot be read; the
 * environment counts), NO_MEMORY, NO_RESOURCE (threads, descriptors), IO (the environment's LOG_FILE cannot be opened,
 * or the system has no random numbers).
 */
TUTTI_EXPORT tutti_status tutti_context_create(const tutti_context_options *options, tutti_context **context);

/* Frees the context and ends its threads. Its groups must have been destroyed: if one is left, that is
 * INVALID_ARGUMENT and nothing happens. NULL is allowed. */
TUTTI_EXPORT tutti_status tutti_context_destroy(tutti_context *context);

/* --- Group ------------------------------------------------------------------------------------------------------ */

/*
 * The caller's out-of-band allgather, for creating a group: every rank contributes `length_bytes` bytes at `send`, and
 * gets the contributions of all ranks, in the order of ranks, at `receive` (size * length_bytes). Called a few times,
 * in the same order with the same length on every rank, from within tutti_group_create() only. Returns 0, or anything
 * else for a failure, which ends the creation with TUTTI_ERR_BOOTSTRAP. It may call the library: a collective of a
 * group that exists can bring the same ranks together for another one. How many calls there are, and how long, depends
 * on the group's size.
 */
typedef int (*tutti_oob_allgather)(void *argument, const void *send, void *receive, size_t length_bytes);

typedef struct tutti_group_options {
    size_t struct_size;            /* sizeof(tutti_group_options) */
    uint32_t rank;                 /* the caller's rank, below size */
    uint32_t size;                 /* number of ranks, 1 to 65535 */
    tutti_oob_allgather allgather; /* not needed if size is 1 */
    void *argument;                /* handed to allgather, not looked at */
} tutti_group_options;

/*
 * Creates a group, together with all its other ranks: finds the interface, joins the multicast groups, connects the
 * ranks and tries whether multicast gets through to all of them (settings INTERFACE, PROBE_TIMEOUT); where it does
 * not, the group uses point-to-point algorithms and one line of the log says so. Blocks until all ranks are ready or
 * one of them failed; a rank that has no memory to begin still takes part in the first allgather (beyond 256 ranks if
 * 40 bytes a rank are to be had), and all end with NO_MEMORY. The caller owns the group until tutti_group_destroy().
 * Errors: INVALID_ARGUMENT (also where two ranks have one context: each needs its own), NO_MEMORY, NO_RESOURCE, IN_USE
 * (no free port in PORTS), IO, BOOTSTRAP (the allgather failed at some rank, or delivered other bytes than were given),
 * MISMATCH (ranks with different settings: every rank is told which, and both values), NOT_SUPPORTED (the
 * setting ALGORITHM asks for multicast that is not to be had, MCAST, P2P or DEVICE for what this build or host does not
 * have, or no interface is up), PROTOCOL (what came from another rank makes no sense), TOO_LARGE (addresses that do not
 * fit), PEER_FAILED, TIMED_OUT (BOOTSTRAP_TIMEOUT ran out).
 */
TUTTI_EXPORT tutti_status tutti_group_create(tutti_context *context, const tutti_group_options *options,
                                             tutti_group **group);

/*
 * Creates the group of all ranks of the job that the environment describes: TUTTI_RANK, TUTTI_SIZE and
 * TUTTI_ROOT=host:port, where rank 0 listens; or else what the launcher says (mpirun, srun or another with PMIx,
 * torchrun; "Launchers" in man tutti). Without either: a group of one. May be called again, for further groups of the
 * same ranks. Errors: as tutti_group_create(), and TIMED_OUT names the ranks that never came, IN_USE the port that is
 * taken, INVALID_ARGUMENT the address or variable that is malformed, NOT_SUPPORTED a launcher that tells of other ranks
 * but not of a way to them, BOOTSTRAP a launcher that does not answer as it should.
 */
TUTTI_EXPORT tutti_status tutti_group_create_from_environment(tutti_context *context, tutti_group **group);

/* Leaves the group and frees it. Does not wait for other ranks, but sends on what they still need to finish. All
 * requests must have been finalized: if one is left, that is INVALID_ARGUMENT and nothing happens. NULL is allowed.
 * MISMATCH: it has left, and found out with the others that ranks meant different collectives by one that ended well
 * (see tutti_post()). */
TUTTI_EXPORT tutti_status tutti_group_destroy(tutti_group *group);

TUTTI_EXPORT uint32_t tutti_group_rank(const tutti_group *group);
TUTTI_EXPORT uint32_t tutti_group_size(const tutti_group *group);

/* Which rank the error that ended this group is about, of several that were missing the lowest; -1 while there is none,
 * or if it is about no rank. The same at all survivors, but where a connection broke between two ranks that both live:
 * each of them gets the other one. Thread-safe. */
TUTTI_EXPORT int tutti_group_failed_rank(const tutti_group *group);

/* What the group uses, and what it did so far. */
typedef struct tutti_group_info {
    size_t struct_size;         /* sizeof(tutti_group_info), set by the caller */
    const char *mcast_provider; /* "udp" or "verbs"; "none" where the group goes without; static storage */
    const char *p2p_provider;   /* "tcp", "ucx" or "verbs"; static storage */
    char interface[64];         /* name and address */
    uint32_t local_ranks;       /* ranks on this host */
    uint32_t chunk_bytes;
    uint32_t subgroups;
    uint32_t chains;       /* of an allgather */
    uint32_t workers;      /* receive workers of the context */
    bool multicast;        /* multicast gets through to every rank, and ALGORITHM has not switched it off */
    const char *endpoints; /* the category of endpoints that the context's threads effectively have on the RDMA device
                              (setting ENDPOINTS); "none" where none is used; static storage */
} tutti_group_info;
TUTTI_EXPORT tutti_status tutti_group_query(const tutti_group *group, tutti_group_info *info);

/*
 * Counters since the group was created, but for the last two; all only ever grow. X(name, help) so that programs can
 * print them all.
 */
#define TUTTI_COUNTERS_TABLE(X)                                                                                        \
    X(mcast_datagrams_sent, "multicast datagrams sent")                                                                \
    X(mcast_bytes_sent, "bytes of them, with tutti's header")                                                          \
    X(mcast_datagrams_received, "multicast datagrams received")                                                        \
    X(mcast_bytes_received, "bytes of them, with tutti's header")                                                      \
    X(p2p_frames_sent, "control frames sent")                                                                          \
    X(p2p_frames_received, "control frames received")                                                                  \
    X(p2p_bytes_sent, "bytes of control frames, and of data that the right neighbour fetched here")                    \
    X(p2p_bytes_received, "bytes of control frames, and of data fetched from the left neighbour")                      \
    X(chunks_multicast, "chunks that arrived by multicast")                                                            \
    X(chunks_repaired, "chunks lost by multicast and fetched from the left neighbour")                                 \
    X(chunks_fetched, "chunks fetched by a point-to-point algorithm")                                                  \
    X(drops_key, "datagrams dropped: foreign (no header, or another job's key)")                                       \
    X(drops_length, "datagrams and chunks dropped: wrong length")                                                      \
    X(drops_stale, "chunks dropped: of a collective that is not in progress")                                          \
    X(drops_range, "chunks dropped: PSN out of range")                                                                 \
    X(drops_source, "chunks dropped: not from the root that owns the PSN")                                             \
    X(drops_duplicate, "chunks dropped: received before")                                                              \
    X(drops_own, "own datagrams that came back")                                                                       \
    X(drops_injected, "chunks dropped on purpose (TUTTI_LOSS)")                                                        \
    X(drops_frame, "control frames dropped: malformed, out of turn, early and without room, or not from their sender") \
    X(cutoffs, "collectives whose cutoff timer ran out")                                                               \
    X(repair_rounds, "fetch requests sent")                                                                            \
    X(credit_stalls, "times a root went on without credit")                                                            \
    X(wakeups, "times a wait slept and was woken, of all groups of this context")                                      \
    X(p2p_probes_sent, "probes sent behind frames that may have been lost, of all groups on this network")

typedef struct tutti_counters {
    size_t struct_size; /* sizeof(tutti_counters), set by the caller */
#define TUTTI_COUNTER_FIELD(name, help) uint64_t name;
    TUTTI_COUNTERS_TABLE(TUTTI_COUNTER_FIELD)
#undef TUTTI_COUNTER_FIELD
} tutti_counters;
TUTTI_EXPORT tutti_status tutti_group_counters(const tutti_group *group, tutti_counters *counters);

/* --- Requests --------------------------------------------------------------------------------------------------- */

typedef enum tutti_algorithm {
    TUTTI_ALGORITHM_AUTO, /* by kind and size, as the group's table says: see tutti info -t, and the setting TABLE */
    TUTTI_ALGORITHM_MULTICAST, /* NOT_SUPPORTED at init where it does not get through, or where the setting ALGORITHM
                                  names an algorithm that does not multicast: that switches it off in the group */
    TUTTI_ALGORITHM_RING,      /* allgather: every rank reads its left neighbour's blocks */
    TUTTI_ALGORITHM_CHAIN,     /* broadcast: every rank reads from its left neighbour, the first from the root */
    TUTTI_ALGORITHM_EAGER,     /* multicast without a barrier before or a handshake after it: a broadcast up to 32 KiB,
                                  an allgather up to 64 KiB, all blocks together, then TOO_LARGE. An allreduce and a
                                  reduce-scatter up to 64 KiB, all ranks' vectors together. A barrier of two ranks */
    TUTTI_ALGORITHM_TREE,      /* broadcast: point to point, down a tree: up to 64 KiB, then TOO_LARGE */
    TUTTI_ALGORITHM_GATHER,    /* allgather: point to point up a tree to rank 0, which multicasts everything: up to
                                  32 KiB, all blocks together, then TOO_LARGE. A barrier, and a broadcast of 0 bytes, too.
                                  Reduce, allreduce and reduce-scatter: up a tree to rank 0, or the reduce's root,
                                  combined there or on the way, and the result by multicast; up to 32 KiB a rank, a reduce
                                  among 17 ranks and more that are no power of two up to 64 KiB, all vectors together */
    /* Broadcasts, point to point and by blocks, as object groups do (tutti/object.h). A barrier comes first. */
    TUTTI_ALGORITHM_SEQUENTIAL,        /* the root sends everything to each in turn */
    TUTTI_ALGORITHM_BINOMIAL_TREE,     /* everything down a tree */
    TUTTI_ALGORITHM_BINOMIAL_PIPELINE, /* block by block along a hypercube: all links send and receive at once */
    TUTTI_ALGORITHM_HYBRID,            /* such a pipeline among hosts, and one on each host */
    /* The triggered engine's, point to point (tutti/reduction.h; docs/triggered.md). A barrier comes first. They have
     * the collectives that are named and no others. */
    TUTTI_ALGORITHM_BINOMIAL,           /* broadcast, reduce, gather, scatter: a binomial tree */
    TUTTI_ALGORITHM_DOUBLE_TREE,        /* broadcast: halves down two binary trees */
    TUTTI_ALGORITHM_RECURSIVE_DOUBLING, /* allreduce, allgather: with rank XOR 1, 2, 4, ... */
    TUTTI_ALGORITHM_RECURSIVE_HALVING,  /* reduce-scatter: the same, with halves of what is left */
    TUTTI_ALGORITHM_RABENSEIFNER,       /* reduce, allreduce: halves of halves, and the way back; a reduce-scatter is
                                           such an allreduce, of which all but the own part is dropped */
    TUTTI_ALGORITHM_TRIGGERED_RING,     /* allreduce, reduce-scatter, allgather: a block at a time around a ring */
    TUTTI_ALGORITHM_DIRECT,             /* reduce-scatter: each rank reads its part from all others; gather, scatter:
                                           the root with each in turn */
    TUTTI_ALGORITHM_PARTS,              /* allreduce: each rank combines its part, by TRIGGERED_RING or
                                           RECURSIVE_HALVING where TUTTI_TABLE has that for a reduce-scatter of the
                                           vector, else as with DIRECT, and multicasts it */
    TUTTI_ALGORITHM_EAGER_PARTS         /* the same without a handshake after it: up to 64 KiB, all parts together,
                                           which have as many whole elements each; then TOO_LARGE */
} tutti_algorithm;

typedef struct tutti_request_options {
    size_t struct_size;        /* sizeof(tutti_request_options) */
    tutti_algorithm algorithm; /* AUTO: the setting ALGORITHM, where it can serve the collective. RING and CHAIN are one
                                  algorithm in a group: each stands for the other where it fits the collective. */
    uint64_t timeout_ns; /* how long it may take from tutti_post() on, or from when one that was posted to the group
                            before it has ended at last, if that is later. What is in line (IN_FLIGHT) also has
                            the time that the oldest has. 0: the setting TIMEOUT */
} tutti_request_options;

/*
 * A Broadcast of `length_bytes` (any number from 0 up) from rank `root` to every rank's `receive`. At the root, `send`
 * is the source: TUTTI_IN_PLACE or equal to `receive` if the data is there already, otherwise a buffer that does not
 * overlap it. At the other ranks `send` is not looked at. Nothing is sent yet, and the call is local. The caller owns
 * both buffers; they must stay allocated until tutti_finalize(), and may be used between completion and the next
 * tutti_post(). `options` may be NULL.
 * Errors: INVALID_ARGUMENT (NULL with a length, root out of range, overlap, more than 2^47 bytes of all ranks together,
 * memory that an RDMA device does not find), TOO_LARGE, NO_MEMORY, NO_RESOURCE, IO (memory that cannot be registered),
 * NOT_SUPPORTED; a group that has failed: its error.
 */
TUTTI_EXPORT tutti_status tutti_broadcast_init(tutti_group *group, const void *send, void *receive,
                                               uint64_t length_bytes, uint32_t root,
                                               const tutti_request_options *options, tutti_request **request);

/*
 * An Allgather: every rank contributes `length_bytes` (the same number everywhere, any from 0 up) and gets all
 * contributions in the order of ranks at `receive` (size * length_bytes). `send` is TUTTI_IN_PLACE or points to the
 * caller's own block of `receive` if the data is there already, otherwise to a buffer that does not overlap `receive`.
 * All else as tutti_broadcast_init().
 */
TUTTI_EXPORT tutti_status tutti_allgather_init(tutti_group *group, const void *send, void *receive,
                                               uint64_t length_bytes, const tutti_request_options *options,
                                               tutti_request **request);

/* What moves the request's data: chosen at its _init from what all ranks know alike, so it is the same on all of them.
 * Never AUTO; an allgather has RING where a broadcast has CHAIN. */
TUTTI_EXPORT tutti_algorithm tutti_request_algorithm(const tutti_request *request);

/*
 * Starts the collective, without waiting. The buffers are the library's until tutti_test() says done or tutti_wait()
 * returns. All ranks post the collectives of a group in the same order; several may be in progress (beyond the setting
 * IN_FLIGHT they wait in line). Ranks that mean different ones (kind, root, length, algorithm, type, operation) fail
 * with MISMATCH. Where the algorithm is EAGER or TREE a rank may have all that it wants before it can hear of that: its
 * own request ends well, and the group fails with MISMATCH at one of the 32 that follow, or in tutti_group_destroy().
 * Errors: INVALID_ARGUMENT (NULL), BUSY if this request is in progress; a group that has failed: its error.
 */
TUTTI_EXPORT tutti_status tutti_post(tutti_request *request);

/*
 * Moves communication along (without worker threads this and tutti_wait() are the only places where it moves) and says
 * whether the request has ended. Returns its status once *done is true: OK, PEER_FAILED, TIMED_OUT, MISMATCH, or what
 * the system or the network refused on some rank (IO, NO_MEMORY, NO_RESOURCE, PROTOCOL). NULL is INVALID_ARGUMENT.
 * A request that was never posted is done. Never blocks. Who only waits calls tutti_wait(), which lets others have the
 * core; where tests are repeated, a short sleep between them does so, and sched_yield() does not always: schedulers may
 * run those who yield and nobody else (docs/performance.md, "Loops that yield").
 */
TUTTI_EXPORT tutti_status tutti_test(tutti_request *request, bool *done);

/* As tutti_test(), until the request has ended; sleeps when nothing moves. After the request's deadline it ends with
 * TIMED_OUT, and tutti_last_error() names the ranks that were missing; letting go of the buffers may take up to a
 * second more. */
TUTTI_EXPORT tutti_status tutti_wait(tutti_request *request);

/* Frees the request. BUSY, and nothing happens, while it is in progress. NULL is allowed. */
TUTTI_EXPORT tutti_status tutti_finalize(tutti_request *request);

#ifdef __cplusplus
}
#endif

#endif
