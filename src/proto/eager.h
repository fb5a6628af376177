/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What lets a collective do without a barrier before it and a handshake after it (method EAGER): small ones whose data
 * fits places that every rank keeps for the group. EAGER_PARTS has a barrier, but beside what makes the parts, so that
 * it saves the handshake alone; it is like an Allgather in all that follows. Part of the member machine.
 *
 *   - Room: a rank that has not started the collective yet keeps its chunks in a log (proto/early.h). A root
 *     sends only while the records of its collective's chunks and of those of all before it that somebody may not have
 *     started are no more than such a log holds; alone it always may, and what has no place is asked for.
 *   - Copies: a rank that has everything copies it to a ring of the same size before it hands the buffer back, and
 *     serves its right neighbour from there. Where a collective's copy lies follows from the sizes of those before it,
 *     so it is the same on all ranks. A copy is overwritten only by a collective that its root sent when all ranks had
 *     finished the one whose place that was: nobody can still ask for it. In an Allgather every rank is a root, so each
 *     can see to that by itself, and at the end instead of before it sends: by then it has heard from all others.
 *   - Acknowledgment: both need to know what *all* ranks have finished. Barriers of other collectives carry that; when
 *     none comes by in time, a root whose credit runs low starts a round of its own: a dissemination barrier on "I have
 *     finished all before `wanted`", which every rank joins as soon as it can say so, and which nobody waits for but a
 *     root without credit. Several rounds at once: the highest wins everywhere.
 *   - Agreement: no gate has compared what ranks mean by eager collectives, and two that mean different ones may both
 * end well. So each one's terms hold a digest of those before it, a round says the last one's terms, and what has a
 * gate has the digest in its own: ranks that disagree find out at the latest then. A chunk that fits no collective here
 *     makes a rank start a round at once.
 */
#ifndef TT_PROTO_EAGER_H
#define TT_PROTO_EAGER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/least.h"
#include "proto/action.h"
#include "proto/early.h"
#include "proto/rounds.h"
#include "proto/terms.h"

enum {
    TT_EAGER_WINDOW = 32, /* eager collectives that somebody may not have finished */
    TT_EAGER_LOG_BYTES = TT_EAGER_RING_BYTES + TT_EAGER_RING_BYTES / 4 /* with records' headers */
};

static inline uint64_t tt_eager_most_bytes(enum tt_collective_kind kind, uint32_t size)
{
    (void)size;
    return tt_kind_has_root(kind) ? TT_EAGER_MAX_BYTES : TT_EAGER_ALLGATHER_MAX_BYTES;
}

/* What comes together, of which all get no more than a block where it is combined. */
static inline uint64_t tt_gather_most_bytes(enum tt_collective_kind kind, uint32_t size)
{
    if (!tt_kind_row(kind)->combines) {
        return TT_EAGER_MAX_BYTES;
    }
    return tt_most(TT_EAGER_ALLGATHER_MAX_BYTES,
                   tt_kind_may_fold(kind, size) ? (uint64_t)TT_EAGER_MAX_BYTES * size : 0);
}

/* How long a rank waits without a sign that data was lost before it asks its left neighbour. */
#define TT_EAGER_ASK_NS UINT64_C(5000000)
/* In an Allgather it asks again after as long, then twice as long, at most this long, or as long as at first. */
#define TT_EAGER_ASK_MOST_NS UINT64_C(80000000)
/* What each of very many ranks on a core takes of it in a collective, and as much again. Measured: one of 8 bytes takes
 * 60 to 70 ms with 256 ranks a core, 120 to 170 ms with 512; where ranks asked before that it took twice as long. */
#define TT_EAGER_SHARE_NS UINT64_C(500000)

struct tt_eager_entry {
    bool kept;
    bool told, over; /* the right neighbour may read from the copy; it has said that it is through */
    uint64_t sequence;
    uint64_t start, end; /* bytes, counted from the group's beginning; start % TT_EAGER_RING_BYTES is the place */
    uint64_t log_start, log_end; /* the same of what its chunks take in the log of a rank that has not started it */
    struct tt_collective_terms terms;
};

struct tt_eager {
    uint32_t rank, size;
    struct tt_eager_entry *entries; /* of the last `capacity` eager collectives, by count % capacity, a power of two */
    uint32_t capacity;
    uint64_t count;        /* started so far */
    uint64_t cursor;       /* end of the last one's place */
    uint64_t logged;       /* and of what its chunks take */
    uint64_t written;      /* the furthest end of a copy */
    uint64_t live;         /* entries before this count are finished everywhere */
    uint64_t all_finished; /* every rank has finished all before this sequence number */
    uint64_t agreed;       /* and before this one every rank knows it, or will without asking */
    uint64_t all_started;  /* every rank has started all before this one */

    uint16_t before; /* of whatever starts next: a digest of the terms of all that have started */
    uint64_t wanted; /* of the latest round; 0: none yet */
    struct tt_rounds rounds;
    struct tt_collective_terms said[TT_DISSEMINATION_MAX_ROUNDS]; /* by whom it has heard */
    uint32_t judged; /* of these, whose terms have been compared: a bit a round */
};

/* A neighbour may ask for one as long ago as two ranks may be apart: those without a gate keep to the window, the
 * others to what is in flight. */
static inline uint32_t tt_eager_capacity(uint32_t in_flight)
{
    return tt_power_of_two(in_flight + (uint32_t)tt_most(in_flight, TT_EAGER_WINDOW));
}

/* How long a rank waits before it asks, of which so many share each core. */
static inline uint64_t tt_eager_ask_ns(uint32_t ranks_a_core)
{
    return tt_most(tt_least(TT_EAGER_ASK_NS * ranks_a_core, TT_EAGER_ASK_MOST_NS), TT_EAGER_SHARE_NS * ranks_a_core);
}

/* `entries`: memory for tt_eager_capacity(in_flight). */
void tt_eager_init(struct tt_eager *eager, uint32_t rank, uint32_t size, struct tt_eager_entry *entries,
                   uint32_t capacity);

/* Collectives start in the order of their sequence numbers. Returns where in the ring the copy will lie. */
uint64_t tt_eager_start(struct tt_eager *eager, uint64_t sequence, const struct tt_collective_terms *terms,
                        uint64_t length_bytes);

/* It has ended here, and its data is in the ring. */
void tt_eager_keep(struct tt_eager *eager, uint64_t sequence);

/* NULL: never started here, or forgotten. */
const struct tt_eager_entry *tt_eager_find(const struct tt_eager *eager, uint64_t sequence);

/* The right neighbour has been told that it may read from this copy. */
void tt_eager_tell(struct tt_eager *eager, uint64_t sequence);

/* It says that it is through. False: there was none. */
bool tt_eager_read_over(struct tt_eager *eager, uint64_t sequence);

/* Whether the right neighbour may be reading. */
bool tt_eager_is_read(const struct tt_eager *eager);

/* Whether there is room for this one's data at every rank. */
bool tt_eager_may_send(const struct tt_eager *eager, uint64_t sequence);

/* Whether it is known here that nobody can ask any more for what this one's copy overwrites. Its place is the same on
 * all ranks, so it is enough that one of them knows. */
bool tt_eager_may_keep(const struct tt_eager *eager, uint64_t sequence);

/* Everybody has started all before this. */
void tt_eager_note_started(struct tt_eager *eager, uint64_t all_started);

/* Everybody has finished all before this, and everybody hears of it. */
void tt_eager_advance(struct tt_eager *eager, uint64_t all_finished);

/* Everybody has finished all before this, but the datagram that says so may be lost on its way to others: they need
 * this rank's part in a round before it leaves. */
void tt_eager_learn(struct tt_eager *eager, uint64_t all_finished);

/* A root started a collective: starts a round if credit runs low. `oldest`: all before it have finished here. */
void tt_eager_refresh(struct tt_eager *eager, uint64_t oldest);

/* Asks for a round about everything before `wanted`. */
void tt_eager_want(struct tt_eager *eager, uint64_t wanted);

/* An ACK frame; false if it is out of turn. */
bool tt_eager_frame(struct tt_eager *eager, const struct tt_frame *frame);

/* Whether somebody has been heard in the round who has not been compared. */
static inline bool tt_eager_has_unjudged(const struct tt_eager *eager)
{
    return (eager->rounds.heard & ~eager->judged) != 0;
}

/* The first of those heard in the round who means another collective than this rank, as soon as this one has finished
 * what it is about; TT_RANK_NONE: nobody, or it was said before. *here and *there are what the two mean by the last
 * one. */
uint32_t tt_eager_disagrees(struct tt_eager *eager, uint64_t oldest, struct tt_collective_terms *here,
                            struct tt_collective_terms *there);

/* Takes the round as far as it goes. Returns whether it completed, so that `agreed` grew. */
bool tt_eager_round(struct tt_eager *eager, uint64_t oldest, uint64_t group, struct tt_actions *actions);

/* Whether copies are kept that somebody may still ask for. */
bool tt_eager_owes(const struct tt_eager *eager);

/* Asserts what always holds. */
void tt_eager_check(const struct tt_eager *eager);

#endif
