/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's membership in a group: gives collectives their sequence numbers, lets a limited number of them run, hands
 * frames to the collective they are for (or keeps those that come early), and handles what concerns the whole group:
 * peers that die or leave, deadlines, and the roll call that finds out who is missing.
 *
 * An error ends the group: the first rank to notice tells its neighbours (plan/dissemination.h), they tell theirs,
 * and every collective of every rank finishes with the same status and culprit.
 */
#ifndef TT_PROTO_MEMBER_H
#define TT_PROTO_MEMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/dissemination.h"
#include "proto/action.h"
#include "proto/collective.h"
#include "proto/eager.h"
#include "proto/probe.h"

/* A roll call is over after this long: twice what a collective leaves for it before its deadline. */
#define TT_MEMBER_ROLLCALL_NS UINT64_C(1000000000)

enum { TT_MEMBER_MAX_IN_FLIGHT = 64, TT_MEMBER_MAX_NEIGHBOURS = 2 * TT_DISSEMINATION_MAX_ROUNDS };

/* A place for the collective with sequence number == its index modulo the number of slots. Of those that run here, the
 * newest is less than a flight after the oldest. A peer can have finished all of these, and as many eager ones as
 * credit allows that were not even posted here, and has a flight of its own behind them. */
struct tt_member_slot {
    struct tt_collective *collective; /* running */
    /* Frames that came before it was started, if `early`: member_early.c. */
    bool early, early_asked, early_other_asked;
    bool early_has_terms;
    uint64_t early_sequence;
    /* a bit a neighbour */
    uint64_t early_gathered, early_other_pieces, early_ready, early_reminded, early_other_ready;
    uint64_t early_lost;                                 /* blocks came, and there was no room */
    uint32_t early_rounds, early_other_rounds;           /* a bit a round */
    struct tt_release early_least;                       /* that they said */
    struct tt_collective_terms early_terms, early_other; /* the first one's, and of one that differs: early_other_... */
};

static inline uint32_t tt_member_slots(uint32_t in_flight)
{
    return 2 * in_flight + TT_EAGER_WINDOW;
}

struct tt_member_config {
    uint32_t rank, size;
    uint64_t group;                /* key */
    uint32_t in_flight;            /* collectives that run at once, at most TT_MEMBER_MAX_IN_FLIGHT */
    struct tt_member_slot *slots;  /* memory: tt_member_slots(in_flight) */
    struct tt_eager_entry *copies; /* memory: tt_eager_capacity(in_flight) */
    struct tt_early_pool *pool;    /* for blocks that are gathered early; NULL: none is kept */
    uint8_t *own;     /* memory, as long as a slab of the pool, for pieces that come early down trees, where there is no
                         multicast; NULL: no tree is eager */
    uint8_t *present; /* memory: (size + 7) / 8 bytes */
    const uint64_t *speakers;      /* for the probe: a bit a rank; NULL: all. Not copied */
    const _Atomic uint64_t *heard; /* for the probe: a bit a rank, (size + 63) / 64 words a subgroup */
    uint32_t heard_count;          /* subgroups */
    bool multicast;                /* try it */
    uint64_t probe_timeout_ns;
};

struct tt_member {
    struct tt_member_config config;
    struct tt_probe probe;
    struct tt_eager eager;
    struct tt_early gathered;               /* blocks that came before the collective was started here */
    struct tt_early pieces;                 /* the same, of blocks that go down trees */
    uint64_t next_sequence;                 /* of the next post */
    uint64_t oldest;                        /* all before it have finished here */
    uint32_t oldest_slot;                   /* where its slot is, and those behind it follow, around */
    uint64_t moved_ns;                      /* when the last of these did */
    uint64_t doubted;                       /* when all before it have, a round is started about them; 0: none is */
    struct tt_collective *line, **line_end; /* posted, waiting for a place */
    uint32_t neighbour_count;
    uint32_t neighbours[TT_MEMBER_MAX_NEIGHBOURS];
    bool departed[TT_MEMBER_MAX_NEIGHBOURS];
    uint64_t departed_sequence[TT_MEMBER_MAX_NEIGHBOURS];
    bool right_gone; /* the right neighbour in the ring is down, or has left */
    struct {
        uint32_t root, ways; /* a bit each */
    } met[TT_KIND_COUNT];    /* with which a gate has opened: all ranks are connected to those whom they then need */
    bool deaf; /* no chunk of another host comes any more: set by the surroundings, for what starts from then on */

    bool rollcall_active;
    uint64_t rollcall_sequence, rollcall_end_ns;

    tutti_status status; /* TUTTI_OK until the group has failed */
    uint32_t failed_rank;
    uint32_t culprit, noticed_by; /* as all are told; tt_failed_rank() makes of them whom this rank names */
    /* Where status is MISMATCH: of who noticed, and of the culprit. */
    struct tt_collective_terms mismatch_here, mismatch_there;
    bool turn_passes;   /* a transmission has ended: the next one may begin */
    uint64_t tick_from; /* sequence where the next TICK goes on */
    uint64_t drops_frame;
};

/* The collective with this sequence number; NULL: none is in progress here. */
struct tt_collective *tt_member_running(const struct tt_member *member, uint64_t sequence);

enum tt_member_event_type {
    TT_MEMBER_PROBE,     /* start the start-up probe */
    TT_MEMBER_POST,      /* collective; its config is set and it was reset by nobody else */
    TT_MEMBER_FRAME,     /* frame, decoded, of this group */
    TT_MEMBER_SENT,      /* collective: answers TRANSMIT or CANCEL */
    TT_MEMBER_FROZEN,    /* collective: answers FREEZE */
    TT_MEMBER_GOT,       /* collective, run, status: answers GET */
    TT_MEMBER_RELAYED,   /* collective: answers RELAY or UNRELAY */
    TT_MEMBER_PEER_DOWN, /* rank: its connection broke */
    TT_MEMBER_FAIL,      /* status, rank, noticed_by (a rank): the surroundings give the group up */
    TT_MEMBER_FLUSH,     /* find out whether copies are still needed here: tt_member_owes */
    TT_MEMBER_DOUBT,     /* a chunk fits no collective of its sequence number: do all mean the same ones? */
    TT_MEMBER_LEAVE,     /* say goodbye */
    TT_MEMBER_TICK
};

struct tt_member_event {
    enum tt_member_event_type type;
    uint64_t now_ns;
    struct tt_collective *collective;
    const struct tt_frame *frame;
    uint32_t run, rank, noticed_by;
    tutti_status status;
};

void tt_member_init(struct tt_member *member, const struct tt_member_config *config);

/* Gives back what it has taken from the pool. */
void tt_member_fini(struct tt_member *member);

/* One step. If actions->more is set afterwards: carry out the list and step again with TICK. */
void tt_member_step(struct tt_member *member, const struct tt_member_event *event, struct tt_actions *actions);

/* When the next TICK is due at the latest; UINT64_MAX: none. */
uint64_t tt_member_deadline(const struct tt_member *member);

/* Whether other ranks may still need data that is kept here: a rank stays until not, but not for ever. */
bool tt_member_owes(const struct tt_member *member);

/* Whether the right neighbour may be reading from a copy: who leaves all the same breaks the connection. */
bool tt_member_is_read(const struct tt_member *member);

/* Whether a neighbour has left in an orderly way. */
bool tt_member_has_left(const struct tt_member *member, uint32_t rank);

/* After a roll call: whether a rank answered. */
bool tt_member_present(const struct tt_member *member, uint32_t rank);

/* Asserts what always holds, of its collectives too; while no thread feeds their streams. */
void tt_member_check(const struct tt_member *member);

#endif
