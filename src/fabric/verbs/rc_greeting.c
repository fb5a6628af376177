/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the two ends of a connection find each other: by datagrams between the service queue pairs, whose numbers are in
 * the addresses.
 *
 * Normal path: a queue pair is made; each end says HELLO with its queue pair and first PSN, and says how far it is; a
 * HELLO of the other side makes it READY to receive, a HELLO of a side that is ready makes it OPEN. A HELLO is answered
 * until its sender is open. So both may begin, or one: the other side's end is then made without an owner, and waits
 * for connect.
 *
 * Failures: a datagram that is lost is sent again, with growing pauses. A side that never answers is taken for dead,
 * but not soon, as it may be computing, and not know yet that it is connected to. The tries are counted, not the time,
 * so that a process which was away for long does not find everybody dead. What is left of an earlier connection is
 * answered with GONE; what finds no room here is not answered, as there may be when it is repeated. Datagrams that are
 * not for this instance are dropped and counted.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"

/* Returns whether it is on its way. */
static bool send_datagram(struct tt_rc *rc, struct tt_rc_datagram *datagram, struct ibv_ah *handle,
                          const struct tt_rc_greeting *greeting, const struct tt_rc_address *to)
{
    struct ibv_sge place = {
        .addr = (uintptr_t)datagram->bytes, .length = TT_RC_GREETING_BYTES, .lkey = tt_rc_pool_lkey(datagram)};
    struct ibv_send_wr request = {.wr_id = (uintptr_t)&datagram->work,
                                  .sg_list = &place,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_SEND,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .wr.ud = {.ah = handle, .remote_qpn = to->queue_pair, .remote_qkey = to->queue_key}};
    struct ibv_send_wr *refused;
    tt_rc_greeting_encode(greeting, datagram->bytes);
    int error = ibv_post_send(rc->service, &request, &refused);
    if (error != 0) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "verbs: a greeting to instance %016llx: %s",
               (unsigned long long)to->instance, strerror(error));
        tt_rc_pool_give(&rc->datagrams_out, datagram);
    }
    return error == 0;
}

/* If it does not get away it will be repeated. */
static void say_hello(struct tt_rc_peer *peer)
{
    struct tt_rc *rc = peer->rc;
    const struct tt_rc_greeting hello = {.kind = TT_RC_HELLO,
                                         .stage = peer->stage,
                                         .to = peer->address.instance,
                                         .serial = peer->session.serial,
                                         .queue_pair = peer->queue_pair->qp_num,
                                         .psn = peer->psn,
                                         .from = rc->address};
    struct tt_rc_datagram *datagram = tt_rc_pool_take(&rc->datagrams_out);
    if (datagram == NULL) {
        return;
    }
    datagram->work = (struct tt_rc_work){.kind = TT_RC_WORK_GREETING, .peer = peer};
    if (send_datagram(rc, datagram, peer->handle, &hello, &peer->address)) {
        TAILQ_INSERT_TAIL(&peer->greetings, &datagram->work, link);
    }
}

/* There is no such connection here: of who is refused nothing is kept. */
static void say_gone(struct tt_rc *rc, const struct tt_rc_address *to, uint32_t serial)
{
    const struct tt_rc_greeting gone = {.kind = TT_RC_GONE, .to = to->instance, .serial = serial, .from = rc->address};
    struct tt_rc_datagram *datagram = tt_rc_pool_take(&rc->datagrams_out);
    if (datagram == NULL) {
        return;
    }
    struct ibv_ah *handle = tt_rc_address_handle(rc, to);
    datagram->work = (struct tt_rc_work){.kind = TT_RC_WORK_GREETING};
    datagram->handle = handle;
    if (handle == NULL) {
        tt_rc_pool_give(&rc->datagrams_out, datagram);
    } else if (send_datagram(rc, datagram, handle, &gone, to)) {
        TAILQ_INSERT_TAIL(&rc->refusals, &datagram->work, link);
    } else {
        ibv_destroy_ah(handle);
    }
}

void tt_rc_greeting_sent(struct tt_rc *rc, struct tt_rc_datagram *datagram)
{
    struct tt_rc_peer *peer = datagram->work.peer;
    if (peer == NULL) {
        TAILQ_REMOVE(&rc->refusals, &datagram->work, link);
        ibv_destroy_ah(datagram->handle);
    } else {
        TAILQ_REMOVE(&peer->greetings, &datagram->work, link);
        if (peer->session.phase == TT_SESSION_CLOSING) {
            tt_session_unsettle(&peer->session);
        }
    }
    tt_rc_pool_give(&rc->datagrams_out, datagram);
}

void tt_rc_greet(struct tt_rc_peer *peer)
{
    uint64_t pause_ns = TT_RC_GREETING_NS << (peer->greeting_tries < 3 ? peer->greeting_tries : 3);
    if (peer->greeting_tries >= TT_RC_GREETING_FAST_TRIES) {
        pause_ns = TT_RC_GREETING_MAX_NS;
    }
    if (peer->greeting_tries == TT_RC_GREETING_TRIES) {
        tt_session_fail(&peer->session, "device %s: %u greetings were not answered", peer->rc->device->name,
                        peer->greeting_tries);
        return;
    }
    peer->greeting_tries++;
    peer->greet_ns = peer->rc->session.now_ns + pause_ns;
    say_hello(peer);
}

/* Makes this end: a queue pair, and the way to the other instance's service. */
static tutti_status make_end(struct tt_rc_peer *peer)
{
    const struct tt_rc *rc = peer->rc;
    tutti_status status = tt_rc_queue_create(peer);
    if (status != TUTTI_OK) {
        return status;
    }
    peer->handle = tt_rc_address_handle(rc, &peer->address);
    if (peer->handle == NULL && errno == ENOMEM) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "verbs: no memory for an address handle");
    }
    if (peer->handle == NULL) { /* the owner learns of it as of any other peer that cannot be reached */
        tt_session_fail(&peer->session, "device %s knows no way to it: %s", rc->device->name, strerror(errno));
    }
    return TUTTI_OK;
}

/* Nothing came of it: it holds nothing but its receives. */
static void unmake_end(struct tt_rc_peer *peer)
{
    if (peer->queue_pair != NULL) {
        tt_rc_queue_destroy(peer);
        peer->receives = 0;
    }
}

tutti_status tt_rc_begin(struct tt_session_peer *base, const void *address, bool begun)
{
    (void)address; /* it is the remote instance's */
    struct tt_rc_peer *peer = (struct tt_rc_peer *)base;
    if (begun) {
        return TUTTI_OK;
    }
    tutti_status status = make_end(peer);
    if (status != TUTTI_OK) {
        unmake_end(peer);
    } else if (!base->broken) {
        tt_rc_greet(peer);
    }
    return status;
}

/* --- What comes --------------------------------------------------------------------------------------------------- */

void tt_rc_peer_opened(struct tt_rc_peer *peer)
{
    peer->stage = TT_RC_OPEN;
    tt_session_opened(&peer->session);
    TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "verbs: connected to instance %016llx, queue pair %u",
           (unsigned long long)peer->address.instance, peer->queue_pair->qp_num);
    tt_rc_send_waiting(peer);
    tt_rc_operations_start(peer);
}

static void take_hello(struct tt_rc_peer *peer, const struct tt_rc_greeting *hello)
{
    if (peer->stage == TT_RC_CALLING) {
        if (tt_rc_queue_connect(peer, hello) != TUTTI_OK) {
            tt_session_fail(&peer->session, "%s", tt_last_error());
            return;
        }
        peer->stage = TT_RC_READY;
    }
    peer->heard_ns = peer->rc->session.now_ns;
    if (hello->stage >= TT_RC_READY && peer->session.phase == TT_SESSION_GREETING) {
        tt_rc_peer_opened(peer);
    }
    if (hello->stage < TT_RC_OPEN) {
        say_hello(peer);
    }
}

static void take_gone(struct tt_rc *rc, const void *from, uint32_t serial)
{
    struct tt_session_peer *peer = tt_session_find(&rc->session, from, serial);
    if (peer != NULL && peer->phase == TT_SESSION_GREETING) {
        tt_session_fail(peer, "it has no such connection, or not any more");
    }
}

/* The connection that a HELLO is for, made if the other side begins it; NULL: none. */
static struct tt_rc_peer *find_or_make(struct tt_rc *rc, const void *from, const struct tt_rc_greeting *hello)
{
    struct tt_session_peer *peer = tt_session_find(&rc->session, from, hello->serial);
    if (peer == NULL) {
        peer = tt_session_greeted(&rc->session, from, hello->serial);
        if (peer != NULL && (make_end((struct tt_rc_peer *)peer) != TUTTI_OK || peer->broken)) {
            unmake_end((struct tt_rc_peer *)peer);
            tt_session_drop(peer);
            return NULL;
        }
    }
    if (peer == NULL || peer->broken || peer->phase >= TT_SESSION_CLOSING) {
        say_gone(rc, &hello->from, hello->serial);
        return NULL;
    }
    return (struct tt_rc_peer *)peer;
}

static bool is_for(const struct tt_rc *rc, const struct tt_rc_greeting *greeting)
{
    return greeting->to == rc->address.instance && greeting->from.instance != rc->address.instance &&
           greeting->from.roce == rc->address.roce;
}

void tt_rc_heard_greeting(struct tt_rc *rc, struct tt_rc_datagram *datagram, uint32_t length_bytes)
{
    struct tt_rc_greeting greeting;
    uint8_t from[TT_RC_ADDRESS_BYTES];
    if (length_bytes < TT_RC_GRH_BYTES ||
        !tt_rc_greeting_decode(datagram->bytes + TT_RC_GRH_BYTES, length_bytes - TT_RC_GRH_BYTES, &greeting) ||
        !is_for(rc, &greeting)) {
        rc->session.counters.frames_dropped++;
        TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "verbs: dropped a foreign datagram of %u bytes", length_bytes);
        return;
    }
    tt_rc_address_encode(&greeting.from, from);
    if (greeting.kind == TT_RC_GONE) {
        take_gone(rc, from, greeting.serial);
        return;
    }
    struct tt_rc_peer *peer = find_or_make(rc, from, &greeting);
    if (peer != NULL) {
        take_hello(peer, &greeting);
    }
}

void tt_rc_hear_again(struct tt_rc *rc, struct tt_rc_datagram *datagram)
{
    datagram->work = (struct tt_rc_work){.kind = TT_RC_WORK_HEAR};
    struct ibv_sge place = {
        .addr = (uintptr_t)datagram->bytes, .length = sizeof(datagram->bytes), .lkey = tt_rc_pool_lkey(datagram)};
    struct ibv_recv_wr request = {.wr_id = (uintptr_t)&datagram->work, .sg_list = &place, .num_sge = 1};
    struct ibv_recv_wr *refused;
    int error = ibv_post_recv(rc->service, &request, &refused);
    if (error != 0) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "verbs: posting a receive for greetings: %s", strerror(error));
    }
}
