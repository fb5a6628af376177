/* SPDX-License-Identifier: BSD-3-Clause */
/* A group's ring of copies of eager collectives (proto/eager.h), or, where nothing is multicast, its log of what comes
 * early down trees. Control's. */
#ifndef TT_ENGINE_COPIES_H
#define TT_ENGINE_COPIES_H

#include <stdint.h>

#include "engine/network.h"

struct tt_copies {
    uint8_t *memory; /* TT_EAGER_LOG_BYTES, of which the ring is the first ones; NULL: a group of one rank */
    struct tt_p2p_memory *registration;
    uint32_t key_bytes;
    uint8_t key[TT_P2P_MAX_KEY_BYTES];
};

/* Allocates, and registers the ring with the network, if there is one (else NULL). NO_MEMORY, or what the fabric says.
 */
tutti_status tt_copies_init(struct tt_copies *copies, struct tt_network *network);

/* May be called for one that is all zeros. */
void tt_copies_fini(struct tt_copies *copies);

/* Asserts what holds of one that is initialized, or all zeros. */
void tt_copies_check(const struct tt_copies *copies);

#endif
