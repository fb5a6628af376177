/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creating a group: a few rounds of an allgather that somebody else provides, and local steps between them. The rounds
 * are separate so that the simulator can play the allgather for many ranks in one thread:
 *
 *     begin;  while (!done) { produce -> allgather of tt_setup_bytes() bytes -> consume };  probe;  take
 *
 * Round HELLO: who is on which host with which interfaces and settings. Round ADDRESS: the p2p address, from which
 * connections to the neighbours are made. Round ATTACH (again with another port where one was taken): whether the
 * multicast queues stand. A failure anywhere travels in the next round, so that all ranks fail together and name the
 * rank that began. From then on the p2p network carries the probe, and ranks that die are noticed as in any collective.
 */
#ifndef TT_ENGINE_SETUP_H
#define TT_ENGINE_SETUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/group.h"
#include "tutti/status.h"

struct tt_setup;

/* Whether groups of this engine multicast where the network lets them: the setting ALGORITHM has not switched it off.
 */
bool tt_setup_may_multicast(const struct tt_engine *engine);

/*
 * The caller holds the engine's lock, but for produce and consume (bytes and done do not need it): these take it
 * themselves, and do without it what may
 * take seconds (a name server, devices whose GID is not there yet, opening a device), since others go on meanwhile.
 */
tutti_status tt_setup_begin(struct tt_engine *engine, uint32_t rank, uint32_t size, struct tt_setup **setup);

/*
 * The others of a rank that cannot begin wait in the first round's allgather: TT_SETUP_FIRST_BYTES with which it takes
 * part in that, so that all end with its status. No round has more than TT_SETUP_MOST_BYTES a rank.
 */
enum { TT_SETUP_FIRST_BYTES = 40, TT_SETUP_MOST_BYTES = 4168 };
void tt_setup_decline(uint32_t rank, tutti_status status, uint8_t bytes[TT_SETUP_FIRST_BYTES]);

/* What this rank contributes to the next round; the same length on every rank. Without the lock. */
size_t tt_setup_bytes(const struct tt_setup *setup);
void tt_setup_produce(struct tt_setup *setup, void *bytes);

/* Takes all ranks' contributions. Without the lock. On an error the setup can only be ended. */
tutti_status tt_setup_consume(struct tt_setup *setup, const void *all);
bool tt_setup_done(const struct tt_setup *setup);

/* Starts the probe; then progress until probed or failed. */
void tt_setup_probe(struct tt_setup *setup);
bool tt_setup_probed(const struct tt_setup *setup);

/* After the probe: the group, or the error that it ended with; frees the setup. */
tutti_status tt_setup_take(struct tt_setup *setup, struct tt_group **group);

/* The probe did not end in time: names whom it waited for. Returns the error; the setup still has to be ended. */
tutti_status tt_setup_timed_out(struct tt_setup *setup);

/* Ends for a reason that only this rank may know: the others are told, and everything is freed. */
void tt_setup_give_up(struct tt_setup *setup, tutti_status status);

/* Frees everything; the others hear no more than that this rank has left. */
void tt_setup_end(struct tt_setup *setup);

/* Asserts what holds between two calls. */
void tt_setup_check(const struct tt_setup *setup);

#endif
