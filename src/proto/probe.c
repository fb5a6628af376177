/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start-up probe. Normal path: up to two ranks a host multicast a probe, a few at a time, everybody hears all of
 * them, and votes yes when its children have; the root tells the result, which goes down to all. That is one frame up
 * and one down for each rank but the root, and needs no other connections: where one of them is slow to come about, as
 * over TCP when its first packet was lost, the whole job waits for it.
 *
 * Failures: lost probes are repeated; a rank that does not hear somebody within the timeout votes no, and then
 * everybody goes without multicast. The timeout begins when everybody is known to be probing, as a rank may start
 * seconds after the others. That takes two more words, one up and one down: ranks say them, and hear them, only while a
 * vote is missing.
 */
#include "proto/probe.h"

#include <assert.h>
#include <string.h>

void tt_probe_choose_speakers(const uint64_t *hosts, uint32_t size, uint64_t *speakers)
{
    memset(speakers, 0, (size + 63) / 64 * sizeof *speakers);
    for (uint32_t rank = 0; rank < size; rank++) {
        uint32_t before = 0;

        for (uint32_t lower = rank; lower > 0 && before < TT_PROBE_SPEAKERS; lower--) {
            before += hosts[lower - 1] == hosts[rank];
        }
        speakers[rank / 64] |= (uint64_t)(before < TT_PROBE_SPEAKERS) << (rank % 64);
    }
}

static uint64_t speakers_word(const struct tt_probe *probe, uint32_t word)
{
    uint32_t rest = probe->size - word * 64;

    return probe->speakers != NULL ? probe->speakers[word] : rest >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << rest) - 1;
}

static bool speaks(const struct tt_probe *probe, uint32_t rank)
{
    return speakers_word(probe, rank / 64) >> (rank % 64) & 1;
}

static uint32_t speaker_before(const struct tt_probe *probe, uint32_t distance)
{
    for (uint32_t rank = probe->rank; rank > 0; rank--) {
        distance -= speaks(probe, rank - 1);
        if (distance == 0) {
            return rank - 1;
        }
    }
    return TT_RANK_NONE;
}

void tt_probe_init(struct tt_probe *probe, uint32_t rank, uint32_t size, uint64_t group, bool multicast,
                   const uint64_t *speakers, const _Atomic uint64_t *heard, uint32_t heard_count, uint64_t timeout_ns)
{
    assert(rank < size);
    memset(probe, 0, sizeof *probe);
    probe->rank = rank;
    probe->size = size;
    probe->speakers = speakers;
    probe->turn_after = speaker_before(probe, TT_PROBE_AT_ONCE);
    probe->heard = heard;
    probe->heard_count = heard_count;
    probe->timeout_ns = timeout_ns;
    probe->template = (struct tt_frame){.source = rank, .group = group};
    tt_gather_place(size, rank, &probe->place); /* the tree is rooted at rank 0: a vertex is a rank */
    probe->child_count = tt_gather_child_count(size, &probe->place);
    probe->multicast = multicast;
    probe->heard_all = multicast;
    probe->failed_rank = probe->deaf_rank = TT_RANK_NONE;
}

/* --- The tree ----------------------------------------------------------------------------------------------------- */

static bool is_root(const struct tt_probe *probe)
{
    return probe->place.vertex == 0;
}

static uint64_t all_children(const struct tt_probe *probe)
{
    return tt_gather_all_children(probe->child_count);
}

static uint32_t child_rank(const struct tt_probe *probe, uint32_t index)
{
    struct tt_gather_place child;

    tt_gather_child(probe->size, &probe->place, index, &child);
    return child.vertex;
}

/* The bit of this child; 0 if it is none. */
static uint64_t child_bit(const struct tt_probe *probe, uint32_t rank)
{
    for (uint32_t index = 0; index < probe->child_count; index++) {
        if (child_rank(probe, index) == rank) {
            return UINT64_C(1) << index;
        }
    }
    return 0;
}

static void say(const struct tt_probe *probe, enum tt_probe_phase phase, uint32_t to, struct tt_actions *actions)
{
    struct tt_frame *frame = tt_actions_send(actions, NULL, TT_FRAME_PROBE, to, &probe->template);

    assert(to < probe->size && to != probe->rank);
    frame->body.probe.phase = (uint8_t)phase;
    frame->body.probe.heard_all = probe->heard_all;
    frame->body.probe.failed_rank = probe->failed_rank;
    frame->body.probe.deaf_rank = probe->deaf_rank;
    frame->body.probe.deaf_count = probe->deaf_count;
}

static void say_down(const struct tt_probe *probe, enum tt_probe_phase phase, uint64_t children,
                     struct tt_actions *actions)
{
    for (uint64_t rest = children; rest != 0; rest &= rest - 1) {
        say(probe, phase, child_rank(probe, (uint32_t)__builtin_ctzll(rest)), actions);
    }
}

/* --- Listening and voting ----------------------------------------------------------------------------------------- */

/* On every subgroup. */
static bool has_heard(const struct tt_probe *probe, uint32_t rank)
{
    uint32_t words = (probe->size + 63) / 64;

    for (uint32_t i = 0; i < probe->heard_count; i++) {
        if ((atomic_load_explicit(&probe->heard[i * words + rank / 64], memory_order_relaxed) >> (rank % 64) & 1) ==
            0) {
            return false;
        }
    }
    return true;
}

/* The lowest rank whose probe is missing on some subgroup. */
static uint32_t unheard(const struct tt_probe *probe)
{
    uint32_t words = (probe->size + 63) / 64;

    for (uint32_t word = 0; word < words; word++) {
        uint64_t missing = 0;

        for (uint32_t i = 0; i < probe->heard_count; i++) {
            missing |= ~atomic_load_explicit(&probe->heard[i * words + word], memory_order_relaxed);
        }
        missing &= speakers_word(probe, word);
        missing &= word == probe->rank / 64 ? ~(UINT64_C(1) << (probe->rank % 64)) : ~UINT64_C(0);
        if (missing != 0) {
            return word * 64 + (uint32_t)__builtin_ctzll(missing);
        }
    }
    return TT_RANK_NONE;
}

static uint32_t lower(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void add_no(struct tt_probe *probe, uint32_t failed_rank, uint32_t deaf_rank, uint32_t deaf_count)
{
    probe->heard_all = false;
    probe->failed_rank = lower(failed_rank, probe->failed_rank);
    probe->deaf_rank = lower(deaf_rank, probe->deaf_rank);
    probe->deaf_count = lower(probe->deaf_count + deaf_count, probe->size);
}

/* The probes of all at once are more than a port holds: a rank's first one goes when that of the speaker AT_ONCE below
 * has come, so that no more than so many are on their way; or when it would be repeated, as that may have been lost. */
static bool has_turn(const struct tt_probe *probe)
{
    return probe->probes_sent == 0 && (probe->turn_after == TT_RANK_NONE || has_heard(probe, probe->turn_after));
}

/* Others may still need to hear this rank after it has voted, so this goes on to the end. Who does not speak counts
 * all the same: so it knows how long it has listened. */
static void repeat_probe(struct tt_probe *probe, uint64_t now_ns, struct tt_actions *actions)
{
    uint32_t doublings = probe->probes_sent < 3 ? probe->probes_sent : 3;

    if (!probe->multicast || (now_ns < probe->next_probe_ns && !has_turn(probe))) {
        return;
    }
    if (speaks(probe, probe->rank)) {
        tt_actions_add(actions, TT_ACTION_PROBE, NULL);
    }
    probe->next_probe_ns = now_ns + ((uint64_t)TT_PROBE_INTERVAL_NS << doublings);
    probe->probes_sent++;
}

/* A child that has voted need not know, nor need those it speaks for. */
static void note_all_probing(struct tt_probe *probe, uint64_t now_ns, struct tt_actions *actions)
{
    if (probe->all_probing) {
        return;
    }
    probe->all_probing = true;
    probe->deadline_ns = now_ns + probe->timeout_ns;
    say_down(probe, TT_PHASE_ALL_PROBING, all_children(probe) & ~probe->voted, actions);
}

static void listen(struct tt_probe *probe, uint64_t now_ns)
{
    uint32_t missing = probe->multicast ? unheard(probe) : TT_RANK_NONE;

    if (missing != TT_RANK_NONE && probe->heard_all && now_ns < probe->deadline_ns) { /* one no is enough */
        return;
    }
    if (missing != TT_RANK_NONE) {
        /* Whom it would still have heard is not known where somebody else's no has ended the listening. */
        add_no(probe, now_ns < probe->deadline_ns ? TT_RANK_NONE : missing, probe->rank, 1);
    }
    probe->state = TT_PROBE_DECIDED;
}

static void end(struct tt_probe *probe, struct tt_actions *actions)
{
    struct tt_action *action;

    assert(probe->voted == all_children(probe)); /* nobody is told the result who still may change it */
    assert(probe->state == (is_root(probe) ? TT_PROBE_DECIDED : TT_PROBE_VOTED));
    say_down(probe, TT_PHASE_RESULT, all_children(probe), actions);
    action = tt_actions_add(actions, TT_ACTION_PROBED, NULL);
    action->body.probe.multicast = probe->heard_all;
    action->body.probe.failed_rank = probe->failed_rank;
    action->body.probe.deaf_rank = probe->deaf_rank;
    action->body.probe.deaf_count = probe->deaf_count;
    probe->state = TT_PROBE_DONE;
}

static void vote(struct tt_probe *probe, struct tt_actions *actions)
{
    if (probe->voted != all_children(probe)) {
        return;
    }
    if (is_root(probe)) {
        end(probe, actions);
        return;
    }
    say(probe, TT_PHASE_VOTE, probe->place.parent, actions);
    probe->told = true;
    probe->state = TT_PROBE_VOTED;
}

/* Most ranks can vote before they repeat their probe, and a vote says this too. */
static void tell_probing(struct tt_probe *probe, struct tt_actions *actions)
{
    if (is_root(probe) || probe->told || probe->probing != all_children(probe) ||
        (probe->multicast && probe->probes_sent < 2)) {
        return;
    }
    say(probe, TT_PHASE_PROBING, probe->place.parent, actions);
    probe->told = true;
}

static void advance(struct tt_probe *probe, uint64_t now_ns, struct tt_actions *actions)
{
    if (probe->state == TT_PROBE_IDLE || probe->state == TT_PROBE_DONE) {
        return;
    }
    repeat_probe(probe, now_ns, actions);
    if (is_root(probe) && probe->probing == all_children(probe)) {
        note_all_probing(probe, now_ns, actions);
    }
    if (probe->state == TT_PROBE_LISTEN) {
        listen(probe, now_ns);
    }
    if (probe->state == TT_PROBE_DECIDED) {
        vote(probe, actions);
    }
    tell_probing(probe, actions);
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

void tt_probe_start(struct tt_probe *probe, uint64_t now_ns, struct tt_actions *actions)
{
    assert(probe->state == TT_PROBE_IDLE);
    probe->state = TT_PROBE_LISTEN;
    probe->next_probe_ns = now_ns + (has_turn(probe) ? 0 : TT_PROBE_INTERVAL_NS);
    probe->deadline_ns = UINT64_MAX;
    advance(probe, now_ns, actions);
}

static bool hear_child(struct tt_probe *probe, const struct tt_frame *frame)
{
    uint64_t child = child_bit(probe, frame->source);

    if (child == 0) {
        return false;
    }
    probe->probing |= child;
    if (frame->body.probe.phase == TT_PHASE_VOTE && (probe->voted & child) == 0) { /* what was voted on stays */
        probe->voted |= child;
        if (!frame->body.probe.heard_all) {
            add_no(probe, frame->body.probe.failed_rank, frame->body.probe.deaf_rank, frame->body.probe.deaf_count);
        }
    }
    return true;
}

/* What comes down answers what went up: nobody knows that all are probing, or the result, without this rank. */
static bool hear_parent(struct tt_probe *probe, uint64_t now_ns, const struct tt_frame *frame,
                        struct tt_actions *actions)
{
    if (is_root(probe) || frame->source != probe->place.parent || !probe->told) {
        return false;
    }
    if (frame->body.probe.phase == TT_PHASE_ALL_PROBING) {
        note_all_probing(probe, now_ns, actions);
        return true;
    }
    if (probe->state == TT_PROBE_VOTED) {
        probe->heard_all = frame->body.probe.heard_all;
        probe->failed_rank = frame->body.probe.failed_rank;
        probe->deaf_rank = frame->body.probe.deaf_rank;
        probe->deaf_count = frame->body.probe.deaf_count;
        end(probe, actions);
    }
    return probe->state == TT_PROBE_DONE;
}

static bool is_rank(const struct tt_probe *probe, uint32_t rank)
{
    return rank < probe->size || rank == TT_RANK_NONE;
}

bool tt_probe_frame(struct tt_probe *probe, uint64_t now_ns, const struct tt_frame *frame, struct tt_actions *actions)
{
    bool fine = is_rank(probe, frame->body.probe.failed_rank) && is_rank(probe, frame->body.probe.deaf_rank) &&
                frame->body.probe.deaf_count <= probe->size;

    switch (frame->body.probe.phase) {
    case TT_PHASE_PROBING:
    case TT_PHASE_VOTE:
        fine = fine && hear_child(probe, frame);
        break;
    case TT_PHASE_ALL_PROBING:
    case TT_PHASE_RESULT:
        fine = fine && hear_parent(probe, now_ns, frame, actions);
        break;
    default:
        return false;
    }
    if (fine) {
        advance(probe, now_ns, actions);
    }
    return fine;
}

void tt_probe_tick(struct tt_probe *probe, uint64_t now_ns, struct tt_actions *actions)
{
    advance(probe, now_ns, actions);
}

uint64_t tt_probe_deadline(const struct tt_probe *probe)
{
    uint64_t deadline = probe->state == TT_PROBE_LISTEN ? probe->deadline_ns : UINT64_MAX;

    if (probe->state != TT_PROBE_IDLE && probe->state != TT_PROBE_DONE && probe->multicast &&
        probe->next_probe_ns < deadline) {
        deadline = probe->next_probe_ns;
    }
    return deadline;
}

static uint32_t lowest_child(const struct tt_probe *probe, uint64_t children)
{
    uint32_t lowest = TT_RANK_NONE;

    for (uint64_t rest = children; rest != 0; rest &= rest - 1) {
        uint32_t rank = child_rank(probe, (uint32_t)__builtin_ctzll(rest));

        lowest = rank < lowest ? rank : lowest;
    }
    return lowest;
}

uint32_t tt_probe_waits_for(const struct tt_probe *probe)
{
    uint64_t missing = all_children(probe) & ~(probe->state == TT_PROBE_LISTEN ? probe->probing : probe->voted);

    if (probe->state == TT_PROBE_IDLE || probe->state == TT_PROBE_DONE) {
        return TT_RANK_NONE;
    }
    if (missing != 0) {
        return lowest_child(probe, missing);
    }
    if (probe->state == TT_PROBE_LISTEN && (probe->all_probing || !probe->told)) {
        return unheard(probe);
    }
    return probe->place.parent; /* the root is never here: it listens, or a child is missing */
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

static void check_votes(const struct tt_probe *probe)
{
    assert((probe->probing & ~all_children(probe)) == 0);
    assert((probe->voted & ~probe->probing) == 0); /* a vote says that too */
    assert(!probe->told || probe->probing == all_children(probe));
    assert(is_rank(probe, probe->failed_rank) && is_rank(probe, probe->deaf_rank));
    assert(probe->deaf_count <= probe->size);
    if (probe->state != TT_PROBE_DONE) { /* then it is what the root says */
        assert(!probe->heard_all || probe->multicast);
        assert(!probe->heard_all || probe->failed_rank == TT_RANK_NONE);
    }
}

void tt_probe_check(const struct tt_probe *probe)
{
    bool voted = probe->voted == all_children(probe);

    check_votes(probe);
    assert(probe->multicast || probe->probes_sent == 0);
    assert(!is_root(probe) || !probe->told);
    assert(is_root(probe) || !probe->all_probing || probe->told);
    switch (probe->state) {
    case TT_PROBE_IDLE:
        assert(!probe->told && probe->probes_sent == 0);
        break;
    case TT_PROBE_LISTEN:
        assert(probe->all_probing == (probe->deadline_ns != UINT64_MAX)); /* the timeout begins then */
        break;
    case TT_PROBE_DECIDED:
        assert(!voted);
        break;
    case TT_PROBE_VOTED:
        assert(voted && probe->told);
        break;
    case TT_PROBE_DONE:
        assert(voted);
        break;
    }
}
