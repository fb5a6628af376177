/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How the two ends of a connection find each other: by datagrams between the service queue pairs, whose numbers are in
 * the addresses.
 *
 * Normal path: each end says HELLO with its queue pair and first PSN, and says how far it is; a HELLO of the other side
 * makes it READY to receive, a HELLO of a side that is ready makes it OPEN. A HELLO is answered until its sender is
 * open. So both may begin, or one: the other side's end is then made without an owner, and waits for connect.
 *
 * Failures: a datagram that is lost is sent again, with growing pauses. A side that never answers is taken for dead;
 * the tries are counted, not the time, so that a process which was away for long does not find everybody dead. What is
 * left of an earlier connection is answered with GONE. Datagrams that are not for this instance are dropped and
 * counted.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"

enum { SERIALS_AHEAD = 64 }; /* so many connections may the other side have begun that this one has not */

static void send_datagram(struct tt_rc *rc, const struct tt_rc_remote *remote, const struct tt_rc_greeting *greeting)
{
    struct tt_rc_datagram *datagram = remote->handle != NULL ? tt_rc_pool_take(&rc->datagrams_out) : NULL;
    if (datagram == NULL) {
        return; /* it will be repeated */
    }
    datagram->work = (struct tt_rc_work){.kind = TT_RC_WORK_GREETING};
    tt_rc_greeting_encode(greeting, datagram->bytes);
    struct ibv_sge place = {
        .addr = (uintptr_t)datagram->bytes, .length = TT_RC_GREETING_BYTES, .lkey = tt_rc_pool_lkey(datagram)};
    struct ibv_send_wr request = {.wr_id = (uintptr_t)&datagram->work,
                                  .sg_list = &place,
                                  .num_sge = 1,
                                  .opcode = IBV_WR_SEND,
                                  .send_flags = IBV_SEND_SIGNALED,
                                  .wr.ud = {.ah = remote->handle,
                                            .remote_qpn = remote->address.queue_pair,
                                            .remote_qkey = remote->address.queue_key}};
    struct ibv_send_wr *refused;
    int error = ibv_post_send(rc->service, &request, &refused);
    if (error != 0) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "verbs: a greeting to instance %016llx: %s",
               (unsigned long long)remote->address.instance, strerror(error));
        tt_rc_pool_give(&rc->datagrams_out, datagram);
    }
}

static void say_hello(const struct tt_rc_peer *peer)
{
    const struct tt_rc_greeting hello = {.kind = TT_RC_HELLO,
                                         .stage = peer->stage,
                                         .to = peer->remote->address.instance,
                                         .serial = peer->serial,
                                         .queue_pair = peer->queue_pair->qp_num,
                                         .psn = peer->psn,
                                         .from = peer->rc->address};
    send_datagram(peer->rc, peer->remote, &hello);
}

static void say_gone(struct tt_rc *rc, const struct tt_rc_remote *remote, uint32_t serial)
{
    const struct tt_rc_greeting gone = {
        .kind = TT_RC_GONE, .to = remote->address.instance, .serial = serial, .from = rc->address};
    send_datagram(rc, remote, &gone);
}

void tt_rc_greet(struct tt_rc_peer *peer)
{
    uint64_t pause_ns = TT_RC_GREETING_NS << (peer->greeting_tries < 3 ? peer->greeting_tries : 3);
    if (peer->greeting_tries == TT_RC_GREETING_TRIES) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "verbs: instance %016llx did not answer %u greetings, taking it for dead",
               (unsigned long long)peer->remote->address.instance, peer->greeting_tries);
        tt_rc_peer_failed(peer);
        return;
    }
    peer->greeting_tries++;
    peer->greet_ns = peer->rc->now_ns + pause_ns;
    say_hello(peer);
}

static void take_hello(struct tt_rc_peer *peer, const struct tt_rc_greeting *hello)
{
    if (peer->stage == TT_RC_CALLING) {
        if (tt_rc_queue_connect(peer, hello) != TUTTI_OK) {
            tt_rc_peer_failed(peer);
            return;
        }
        peer->stage = TT_RC_READY;
    }
    peer->heard_ns = peer->rc->now_ns;
    if (hello->stage >= TT_RC_READY && peer->phase == TT_RC_GREETING) {
        tt_rc_peer_opened(peer);
    }
    if (hello->stage < TT_RC_OPEN) {
        say_hello(peer);
    }
}

/* Of an instance that was never heard of nothing is kept. */
static void take_gone(const struct tt_rc *rc, const struct tt_rc_greeting *gone)
{
    const struct tt_rc_remote *remote = tt_rc_remote_find(rc, gone->from.instance);
    struct tt_rc_peer *peer = remote != NULL ? tt_rc_peer_find(remote, gone->serial) : NULL;
    if (peer != NULL && peer->phase == TT_RC_GREETING) {
        tt_rc_peer_failed(peer);
    }
}

/* The connection that a HELLO is for, made if the other side begins it; NULL: none. */
static struct tt_rc_peer *find_or_create(struct tt_rc *rc, struct tt_rc_remote *remote, uint32_t serial)
{
    struct tt_rc_peer *peer = tt_rc_peer_find(remote, serial);
    if (peer != NULL && peer->queue_pair != NULL) {
        return peer;
    }
    if (peer != NULL || serial - remote->next_serial >= SERIALS_AHEAD) {
        say_gone(rc, remote, serial);
        return NULL;
    }
    return tt_rc_peer_create(rc, remote, serial, &peer) == TUTTI_OK ? peer : NULL;
}

void tt_rc_heard_greeting(struct tt_rc *rc, struct tt_rc_datagram *datagram, uint32_t length_bytes)
{
    struct tt_rc_greeting greeting;
    struct tt_rc_remote *remote;
    struct tt_rc_peer *peer;
    if (length_bytes < TT_RC_GRH_BYTES ||
        !tt_rc_greeting_decode(datagram->bytes + TT_RC_GRH_BYTES, length_bytes - TT_RC_GRH_BYTES, &greeting) ||
        greeting.to != rc->address.instance || greeting.from.instance == rc->address.instance ||
        greeting.from.roce != rc->address.roce) {
        rc->counters.frames_dropped++;
        TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "verbs: dropped a foreign datagram of %u bytes", length_bytes);
        return;
    }
    if (greeting.kind == TT_RC_GONE) {
        take_gone(rc, &greeting);
        return;
    }
    if (tt_rc_remote_of(rc, &greeting.from, &remote) != TUTTI_OK) {
        return;
    }
    peer = find_or_create(rc, remote, greeting.serial);
    if (peer != NULL && peer->phase != TT_RC_CLOSING) {
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
