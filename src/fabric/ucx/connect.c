/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of a connection.
 *
 * Normal path: connect creates the endpoint and sends HELLO, so that UCX establishes the connection now and its end is
 * noticed even if nothing is ever sent. disconnect sends BYE; the other side raises PEER_DOWN (or is leaving itself)
 * and answers BYE_HEARD (or its own BYE). As messages arrive in order, the answer says that everything was received;
 * only then is the endpoint closed. A connection is named by the sender's instance and a serial number, because a BYE
 * may be for a connection that this side has not made yet, or for one of several between the same instances.
 *
 * Failures: UCX's error handler marks the peer as broken and down; the endpoint is closed by force in the next
 * progress, which cancels what was under way. A farewell that is not answered within two seconds (a stopped or dead
 * peer) ends the same way. A peer object is freed when it was released, its endpoint is closed, and the last callback
 * that knows it has run.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/ucx/instance.h"
#include "wire/cursor.h"

static void attend_to(struct tt_ucx_peer *peer)
{
    if (!peer->in_attention) {
        peer->in_attention = true;
        TAILQ_INSERT_TAIL(&peer->ucx->attention, peer, attention_link);
    }
}

/* Nothing is sent or received any more but a farewell. */
static void stop_moving(struct tt_ucx_peer *peer)
{
    peer->down = true;
    tt_tail_forget(&peer->ucx->tails, &peer->tail);
    tt_ucx_streams_end(peer);
    tt_ucx_operations_end(peer);
}

static void mark_down(struct tt_ucx_peer *peer)
{
    if (!peer->down) {
        if (!peer->released) {
            peer->in_down = true;
            TAILQ_INSERT_TAIL(&peer->ucx->down_peers, peer, down_link);
        }
        stop_moving(peer);
    }
    attend_to(peer);
}

void tt_ucx_peer_fail(struct tt_ucx_peer *peer)
{
    peer->broken = true;
    mark_down(peer);
}

static void endpoint_failed(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    struct tt_ucx_peer *peer = argument;
    if (peer->ep == ep) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "ucx: connection to instance %016llx broke: %s",
               (unsigned long long)peer->remote_id, ucs_status_string(status));
        tt_ucx_peer_fail(peer);
    }
}

/* --- Remote instances ------------------------------------------------------------------------------------------- */

/* NULL: nothing has been heard of it. */
static struct tt_ucx_remote *find_remote(const struct tt_ucx *ucx, uint64_t id)
{
    struct tt_ucx_remote *remote = LIST_FIRST(&ucx->remotes[id % TT_UCX_BUCKETS]);
    while (remote != NULL && remote->id != id) {
        remote = LIST_NEXT(remote, link);
    }
    return remote;
}

/* The record of an instance, new if need be; NULL: no memory. */
static struct tt_ucx_remote *remote_of(struct tt_ucx *ucx, uint64_t id)
{
    struct tt_ucx_remote *remote = find_remote(ucx, id);
    if (remote == NULL) {
        remote = calloc(1, sizeof(*remote));
        if (remote != NULL) {
            remote->id = id;
            LIST_INIT(&remote->peers);
            LIST_INSERT_HEAD(&ucx->remotes[id % TT_UCX_BUCKETS], remote, link);
        }
    }
    return remote;
}

/* Its frames are handed out before its PEER_DOWN, and those that come later have no owner any more. */
uint64_t tt_ucx_cookie_of(const struct tt_ucx *ucx, uint64_t remote_id)
{
    const struct tt_ucx_remote *remote = find_remote(ucx, remote_id);
    const struct tt_ucx_peer *peer = remote != NULL ? LIST_FIRST(&remote->peers) : NULL;
    while (peer != NULL && (peer->released || (peer->down && !peer->in_down))) {
        peer = LIST_NEXT(peer, remote_link);
    }
    return peer != NULL ? peer->cookie : 0;
}

struct tt_ucx_peer *tt_ucx_peer_find(struct tt_ucx *ucx, uint64_t remote_id, uint32_t serial)
{
    struct tt_ucx_peer *peer;
    TAILQ_FOREACH(peer, &ucx->peers, all_link)
    {
        if (peer->remote_id == remote_id && peer->serial == serial) {
            return peer;
        }
    }
    return NULL;
}

void tt_ucx_peer_heard(struct tt_ucx *ucx, uint64_t remote_id, uint32_t serial)
{
    struct tt_ucx_peer *peer = tt_ucx_peer_find(ucx, remote_id, serial);
    if (peer != NULL) {
        peer->heard = true;
        if (!STAILQ_EMPTY(&peer->waiting)) {
            tt_ucx_peer_due(peer);
        }
        return;
    }
    struct tt_ucx_remote *remote = remote_of(ucx, remote_id);
    if (remote != NULL && serial - remote->next_serial < 64) {
        remote->heard_mask |= UINT64_C(1) << (serial - remote->next_serial);
    }
}

void tt_ucx_peer_left(struct tt_ucx *ucx, uint64_t remote_id, uint32_t serial, bool confirmation)
{
    struct tt_ucx_peer *peer = tt_ucx_peer_find(ucx, remote_id, serial);
    if (peer != NULL) {
        peer->remote_left = true;
        mark_down(peer);
        return;
    }
    struct tt_ucx_remote *remote = confirmation ? NULL : remote_of(ucx, remote_id);
    if (remote != NULL && serial - remote->next_serial < 64) {
        remote->left_mask |= UINT64_C(1) << (serial - remote->next_serial);
    }
}

/* --- Opening ---------------------------------------------------------------------------------------------------- */

tutti_status tt_ucx_address(struct tt_p2p *p2p, void *buffer, size_t *length_bytes)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    size_t needed_bytes = TT_UCX_ADDRESS_HEADER_BYTES + ucx->address_bytes;
    if (*length_bytes < needed_bytes) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TOO_LARGE, "ucx: the address has %zu bytes, there is room for %zu",
                        needed_bytes, *length_bytes);
    }
    memcpy((uint8_t *)buffer + TT_UCX_ADDRESS_HEADER_BYTES, ucx->address, ucx->address_bytes);
    tt_ucx_address_encode(buffer, ucx->id, ucx->address_bytes);
    *length_bytes = needed_bytes;
    return TUTTI_OK;
}

/* A free place among the instance's lines, which grow if there is none. */
static tutti_status take_line(struct tt_ucx_peer *peer)
{
    enum { FIRST_LINES = 16 };
    struct tt_ucx *ucx = peer->ucx;
    uint32_t line = 0;
    while (line < ucx->line_count && ucx->lines[line] != NULL) {
        line++;
    }
    if (line == ucx->line_count) {
        uint32_t count = ucx->line_count > 0 ? 2 * ucx->line_count : FIRST_LINES;
        struct tt_ucx_peer **lines = realloc(ucx->lines, count * sizeof(struct tt_ucx_peer *));
        if (lines == NULL) {
            return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for %u peers", count);
        }
        memset(lines + ucx->line_count, 0, (count - ucx->line_count) * sizeof(struct tt_ucx_peer *));
        ucx->lines = lines;
        ucx->line_count = count;
    }
    ucx->lines[line] = peer;
    peer->line = line;
    return TUTTI_OK;
}

static void free_peer(struct tt_ucx_peer *peer)
{
    struct tt_ucx *ucx = peer->ucx;
    if (peer->line < ucx->line_count && ucx->lines[peer->line] == peer) {
        ucx->lines[peer->line] = NULL;
    }
    free(peer);
}

/* UCX may find out right here that nobody listens any more; then the peer is down from the start. */
static tutti_status create_endpoint(struct tt_ucx_peer *peer, const uint8_t *address)
{
    ucp_ep_params_t params = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = (const ucp_address_t *)(address + TT_UCX_ADDRESS_HEADER_BYTES),
        .err_mode = UCP_ERR_HANDLING_MODE_PEER,
        .err_handler = {.cb = endpoint_failed, .arg = peer},
    };
    ucs_status_t status = ucp_ep_create(peer->ucx->worker, &params, &peer->ep);
    if (status == UCS_OK) {
        return TUTTI_OK;
    }
    peer->ep = NULL;
    if (status == UCS_ERR_UNREACHABLE || tt_ucx_status(status) == TUTTI_ERR_PEER_FAILED) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "ucx: instance %016llx died, or has no transport in common with this one",
               (unsigned long long)peer->remote_id);
        peer->phase = TT_UCX_CLOSED;
        return TUTTI_OK;
    }
    return tt_error(TT_PART_FABRIC, tt_ucx_status(status), "ucx: connect to instance %016llx: %s",
                    (unsigned long long)peer->remote_id, ucs_status_string(status));
}

static void start(struct tt_ucx_peer *peer, struct tt_ucx_remote *remote)
{
    struct tt_ucx *ucx = peer->ucx;
    uint8_t serial[4];
    bool left_already = (remote->left_mask & 1) != 0;
    peer->heard = (remote->heard_mask & 1) != 0;
    remote->next_serial++;
    remote->left_mask >>= 1;
    remote->heard_mask >>= 1;
    tt_bytes_put(serial, peer->serial, 4);
    TAILQ_INSERT_TAIL(&ucx->peers, peer, all_link);
    LIST_INSERT_HEAD(&remote->peers, peer, remote_link);
    if (left_already && peer->phase != TT_UCX_CLOSED) {
        peer->remote_left = true;
        mark_down(peer);
    } else if (peer->phase == TT_UCX_CLOSED ||
               tt_ucx_send_message(peer, TT_UCX_HELLO, ucx->id, serial, sizeof(serial)) != TUTTI_OK) {
        tt_ucx_peer_fail(peer); /* the owner learns of it as of any other peer that cannot be reached */
    }
}

tutti_status tt_ucx_connect(struct tt_p2p *p2p, const void *address, size_t length_bytes, uint64_t peer_cookie,
                            struct tt_p2p_peer **result)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    uint64_t remote_id;
    if (!tt_ucx_address_decode(address, length_bytes, &remote_id)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "ucx: %zu bytes that are no address", length_bytes);
    }
    if (remote_id == ucx->id) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "ucx: connect to the own address");
    }
    struct tt_ucx_remote *remote = remote_of(ucx, remote_id);
    struct tt_ucx_peer *peer = calloc(1, sizeof(*peer));
    if (remote == NULL || peer == NULL) {
        free(peer); /* nothing knows it yet */
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for a peer");
    }
    peer->base.ops = p2p->ops;
    peer->ucx = ucx;
    peer->cookie = peer_cookie;
    peer->remote_id = remote_id;
    peer->serial = remote->next_serial;
    STAILQ_INIT(&peer->waiting);
    STAILQ_INIT(&peer->streams);
    tutti_status status = take_line(peer);
    if (status == TUTTI_OK) {
        status = create_endpoint(peer, address);
    }
    if (status != TUTTI_OK) {
        free_peer(peer);
        return status;
    }
    start(peer, remote);
    *result = &peer->base;
    return TUTTI_OK;
}

/* --- Closing ---------------------------------------------------------------------------------------------------- */

static void close_endpoint(struct tt_ucx_peer *peer)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucp_ep_h ep = peer->ep;
    peer->ep = NULL;
    peer->phase = TT_UCX_CLOSED;
    stop_moving(peer);
    ucs_status_ptr_t request = ucp_ep_close_nbx(ep, &param);
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

static void say_goodbye(struct tt_ucx_peer *peer, uint64_t now_ns)
{
    uint8_t serial[4];
    tt_bytes_put(serial, peer->serial, 4);
    enum tt_ucx_message_kind kind = peer->released ? TT_UCX_BYE : TT_UCX_BYE_HEARD;
    if (tt_ucx_send_message(peer, kind, peer->ucx->id, serial, sizeof(serial)) != TUTTI_OK) {
        close_endpoint(peer);
        return;
    }
    peer->phase = TT_UCX_FAREWELL;
    peer->deadline_ns = now_ns + TT_UCX_FAREWELL_NS;
}

static void flush_farewell(struct tt_ucx_peer *peer)
{
    ucs_status_t status = UCS_OK;
    if (peer->flush == NULL) {
        ucp_request_param_t param = {0};
        ucs_status_ptr_t request = ucp_ep_flush_nbx(peer->ep, &param);
        if (UCS_PTR_IS_PTR(request)) {
            peer->flush = request;
            return;
        }
        status = UCS_PTR_STATUS(request);
    } else {
        status = ucp_request_check_status(peer->flush);
        if (status == UCS_INPROGRESS) {
            return;
        }
        ucp_request_free(peer->flush);
        peer->flush = NULL;
    }
    peer->flushed = status == UCS_OK;
    peer->broken = peer->broken || status != UCS_OK;
}

static void continue_farewell(struct tt_ucx_peer *peer, uint64_t now_ns)
{
    if (!peer->broken && !peer->flushed && peer->messages == 0) {
        flush_farewell(peer);
    }
    if (now_ns >= peer->deadline_ns) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "ucx: instance %016llx did not answer a goodbye, giving it up",
               (unsigned long long)peer->remote_id);
    }
    bool over = peer->flushed && peer->remote_left;
    bool hopeless = peer->broken || now_ns >= peer->deadline_ns;
    bool unwanted = peer->released && peer->operations > 0; /* its owner waits for them to end */
    if (over || hopeless || unwanted) {
        close_endpoint(peer);
    }
}

/* What is left after the endpoint is closed: the last callbacks, and the end of the object if nobody has it. */
static void finish(struct tt_ucx_peer *peer)
{
    struct tt_ucx *ucx = peer->ucx;
    if (peer->flush != NULL && ucp_request_check_status(peer->flush) != UCS_INPROGRESS) {
        ucp_request_free(peer->flush);
        peer->flush = NULL;
    }
    if (peer->flush != NULL || peer->messages > 0 || peer->operations > 0) {
        return;
    }
    peer->in_attention = false;
    TAILQ_REMOVE(&ucx->attention, peer, attention_link);
    tt_ucx_drop_keys(peer);
    if (peer->released) {
        TAILQ_REMOVE(&ucx->peers, peer, all_link);
        LIST_REMOVE(peer, remote_link);
        free_peer(peer);
    }
}

/* One step of closing; the peer may be freed afterwards. */
static void attend(struct tt_ucx_peer *peer, uint64_t now_ns)
{
    if (peer->phase == TT_UCX_OPEN) {
        if (peer->broken || (peer->released && peer->operations > 0)) {
            close_endpoint(peer);
        } else {
            say_goodbye(peer, now_ns);
        }
    }
    if (peer->phase == TT_UCX_FAREWELL) {
        continue_farewell(peer, now_ns);
    }
    if (peer->phase == TT_UCX_CLOSED) {
        finish(peer);
    }
}

void tt_ucx_attend(struct tt_ucx *ucx)
{
    struct tt_ucx_peer *peer, *next;
    uint64_t now_ns = tt_clock_now_ns();
    for (peer = TAILQ_FIRST(&ucx->attention); peer != NULL; peer = next) {
        next = TAILQ_NEXT(peer, attention_link);
        attend(peer, now_ns);
    }
}

void tt_ucx_disconnect(struct tt_p2p_peer *base)
{
    struct tt_ucx_peer *peer = tt_ucx_peer_of(base);
    if (peer == NULL) {
        return;
    }
    peer->released = true;
    stop_moving(peer);
    if (peer->in_down) {
        peer->in_down = false;
        TAILQ_REMOVE(&peer->ucx->down_peers, peer, down_link);
    }
    attend_to(peer);
    attend(peer, tt_clock_now_ns());
}

void tt_ucx_give_up_all(struct tt_ucx *ucx)
{
    struct tt_ucx_peer *peer;
    TAILQ_FOREACH(peer, &ucx->peers, all_link)
    {
        if (peer->phase != TT_UCX_CLOSED) {
            close_endpoint(peer);
        }
        attend_to(peer);
    }
}

void tt_ucx_free_peers(struct tt_ucx *ucx)
{
    struct tt_ucx_peer *peer;
    struct tt_ucx_remote *remote;
    while ((peer = TAILQ_FIRST(&ucx->peers)) != NULL) {
        TAILQ_REMOVE(&ucx->peers, peer, all_link);
        free_peer(peer);
    }
    for (uint32_t i = 0; i < TT_UCX_BUCKETS; i++) {
        while ((remote = LIST_FIRST(&ucx->remotes[i])) != NULL) {
            LIST_REMOVE(remote, link);
            free(remote);
        }
    }
    free(ucx->lines);
    ucx->lines = NULL;
    ucx->line_count = 0;
}
