/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that there are, and how their data moves: values that travel between ranks. */
#ifndef TT_BASE_METHOD_H
#define TT_BASE_METHOD_H

#include <stdbool.h>
#include <stdint.h>

enum tt_collective_kind { TT_BROADCAST = 1, TT_ALLGATHER = 2 };

/* How many ranks have a block to give, in a group of `size`; as many blocks are in everybody's receive buffer. */
static inline uint32_t tt_collective_root_count(unsigned kind, uint32_t size)
{
    return kind == TT_ALLGATHER ? size : 1;
}

/* How the data of a collective moves. */
enum tt_method {
    TT_METHOD_RING,      /* point to point, block by block around the ring; a broadcast's is a chain */
    TT_METHOD_MULTICAST, /* barrier, multicast, handshake */
    TT_METHOD_EAGER,     /* multicast without a barrier before or a handshake after it */
    TT_METHOD_TREE,      /* point to point, down a binomial tree; broadcasts only */
    TT_METHOD_GATHER,    /* point to point up a tree, and from there to all by multicast, as if eager; a barrier too */
    /* Through an object group of the root's, behind a barrier; broadcasts only. As RDMC's algorithms. */
    TT_METHOD_SEQUENTIAL,
    TT_METHOD_BINOMIAL_TREE,
    TT_METHOD_BINOMIAL_PIPELINE,
    TT_METHOD_HYBRID, /* ranks of one host are a rack */
    TT_METHOD_COUNT
};

static inline bool tt_method_is_multicast(unsigned method)
{
    return method == TT_METHOD_MULTICAST || method == TT_METHOD_EAGER || method == TT_METHOD_GATHER;
}

static inline bool tt_method_is_relayed(unsigned method)
{
    return method >= TT_METHOD_SEQUENTIAL && method <= TT_METHOD_HYBRID;
}

/* Whether it ends without a handshake, so that each rank keeps a copy for a neighbour that may still need it. */
static inline bool tt_method_keeps_copies(unsigned method)
{
    return method == TT_METHOD_EAGER || method == TT_METHOD_GATHER;
}

#endif
