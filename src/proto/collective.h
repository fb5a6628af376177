/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One rank's part in one reliable Broadcast or Allgather (Khalilov et al., sections III and IV). An Allgather is the
 * same machine with P roots.
 *
 *     BARRIER     RNR barrier: nobody sends before everybody has posted (section III-C; proto/gather.h)
 *     RECEIVE     chunks arrive by multicast through the kernel; roots send in the sequencer's order (section IV-A)
 *     FETCH       what is still missing after all roots are done, or after the cutoff, comes from the left neighbour
 *     HANDSHAKE   everything is here; `final` went left, waiting for the right neighbour's
 *     FINISHED    the buffer is the user's again
 *
 * A rank may receive everything, and be in HANDSHAKE, before it has sent its own block: sending is beside the states.
 * The ring and the chain skip RECEIVE: everything is fetched. What an object group moves (proto/object.h) is in RECEIVE
 * until that has done it, and ends without a handshake. A tree (proto/tree.h) is in RECEIVE from start to end.
 * Eager collectives begin with RECEIVE, as those do whose blocks are gathered (proto/gather.h), and end without
 * anybody's `final`: what may still be asked for is served from a copy (proto/eager.h). Data that seems lost is first
 * asked for at the left neighbour (ASK), and fetched once that has it (KEPT): mover_eager.c.
 */
#ifndef TT_PROTO_COLLECTIVE_H
#define TT_PROTO_COLLECTIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/action.h"
#include "proto/fetch.h"
#include "proto/flow.h"
#include "proto/gather.h"
#include "proto/receive.h"
#include "proto/rounds.h"
#include "proto/tree.h"
#include "proto/way.h"

enum tt_collective_state {
    TT_COLLECTIVE_IDLE, /* not posted, or posted and waiting in line */
    TT_COLLECTIVE_BARRIER,
    TT_COLLECTIVE_RECEIVE,
    TT_COLLECTIVE_FETCH,
    TT_COLLECTIVE_HANDSHAKE,
    TT_COLLECTIVE_FAILING, /* letting go of the buffers */
    TT_COLLECTIVE_FINISHED
};

/* How long a failing collective waits for reads to end by themselves before it looks once more, for a quarter of that,
 * and then breaks the connection. */
#define TT_COLLECTIVE_PATIENCE_NS UINT64_C(500000000)

struct tt_collective_config {
    uint32_t rank, size;
    uint64_t group; /* key */
    struct tt_collective_terms terms;
    struct tt_stream *streams; /* terms.subgroups of them, with stripes, buffers and bitmaps */
    uint32_t *positions;       /* memory for flow control: chains * subgroups */
    uint8_t *done;             /* memory: one byte a chain */
    uint8_t *gathered;         /* where vectors come together that are combined here; NULL: the receive buffer */
    uint32_t vector_bytes; /* of these, in one GATHER, the same at all ranks; TT_FRAME_GATHER_BYTES if that is more */
    uint8_t parts_by;   /* of a method by parts, who needs whom to make them: what differs here does there; 0: none */
    bool tree_is_eager; /* all ranks have room for what comes down a tree before they have posted it */
    const uint64_t *hosts;   /* by rank: the same for ranks of one host; NULL: all differ */
    uint32_t heard;          /* roots whose chunks pass the busiest host's port, in or out */
    struct tt_link *link;    /* this rank's; NULL: there is no flow control */
    uint32_t bandwidth_kbit; /* B_link */
    uint64_t wire_ns;        /* N / B_link, for the cutoff */
    uint64_t alpha_ns, tail_ns, stall_ns;
    uint64_t ask_ns;     /* without a handshake: how long until the left neighbour is asked; see TT_EAGER_ASK_MOST_NS */
    uint64_t timeout_ns; /* see tt_rollcall_deadline */
    uint64_t rollcall_ns; /* before that, time to find out who is missing */
};

struct tt_collective {
    struct tt_collective_config config;
    struct tt_frame template; /* group, source and sequence of what is sent */
    struct tt_flow flow;
    struct tt_gather gather;
    uint32_t own_root_index; /* or TT_RANK_NONE */
    uint32_t block_chunks;   /* of one block, of all subgroups */
    uint32_t expected;       /* chunks that multicast owes this rank */
    uint32_t remote;         /* of these, from other hosts */
    const struct tt_way *way;
    bool all_send; /* tt_terms_all_send */
    void *owner;   /* the surroundings' own; not looked at */

    struct tt_tree tree; /* from here on a run's own: see tt_collective_reset */
    enum tt_collective_state state;
    uint64_t sequence;
    /* Set by the member before the start to what holds here; after the barrier the least of all ranks. */
    struct tt_release least;
    bool everybody;     /* `least` is what holds on all ranks */
    struct {            /* what says that the barrier is over */
        bool overtaken; /* a frame came that nobody sends before */
        bool opened;    /* OPEN came, which says just that */
    } over;
    struct tt_rounds barrier;

    struct { /* of proto/sequencer.h */
        bool activated, transmitting, sent, canceled;
        bool silent;    /* when it began to transmit: see tt_collective_is_silent */
        bool has_turn;  /* only a broadcast behind a barrier waits for it; set by the member */
        bool may_send;  /* behind an open gate: there is room everywhere; set by the member */
        bool told_all;  /* the right neighbour, that all chains are done */
        uint32_t limit; /* what the last TRANSMIT allowed */
        uint32_t chains_done;
        uint64_t stall_deadline_ns;
        uint64_t done_deadline_ns; /* what the right neighbour is to be told then */
    } sending;

    struct { /* chunks */
        bool published, freezing, frozen;
        bool deaf;              /* nothing came from other hosts for some time; set by the member before the start */
        bool heard;             /* chunks of other hosts came through the kernel; known once it is frozen */
        uint32_t last_received; /* at the last look of a timer */
        uint64_t cutoff_deadline_ns, tail_deadline_ns;
    } receiving;

    struct {           /* of mover_eager.c: without a handshake */
        bool may_keep; /* there is room in the own ring of copies; set by the member */
        bool asked, right_asked;
        uint64_t right_digest;    /* of what the right neighbour had when it asked */
        uint64_t ask_interval_ns; /* until it asks again */
        uint64_t offset;          /* in the ring of copies; set by the member before the start */
    } copy;

    struct {               /* of mover_relay.c */
        bool may_go_ahead; /* of the gate; set by the member before the start */
        bool relaying, unrelaying, relayed;
    } relay;

    uint64_t alone_ns; /* when it fails if it still needs the left neighbour, which has left; 0: never. The member's */

    struct { /* the handshake's frame: to the left, from the right */
        bool sent, received;
    } final;

    struct {                  /* of the member and proto/rollcall.h */
        uint64_t deadline_ns; /* set at post; see tt_rollcall_deadline */
        uint64_t asked_ns;    /* the deadline before which the roll call was asked for; 0: it was not */
        bool overslept, let_others_speak;
    } timeout;

    struct { /* of proto/moderation.h */
        uint64_t since_ns, chunk_ns;
        uint32_t received;
    } moderation;

    struct { /* of collective_failure.c */
        bool abandoned, looks;
        uint64_t patience_deadline_ns;
    } failing;

    struct { /* of this run */
        uint32_t cutoffs, credit_stalls;
        uint64_t fetched_chunks;
    } counters;

    tutti_status status;
    uint32_t failed_rank;

    struct tt_collective *next; /* in line, in the member */

    struct tt_fetch fetch; /* large, and seldom used: it resets itself */
};

enum tt_collective_event_type {
    TT_EVENT_START,
    TT_EVENT_FRAME,
    TT_EVENT_SENT,
    TT_EVENT_FROZEN,
    TT_EVENT_GOT,
    TT_EVENT_RELAYED,
    TT_EVENT_TICK, /* chunks may have come, or a deadline has */
    TT_EVENT_FAIL  /* the group has failed */
};

struct tt_collective_event {
    enum tt_collective_event_type type;
    uint64_t now_ns;
    const struct tt_frame *frame; /* FRAME */
    uint32_t run;                 /* GOT */
    tutti_status status;          /* GOT, FAIL */
    uint32_t rank;                /* FAIL: whom it is about */
    bool right_gone;              /* FAIL: the right neighbour is dead or has left, and reads nothing more */
};

/* Whether two ranks mean the same collective. */
bool tt_collective_terms_agree(const struct tt_collective_terms *a, const struct tt_collective_terms *b);

void tt_collective_init(struct tt_collective *collective, const struct tt_collective_config *config);

/* Makes a finished collective ready to be posted again. */
void tt_collective_reset(struct tt_collective *collective, uint64_t sequence);

/*
 * One step. Returns false if the frame is out of turn or out of range (it is ignored), or if it reveals that ranks
 * disagree; then *mismatch is set.
 */
bool tt_collective_step(struct tt_collective *collective, const struct tt_collective_event *event,
                        struct tt_actions *actions, bool *mismatch);

/* When the next TICK is due at the latest; UINT64_MAX: none. The timeout is the member's. */
uint64_t tt_collective_deadline(const struct tt_collective *collective);

/* How many chunks of the own block may be sent by now, on all subgroups together. Monotone during a run. */
uint32_t tt_collective_send_limit(const struct tt_collective *collective);

/* Whether no chunk of it reaches this rank over the network, as far as is known. */
static inline bool tt_collective_is_deaf(const struct tt_collective *c)
{
    return c->receiving.deaf && c->remote > 0;
}

/* Whether all ranks know, or will find out, that nobody hears its chunks: then they are not sent. */
static inline bool tt_collective_is_silent(const struct tt_collective *c)
{
    return c->way->gate->releases && c->everybody && c->least.some_deaf && c->least.all_deaf;
}

/* Whether the left neighbour has been asked for what is missing here, if only for word that there is room for a copy,
 * and has yet to give it. */
static inline bool tt_collective_needs_left(const struct tt_collective *c)
{
    return c->state == TT_COLLECTIVE_FETCH || (c->state == TT_COLLECTIVE_RECEIVE && c->copy.asked) ||
           (c->state == TT_COLLECTIVE_HANDSHAKE && c->copy.asked && !c->copy.may_keep);
}

/* Whether this rank's transmission begins with a release, of `least`. */
bool tt_collective_releases(const struct tt_collective *collective);

/* Whom it waits for most directly, for error messages; TT_RANK_NONE if it cannot tell. */
uint32_t tt_collective_waits_for(const struct tt_collective *collective);

/* Asserts what always holds of one that has been posted; while no thread feeds its streams. */
void tt_collective_check(const struct tt_collective *collective);

#endif
