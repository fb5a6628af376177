/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UCX provider's instance: creation, progress, sleeping and the end.
 *
 * Normal path: progress moves the worker, whose callbacks fill three queues: received messages (inbox), completed
 * operations (done) and failed peers (down_peers). Then it hands out what they hold, in this order, so that the last
 * frames of a peer come before its PEER_DOWN. The worker is not moved again while received messages are left.
 *
 * Failures: peers that broke or left are closed step by step (connect.c) in every progress until nothing of them is
 * left. If a received message, or its answer, finds no memory, reliability is lost and every peer is reported down.
 * destroy gives farewells two seconds and closes what is left by force.
 */
#include "fabric/ucx/ucx.h"

#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/ucx/instance.h"

enum {
    INITIAL_MESSAGES = 64,         /* about 70 KiB; most sends complete at once and take none for long */
    INITIAL_OPERATIONS = 64,       /* gets and puts under way */
    INITIAL_BULK_MESSAGES = 4,     /* a quarter of a megabyte */
    INITIAL_INBOX_BYTES = 1 << 18, /* four full receive buffers of UCX's TCP */
    MAX_ROUNDS = 4                 /* of the worker in one progress; a round may only move UCX's own messages */
};

static uint32_t take_received(struct tt_ucx *ucx, struct tt_p2p_event *events, uint32_t max)
{
    uint32_t count = 0;
    while (count < max && !tt_inbox_empty(&ucx->inbox)) {
        struct tt_inbox_record record;
        const void *data;
        tt_inbox_pop(&ucx->inbox, &record, &data);
        events[count] = (struct tt_p2p_event){.type = TT_P2P_IMMEDIATE, .immediate = record.value};
        if (record.kind == TT_UCX_FRAME) {
            events[count] = (struct tt_p2p_event){.type = TT_P2P_FRAME,
                                                  .data = data,
                                                  .length_bytes = record.length_bytes,
                                                  .peer_cookie = tt_ucx_cookie_of(ucx, record.value)};
        }
        count++;
    }
    return count;
}

static uint32_t take_done(struct tt_ucx *ucx, struct tt_p2p_event *events, uint32_t max)
{
    uint32_t count = 0;
    while (count < max && !STAILQ_EMPTY(&ucx->done)) {
        struct tt_ucx_operation *operation = STAILQ_FIRST(&ucx->done);
        STAILQ_REMOVE_HEAD(&ucx->done, link);
        events[count++] =
            (struct tt_p2p_event){.type = TT_P2P_DONE, .status = operation->status, .cookie = operation->cookie};
        tt_pool_give(&ucx->operations, operation);
    }
    return count;
}

static uint32_t take_down(struct tt_ucx *ucx, struct tt_p2p_event *events, uint32_t max)
{
    uint32_t count = 0;
    while (count < max && tt_inbox_empty(&ucx->inbox) && !TAILQ_EMPTY(&ucx->down_peers)) {
        struct tt_ucx_peer *peer = TAILQ_FIRST(&ucx->down_peers);
        TAILQ_REMOVE(&ucx->down_peers, peer, down_link);
        peer->in_down = false;
        events[count++] = (struct tt_p2p_event){
            .type = TT_P2P_PEER_DOWN, .status = TUTTI_ERR_PEER_FAILED, .peer_cookie = peer->cookie};
    }
    return count;
}

static bool has_events(const struct tt_ucx *ucx)
{
    return !tt_inbox_empty(&ucx->inbox) || !STAILQ_EMPTY(&ucx->done) || !TAILQ_EMPTY(&ucx->down_peers);
}

static void fail_all(struct tt_ucx *ucx)
{
    struct tt_ucx_peer *peer;
    ucx->lost = false;
    TAILQ_FOREACH(peer, &ucx->peers, all_link)
    {
        tt_ucx_peer_fail(peer);
    }
}

/* Moves the worker until there is an event or nothing moves; returns whether anything moved. */
static bool move(struct tt_ucx *ucx)
{
    bool moved = false;
    for (int round = 0; round < MAX_ROUNDS; round++) {
        unsigned count = ucp_worker_progress(ucx->worker);
        tt_ucx_send_answers(ucx);
        if (!STAILQ_EMPTY(&ucx->placed)) {
            tt_ucx_send_due_immediates(ucx);
        }
        if (!TAILQ_EMPTY(&ucx->due)) {
            count += tt_ucx_send_due(ucx);
        }
        if (ucx->lost) {
            fail_all(ucx);
        }
        if (!TAILQ_EMPTY(&ucx->attention)) {
            tt_ucx_attend(ucx);
        }
        moved = moved || count > 0;
        if (count == 0 || has_events(ucx)) {
            break;
        }
    }
    return moved;
}

static uint32_t progress(struct tt_p2p *p2p, struct tt_p2p_event *events, uint32_t max)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    if (tt_inbox_empty(&ucx->inbox)) {
        tt_inbox_reset(&ucx->inbox);
        bool moved = move(ucx);
        ucx->counters.wakeups += moved && ucx->armed;
        ucx->armed = false;
    }
    uint32_t count = take_received(ucx, events, max);
    count += take_done(ucx, events + count, max - count);
    count += take_down(ucx, events + count, max - count);
    return count;
}

static uint64_t tend(struct tt_p2p *p2p, uint64_t now_ns)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    struct tt_tail *tail;
    while ((tail = tt_tails_due(&ucx->tails, now_ns)) != NULL) {
        struct tt_ucx_peer *peer = (struct tt_ucx_peer *)((char *)tail - offsetof(struct tt_ucx_peer, tail));
        tt_ucx_send_probe(peer);
    }
    return tt_tails_due_ns(&ucx->tails);
}

static int get_fd(struct tt_p2p *p2p)
{
    return tt_ucx_of(p2p)->fd;
}

static bool arm(struct tt_p2p *p2p)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    if (has_events(ucx) || ucx->lost || !STAILQ_EMPTY(&ucx->answers) || !STAILQ_EMPTY(&ucx->placed) ||
        !TAILQ_EMPTY(&ucx->due)) {
        return false;
    }
    /* Any other error than BUSY would come again and again: sleeping would lose a wake-up, so it polls instead. */
    ucx->armed = ucp_worker_arm(ucx->worker) == UCS_OK;
    return ucx->armed;
}

static void get_counters(struct tt_p2p *p2p, struct tt_p2p_counters *counters)
{
    *counters = tt_ucx_of(p2p)->counters;
}

/* Moves the worker, and forgets what it says, until every peer is gone or the deadline comes. */
static void drain(struct tt_ucx *ucx, uint64_t deadline_ns)
{
    enum { VAIN_LOOKS = 16 };
    uint32_t vain = 0;
    while (!TAILQ_EMPTY(&ucx->peers) && tt_clock_now_ns() < deadline_ns) {
        struct tt_p2p_event events[16];
        vain = progress(&ucx->base, events, 16) > 0 ? 0 : vain + 1;
        if (vain > 0 && !TAILQ_EMPTY(&ucx->peers) && arm(&ucx->base)) {
            struct pollfd wait = {.fd = ucx->fd, .events = POLLIN};
            /* Short: deadlines of farewells have no descriptor. One that is always ready while a connection is made
             * (1.13) is not looked at all the time. */
            poll(&wait, vain < VAIN_LOOKS, vain < VAIN_LOOKS ? 10 : 1);
        }
    }
}

static void destroy(struct tt_p2p *p2p)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    struct tt_ucx_peer *peer, *next;
    uint64_t now_ns = tt_clock_now_ns();
    for (peer = TAILQ_FIRST(&ucx->peers); peer != NULL; peer = next) {
        next = TAILQ_NEXT(peer, all_link);
        if (!peer->released) {
            tt_ucx_disconnect(&peer->base);
        }
    }
    /* A little less than the two seconds, so that closing by force still fits in. */
    drain(ucx, now_ns + TT_UCX_FAREWELL_NS - 200 * TT_NS_PER_MS);
    if (!TAILQ_EMPTY(&ucx->peers)) {
        tt_ucx_give_up_all(ucx);
        drain(ucx, now_ns + TT_UCX_FAREWELL_NS - 50 * TT_NS_PER_MS);
    }
    TAILQ_FOREACH(peer, &ucx->peers, all_link)
    {
        tt_ucx_drop_keys(peer); /* before their worker goes */
    }
    tt_ucx_close(ucx);
    tt_ucx_free_peers(ucx);
    tt_inbox_fini(&ucx->inbox);
    tt_pool_fini(&ucx->operations);
    tt_pool_fini(&ucx->bulk_messages);
    tt_pool_fini(&ucx->messages);
    tt_registry_fini(&ucx->memories);
    free(ucx);
}

static const struct tt_p2p_ops ops = {
    .name = "ucx",
    .address = tt_ucx_address,
    .connect = tt_ucx_connect,
    .disconnect = tt_ucx_disconnect,
    .send = tt_ucx_send,
    .memory_register = tt_ucx_memory_register,
    .memory_release = tt_ucx_memory_release,
    .memory_pack = tt_ucx_memory_pack,
    .get = tt_ucx_get,
    .put = tt_ucx_put,
    .progress = progress,
    .tend = tend,
    .fd = get_fd,
    .arm = arm,
    .counters = get_counters,
    .destroy = destroy,
};

static tutti_status init(struct tt_ucx *ucx, const struct tt_ucx_options *options)
{
    ucx->base.ops = &ops;
    STAILQ_INIT(&ucx->answers);
    STAILQ_INIT(&ucx->placed);
    STAILQ_INIT(&ucx->done);
    TAILQ_INIT(&ucx->peers);
    TAILQ_INIT(&ucx->down_peers);
    TAILQ_INIT(&ucx->attention);
    TAILQ_INIT(&ucx->due);
    tt_tails_init(&ucx->tails, false);
    for (uint32_t i = 0; i < TT_UCX_BUCKETS; i++) {
        LIST_INIT(&ucx->remotes[i]);
    }
    if (getrandom(&ucx->id, sizeof(ucx->id), 0) != sizeof(ucx->id)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_IO, "ucx: no random number for the instance");
    }
    if (tt_pool_init(&ucx->messages, sizeof(struct tt_ucx_message), INITIAL_MESSAGES) != TUTTI_OK ||
        tt_pool_init(&ucx->bulk_messages, sizeof(struct tt_ucx_bulk_message), INITIAL_BULK_MESSAGES) != TUTTI_OK ||
        tt_pool_init(&ucx->operations, sizeof(struct tt_ucx_operation), INITIAL_OPERATIONS) != TUTTI_OK ||
        tt_inbox_init(&ucx->inbox, INITIAL_INBOX_BYTES) != TUTTI_OK) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for an instance");
    }
    ucx->lossless = options->lossless;
    tutti_status status = tt_ucx_open(ucx, options->interface, options->tls);
    return status == TUTTI_OK ? tt_ucx_listen(ucx) : status;
}

tutti_status tt_ucx_create(const struct tt_ucx_options *options, struct tt_p2p **p2p)
{
    static const struct tt_ucx_options defaults = {0};
    struct tt_ucx *ucx = calloc(1, sizeof(*ucx));
    if (ucx == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "ucx: no memory for an instance");
    }
    tutti_status status = init(ucx, options != NULL ? options : &defaults);
    if (status != TUTTI_OK) {
        tt_ucx_close(ucx);
        tt_inbox_fini(&ucx->inbox);
        tt_pool_fini(&ucx->operations);
        tt_pool_fini(&ucx->bulk_messages);
        tt_pool_fini(&ucx->messages);
        free(ucx);
        return status;
    }
    *p2p = &ucx->base;
    return TUTTI_OK;
}
