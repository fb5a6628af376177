/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a collective does before its data moves. Normal path: in front of multicast everybody reports to the root, who
 * releases all (proto/gather.h); otherwise frames go through the rounds of the dissemination pattern. Then all have
 * posted. Failures: a release that is lost is made up for by whatever comes after it; frames out of turn are refused;
 * who is missing is the collective's to tell (tt_collective_waits_for).
 */
#include <assert.h>

#include "base/least.h"
#include "plan/dissemination.h"
#include "proto/collective_private.h"
#include "proto/pacer.h"
#include "proto/sequencer.h"

/* N / B_link with the bandwidth that the slowest rank has found, where that is less than what was configured. */
static uint64_t wire_time(const struct tt_collective *c)
{
    uint32_t rate_kbit = tt_most(c->least.rate_kbit, TT_PACER_LEAST_KBIT);

    if (rate_kbit >= c->config.bandwidth_kbit) {
        return c->config.wire_ns;
    }
    return (uint64_t)((double)c->config.wire_ns * c->config.bandwidth_kbit / rate_kbit);
}

/* Where blocks are made first, the others' are made in about the same time as the own one. */
void tt_collective_set_cutoff(struct tt_collective *c, uint64_t now_ns)
{
    c->receiving.cutoff_deadline_ns =
        c->relay.relaying && !c->relay.relayed ? UINT64_MAX : now_ns + wire_time(c) + c->config.alpha_ns;
}

static void take_release(struct tt_collective *c, const struct tt_release *release, uint64_t now_ns)
{
    assert(!c->everybody);
    tt_gather_note(c, release);
    if (c->state == TT_COLLECTIVE_RECEIVE) {
        tt_collective_set_cutoff(c, now_ns);
    }
    tt_flow_start(c, &c->least);
}

/* The release may come behind what else says that the barrier is over. Nobody sends one before this rank has told its
 * parent: what says so earlier is forged, or of a collective long ago, and would leave the parent waiting. */
void tt_collective_note_release(struct tt_collective *c, uint64_t now_ns)
{
    const struct tt_stream *stream = &c->config.streams[0];

    if (!c->everybody && c->way->gate->releases && c->gather.told &&
        atomic_load_explicit(&stream->released, memory_order_acquire)) {
        take_release(c, &stream->release, now_ns);
    }
}

/* In front of multicast. A frame or a chunk of those that come after it says that it is over, too; but nobody knows
 * that before this rank has told its parent, or, at the root, before everybody has. */
static bool knows_of_release(const struct tt_collective *c)
{
    if (c->everybody) {
        return true;
    }
    /* Who is deaf is told by its parent, which knows of all, while others are only ahead. But who is its chain's next
     * root holds up those that the parent may wait for. */
    return c->gather.told && (c->over.opened || tt_collective_received(c) > 0 ||
                              (c->over.overtaken && (!tt_collective_is_deaf(c) || c->sending.activated)));
}

static void advance_release(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    tt_collective_note_release(c, now_ns);
    tt_gather_advance(c, now_ns, actions);
    if (c->everybody && tt_collective_releases(c)) {
        if (!tt_flow_begin(c)) {
            return;
        }
        c->least.window_chunks = tt_least(c->least.window_chunks, tt_flow_window(c));
    }
    if (knows_of_release(c)) {
        if (!tt_collective_releases(c)) { /* who does tells the children when it is sent */
            tt_gather_open(c, actions);
        }
        tt_collective_open(c, now_ns, actions);
    }
}

/* OPEN: of the parent, or, where blocks are made first, of the left neighbour. */
static bool note_open(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame)
{
    if (!tt_gather_is_parent(c, frame->source) &&
        !(c->way->mover->makes_block && frame->source == tt_collective_left(c))) {
        return false;
    }
    if (!c->gather.told) {
        return false; /* nobody sends one before this rank has told its parent */
    }
    c->over.opened = true;
    if (frame->body.open.known && !c->everybody && c->state < TT_COLLECTIVE_FAILING) {
        take_release(c, &frame->body.open.least, now_ns);
    }
    return true;
}

static bool note_release_frame(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                               struct tt_actions *actions)
{
    return frame->type == TT_FRAME_OPEN ? note_open(c, now_ns, frame) : tt_gather_frame(c, frame, actions);
}

static void advance_barrier(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t round;

    while (tt_rounds_next(&c->barrier, c->config.size, &round)) {
        struct tt_frame *frame = tt_collective_send(
            c, TT_FRAME_BARRIER, tt_dissemination_to(c->config.rank, c->config.size, round), actions);

        frame->body.barrier.round = (uint8_t)round;
        frame->body.barrier.terms = c->config.terms;
        frame->body.barrier.finished = c->least.finished;
    }
    if (tt_rounds_are_over(&c->barrier, c->config.size)) {
        c->everybody = true;
        tt_collective_open(c, now_ns, actions);
    }
}

static bool note_barrier(struct tt_collective *c, uint64_t now_ns, const struct tt_frame *frame,
                         struct tt_actions *actions)
{
    uint32_t round = frame->body.barrier.round;
    struct tt_release said = tt_release_of(frame->body.barrier.finished);

    (void)now_ns;
    (void)actions;
    if (frame->type != TT_FRAME_BARRIER || !tt_rounds_is_from(c->config.rank, c->config.size, round, frame->source)) {
        return false;
    }
    tt_rounds_hear(&c->barrier, round);
    tt_release_least(&c->least, &said);
    return true;
}

static uint32_t barrier_waits_for(const struct tt_collective *c)
{
    return tt_rounds_wait_for(&c->barrier, c->config.rank, c->config.size);
}

static void start_release(struct tt_collective *c, uint64_t now_ns, struct tt_actions *actions)
{
    (void)actions;
    if (c->config.link != NULL) {
        c->least.window_chunks = tt_flow_window(c);
        c->least.rate_kbit = c->config.link->rate_kbit;
    }
    tt_gather_start(c, now_ns);
}

/* When the last round has come in, everybody has posted. */
static void check_barrier(const struct tt_collective *c)
{
    tt_rounds_check(&c->barrier, c->config.size);
    assert(c->everybody == (c->state > TT_COLLECTIVE_BARRIER));
    assert(!c->everybody || tt_rounds_are_over(&c->barrier, c->config.size));
}

/* Nobody is let in before this rank has said for all its children that they have posted. */
static void check_release(const struct tt_collective *c)
{
    tt_gather_check(c);
    assert(c->gather.told || (c->state == TT_COLLECTIVE_BARRIER && !c->everybody));
    assert(c->state == TT_COLLECTIVE_BARRIER || !tt_collective_releases(c) || c->everybody);
}

const struct tt_gate tt_gate_barrier = {
    .advance = advance_barrier, .frame = note_barrier, .waits_for = barrier_waits_for, .check = check_barrier};

const struct tt_gate tt_gate_release = {.releases = true,
                                        .gathers = true,
                                        .start = start_release,
                                        .advance = advance_release,
                                        .frame = note_release_frame,
                                        .deadline = tt_gather_deadline,
                                        .waits_for = tt_gather_waits_for,
                                        .check = check_release};
