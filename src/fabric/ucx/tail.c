/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the connections that may have lost their tail. Normal path: what is sent puts a connection into the first list;
 * the next look gives it a time, since it knows one, and from there it goes from list to list until it is quiet. In a
 * list all wait for equally long, so each is in the order of its times. Failures: none.
 */
#include "fabric/ucx/tail.h"

#include <stddef.h>

void tt_tails_init(struct tt_tails *tails)
{
    for (int stage = 0; stage < TT_TAIL_STAGES; stage++) {
        TAILQ_INIT(&tails->stages[stage]);
    }
}

static void enter(struct tt_tails *tails, struct tt_tail *tail, enum tt_tail_stage stage)
{
    if (tail->stage != TT_TAIL_QUIET) {
        TAILQ_REMOVE(&tails->stages[tail->stage], tail, link);
    }
    tail->stage = stage;
    if (stage != TT_TAIL_QUIET) {
        TAILQ_INSERT_TAIL(&tails->stages[stage], tail, link);
    }
}

void tt_tail_sent(struct tt_tails *tails, struct tt_tail *tail)
{
    if (tail->stage != TT_TAIL_SENT) {
        enter(tails, tail, TT_TAIL_SENT);
    }
}

void tt_tail_forget(struct tt_tails *tails, struct tt_tail *tail)
{
    enter(tails, tail, TT_TAIL_QUIET);
}

static struct tt_tail *first_due(const struct tt_tails *tails, enum tt_tail_stage stage, uint64_t now_ns)
{
    struct tt_tail *tail = TAILQ_FIRST(&tails->stages[stage]);
    return tail != NULL && tail->due_ns <= now_ns ? tail : NULL;
}

struct tt_tail *tt_tails_due(struct tt_tails *tails, uint64_t now_ns)
{
    struct tt_tail *tail;
    while ((tail = TAILQ_FIRST(&tails->stages[TT_TAIL_SENT])) != NULL) {
        enter(tails, tail, TT_TAIL_FIRST);
        tail->due_ns = now_ns + TT_TAIL_FIRST_NS;
    }
    if ((tail = first_due(tails, TT_TAIL_FIRST, now_ns)) != NULL) {
        enter(tails, tail, TT_TAIL_SECOND);
        tail->due_ns = now_ns + TT_TAIL_SECOND_NS;
    } else if ((tail = first_due(tails, TT_TAIL_SECOND, now_ns)) != NULL) {
        enter(tails, tail, TT_TAIL_QUIET);
    }
    return tail;
}

uint64_t tt_tails_due_ns(const struct tt_tails *tails)
{
    const struct tt_tail *first = TAILQ_FIRST(&tails->stages[TT_TAIL_FIRST]);
    const struct tt_tail *second = TAILQ_FIRST(&tails->stages[TT_TAIL_SECOND]);
    uint64_t first_ns = first != NULL ? first->due_ns : TT_NEVER;
    uint64_t second_ns = second != NULL ? second->due_ns : TT_NEVER;
    return first_ns < second_ns ? first_ns : second_ns;
}
