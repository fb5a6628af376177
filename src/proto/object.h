/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One member's part in an object group: RDMC's way to bring large objects from member 0 to all, by a schedule of block
 * transfers between two members each (Behrens et al., section 4; plan/rdmc.h).
 *
 * An object's way: member 0 offers it down a binomial tree (OFFER: its number and size); each member asks its
 * surroundings for memory (INCOMING), says READY to those from whom its next blocks come, with their places, and gets
 * them by put. What is here goes on to whoever is ready for it, in the plan's order for each target. There are no
 * global steps: the plan gives the order only. A member that has everything, and has passed on what it has to, is
 * complete (COMPLETION), and tells that up the tree (REACHED), which makes room for further objects at member 0.
 *
 * The paper sends the size with the first block, into memory that is kept for it, and copies that block when the object
 * has its own memory. Here the size goes ahead of the first block in a frame, so that no block is ever copied, and no
 * group keeps memory for one. For the first of several objects that costs the time of two frames; further objects are
 * offered, and INCOMING is asked, while the one before is still under way.
 *
 * Failure: a neighbour that dies (PEER_DOWN), does not answer when something is awaited from it, or breaks the
 * protocol; surroundings that refuse memory, or leave the machine without an answer until the deadline. Each makes the
 * group fail at every member: FAILED, once, with the number of the member that it is about, no completion after it, and
 * the buffers of what was under way come back (RELEASE) when nothing reads or writes them any more.
 *
 * Why a refusal fails the whole group: the schedule needs every member as a relay. One without memory for the object
 * could relay only with as much memory as it has just refused, or by another schedule, and `close` could not succeed
 * any more in either case, since the object never reaches everybody. So the member that refuses gets its own status,
 * all others learn its number, and what was complete before stays complete.
 */
#ifndef TT_PROTO_OBJECT_H
#define TT_PROTO_OBJECT_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/dissemination.h"
#include "plan/rdmc.h"
#include "proto/object_action.h"
#include "proto/rounds.h"
#include "wire/object_frame.h"

enum {
    TT_OBJECT_MAX_CREDIT = 2, /* blocks that a neighbour may be ready for at once */
    TT_OBJECT_WINDOW = 64,    /* blocks from the lowest missing one on that may be under way */
    TT_OBJECT_AHEAD = 2       /* objects for which memory is asked at once */
};

/* How long a failing group waits for puts to end by themselves before it breaks the connection: so long, and what the
 * blocks that a neighbour may put at once take at 10 MB/s. */
#define TT_OBJECT_PATIENCE_NS      UINT64_C(500000000)
#define TT_OBJECT_PATIENCE_BYTE_NS UINT64_C(100)

enum tt_object_memory { TT_OBJECT_UNASKED, TT_OBJECT_ASKED, TT_OBJECT_HERE };

/* A place for the object with sequence number == its index modulo the number of places. */
struct tt_object {
    uint64_t size_bytes, block_bytes;
    struct tt_rdmc plan;
    enum tt_object_memory memory;
    uint64_t lowest;                 /* all blocks before it are here */
    uint64_t arrived, granted;       /* bits from `lowest` on: is here, is awaited */
    uint32_t from[TT_OBJECT_WINDOW]; /* by block modulo: the peer's index */
    uint32_t lanes_loaded;           /* whose last send has been looked at */
    uint32_t sends;                  /* looked at, and not done */
};

/* What a neighbour is ready for. */
struct tt_object_place {
    uint64_t object, block, address, immediate;
    uint32_t key_bytes;
    uint8_t key[TT_OBJECT_FRAME_MAX_KEY_BYTES];
};

/* A neighbour: a member that something is exchanged with. */
struct tt_object_peer {
    uint32_t member;
    bool is_down, has_left, is_abandoned;
    bool has_joined, is_there; /* there: with all that it speaks for, if it is a child in the tree */

    uint32_t ready_first, ready_count; /* a ring, oldest first */
    struct tt_object_place ready[TT_OBJECT_MAX_CREDIT];
    uint32_t puts_under_way; /* to it */
    uint64_t puts;           /* to it, in all, without those that failed */
    uint32_t lane;           /* of the puts under way; all are in one */

    uint32_t granted; /* blocks from it that it may put */
    uint64_t arrived; /* its puts, in all */
    bool has_stopped; /* it has said that there will be no more than */
    uint64_t stopped_at;

    uint64_t reached; /* if it is a child in the tree */

    bool is_awaited, is_watched, is_asked; /* watched: was awaited before */
    uint64_t awaited_since_ns, heard_ns, asked_ns;
};

/* A lane's list of sends. */
struct tt_object_lane {
    uint64_t object, step; /* of the next one; without one, where to go on */
    bool has_next;
    uint32_t next_peer; /* index */
    uint64_t next_block;
    uint32_t puts_under_way;
};

/* All but `member` must be the same at every member; who makes the group sees to that. */
struct tt_object_config {
    uint32_t member, member_count;
    enum tt_rdmc_algorithm algorithm;
    const uint32_t *rack_firsts; /* hybrid only; stays while the group does */
    uint32_t rack_count;
    uint32_t block_bytes; /* 0: by each object's size, tt_rdmc_block_bytes */
    uint32_t credit;      /* 1 .. TT_OBJECT_MAX_CREDIT: blocks that a neighbour is told READY for ahead */
    uint64_t group;       /* key */
    uint64_t members;     /* a digest of them; told for whoever has another list, and no group with this key */
    uint32_t created;     /* which group of these members it is */
    uint16_t number;      /* the local one, in the immediates of puts that come here: bits 48 and up */

    struct tt_object *objects;  /* memory */
    uint32_t object_count;      /* 1 .. 32768: so many are under way before member 0 refuses to send another one */
    const uint32_t *neighbours; /* as tt_object_neighbours gave them; needed by init only */
    uint32_t peer_count;
    struct tt_object_peer *peers; /* memory: peer_count of them */

    /* Members may leave by themselves, without a close, where all know by other means that they are through. */
    bool may_leave;
    uint64_t silence_ns;  /* whoever is awaited and not heard of for so long is asked, and given so long again */
    uint64_t deadline_ns; /* how long the own surroundings may take to answer, or to close as the last ones, and members
                             to join */
};

enum tt_object_state {
    TT_OBJECT_OPEN,
    TT_OBJECT_FAILING, /* has failed, letting go of the buffers */
    TT_OBJECT_FINISHED
};

struct tt_object_group {
    struct tt_object_config config;
    enum tt_object_state state;
    uint64_t offered;   /* objects that are known here: 0 .. offered - 1 */
    uint64_t asked;     /* of these, those whose memory was asked for */
    uint64_t completed; /* of these, in order */
    uint64_t reported;  /* up the tree */
    struct tt_object_lane lanes[TT_RDMC_LANE_COUNT];
    uint64_t grant_object, grant_step; /* where the list of receives goes on */
    uint32_t granted;                  /* of all peers */

    bool is_joining;
    uint64_t join_since_ns;
    struct tt_object_terms mismatch; /* what another member has joined on, if the group has failed for that */

    bool is_closing;       /* the surroundings have closed */
    bool is_awaited;       /* somebody below in the tree has been closed */
    bool has_told_closing; /* up the tree */
    bool has_ended;        /* member 0 has: there are `offered` objects and no more */
    struct tt_rounds barrier;

    bool is_slow; /* the own surroundings are waited for */
    uint64_t slow_mark, slow_since_ns;
    uint64_t patience_deadline_ns; /* while FAILING */
    uint64_t deadline_ns;          /* of the next TICK */

    tutti_status status; /* TUTTI_OK until the group has failed */
    uint32_t failed_member;
    uint32_t culprit, noticed_by; /* as all are told, see struct tt_member */
    uint64_t drops;               /* frames and immediates that nobody here waited for */
};

enum tt_object_event_type {
    TT_OBJECT_JOIN,      /* first of all, where other members may not be there yet: waits for them; answer: JOINED */
    TT_OBJECT_SEND,      /* member 0: size_bytes; its sequence number is what `offered` was */
    TT_OBJECT_LEAVE,     /* where members may, with no object under way here: says BYE */
    TT_OBJECT_CLOSE,     /* no more objects (member 0); wait until all of them are everywhere */
    TT_OBJECT_MEMORY,    /* answers INCOMING: sequence; there is memory, and it is registered */
    TT_OBJECT_REFUSE,    /* answers INCOMING: sequence, status */
    TT_OBJECT_FRAME,     /* frame, decoded, of this group */
    TT_OBJECT_IMMEDIATE, /* immediate: with this group's number */
    TT_OBJECT_PUT_DONE,  /* member, sequence, status: answers PUT */
    TT_OBJECT_PEER_DOWN, /* member: its connection broke */
    TT_OBJECT_FAIL,      /* status, member, noticed_by (a member): the surroundings give the group up */
    TT_OBJECT_TICK
};

struct tt_object_event {
    enum tt_object_event_type type;
    uint64_t now_ns;
    uint64_t size_bytes, sequence, immediate;
    const struct tt_object_frame *frame;
    uint32_t member, noticed_by;
    tutti_status status;
};

/*
 * Whom a member is connected to: ascending, without itself. Those that the plan sends to or receives from, with any
 * number of blocks, and the neighbours in the dissemination pattern, so that the group stays connected when one is gone
 * (the tree is among these). `members` has room for member_count of them. Returns how many there are; 0 with more than
 * one member: the terms are none that tt_rdmc_init takes.
 */
uint32_t tt_object_neighbours(const struct tt_object_config *config, uint32_t *members);

/* The most actions that a step asks for. */
uint32_t tt_object_actions_capacity(const struct tt_object_config *config);

/* Config is copied; its memory stays the caller's, and is used until the group has finished. */
void tt_object_group_init(struct tt_object_group *group, const struct tt_object_config *config);

/* Whether member 0 may send another object: TUTTI_OK, or what the step would say. */
tutti_status tt_object_group_may_send(const struct tt_object_group *group, uint64_t size_bytes);

/*
 * One step. An error only of SEND and CLOSE, which then change nothing: TUTTI_ERR_BUSY with all places taken or members
 * that have not joined, TUTTI_ERR_TOO_LARGE, TUTTI_ERR_INVALID_ARGUMENT (not member 0, closed already), or the group's
 * status. A group that has finished takes no notice of anything.
 */
tutti_status tt_object_group_step(struct tt_object_group *group, const struct tt_object_event *event,
                                  struct tt_object_actions *actions);

/* The neighbour's index among the peers; TT_OBJECT_NO_MEMBER: it is none. */
uint32_t tt_object_find_peer(const struct tt_object_group *group, uint32_t member);

/* What this member joins on. */
struct tt_object_terms tt_object_terms(const struct tt_object_config *config);

/* When the next TICK is due at the latest; UINT64_MAX: none. */
uint64_t tt_object_group_deadline(const struct tt_object_group *group);

/* Asserts what always holds. */
void tt_object_group_check(const struct tt_object_group *group);

#endif
