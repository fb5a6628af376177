/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a collective says in its barrier about what the network takes, and what it learns about that. Normal path: the
 * offer goes up with GATHER, the least of all comes with the release, and what has come by multicast at the end teaches
 * the group. Failures: without the release nothing is learnt, and roots are as far ahead as was agreed on last.
 */
#include "proto/collective_private.h"

void tt_collective_offer(struct tt_collective *c)
{
    if (!tt_collective_is_released(c)) {
        return;
    }
    if (c->config.pace != NULL) {
        c->least.rate_kbit = tt_pace_offer(c->config.pace, c->sequence);
    }
    if (c->config.ahead != NULL) {
        c->least.ahead_chunks = c->config.ahead->chunks;
    }
}

void tt_collective_open_credit(struct tt_collective *c)
{
    struct tt_ahead *ahead = c->config.ahead;

    if (ahead == NULL || !tt_collective_is_released(c)) {
        return;
    }
    if (c->everybody) {
        tt_ahead_agreed(ahead, c->least.ahead_chunks);
    }
    if (c->credit.enabled) {
        tt_credit_open(&c->credit, ahead->agreed_chunks, c->everybody);
    }
}

void tt_collective_learn(struct tt_collective *c)
{
    struct tt_pace *pace = c->config.pace;
    struct tt_ahead_sample sample = {.expected = c->expected / c->config.terms.subgroups,
                                     .agreed_chunks = c->least.ahead_chunks,
                                     .has_rivals = c->config.terms.chains > 1};

    if (pace == NULL || !tt_collective_is_released(c) || !c->everybody) {
        return;
    }
    sample.is_lossy = tt_pace_ended(pace, &c->sample);
    sample.is_found = tt_pace_is_found(pace);
    if (c->config.ahead != NULL) {
        tt_ahead_ended(c->config.ahead, &sample);
    }
}
