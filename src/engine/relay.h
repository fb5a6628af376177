/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Relays: object groups of all ranks of a group, through which its broadcasts go that are moved by blocks. There is one
 * for each root and method in use, made with the first request that needs it. Its objects are the requests in the order
 * in which they are posted, which is the same on all ranks. Everything here belongs to the control context.
 */
#ifndef TT_ENGINE_RELAY_H
#define TT_ENGINE_RELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/objects.h"
#include "engine/request.h"

struct tt_relay {
    struct tt_relay *next; /* in the group's list */
    struct tt_group *group;
    struct tt_objects *objects;
    enum tt_method method;
    uint32_t root;
    uint64_t posted; /* requests: the number of the next one */
    uint64_t sent;   /* of these, at the root */
};

/* The relay for these, made if there is none. It lives as long as the group. */
tutti_status tt_relay_find(struct tt_group *group, enum tt_method method, uint32_t root, struct tt_relay **relay);

/* Numbers a request that is being posted. */
void tt_relay_post(struct tt_request *request);

/* RELAY, UNRELAY. */
void tt_relay_start(struct tt_request *request);
void tt_relay_cancel(struct tt_request *request);

/* Whether the request's RELAY, or UNRELAY, is to be answered. */
bool tt_relay_answers(const struct tt_request *request);

/* Carries out what the relays' object groups ask for; returns whether there was anything. */
bool tt_relays_progress(struct tt_engine *engine);

/* Leaves all of a group's. */
void tt_relays_leave(struct tt_group *group);

#endif
