/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of copies: registered, so that a right neighbour may read from it. */
#include "engine/copies.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/pages.h"
#include "proto/eager.h"

tutti_status tt_copies_init(struct tt_copies *copies, struct tt_network *network)
{
    size_t key_bytes = sizeof copies->key;
    tutti_status status;

    memset(copies, 0, sizeof *copies);
    copies->memory = tt_pages_allocate(TT_EAGER_LOG_BYTES);
    if (copies->memory == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for copies of small collectives");
    }
    if (network == NULL) {
        return TUTTI_OK;
    }
    status =
        network->p2p->ops->memory_register(network->p2p, copies->memory, TT_EAGER_RING_BYTES, &copies->registration);
    if (status == TUTTI_OK) {
        status = copies->registration->ops->memory_pack(copies->registration, copies->key, &key_bytes);
        copies->key_bytes = (uint32_t)key_bytes;
    }
    if (status != TUTTI_OK) {
        tt_copies_fini(copies);
        return status;
    }
    tt_copies_check(copies);
    return TUTTI_OK;
}

void tt_copies_fini(struct tt_copies *copies)
{
    if (copies->registration != NULL) {
        copies->registration->ops->memory_release(copies->registration);
    }
    free(copies->memory);
    memset(copies, 0, sizeof *copies);
}

void tt_copies_check(const struct tt_copies *copies)
{
    assert(copies->memory != NULL || copies->registration == NULL);
    assert(copies->key_bytes <= sizeof copies->key);
    assert(copies->registration != NULL || copies->key_bytes == 0);
}
