/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A group's directory: which engine every rank is, and its p2p address, so that ranks that are no neighbours can be
 * connected later on.
 */
#ifndef TT_ENGINE_DIRECTORY_H
#define TT_ENGINE_DIRECTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/network.h"
#include "tutti/status.h"

struct tt_directory {
    uint32_t size;
    uint64_t *contexts; /* by rank */
    size_t *ends;       /* by rank: where its address ends, which begins at the end of the one before */
    uint8_t *addresses;
};

/* `lengths_bytes` (two bytes, in the host's order) and `addresses` are rank 0's; those of the next rank lie
 * `stride_bytes` further. An address has `most_bytes` at most. Contexts are copied too. */
tutti_status tt_directory_init(struct tt_directory *directory, uint32_t size, const uint64_t *contexts,
                               const uint8_t *lengths_bytes, const uint8_t *addresses, uint32_t most_bytes,
                               size_t stride_bytes);

/* Also of one that was never initialized, all zeros. */
void tt_directory_fini(struct tt_directory *directory);

/* Asserts what holds of one that is initialized. */
void tt_directory_check(const struct tt_directory *directory);

/* Whether a frame from there may be of that rank, which need not exist; if not, the log says so. Where its provider
 * does not say whom it is from, it may be of any that exists. */
bool tt_directory_trusts(const struct tt_directory *directory, const struct tt_origin *origin, uint32_t rank);

/* As tt_network_connect, by rank. */
tutti_status tt_directory_connect(const struct tt_directory *directory, struct tt_network *network, uint32_t rank,
                                  struct tt_peer **peer);

#endif
