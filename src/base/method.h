/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that there are, and how their data moves: values that travel between ranks. */
#ifndef TT_BASE_METHOD_H
#define TT_BASE_METHOD_H

#include <stdbool.h>
#include <stdint.h>

/* What of a collective's vector a rank has to do with. In a group of P ranks the vector is one block that belongs to
 * all, or a block of each rank's in the order of ranks. */
enum tt_share { TT_SHARE_ALL, TT_SHARE_OWN };

/* X(KIND, as users write it, what is given, by the root alone, what is got, by the root alone, whether it is combined)
 */
#define TT_KINDS(X)                                                                                                    \
    X(BROADCAST, "broadcast", TT_SHARE_ALL, true, TT_SHARE_ALL, false, false)                                          \
    X(ALLGATHER, "allgather", TT_SHARE_OWN, false, TT_SHARE_ALL, false, false)                                         \
    X(REDUCE, "reduce", TT_SHARE_ALL, false, TT_SHARE_ALL, true, true)                                                 \
    X(ALLREDUCE, "allreduce", TT_SHARE_ALL, false, TT_SHARE_ALL, false, true)                                          \
    X(REDUCE_SCATTER, "reduce-scatter", TT_SHARE_ALL, false, TT_SHARE_OWN, false, true)                                \
    X(GATHER, "gather", TT_SHARE_OWN, false, TT_SHARE_ALL, true, false)                                                \
    X(SCATTER, "scatter", TT_SHARE_ALL, true, TT_SHARE_OWN, false, false)

#define TT_KIND_VALUE(kind, ...) TT_##kind,
enum tt_collective_kind { TT_KIND_NONE, TT_KINDS(TT_KIND_VALUE) TT_KIND_COUNT };
#undef TT_KIND_VALUE

struct tt_kind_row {
    const char *word;
    enum tt_share gives;
    bool root_gives;
    enum tt_share gets;
    bool root_gets;
    bool combines;
};

extern const struct tt_kind_row tt_kind_rows[TT_KIND_COUNT];

/* Of a kind that is none: a row whose word says so. */
static inline const struct tt_kind_row *tt_kind_row(unsigned kind)
{
    return &tt_kind_rows[kind < TT_KIND_COUNT ? kind : TT_KIND_NONE];
}

static inline const char *tt_kind_word(unsigned kind)
{
    return tt_kind_row(kind)->word;
}

static inline bool tt_kind_has_root(unsigned kind)
{
    return tt_kind_row(kind)->root_gives || tt_kind_row(kind)->root_gets;
}

/* Whether the vector is of blocks, one a rank; what is combined is one block, whoever gets which part of it. */
static inline bool tt_kind_has_blocks(unsigned kind)
{
    const struct tt_kind_row *row = tt_kind_row(kind);

    return !row->combines && (row->gives == TT_SHARE_OWN || row->gets == TT_SHARE_OWN);
}

/* How many ranks have a block to give, in a group of `size`; where they multicast, as many blocks are in everybody's
 * receive buffer. */
static inline uint32_t tt_collective_root_count(unsigned kind, uint32_t size)
{
    return tt_kind_row(kind)->root_gives ? 1 : size;
}

/* As in the public header. */
enum tt_algorithm {
    TT_ALGORITHM_AUTO,
    TT_ALGORITHM_MULTICAST,
    TT_ALGORITHM_RING,
    TT_ALGORITHM_CHAIN,
    TT_ALGORITHM_EAGER,
    TT_ALGORITHM_TREE,
    TT_ALGORITHM_GATHER,
    TT_ALGORITHM_SEQUENTIAL,
    TT_ALGORITHM_BINOMIAL_TREE,
    TT_ALGORITHM_BINOMIAL_PIPELINE,
    TT_ALGORITHM_HYBRID,
    TT_ALGORITHM_BINOMIAL,
    TT_ALGORITHM_DOUBLE_TREE,
    TT_ALGORITHM_RECURSIVE_DOUBLING,
    TT_ALGORITHM_RECURSIVE_HALVING,
    TT_ALGORITHM_RABENSEIFNER,
    TT_ALGORITHM_TRIGGERED_RING,
    TT_ALGORITHM_DIRECT,
    TT_ALGORITHM_PARTS,
    TT_ALGORITHM_EAGER_PARTS,
    TT_ALGORITHM_COUNT
};

/*
 * The methods, one row each: how the data of a collective moves. Name; gate, mover and completion, of which proto/way.h
 * makes what the machine does; and what is fixed for all others (struct tt_method_row). The order is that of the
 * values, which travel between ranks.
 */
#define TT_BIT(kind) (1U << TT_##kind)
#define TT_METHODS(ROW)                                                                                                \
    ROW(RING, barrier, reads, handshake, .word = "ring", .broadcast_word = "chain",                                    \
        .broadcast_algorithm = TT_ALGORITHM_CHAIN, .name = "point to point", .algorithm = TT_ALGORITHM_RING,           \
        .kinds = TT_BIT(BROADCAST) | TT_BIT(ALLGATHER), .is_read = true)                                               \
    ROW(MULTICAST, release, chunks, handshake, .word = "multicast", .name = "multicast",                               \
        .algorithm = TT_ALGORITHM_MULTICAST, .kinds = TT_BIT(BROADCAST) | TT_BIT(ALLGATHER), .multicasts = true,       \
        .is_read = true)                                                                                               \
    ROW(EAGER, open, eager, copy, .word = "eager", .name = "eager multicast", .algorithm = TT_ALGORITHM_EAGER,         \
        .kinds = TT_BIT(BROADCAST) | TT_BIT(ALLGATHER) | TT_BIT(ALLREDUCE) | TT_BIT(REDUCE_SCATTER),                   \
        .multicasts = true, .keeps_copies = true, .all_send = true, .one_tree = true)                                  \
    ROW(TREE, open, tree, none, .word = "tree", .name = "tree", .algorithm = TT_ALGORITHM_TREE,                        \
        .kinds = TT_BIT(BROADCAST))                                                                                    \
    ROW(GATHER, open, gathered, copy, .word = "gather", .name = "gather and multicast",                                \
        .algorithm = TT_ALGORITHM_GATHER,                                                                              \
        .kinds = TT_BIT(ALLGATHER) | TT_BIT(REDUCE) | TT_BIT(ALLREDUCE) | TT_BIT(REDUCE_SCATTER), .multicasts = true,  \
        .keeps_copies = true, .gathers = true, .one_tree = true)                                                       \
    ROW(SEQUENTIAL, barrier, relay, none, .word = "sequential", .name = "sequential",                                  \
        .algorithm = TT_ALGORITHM_SEQUENTIAL, .kinds = TT_BIT(BROADCAST), .is_read = true, .by_objects = true)         \
    ROW(BINOMIAL_TREE, barrier, relay, none, .word = "binomial-tree", .name = "binomial tree",                         \
        .algorithm = TT_ALGORITHM_BINOMIAL_TREE, .kinds = TT_BIT(BROADCAST), .is_read = true, .by_objects = true)      \
    ROW(BINOMIAL_PIPELINE, barrier, relay, none, .word = "binomial-pipeline", .name = "binomial pipeline",             \
        .algorithm = TT_ALGORITHM_BINOMIAL_PIPELINE, .kinds = TT_BIT(BROADCAST), .is_read = true, .by_objects = true)  \
    ROW(HYBRID, barrier, relay, none, .word = "hybrid", .name = "hybrid of pipelines",                                 \
        .algorithm = TT_ALGORITHM_HYBRID, .kinds = TT_BIT(BROADCAST), .is_read = true, .by_objects = true)             \
    ROW(BINOMIAL, barrier, triggered, none, .word = "binomial", .name = "binomial tree of triggered messages",         \
        .algorithm = TT_ALGORITHM_BINOMIAL,                                                                            \
        .kinds = TT_BIT(BROADCAST) | TT_BIT(REDUCE) | TT_BIT(GATHER) | TT_BIT(SCATTER), .by_triggers = true)           \
    ROW(DOUBLE_TREE, barrier, triggered, none, .word = "double-tree", .name = "double tree",                           \
        .algorithm = TT_ALGORITHM_DOUBLE_TREE, .kinds = TT_BIT(BROADCAST), .by_triggers = true)                        \
    ROW(RECURSIVE_DOUBLING, barrier, triggered, none, .word = "recursive-doubling", .name = "recursive doubling",      \
        .algorithm = TT_ALGORITHM_RECURSIVE_DOUBLING, .kinds = TT_BIT(ALLGATHER) | TT_BIT(ALLREDUCE),                  \
        .by_triggers = true, .one_tree = true)                                                                         \
    ROW(RECURSIVE_HALVING, barrier, triggered, none, .word = "recursive-halving", .name = "recursive halving",         \
        .algorithm = TT_ALGORITHM_RECURSIVE_HALVING, .kinds = TT_BIT(REDUCE_SCATTER), .by_triggers = true,             \
        .far_first = true)                                                                                             \
    ROW(RABENSEIFNER, barrier, triggered, none, .word = "rabenseifner", .name = "Rabenseifner's halves",               \
        .algorithm = TT_ALGORITHM_RABENSEIFNER, .kinds = TT_BIT(REDUCE) | TT_BIT(ALLREDUCE) | TT_BIT(REDUCE_SCATTER),  \
        .by_triggers = true, .one_tree = true)                                                                         \
    ROW(TRIGGERED_RING, barrier, triggered, none, .word = "triggered-ring", .name = "ring of triggered messages",      \
        .algorithm = TT_ALGORITHM_TRIGGERED_RING,                                                                      \
        .kinds = TT_BIT(ALLGATHER) | TT_BIT(ALLREDUCE) | TT_BIT(REDUCE_SCATTER), .by_triggers = true)                  \
    ROW(DIRECT, barrier, triggered, none, .word = "direct", .name = "direct", .algorithm = TT_ALGORITHM_DIRECT,        \
        .kinds = TT_BIT(REDUCE_SCATTER) | TT_BIT(GATHER) | TT_BIT(SCATTER), .by_triggers = true)                       \
    ROW(PARTS, release, parts, handshake, .word = "parts", .name = "parts, and multicast of these",                    \
        .algorithm = TT_ALGORITHM_PARTS, .kinds = TT_BIT(ALLREDUCE), .multicasts = true, .is_read = true,              \
        .by_parts = true)                                                                                              \
    ROW(EAGER_PARTS, barrier, eager_parts, copy, .word = "eager-parts", .name = "parts, and eager multicast of these", \
        .algorithm = TT_ALGORITHM_EAGER_PARTS, .kinds = TT_BIT(ALLREDUCE), .multicasts = true, .keeps_copies = true,   \
        .all_send = true, .by_parts = true)

#define TT_METHOD_VALUE(method, ...) TT_METHOD_##method,
enum tt_method { TT_METHODS(TT_METHOD_VALUE) TT_METHOD_COUNT };
#undef TT_METHOD_VALUE

struct tt_method_row {
    const char *word;                                 /* as users write it */
    const char *broadcast_word;                       /* of a broadcast, where that is another one; NULL */
    const char *name;                                 /* in sentences */
    enum tt_algorithm algorithm, broadcast_algorithm; /* the second as with the word; or AUTO */
    bool multicasts;                                  /* chunks, to everybody */
    bool keeps_copies; /* ends without a handshake: each rank keeps a copy for a neighbour that may still need it */
    bool all_send;     /* where there is no root: all ranks, none of them for having heard of the others */
    bool gathers;      /* blocks go to one rank first, which multicasts all, or what comes of it */
    bool is_read;      /* other ranks read from receive buffers, or write there: they are registered */
    bool by_objects;   /* through an object group of the root's, as RDMC's algorithms */
    bool by_triggers;  /* a schedule of messages, by the group's triggered engine */
    bool by_parts;     /* the same, for the part that each rank then multicasts */
    bool far_first;    /* to the farthest rank first: so do its barrier's frames, and go with its messages */
    bool one_tree;     /* combines along the tree of docs/triggered.md, "Same bits", which keeps the order of ranks */
    unsigned kinds;    /* that it serves: a bit each */
};

extern const struct tt_method_row tt_method_rows[TT_METHOD_COUNT + 1];

/* Of a method that is none: a row with words that say so. */
static inline const struct tt_method_row *tt_method_row(unsigned method)
{
    return &tt_method_rows[method < TT_METHOD_COUNT ? method : TT_METHOD_COUNT];
}

static inline bool tt_method_serves(unsigned method, unsigned kind)
{
    return (tt_method_row(method)->kinds >> kind & 1) != 0;
}

/* As users write it. */
const char *tt_method_word(unsigned kind, unsigned method);

enum tt_algorithm tt_method_algorithm(unsigned kind, unsigned method);

/* What the algorithm comes to, where it can be had; of AUTO, TT_METHOD_COUNT. */
enum tt_method tt_method_of_algorithm(enum tt_algorithm algorithm);

#endif
