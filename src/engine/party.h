/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A party to an engine's communication: whatever it drives. A group is one (group.h), and so is an object group
 * (objects.h). The engine knows them by this struct, with which each of them begins, and by a table of operations, and
 * asks for no more: frames find a party by the key that they carry, gets, puts and immediates by its number in their
 * upper bits, and progress, deadlines and sleeping ask those that are awake.
 *
 * A party is awake while something may move in it, or is due. Others cost nothing: nobody looks at them before a
 * request is posted, a frame comes, or the descriptor of their chunks becomes readable. So who has a deadline is awake,
 * and the next one of all is found by asking those; that needs no heap: many deadlines at once are many collectives at
 * once, which are all looked at anyway. In the simulator nobody falls asleep.
 *
 * All of it belongs to the control context.
 */
#ifndef TT_ENGINE_PARTY_H
#define TT_ENGINE_PARTY_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/task_queue.h"
#include "tutti/status.h"

struct tt_engine;
struct tt_network;
struct tt_origin;
struct tt_party;
struct tt_peer;

/* What a thread hands over to a party; it begins with this. */
struct tt_post {
    struct tt_task task; /* first */
    struct tt_party *party;
};

/* How long a party is worth polling for. */
enum tt_party_awaits {
    TT_PARTY_AWAITS_NOTHING,
    TT_PARTY_AWAITS_LITTLE, /* small collectives, which are over within a few rounds */
    TT_PARTY_AWAITS_STEPS,  /* messages that ranks send each other in turn: to be woken for each takes as long as all */
    TT_PARTY_AWAITS_MUCH,
    TT_PARTY_AWAITS_WORKER /* that a worker has been through its queue: any moment, and it does not ring */
};

/* Those that may be NULL say what that means. */
struct tt_party_ops {
    uint16_t magic; /* that its frames begin with (wire/frame_header.h) */

    void (*post)(struct tt_party *party, struct tt_post *post, uint64_t now_ns); /* NULL: nothing is posted to it */

    /* A frame with its magic and its key, and whom it came from. */
    void (*frame)(struct tt_party *party, const struct tt_origin *origin, const uint8_t *bytes, uint32_t length_bytes);

    /* A get or a put of its own has ended: what it put into the cookie (tt_party_cookie). */
    void (*done)(struct tt_party *party, uint64_t payload, tutti_status status);

    /* With its number, and what goes with it. NULL: nobody puts anything here. */
    void (*immediate)(struct tt_party *party, uint64_t immediate, const uint8_t *bytes, uint32_t length_bytes);

    /* A connection is gone, its own or not. */
    void (*peer_down)(struct tt_party *party, const struct tt_peer *peer);

    /* A collective's transmission on this network has ended, and the next one may begin. NULL: it takes no turns. */
    void (*pass_turn)(struct tt_party *party, const struct tt_network *network);

    /* Before frames are looked at: receives, sends, and does what is due; without `looks` it leaves alone what has
     * come. Returns whether anything happened. NULL: all that comes to it are frames and what the p2p network puts. */
    bool (*progress)(struct tt_party *party, uint64_t now_ns, bool looks);

    /* The same, after frames: for what they may have brought about, allowed, or made unnecessary. Nothing is due by it:
     * chunks that have come meanwhile have not been looked at; nor have frames unless they were `looked` at, so nobody
     * is given up then for what has not come. */
    bool (*after_frames)(struct tt_party *party, uint64_t now_ns, bool looked);

    /* When one of the two is due at the latest; 0: now. */
    uint64_t (*deadline)(const struct tt_party *party);

    /* Whether it may fall asleep. */
    bool (*may_sleep)(const struct tt_party *party);

    /* NULL: nothing that is polled for. */
    enum tt_party_awaits (*awaits)(const struct tt_party *party);

    /* How long chunks may be left where they are (proto/moderation.h). NULL: TT_MODERATION_NONE. */
    uint64_t (*moderation)(struct tt_party *party, uint64_t now_ns);

    /* Whether a worker has something for it; read when the sleep has been announced. NULL: none ever has. */
    bool (*workers_want)(const struct tt_party *party);

    /* What holds in it between two calls (tt_parties_check). NULL: no more than in any party. */
    void (*check)(const struct tt_party *party);
};

struct tt_party {
    const struct tt_party_ops *ops;
    uint64_t key;         /* the same at all its members, and of no other party with this magic */
    uint16_t number;      /* here; not given to another one for as long as that is possible */
    uint64_t deadline_ns; /* of its machine, after the last step */
    bool awake;
    bool event_driven; /* awake, but nothing has come for a while: it receives when its descriptors say so */
    bool owes;         /* counted in the engine's `owing` */
    struct tt_party *next, *next_in_bucket, *next_awake; /* lists of the engine */
};

enum { TT_PARTIES_BUCKETS = 256, TT_PARTY_PAYLOAD_BITS = 48 };

/* An engine's parties. */
struct tt_parties {
    struct tt_party *first;                       /* list: all */
    struct tt_party *awake;                       /* list: those that are looked at */
    struct tt_party *buckets[TT_PARTIES_BUCKETS]; /* lists, by key */
    struct tt_party **numbered;                   /* by number, `capacity` of them */
    uint32_t capacity;
    uint32_t listed;
    uint16_t last_number; /* that was given */
    uint32_t owing;       /* how many have something in progress, or may still be needed by others */
    uint32_t removals;
};

/*
 * Makes a party with `ops` and `key` one of them, awake, and gives it a number; everything else in it is zero. It comes
 * behind `after`, or if that is NULL first: it hears of a peer that is down after that one. Fails for lack of memory or
 * numbers, and then nothing has changed.
 */
tutti_status tt_party_list(struct tt_parties *parties, struct tt_party *party, struct tt_party *after);
void tt_party_unlist(struct tt_parties *parties, struct tt_party *party);

void tt_parties_fini(struct tt_parties *parties);

/* Asserts what holds between two calls, in the lists and in each party. */
void tt_parties_check(const struct tt_parties *parties);

/* NULL: there is none. */
struct tt_party *tt_party_with_key(const struct tt_parties *parties, uint16_t magic, uint64_t key);
struct tt_party *tt_party_with_number(const struct tt_parties *parties, uint64_t cookie_or_immediate);

/* Whether the party has something in progress, or may still be needed by others. */
void tt_party_note_owes(struct tt_parties *parties, struct tt_party *party, bool owes);

static inline void tt_party_wake(struct tt_parties *parties, struct tt_party *party)
{
    party->event_driven = false;
    if (!party->awake) {
        party->awake = true;
        party->next_awake = parties->awake;
        parties->awake = party;
    }
}

/* Whether there are others than this one that are looked at. */
static inline bool tt_parties_has_others_awake(const struct tt_parties *parties, const struct tt_party *party)
{
    return parties->awake != NULL && (parties->awake != party || party->next_awake != NULL);
}

/* Takes those that may sleep out of the list of those that are awake. */
void tt_parties_fall_asleep(struct tt_parties *parties);

/* The cookie of a get or put, from which its DONE finds the party; the payload has TT_PARTY_PAYLOAD_BITS. */
static inline uint64_t tt_party_cookie(const struct tt_party *party, uint64_t payload)
{
    assert(party->number != 0);
    assert(payload >> TT_PARTY_PAYLOAD_BITS == 0);
    return (uint64_t)party->number << TT_PARTY_PAYLOAD_BITS | payload;
}

static inline uint64_t tt_party_payload(uint64_t cookie)
{
    return cookie & ((UINT64_C(1) << TT_PARTY_PAYLOAD_BITS) - 1);
}

#endif
