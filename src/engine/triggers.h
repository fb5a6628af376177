/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group's triggered engine (offload/offload.h) over p2p: it is one of the engine's parties, made with the first
 * request that needs it, and carries out the group's collectives of such methods one behind the other on the same
 * ports, in the order in which they are posted, which is the same on all ranks. Packets go as frames, of some KiB as
 * several; what is longer is put into a slot of whoever reads it, if there is one that is known and free, else it stays
 * where it is, and whoever reads it gets a reference.
 *
 * Everything here belongs to the control context.
 */
#ifndef TT_ENGINE_TRIGGERS_H
#define TT_ENGINE_TRIGGERS_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/group.h"
#include "engine/party.h"
#include "engine/request.h"
#include "offload/offload.h"
#include "offload/operation.h"
#include "offload/pulse.h"
#include "wire/trigger_frame.h"

enum {
    TT_TRIGGERS_PORTS = 4,                 /* pulses of a collective that are in flight */
    TT_TRIGGERS_HELD = 4,                  /* answers to one rank, which go when there are so many */
    TT_TRIGGERS_MESSAGE_BYTES = 64 * 1024, /* the longest operand of a descriptor */
    TT_TRIGGERS_INLINE_BYTES = 32 * 1024,  /* that is sent rather than announced, where that is a frame */
    TT_TRIGGERS_PIECED_BYTES = 16 * 1024,  /* and where it takes several; both in groups that are not large */
    TT_TRIGGERS_LEAST_BYTES = 2048,        /* in any group */
    TT_TRIGGERS_ROOM_BYTES = 2048 * 1024,  /* for packets that come early; what finds no room is sent again */
    TT_TRIGGERS_COPIES = 8, /* of what a port has sent: answered late, so the rest of the window is for others */
    TT_TRIGGERS_ACTIONS = 64
};

/* Whom this rank exchanges packets with. */
struct tt_triggers_peer {
    struct tt_peer *peer;   /* NULL: not connected */
    bool is_down;           /* its connection is gone, because it has left or has failed */
    bool is_missed;         /* something could not be fetched from it */
    uint8_t *bytes;         /* the payload that is coming from it piece by piece; NULL: none does */
    uint32_t come;          /* of that */
    uint32_t held_count;    /* answers that nobody waits for: they go with what is sent to it next */
    uint64_t held_since_ns; /* the first of them */
    struct tt_trigger_packet held[TT_TRIGGERS_HELD];
};

/* Memory that others read under a key. */
struct tt_triggers_region {
    const uint8_t *address;
    uint64_t length_bytes;
    struct tt_p2p_memory *memory; /* NULL: nothing is registered */
    uint32_t key_bytes;
    uint8_t key[TT_P2P_MAX_KEY_BYTES];
};

enum { TT_TRIGGERS_REGIONS = 2 };

/* A request's part. Its memory is the request's. */
struct tt_triggered {
    struct tt_triggered *next; /* posted after it */
    struct tt_request *request;
    struct tt_schedule schedule;
    struct tt_blocks blocks;
    struct tt_operation_terms terms;
    struct tt_operation operation;
    void *memory;         /* the operation's */
    void *scaled;         /* what this rank gives times its factor, where that is not done in the vector; or NULL */
    uint64_t first_bytes; /* of the vector, that its buffer begins with */
    struct tt_triggers_region regions[TT_TRIGGERS_REGIONS];
    uint32_t putting; /* of what is sent, into slots of others */
    bool is_queued, is_started;
};

/*
 * Slots, one for each message that is under way and one for each whose answer is. A ring has one source and one target
 * at each rank, and its messages are long: only the rank before this one there puts anything here.
 */
enum { TT_TRIGGERS_SLOTS = 2 * TT_TRIGGERS_PORTS, TT_TRIGGERS_PUTS = 2 * TT_TRIGGERS_SLOTS };

/* This rank's own. */
struct tt_triggers_slots {
    uint8_t *bytes;               /* TT_TRIGGERS_MESSAGE_BYTES each */
    struct tt_p2p_memory *memory; /* NULL: there are none */
    uint32_t source;              /* the rank that puts */
    uint64_t loans;               /* of all slots: each has a number, which is in its immediate */
    uint64_t immediates[TT_TRIGGERS_SLOTS];
    uint32_t given;                     /* a bit a slot: the source may put there, or has */
    uint32_t landed;                    /* it has, and nobody has read it */
    uint8_t of_port[TT_TRIGGERS_PORTS]; /* within a step: which one it reads, plus 1; 0: none */
    uint32_t key_bytes;
    uint8_t key[TT_P2P_MAX_KEY_BYTES];
};

/* The next rank's that are free. `rank` is the own one while there is no ring. */
struct tt_triggers_targets {
    uint32_t rank, count;
    struct {
        uint64_t immediate, address;
    } free[TT_TRIGGERS_SLOTS];
    uint32_t key_bytes;
    uint8_t key[TT_P2P_MAX_KEY_BYTES];
};

/* A message that was put. It is over when its packet is answered and its memory is free again. */
struct tt_triggers_put {
    uint32_t rank;
    uint64_t key; /* of the packet */
    uint64_t immediate;
    bool is_unanswered;
    struct tt_triggered *of; /* NULL: the memory is free */
};

struct tt_triggers {
    struct tt_party party; /* first */
    struct tt_group *group;
    struct tt_offload *offload;
    void *memory;
    struct tt_pulses pulses;
    struct tt_triggers_peer *peers;      /* by rank */
    uint32_t inline_bytes;               /* what is longer is announced: the same at all ranks */
    uint32_t piece_bytes;                /* of a packet, in one frame */
    struct tt_triggered *first;          /* list: posted and not over, oldest first */
    struct tt_triggered **last;          /* its end */
    uint32_t next_lane;                  /* of the next one that is posted: the first of its ports */
    uint8_t next_job;                    /* and its JobID, so that keys come again after 256 of them only */
    uint32_t held_count;                 /* answers, for all ranks */
    uint64_t held_due_ns;                /* none goes by itself before; TT_NEVER: there are none */
    bool misses;                         /* a peer is_missed, and what needed it may be over */
    uint32_t fetching;                   /* a bit a port: a get is under way */
    uint32_t answered;                   /* a bit a port: what it fetches is there, or could not be fetched */
    uint32_t sources[TT_TRIGGERS_PORTS]; /* which ranks they read from */
    struct tt_triggers_slots slots;
    struct tt_triggers_targets targets;
    struct tt_triggers_put puts[TT_TRIGGERS_PUTS];
    uint32_t down_count;  /* ranks */
    uint64_t patience_ns; /* given up: when connections are broken that gets do not end on; else TT_NEVER */
    bool steps;           /* one is under way */
    bool has_told;        /* whom it is connected to, that the group has failed */
    struct tt_offload_action actions[TT_TRIGGERS_ACTIONS];
};

/* The longest piece of a packet in a frame of so many bytes, and the longest operand that is sent rather than announced
 * with such frames in a group of so many ranks. */
uint32_t tt_triggers_piece_bytes(uint32_t frame_bytes);
uint32_t tt_triggers_inline_bytes(uint32_t frame_bytes, uint32_t size);

/* The group's, made if there is none. It lives as long as the group. */
tutti_status tt_triggers_find(struct tt_group *group, struct tt_triggers **triggers);

/* Connects the ranks that this one sends to or reads from by the schedule, and makes slots if there is use for them. */
tutti_status tt_triggers_connect(struct tt_triggers *triggers, const struct tt_triggered *triggered);

/* Its turn comes when those before it have all their pulses under way; being posted, being started. */
void tt_triggers_queue(struct tt_triggers *triggers, struct tt_triggered *triggered);
void tt_triggers_start(struct tt_triggers *triggers, struct tt_triggered *triggered);

/* Not any more, and it was not started. */
void tt_triggers_forget(struct tt_triggers *triggers, struct tt_triggered *triggered);

/* Ends all that is under way with this status; what others read here has to be taken from them by the caller. */
void tt_triggers_cancel(struct tt_triggers *triggers, tutti_status status);

/* Sends the answers that are held: all, of which NULL has none; and those that are to go by themselves by then. */
void tt_triggers_flush(struct tt_triggers *triggers);
void tt_triggers_flush_due(struct tt_triggers *triggers, uint64_t due_ns);

/* The group has failed: says so, once, to those that are no neighbours there, but have packets from here. Else they
 * could take this rank, which may leave now, for the one that has failed. NULL is allowed. */
void tt_triggers_tell_failure(struct tt_triggers *triggers);

/* The connection to a rank that is no neighbour; NULL: there is none. `triggers` may be NULL. */
const struct tt_peer *tt_triggers_peer(const struct tt_triggers *triggers, uint32_t rank);

/* Something could not be fetched from a rank, or put there: should it be down, or go down, the group has failed. */
static inline void tt_triggers_miss(struct tt_triggers *triggers, uint32_t rank)
{
    triggers->peers[rank].is_missed = triggers->misses = true;
}

/* Whether it executes something. NULL is allowed. */
static inline bool tt_triggers_are_under_way(const struct tt_triggers *triggers)
{
    return triggers != NULL && triggers->first != NULL && triggers->first->is_started;
}

/* Whether nobody is owed a packet again, or an answer. NULL is allowed. */
bool tt_triggers_are_settled(const struct tt_triggers *triggers);

/* Frees it; nothing may be under way. NULL is allowed. */
void tt_triggers_leave(struct tt_triggers *triggers);

/* Asserts what holds between two calls. */
void tt_triggers_check(const struct tt_triggers *triggers);

/* --- triggers_carry.c: what the engine asks for, carried out ------------------------------------------------------ */

void tt_triggers_carry_out(struct tt_triggers *triggers, const struct tt_offload_actions *actions);

/* The group fails with this at its next step, because of that rank; TT_RANK_NONE: for a reason on this side, or it is
 * not known which. */
void tt_triggers_note_trouble(struct tt_triggers *triggers, tutti_status status, uint32_t rank);

/* --- triggers_slots.c: slots of this rank, and of the next one ------------------------------------------------------
 */

/* Slots for what that rank sends, if there are none. If they cannot be had either, what is long is announced. */
void tt_triggers_slots_make(struct tt_triggers *triggers, uint32_t source);

/* Frees them. Nobody waits for what is put there. */
void tt_triggers_slots_end(struct tt_triggers *triggers);

/* What an answer to that rank has behind it: a slot that is free. Returns its bytes; 0: there is none for it. */
uint32_t tt_triggers_slots_give(struct tt_triggers *triggers, uint32_t rank, void *reference);

enum { TT_TRIGGERS_SLOT_PACKET_BYTES = TT_TRIGGER_PACKET_BYTES + 8 }; /* with its reference, the immediate */

/* A put has raised this in its immediate, with these bytes. Sets *packet, and `whole` to its bytes with the reference.
 * False: nobody who puts something here has sent that. */
bool tt_triggers_slots_landed(struct tt_triggers *triggers, uint64_t immediate, const uint8_t *bytes,
                              uint32_t length_bytes, uint8_t whole[TT_TRIGGERS_SLOT_PACKET_BYTES],
                              struct tt_trigger_packet *packet);

/* The port reads what that rank has put with this immediate: it is `answered`. False: there is nothing of that rank's.
 */
bool tt_triggers_slots_fetch(struct tt_triggers *triggers, uint32_t port, uint32_t rank, uint64_t immediate);

/* What the port fetches, if it is in a slot; else NULL. */
const void *tt_triggers_slots_data(const struct tt_triggers *triggers, uint32_t port);

/* The engine has read what the port fetched; nothing happens if it is from no slot. */
void tt_triggers_slots_read(struct tt_triggers *triggers, uint32_t port);

/* A slot of that rank's has come behind an answer that was waited for. */
void tt_triggers_slots_take(struct tt_triggers *triggers, uint32_t rank, const void *reference, uint32_t length_bytes);

/* Whether the operand of a packet to that rank has been put into a slot there, and with which immediate: what was
 * refused is sent again without it. */
bool tt_triggers_slots_hold(struct tt_triggers *triggers, uint32_t rank, const struct tt_trigger_packet *packet,
                            uint64_t *immediate);

/* Puts an operand that is to be sent into a slot of its reader's, and its packet goes with it; `triggered` does not end
 * before its memory is free. False: there is none. */
bool tt_triggers_slots_put(struct tt_triggers *triggers, const struct tt_offload_action *action,
                           struct tt_triggered *triggered);

/* The packet that this answers is accepted. */
void tt_triggers_slots_answered(struct tt_triggers *triggers, const struct tt_trigger_packet *reply);

/* A put is done. One that another rank has refused, or that ended with its connection, is that rank's failure; all else
 * is the group's trouble. */
void tt_triggers_slots_put_done(struct tt_triggers *triggers, uint64_t index, tutti_status status);

/* Gives up the connections on which puts do not end. */
void tt_triggers_slots_abandon(struct tt_triggers *triggers);

void tt_triggers_slots_check(const struct tt_triggers *triggers);

/* --- triggered.c: a request's part -------------------------------------------------------------------------------- */

/* Prepares a request whose method is by triggers; in one rank's group there is no engine, and data is only copied. */
tutti_status tt_triggered_create(struct tt_request *request);
void tt_triggered_destroy(struct tt_request *request);

/* All of its pulses have ended. */
void tt_triggered_ended(struct tt_triggered *triggered, tutti_status status);

/* What moves such requests. */
extern const struct tt_carrier tt_triggered_carrier;

#endif
