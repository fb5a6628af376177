/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations.
 *
 * Normal path: memory is registered with the device for all that peers and this side may do with it. The key that peers
 * get also says where the memory is, so that what lies outside is refused where it is asked for, before the devices
 * break the connection over it.
 *
 * Failures: memory that this process may not write is registered for reading only. What the device refuses is named.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"

static tutti_status register_range(struct tt_rc_memory *memory)
{
    struct ibv_pd *pd = memory->rc->lane->pd;
    memory->registration = ibv_reg_mr(pd, memory->address, memory->length_bytes,
                                      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    if (memory->registration == NULL && (errno == EFAULT || errno == EACCES || errno == EPERM)) {
        memory->registration = ibv_reg_mr(pd, memory->address, memory->length_bytes, IBV_ACCESS_REMOTE_READ);
    }
    if (memory->registration != NULL) {
        return TUTTI_OK;
    }
    tutti_status status = errno == ENOMEM   ? TUTTI_ERR_NO_MEMORY
                          : errno == EFAULT ? TUTTI_ERR_INVALID_ARGUMENT
                                            : TUTTI_ERR_NO_RESOURCE;
    return tt_error(TT_PART_FABRIC, status, "verbs: register %zu bytes at %p: %s%s", memory->length_bytes,
                    (void *)memory->address, strerror(errno),
                    errno == ENOMEM ? " (the limit of locked memory, ulimit -l?)" : "");
}

tutti_status tt_rc_memory_register(struct tt_p2p *p2p, void *address, size_t length_bytes,
                                   struct tt_p2p_memory **result)
{
    struct tt_rc *rc = tt_rc_of(p2p);
    struct tt_rc_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "verbs: no memory for a registration");
    }
    memory->base.ops = p2p->ops;
    memory->rc = rc;
    memory->address = address;
    memory->length_bytes = length_bytes;
    tutti_status status = length_bytes > 0 ? register_range(memory) : TUTTI_OK;
    if (status != TUTTI_OK) {
        free(memory);
        return status;
    }
    LIST_INSERT_HEAD(&rc->memories, memory, link);
    *result = &memory->base;
    return TUTTI_OK;
}

void tt_rc_memory_release(struct tt_p2p_memory *base)
{
    struct tt_rc_memory *memory = (struct tt_rc_memory *)base;
    if (memory == NULL) {
        return;
    }
    if (memory->registration != NULL) {
        int error = ibv_dereg_mr(memory->registration);
        if (error != 0) {
            TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "verbs: release %zu bytes at %p: %s", memory->length_bytes,
                   (void *)memory->address, strerror(error));
        }
    }
    LIST_REMOVE(memory, link);
    free(memory);
}

tutti_status tt_rc_memory_pack(struct tt_p2p_memory *base, void *buffer, size_t *length_bytes)
{
    const struct tt_rc_memory *memory = (const struct tt_rc_memory *)base;
    const struct tt_rc_key key = {.rkey = memory->registration != NULL ? memory->registration->rkey : 0,
                                  .address = (uintptr_t)memory->address,
                                  .length_bytes = memory->length_bytes};
    if (*length_bytes < TT_RC_KEY_BYTES) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TOO_LARGE, "verbs: the key has %d bytes, there is room for %zu",
                        TT_RC_KEY_BYTES, *length_bytes);
    }
    tt_rc_key_encode(&key, buffer);
    *length_bytes = TT_RC_KEY_BYTES;
    return TUTTI_OK;
}

bool tt_rc_memory_find(const struct tt_rc *rc, const void *address, uint64_t length_bytes, uint32_t *lkey)
{
    const struct tt_rc_memory *memory;
    LIST_FOREACH(memory, &rc->memories, link)
    {
        const struct tt_rc_key range = {.address = (uintptr_t)memory->address, .length_bytes = memory->length_bytes};
        if (memory->registration != NULL && tt_rc_key_covers(&range, (uintptr_t)address, length_bytes)) {
            *lkey = memory->registration->lkey;
            return true;
        }
    }
    return false;
}
