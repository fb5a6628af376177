/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The "verbs" p2p provider's instance: creation, progress, sleeping and the end. Connections live as the session layer
 * has them.
 *
 * Normal path: progress posts again what the last one has lent out, looks at what has arrived, then at what was sent,
 * does what is due at the connections, and tells. While all is quiet, a side that has heard nothing for a while probes
 * the other with a write of no bytes, which the device over there acknowledges for as long as the process lives. To
 * sleep, both completion queues are armed and looked at once more; what is found is stashed for the next progress. The
 * timer wakes the sleeper for what is due.
 *
 * Failures: those of connections end as PEER_DOWN. destroy gives farewells two seconds and closes what is left by
 * force.
 */
#include "fabric/verbs/rc.h"

#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"

enum { MAX_ROUNDS = 4 }; /* of completions in one progress */

/* --- Connections -------------------------------------------------------------------------------------------------- */

static tutti_status connect_to(struct tt_p2p *p2p, const void *address, size_t length_bytes, uint64_t peer_cookie,
                               struct tt_p2p_peer **result)
{
    struct tt_rc *rc = tt_rc_of(p2p);
    struct tt_rc_address other;
    if (!tt_rc_address_decode(address, length_bytes, &other)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "verbs: %zu bytes that are no address",
                        length_bytes);
    }
    if (other.roce != rc->address.roce) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                        "verbs: connect from %s (device %s) to an instance on %s",
                        rc->address.roce ? "RoCE" : "InfiniBand", rc->device->name, other.roce ? "RoCE" : "InfiniBand");
    }
    return tt_session_connect(&rc->session, address, peer_cookie, result);
}

static void init_peer(struct tt_session_peer *base)
{
    struct tt_rc_peer *peer = (struct tt_rc_peer *)base;
    bool is_address = tt_rc_address_decode(base->remote->address, TT_RC_ADDRESS_BYTES, &peer->address);
    assert(is_address);
    (void)is_address;
    peer->rc = (struct tt_rc *)base->session;
    peer->probe = (struct tt_rc_work){.kind = TT_RC_WORK_PROBE, .peer = peer};
    STAILQ_INIT(&peer->waiting);
    STAILQ_INIT(&peer->gets);
    STAILQ_INIT(&peer->puts);
    TAILQ_INIT(&peer->posted);
    TAILQ_INIT(&peer->greetings);
    for (uint32_t i = 0; i < TT_RC_PIECES_AT_ONCE; i++) {
        peer->pieces[i].next_free = peer->free_pieces;
        peer->free_pieces = &peer->pieces[i];
    }
}

/* A greeting to be repeated, or a silence to look into; returns when it wants to be called next. */
static uint64_t tend_peer(struct tt_session_peer *base, uint64_t now_ns)
{
    struct tt_rc_peer *peer = (struct tt_rc_peer *)base;
    if (base->phase == TT_SESSION_GREETING) {
        if (now_ns >= peer->greet_ns && !base->broken) {
            tt_rc_greet(peer);
        }
        return peer->greet_ns;
    }
    if (now_ns < peer->heard_ns + TT_RC_KEEPALIVE_NS) {
        return peer->heard_ns + TT_RC_KEEPALIVE_NS;
    }
    if (TAILQ_EMPTY(&peer->posted)) {
        tt_rc_probe(peer);
    }
    return now_ns + TT_RC_KEEPALIVE_NS;
}

static bool is_flushed(struct tt_session_peer *base, bool received)
{
    (void)received; /* an acknowledgement says both */
    return ((const struct tt_rc_peer *)base)->farewell_sent;
}

static void told(struct tt_session *session, struct tt_session_event *event)
{
    tt_pool_give(&((struct tt_rc *)session)->operations, event);
}

static const struct tt_session_ops session_ops = {
    .peer_bytes = sizeof(struct tt_rc_peer),
    .identity_bytes = TT_RC_IDENTITY_BYTES,
    .frame_bytes = TT_P2P_LEAST_FRAME_BYTES,
    .init = init_peer,
    .begin = tt_rc_begin,
    .send = tt_rc_send,
    .farewell = tt_rc_farewell,
    .is_flushed = is_flushed,
    .cancel = tt_rc_cancel,
    .tend = tend_peer,
    .close = tt_rc_close_peer,
    .fini = tt_rc_fini_peer,
    .told = told,
};

/* --- Completions -------------------------------------------------------------------------------------------------- */

static void fail_all(struct tt_rc *rc)
{
    struct tt_session_peer *peer;
    TAILQ_FOREACH(peer, &rc->session.peers, link)
    {
        if (peer->phase < TT_SESSION_CLOSING) {
            tt_session_fail(peer, "device %s: a completion queue cannot be polled any more", rc->device->name);
        }
    }
}

/* Up to `max` new ones. A queue that cannot be polled any more tells of no connection how it fares: all have failed. */
static int poll_queue(struct tt_rc *rc, struct ibv_cq *queue, struct ibv_wc *completions, int max)
{
    int count = ibv_poll_cq(queue, max, completions);
    if (count >= 0) {
        return count;
    }
    if (!rc->deaf) {
        rc->deaf = true;
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN,
               "verbs: device %s: a completion queue cannot be polled, all connections end", rc->device->name);
    }
    fail_all(rc);
    return 0;
}

/* Up to `max` completions: those that arm has found, or new ones. */
static int take(struct tt_rc *rc, struct tt_rc_stash *stash, struct ibv_cq *queue, struct ibv_wc *completions, int max)
{
    int count = stash->count - stash->next < max ? stash->count - stash->next : max;
    if (count == 0) {
        return poll_queue(rc, queue, completions, max);
    }
    memcpy(completions, &stash->completions[stash->next], (size_t)count * sizeof(*completions));
    stash->next += count;
    if (stash->next == stash->count) {
        stash->next = stash->count = 0;
    }
    return count;
}

static bool take_sent(struct tt_rc *rc)
{
    struct ibv_wc completions[TT_RC_POLL_BATCH];
    int count = TT_RC_POLL_BATCH;
    bool any = false;
    for (int round = 0; round < MAX_ROUNDS && count == TT_RC_POLL_BATCH; round++) {
        count = take(rc, &rc->stashed_sends, rc->sends, completions, TT_RC_POLL_BATCH);
        for (int i = 0; i < count; i++) {
            tt_rc_sent(rc, &completions[i]);
        }
        any = any || count > 0;
    }
    return any;
}

/* Returns the number of events; *empty: nothing is left to be received. What a queue pair that broke gives back unused
 * comes with no reason; that is among what was sent. */
static uint32_t take_received(struct tt_rc *rc, struct tt_p2p_event *events, uint32_t max, bool *empty)
{
    struct ibv_wc completions[TT_RC_POLL_BATCH];
    uint32_t count = 0;
    *empty = false;
    for (int round = 0; round < MAX_ROUNDS && count < max && !*empty; round++) {
        uint32_t room = max - count < TT_RC_POLL_BATCH ? max - count : TT_RC_POLL_BATCH;
        int taken = take(rc, &rc->stashed_receives, rc->receives, completions, (int)room);
        for (int i = 0; i < taken; i++) {
            if (completions[i].status == IBV_WC_WR_FLUSH_ERR) {
                (void)take_sent(rc);
            }
            count += tt_rc_received(rc, &completions[i], &events[count]);
        }
        *empty = taken == 0;
    }
    return count;
}

/* --- Sleeping ----------------------------------------------------------------------------------------------------- */

/* After a sleep: the descriptors are made unreadable. Returns whether the device rang. */
static bool wake(struct tt_rc *rc)
{
    struct ibv_cq *queue;
    void *context;
    uint64_t expirations;
    unsigned sends = 0, receives = 0;
    while (ibv_get_cq_event(rc->channel, &queue, &context) == 0) {
        sends += queue == rc->sends;
        receives += queue == rc->receives;
    }
    if (sends > 0) {
        ibv_ack_cq_events(rc->sends, sends);
    }
    if (receives > 0) {
        ibv_ack_cq_events(rc->receives, receives);
    }
    if (rc->timer_ns <= rc->session.now_ns &&
        read(rc->timer, &expirations, sizeof(expirations)) == sizeof(expirations)) {
        rc->timer_ns = TT_NEVER;
    }
    rc->armed = false;
    return sends + receives > 0;
}

static void set_timer(struct tt_rc *rc)
{
    uint64_t due_ns = rc->session.due_ns;
    if (rc->timer_ns == due_ns) {
        return;
    }
    struct itimerspec at = {.it_value = tt_clock_timespec(due_ns == TT_NEVER ? 0 : due_ns)}; /* 0 switches it off */
    timerfd_settime(rc->timer, TFD_TIMER_ABSTIME, &at, NULL);
    rc->timer_ns = due_ns;
}

/* Some connection has changed since progress looked. */
static bool is_due(const struct tt_rc *rc)
{
    return rc->session.due_ns <= rc->session.now_ns;
}

/* Has the queue ring at the next completion; false: there is one already, or no ring. */
static bool arm_queue(struct tt_rc *rc, struct tt_rc_stash *stash, struct ibv_cq *queue)
{
    if (stash->count > 0 || ibv_req_notify_cq(queue, 0) != 0) {
        return false;
    }
    stash->count = poll_queue(rc, queue, stash->completions, TT_RC_POLL_BATCH);
    stash->next = 0;
    return stash->count == 0 && !is_due(rc);
}

/*
 * Whether somebody waits for what is sent to be acknowledged. Nobody does for mere frames: there a sleeper would be
 * woken for nothing; should one of them fail, it is time to know when the keepalive looks.
 */
static bool awaits_sends(const struct tt_rc *rc)
{
    const struct tt_session_peer *base;
    TAILQ_FOREACH(base, &rc->session.peers, link)
    {
        const struct tt_rc_peer *peer = (const struct tt_rc_peer *)base;
        if (peer->reads_out + peer->writes_out > 0 || !STAILQ_EMPTY(&peer->waiting) || base->down) {
            return true;
        }
    }
    return false;
}

static bool arm(struct tt_p2p *p2p)
{
    struct tt_rc *rc = tt_rc_of(p2p);
    if (tt_session_has_events(&rc->session) || !STAILQ_EMPTY(&rc->used) || is_due(rc)) {
        return false;
    }
    rc->armed = true; /* rings come from now on, even if it does not sleep */
    if (!arm_queue(rc, &rc->stashed_receives, rc->receives) ||
        (awaits_sends(rc) && !arm_queue(rc, &rc->stashed_sends, rc->sends))) {
        return false;
    }
    set_timer(rc);
    return true;
}

/* The adapter repeats what is lost, and the timer behind the descriptor says what else is due. */
static uint64_t tend(struct tt_p2p *p2p, uint64_t now_ns)
{
    return tt_session_opening_ns(&tt_rc_of(p2p)->session, now_ns);
}

static int get_fd(struct tt_p2p *p2p)
{
    return tt_rc_of(p2p)->fd;
}

/* --- Progress ----------------------------------------------------------------------------------------------------- */

static uint32_t progress(struct tt_p2p *p2p, struct tt_p2p_event *events, uint32_t max)
{
    struct tt_rc *rc = tt_rc_of(p2p);
    bool empty;
    rc->session.now_ns = tt_clock_now_ns();
    bool rang = rc->armed && wake(rc);
    if (!STAILQ_EMPTY(&rc->used)) {
        tt_rc_receive_again(rc);
    }
    /* Who has said goodbye has left, though what was still sent to it failed. */
    uint32_t count = take_received(rc, events, max, &empty);
    rc->polled_ns = empty ? rc->session.now_ns : rc->polled_ns;
    bool moved = take_sent(rc) || count > 0;
    tt_session_tend(&rc->session);
    rc->session.counters.wakeups += rang && moved;
    return count + tt_session_take(&rc->session, !empty, events + count, max - count);
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

static void wait_for(struct tt_session *session, uint32_t timeout_ms)
{
    if (arm(&session->base)) {
        struct pollfd ready = {.fd = ((struct tt_rc *)session)->fd, .events = POLLIN};
        (void)poll(&ready, 1, (int)timeout_ms);
    }
}

static void destroy(struct tt_p2p *p2p)
{
    struct tt_rc *rc = tt_rc_of(p2p);
    tt_session_drain(&rc->session, wait_for);
    tt_session_fini(&rc->session);
    tt_rc_close(rc);
    free(rc);
}

static const struct tt_p2p_ops ops = {
    .name = "verbs",
    .address = tt_session_address,
    .connect = connect_to,
    .disconnect = tt_session_disconnect,
    .send = tt_session_send,
    .memory_register = tt_rc_memory_register,
    .memory_release = tt_rc_memory_release,
    .memory_pack = tt_rc_memory_pack,
    .get = tt_rc_get_from,
    .put = tt_rc_put_to,
    .progress = progress,
    .fd = get_fd,
    .tend = tend,
    .arm = arm,
    .counters = tt_session_counters,
    .destroy = destroy,
};

tutti_status tt_rc_create(const struct tt_rc_options *options, struct tt_p2p **p2p)
{
    uint8_t address[TT_RC_ADDRESS_BYTES];
    struct tt_rc *rc = calloc(1, sizeof(*rc));
    if (rc == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "verbs: no memory for an instance");
    }
    rc->fd = rc->timer = -1;
    STAILQ_INIT(&rc->used);
    TAILQ_INIT(&rc->refusals);
    TAILQ_INIT(&rc->blocked);
    TAILQ_INIT(&rc->graves);
    LIST_INIT(&rc->memories);
    rc->device = options->device;
    rc->lane = tt_verbs_lane(rc->device, options->thread);
    tt_verbs_device_hold(rc->device);
    rc->ack_timeout_ns = options->ack_timeout_ns;
    tutti_status status = tt_rc_open(rc, options->own_receives);
    if (status != TUTTI_OK) {
        tt_rc_close(rc);
        free(rc);
        return status;
    }
    tt_rc_address_encode(&rc->address, address);
    tt_session_init(&rc->session, &ops, &session_ops, address, sizeof(address));
    *p2p = &rc->session.base;
    return TUTTI_OK;
}
