/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registrations: memory that peers may read and write, and the keys to it.
 *
 * Normal path: a registration has a place in a table and a random token, and its key holds both. What peers ask for is
 * looked up here, by index, token and range.
 *
 * Failures: what no registration covers is not found. A registration that is released while peers read or write it
 * takes the rest of that with it, which the peers are told.
 */
#include <stddef.h>
#include <stdlib.h>

#include "base/log.h"
#include "fabric/tcp/instance.h"

tutti_status tt_tcp_memory_register(struct tt_p2p *p2p, void *address, size_t length_bytes,
                                    struct tt_p2p_memory **result)
{
    struct tt_tcp *tcp = tt_tcp_of(p2p);
    struct tt_tcp_memory *memory = calloc(1, sizeof(*memory));
    if (memory == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "tcp: no memory for a registration");
    }
    memory->base.ops = p2p->ops;
    memory->tcp = tcp;
    tutti_status status = tt_registry_add(&tcp->memories, &memory->registration, address, length_bytes);
    if (status != TUTTI_OK) {
        free(memory);
        return status;
    }
    *result = &memory->base;
    return TUTTI_OK;
}

void tt_tcp_memory_release(struct tt_p2p_memory *base)
{
    struct tt_tcp_memory *memory = (struct tt_tcp_memory *)base;
    struct tt_session_peer *peer;
    if (memory == NULL) {
        return;
    }
    tt_registry_remove(&memory->tcp->memories, &memory->registration);
    for (peer = TAILQ_FIRST(&memory->tcp->session.peers); peer != NULL && memory->users > 0;
         peer = TAILQ_NEXT(peer, link)) {
        tt_tcp_take_memory((struct tt_tcp_peer *)peer, memory);
    }
    free(memory);
}

tutti_status tt_tcp_memory_pack(struct tt_p2p_memory *base, void *buffer, size_t *length_bytes)
{
    const struct tt_tcp_memory *memory = (const struct tt_tcp_memory *)base;
    if (*length_bytes < TT_TCP_KEY_BYTES) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TOO_LARGE, "tcp: the key has %d bytes, there is room for %zu",
                        TT_TCP_KEY_BYTES, *length_bytes);
    }
    tt_tcp_key_encode(memory->registration.index, memory->registration.token, buffer);
    *length_bytes = TT_TCP_KEY_BYTES;
    return TUTTI_OK;
}

struct tt_tcp_memory *tt_tcp_memory_find(const struct tt_tcp *tcp, const struct tt_tcp_place *place)
{
    struct tt_registration *found =
        tt_registry_find(&tcp->memories, place->index, place->token, place->address, place->length_bytes);
    return found != NULL ? (struct tt_tcp_memory *)((char *)found - offsetof(struct tt_tcp_memory, registration))
                         : NULL;
}
