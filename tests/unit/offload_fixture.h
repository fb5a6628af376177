/* SPDX-License-Identifier: BSD-3-Clause */
/* One triggered engine, stepped by hand: descriptors and packets are written field by field, actions are kept. */
#ifndef OFFLOAD_FIXTURE_H
#define OFFLOAD_FIXTURE_H

#include "offload/offload.h"

enum { FIXTURE_NODE = 100, FIXTURE_JOB = 7, FIXTURE_PACKET_BYTES = 64, FIXTURE_MOST_DESCRIPTORS = 64 };

struct offload_fixture {
    struct tt_offload *offload;
    struct tt_offload_terms terms;
    struct tt_offload_action actions[64];
    uint32_t action_count, capacity;
    uint64_t now_ns;
};

/* A unit with room for `slots` packets; terms may be changed before it is opened. */
void offload_fixture_init(struct offload_fixture *fixture, uint32_t unit_count, uint32_t slots);
void offload_fixture_open(struct offload_fixture *fixture);
void offload_fixture_close(struct offload_fixture *fixture);

/* Sums of int64. */
extern struct tt_reduction offload_fixture_sums; /* of int64, once a fixture was made */

/* Completes the descriptors (C, CH, CT, CPCount, JobID, SourceVP) and encodes them to `bytes`. */
void offload_fixture_write(struct tt_descriptor *descriptors, uint64_t count, uint16_t port, uint8_t *bytes);

/* Writes and posts them, then takes a step, whose actions are kept. The bytes are static: one for each port. */
tutti_status offload_fixture_post(struct offload_fixture *fixture, uint16_t port, struct tt_descriptor *descriptors,
                                  uint64_t count, void *buffer, uint64_t buffer_bytes, uint64_t cookie);

/* One step with a data packet from a node. `reply` is what it was answered with; 0: a REMOTE one, and nothing yet. */
tutti_status offload_fixture_packet(struct offload_fixture *fixture, const struct tt_trigger_packet *packet,
                                    const void *payload, enum tt_trigger_kind *reply);

/* A packet of FIXTURE_JOB, from the node's port 0. */
struct tt_trigger_packet offload_fixture_data(uint32_t node, uint16_t port, uint8_t sequence, uint32_t length_bytes);

/* Answers what was sent by an action of the last step. */
tutti_status offload_fixture_answer(struct offload_fixture *fixture, const struct tt_offload_action *sent,
                                    enum tt_trigger_kind kind);

/* One step with the answer to a FETCH of an earlier step, whose data is at the destination, or at `payload` if that is
 * not NULL. `reply` is what its packet was answered with. */
void offload_fixture_fetched(struct offload_fixture *fixture, const struct tt_offload_action *fetch,
                             const void *payload, tutti_status status, enum tt_trigger_kind *reply);

void offload_fixture_tick(struct offload_fixture *fixture, uint64_t now_ns);

/* The last step's action number `index` of a kind; data packets and answers are told apart. NULL: none. */
const struct tt_offload_action *offload_fixture_sent(const struct offload_fixture *fixture, uint32_t index);
const struct tt_offload_action *offload_fixture_fetch(const struct offload_fixture *fixture, uint32_t index);
const struct tt_offload_action *offload_fixture_ended(const struct offload_fixture *fixture, uint32_t index);

#endif
