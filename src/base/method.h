/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives that there are, and how their data moves: values that travel between ranks. */
#ifndef TT_BASE_METHOD_H
#define TT_BASE_METHOD_H

#include <stdbool.h>

enum tt_collective_kind { TT_BROADCAST = 1, TT_ALLGATHER = 2 };

/* How the data of a collective moves. */
enum tt_method {
    TT_METHOD_RING,      /* point to point, block by block around the ring; a broadcast's is a chain */
    TT_METHOD_MULTICAST, /* barrier, multicast, handshake */
    TT_METHOD_EAGER,     /* multicast without a barrier before or a handshake after it */
    TT_METHOD_TREE,      /* point to point, down a binomial tree; broadcasts only */
    TT_METHOD_COUNT
};

static inline bool tt_method_is_multicast(unsigned method)
{
    return method == TT_METHOD_MULTICAST || method == TT_METHOD_EAGER;
}

#endif
