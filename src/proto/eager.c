/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Room, copies and acknowledgments of eager collectives. Normal path: start() gives each its place in the ring,
 * may_send() holds a root back while the places from the oldest that somebody may not have finished exceed the ring,
 * barriers or rounds move that mark on. A round that is superseded is forgotten: whoever waits for it gets more from
 * the newer one.
 */
#include "proto/eager.h"

#include <assert.h>
#include <string.h>

#include "plan/dissemination.h"
#include "proto/terms.h"

void tt_eager_init(struct tt_eager *eager, uint32_t rank, uint32_t size, struct tt_eager_entry *entries,
                   uint32_t capacity)
{
    assert(rank < size);
    assert(tt_is_power_of_two(capacity));
    assert(capacity > TT_EAGER_WINDOW); /* what somebody may not have finished is not overwritten */
    memset(eager, 0, sizeof *eager);
    memset(entries, 0, capacity * sizeof *entries);
    eager->rank = rank;
    eager->size = size;
    eager->entries = entries;
    eager->capacity = capacity;
}

static struct tt_eager_entry *entry_at(const struct tt_eager *eager, uint64_t count)
{
    return &eager->entries[count & (eager->capacity - 1)];
}

/* The oldest count whose entry is still there. */
static uint64_t oldest_count(const struct tt_eager *eager)
{
    return eager->count > eager->capacity ? eager->count - eager->capacity : 0;
}

/* Records of small chunks are longer than what is in them. */
static uint32_t log_bytes(const struct tt_collective_terms *terms, uint32_t size)
{
    uint64_t root_bytes = tt_terms_root_bytes(terms, size);
    uint64_t piece = terms->method == TT_METHOD_TREE ? TT_FRAME_DATA_BYTES : terms->chunk_bytes;
    uint64_t bytes = tt_early_bytes((uint32_t)root_bytes);

    if (piece > 0 && piece < root_bytes) {
        uint64_t whole = root_bytes / piece, rest = root_bytes - whole * piece;

        bytes = whole * tt_early_bytes((uint32_t)piece) + (rest > 0 ? tt_early_bytes((uint32_t)rest) : 0);
    }
    return (uint32_t)(tt_terms_roots(terms, size) * bytes);
}

uint64_t tt_eager_start(struct tt_eager *eager, uint64_t sequence, const struct tt_collective_terms *terms,
                        uint64_t length_bytes)
{
    struct tt_eager_entry *entry = entry_at(eager, eager->count);
    uint64_t rest = TT_EAGER_RING_BYTES - eager->cursor % TT_EAGER_RING_BYTES;

    assert(length_bytes <= TT_EAGER_ALLGATHER_MAX_BYTES);
    assert(eager->count == 0 || sequence > entry_at(eager, eager->count - 1)->sequence);
    *entry = (struct tt_eager_entry){.sequence = sequence, .terms = *terms};
    entry->terms.before = eager->before;
    eager->before = tt_terms_behind(&entry->terms);
    entry->start = eager->cursor + (length_bytes > rest ? rest : 0); /* a copy does not wrap around */
    entry->end = entry->start + length_bytes;
    entry->log_start = eager->logged;
    entry->log_end = eager->logged += log_bytes(terms, eager->size);
    eager->cursor = entry->end;
    eager->count++;
    return entry->start % TT_EAGER_RING_BYTES;
}

/* The count of the entry with this sequence number; UINT64_MAX: there is none. */
static uint64_t count_of(const struct tt_eager *eager, uint64_t sequence)
{
    for (uint64_t count = eager->count; count > oldest_count(eager); count--) {
        uint64_t found = entry_at(eager, count - 1)->sequence;

        if (found <= sequence) {
            return found == sequence ? count - 1 : UINT64_MAX;
        }
    }
    return UINT64_MAX;
}

static struct tt_eager_entry *find(const struct tt_eager *eager, uint64_t sequence)
{
    uint64_t count = count_of(eager, sequence);

    return count != UINT64_MAX ? entry_at(eager, count) : NULL;
}

void tt_eager_keep(struct tt_eager *eager, uint64_t sequence)
{
    struct tt_eager_entry *entry = find(eager, sequence);

    assert(entry != NULL);
    assert(!entry->kept);
    entry->kept = true;
    eager->written = entry->end > eager->written ? entry->end : eager->written;
}

void tt_eager_tell(struct tt_eager *eager, uint64_t sequence)
{
    struct tt_eager_entry *entry = find(eager, sequence);

    assert(entry != NULL);
    entry->told = true;
}

bool tt_eager_read_over(struct tt_eager *eager, uint64_t sequence)
{
    struct tt_eager_entry *entry = find(eager, sequence);

    if (entry == NULL) {
        return false;
    }
    entry->over = true;
    return true;
}

bool tt_eager_is_read(const struct tt_eager *eager)
{
    for (uint64_t count = eager->count; count > oldest_count(eager); count--) {
        const struct tt_eager_entry *entry = entry_at(eager, count - 1);

        if (entry->told && !entry->over) {
            return true;
        }
    }
    return false;
}

const struct tt_eager_entry *tt_eager_find(const struct tt_eager *eager, uint64_t sequence)
{
    struct tt_eager_entry *entry = find(eager, sequence);

    if (entry != NULL && entry->kept && entry->start + TT_EAGER_RING_BYTES < eager->written) {
        return NULL; /* overwritten */
    }
    return entry;
}

/* All eager collectives have a sequence number before this one. */
static uint64_t end_of_last(const struct tt_eager *eager)
{
    return eager->count > 0 ? entry_at(eager, eager->count - 1)->sequence + 1 : 0;
}

bool tt_eager_may_keep(const struct tt_eager *eager, uint64_t sequence)
{
    uint64_t count = count_of(eager, sequence);

    assert(count != UINT64_MAX);
#ifdef TT_FAULT_EAGER_NO_PLACE
    return true;
#endif
    return (eager->live >= oldest_count(eager) &&
            entry_at(eager, count)->end - entry_at(eager, eager->live)->start <= TT_EAGER_RING_BYTES);
}

/* Whether the logs have room for its chunks, with those of all before it that somebody may not have started. */
static bool may_be_early(const struct tt_eager *eager, uint64_t count)
{
    uint64_t first = count;

    assert(count >= oldest_count(eager) && count < eager->count);
    while (first > eager->live && entry_at(eager, first - 1)->sequence >= eager->all_started) {
        first--;
    }
    return first == count || entry_at(eager, count)->log_end - entry_at(eager, first)->log_start <= TT_EAGER_LOG_BYTES;
}

bool tt_eager_may_send(const struct tt_eager *eager, uint64_t sequence)
{
    uint64_t count = count_of(eager, sequence);

    assert(count != UINT64_MAX);
#ifdef TT_FAULT_EAGER_NO_CREDIT
    return true;
#endif
    if (eager->live < oldest_count(eager) || count - eager->live >= TT_EAGER_WINDOW ||
        sequence - eager->all_finished >= TT_EARLY_AHEAD) {
        return false;
    }
    return may_be_early(eager, count) &&
           (tt_terms_all_send(&entry_at(eager, count)->terms) || tt_eager_may_keep(eager, sequence));
}

void tt_eager_note_started(struct tt_eager *eager, uint64_t all_started)
{
    eager->all_started = all_started > eager->all_started ? all_started : eager->all_started;
}

void tt_eager_learn(struct tt_eager *eager, uint64_t all_finished)
{
    if (all_finished <= eager->all_finished) {
        return;
    }
    eager->all_finished = all_finished;
    tt_eager_note_started(eager, all_finished);
    if (eager->live < oldest_count(eager)) {
        eager->live = oldest_count(eager);
    }
    while (eager->live < eager->count && entry_at(eager, eager->live)->sequence < all_finished) {
        eager->live++;
    }
}

void tt_eager_advance(struct tt_eager *eager, uint64_t all_finished)
{
    eager->agreed = all_finished > eager->agreed ? all_finished : eager->agreed;
    tt_eager_learn(eager, all_finished);
}

static void begin_round(struct tt_eager *eager, uint64_t wanted)
{
    assert(wanted > eager->wanted);
    eager->wanted = wanted;
    eager->rounds = (struct tt_rounds){0};
    eager->judged = 0;
}

void tt_eager_want(struct tt_eager *eager, uint64_t wanted)
{
    uint64_t last = end_of_last(eager);

    /* Not beyond the last eager one: where all are agreed that it has ended they may leave, and take part no more. */
    wanted = wanted < last ? wanted : last;
    if (wanted > eager->wanted && wanted > eager->agreed && eager->size > 1) {
        begin_round(eager, wanted);
    }
}

void tt_eager_refresh(struct tt_eager *eager, uint64_t oldest)
{
    const struct tt_eager_entry *live;
    uint64_t newest, rounded = oldest / 8 * 8; /* roots that start a round at once then start the same */

    if (eager->live == eager->count || eager->wanted > eager->all_finished) {
        return; /* nothing is owed, or a round is on */
    }
    if (eager->live < oldest_count(eager)) {
        tt_eager_want(eager, oldest);
        return;
    }
    live = entry_at(eager, eager->live);
    newest = entry_at(eager, eager->count - 1)->sequence;
    if (eager->count - eager->live < TT_EAGER_WINDOW / 2 && eager->cursor - live->start < TT_EAGER_RING_BYTES / 2 &&
        eager->logged - live->log_start < TT_EAGER_LOG_BYTES / 2 && newest - eager->all_finished < TT_EARLY_AHEAD / 2) {
        return;
    }
    rounded = rounded > eager->all_finished ? rounded : oldest;
    if (rounded > eager->all_finished) {
        tt_eager_want(eager, rounded);
    }
}

bool tt_eager_frame(struct tt_eager *eager, const struct tt_frame *frame)
{
    uint32_t round = frame->body.ack.round;

    if (!tt_rounds_is_from(eager->rank, eager->size, round, frame->source)) {
        return false;
    }
    if (frame->sequence > eager->wanted) { /* joined even if nothing new comes of it here: others may need it */
        begin_round(eager, frame->sequence);
    }
    if (frame->sequence == eager->wanted) {
        tt_rounds_hear(&eager->rounds, round);
        eager->said[round] = frame->body.ack.terms;
        eager->judged &= ~(UINT32_C(1) << round);
    }
    return true;
}

/* Of the last collective that the round is about; NULL: forgotten. */
static const struct tt_collective_terms *last_terms(const struct tt_eager *eager)
{
    for (uint64_t count = eager->count; count > oldest_count(eager); count--) {
        if (entry_at(eager, count - 1)->sequence < eager->wanted) {
            return &entry_at(eager, count - 1)->terms;
        }
    }
    return NULL;
}

uint32_t tt_eager_disagrees(struct tt_eager *eager, uint64_t oldest, struct tt_collective_terms *here,
                            struct tt_collective_terms *there)
{
    const struct tt_collective_terms *own;
    uint32_t unjudged = eager->rounds.heard & ~eager->judged;

    if (unjudged == 0 || oldest < eager->wanted) {
        return TT_RANK_NONE;
    }
    eager->judged |= unjudged;
    own = last_terms(eager);
    for (; own != NULL && unjudged != 0; unjudged &= unjudged - 1) {
        uint32_t round = (uint32_t)__builtin_ctz(unjudged);
        const struct tt_collective_terms *said = &eager->said[round];

        if (said->kind != TT_KIND_NONE && tt_terms_digest(said) != tt_terms_digest(own)) {
            *here = *own;
            *there = *said;
            return tt_dissemination_from(eager->rank, eager->size, round);
        }
    }
    return TT_RANK_NONE;
}

static void acknowledge(const struct tt_eager *eager, uint32_t round, uint64_t group, struct tt_actions *actions)
{
    struct tt_frame frame = {.source = eager->rank, .group = group, .sequence = eager->wanted};
    const struct tt_collective_terms *last = last_terms(eager);

    frame.body.ack.terms = last != NULL ? *last : (struct tt_collective_terms){.kind = TT_KIND_NONE};
    frame.body.ack.round = (uint8_t)round;
    tt_actions_send(actions, NULL, TT_FRAME_ACK, tt_dissemination_to(eager->rank, eager->size, round), &frame);
}

bool tt_eager_round(struct tt_eager *eager, uint64_t oldest, uint64_t group, struct tt_actions *actions)
{
    uint32_t round;

    if (eager->wanted == 0 || oldest < eager->wanted) {
        return false;
    }
    while (tt_rounds_next(&eager->rounds, eager->size, &round)) {
        acknowledge(eager, round, group, actions);
    }
    if (!tt_rounds_are_over(&eager->rounds, eager->size) || eager->wanted <= eager->agreed) {
        return false;
    }
    tt_eager_advance(eager, eager->wanted);
    assert(eager->agreed >= eager->wanted); /* or the caller's loop would not end */
    return true;
}

bool tt_eager_owes(const struct tt_eager *eager)
{
    return end_of_last(eager) > eager->agreed;
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

/* Places follow each other in the order of sequence numbers, and no copy wraps around: of what somebody may still need.
 */
static void check_places(const struct tt_eager *eager)
{
    uint64_t first = eager->live > oldest_count(eager) ? eager->live : oldest_count(eager), end = 0, before = 0;

    for (uint64_t count = first; count < eager->count; count++) {
        const struct tt_eager_entry *entry = entry_at(eager, count);

        assert(count == first || entry->sequence > before);
        assert(entry->start >= end && entry->end >= entry->start);
        assert(entry->start % TT_EAGER_RING_BYTES + (entry->end - entry->start) <= TT_EAGER_RING_BYTES);
        assert(!entry->kept || entry->end <= eager->written);
        before = entry->sequence;
        end = entry->end;
    }
    assert(first == eager->count || eager->cursor == end);
    assert(eager->written <= eager->cursor);
}

static void check_round(const struct tt_eager *eager)
{
    tt_rounds_check(&eager->rounds, eager->size);
    assert(eager->rounds.sent == 0 || eager->wanted != 0);
    assert((eager->judged & ~eager->rounds.heard) == 0);
}

void tt_eager_check(const struct tt_eager *eager)
{
    assert(eager->agreed <= eager->all_finished);
    assert(eager->all_finished <= eager->all_started);
    assert(eager->live <= eager->count);
    if (eager->live >= oldest_count(eager)) { /* `live` is the first that somebody may not have finished */
        assert(eager->live == eager->count || entry_at(eager, eager->live)->sequence >= eager->all_finished);
        assert(eager->live == oldest_count(eager) || entry_at(eager, eager->live - 1)->sequence < eager->all_finished);
    }
    check_places(eager);
    check_round(eager);
}
