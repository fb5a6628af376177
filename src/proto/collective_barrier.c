/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a collective does before its data moves. Normal path: in front of multicast everybody reports to the root, who
 * releases all (proto/gather.h); otherwise frames go through the rounds of the dissemination pattern. Then all have
 * posted. Failures: a release that is lost is made up for by whatever comes after it; frames out of turn are refused;
 * who is missing is the collective's to tell (tt_collective_waits_for).
 */
#include "plan/dissemination.h"
#include "proto/collective_private.h"
#include "proto/sequencer.h"

/* N / B_link with the bandwidth that the slowest rank has found, where that is less than what was configured. */
static uint64_t wire_time(const struct tt_collective *c)
{
    if (c->least.rate_kbit >= c->config.bandwidth_kbit || c->least.rate_kbit == 0) {
        return c->config.wire_ns;
    }
    return (uint64_t)((double)c->config.wire_ns * c->config.bandwidth_kbit / c->least.rate_kbit);
}

static void enter_receive(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    if (c->nothing) {
        c->state = TT_COLLECTIVE_HANDSHAKE;
        c->final_sent = c->final_received = c->frozen = true;
        return;
    }
    c->state = TT_COLLECTIVE_RECEIVE;
    if (tt_collective_is_relayed(c)) {
        c->activated = tt_sequencer_starts(c);
        c->relaying = true;
        tt_actions_add(actions, TT_ACTION_RELAY, c);
        return;
    }
    c->cutoff_deadline_ns = now_ns + wire_time(c) + c->config.alpha_ns;
    c->activated |= tt_sequencer_starts(c);
    tt_flow_start(&c->flow, c->everybody ? &c->least : NULL);
    if (!tt_collective_multicasts(c)) {
        c->state = TT_COLLECTIVE_FETCH;
        tt_collective_freeze(c, actions);
    }
}

/* The release may come behind what else says that the barrier is over. */
void tt_collective_note_release(struct tt_collective *c, uint64_t now_ns)
{
    const struct tt_stream *stream = &c->config.streams[0];

    if (c->everybody || !tt_collective_is_released(c) ||
        !atomic_load_explicit(&stream->released, memory_order_acquire)) {
        return;
    }
    tt_gather_note(c, &stream->release);
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        c->cutoff_deadline_ns = now_ns + wire_time(c) + c->config.alpha_ns;
    }
    tt_flow_start(&c->flow, c->everybody ? &c->least : NULL);
}

/* In front of multicast. A frame or a chunk of those that come after it says that it is over, too; but nobody knows
 * that before this rank has told its parent, or, at the root, before everybody has. */
static void advance_gathering(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    tt_gather_advance(c, now_ns, actions);
    if (c->everybody && tt_collective_releases(c) && !tt_flow_begin(&c->flow)) {
        return;
    }
    if (c->everybody || (c->gather.told && (c->overtaken || tt_collective_received(c) > 0))) {
        enter_receive(c, now_ns, actions);
    }
}

static void advance_dissemination(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t rounds = tt_dissemination_rounds(c->config.size);

    /* Round k goes out when rounds 0 .. k-1 have come in. */
    while (c->barrier_sent < rounds &&
           (c->barrier_received & ((UINT32_C(1) << c->barrier_sent) - 1)) == (UINT32_C(1) << c->barrier_sent) - 1) {
        struct tt_frame *frame = tt_collective_send(
            c, TT_FRAME_BARRIER, tt_dissemination_to(c->config.rank, c->config.size, c->barrier_sent), actions);

        frame->body.barrier.round = (uint8_t)c->barrier_sent;
        frame->body.barrier.terms = c->config.terms;
        frame->body.barrier.finished = c->least.finished;
        c->barrier_sent++;
    }
    if (c->barrier_sent == rounds && c->barrier_received == (UINT32_C(1) << rounds) - 1) {
        c->everybody = true;
        enter_receive(c, now_ns, actions);
    }
}

void tt_collective_advance_barrier(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    (tt_collective_gathers(c) ? advance_gathering : advance_dissemination)(c, now_ns, actions);
}

bool tt_collective_note_barrier(struct tt_collective *c, const struct tt_frame *frame)
{
    uint32_t round = frame->body.barrier.round;
    struct tt_release said = tt_release_of(frame->body.barrier.finished);

    if (tt_collective_is_tree(c) || tt_collective_gathers(c) || round >= tt_dissemination_rounds(c->config.size) ||
        frame->source != tt_dissemination_from(c->config.rank, c->config.size, round)) {
        return false;
    }
    c->barrier_received |= UINT32_C(1) << round;
    tt_release_least(&c->least, &said);
    return true;
}
