/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a connection begins, and how it is heard of that it ends.
 *
 * Normal path: connect makes the local end, or takes over the one that the other side's greeting has made; a connection
 * is named by the other instance and a serial number. From then on the greeting (rc_greeting.c) brings it up. Messages
 * that were queued meanwhile go out, and the two keep each other's company until one says BYE (rc_ending.c).
 *
 * Failures: an address that is none, or the own one, or of another kind of network, is refused. A peer that cannot be
 * reached is reported like any other that fails. disconnect works in every state.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"

tutti_status tt_rc_address_of(struct tt_p2p *p2p, void *buffer, size_t *length_bytes)
{
    const struct tt_rc *rc = tt_rc_of(p2p);
    if (*length_bytes < TT_RC_ADDRESS_BYTES) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TOO_LARGE, "verbs: the address has %d bytes, there is room for %zu",
                        TT_RC_ADDRESS_BYTES, *length_bytes);
    }
    tt_rc_address_encode(&rc->address, buffer);
    *length_bytes = TT_RC_ADDRESS_BYTES;
    return TUTTI_OK;
}

/* --- Remote instances and peers ----------------------------------------------------------------------------------- */

struct tt_rc_remote *tt_rc_remote_find(const struct tt_rc *rc, uint64_t instance)
{
    struct tt_rc_remote *remote;
    LIST_FOREACH(remote, &rc->remotes, link)
    {
        if (remote->address.instance == instance) {
            return remote;
        }
    }
    return NULL;
}

tutti_status tt_rc_remote_of(struct tt_rc *rc, const struct tt_rc_address *address, struct tt_rc_remote **result)
{
    struct tt_rc_remote *remote = tt_rc_remote_find(rc, address->instance);
    if (remote != NULL) {
        *result = remote;
        return TUTTI_OK;
    }
    remote = calloc(1, sizeof(*remote));
    if (remote == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "verbs: no memory for a peer");
    }
    remote->address = *address;
    tt_rc_address_encode(address, remote->encoded);
    LIST_INIT(&remote->peers);
    tutti_status status = tt_rc_address_handle(rc, address, &remote->handle);
    if (status != TUTTI_OK) {
        free(remote);
        return status;
    }
    LIST_INSERT_HEAD(&rc->remotes, remote, link);
    *result = remote;
    return TUTTI_OK;
}

struct tt_rc_peer *tt_rc_peer_find(const struct tt_rc_remote *remote, uint32_t serial)
{
    struct tt_rc_peer *peer;
    LIST_FOREACH(peer, &remote->peers, remote_link)
    {
        if (peer->serial == serial) {
            return peer;
        }
    }
    return NULL;
}

tutti_status tt_rc_peer_create(struct tt_rc *rc, struct tt_rc_remote *remote, uint32_t serial,
                               struct tt_rc_peer **result)
{
    struct tt_rc_peer *peer = calloc(1, sizeof(*peer));
    if (peer == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "verbs: no memory for a peer");
    }
    peer->base.ops = rc->base.ops;
    peer->rc = rc;
    peer->remote = remote;
    peer->serial = serial;
    peer->probe = (struct tt_rc_work){.kind = TT_RC_WORK_PROBE, .peer = peer};
    STAILQ_INIT(&peer->waiting);
    STAILQ_INIT(&peer->gets);
    STAILQ_INIT(&peer->puts);
    TAILQ_INIT(&peer->posted);
    for (uint32_t i = 0; i < TT_RC_PIECES_AT_ONCE; i++) {
        peer->pieces[i].next_free = peer->free_pieces;
        peer->free_pieces = &peer->pieces[i];
    }
    tutti_status status = tt_rc_queue_create(peer);
    if (status != TUTTI_OK) {
        tt_rc_pool_fini(&peer->buffers);
        free(peer);
        return status;
    }
    TAILQ_INSERT_TAIL(&rc->peers, peer, link);
    LIST_INSERT_HEAD(&remote->peers, peer, remote_link);
    *result = peer;
    return TUTTI_OK;
}

/* --- The ends of a connection ------------------------------------------------------------------------------------- */

void tt_rc_peer_opened(struct tt_rc_peer *peer)
{
    peer->stage = TT_RC_OPEN;
    peer->phase = TT_RC_CONNECTED;
    peer->rc->attention = true;
    TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "verbs: connected to instance %016llx, queue pair %u",
           (unsigned long long)peer->remote->address.instance, peer->queue_pair->qp_num);
    tt_rc_send_waiting(peer);
    tt_rc_operations_start(peer);
}

void tt_rc_peer_failed(struct tt_rc_peer *peer)
{
    if (peer->phase < TT_RC_CLOSING) {
        peer->broken = true;
        tt_rc_begin_closing(peer);
    }
}

void tt_rc_peer_left(struct tt_rc_peer *peer)
{
    peer->remote_left = true;
    tt_rc_mark_down(peer);
}

static void claim(struct tt_rc_peer *peer, uint64_t peer_cookie)
{
    peer->claimed = true;
    peer->cookie = peer_cookie;
    if (peer->down) {
        peer->in_down = true;
        TAILQ_INSERT_TAIL(&peer->rc->down_peers, peer, down_link);
    }
}

tutti_status tt_rc_connect(struct tt_p2p *p2p, const void *address, size_t length_bytes, uint64_t peer_cookie,
                           struct tt_p2p_peer **result)
{
    struct tt_rc *rc = tt_rc_of(p2p);
    struct tt_rc_address other;
    struct tt_rc_remote *remote;
    if (!tt_rc_address_decode(address, length_bytes, &other)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "verbs: %zu bytes that are no address",
                        length_bytes);
    }
    if (other.instance == rc->address.instance) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "verbs: connect to the own address");
    }
    if (other.roce != rc->address.roce) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "verbs: connect from %s (device %s) to an instance on %s",
                        rc->address.roce ? "RoCE" : "InfiniBand", rc->device->name, other.roce ? "RoCE" : "InfiniBand");
    }
    tutti_status status = tt_rc_remote_of(rc, &other, &remote);
    if (status != TUTTI_OK) {
        return status;
    }
    if (remote->handle == NULL) { /* the network may know the way by now */
        status = tt_rc_address_handle(rc, &other, &remote->handle);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    struct tt_rc_peer *peer = tt_rc_peer_find(remote, remote->next_serial);
    rc->now_ns = tt_clock_now_ns();
    if (peer == NULL) {
        status = tt_rc_peer_create(rc, remote, remote->next_serial, &peer);
        if (status != TUTTI_OK) {
            return status;
        }
        tt_rc_greet(peer);
    }
    remote->next_serial++;
    claim(peer, peer_cookie);
    if (remote->handle == NULL) {
        tt_rc_peer_failed(peer); /* the owner learns of it as of any other peer that cannot be reached */
    }
    rc->attention = true;
    *result = &peer->base;
    return TUTTI_OK;
}

void tt_rc_disconnect(struct tt_p2p_peer *base)
{
    struct tt_rc_peer *peer = tt_rc_peer_of(base);
    if (peer == NULL) {
        return;
    }
    struct tt_rc *rc = peer->rc;
    bool idle = peer->reads_out + peer->writes_out == 0;
    peer->released = true;
    rc->now_ns = tt_clock_now_ns();
    rc->attention = true;
    if (peer->in_down) {
        peer->in_down = false;
        TAILQ_REMOVE(&rc->down_peers, peer, down_link);
    }
    if (peer->phase == TT_RC_CLOSED) {
        tt_rc_peer_free(peer);
        return;
    }
    if (!peer->down) {
        peer->deadline_ns = rc->now_ns + (idle ? TT_RC_FAREWELL_NS : TT_RC_ABORT_NS);
        tt_rc_mark_down(peer);
    } else if (!idle && peer->deadline_ns > rc->now_ns + TT_RC_ABORT_NS) {
        peer->deadline_ns = rc->now_ns + TT_RC_ABORT_NS; /* its owner waits for them to end */
    }
}
