/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Broadcast down a binomial tree, point to point: for small messages where multicast does not get through. Part of
 * the collective machine.
 *
 * There is no barrier and no handshake. A rank that has posted says READY to its parent, with its terms; a parent sends
 * what it has to the children that are ready, in DATA frames, as it comes in. So nothing arrives before there is a
 * place for it, and nothing waits anywhere but in the fabric. A rank has finished when it has everything and has passed
 * it on: the fabric has its own copy of what was sent.
 *
 * In a group without multicast a tree is eager: nobody says READY, and a rank that has not posted yet keeps what comes
 * in a log of its own. The account of proto/eager.h is what a root needs credit of, which for trees counts the records
 * of DATA: a root sends only while those of all trees that somebody may not have started are no more than a log holds.
 *
 * A rank learns of other terms than its own from READY and DATA. Ranks that mean different roots may each wait for the
 * other's; therefore a parent that waits for READY for long says REMIND to its children, a child that waits for DATA
 * for long in an eager tree says READY after all, and terms are compared wherever either arrives.
 */
#ifndef TT_PROTO_TREE_H
#define TT_PROTO_TREE_H

#include <stdint.h>

#include "plan/dissemination.h"

/* The largest block. Beyond it the chain of one-sided reads is faster on slow links too; see docs/performance.md. */
enum { TT_TREE_MAX_BYTES = 64 * 1024 };

/* How long a rank waits for another one before the first reminder; doubles from one to the next, up to the last. */
#define TT_TREE_REMIND_NS      UINT64_C(20000000)
#define TT_TREE_REMIND_LAST_NS UINT64_C(1280000000)

struct tt_tree {
    uint32_t ready;          /* a bit a child: it has posted */
    uint32_t received_bytes; /* from the front; they come in order */
    uint32_t sent_bytes[TT_DISSEMINATION_MAX_ROUNDS];
    uint64_t remind_ns, remind_deadline_ns;
};

#endif
