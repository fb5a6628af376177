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

/* What moves requests that have one. */
extern const struct tt_carrier tt_relay_carrier;

/* Whether an object group has moved since the relays were last looked at. They wake the group up for that. */
bool tt_relays_have_moved(const struct tt_group *group);

/* Carries out what the relays' object groups ask for; returns whether there was anything. */
bool tt_relays_progress(struct tt_group *group);

/* Leaves all of a group's. */
void tt_relays_leave(struct tt_group *group);

/* Asserts what holds between two calls. */
void tt_relay_check(const struct tt_relay *relay);

#endif
