/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What two hosts do with each other in a step of `tutti doctor --job`: one asks and measures, the other serves. No step
 * takes longer than TT_DOCTOR_STEP_NS, whatever is lost.
 */
#ifndef TT_CLI_DOCTOR_EXCHANGE_H
#define TT_CLI_DOCTOR_EXCHANGE_H

#include "base/clock.h"
#include "cli/doctor_paths.h"
#include "cli/doctor_socket.h"

#define TT_DOCTOR_STEP_NS (3 * TT_NS_PER_S)

struct tt_doctor_partner {
    struct sockaddr_in address;
    uint16_t index; /* of the host */
};

/* Answers one partner until it says that it is done, or has been silent for long. Returns how many pings came. */
uint32_t tt_doctor_serve(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner,
                         const uint32_t *sizes, uint32_t size_count);

/* Round trip and the largest payload from here to the partner: sets round_trip_ns and payload_bytes, 0 for nothing. */
void tt_doctor_reach(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner, const uint32_t *sizes,
                     uint32_t size_count, struct tt_path *path);

/* Rate and loss from the partner to here, with datagrams of at most `payload_bytes`: sets rate_kbit, sent, lost and
 * overflowed. */
void tt_doctor_measure(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner, uint32_t payload_bytes,
                       struct tt_path *path);

/* Calls by multicast, and notes in heard[host] who calls, of `host_count` hosts which do the same. Not longer than a
 * second. */
void tt_doctor_call(struct tt_doctor_socket *doctor, uint32_t host_count, bool *heard);

#endif
