/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * When to probe for the loss of a connection's tail, which is what was sent last. TCP repeats a lost segment within a
 * round trip if anything arrives behind it; if nothing does it waits for a time-out of 200 ms or more. So something
 * small is sent behind: a tail loss probe (RFC 8985, 7), but by who is above TCP, and without the time that TCP leaves
 * for acknowledgements that are held back. The probes that follow, each after twice the time, are for what loses
 * everything for a while, a full queue, and for what was lost when it was repeated. A connection over which more is
 * sent all the time needs no probe, and one that stays silent gets no more than these. Where nothing has been lost for
 * a while, the first two are left out, if the provider can tell: what is not acknowledged after 2 ms is held back then,
 * in all likelihood, and to ask costs both hosts more than the frame did.
 *
 * Times come in; to note that something is sent costs a list operation, and no clock.
 */
#ifndef TT_FABRIC_SESSION_TAIL_H
#define TT_FABRIC_SESSION_TAIL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/clock.h"

#define TT_TAIL_FIRST_NS (2 * TT_NS_PER_MS) /* after what was sent last: some round trips of a network at work */
#define TT_TAIL_CALM_NS  (10 * TT_NS_PER_S) /* after the last loss */

enum tt_tail_stage {
    TT_TAIL_QUIET,                    /* nothing is due */
    TT_TAIL_SENT,                     /* something was sent since the last look */
    TT_TAIL_FIRST,                    /* its first probe is due at a known time; from here on each stage is a probe */
    TT_TAIL_CALM = TT_TAIL_FIRST + 2, /* the first one where nothing has been lost: after 8 ms */
    TT_TAIL_LAST = TT_TAIL_FIRST + 4, /* 62 ms after what was sent last */
    TT_TAIL_STAGES
};

/* A connection's. All zero: quiet. */
struct tt_tail {
    TAILQ_ENTRY(tt_tail) link;
    enum tt_tail_stage stage;
    uint64_t due_ns; /* from the first probe on */
};

TAILQ_HEAD(tt_tail_list, tt_tail);

/* All that are not quiet, by stage, in the order in which they are due. */
struct tt_tails {
    struct tt_tail_list stages[TT_TAIL_STAGES];
    uint64_t due_ns;  /* none is due before; 0: to be found anew */
    uint64_t calm_ns; /* from then on nothing has been lost for a while */
};

/* `told`: tt_tails_lost will be called; else anything may be lost at any time. */
void tt_tails_init(struct tt_tails *tails, bool told);

/* Something was lost, and has been repeated; or something else was lost on the same way. Returns whether that is news.
 */
bool tt_tails_lost(struct tt_tails *tails, uint64_t now_ns);

/* Something was sent that is no probe. */
void tt_tail_sent(struct tt_tails *tails, struct tt_tail *tail);

/* The connection is over; also if it is quiet. */
void tt_tail_forget(struct tt_tails *tails, struct tt_tail *tail);

/* A connection whose probe is due; from now on that counts as sent. NULL: none is. */
struct tt_tail *tt_tails_due(struct tt_tails *tails, uint64_t now_ns);

/* When the next one is due, right after tt_tails_due said that none is; TT_NEVER: not before something is sent. */
static inline uint64_t tt_tails_due_ns(const struct tt_tails *tails)
{
    return tails->due_ns;
}

#endif
