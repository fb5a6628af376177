/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group in the engine: the member machine, the multicast queues with their receive kernels, the connections, and the
 * requests in progress. It is one of the engine's parties (group_party.c). Everything here belongs to the control
 * context, but for what worker.h says about queues.
 */
#ifndef TT_ENGINE_GROUP_H
#define TT_ENGINE_GROUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/copies.h"
#include "engine/directory.h"
#include "engine/engine.h"
#include "engine/locality.h"
#include "engine/party.h"
#include "engine/queue.h"
#include "plan/choice.h"
#include "proto/member.h"
#include "tutti/tutti.h"

struct tt_relay;
struct tt_request;
struct tt_triggers;

/* How many object groups of the same members have been created. */
struct tt_objects_count {
    struct tt_objects_count *next;
    uint64_t digest, created;
};

struct tt_host_name {
    char text[TT_LOCALITY_NAME_BYTES];
};

struct tt_group {
    struct tt_party party; /* first */
    struct tt_engine *engine;
    uint64_t heard_ns; /* chunks came, or something was posted, at last */
    struct tt_network *network;
    uint64_t refused_before; /* connections of others, before there was the group; see tt_failure_begin */
    uint32_t rank, size, local_ranks;
    uint32_t chunk_bytes, chains;
    struct tt_choice choice; /* which method serves which size: rank 0's table */
    bool multicast;          /* gets through to everybody */
    bool probed;
    bool warned_of_psns;                        /* that a collective has too many chunks to be multicast */
    uint32_t probe_deaf_rank, probe_deaf_count; /* the lowest rank that did not hear somebody, and how many there are */
    uint32_t probe_failed_rank; /* a rank whose multicast did not get through to somebody, or TT_RANK_NONE */
    void *probe_payload;        /* chunk_bytes of zeros */
    struct tt_member member;
    uint32_t port_roots;  /* of all ranks: the most whose chunks come through one host's port */
    uint32_t queue_count; /* subgroups */
    struct tt_queue *queues;
    struct tt_peer **peers;    /* by rank; NULL for those that are not connected */
    struct tt_request *active; /* list of posted requests that have not finished, in the order of their posts */
    struct tt_request **active_end;
    uint32_t request_count;    /* initialized and not finalized */
    uint32_t unheard_count;    /* collectives in a row of which no chunk came by multicast from other hosts */
    uint64_t unheard_chunks;   /* of these */
    uint64_t join_again_ns;    /* when it joins its subgroups again, if nothing is heard by then */
    uint64_t afar;             /* chunks without a stream that had come from there when it became deaf */
    bool more;                 /* the member has more to ask for */
    tutti_status trouble;      /* of the fabric, on this side: fails the group at the end of the step */
    tutti_status misfit;       /* of messages: trouble, unless a gate finds a better reason */
    uint32_t trouble_rank;     /* which rank is missed, if it is PEER_FAILED; TT_RANK_NONE */
    bool unsettled;            /* it has begun something in this progress, and what follows from it is to come */
    bool stepping_needed;      /* chunks came, or a carrier answers: the machine has not seen it */
    _Atomic int failed_rank;   /* for tutti_group_failed_rank; -1: none */
    _Atomic bool failure_told; /* a call has returned it */
    char failure_text[512];    /* set with failed, before any request ends with it */
    _Atomic bool failed;

    struct tt_directory directory;
    struct tt_objects_count *objects_counts; /* list, by members */
    uint32_t objects_count;                  /* object groups created by the user and not destroyed */
    struct tt_relay *relays;                 /* list */
    struct tt_triggers *triggers;            /* NULL: no request has needed them */
    uint64_t *hosts;                         /* by rank: the same for ranks of one host */
    uint32_t *around;                        /* a ring's ranks, those of a host in a row; NULL: as they are numbered */
    struct tt_host_name *names;              /* by rank, of their hosts; NULL: all are on one, or simulated */

    /* Memory of the member. */
    struct tt_member_slot *slots;
    uint8_t *present;
    uint64_t *speakers;      /* a bit a rank: who multicasts probes */
    _Atomic uint64_t *heard; /* queue_count * words */
    struct tt_eager_entry *copy_entries;
    struct tt_copies copies; /* where there is multicast */

    /* Counters that are not somebody else's. */
    _Atomic uint64_t frames_sent, frames_received, frame_bytes_sent, frame_bytes_received, bytes_served, bytes_fetched;
    _Atomic uint64_t chunks_repaired, chunks_fetched, cutoffs, repair_rounds, credit_stalls, drops_frame;
    _Atomic uint64_t drops_sender; /* frames that named a rank which did not send them; object groups' too */
};

/* Makes a group with a key one of its engine's parties, as tt_party_list; or no more. */
tutti_status tt_group_list(struct tt_group *group);
void tt_group_unlist(struct tt_group *group);

/* NULL: the party is something else. */
struct tt_group *tt_group_of(struct tt_party *party);

/* Whether something is in progress, or others may still need this rank: its copies, a packet again, or an answer. */
bool tt_group_owes(const struct tt_group *group);

/* The same for the engine, after each step, as the progress thread looks after a group that owes something while the
 * application stays away: a request may end before what it sent is answered, and answers are held. */
void tt_group_note_owes(struct tt_group *group);

/* Whether others may need it; in a group that has failed not for what its triggered collectives left. */
bool tt_group_is_needed(const struct tt_group *group);

/* One member step and all that follows from it. */
void tt_group_step(struct tt_group *group, const struct tt_member_event *event);

/* The same, but the progress of the group that comes next sees to what follows from it, when it has sent what it may.
 */
void tt_group_begin(struct tt_group *group, const struct tt_member_event *event);

/* Whether there are requests in progress, and all of them are small collectives, which are over within a few rounds. */
bool tt_group_awaits_little(const struct tt_group *group);

/* Whether its queues were found empty, and have descriptors that say when they no longer are. */
bool tt_group_is_empty(const struct tt_group *group);

/* Sends what frames have allowed, and nothing else; returns whether anything happened. */
bool tt_group_send(struct tt_group *group, uint64_t now_ns);

/* Moves the group along; returns whether anything happened. Without `looks` it leaves alone what has come (with workers
 * these look). */
bool tt_group_progress(struct tt_group *group, uint64_t now_ns, bool looks);

/* Without workers: takes what chunks have come; whether there were any. */
bool tt_group_receive(struct tt_group *group, uint64_t now_ns);

/*
 * A rank that has ended an eager collective may be asked for its data later: stays until nobody can, but not for longer
 * than a few seconds. The caller holds the lock, which may be released meanwhile.
 */
void tt_group_settle(struct tt_group *group);

/* Says goodbye, takes the group out of the engine, and frees it. The caller holds the lock, which is released while
 * what has been sent leaves. */
void tt_group_leave(struct tt_group *group);

/* Frees a group that is not in the engine's list; any of its parts may be missing. */
void tt_group_free(struct tt_group *group);

/* One of the group's own counters, which control alone writes and anybody may read. */
static inline void tt_group_count(_Atomic uint64_t *counter, uint64_t more)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + more, memory_order_relaxed);
}

void tt_group_read_counters(const struct tt_group *group, struct tutti_counters *counters);

/* Asserts what holds between two calls, in the group and in its requests, queues and relays. */
void tt_group_check(const struct tt_group *group);

#endif
