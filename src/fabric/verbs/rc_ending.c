/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is due at connections: greetings to repeat, silence to look into, and their end.
 *
 * Normal path: a side that disconnects first lets its reads and writes end, then sends BYE after all frames; the other
 * side raises PEER_DOWN (or is leaving itself), lets its own reads and writes end, and answers BYE_HEARD (or its own
 * BYE). Who has both sent its last message and had the other's lingers for a moment, so that the device acknowledges
 * the last message before its queue pair goes. Then the queue pair is put into the error state, gives back what it
 * holds, and is destroyed; no earlier, since a queue pair takes along what has not left yet. While all is quiet, a side
 * that has heard nothing for a while probes the other with a write of no bytes, which the device over there
 * acknowledges for as long as the process lives.
 *
 * Failures: a connection that broke is closed at once. A farewell that is not answered in time (a stopped or dead peer,
 * or one that leaves no receive for the last message) is given up. Should a queue pair not give back everything, its
 * memory is kept to the end of the instance.
 */
#include <stdlib.h>

#include "base/log.h"
#include "fabric/verbs/rc_instance.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

void tt_rc_mark_down(struct tt_rc_peer *peer)
{
    struct tt_rc *rc = peer->rc;
    rc->attention = true;
    if (peer->down) {
        return;
    }
    peer->down = true;
    if (peer->deadline_ns == 0) {
        peer->deadline_ns = rc->now_ns + TT_RC_FAREWELL_NS;
    }
    if (peer->claimed && !peer->released) {
        peer->in_down = true;
        TAILQ_INSERT_TAIL(&rc->down_peers, peer, down_link);
    }
    tt_rc_operations_end(peer);
}

void tt_rc_begin_closing(struct tt_rc_peer *peer)
{
    peer->phase = TT_RC_CLOSING;
    tt_rc_mark_down(peer);
    tt_rc_drop_waiting(peer);
    peer->deadline_ns = peer->rc->now_ns + TT_RC_FLUSH_NS;
    tt_rc_queue_fail(peer);
}

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

static void close_queue(struct tt_rc_peer *peer)
{
    if (!TAILQ_EMPTY(&peer->posted) || peer->receives > 0) {
        TT_LOG(TT_PART_FABRIC, TT_LOG_WARN, "verbs: queue pair %u did not give back all that it held",
               peer->queue_pair->qp_num);
    }
    tt_rc_queue_destroy(peer);
    abandon_posted(peer);
    peer->phase = TT_RC_CLOSED;
    tt_rc_unblock(peer->rc); /* bounce buffers may have been among it */
}

void tt_rc_peer_free(struct tt_rc_peer *peer)
{
    struct tt_rc *rc = peer->rc;
    TAILQ_REMOVE(&rc->peers, peer, link);
    LIST_REMOVE(peer, remote_link);
    if (!TAILQ_EMPTY(&peer->posted) || peer->receives > 0) {
        TAILQ_INSERT_TAIL(&rc->graves, peer, link);
        return;
    }
    tt_rc_pool_fini(&peer->buffers);
    free(peer);
}

/* --- What is due -------------------------------------------------------------------------------------------------- */

/* Each of these returns when it wants to be called next. */

static uint64_t tend_greeting(struct tt_rc_peer *peer, uint64_t now_ns)
{
    if (peer->down && now_ns >= peer->deadline_ns) {
        tt_rc_begin_closing(peer);
    } else if (now_ns >= peer->greet_ns) {
        tt_rc_greet(peer);
    }
    return peer->down ? earlier(peer->greet_ns, peer->deadline_ns) : peer->greet_ns;
}

static uint64_t tend_connected(struct tt_rc_peer *peer, uint64_t now_ns)
{
    if (peer->down && peer->reads_out + peer->writes_out == 0) {
        peer->phase = TT_RC_FAREWELL;
        if (tt_rc_queue_message(peer, peer->released ? TT_RC_BYE : TT_RC_BYE_HEARD, NULL, 0) != TUTTI_OK) {
            tt_rc_peer_failed(peer);
        }
        return peer->deadline_ns;
    }
    if (peer->down) {
        if (now_ns >= peer->deadline_ns) {
            tt_rc_begin_closing(peer);
        }
        return peer->deadline_ns;
    }
    if (now_ns >= peer->heard_ns + TT_RC_KEEPALIVE_NS) {
        if (TAILQ_EMPTY(&peer->posted)) {
            tt_rc_probe(peer);
        }
        return now_ns + TT_RC_KEEPALIVE_NS;
    }
    return peer->heard_ns + TT_RC_KEEPALIVE_NS;
}

static uint64_t tend_farewell(struct tt_rc_peer *peer, uint64_t now_ns)
{
    if (peer->farewell_sent && peer->remote_left) {
        peer->deadline_ns = earlier(peer->deadline_ns, now_ns + TT_RC_LINGER_NS);
    } else if (peer->farewell_sent && peer->rc->ending) {
        /* Everything has been received over there, and nobody is here any more to receive. */
        peer->deadline_ns = earlier(peer->deadline_ns, now_ns + TT_RC_ABORT_NS);
    }
    if (now_ns >= peer->deadline_ns) {
        if (!peer->farewell_sent || !peer->remote_left) {
            TT_LOG(TT_PART_FABRIC, TT_LOG_INFO, "verbs: instance %016llx did not answer a goodbye, giving it up",
                   (unsigned long long)peer->remote->address.instance);
        }
        tt_rc_begin_closing(peer);
    }
    return peer->deadline_ns;
}

static uint64_t tend_closing(struct tt_rc_peer *peer, uint64_t now_ns)
{
    if ((TAILQ_EMPTY(&peer->posted) && peer->receives == 0) || now_ns >= peer->deadline_ns) {
        close_queue(peer);
        return now_ns;
    }
    return peer->deadline_ns;
}

/* One step; the peer may be freed afterwards. */
static uint64_t tend_peer(struct tt_rc_peer *peer, uint64_t now_ns)
{
    switch (peer->phase) {
    case TT_RC_GREETING:
        return tend_greeting(peer, now_ns);
    case TT_RC_CONNECTED:
        return tend_connected(peer, now_ns);
    case TT_RC_FAREWELL:
        return tend_farewell(peer, now_ns);
    case TT_RC_CLOSING:
        return tend_closing(peer, now_ns);
    case TT_RC_CLOSED:
        break;
    }
    if (peer->released) {
        tt_rc_peer_free(peer);
    }
    return TT_NEVER;
}

void tt_rc_tend(struct tt_rc *rc)
{
    struct tt_rc_peer *peer, *next;
    rc->attention = false;
    rc->due_ns = TT_NEVER;
    for (peer = TAILQ_FIRST(&rc->peers); peer != NULL; peer = next) {
        next = TAILQ_NEXT(peer, link);
        rc->due_ns = earlier(rc->due_ns, tend_peer(peer, rc->now_ns));
    }
}
