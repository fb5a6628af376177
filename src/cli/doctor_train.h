/* SPDX-License-Identifier: BSD-3-Clause */
/* Trains of datagrams between two hosts, for the rate and the loss of the path. */
#ifndef TT_CLI_DOCTOR_TRAIN_H
#define TT_CLI_DOCTOR_TRAIN_H

#include "cli/doctor_exchange.h"

/* Waits for a datagram of this kind and number from the partner; skips all others. */
bool tt_doctor_expect(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner, uint16_t kind,
                      uint32_t number, uint64_t deadline_ns, struct tt_doctor_datagram *datagram);

/* Sends what was ordered, and its end. */
void tt_doctor_send_train(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner,
                          const struct tt_doctor_header *order);

/* Orders longer and longer trains, until one takes long enough to tell. kbit/s; 0: nothing came. *trains counts what
 * was ordered in this step. */
uint32_t tt_doctor_find_rate(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner,
                             uint32_t payload_bytes, uint64_t end_ns, uint32_t *trains);

/* Orders one that is well below path->rate_kbit; sets sent, lost and overflowed. */
void tt_doctor_find_loss(struct tt_doctor_socket *doctor, const struct tt_doctor_partner *partner,
                         uint32_t payload_bytes, uint64_t end_ns, uint32_t *trains, struct tt_path *path);

#endif
