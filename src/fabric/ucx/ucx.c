/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The UCX provider's instance: creation, progress, sleeping and the end. Connections live as the session layer has
 * them.
 *
 * Normal path: progress moves the worker, whose callbacks fill the inbox with received messages and tell the session of
 * completed operations and failed peers. Then it hands out what has been received, and what the session has to tell
 * behind it. The worker is not moved again while received messages are left.
 *
 * Failures: those of connections end as PEER_DOWN. If a received message, or its answer, finds no memory, reliability
 * is lost and every peer is reported down. destroy gives farewells two seconds and closes what is left by force.
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
#include "wire/cursor.h"

enum {
    INITIAL_MESSAGES = 64,         /* about 70 KiB; most sends complete at once and take none for long */
    INITIAL_OPERATIONS = 64,       /* gets and puts under way */
    INITIAL_BULK_MESSAGES = 4,     /* a quarter of a megabyte */
    INITIAL_INBOX_BYTES = 1 << 18, /* four full receive buffers of UCX's TCP */
    MAX_ROUNDS = 4                 /* of the worker in one progress; a round may only move UCX's own messages */
};

static uint64_t cookie_of(const struct tt_ucx *ucx, uint64_t remote_id)
{
    uint8_t identity[TT_UCX_IDENTITY_BYTES];
    tt_bytes_put(identity, remote_id, TT_UCX_IDENTITY_BYTES);
    return tt_session_cookie_of(&ucx->session, identity);
}

static uint32_t take_received(struct tt_ucx *ucx, struct tt_p2p_event *events, uint32_t max)
{
    uint32_t count = 0;
    while (count < max && !tt_inbox_empty(&ucx->inbox)) {
        struct tt_inbox_record record;
        const void *data;
        tt_inbox_pop(&ucx->inbox, &record, &data);
        events[count] = (struct tt_p2p_event){.data = data, .length_bytes = record.length_bytes};
        if (record.kind == TT_UCX_FRAME) {
            events[count].type = TT_P2P_FRAME;
            events[count].peer_cookie = cookie_of(ucx, record.value);
        } else {
            events[count].type = TT_P2P_IMMEDIATE;
            events[count].immediate = record.value;
        }
        count++;
    }
    return count;
}

static bool has_events(const struct tt_ucx *ucx)
{
    return !tt_inbox_empty(&ucx->inbox) || tt_session_has_events(&ucx->session);
}

static void fail_all(struct tt_ucx *ucx)
{
    struct tt_session_peer *peer;
    ucx->lost = false;
    TAILQ_FOREACH(peer, &ucx->session.peers, link)
    {
        if (!peer->broken) {
            tt_session_starve(peer, "no memory here for what was received");
        }
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
        if (!TAILQ_EMPTY(&ucx->session.unsettled)) {
            ucx->session.due_ns = 0; /* nobody tells that a flush is over, or a last callback has run */
        }
        tt_session_tend(&ucx->session);
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
    ucx->session.now_ns = tt_clock_now_ns();
    if (tt_inbox_empty(&ucx->inbox)) {
        tt_inbox_reset(&ucx->inbox);
        bool moved = move(ucx);
        ucx->session.counters.wakeups += moved && ucx->armed;
        ucx->armed = false;
    }
    uint32_t count = take_received(ucx, events, max);
    return count + tt_session_take(&ucx->session, !tt_inbox_empty(&ucx->inbox), events + count, max - count);
}

static uint64_t tend(struct tt_p2p *p2p, uint64_t now_ns)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    struct tt_tail *tail;
    while ((tail = tt_tails_due(&ucx->tails, now_ns)) != NULL) {
        struct tt_ucx_peer *peer = (struct tt_ucx_peer *)((char *)tail - offsetof(struct tt_ucx_peer, tail));
        tt_ucx_send_probe(peer);
    }
    return tt_tails_due_ns(&ucx->tails); /* UCX has the frames that wait for a connection, and says nothing of them */
}

static int get_fd(struct tt_p2p *p2p)
{
    return tt_ucx_of(p2p)->fd;
}

static bool arm(struct tt_p2p *p2p)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    if (has_events(ucx) || ucx->lost || !STAILQ_EMPTY(&ucx->answers) || !STAILQ_EMPTY(&ucx->placed) ||
        !TAILQ_EMPTY(&ucx->due) || ucx->session.due_ns <= ucx->session.now_ns) {
        return false;
    }
    /* Any other error than BUSY would come again and again: sleeping would lose a wake-up, so it polls instead. */
    ucx->armed = ucp_worker_arm(ucx->worker) == UCS_OK;
    return ucx->armed;
}

/* --- The end ------------------------------------------------------------------------------------------------------ */

/* A descriptor that is always ready while a connection is made (1.13) is not looked at all the time. */
static void wait_for(struct tt_session *session, uint32_t timeout_ms)
{
    enum { VAIN_LOOKS = 16 };
    struct tt_ucx *ucx = (struct tt_ucx *)session;
    if (arm(&session->base)) {
        bool look = ucx->vain_looks++ < VAIN_LOOKS;
        struct pollfd wait = {.fd = ucx->fd, .events = POLLIN};
        (void)poll(&wait, look, look ? (int)timeout_ms : 1);
    }
}

static void close_instance(struct tt_ucx *ucx)
{
    tt_ucx_abandon_peers(ucx);
    tt_ucx_close(ucx); /* its last callbacks still know connections, gets and puts */
    tt_session_fini(&ucx->session);
    tt_inbox_fini(&ucx->inbox);
    tt_pool_fini(&ucx->operations);
    tt_pool_fini(&ucx->bulk_messages);
    tt_pool_fini(&ucx->messages);
    tt_registry_fini(&ucx->memories);
    free(ucx->lines);
    free(ucx);
}

static void destroy(struct tt_p2p *p2p)
{
    struct tt_ucx *ucx = tt_ucx_of(p2p);
    tt_session_drain(&ucx->session, wait_for);
    close_instance(ucx);
}

static void told(struct tt_session *session, struct tt_session_event *event)
{
    tt_pool_give(&((struct tt_ucx *)session)->operations, event);
}

static const struct tt_session_ops session_ops = {
    .peer_bytes = sizeof(struct tt_ucx_peer),
    .identity_bytes = TT_UCX_IDENTITY_BYTES,
    .frame_bytes = TT_P2P_LEAST_FRAME_BYTES,
    .init = tt_ucx_init,
    .begin = tt_ucx_begin,
    .send = tt_ucx_send,
    .farewell = tt_ucx_farewell,
    .is_flushed = tt_ucx_is_flushed,
    .cancel = tt_ucx_cancel,
    .tend = tt_ucx_tend_peer,
    .close = tt_ucx_close_peer,
    .fini = tt_ucx_fini_peer,
    .told = told,
};

static const struct tt_p2p_ops ops = {
    .name = "ucx",
    .address = tt_ucx_address,
    .connect = tt_ucx_connect,
    .disconnect = tt_session_disconnect,
    .send = tt_session_send,
    .memory_register = tt_ucx_memory_register,
    .memory_release = tt_ucx_memory_release,
    .memory_pack = tt_ucx_memory_pack,
    .get = tt_ucx_get,
    .put = tt_ucx_put,
    .progress = progress,
    .tend = tend,
    .fd = get_fd,
    .arm = arm,
    .counters = tt_session_counters,
    .destroy = destroy,
};

static tutti_status init(struct tt_ucx *ucx, const struct tt_ucx_options *options)
{
    uint8_t identity[TT_UCX_IDENTITY_BYTES];
    bool is_random = getrandom(&ucx->id, sizeof(ucx->id), 0) == sizeof(ucx->id);
    tt_bytes_put(identity, ucx->id, TT_UCX_IDENTITY_BYTES);
    tt_session_init(&ucx->session, &ops, &session_ops, identity, sizeof(identity));
    STAILQ_INIT(&ucx->answers);
    STAILQ_INIT(&ucx->placed);
    TAILQ_INIT(&ucx->due);
    tt_tails_init(&ucx->tails, false);
    if (!is_random) {
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
        close_instance(ucx);
        return status;
    }
    *p2p = &ucx->session.base;
    return TUTTI_OK;
}
