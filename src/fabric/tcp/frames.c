/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages on the sockets for frames.
 *
 * Normal path: a message goes to the socket at once, unless another one follows it; in a batch all to one peer go when
 * that ends, in one call, and a long body among them from where its owner has it. That a put has been placed waits for
 * what the caller sends when it hears of that. What has come is read into the instance's arena, as much as there is,
 * and frames are handed out where they lie; the arena is used again when all of it has been looked at. A message that
 * has come in part is kept with the peer; its rest is read there, alone, and it is handed out from there.
 *
 * Failures: what a full socket does not take is queued, and so is all that is sent before the socket is open. Bytes
 * that are no message break the connection, as does a socket that is over; what had come before that is handed out.
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/least.h"
#include "base/log.h"
#include "base/shortage.h"
#include "fabric/tcp/instance.h"
#include "wire/cursor.h"

/* --- Out ---------------------------------------------------------------------------------------------------------- */

/* Room for so many bytes more: what is long goes to the memory that the instance has to spare, if nobody has it. */
static bool make_room(struct tt_tcp_peer *peer, size_t length_bytes)
{
    struct tt_tcp_queue *queue = &peer->out, *spare = &peer->tcp->spare_queue;
    size_t held_bytes = queue->end - queue->begin, capacity = queue->capacity;
    if (queue->begin > 0) {
        memmove(queue->bytes, queue->bytes + queue->begin, held_bytes);
        for (uint32_t i = 0; i < peer->body_count; i++) {
            peer->bodies[i].at -= queue->begin;
        }
        queue->begin = 0;
        queue->end = held_bytes;
    }
    if (held_bytes + length_bytes <= capacity) {
        return true;
    }
    if (held_bytes + length_bytes > TT_TCP_QUEUE_KEPT_BYTES && held_bytes + length_bytes <= spare->capacity) {
        if (held_bytes > 0) {
            memcpy(spare->bytes, queue->bytes, held_bytes);
        }
        free(queue->bytes);
        *queue = (struct tt_tcp_queue){.bytes = spare->bytes, .end = held_bytes, .capacity = spare->capacity};
        *spare = (struct tt_tcp_queue){0};
        return true;
    }
    capacity = capacity > 0 ? capacity : TT_TCP_QUEUE_KEPT_BYTES;
    while (capacity < held_bytes + length_bytes) {
        capacity *= 2;
    }
    uint8_t *grown = realloc(queue->bytes, capacity);
    if (grown == NULL) {
        return false;
    }
    queue->bytes = grown;
    queue->capacity = capacity;
    return true;
}

static bool append(struct tt_tcp_peer *peer, const void *bytes, size_t length_bytes)
{
    struct tt_tcp_queue *queue = &peer->out;
    if (length_bytes == 0) { /* and there may be no memory either */
        return true;
    }
    if (queue->end + length_bytes > queue->capacity && !make_room(peer, length_bytes)) {
        return false;
    }
    memcpy(queue->bytes + queue->end, bytes, length_bytes);
    queue->end += length_bytes;
    return true;
}

static size_t queued_bytes(const struct tt_tcp_peer *peer)
{
    size_t bytes = peer->out.end - peer->out.begin;
    for (uint32_t i = 0; i < peer->body_count; i++) {
        bytes += peer->bodies[i].length_bytes;
    }
    return bytes;
}

/* Puts all bodies where they belong: they have to wait, and may not be read any more. */
static bool lay_down_bodies(struct tt_tcp_peer *peer)
{
    struct tt_tcp_queue *queue = &peer->out;
    size_t more_bytes = queued_bytes(peer) - (queue->end - queue->begin);
    if (queue->end + more_bytes > queue->capacity && !make_room(peer, more_bytes)) {
        return false;
    }
    while (peer->body_count > 0) {
        const struct tt_tcp_body *body = &peer->bodies[--peer->body_count];
        uint8_t *place = queue->bytes + body->at;
        memmove(place + body->length_bytes, place, queue->end - body->at);
        memcpy(place, body->bytes, body->length_bytes);
        queue->end += body->length_bytes;
    }
    return true;
}

static void emptied(struct tt_tcp_peer *peer)
{
    struct tt_tcp_queue *spare = &peer->tcp->spare_queue;
    peer->out.begin = peer->out.end = 0;
    peer->body_count = 0;
    if (peer->out.capacity <= TT_TCP_QUEUE_KEPT_BYTES) {
        return;
    }
    if (spare->bytes == NULL && peer->out.capacity == TT_TCP_QUEUE_BYTES) {
        *spare = peer->out;
    } else {
        free(peer->out.bytes);
    }
    peer->out = (struct tt_tcp_queue){0};
}

/* What a socket takes of it; one that is over takes all: that it is over comes out of reading, behind what has come. */
static size_t offer(struct tt_tcp_socket *socket, struct iovec *pieces, size_t count, size_t length_bytes, int flags)
{
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    ssize_t sent;
    do {
        sent = sendmsg(socket->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT | flags);
    } while (sent < 0 && errno == EINTR);
    if (sent < 0) {
        return tt_tcp_note_error(socket) ? length_bytes : 0;
    }
    return (size_t)sent;
}

static void set_blocked(struct tt_tcp_peer *peer, bool blocked)
{
    peer->tcp->blocked_count += blocked;
    peer->tcp->blocked_count -= peer->blocked;
    peer->blocked = blocked;
}

static void watch_for_room(struct tt_tcp_peer *peer)
{
    set_blocked(peer, true);
    if (!tt_tcp_watch(peer->tcp, &peer->frames, EPOLLIN | EPOLLOUT)) {
        char why[TT_SHORTAGE_TEXT_BYTES];
        tt_session_starve(&peer->session, "watch its socket: %s", tt_shortage_text(errno, why));
    }
}

/* Of something a part may have been sent, and nothing else can follow that: what waits is dropped. */
static void fail_without_memory(struct tt_tcp_peer *peer)
{
    emptied(peer);
    tt_session_starve(&peer->session, "no memory for what is sent to it");
}

/* All that waits, in order, as bytes of the queue and bodies by turns. Returns how many pieces that is. */
static size_t list_pieces(const struct tt_tcp_peer *peer, struct iovec pieces[2 * TT_TCP_BODIES + 1])
{
    const struct tt_tcp_queue *queue = &peer->out;
    size_t begin = queue->begin, count = 0;
    for (uint32_t i = 0; i < peer->body_count; i++) {
        const struct tt_tcp_body *body = &peer->bodies[i];
        pieces[count++] = (struct iovec){.iov_base = queue->bytes + begin, .iov_len = body->at - begin};
        pieces[count++] = (struct iovec){.iov_base = (void *)(uintptr_t)body->bytes, .iov_len = body->length_bytes};
        begin = body->at;
    }
    if (begin < queue->end) {
        pieces[count++] = (struct iovec){.iov_base = queue->bytes + begin, .iov_len = queue->end - begin};
    }
    return count;
}

/* So much of it has been taken, and is no longer there. */
static void drop_taken(struct tt_tcp_peer *peer, size_t taken_bytes)
{
    struct tt_tcp_queue *queue = &peer->out;
    uint32_t gone = 0;
    for (uint32_t i = 0; i < peer->body_count; i++) {
        struct tt_tcp_body *body = &peer->bodies[i];
        size_t of_queue = tt_least(taken_bytes, body->at - queue->begin);
        size_t of_body = tt_least(taken_bytes - of_queue, body->length_bytes);
        queue->begin += of_queue;
        body->bytes += of_body;
        body->length_bytes -= of_body;
        taken_bytes -= of_queue + of_body;
        gone += body->length_bytes == 0;
    }
    queue->begin += taken_bytes;
    peer->body_count -= gone;
    memmove(peer->bodies, peer->bodies + gone, peer->body_count * sizeof(peer->bodies[0]));
}

/* False: no memory for bodies that have to wait. */
static bool offer_queue(struct tt_tcp_peer *peer)
{
    struct iovec pieces[2 * TT_TCP_BODIES + 1];
    size_t count = list_pieces(peer, pieces);
    drop_taken(peer, offer(&peer->frames, pieces, count, queued_bytes(peer), 0));
    tt_tcp_sent(peer, false);
    return peer->body_count == 0 || lay_down_bodies(peer);
}

void tt_tcp_flush(struct tt_tcp_peer *peer)
{
    struct tt_tcp_queue *queue = &peer->out;
    if (peer->frames.stage != TT_TCP_OPEN || peer->session.broken) {
        return;
    }
    if (queue->begin < queue->end && !offer_queue(peer)) {
        fail_without_memory(peer);
        return;
    }
    if (queue->begin < queue->end) {
        watch_for_room(peer);
        return;
    }
    emptied(peer);
    set_blocked(peer, false);
    (void)tt_tcp_watch(peer->tcp, &peer->frames, EPOLLIN);
}

/* When a message goes. */
enum urgency {
    NOW,          /* or with its batch */
    WITH_OTHERS,  /* with what the caller sends when it has heard of this progress, or with the next one, or arm */
    WITH_THE_NEXT /* which follows at once */
};

/* Whether a body may stay where it lies: all of it is sent, or laid down, before its owner has it back. */
static bool may_refer(const struct tt_tcp_peer *peer, enum urgency urgency)
{
    return peer->frames.stage == TT_TCP_OPEN && (peer->frames.watched & EPOLLOUT) == 0 &&
           peer->body_count < TT_TCP_BODIES && (urgency == NOW || peer->tcp->session.base.batches);
}

static bool append_body(struct tt_tcp_peer *peer, const struct tt_p2p_frame *payload, enum urgency urgency)
{
    enum { LEAST_BYTES = 1024 }; /* what is shorter is copied sooner than it is described */
    if (!payload->stays || payload->body_bytes < LEAST_BYTES || !may_refer(peer, urgency)) {
        return append(peer, payload->body, payload->body_bytes);
    }
    peer->bodies[peer->body_count++] =
        (struct tt_tcp_body){.bytes = payload->body, .length_bytes = payload->body_bytes, .at = peer->out.end};
    return true;
}

static void post(struct tt_tcp_peer *peer, enum tt_tcp_kind kind, const struct tt_p2p_frame *payload,
                 enum urgency urgency)
{
    static const uint8_t padding[TT_TCP_MESSAGE_ALIGNMENT];
    bool batches = peer->tcp->session.base.batches;
    uint32_t payload_bytes = tt_p2p_frame_bytes(payload);
    uint8_t header[TT_TCP_HEADER_BYTES];
    if (peer->session.broken) {
        return;
    }
    tt_tcp_header_encode(kind, payload_bytes, header);
    if (!append(peer, header, sizeof(header)) || !append(peer, payload->head, payload->head_bytes) ||
        !append_body(peer, payload, urgency) ||
        !append(peer, padding, tt_tcp_message_bytes(payload_bytes) - sizeof(header) - payload_bytes)) {
        fail_without_memory(peer);
        return;
    }
    if ((peer->frames.watched & EPOLLOUT) != 0 || (urgency == WITH_THE_NEXT && !batches)) {
        return;
    }
    if ((urgency == NOW && !batches) || queued_bytes(peer) > TT_TCP_QUEUE_BYTES / 2) {
        tt_tcp_flush(peer);
    } else if (!peer->in_batch) {
        peer->in_batch = true;
        TAILQ_INSERT_TAIL(&peer->tcp->batched, peer, batch_link);
        peer->tcp->session.base.has_batch = true;
    }
}

static void leave_batch(struct tt_tcp_peer *peer)
{
    if (peer->in_batch) {
        peer->in_batch = false;
        TAILQ_REMOVE(&peer->tcp->batched, peer, batch_link);
        peer->tcp->session.base.has_batch = !TAILQ_EMPTY(&peer->tcp->batched);
    }
}

void tt_tcp_frames_end(struct tt_tcp_peer *peer)
{
    leave_batch(peer);
    set_blocked(peer, false);
    emptied(peer);
    free(peer->out.bytes);
    peer->out = (struct tt_tcp_queue){0};
}

void tt_tcp_flush_batch(struct tt_p2p *p2p)
{
    struct tt_tcp *tcp = tt_tcp_of(p2p);
    struct tt_tcp_peer *peer;
    while (!p2p->batches && (peer = TAILQ_FIRST(&tcp->batched)) != NULL) {
        leave_batch(peer);
        tt_tcp_flush(peer);
    }
}

void tt_tcp_post(struct tt_tcp_peer *peer, enum tt_tcp_kind kind, const void *payload, uint32_t payload_bytes)
{
    post(peer, kind, &(struct tt_p2p_frame){.head = payload, .head_bytes = payload_bytes}, NOW);
}

void tt_tcp_post_id(struct tt_tcp_peer *peer, enum tt_tcp_kind kind, uint64_t id)
{
    uint8_t bytes[TT_TCP_ID_BYTES];
    tt_bytes_put(bytes, id, sizeof(bytes));
    post(peer, kind, &(struct tt_p2p_frame){.head = bytes, .head_bytes = sizeof(bytes)},
         kind == TT_TCP_WRITTEN ? WITH_OTHERS : NOW);
}

tutti_status tt_tcp_send(struct tt_session_peer *base, const struct tt_p2p_frame *frame, bool more)
{
    post((struct tt_tcp_peer *)base, TT_TCP_FRAME, frame, more ? WITH_THE_NEXT : NOW);
    return TUTTI_OK;
}

/* --- What may be lost --------------------------------------------------------------------------------------------- */

void tt_tcp_sent(struct tt_tcp_peer *peer, bool bulk)
{
    if (peer->tcp->lossless) {
        return;
    }
    if (bulk) {
        peer->bulk_sent = true;
    } else {
        peer->frames_sent = true;
    }
    tt_tail_sent(&peer->tcp->tails, &peer->tail);
    tt_tcp_watch_for_silence(peer->tcp);
}

void tt_tcp_watch_for_silence(struct tt_tcp *tcp)
{
    if (tcp->watch_ns == TT_NEVER) {
        tcp->watch_ns = tcp->session.now_ns + TT_TCP_WATCH_NS;
    }
}

/*
 * Of how many segments a probe is. TCP takes for lost what was sent before three segments that have come; with fewer it
 * waits first, whether they have only overtaken it: for two of the system's ticks, which is as long as dozens of round
 * trips (RFC 8985, 6.2). So these are as many as are missing, each a segment of its own (MSG_EOR). Behind a greeting
 * one has to do, as there is no place for the rest of one that was sent in part.
 */
static uint32_t segments_of_probe(const struct tt_tcp_socket *socket)
{
    enum { EVIDENCE = 3 };
    return socket->stage == TT_TCP_OPEN && socket->later < EVIDENCE ? EVIDENCE - socket->later : 1;
}

static void probe_frames(struct tt_tcp_peer *peer)
{
    uint8_t probe[TT_TCP_MESSAGE_ALIGNMENT] = {0};
    size_t taken = sizeof(probe);
    tt_tcp_header_encode(TT_TCP_PROBE, 0, probe);
    for (uint32_t i = segments_of_probe(&peer->frames); i > 0 && taken == sizeof(probe); i--) {
        struct iovec piece = {.iov_base = probe, .iov_len = sizeof(probe)};
        taken = offer(&peer->frames, &piece, 1, sizeof(probe), MSG_EOR);
    }
    if (taken == 0 || taken == sizeof(probe)) {
        return;
    }
    if (!append(peer, probe + taken, sizeof(probe) - taken)) {
        fail_without_memory(peer);
    } else if (peer->frames.stage == TT_TCP_OPEN) {
        watch_for_room(peer);
    }
}

static void probe_bulk(struct tt_tcp_peer *peer)
{
    const struct tt_tcp_stream probe = {.kind = TT_TCP_PROBE};
    const struct tt_tcp_bulk_header header = {.kind = TT_TCP_PROBE};
    uint8_t bytes[TT_TCP_BULK_HEADER_BYTES];
    tt_tcp_bulk_encode(&header, bytes);
    for (uint32_t i = segments_of_probe(&peer->bulk); i > 0; i--) {
        if (peer->bulk.stage == TT_TCP_OPEN) {
            (void)tt_tcp_stream(peer, &probe); /* without memory for it TCP's own time-out has to do */
        } else {
            struct iovec piece = {.iov_base = bytes, .iov_len = sizeof(bytes)};
            (void)offer(&peer->bulk, &piece, 1, sizeof(bytes), MSG_EOR); /* behind a greeting there is room */
        }
    }
}

static void look_for_losses(struct tt_tcp_peer *peer, uint64_t now_ns)
{
    bool of_frames = peer->frames_sent && tt_tcp_has_lost(&peer->frames);
    bool of_bulk = peer->bulk_sent && tt_tcp_has_lost(&peer->bulk);
    if ((of_frames || of_bulk) && tt_tails_lost(&peer->tcp->tails, now_ns)) {
        char text[TT_TCP_TEXT_BYTES];
        tt_tcp_address_format(peer->session.remote->address, text);
        TT_LOG(TT_PART_FABRIC, TT_LOG_DEBUG, "tcp: a segment to %s was lost: probes go out sooner for a while", text);
    }
}

/* What has been acknowledged was not lost, and what still waits to be sent will show what was. A greeting that is not
 * answered may be lost, too: what the probe says is a message behind it. */
void tt_tcp_probe(struct tt_tcp_peer *peer, uint64_t now_ns)
{
    struct tt_p2p_counters *counters = &peer->tcp->session.counters;
    bool settled = true;
    if (peer->session.broken) {
        tt_tail_forget(&peer->tcp->tails, &peer->tail);
        return; /* of what it was sent a part may be missing, which a probe is none of */
    }
    look_for_losses(peer, now_ns);
    if (peer->frames_sent && tt_tcp_unreceived(&peer->frames) > 0) {
        settled = false;
        if (peer->frames.stage == TT_TCP_GREETED || peer->out.begin == peer->out.end) {
            counters->probes_sent++;
            probe_frames(peer);
        }
    }
    if (peer->bulk_sent && tt_tcp_unreceived(&peer->bulk) > 0) {
        settled = false;
        if (peer->bulk.stage == TT_TCP_GREETED || STAILQ_EMPTY(&peer->streams)) {
            counters->probes_sent++;
            probe_bulk(peer);
        }
    }
    if (settled) {
        tt_tail_forget(&peer->tcp->tails, &peer->tail);
    }
    if (peer->tail.stage == TT_TAIL_QUIET) {
        peer->frames_sent = peer->bulk_sent = false;
    }
}

/* --- In ----------------------------------------------------------------------------------------------------------- */

bool tt_tcp_look_whether_silent(struct tt_tcp_peer *peer)
{
    uint32_t silent_ms = (uint32_t)tt_most(tt_tcp_silent_ms(&peer->frames), tt_tcp_silent_ms(&peer->bulk));
    char text[TT_TCP_TEXT_BYTES];
    if (silent_ms >= peer->tcp->peer_timeout_s * 1000) {
        tt_tcp_address_format(peer->session.remote->address, text);
        tt_session_fail(&peer->session,
                        "%s: nothing has come back for %u s (its host is gone, or a firewall drops TCP to it)", text,
                        silent_ms / 1000);
    }
    return tt_tcp_unreceived(&peer->frames) > 0 || tt_tcp_unreceived(&peer->bulk) > 0;
}

static void broken(struct tt_tcp_peer *peer, int error)
{
    char text[TT_TCP_TEXT_BYTES];
    tt_tcp_address_format(peer->session.remote->address, text);
    tt_session_fail(&peer->session, "%s: %s", text,
                    error == 0 || error == ECONNRESET
                        ? "it closed the connection without a goodbye (its process has ended, or it says why)"
                        : strerror(error));
}

/* Returns how many bytes have come; 0: none, or the socket is over. */
static size_t receive(struct tt_tcp_peer *peer, uint8_t *at, size_t room_bytes)
{
    ssize_t count = recv(peer->frames.fd, at, room_bytes, MSG_DONTWAIT);
    if (count > 0) {
        return (size_t)count;
    }
    if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
        broken(peer, count == 0 ? peer->frames.error : errno);
    }
    return 0;
}

/* How long what has come in part is, as far as that is known. */
static uint32_t wanted_bytes(const struct tt_tcp_peer *peer)
{
    enum tt_tcp_kind kind;
    uint32_t payload_bytes;
    if (peer->come_bytes < TT_TCP_HEADER_BYTES) {
        return TT_TCP_HEADER_BYTES;
    }
    /* Who looks at what is no message breaks the connection. */
    return tt_tcp_header_decode(peer->part->bytes, &kind, &payload_bytes) ? tt_tcp_message_bytes(payload_bytes)
                                                                          : peer->come_bytes;
}

/* The rest of a message that has come in part, and nothing behind it. Returns whether all of it is here. */
static bool complete(struct tt_tcp_peer *peer)
{
    uint32_t whole_bytes;
    while (peer->come_bytes < (whole_bytes = wanted_bytes(peer))) {
        size_t count = receive(peer, peer->part->bytes + peer->come_bytes, whole_bytes - peer->come_bytes);
        if (count == 0) {
            return false;
        }
        peer->come_bytes += (uint32_t)count;
    }
    return true;
}

void tt_tcp_receive(struct tt_tcp_peer *peer)
{
    struct tt_tcp *tcp = peer->tcp;
    uint8_t *at = tcp->arena + tcp->arena_bytes;
    assert(tcp->rest.at == tcp->rest.end);
    if (peer->come_bytes > 0) {
        if (complete(peer)) {
            at = peer->part->bytes;
            tcp->rest = (struct tt_tcp_rest){.peer = peer, .at = at, .end = at + peer->come_bytes};
            peer->come_bytes = 0;
        }
        return;
    }
    assert(tcp->arena_bytes % TT_TCP_MESSAGE_ALIGNMENT == 0 &&
           TT_TCP_ARENA_BYTES - tcp->arena_bytes >= TT_TCP_GULP_BYTES);
    size_t count = receive(peer, at, TT_TCP_GULP_BYTES);
    tcp->rest = (struct tt_tcp_rest){.peer = peer, .at = at, .end = at + count};
    tcp->arena_bytes += count + TT_TCP_MESSAGE_ALIGNMENT - 1;
    tcp->arena_bytes -= tcp->arena_bytes % TT_TCP_MESSAGE_ALIGNMENT;
}

/* A message that is not for the caller; returns whether it makes sense. */
static bool take_message(struct tt_tcp_peer *peer, enum tt_tcp_kind kind, const uint8_t *payload)
{
    struct tt_tcp_place place;
    uint64_t id;
    switch (kind) {
    case TT_TCP_BYE:
    case TT_TCP_BYE_HEARD:
        tt_session_left(&peer->session);
        return true;
    case TT_TCP_WANT_BULK:
        if (peer->dialer && !peer->session.down) {
            tt_tcp_dial_bulk(peer);
        }
        return peer->dialer;
    case TT_TCP_READ:
        tt_tcp_read_decode(payload, &id, &place);
        return peer->session.down || tt_tcp_asked(peer, id, &place);
    case TT_TCP_WRITTEN:
    case TT_TCP_REFUSED:
        return peer->session.down ||
               tt_tcp_answered(peer, tt_bytes_get(payload, TT_TCP_ID_BYTES), kind == TT_TCP_REFUSED);
    default:
        return true; /* a probe */
    }
}

/* Nothing of it is looked at any more. */
static void break_off(struct tt_tcp *tcp, struct tt_tcp_peer *peer)
{
    char text[TT_TCP_TEXT_BYTES];
    tcp->session.counters.frames_dropped++;
    tcp->rest.at = tcp->rest.end;
    tt_session_fail(&peer->session, "%s: it sent what is no message of tutti's",
                    tt_tcp_address_format(peer->session.remote->address, text));
}

static void keep_part(struct tt_tcp_peer *peer, const uint8_t *bytes, size_t length_bytes)
{
    memcpy(peer->part->bytes, bytes, length_bytes);
    peer->come_bytes = (uint32_t)length_bytes;
}

uint32_t tt_tcp_read_rest(struct tt_tcp *tcp, struct tt_p2p_event *events, uint32_t max)
{
    struct tt_tcp_rest *rest = &tcp->rest;
    struct tt_tcp_peer *peer = rest->peer;
    uint32_t count = 0;
    while (rest->at < rest->end && count < max) {
        size_t left_bytes = (size_t)(rest->end - rest->at);
        enum tt_tcp_kind kind;
        uint32_t payload_bytes = 0;
        if (left_bytes >= TT_TCP_HEADER_BYTES && !tt_tcp_header_decode(rest->at, &kind, &payload_bytes)) {
            break_off(tcp, peer);
            return count;
        }
        if (left_bytes < TT_TCP_HEADER_BYTES || left_bytes < tt_tcp_message_bytes(payload_bytes)) {
            keep_part(peer, rest->at, left_bytes);
            rest->at = rest->end;
            return count;
        }
        const uint8_t *payload = rest->at + TT_TCP_HEADER_BYTES;
        rest->at += tt_tcp_message_bytes(payload_bytes);
        if (kind == TT_TCP_FRAME) {
            events[count++] = (struct tt_p2p_event){.type = TT_P2P_FRAME,
                                                    .length_bytes = payload_bytes,
                                                    .data = payload,
                                                    .address = peer->session.remote->address,
                                                    .address_bytes = TT_TCP_ADDRESS_BYTES,
                                                    .peer_cookie = tt_session_cookie(&peer->session)};
            tcp->session.counters.frames_received++;
            tcp->session.counters.bytes_received += payload_bytes;
        } else if (!take_message(peer, kind, payload)) {
            break_off(tcp, peer);
        }
    }
    return count;
}
