/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An object group in the engine: the machine (proto/object.h), its connections, its objects' memory and registrations.
 * It is one of the engine's parties, and belongs to the control context like a group, from whose ranks its members are;
 * the caller holds the lock in all of these. What its user has to do or to know comes as events, which are taken one by
 * one.
 */
#ifndef TT_ENGINE_OBJECTS_H
#define TT_ENGINE_OBJECTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/group.h"
#include "engine/party.h"
#include "proto/object.h"

enum tt_objects_event_type {
    TT_OBJECTS_INCOMING, /* sequence, size_bytes; answer: tt_objects_give or tt_objects_refuse */
    TT_OBJECTS_COMPLETE, /* sequence, size_bytes, memory: the memory is the user's again */
    TT_OBJECTS_FAILED,   /* so is all memory; the last event */
    TT_OBJECTS_CLOSED    /* every object has reached every member; the last event */
};

struct tt_objects_event {
    enum tt_objects_event_type type;
    uint64_t sequence, size_bytes;
    void *memory;
};

/* Of the groups of the same members all count alike. */
struct tt_objects_name {
    uint64_t key;     /* the same at all members, and of no other group */
    uint64_t members; /* a digest of them, in their order */
    uint32_t created; /* which group of just these it is, from 1 */
};

struct tt_objects_options {
    struct tt_objects_name name;
    const uint32_t *members; /* ranks; the own one is among them */
    uint32_t member_count;
    enum tt_rdmc_algorithm algorithm;
    const uint32_t *rack_firsts; /* hybrid only */
    uint32_t rack_count;
    uint32_t block_bytes; /* 0: by size */
    uint32_t credit;
    uint32_t object_count;  /* under way at once */
    uint32_t registrations; /* how many buffers nobody uses stay registered */
    bool may_leave;         /* without a close; see struct tt_object_config */
    struct tt_party *owner; /* is woken up by each step, and outlives the object group; NULL: there is none */
    uint64_t silence_ns, deadline_ns;
};

/* A registered buffer. */
struct tt_objects_buffer {
    void *address;
    uint64_t length_bytes;
    struct tt_p2p_memory *memory; /* NULL: the entry is free */
    uint32_t users;
    uint64_t last_use;
    uint32_t key_bytes;
    uint8_t key[TT_P2P_MAX_KEY_BYTES];
};

/* An object's memory, by sequence modulo the number of places. */
struct tt_objects_place {
    void *memory;
    uint64_t size_bytes;
    struct tt_objects_buffer *buffer; /* NULL: registered by whoever gave it */
    const uint8_t *key;
    uint32_t key_bytes;
};

/* A put that could not start, and is to be answered. */
struct tt_objects_refused {
    uint32_t member;
    uint64_t sequence;
};

struct tt_objects {
    struct tt_party party; /* first */
    struct tt_group *group;
    struct tt_party *owner; /* NULL: there is none */
    bool has_moved;         /* since the owner has looked */
    struct tt_object_group machine;
    struct tt_object_actions actions;
    bool carries_out;    /* these actions, so that no other step may be taken */
    const char *refusal; /* in this step, whose status is the user's and means whatever that does: why, or "" if only
                            the user knows; NULL: nothing is refused */
    uint32_t *members, *rack_firsts;
    struct tt_peer **peers; /* by the machine's peers */
    struct tt_objects_place *places;
    struct tt_objects_buffer *buffers;
    uint32_t buffer_count, kept_count;
    uint64_t buffer_uses;

    struct tt_objects_event *events; /* a ring */
    uint32_t event_first, event_count, event_capacity;
    uint64_t sent, given_back; /* objects of member 0: sent, and their completion taken */

    struct tt_objects_refused refused[TT_RDMC_LANE_COUNT * TT_OBJECT_MAX_CREDIT];
    uint32_t refused_count;
    tutti_status trouble; /* of the fabric, on this side: fails the group at the end of the step */
    bool joined;
    _Atomic bool has_events; /* release: something is to be taken, or the members have joined, or it has failed */
    _Atomic int failed_rank; /* -1: none */
    char failure_text[512];  /* set before the machine's status can be seen */
};

/* Creates and lists the group, and says so to the neighbours; local. Until `joined` nothing can be sent. */
tutti_status tt_objects_create(struct tt_group *group, const struct tt_objects_options *options,
                               struct tt_objects **objects);

/* The name of the next group of these members. */
tutti_status tt_objects_next_name(struct tt_group *group, const uint32_t *members, uint32_t member_count,
                                  struct tt_objects_name *name);

/* Waits until the members have joined, or the group has failed; returns its status. The lock is released meanwhile. */
tutti_status tt_objects_wait_joined(struct tt_objects *objects);

/* The group's status, with its sentence noted as the thread's error. */
tutti_status tt_objects_status(const struct tt_objects *objects);

/* Member 0: sends what stays where it is until its COMPLETE, or FAILED. BUSY while events wait to be taken, too. `key`:
 * that of the memory's registration, which stays as long; NULL: it is registered here. */
tutti_status tt_objects_send(struct tt_objects *objects, const void *data, uint64_t size_bytes, const uint8_t *key,
                             uint32_t key_bytes);

/* Answers INCOMING. Memory that cannot be registered refuses the object. The key as in send. `why`: "" if that is not
 * known. */
void tt_objects_give(struct tt_objects *objects, uint64_t sequence, void *memory, const uint8_t *key,
                     uint32_t key_bytes);
void tt_objects_refuse(struct tt_objects *objects, uint64_t sequence, tutti_status status, const char *why);

tutti_status tt_objects_close(struct tt_objects *objects);

/* Takes the oldest event; false: there is none. */
bool tt_objects_take(struct tt_objects *objects, struct tt_objects_event *event);

/* Gives up what has not ended, waits until nothing uses memory (the lock is released meanwhile), and frees the group.
 */
void tt_objects_leave(struct tt_objects *objects);

/* Asserts what holds between two calls. */
void tt_objects_check(const struct tt_objects *objects);

/* --- For the other files ------------------------------------------------------------------------------------------ */

extern const struct tt_party_ops tt_objects_ops;

/* Control: the machine gets an event, and what it asks for is carried out. */
tutti_status tt_objects_step(struct tt_objects *objects, struct tt_object_event *event);

/* --- objects_failure.c -------------------------------------------------------------------------------------------- */

/* Composes the sentence, logs it unless there is an owner, and notes whom it is about. */
void tt_objects_note_failure(struct tt_objects *objects, tutti_status status, uint32_t member);

/* --- objects_late.c ----------------------------------------------------------------------------------------------- */

/* Before a group that has failed while its members joined is freed: its connections, and what is to be said to members
 * that come later, are kept for these. Nothing of any other group. */
void tt_objects_keep_word(struct tt_objects *objects);

/* A frame of an object group that is not here, and whose connection it came by (NULL: not known). Returns whether it
 * was one for a group that something was kept of. A JOIN for any other is noted at the connection. */
bool tt_objects_answer_late(struct tt_engine *engine, struct tt_peer *peer, uint64_t key, const uint8_t *bytes,
                            uint32_t length_bytes);

/* Forgets what was kept of the group's object groups. */
void tt_objects_forget(struct tt_group *group);

/* --- objects_memory.c --------------------------------------------------------------------------------------------- */

/* Registers the place's memory, or finds it registered, if it has no key; and lets go of it. */
tutti_status tt_objects_register(struct tt_objects *objects, struct tt_objects_place *place);
void tt_objects_unregister(struct tt_objects *objects, struct tt_objects_place *place);
void tt_objects_release_all(struct tt_objects *objects);

#endif
