/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The life of connections. Normal path: connect counts the connection, or takes the one that the other side has begun;
 * the transport opens it; disconnect says goodbye, and both ends let go when both have said it. All that is not plainly
 * open, or wants to be looked at, is in one list, and only that is.
 *
 * Failures: a connection that breaks raises PEER_DOWN behind the frames that have arrived, and ends at once. A goodbye
 * that nobody answers is given up. A connection that the other side has begun and ended before connect is kept, so that
 * connect is told, unless that side has begun another one by then.
 */
#include "fabric/session/session.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

#define OPENING_NS TT_NS_PER_S /* who waits for a connection is woken by its descriptor */

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* --- Remote instances --------------------------------------------------------------------------------------------- */

static uint32_t bucket_of(const struct tt_session *session, const uint8_t *address)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (uint32_t i = 0; i < session->ops->identity_bytes; i++) {
        hash = (hash ^ address[i]) * 16777619u;
    }
    return hash % TT_SESSION_BUCKETS;
}

/* NULL: nothing has been heard of it. */
static struct tt_session_remote *find_remote(const struct tt_session *session, const void *address)
{
    struct tt_session_remote *remote;
    LIST_FOREACH(remote, &session->remotes[bucket_of(session, address)], link)
    {
        if (memcmp(remote->address, address, session->ops->identity_bytes) == 0) {
            return remote;
        }
    }
    return NULL;
}

/* The record of an instance, new if need be; NULL: no memory. */
static struct tt_session_remote *remote_of(struct tt_session *session, const void *address)
{
    struct tt_session_remote *remote = find_remote(session, address);
    if (remote != NULL) {
        return remote;
    }
    remote = calloc(1, sizeof(*remote));
    if (remote != NULL) {
        LIST_INIT(&remote->peers);
        memcpy(remote->address, address, session->address_bytes);
        LIST_INSERT_HEAD(&session->remotes[bucket_of(session, address)], remote, link);
        session->strangers++;
    }
    return remote;
}

static struct tt_session_peer *find_peer(const struct tt_session_remote *remote, uint32_t serial)
{
    struct tt_session_peer *peer;
    LIST_FOREACH(peer, &remote->peers, remote_link)
    {
        if (peer->serial == serial) {
            return peer;
        }
    }
    return NULL;
}

/* --- Peers -------------------------------------------------------------------------------------------------------- */

/* It is looked at in the next progress. */
void tt_session_unsettle(struct tt_session_peer *peer)
{
    peer->session->due_ns = 0;
    if (!peer->unsettled) {
        peer->unsettled = true;
        TAILQ_INSERT_TAIL(&peer->session->unsettled, peer, unsettled_link);
    }
}

static void settle(struct tt_session_peer *peer)
{
    if (peer->unsettled) {
        peer->unsettled = false;
        TAILQ_REMOVE(&peer->session->unsettled, peer, unsettled_link);
    }
}

static struct tt_session_peer *create_peer(struct tt_session *session, struct tt_session_remote *remote,
                                           uint32_t serial)
{
    struct tt_session_peer *peer = calloc(1, session->ops->peer_bytes);
    if (peer != NULL) {
        peer->base.ops = session->base.ops;
        peer->session = session;
        peer->remote = remote;
        peer->serial = serial;
        TAILQ_INSERT_TAIL(&session->peers, peer, link);
        LIST_INSERT_HEAD(&remote->peers, peer, remote_link);
        session->ops->init(peer);
        tt_session_unsettle(peer);
    }
    return peer;
}

static void detach(struct tt_session_peer *peer)
{
    struct tt_session *session = peer->session;
    settle(peer);
    if (peer->in_down) {
        TAILQ_REMOVE(&session->down_peers, peer, down_link);
    }
    TAILQ_REMOVE(&session->peers, peer, link);
    LIST_REMOVE(peer, remote_link);
}

static void free_peer(struct tt_session_peer *peer)
{
    detach(peer);
    peer->session->ops->fini(peer);
}

static void free_over(struct tt_session *session)
{
    struct tt_session_peer *peer;
    while ((peer = TAILQ_FIRST(&session->over)) != NULL) {
        TAILQ_REMOVE(&session->over, peer, link);
        session->ops->fini(peer);
    }
}

static void raise_down(struct tt_session_peer *peer)
{
    if (peer->down && peer->claimed && !peer->released && !peer->in_down) {
        peer->in_down = true;
        TAILQ_INSERT_TAIL(&peer->session->down_peers, peer, down_link);
    }
}

static void give_time(struct tt_session_peer *peer)
{
    peer->deadline_ns = peer->session->now_ns + TT_SESSION_FAREWELL_NS;
}

static void set_down(struct tt_session_peer *peer)
{
    peer->down = true;
    give_time(peer);
}

/* What is closed is down already; and what is read of it now may be behind its owner's letting go, as it was left over.
 */
static void mark_down(struct tt_session_peer *peer)
{
    if (peer->phase == TT_SESSION_CLOSED) {
        return;
    }
    tt_session_unsettle(peer);
    if (!peer->down) {
        set_down(peer);
        raise_down(peer);
        peer->session->ops->cancel(peer, peer->released ? TUTTI_ERR_CANCELED : TUTTI_ERR_PEER_FAILED);
    }
}

/* Nobody wants to hear of it any more. */
static void release(struct tt_session_peer *peer)
{
    if (peer->in_down) {
        peer->in_down = false;
        TAILQ_REMOVE(&peer->session->down_peers, peer, down_link);
    }
    peer->released = true;
    if (!peer->down) {
        set_down(peer);
    }
    peer->session->ops->cancel(peer, TUTTI_ERR_CANCELED);
    tt_session_unsettle(peer);
}

/* What it is down of already stays the reason. */
static void __attribute__((format(printf, 3, 0)))
break_off(struct tt_session_peer *peer, bool starved, const char *format, va_list arguments)
{
    if (peer->broken) {
        return;
    }
    peer->broken = true;
    if (peer->reason[0] == '\0') {
        peer->starved = starved;
        (void)vsnprintf(peer->reason, sizeof(peer->reason), format, arguments);
        TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "%s: a connection is over: %s", peer->base.ops->name, peer->reason);
    }
    mark_down(peer);
}

void tt_session_fail(struct tt_session_peer *peer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    break_off(peer, false, format, arguments);
    va_end(arguments);
}

void tt_session_starve(struct tt_session_peer *peer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    break_off(peer, true, format, arguments);
    va_end(arguments);
}

void tt_session_left(struct tt_session_peer *peer)
{
    peer->remote_left = true;
    if (peer->reason[0] == '\0') {
        (void)snprintf(peer->reason, sizeof(peer->reason), "it has left");
    }
    mark_down(peer);
}

/* Who has an owner may have frames that wait for it to open. */
static bool is_opening(const struct tt_session_peer *peer)
{
    return peer->claimed && peer->phase == TT_SESSION_GREETING;
}

/* To another phase than the first. */
static void go_on_to(struct tt_session_peer *peer, enum tt_session_phase phase)
{
    assert(phase != TT_SESSION_GREETING);
    peer->session->opening -= is_opening(peer);
    peer->phase = phase;
}

void tt_session_opened(struct tt_session_peer *peer)
{
    assert(peer->phase == TT_SESSION_GREETING);
    go_on_to(peer, TT_SESSION_OPEN);
    if (peer->down && !peer->broken) { /* a goodbye could not be said before */
        give_time(peer);
    }
    tt_session_unsettle(peer);
}

/* --- Opening ------------------------------------------------------------------------------------------------------ */

tutti_status tt_session_address(struct tt_p2p *p2p, void *buffer, size_t *length_bytes)
{
    const struct tt_session *session = (const struct tt_session *)p2p;
    if (*length_bytes < session->address_bytes) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_TOO_LARGE, "%s: the address has %u bytes, there is room for %zu",
                        p2p->ops->name, session->address_bytes, *length_bytes);
    }
    memcpy(buffer, session->address, session->address_bytes);
    *length_bytes = session->address_bytes;
    return TUTTI_OK;
}

/* Whether the other side has begun a later one, which goes on. */
static bool is_begun_anew(const struct tt_session_peer *peer)
{
    const struct tt_session_peer *other;
    LIST_FOREACH(other, &peer->remote->peers, remote_link)
    {
        if ((int32_t)(other->serial - peer->serial) > 0 && !other->down) {
            return true;
        }
    }
    return false;
}

/* What connect takes of what the other side has begun; NULL: that has begun none, or it has not come yet. One that is
 * over would only tell that the other side has failed, and it has not if it has begun another one since. */
static struct tt_session_peer *find_begun(struct tt_session_remote *remote)
{
    struct tt_session_peer *peer = find_peer(remote, remote->next_serial);
    while (peer != NULL && peer->down && is_begun_anew(peer)) {
        release(peer);
        remote->next_serial++;
        peer = find_peer(remote, remote->next_serial);
    }
    return peer;
}

tutti_status tt_session_connect(struct tt_session *session, const void *address, uint64_t peer_cookie,
                                struct tt_p2p_peer **result)
{
    const char *name = session->base.ops->name;
    if (memcmp(address, session->address, session->ops->identity_bytes) == 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "%s: connect to the own address", name);
    }
    session->now_ns = tt_clock_now_ns();
    struct tt_session_remote *remote = remote_of(session, address);
    struct tt_session_peer *peer = remote != NULL ? find_begun(remote) : NULL;
    bool begun = peer != NULL;
    if (remote != NULL) { /* what a greeting said of itself may be less true */
        memcpy(remote->address, address, session->address_bytes);
    }
    if (remote != NULL && peer == NULL) {
        peer = create_peer(session, remote, remote->next_serial);
    }
    if (peer == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "%s: no memory for a peer", name);
    }
    tutti_status status = session->ops->begin(peer, address, begun);
    if (status != TUTTI_OK) {
        if (!begun) {
            tt_session_drop(peer);
        }
        return status;
    }
    assert(!peer->claimed);
    session->strangers -= !remote->known;
    remote->known = true;
    remote->next_serial++;
    peer->claimed = true;
    peer->cookie = peer_cookie;
    session->opening += is_opening(peer);
    raise_down(peer);
    tt_session_unsettle(peer);
    *result = &peer->base;
    return TUTTI_OK;
}

struct tt_session_peer *tt_session_find(struct tt_session *session, const void *address, uint32_t serial)
{
    struct tt_session_remote *remote = find_remote(session, address);
    return remote != NULL ? find_peer(remote, serial) : NULL;
}

uint64_t tt_session_cookie_of(const struct tt_session *session, const void *address)
{
    const struct tt_session_remote *remote = find_remote(session, address);
    const struct tt_session_peer *peer, *last = NULL;
    if (remote == NULL) {
        return 0;
    }
    LIST_FOREACH(peer, &remote->peers, remote_link)
    {
        if (tt_session_cookie(peer) != 0 && (last == NULL || (int32_t)(peer->serial - last->serial) > 0)) {
            last = peer;
        }
    }
    return last != NULL ? last->cookie : 0;
}

struct tt_session_peer *tt_session_greeted(struct tt_session *session, const void *address, uint32_t serial)
{
    struct tt_session_remote *remote = find_remote(session, address);
    struct tt_session_peer *peer = remote != NULL ? find_peer(remote, serial) : NULL;
    uint32_t next_serial = remote != NULL ? remote->next_serial : 0;
    if (peer != NULL) {
        return peer->phase == TT_SESSION_GREETING && !peer->broken ? peer : NULL;
    }
    if (session->ending || serial - next_serial >= TT_SESSION_SERIALS_AHEAD ||
        (remote == NULL && session->strangers >= TT_SESSION_STRANGERS)) {
        return NULL; /* and nothing is kept of who is refused */
    }
    remote = remote_of(session, address);
    return remote != NULL ? create_peer(session, remote, serial) : NULL;
}

void tt_session_drop(struct tt_session_peer *peer)
{
    assert(!peer->claimed);
    (void)peer->session->ops->close(peer, peer->session->now_ns);
    free_peer(peer);
}

tutti_status tt_session_sendable(const struct tt_session_peer *peer)
{
    return peer->down ? TUTTI_ERR_PEER_FAILED : TUTTI_OK;
}

tutti_status tt_session_send(struct tt_p2p_peer *base, const struct tt_p2p_frame *frame, bool more)
{
    struct tt_session_peer *peer = (struct tt_session_peer *)base;
    struct tt_session *session = peer->session;
    uint32_t length_bytes = tt_p2p_frame_bytes(frame);
    if (!tt_p2p_frame_is_sound(frame, session->base.frame_bytes)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "%s: a frame of %u bytes; 1 to %u are possible",
                        base->ops->name, length_bytes, session->base.frame_bytes);
    }
    tutti_status status = tt_session_sendable(peer);
    if (status == TUTTI_OK) {
        status = session->ops->send(peer, frame, more);
    }
    if (status == TUTTI_OK) {
        session->counters.frames_sent++;
        session->counters.bytes_sent += length_bytes;
    }
    return status;
}

/* --- Closing ------------------------------------------------------------------------------------------------------ */

/* Each returns when it wants to be called next. */

static uint64_t tend_closing(struct tt_session_peer *peer, uint64_t now_ns)
{
    uint64_t due_ns = peer->session->ops->close(peer, now_ns);
    if (due_ns == TT_NEVER) {
        go_on_to(peer, TT_SESSION_CLOSED);
        return now_ns;
    }
    return due_ns;
}

static uint64_t close_peer(struct tt_session_peer *peer, uint64_t now_ns)
{
    go_on_to(peer, TT_SESSION_CLOSING);
    return tend_closing(peer, now_ns);
}

static uint64_t tend_greeting(struct tt_session_peer *peer, uint64_t now_ns)
{
    uint64_t due_ns = peer->session->ops->tend(peer, now_ns);
    if (peer->broken || (peer->released && now_ns >= peer->deadline_ns)) {
        return close_peer(peer, now_ns);
    }
    return peer->released ? earlier(due_ns, peer->deadline_ns) : due_ns;
}

static uint64_t tend_open(struct tt_session_peer *peer, uint64_t now_ns)
{
    if (peer->broken || (peer->down && now_ns >= peer->deadline_ns)) {
        return close_peer(peer, now_ns);
    }
    if (peer->down) {
        if (!peer->session->ops->farewell(peer, !peer->released)) {
            return peer->deadline_ns;
        }
        go_on_to(peer, TT_SESSION_FAREWELL);
        return now_ns;
    }
    uint64_t due_ns = peer->session->ops->tend(peer, now_ns);
    if (due_ns == TT_NEVER && !peer->down) {
        settle(peer);
    }
    return due_ns;
}

static uint64_t tend_farewell(struct tt_session_peer *peer, uint64_t now_ns)
{
    const struct tt_session *session = peer->session;
    bool over = session->ops->is_flushed(peer, session->ending) && (peer->remote_left || session->ending);
    if (now_ns >= peer->deadline_ns && !over) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "%s: a goodbye was not answered, giving the peer up",
               session->base.ops->name);
    }
    return over || peer->broken || now_ns >= peer->deadline_ns ? close_peer(peer, now_ns) : peer->deadline_ns;
}

/* One step; the peer may be over afterwards. */
static uint64_t tend_peer(struct tt_session_peer *peer, uint64_t now_ns)
{
    switch (peer->phase) {
    case TT_SESSION_GREETING:
        return tend_greeting(peer, now_ns);
    case TT_SESSION_OPEN:
        return tend_open(peer, now_ns);
    case TT_SESSION_FAREWELL:
        return tend_farewell(peer, now_ns);
    case TT_SESSION_CLOSING:
        return tend_closing(peer, now_ns);
    case TT_SESSION_CLOSED:
        break;
    }
    if (peer->released) {
        detach(peer);
        TAILQ_INSERT_TAIL(&peer->session->over, peer, link);
    } else {
        settle(peer);
    }
    return TT_NEVER;
}

/* As far as it goes now; the next progress sees to the rest. */
static void tend_alone(struct tt_session_peer *peer)
{
    uint64_t now_ns = peer->session->now_ns;
    uint64_t due_ns = now_ns;
    assert(peer->session->due_ns <= now_ns); /* it has been unsettled */
    while (due_ns <= now_ns) {
        due_ns = tend_peer(peer, now_ns);
    }
}

void tt_session_disconnect(struct tt_p2p_peer *base)
{
    struct tt_session_peer *peer = (struct tt_session_peer *)base;
    if (peer == NULL) {
        return;
    }
    peer->session->now_ns = tt_clock_now_ns();
    release(peer);
    tend_alone(peer); /* whether others are due is known when it has been looked at what has come from them */
}

void tt_session_tend(struct tt_session *session)
{
    struct tt_session_peer *peer, *next;
    if (session->now_ns < session->due_ns) {
        return;
    }
    do {
        session->due_ns = TT_NEVER;
        uint64_t due_ns = TT_NEVER;
        for (peer = TAILQ_FIRST(&session->unsettled); peer != NULL; peer = next) {
            next = TAILQ_NEXT(peer, unsettled_link);
            due_ns = earlier(due_ns, tend_peer(peer, session->now_ns));
        }
        session->due_ns = earlier(session->due_ns, due_ns);
    } while (session->due_ns <= session->now_ns);
}

uint64_t tt_session_opening_ns(const struct tt_session *session, uint64_t now_ns)
{
    return session->opening > 0 ? now_ns + OPENING_NS : TT_NEVER;
}

typedef void waiting(struct tt_session *session, uint32_t timeout_ms);

/* Until no connection is left, or that time comes. */
static void drain_until(struct tt_session *session, waiting *wait, uint64_t deadline_ns)
{
    enum { WAIT_MS = 10, EVENTS = 16 };
    struct tt_p2p_event events[EVENTS];
    for (;;) {
        uint32_t count = session->base.ops->progress(&session->base, events, EVENTS);
        uint64_t now_ns = tt_clock_now_ns();
        if (TAILQ_EMPTY(&session->unsettled) || now_ns >= deadline_ns) {
            return;
        }
        if (count == 0) {
            wait(session, WAIT_MS);
        }
        session->due_ns = 0; /* what the other host has received is seen by looking */
    }
}

/* Within the two seconds, and what is closed by force has a part of them. */
void tt_session_drain(struct tt_session *session, waiting *wait)
{
    enum { FORCE_MS = 400 };
    struct tt_session_peer *peer;
    session->now_ns = tt_clock_now_ns();
    uint64_t deadline_ns = session->now_ns + TT_SESSION_FAREWELL_NS;
    session->ending = true;
    TAILQ_FOREACH(peer, &session->peers, link)
    {
        if (!peer->released) {
            release(peer);
        }
    }
    drain_until(session, wait, deadline_ns - FORCE_MS * TT_NS_PER_MS);
    TAILQ_FOREACH(peer, &session->peers, link)
    {
        if (peer->phase < TT_SESSION_CLOSING) {
            tt_session_fail(peer, "a goodbye was not answered");
        }
    }
    drain_until(session, wait, deadline_ns);
}

/* --- Events ------------------------------------------------------------------------------------------------------- */

void tt_session_tell(struct tt_session *session, struct tt_session_event *event)
{
    STAILQ_INSERT_TAIL(&session->events, event, link);
}

bool tt_session_has_events(const struct tt_session *session)
{
    return !STAILQ_EMPTY(&session->events) || !TAILQ_EMPTY(&session->down_peers);
}

static void give_back(struct tt_session *session, struct tt_session_events *events)
{
    struct tt_session_event *event;
    while ((event = STAILQ_FIRST(events)) != NULL) {
        STAILQ_REMOVE_HEAD(events, link);
        session->ops->told(session, event);
    }
}

uint32_t tt_session_take(struct tt_session *session, bool frames, struct tt_p2p_event *events, uint32_t max)
{
    uint32_t count = 0;
    free_over(session);
    give_back(session, &session->told);
    while (count < max && !STAILQ_EMPTY(&session->events)) {
        struct tt_session_event *event = STAILQ_FIRST(&session->events);
        STAILQ_REMOVE_HEAD(&session->events, link);
        events[count++] = (struct tt_p2p_event){.type = event->type,
                                                .status = event->status,
                                                .length_bytes = event->data_bytes,
                                                .data = event->data,
                                                .cookie = event->value,
                                                .immediate = event->value};
        STAILQ_INSERT_TAIL(&session->told, event, link);
    }
    while (count < max && !frames && !TAILQ_EMPTY(&session->down_peers)) {
        struct tt_session_peer *peer = TAILQ_FIRST(&session->down_peers);
        TAILQ_REMOVE(&session->down_peers, peer, down_link);
        peer->in_down = false;
        events[count++] = (struct tt_p2p_event){.type = TT_P2P_PEER_DOWN,
                                                .status = peer->starved ? TUTTI_ERR_NO_RESOURCE : TUTTI_ERR_PEER_FAILED,
                                                .length_bytes = (uint32_t)strlen(peer->reason),
                                                .data = peer->reason,
                                                .peer_cookie = peer->cookie};
    }
    return count;
}

void tt_session_counters(struct tt_p2p *p2p, struct tt_p2p_counters *counters)
{
    *counters = ((struct tt_session *)p2p)->counters;
}

/* --- Begin and end ------------------------------------------------------------------------------------------------ */

void tt_session_init(struct tt_session *session, const struct tt_p2p_ops *p2p, const struct tt_session_ops *ops,
                     const void *address, size_t address_bytes)
{
    assert(address_bytes <= TT_SESSION_ADDRESS_BYTES && ops->identity_bytes <= address_bytes);
    assert(ops->frame_bytes >= TT_P2P_LEAST_FRAME_BYTES && ops->frame_bytes <= TT_P2P_MAX_FRAME_BYTES);
    session->base.ops = p2p;
    session->base.frame_bytes = ops->frame_bytes;
    session->ops = ops;
    session->due_ns = TT_NEVER;
    session->address_bytes = (uint32_t)address_bytes;
    memcpy(session->address, address, address_bytes);
    TAILQ_INIT(&session->peers);
    TAILQ_INIT(&session->down_peers);
    TAILQ_INIT(&session->unsettled);
    TAILQ_INIT(&session->over);
    STAILQ_INIT(&session->events);
    STAILQ_INIT(&session->told);
    for (uint32_t i = 0; i < TT_SESSION_BUCKETS; i++) {
        LIST_INIT(&session->remotes[i]);
    }
}

void tt_session_fini(struct tt_session *session)
{
    struct tt_session_peer *peer, *next;
    struct tt_session_remote *remote;
    for (peer = TAILQ_FIRST(&session->peers); peer != NULL; peer = next) {
        next = TAILQ_NEXT(peer, link);
        if (peer->phase != TT_SESSION_CLOSED) {
            session->ops->cancel(peer, TUTTI_ERR_CANCELED);
            (void)session->ops->close(peer, session->now_ns);
            go_on_to(peer, TT_SESSION_CLOSED);
        }
        free_peer(peer);
    }
    free_over(session);
    give_back(session, &session->told);
    give_back(session, &session->events);
    for (uint32_t i = 0; i < TT_SESSION_BUCKETS; i++) {
        while ((remote = LIST_FIRST(&session->remotes[i])) != NULL) {
            LIST_REMOVE(remote, link);
            free(remote);
        }
    }
}

void tt_session_check(const struct tt_session *session)
{
    const struct tt_session_peer *peer;
    TAILQ_FOREACH(peer, &session->peers, link)
    {
        assert(peer->unsettled || peer->phase == TT_SESSION_OPEN || peer->phase == TT_SESSION_CLOSED);
        assert(peer->phase != TT_SESSION_OPEN || peer->unsettled || !peer->down);
        assert(!peer->broken || peer->down);
        assert(!peer->in_down || (peer->down && peer->claimed && !peer->released));
        assert(!peer->released || peer->down);
    }
}
