/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A decorator over any mcast provider that drops received chunks at random, seeded (TUTTI_LOSS, TUTTI_SEED).
 *
 * The chunks of the start-up probe (TT_TAG_PROBE) pass: what is tested is how a group repairs losses, up to all of its
 * chunks, and a group whose probe was lost would not use multicast at all.
 */
#ifndef TT_FABRIC_LOSSY_H
#define TT_FABRIC_LOSSY_H

#include <stdint.h>

#include "fabric/mcast.h"

/*
 * Wraps `inner`, which belongs to the decorator from then on if this succeeds: destroy destroys both. Each queue drops
 * `loss_ppm` of a million chunks, independently; which ones is a function of the seed, the rank, how many queues were
 * attached before, and the order in which chunks arrive at it. loss_ppm over 1,000,000 is TUTTI_ERR_INVALID_ARGUMENT.
 */
tutti_status tt_lossy_create(struct tt_mcast *inner, uint32_t loss_ppm, uint64_t seed, struct tt_mcast **mcast);

#endif
