/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An engine on a network of the scenario's own: what is posted ends when the network has brought its frame, one each.
 * The engine's functions are the real ones; the party that they drive is here.
 */
#ifndef TT_TESTS_EXPLORE_ENGINE_WORLD_H
#define TT_TESTS_EXPLORE_ENGINE_WORLD_H

#include "engine/engine.h"

enum { WORLD_REQUESTS = 2 };

extern struct tt_engine world_engine;
extern struct tt_party world_party; /* awake only where a scenario says so */

extern struct world_request {
    struct tt_post post;
    _Atomic bool done;
} world_requests[WORLD_REQUESTS];

/* A new one, in which so many of the requests, the first ones, are in progress already. */
void world_begin(uint32_t in_progress);

/* All requests must have ended that are in progress. */
void world_end(void);

/* Writes to this descriptor when all requests have ended that are in progress. */
void world_rings_at_end(int fd);

/* Wakes the party up: with every look control calls `moves`, which returns whether anything did, and before it sleeps
 * `wants`, whether a worker has something for it. */
void world_wakes(bool (*moves)(void), bool (*wants)(void));

/* It is looked at no more. */
void world_sleeps(void);

/* Makes a descriptor readable. */
void world_ring(int fd);

/* The network's thread: the next frame, which ends the next request. */
void world_arrive(void);

#endif
