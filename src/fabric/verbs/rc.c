/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The "verbs" p2p provider's instance: creation, progress, sleeping and the end.
 *
 * Normal path: progress posts again what the last one has lent out, looks at what was sent, then at what has arrived,
 * does what is due at the connections, and tells. The last frames of a peer come before its PEER_DOWN, which waits
 * until nothing is left to be received. To sleep, both completion queues are armed and looked at once more; what is
 * found is stashed for the next progress. The timer wakes the sleeper for what is due.
 *
 * Failures: those of connections end as PEER_DOWN. destroy gives farewells two seconds and closes what is left by
 * force.
 */
#include "fabric/verbs/rc.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"

enum { MAX_ROUNDS = 4 }; /* of completions in one progress */

/* --- Completions -------------------------------------------------------------------------------------------------- */

static void close_all(struct tt_rc *rc)
{
    struct tt_rc_peer *peer;
    TAILQ_FOREACH(peer, &rc->peers, link)
    {
        tt_rc_peer_failed(peer);
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
    close_all(rc);
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

/* Returns the number of events; *empty: nothing is left to be received. */
static uint32_t take_received(struct tt_rc *rc, struct tt_p2p_event *events, uint32_t max, bool *empty)
{
    struct ibv_wc completions[TT_RC_POLL_BATCH];
    uint32_t count = 0;
    *empty = false;
    for (int round = 0; round < MAX_ROUNDS && count < max && !*empty; round++) {
        uint32_t room = max - count < TT_RC_POLL_BATCH ? max - count : TT_RC_POLL_BATCH;
        int taken = take(rc, &rc->stashed_receives, rc->receives, completions, (int)room);
        for (int i = 0; i < taken; i++) {
            count += tt_rc_received(rc, &completions[i], &events[count]);
        }
        *empty = taken == 0;
    }
    return count;
}

static uint32_t take_done(struct tt_rc *rc, struct tt_p2p_event *events, uint32_t max)
{
    uint32_t count = 0;
    while (count < max && !STAILQ_EMPTY(&rc->done)) {
        struct tt_rc_operation *operation = STAILQ_FIRST(&rc->done);
        STAILQ_REMOVE_HEAD(&rc->done, link);
        events[count++] =
            (struct tt_p2p_event){.type = TT_P2P_DONE, .status = operation->status, .cookie = operation->cookie};
        tt_rc_pool_give(&rc->operations, operation);
    }
    return count;
}

static uint32_t take_down(struct tt_rc *rc, struct tt_p2p_event *events, uint32_t max)
{
    uint32_t count = 0;
    while (count < max && !TAILQ_EMPTY(&rc->down_peers)) {
        struct tt_rc_peer *peer = TAILQ_FIRST(&rc->down_peers);
        TAILQ_REMOVE(&rc->down_peers, peer, down_link);
        peer->in_down = false;
        events[count++] = (struct tt_p2p_event){
            .type = TT_P2P_PEER_DOWN, .status = TUTTI_ERR_PEER_FAILED, .peer_cookie = peer->cookie};
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
    if (rc->timer_ns <= rc->now_ns && read(rc->timer, &expirations, sizeof(expirations)) == sizeof(expirations)) {
        rc->timer_ns = TT_NEVER;
    }
    rc->armed = false;
    return sends + receives > 0;
}

static void set_timer(struct tt_rc *rc)
{
    if (rc->timer_ns == rc->due_ns) {
        return;
    }
    /* A time of zero would switch it off. */
    struct itimerspec at = {.it_value = rc->due_ns == TT_NEVER ? (struct timespec){0}
                                                               : tt_clock_timespec(rc->due_ns > 0 ? rc->due_ns : 1)};
    timerfd_settime(rc->timer, TFD_TIMER_ABSTIME, &at, NULL);
    rc->timer_ns = rc->due_ns;
}

/* Has the queue ring at the next completion; false: there is one already, or no ring. */
static bool arm_queue(struct tt_rc *rc, struct tt_rc_stash *stash, struct ibv_cq *queue)
{
    if (stash->count > 0 || ibv_req_notify_cq(queue, 0) != 0) {
        return false;
    }
    stash->count = poll_queue(rc, queue, stash->completions, TT_RC_POLL_BATCH);
    stash->next = 0;
    return stash->count == 0 && !rc->attention;
}

/*
 * Whether somebody waits for what is sent to be acknowledged. Nobody does for mere frames: there a sleeper would be
 * woken for nothing; should one of them fail, it is time to know when the keepalive looks.
 */
static bool awaits_sends(const struct tt_rc *rc)
{
    const struct tt_rc_peer *peer;
    TAILQ_FOREACH(peer, &rc->peers, link)
    {
        if (peer->reads_out + peer->writes_out > 0 || !STAILQ_EMPTY(&peer->waiting) || peer->down) {
            return true;
        }
    }
    return false;
}

static bool arm(struct tt_p2p *p2p)
{
    struct tt_rc *rc = tt_rc_of(p2p);
    if (!STAILQ_EMPTY(&rc->done) || !TAILQ_EMPTY(&rc->down_peers) || !STAILQ_EMPTY(&rc->used) || rc->attention) {
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
    (void)p2p, (void)now_ns;
    return TT_NEVER;
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
    rc->now_ns = tt_clock_now_ns();
    bool rang = rc->armed && wake(rc);
    if (!STAILQ_EMPTY(&rc->used)) {
        tt_rc_receive_again(rc);
    }
    bool moved = take_sent(rc);
    uint32_t count = take_received(rc, events, max, &empty);
    for (int round = 0; round < MAX_ROUNDS && (rc->attention || rc->now_ns >= rc->due_ns); round++) {
        tt_rc_tend(rc);
    }
    moved = moved || count > 0;
    rc->counters.wakeups += rang && moved;
    count += take_done(rc, events + count, max - count);
    if (empty) {
        count += take_down(rc, events + count, max - count);
    }
    return count;
}

static void get_counters(struct tt_p2p *p2p, struct tt_p2p_counters *counters)
{
    *counters = tt_rc_of(p2p)->counters;
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

/* Makes progress, and forgets what it says, until every peer is gone or the deadline comes. */
static void drain(struct tt_rc *rc, uint64_t deadline_ns)
{
    while (!TAILQ_EMPTY(&rc->peers) && tt_clock_now_ns() < deadline_ns) {
        struct tt_p2p_event events[16];
        if (progress(&rc->base, events, 16) == 0 && !TAILQ_EMPTY(&rc->peers) && arm(&rc->base)) {
            struct pollfd wait = {.fd = rc->fd, .events = POLLIN};
            poll(&wait, 1, 10);
        }
    }
}

static void free_all(struct tt_rc *rc)
{
    struct tt_rc_peer *peer;
    struct tt_rc_remote *remote;
    while ((peer = TAILQ_FIRST(&rc->peers)) != NULL) { /* the device did not let go of them in time */
        if (peer->queue_pair != NULL) {
            tt_rc_queue_destroy(peer);
        }
        tt_rc_peer_free(peer);
    }
    while ((peer = TAILQ_FIRST(&rc->graves)) != NULL) {
        TAILQ_REMOVE(&rc->graves, peer, link);
        tt_rc_pool_fini(&peer->buffers);
        free(peer);
    }
    while ((remote = LIST_FIRST(&rc->remotes)) != NULL) {
        LIST_REMOVE(remote, link);
        if (remote->handle != NULL) {
            ibv_destroy_ah(remote->handle);
        }
        free(remote);
    }
}

static void destroy(struct tt_p2p *p2p)
{
    struct tt_rc *rc = tt_rc_of(p2p);
    struct tt_rc_peer *peer, *next;
    uint64_t now_ns = tt_clock_now_ns();
    rc->ending = true;
    for (peer = TAILQ_FIRST(&rc->peers); peer != NULL; peer = next) {
        next = TAILQ_NEXT(peer, link);
        if (!peer->released) {
            tt_rc_disconnect(&peer->base);
        }
    }
    /* A little less than the two seconds, so that closing by force still fits in. */
    drain(rc, now_ns + TT_RC_FAREWELL_NS - 2 * TT_RC_FLUSH_NS);
    if (!TAILQ_EMPTY(&rc->peers)) {
        close_all(rc);
        drain(rc, tt_clock_now_ns() + 2 * TT_RC_FLUSH_NS);
    }
    free_all(rc);
    tt_rc_close(rc);
    free(rc);
}

static const struct tt_p2p_ops ops = {
    .name = "verbs",
    .address = tt_rc_address_of,
    .connect = tt_rc_connect,
    .disconnect = tt_rc_disconnect,
    .send = tt_rc_send,
    .memory_register = tt_rc_memory_register,
    .memory_release = tt_rc_memory_release,
    .memory_pack = tt_rc_memory_pack,
    .get = tt_rc_get_from,
    .put = tt_rc_put_to,
    .progress = progress,
    .fd = get_fd,
    .tend = tend,
    .arm = arm,
    .counters = get_counters,
    .destroy = destroy,
};

tutti_status tt_rc_create(const struct tt_rc_options *options, struct tt_p2p **p2p)
{
    struct tt_rc *rc = calloc(1, sizeof(*rc));
    if (rc == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "verbs: no memory for an instance");
    }
    rc->base.ops = &ops;
    rc->fd = rc->timer = -1;
    rc->due_ns = TT_NEVER;
    STAILQ_INIT(&rc->used);
    STAILQ_INIT(&rc->done);
    TAILQ_INIT(&rc->peers);
    TAILQ_INIT(&rc->down_peers);
    TAILQ_INIT(&rc->blocked);
    TAILQ_INIT(&rc->graves);
    LIST_INIT(&rc->remotes);
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
    *p2p = &rc->base;
    return TUTTI_OK;
}
