/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory that chunks are sent from. Normal path: a registration that its owner holds as long as the buffer, so that no
 * cache has to guess when an address means other pages. A short buffer is not worth its registration. Failure: where
 * the device takes no more, or the process may not lock more, the caller goes on without: chunks are copied on their
 * way out, which is said.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/mcast_queue.h"

enum { LEAST_BYTES = 16 * 1024 }; /* pinning pages and telling the device costs more than copying less than this */

struct ibv_mr *tt_verbs_register(const struct tt_endpoint_lane *lane, const void *address, size_t length_bytes,
                                 int access)
{
    return ibv_reg_mr(lane->pd, (void *)(uintptr_t)address, length_bytes, access);
}

struct tt_mcast_memory *tt_verbs_memory_register(struct tt_mcast *mcast, uint32_t sender, const void *address,
                                                 size_t length_bytes)
{
    const struct tt_verbs_mcast *verbs = (const struct tt_verbs_mcast *)mcast;
    struct tt_verbs_memory *memory = length_bytes >= LEAST_BYTES ? calloc(1, sizeof(*memory)) : NULL;

    if (memory == NULL) {
        return NULL;
    }
    memory->base.ops = mcast->ops;
    memory->lane = tt_verbs_lane(verbs->device, sender);
    memory->region = tt_verbs_register(memory->lane, address, length_bytes, 0);
    if (memory->region == NULL) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN,
               "%s does not register %zu bytes (%s); they are copied to be sent (ulimit -l)", verbs->device->name,
               length_bytes, strerror(errno));
        free(memory);
        return NULL;
    }
    return &memory->base;
}

void tt_verbs_memory_release(struct tt_mcast_memory *memory)
{
    if (memory != NULL) {
        ibv_dereg_mr(((struct tt_verbs_memory *)memory)->region);
        free(memory);
    }
}
