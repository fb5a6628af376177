/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bulk: the bytes of gets and puts, between the sockets and the caller's memory.
 *
 * Normal path: what goes to a peer are streams, one after the other: a read is cut into pieces, each behind a header
 * with its length; a put is one piece. A piece leaves with its header in one call, from where it lies, and comes in
 * where it belongs; the header of the next one is read together with the end of the one before.
 *
 * Failures: of a registration that is released in the middle of a piece the rest of the piece is copied, since what has
 * been announced must follow, and be what the other side takes it for. What is behind that piece is refused. What comes
 * for a get that is over, or into memory that is not registered, is read and thrown away. A header that makes no sense
 * breaks the connection.
 */
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

/* --- Out ---------------------------------------------------------------------------------------------------------- */

void tt_tcp_peer_due(struct tt_tcp_peer *peer)
{
    if (!peer->in_due) {
        peer->in_due = true;
        TAILQ_INSERT_TAIL(&peer->tcp->due, peer, due_link);
    }
}

static void not_due(struct tt_tcp_peer *peer)
{
    if (peer->in_due) {
        peer->in_due = false;
        TAILQ_REMOVE(&peer->tcp->due, peer, due_link);
    }
}

bool tt_tcp_stream(struct tt_tcp_peer *peer, const struct tt_tcp_stream *stream)
{
    struct tt_tcp_stream *made = tt_pool_take(&peer->tcp->streams);
    if (made == NULL) {
        return false;
    }
    *made = *stream;
    STAILQ_INSERT_TAIL(&peer->streams, made, link);
    if (peer->bulk.stage == TT_TCP_OPEN) {
        tt_tcp_peer_due(peer);
    } else {
        tt_tcp_dial_bulk(peer);
    }
    return true;
}

bool tt_tcp_asked(struct tt_tcp_peer *peer, uint64_t id, const struct tt_tcp_place *place)
{
    struct tt_tcp_memory *memory = tt_tcp_memory_find(peer->tcp, place);
    if (peer->reads == TT_TCP_READS_AT_ONCE || place->length_bytes == 0) {
        return false;
    }
    if (memory == NULL) {
        tt_tcp_post_id(peer, TT_TCP_REFUSED, id);
        return true;
    }
    const struct tt_tcp_stream stream = {.kind = TT_TCP_DATA,
                                         .id = id,
                                         .memory = memory,
                                         .source = (const uint8_t *)(uintptr_t)place->address,
                                         .left_bytes = place->length_bytes};
    if (!tt_tcp_stream(peer, &stream)) {
        tt_session_starve(&peer->session, "no memory for what it reads");
        return true;
    }
    memory->users++;
    peer->reads++;
    return true;
}

static void remove_stream(struct tt_tcp_peer *peer)
{
    struct tt_tcp_stream *stream = STAILQ_FIRST(&peer->streams);
    STAILQ_REMOVE_HEAD(&peer->streams, link);
    if (stream->kind == TT_TCP_DATA) {
        peer->reads--;
    }
    if (stream->memory != NULL) {
        stream->memory->users--;
    }
    if (stream->operation != NULL) {
        stream->operation->sent = true;
    }
    free(stream->copy);
    tt_pool_give(&peer->tcp->streams, stream);
}

/* The rest of the piece that has begun; returns false if there is no memory for it. */
static bool copy_piece(struct tt_tcp_stream *stream)
{
    if (stream->piece_bytes == 0) {
        return true;
    }
    stream->copy = malloc(stream->piece_bytes);
    if (stream->copy != NULL) {
        memcpy(stream->copy, stream->source, stream->piece_bytes);
        stream->source = stream->copy;
    }
    return stream->copy != NULL;
}

void tt_tcp_take_memory(struct tt_tcp_peer *peer, struct tt_tcp_memory *memory)
{
    struct tt_tcp_stream *stream;
    bool copied = true;
    STAILQ_FOREACH(stream, &peer->streams, link)
    {
        if (stream->memory == memory) {
            stream->memory = NULL;
            memory->users--;
            copied = copy_piece(stream) && copied; /* only the first one's has begun */
        }
    }
    if (peer->inbound.memory == memory) {
        peer->inbound.memory = NULL;
        peer->inbound.to = NULL;
        memory->users--;
    }
    if (!copied) {
        tt_session_starve(&peer->session, "no memory for the rest of what it reads");
    }
}

static void begin_piece(struct tt_tcp_stream *stream)
{
    struct tt_tcp_bulk_header header = {.kind = stream->kind, .id = stream->id};
    stream->piece_bytes = stream->left_bytes;
    if (stream->kind == TT_TCP_WRITE) {
        header.place = stream->operation->place;
        header.immediate = stream->operation->immediate;
    } else {
        stream->piece_bytes = tt_least(stream->left_bytes, TT_TCP_PIECE_BYTES);
        header.place.length_bytes = stream->piece_bytes;
    }
    stream->left_bytes -= stream->piece_bytes;
    stream->header_sent = 0;
    stream->begun = true;
    tt_tcp_bulk_encode(&header, stream->header);
}

/* Sends of the piece what the socket takes at once. Returns the bytes; -1: nothing more for now. */
static ssize_t send_piece(struct tt_tcp_peer *peer, struct tt_tcp_stream *stream)
{
    uint64_t header_bytes = sizeof(stream->header) - stream->header_sent;
    bool ends = header_bytes + stream->piece_bytes + stream->left_bytes <= peer->whole_bytes;
    uint64_t most_bytes = ends ? peer->whole_bytes : peer->part_bytes;
    uint64_t data_bytes = tt_least(stream->piece_bytes, most_bytes - header_bytes);
    int apart = peer->whole_bytes < TT_TCP_BURST_BYTES || stream->kind == TT_TCP_PROBE ? MSG_EOR : 0;
    struct iovec pieces[] = {{.iov_base = stream->header + stream->header_sent, .iov_len = header_bytes},
                             {.iov_base = (void *)(uintptr_t)stream->source, .iov_len = data_bytes}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = data_bytes > 0 ? 2 : 1};
    ssize_t sent = sendmsg(peer->bulk.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT | apart);
    if (sent < 0) {
        (void)tt_tcp_note_error(&peer->bulk);
        return -1; /* one that is over is found out by reading */
    }
    uint64_t of_header = tt_least((uint64_t)sent, header_bytes), of_data = (uint64_t)sent - of_header;
    stream->header_sent += (uint32_t)of_header;
    stream->piece_bytes -= of_data;
    if (stream->source != NULL) {
        stream->source += of_data;
    }
    return sent;
}

/* Between two pieces: whether the first stream goes on. */
static bool goes_on(struct tt_tcp_peer *peer)
{
    const struct tt_tcp_stream *stream = STAILQ_FIRST(&peer->streams);
    bool more = !stream->begun || stream->left_bytes > 0;
    bool released = stream->kind == TT_TCP_DATA && stream->memory == NULL;
    uint64_t id = stream->id;
    if (more && !released) {
        return true;
    }
    remove_stream(peer);
    if (more) {
        tt_tcp_post_id(peer, TT_TCP_REFUSED, id);
    }
    return false;
}

/* Up to a burst. Returns whether anything was sent. */
static bool send_streams(struct tt_tcp_peer *peer)
{
    uint64_t burst_bytes = 0;
    bool full = false, data = false;
    while (!STAILQ_EMPTY(&peer->streams) && !full && burst_bytes < TT_TCP_BURST_BYTES) {
        struct tt_tcp_stream *stream = STAILQ_FIRST(&peer->streams);
        if (!stream->begun || (stream->header_sent == sizeof(stream->header) && stream->piece_bytes == 0)) {
            if (!goes_on(peer)) {
                continue;
            }
            begin_piece(stream);
        }
        ssize_t sent = send_piece(peer, stream);
        full = sent < 0;
        burst_bytes += sent > 0 ? (uint64_t)sent : 0;
        data = data || (sent > 0 && stream->kind != TT_TCP_PROBE);
        if (stream->header_sent == sizeof(stream->header) && stream->piece_bytes == 0) {
            (void)goes_on(peer); /* a put has left with its last byte */
        }
    }
    if (data) {
        tt_tcp_sent(peer, true);
    } else if (burst_bytes > 0) { /* a probe, which is to be received as well */
        tt_tcp_watch_for_silence(peer->tcp);
    }
    if (full || STAILQ_EMPTY(&peer->streams)) {
        not_due(peer);
        if (peer->bulk.stage == TT_TCP_OPEN &&
            !tt_tcp_watch(peer->tcp, &peer->bulk, full ? EPOLLIN | EPOLLOUT : EPOLLIN)) {
            char why[TT_SHORTAGE_TEXT_BYTES];
            tt_session_starve(&peer->session, "watch its socket: %s", tt_shortage_text(errno, why));
        }
    }
    return burst_bytes > 0;
}

bool tt_tcp_send_due(struct tt_tcp *tcp)
{
    struct tt_tcp_peer *peer, *next;
    bool sent = false;
    for (peer = TAILQ_FIRST(&tcp->due); peer != NULL; peer = next) {
        next = TAILQ_NEXT(peer, due_link);
        sent = send_streams(peer) || sent;
    }
    return sent;
}

/* --- In ----------------------------------------------------------------------------------------------------------- */

static struct tt_tcp_operation *find_get(const struct tt_tcp_peer *peer, uint64_t id)
{
    struct tt_tcp_operation *get;
    TAILQ_FOREACH(get, &peer->gets, link)
    {
        if (get->id == id && get->sent) {
            return get;
        }
    }
    return NULL;
}

static bool begin_data(struct tt_tcp_peer *peer, struct tt_tcp_inbound *inbound)
{
    struct tt_tcp_operation *get = find_get(peer, inbound->id);
    uint64_t length_bytes = inbound->length_bytes;
    inbound->operation = get;
    inbound->to = NULL;
    if (get != NULL) { /* else it was refused, and this was on its way */
        if (length_bytes > get->place.length_bytes - get->moved_bytes) {
            return false;
        }
        inbound->to = get->local + get->moved_bytes;
    }
    return length_bytes > 0;
}

/* The event is made first: when all is there, nothing can fail any more. */
static bool begin_write(struct tt_tcp_peer *peer, struct tt_tcp_inbound *inbound,
                        const struct tt_tcp_bulk_header *header)
{
    const struct tt_p2p_immediate *immediate = &header->immediate;
    inbound->to = NULL;
    inbound->placed = tt_pool_take(&peer->tcp->operations);
    if (inbound->placed == NULL) {
        tt_session_starve(&peer->session, "no memory for what it writes");
        return true;
    }
    inbound->placed->immediate = *immediate;
    inbound->placed->event = (struct tt_session_event){.type = TT_P2P_IMMEDIATE,
                                                       .value = immediate->value,
                                                       .data = inbound->placed->immediate.data,
                                                       .data_bytes = immediate->data_bytes};
    /* A put of nothing is its immediate, and has no place. */
    inbound->memory = inbound->length_bytes > 0 ? tt_tcp_memory_find(peer->tcp, &header->place) : NULL;
    if (inbound->memory != NULL) {
        inbound->memory->users++;
        inbound->to = (uint8_t *)(uintptr_t)header->place.address;
    }
    return true;
}

static void end_data(struct tt_tcp_peer *peer, struct tt_tcp_inbound *inbound)
{
    struct tt_tcp_operation *get = inbound->operation;
    inbound->operation = NULL;
    if (get == NULL) {
        return;
    }
    get->moved_bytes += inbound->length_bytes;
    peer->tcp->session.counters.bytes_received += inbound->length_bytes;
    if (get->moved_bytes == get->place.length_bytes) {
        tt_tcp_get_end(peer, get, TUTTI_OK);
    }
}

static void end_write(struct tt_tcp_peer *peer, struct tt_tcp_inbound *inbound)
{
    struct tt_tcp_operation *placed = inbound->placed;
    inbound->placed = NULL;
    if (inbound->memory == NULL && inbound->length_bytes > 0) {
        tt_pool_give(&peer->tcp->operations, placed);
        peer->tcp->session.counters.frames_dropped++;
        tt_tcp_post_id(peer, TT_TCP_REFUSED, inbound->id);
        return;
    }
    if (inbound->memory != NULL) {
        inbound->memory->users--;
        inbound->memory = NULL;
    }
    tt_session_tell(&peer->tcp->session, &placed->event);
    tt_tcp_post_id(peer, TT_TCP_WRITTEN, inbound->id);
}

static void end_inbound(struct tt_tcp_peer *peer, struct tt_tcp_inbound *inbound)
{
    if (inbound->kind == TT_TCP_DATA) {
        end_data(peer, inbound);
    } else if (inbound->kind == TT_TCP_WRITE) {
        end_write(peer, inbound);
    }
}

/* Looks at a header that is whole; returns whether it makes sense. */
static bool begin_inbound(struct tt_tcp_peer *peer, struct tt_tcp_inbound *inbound)
{
    struct tt_tcp_bulk_header header = {0};
    bool good = tt_tcp_bulk_decode(inbound->header, &header);
    inbound->header_bytes = 0;
    inbound->kind = header.kind;
    inbound->id = header.id;
    inbound->length_bytes = header.place.length_bytes;
    if (good && header.kind == TT_TCP_DATA) {
        good = begin_data(peer, inbound);
    } else if (good && header.kind == TT_TCP_WRITE) {
        good = begin_write(peer, inbound, &header);
    }
    if (!good) {
        tt_session_fail(&peer->session, "it sent what is no bulk of tutti's");
        return false;
    }
    inbound->left_bytes = inbound->length_bytes;
    if (inbound->left_bytes == 0 && !peer->session.down) {
        end_inbound(peer, inbound);
    }
    return !peer->session.down;
}

/* What is left of the piece, and the next header behind it. Returns the bytes read, as recvmsg does. */
static ssize_t read_piece(struct tt_tcp_peer *peer, struct tt_tcp_inbound *inbound)
{
    struct iovec pieces[2];
    struct msghdr message = {.msg_iov = pieces};
    uint64_t data_bytes = inbound->left_bytes;
    if (data_bytes > 0) {
        data_bytes = tt_least(data_bytes, inbound->to != NULL ? TT_TCP_BURST_BYTES : TT_TCP_SCRATCH_BYTES);
        pieces[message.msg_iovlen++] =
            (struct iovec){.iov_base = inbound->to != NULL ? inbound->to : peer->tcp->waste, .iov_len = data_bytes};
    }
    if (data_bytes == inbound->left_bytes) {
        pieces[message.msg_iovlen++] = (struct iovec){.iov_base = inbound->header + inbound->header_bytes,
                                                      .iov_len = sizeof(inbound->header) - inbound->header_bytes};
    }
    ssize_t count = recvmsg(peer->bulk.fd, &message, MSG_DONTWAIT);
    if (count > 0) {
        uint64_t of_data = tt_least((uint64_t)count, data_bytes);
        inbound->left_bytes -= of_data;
        inbound->header_bytes += (uint32_t)((uint64_t)count - of_data);
        if (inbound->to != NULL) {
            inbound->to += of_data;
        }
        if (of_data > 0 && inbound->left_bytes == 0) {
            end_inbound(peer, inbound);
        }
    }
    return count;
}

void tt_tcp_receive_bulk(struct tt_tcp_peer *peer)
{
    struct tt_tcp_inbound *inbound = &peer->inbound;
    uint64_t burst_bytes = 0;
    while (burst_bytes < TT_TCP_BURST_BYTES && peer->bulk.stage == TT_TCP_OPEN) {
        ssize_t count = read_piece(peer, inbound);
        if (count <= 0) {
            if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
                tt_tcp_bulk_over(peer, count == 0 ? peer->bulk.error : errno);
            }
            return;
        }
        burst_bytes += (uint64_t)count;
        if (inbound->left_bytes == 0 && inbound->header_bytes == sizeof(inbound->header) &&
            !begin_inbound(peer, inbound)) {
            return;
        }
    }
}

void tt_tcp_bulk_end(struct tt_tcp_peer *peer)
{
    struct tt_tcp_inbound *inbound = &peer->inbound;
    not_due(peer);
    while (!STAILQ_EMPTY(&peer->streams)) {
        remove_stream(peer);
    }
    if (inbound->memory != NULL) {
        inbound->memory->users--;
    }
    if (inbound->placed != NULL) {
        tt_pool_give(&peer->tcp->operations, inbound->placed);
    }
    *inbound = (struct tt_tcp_inbound){0};
    tt_tcp_close(peer->tcp, &peer->bulk);
}
