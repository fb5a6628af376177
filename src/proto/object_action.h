/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an object group's machine asks its surroundings to do. A step writes a list; the surroundings carry it out in
 * order before the next step.
 */
#ifndef TT_PROTO_OBJECT_ACTION_H
#define TT_PROTO_OBJECT_ACTION_H

#include <assert.h>
#include <stdint.h>

#include "tutti/status.h"
#include "wire/object_frame.h"

enum tt_object_action_type {
    TT_OBJECT_DO_SEND,     /* `frame` to member `to`; for READY add the address of the object's memory to the one in the
                              frame (the block's offset), and fill in the key. To a peer that is gone: nothing. */
    TT_OBJECT_DO_PUT,      /* from the object's memory to member `to`; answer: PUT_DONE, also if it cannot start */
    TT_OBJECT_DO_INCOMING, /* memory for this object, registered; answer: MEMORY or REFUSE. After FAILED an answer is
                              allowed, and after FINISH void: memory that was given stays the surroundings' own. */
    TT_OBJECT_DO_COMPLETE, /* the object is whole; its memory is the surroundings' again. At member 0: may be reused. */
    TT_OBJECT_DO_RELEASE,  /* the group has failed; the memory is the surroundings' again, what it holds is nothing */
    TT_OBJECT_DO_ABANDON,  /* break the connection to `to`: it ends the puts that are under way there and here, at the
                              price of all groups that use it; answer: PUT_DONE for each that was started here */
    TT_OBJECT_DO_JOINED,   /* the neighbours are there; at member 0: everybody is */
    TT_OBJECT_DO_FAIL,     /* tell the application: finish.status, and member; FINISH comes when all is released */
    TT_OBJECT_DO_FINISH    /* the group has ended: closed if finish.status is TUTTI_OK, else as FAIL said */
};

struct tt_object_action {
    enum tt_object_action_type type;
    uint32_t to;       /* member */
    uint64_t sequence; /* of the object */
    union {
        struct tt_object_frame frame;
        struct {
            uint64_t remote_address, offset_bytes, length_bytes, immediate; /* offset: in the object */
            const uint8_t *key; /* the machine's; stays until the next step */
            uint32_t key_bytes;
        } put;
        struct {
            uint64_t size_bytes;
        } incoming;
        struct {
            tutti_status status;
            uint32_t member; /* whom an error is about, or TT_OBJECT_NO_MEMBER */
        } finish;
    } body;
};

struct tt_object_actions {
    uint32_t count;
    uint32_t capacity; /* at least tt_object_actions_capacity(config) */
    struct tt_object_action *list;
};

static inline struct tt_object_action *tt_object_actions_add(struct tt_object_actions *actions,
                                                             enum tt_object_action_type type, uint32_t to,
                                                             uint64_t sequence)
{
    struct tt_object_action *action = &actions->list[actions->count];

    assert(actions->count < actions->capacity);
    actions->count++;
    action->type = type;
    action->to = to;
    action->sequence = sequence;
    return action;
}

#endif
