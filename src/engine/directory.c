/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The directory. Normal path: made of what the ranks said of themselves while the group was created, packed, since
 * addresses are much shorter than they may be. Failures: no memory, or an address that is longer than one can be.
 */
#include "engine/directory.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static uint32_t length_of(const uint8_t *lengths_bytes, size_t stride_bytes, uint32_t rank)
{
    uint16_t length_bytes;

    memcpy(&length_bytes, lengths_bytes + rank * stride_bytes, sizeof length_bytes);
    return length_bytes;
}

tutti_status tt_directory_init(struct tt_directory *directory, uint32_t size, const uint64_t *contexts,
                               const uint8_t *lengths_bytes, const uint8_t *addresses, uint32_t most_bytes,
                               size_t stride_bytes)
{
    struct tt_directory made = {.size = size};
    size_t total_bytes = 0;

    assert(size > 0);
    assert(most_bytes <= TT_P2P_MAX_ADDRESS_BYTES);
    for (uint32_t rank = 0; rank < size; rank++) {
        uint32_t length_bytes = length_of(lengths_bytes, stride_bytes, rank);

        if (length_bytes > most_bytes) {
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_BOOTSTRAP, "the address of rank %u has %u bytes, more than %u",
                            rank, length_bytes, most_bytes);
        }
        total_bytes += length_bytes;
    }
    made.contexts = calloc(size, sizeof *made.contexts);
    made.ends = calloc(size, sizeof *made.ends);
    made.addresses = malloc(total_bytes + 1);
    if (made.contexts == NULL || made.ends == NULL || made.addresses == NULL) {
        tt_directory_fini(&made);
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for the addresses of %u ranks", size);
    }
    memcpy(made.contexts, contexts, size * sizeof *contexts);
    total_bytes = 0;
    for (uint32_t rank = 0; rank < size; rank++) {
        uint32_t length_bytes = length_of(lengths_bytes, stride_bytes, rank);

        memcpy(made.addresses + total_bytes, addresses + rank * stride_bytes, length_bytes);
        total_bytes += length_bytes;
        made.ends[rank] = total_bytes;
    }
    tt_directory_check(&made);
    *directory = made;
    return TUTTI_OK;
}

void tt_directory_fini(struct tt_directory *directory)
{
    free(directory->contexts);
    free(directory->ends);
    free(directory->addresses);
    *directory = (struct tt_directory){0};
}

static bool has_address(const struct tt_directory *directory, uint32_t rank, const void *address, size_t address_bytes)
{
    size_t start = rank == 0 ? 0 : directory->ends[rank - 1];

    return directory->ends[rank] - start == address_bytes &&
           memcmp(directory->addresses + start, address, address_bytes) == 0;
}

/* By the engine where it is known, and not by the connection: that may have been replaced by another one on either
 * side. Else, as of a rank that has connected to this one and not the other way round, by its address. */
static bool is_from(const struct tt_directory *directory, const struct tt_origin *origin, uint32_t rank)
{
    if (origin->peer != NULL) {
        return directory->contexts[rank] == origin->peer->context_id;
    }
    return origin->address == NULL || has_address(directory, rank, origin->address, origin->address_bytes);
}

bool tt_directory_trusts(const struct tt_directory *directory, const struct tt_origin *origin, uint32_t rank)
{
    if (rank < directory->size && is_from(directory, origin, rank)) {
        return true;
    }
    TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "dropped a frame that names rank %u, which did not send it", rank);
    return false;
}

tutti_status tt_directory_connect(const struct tt_directory *directory, struct tt_network *network, uint32_t rank,
                                  struct tt_peer **peer)
{
    size_t start;

    assert(rank < directory->size);
    start = rank == 0 ? 0 : directory->ends[rank - 1];
    return tt_network_connect(network, directory->contexts[rank], directory->addresses + start,
                              directory->ends[rank] - start, peer);
}

void tt_directory_check(const struct tt_directory *directory)
{
    size_t start = 0;

    assert(directory->size > 0);
    assert(directory->contexts != NULL);
    assert(directory->addresses != NULL);
    for (uint32_t rank = 0; rank < directory->size; rank++) {
        assert(directory->ends[rank] >= start);
        assert(directory->ends[rank] - start <= TT_P2P_MAX_ADDRESS_BYTES);
        start = directory->ends[rank];
    }
}
