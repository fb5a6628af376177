/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Completion queues of endpoints.
 *
 * Normal path: one that only one thread polls is asked for without a lock, which Verbs can only say in the extended
 * call.
 *
 * Failures: a provider that does not know that call, or that flag, gets the plain call. Any other refusal is one.
 */
#include <errno.h>

#include "endpoint/calls.h"
#include "endpoint/inventory.h"

struct ibv_cq *tt_endpoint_create_cq(const struct tt_endpoint_calls *calls, struct ibv_context *context,
                                     uint32_t entries, struct ibv_comp_channel *channel, bool *one_thread)
{
    struct ibv_cq_init_attr_ex attributes = {.cqe = entries,
                                             .channel = channel,
                                             .wc_flags = IBV_WC_STANDARD_FLAGS,
                                             .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS,
                                             .flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED};

    if (*one_thread) {
        errno = 0;
        struct ibv_cq_ex *extended = calls->create_cq_ex(context, &attributes);
        if (extended != NULL) {
            return ibv_cq_ex_to_cq(extended);
        }
        if (!tt_inventory_is_unsupported(errno)) {
            return NULL;
        }
        *one_thread = false;
    }
    errno = 0;
    return calls->create_cq(context, (int)entries, NULL, channel, 0);
}
