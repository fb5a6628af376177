/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start-up probe. Two disseminations (barrier, vote) with a listening phase between them. The vote is an AND, and
 * an AND may be combined in any order and more than once, so early frames are simply added in. Lost probes are
 * repeated; a rank that does not hear somebody within the timeout votes no, and then everybody goes without multicast.
 * The timeout begins when everybody is known to be probing, which a third dissemination tells: a rank may come out of
 * the barrier a second after the others, where one frame of it was lost.
 */
#include "proto/probe.h"

#include <string.h>

#include "plan/dissemination.h"

enum { BARRIER, VOTE, PROBING };

void tt_probe_init(struct tt_probe *probe, uint32_t rank, uint32_t size, uint64_t group, bool multicast,
                   const _Atomic uint64_t *heard, uint32_t heard_count, uint64_t timeout_ns)
{
    memset(probe, 0, sizeof *probe);
    probe->rank = rank;
    probe->size = size;
    probe->heard = heard;
    probe->heard_count = heard_count;
    probe->timeout_ns = timeout_ns;
    probe->template = (struct tt_frame){.type = TT_FRAME_PROBE, .source = rank, .group = group};
    probe->heard_all = multicast;
    probe->failed_rank = TT_RANK_NONE;
}

/* Sends what rounds of a phase can go out by now; returns whether the phase is complete. */
static bool disseminate(struct tt_probe *probe, uint32_t phase, struct tt_actions *actions)
{
    uint32_t rounds = tt_dissemination_rounds(probe->size);

    while (probe->sent[phase] < rounds) {
        uint32_t round = probe->sent[phase], before = (UINT32_C(1) << round) - 1;
        struct tt_action *action;

        if ((probe->received[phase] & before) != before) {
            return false;
        }
        action = tt_actions_add(actions, TT_ACTION_SEND, NULL);
        action->to = tt_dissemination_to(probe->rank, probe->size, round);
        action->body.frame = probe->template;
        action->body.frame.body.probe.phase = (uint8_t)phase;
        action->body.frame.body.probe.round = (uint8_t)round;
        action->body.frame.body.probe.heard_all = probe->heard_all;
        action->body.frame.body.probe.failed_rank = probe->failed_rank;
        probe->sent[phase]++;
    }
    return probe->received[phase] == (UINT32_C(1) << rounds) - 1;
}

/* The lowest rank whose probe is missing on some subgroup. */
static uint32_t unheard(const struct tt_probe *probe)
{
    uint32_t lowest = TT_RANK_NONE, words = (probe->size + 63) / 64;

    for (uint32_t i = 0; i < probe->heard_count; i++) {
        for (uint32_t rank = 0; rank < probe->size && rank < lowest; rank++) {
            uint64_t word = atomic_load_explicit(&probe->heard[i * words + rank / 64], memory_order_relaxed);

            if (rank != probe->rank && !(word >> (rank % 64) & 1)) {
                lowest = rank;
            }
        }
    }
    return lowest;
}

static void listen(struct tt_probe *probe, uint64_t now_ns)
{
    uint32_t missing = probe->heard_all ? unheard(probe) : TT_RANK_NONE;

    if (probe->heard_all && missing != TT_RANK_NONE && now_ns < probe->deadline_ns) {
        return;
    }
    if (missing != TT_RANK_NONE) {
        probe->heard_all = false;
        probe->failed_rank = missing < probe->failed_rank ? missing : probe->failed_rank;
    }
    probe->state = TT_PROBE_VOTE;
}

static void advance(struct tt_probe *probe, uint64_t now_ns, struct tt_actions *actions)
{
    if (probe->state == TT_PROBE_BARRIER && disseminate(probe, BARRIER, actions)) {
        probe->state = TT_PROBE_LISTEN;
        probe->next_probe_ns = now_ns;
        probe->deadline_ns = UINT64_MAX;
    }
    /* Others may still need to hear this rank while it votes. */
    if ((probe->state == TT_PROBE_LISTEN || probe->state == TT_PROBE_VOTE) && probe->heard_all &&
        probe->next_probe_ns <= now_ns) {
        uint32_t doublings = probe->probes_sent < 3 ? probe->probes_sent : 3;

        tt_actions_add(actions, TT_ACTION_PROBE, NULL);
        probe->next_probe_ns = now_ns + ((uint64_t)TT_PROBE_INTERVAL_NS << doublings);
        probe->probes_sent++;
    }
    if ((probe->state == TT_PROBE_LISTEN || probe->state == TT_PROBE_VOTE) && disseminate(probe, PROBING, actions) &&
        probe->deadline_ns == UINT64_MAX) {
        probe->deadline_ns = now_ns + probe->timeout_ns;
    }
    if (probe->state == TT_PROBE_LISTEN) {
        listen(probe, now_ns);
    }
    if (probe->state == TT_PROBE_VOTE && disseminate(probe, VOTE, actions)) {
        struct tt_action *action = tt_actions_add(actions, TT_ACTION_PROBED, NULL);

        probe->state = TT_PROBE_DONE;
        action->body.probe.multicast = probe->heard_all;
        action->body.probe.failed_rank = probe->failed_rank;
    }
}

void tt_probe_start(struct tt_probe *probe, uint64_t now_ns, struct tt_actions *actions)
{
    probe->state = TT_PROBE_BARRIER;
    advance(probe, now_ns, actions);
}

bool tt_probe_frame(struct tt_probe *probe, uint64_t now_ns, const struct tt_frame *frame, struct tt_actions *actions)
{
    uint32_t phase = frame->body.probe.phase, round = frame->body.probe.round;

    if (round >= tt_dissemination_rounds(probe->size) ||
        frame->source != tt_dissemination_from(probe->rank, probe->size, round)) {
        return false;
    }
    probe->received[phase] |= UINT32_C(1) << round;
    if (phase == VOTE && !frame->body.probe.heard_all) {
        probe->heard_all = false;
        if (frame->body.probe.failed_rank < probe->failed_rank) {
            probe->failed_rank = frame->body.probe.failed_rank;
        }
    }
    advance(probe, now_ns, actions);
    return true;
}

void tt_probe_tick(struct tt_probe *probe, uint64_t now_ns, struct tt_actions *actions)
{
    advance(probe, now_ns, actions);
}

uint64_t tt_probe_deadline(const struct tt_probe *probe)
{
    uint64_t deadline = probe->state == TT_PROBE_LISTEN ? probe->deadline_ns : UINT64_MAX;

    if ((probe->state == TT_PROBE_LISTEN || probe->state == TT_PROBE_VOTE) && probe->heard_all &&
        probe->next_probe_ns < deadline) {
        deadline = probe->next_probe_ns;
    }
    return deadline;
}

uint32_t tt_probe_waits_for(const struct tt_probe *probe)
{
    uint32_t phase = probe->state == TT_PROBE_VOTE ? VOTE : probe->state == TT_PROBE_LISTEN ? PROBING : BARRIER;

    if (probe->state == TT_PROBE_IDLE || probe->state == TT_PROBE_DONE) {
        return TT_RANK_NONE;
    }
    for (uint32_t round = 0; round < tt_dissemination_rounds(probe->size); round++) {
        if (!(probe->received[phase] >> round & 1)) {
            return tt_dissemination_from(probe->rank, probe->size, round);
        }
    }
    return TT_RANK_NONE;
}
