/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Keeps the connections that may have lost their tail. Normal path: what is sent puts a connection into the first list;
 * the next look gives it a time, since it knows one, and from there it goes from list to list until it is quiet. In a
 * list all wait for equally long, so each is in the order of its times. Failures: none.
 */
#include "fabric/session/tail.h"

#include <stddef.h>

void tt_tails_init(struct tt_tails *tails, bool told)
{
    for (int stage = 0; stage < TT_TAIL_STAGES; stage++) {
        TAILQ_INIT(&tails->stages[stage]);
    }
    tails->due_ns = TT_NEVER;
    tails->calm_ns = told ? 0 : TT_NEVER;
}

bool tt_tails_lost(struct tt_tails *tails, uint64_t now_ns)
{
    bool was_calm = now_ns >= tails->calm_ns;
    tails->calm_ns = now_ns + TT_TAIL_CALM_NS;
    return was_calm;
}

static void enter(struct tt_tails *tails, struct tt_tail *tail, enum tt_tail_stage stage)
{
    if (tail->stage != TT_TAIL_QUIET) {
        TAILQ_REMOVE(&tails->stages[tail->stage], tail, link);
    }
    tail->stage = stage;
    tails->due_ns = 0;
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

/* Each probe waits twice as long as the one before. */
static void await_probe(struct tt_tails *tails, struct tt_tail *tail, int stage, uint64_t now_ns)
{
    enter(tails, tail, (enum tt_tail_stage)stage);
    tail->due_ns = now_ns + (TT_TAIL_FIRST_NS << (stage - TT_TAIL_FIRST));
}

static uint64_t earliest_ns(const struct tt_tails *tails)
{
    uint64_t due_ns = TT_NEVER;
    for (int stage = TT_TAIL_FIRST; stage <= TT_TAIL_LAST; stage++) {
        const struct tt_tail *tail = TAILQ_FIRST(&tails->stages[stage]);
        if (tail != NULL && tail->due_ns < due_ns) {
            due_ns = tail->due_ns;
        }
    }
    return due_ns;
}

struct tt_tail *tt_tails_due(struct tt_tails *tails, uint64_t now_ns)
{
    struct tt_tail *tail;
    if (now_ns < tails->due_ns) {
        return NULL;
    }
    while ((tail = TAILQ_FIRST(&tails->stages[TT_TAIL_SENT])) != NULL) {
        await_probe(tails, tail, now_ns >= tails->calm_ns ? TT_TAIL_CALM : TT_TAIL_FIRST, now_ns);
    }
    for (int stage = TT_TAIL_FIRST; stage <= TT_TAIL_LAST; stage++) {
        tail = TAILQ_FIRST(&tails->stages[stage]);
        if (tail == NULL || tail->due_ns > now_ns) {
            continue;
        }
        if (stage < TT_TAIL_LAST) {
            await_probe(tails, tail, stage + 1, now_ns);
        } else {
            enter(tails, tail, TT_TAIL_QUIET);
        }
        return tail;
    }
    tails->due_ns = earliest_ns(tails);
    return NULL;
}
