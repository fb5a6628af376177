/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a connection is opened and closed; in between, it lives as the session layer has it.
 *
 * Normal path: connect creates the endpoint and sends HELLO, so that UCX establishes the connection now and its end is
 * noticed even if nothing is ever sent. UCX queues what is sent before that, so the connection counts as open at once;
 * whether the other side has connected, too, is kept apart (`heard`). A connection is named by the sender's instance
 * and a serial number: messages may be for a connection that this side has not made yet, which has no endpoint and no
 * owner then, or for one of several between the same instances. A goodbye has left this host when a flush behind it is
 * over. Closing is by force, and over when the last callback that knows the connection has run.
 *
 * Failures: UCX's error handler breaks the connection; the endpoint is closed in the next progress, which cancels what
 * was under way.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "fabric/ucx/instance.h"
#include "wire/cursor.h"

static struct tt_ucx_peer *of(struct tt_session_peer *base)
{
    return (struct tt_ucx_peer *)base;
}

static void endpoint_failed(void *argument, ucp_ep_h ep, ucs_status_t status)
{
    struct tt_ucx_peer *peer = argument;
    if (peer->ep == ep) {
        tt_session_fail(&peer->session, "UCX says: %s", ucs_status_string(status));
    }
}

/* --- Remote instances ------------------------------------------------------------------------------------------- */

struct tt_ucx_peer *tt_ucx_peer_find(struct tt_ucx *ucx, const struct tt_ucx_connection *connection)
{
    uint8_t identity[TT_UCX_IDENTITY_BYTES];
    tt_bytes_put(identity, connection->instance, TT_UCX_IDENTITY_BYTES);
    struct tt_session_peer *base = tt_session_find(&ucx->session, identity, connection->serial);
    return base != NULL && of(base)->joined ? of(base) : NULL;
}

/* The connection that a message of another instance opens or ends, made if the other side has begun it; NULL: none. */
static struct tt_session_peer *find_or_make(struct tt_ucx *ucx, uint64_t remote_id, uint32_t serial)
{
    uint8_t identity[TT_UCX_IDENTITY_BYTES];
    tt_bytes_put(identity, remote_id, TT_UCX_IDENTITY_BYTES);
    struct tt_session_peer *base = tt_session_find(&ucx->session, identity, serial);
    return base != NULL ? base : tt_session_greeted(&ucx->session, identity, serial);
}

void tt_ucx_peer_heard(struct tt_ucx *ucx, uint64_t remote_id, uint32_t serial)
{
    struct tt_session_peer *base = find_or_make(ucx, remote_id, serial);
    if (base != NULL) {
        of(base)->heard = true;
        if (!STAILQ_EMPTY(&of(base)->waiting)) {
            tt_ucx_peer_due(of(base));
        }
    }
}

void tt_ucx_peer_left(struct tt_ucx *ucx, uint64_t remote_id, uint32_t serial)
{
    struct tt_session_peer *base = find_or_make(ucx, remote_id, serial);
    if (base != NULL) {
        tt_session_left(base);
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

tutti_status tt_ucx_connect(struct tt_p2p *p2p, const void *address, size_t length_bytes, uint64_t peer_cookie,
                            struct tt_p2p_peer **result)
{
    uint64_t remote_id;
    if (!tt_ucx_address_decode(address, length_bytes, &remote_id)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "ucx: %zu bytes that are no address", length_bytes);
    }
    const uint8_t *identity = (const uint8_t *)address + TT_UCX_ADDRESS_HEADER_BYTES - TT_UCX_IDENTITY_BYTES;
    return tt_session_connect(&tt_ucx_of(p2p)->session, identity, peer_cookie, result);
}

void tt_ucx_init(struct tt_session_peer *base)
{
    struct tt_ucx_peer *peer = of(base);
    peer->ucx = (struct tt_ucx *)base->session;
    peer->remote_id = tt_bytes_get(base->remote->address, TT_UCX_IDENTITY_BYTES);
    STAILQ_INIT(&peer->waiting);
    STAILQ_INIT(&peer->streams);
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

static void give_line(const struct tt_ucx_peer *peer)
{
    if (peer->line < peer->ucx->line_count && peer->ucx->lines[peer->line] == peer) {
        peer->ucx->lines[peer->line] = NULL;
    }
}

/* UCX may find out right here that nobody listens any more; then the peer is down from the start. */
static tutti_status create_endpoint(struct tt_ucx_peer *peer, const ucp_address_t *address)
{
    ucp_ep_params_t params = {
        .field_mask =
            UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .address = address,
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
        tt_session_fail(&peer->session, "it died, or has no transport in common with this one");
        return TUTTI_OK;
    }
    return tt_error(TT_PART_FABRIC, tt_ucx_status(status), "ucx: connect to instance %016llx: %s",
                    (unsigned long long)peer->remote_id, ucs_status_string(status));
}

/* HELLO, or what ends the connection; one that cannot be sent breaks it, and the owner learns of it as of any other
 * peer that cannot be reached. */
static void say(struct tt_ucx_peer *peer, enum tt_ucx_message_kind kind)
{
    uint8_t serial[4];
    tt_bytes_put(serial, peer->session.serial, 4);
    if (tt_ucx_send_message(peer, kind, peer->ucx->id, serial, sizeof(serial)) != TUTTI_OK) {
        tt_session_starve(&peer->session, "no memory for a greeting or a goodbye");
    }
}

tutti_status tt_ucx_begin(struct tt_session_peer *base, const void *address, bool begun)
{
    struct tt_ucx_peer *peer = of(base);
    (void)begun; /* the other side has an endpoint of its own then, and this one has none yet */
    tutti_status status = base->broken ? TUTTI_OK : take_line(peer);
    if (base->broken || status != TUTTI_OK) {
        return status;
    }
    status = create_endpoint(peer, (const ucp_address_t *)((const uint8_t *)address + TT_UCX_IDENTITY_BYTES));
    if (status != TUTTI_OK) {
        give_line(peer);
        return status;
    }
    peer->joined = true;
    if (base->broken) {
        return TUTTI_OK;
    }
    tt_session_opened(base);
    if (!base->down) {
        say(peer, TT_UCX_HELLO);
    }
    return TUTTI_OK;
}

/* One that only the other side has begun has nothing to say when the instance ends. */
uint64_t tt_ucx_tend_peer(struct tt_session_peer *base, uint64_t now_ns)
{
    (void)now_ns;
    if (base->phase == TT_SESSION_GREETING && base->released) {
        tt_session_fail(base, "this side has not connected");
    }
    return TT_NEVER;
}

/* --- Closing ---------------------------------------------------------------------------------------------------- */

bool tt_ucx_farewell(struct tt_session_peer *base, bool heard)
{
    say(of(base), heard ? TT_UCX_BYE_HEARD : TT_UCX_BYE);
    return true;
}

/* Gets and puts of hardware end when the endpoint is closed, and their owner waits for that. */
void tt_ucx_cancel(struct tt_session_peer *base, tutti_status status)
{
    struct tt_ucx_peer *peer = of(base);
    tt_tail_forget(&peer->ucx->tails, &peer->tail);
    tt_ucx_streams_end(peer);
    tt_ucx_operations_end(peer, status);
    if (base->released && peer->operations > 0) {
        base->deadline_ns = base->session->now_ns;
    }
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
    if (status != UCS_OK) {
        tt_session_fail(&peer->session, "UCX says: %s", ucs_status_string(status));
    }
}

/* A flush says that all has left this host; that the other one has it, only the other side's last message does. */
bool tt_ucx_is_flushed(struct tt_session_peer *base, bool received)
{
    struct tt_ucx_peer *peer = of(base);
    if (!base->broken && !peer->flushed && peer->messages == 0) {
        flush_farewell(peer);
    }
    return peer->flushed && (!received || base->remote_left);
}

static void close_endpoint(struct tt_ucx_peer *peer)
{
    ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_EP_CLOSE_FLAG_FORCE};
    ucp_ep_h ep = peer->ep;
    if (ep == NULL) {
        return;
    }
    peer->ep = NULL;
    ucs_status_ptr_t request = ucp_ep_close_nbx(ep, &param);
    if (UCS_PTR_IS_PTR(request)) {
        ucp_request_free(request);
    }
}

uint64_t tt_ucx_close_peer(struct tt_session_peer *base, uint64_t now_ns)
{
    struct tt_ucx_peer *peer = of(base);
    close_endpoint(peer);
    if (peer->flush != NULL && ucp_request_check_status(peer->flush) != UCS_INPROGRESS) {
        ucp_request_free(peer->flush);
        peer->flush = NULL;
    }
    if (peer->flush != NULL || peer->messages > 0 || peer->operations > 0) {
        return now_ns + TT_NS_PER_MS;
    }
    tt_ucx_drop_keys(peer);
    return TT_NEVER;
}

void tt_ucx_abandon_peers(struct tt_ucx *ucx)
{
    struct tt_session_peer *base;
    TAILQ_FOREACH(base, &ucx->session.peers, link)
    {
        close_endpoint(of(base));
        tt_ucx_drop_keys(of(base));
        of(base)->flush = NULL;
    }
}

void tt_ucx_fini_peer(struct tt_session_peer *base)
{
    give_line(of(base));
    free(base);
}
