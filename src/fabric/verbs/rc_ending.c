/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a connection.
 *
 * Normal path: a side that leaves lets its reads and writes end, then sends the last message behind all frames. When
 * the session has closed the connection, it lingers for a moment, so that the device acknowledges the other side's last
 * message before the queue pair goes. Then the queue pair is put into the error state, gives back what it holds, and is
 * destroyed when what has come over it was read; no earlier, since a queue pair takes along what has not left yet, and
 * what nobody has looked at.
 *
 * Failures: a connection that broke does not linger. An instance that ends waits for the other side's last message for
 * a moment only, as nobody is here any more to receive. Should a queue pair not give back everything, its memory is
 * kept to the end of the instance.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"

static struct tt_rc_peer *of(struct tt_session_peer *base)
{
    return (struct tt_rc_peer *)base;
}

static bool is_idle(const struct tt_rc_peer *peer)
{
    return peer->reads_out + peer->writes_out == 0;
}

bool tt_rc_farewell(struct tt_session_peer *base, bool heard)
{
    struct tt_rc_peer *peer = of(base);
    if (!is_idle(peer)) {
        return false;
    }
    if (tt_rc_queue_message(peer, heard ? TT_RC_BYE_HEARD : TT_RC_BYE, &(struct tt_p2p_frame){0}) != TUTTI_OK) {
        tt_session_starve(base, "no memory for a goodbye");
    }
    return true;
}

/* Its owner waits for what is under way, and not for long. */
void tt_rc_cancel(struct tt_session_peer *base, tutti_status status)
{
    struct tt_rc_peer *peer = of(base);
    uint64_t abort_ns = base->session->now_ns + TT_RC_ABORT_NS;
    tt_rc_operations_end(peer, status);
    if (base->released && !is_idle(peer) && abort_ns < base->deadline_ns) {
        base->deadline_ns = abort_ns;
    }
}

/* --- Closing ------------------------------------------------------------------------------------------------------ */

/* What a queue pair that is gone has not given back: the caller need not wait for it, the memory may. */
static void abandon_posted(struct tt_rc_peer *peer)
{
    struct tt_rc_work *work;
    TAILQ_FOREACH(work, &peer->posted, link)
    {
        struct tt_rc_operation *operation = work->operation;
        work->operation = NULL;
        if (operation != NULL) {
            tt_rc_operation_part_done(operation, tt_rc_cause(peer));
        }
        if (work->kind == TT_RC_WORK_PIECE) {
            tt_rc_bounce_give((struct tt_rc_piece *)work);
        }
    }
}

static bool gave_back_all(const struct tt_rc_peer *peer)
{
    return TAILQ_EMPTY(&peer->posted) && TAILQ_EMPTY(&peer->greetings) && peer->receives == 0;
}

/* Some devices (mlx5) take what is of a queue pair out of the completion queue when that is destroyed. How much came
 * for it to shared receives before the error state is not counted; all of that has been looked at when the completion
 * queue was seen empty since. */
static bool left_nothing_unread(const struct tt_rc_peer *peer)
{
    return peer->rc->shared == NULL || peer->rc->polled_ns > peer->flush_ns - TT_RC_FLUSH_NS;
}

static void close_queue(struct tt_rc_peer *peer)
{
    if (!gave_back_all(peer)) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "verbs: queue pair %u did not give back all that it held",
               peer->queue_pair->qp_num);
    }
    tt_rc_queue_destroy(peer);
    abandon_posted(peer);
    tt_rc_unblock(peer->rc); /* bounce buffers may have been among it */
}

/* Until when the queue pair is left as it is. */
static uint64_t linger(struct tt_rc_peer *peer, uint64_t now_ns)
{
    const struct tt_session_peer *base = &peer->session;
    if (base->broken) {
        return 0;
    }
    if (base->remote_left) {
        peer->left_ns = peer->left_ns != 0 ? peer->left_ns : now_ns;
        return peer->left_ns + TT_RC_LINGER_NS;
    }
    return base->session->ending && peer->farewell_sent ? peer->close_ns + TT_RC_ABORT_NS : 0;
}

static void begin_flush(struct tt_rc_peer *peer, uint64_t now_ns)
{
    peer->flushing = true;
    peer->flush_ns = now_ns + TT_RC_FLUSH_NS;
    tt_rc_drop_waiting(peer);
    tt_rc_queue_fail(peer);
}

uint64_t tt_rc_close_peer(struct tt_session_peer *base, uint64_t now_ns)
{
    struct tt_rc_peer *peer = of(base);
    if (peer->queue_pair == NULL) { /* it could not be made */
        tt_rc_drop_waiting(peer);
        return TT_NEVER;
    }
    peer->close_ns = peer->close_ns != 0 ? peer->close_ns : now_ns;
    if (!peer->flushing) {
        uint64_t until_ns = linger(peer, now_ns);
        if (now_ns < until_ns) {
            return until_ns;
        }
        begin_flush(peer, now_ns);
    }
    bool gave_back = gave_back_all(peer);
    if (!(gave_back && left_nothing_unread(peer)) &&
        peer->rc->polled_ns < peer->flush_ns) { /* else it may all be there, and nobody looked */
        return gave_back || peer->flush_ns <= now_ns ? now_ns + TT_NS_PER_MS : peer->flush_ns;
    }
    close_queue(peer);
    return TT_NEVER;
}

void tt_rc_bury(struct tt_rc_peer *grave)
{
    tt_rc_pool_fini(&grave->buffers);
    if (grave->handle != NULL) {
        ibv_destroy_ah(grave->handle);
    }
    free(grave);
}

void tt_rc_fini_peer(struct tt_session_peer *base)
{
    struct tt_rc_peer *peer = of(base);
    if (peer->queue_pair != NULL) { /* the instance ends before the device has let go of it */
        close_queue(peer);
    }
    assert(STAILQ_EMPTY(&peer->gets) && STAILQ_EMPTY(&peer->puts) && !peer->blocked);
    if (gave_back_all(peer)) {
        tt_rc_bury(peer);
    } else {
        TAILQ_INSERT_TAIL(&peer->rc->graves, peer, link);
    }
}
