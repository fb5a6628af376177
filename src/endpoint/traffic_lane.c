/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Posting and polling, as the paper's benchmark does it (section IV).
 *
 * Normal path: work requests get room in their queue pair a unit at a time, a unit being the larger of a list and a
 * round of unsignalled ones, and are posted list by list. A completion says in its id who posted and how many work
 * requests it stands for; that is counted off, also if another thread has polled it, and the room is given back.
 * Atomic operations are only there where threads share something, because they are a part of what sharing costs
 * (sections V-E and V-F). Since room is taken for whole units, whoever holds any will get a completion for it.
 *
 * Failures: the first one is told and makes all other lanes give up: what they wait for may have been lost with it.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "endpoint/traffic_private.h"

enum { LOOKS_AT_CLOCK = 256 /* polls that found nothing between two looks */, ID_SHIFT = 32 };

#define PATIENCE_NS (30 * TT_NS_PER_S)

struct patience {
    uint32_t empty; /* polls in a row */
    uint64_t deadline_ns;
};

static tutti_status fail(struct tt_traffic *traffic, tutti_status status, const char *what, const char *why)
{
    atomic_store(&traffic->has_failed, true);
    return tt_error(TT_PART_FABRIC, status, "%s: %s: %s", traffic->options.device, what, why);
}

/* --- Counting ----------------------------------------------------------------------------------------------------- */

static void add(atomic_uint *value, unsigned count, bool is_shared)
{
    if (is_shared) {
        atomic_fetch_add(value, count);
    } else {
        unsigned now = atomic_load_explicit(value, memory_order_relaxed);
        atomic_store_explicit(value, now + count, memory_order_relaxed);
    }
}

static bool take_room(struct tt_traffic_lane *lane, unsigned count)
{
    atomic_uint *room = &lane->queue->room;
    unsigned now = atomic_load_explicit(room, memory_order_relaxed);

    if (!lane->is_shared) {
        if (now >= count) {
            atomic_store_explicit(room, now - count, memory_order_relaxed);
        }
        return now >= count;
    }
    while (now >= count) {
        if (atomic_compare_exchange_weak(room, &now, now - count)) {
            return true;
        }
    }
    return false;
}

/* --- Completions -------------------------------------------------------------------------------------------------- */

static void complete(struct tt_traffic *traffic, uint64_t id)
{
    struct tt_traffic_lane *owner = &traffic->lanes[id >> ID_SHIFT];
    unsigned count = (uint32_t)id;

    add(&owner->queue->room, count, owner->is_shared);
    add(&owner->outstanding, 0U - count, owner->is_shared);
}

static tutti_status poll_lane(struct tt_traffic_lane *lane, bool *found)
{
    struct tt_traffic *traffic = lane->traffic;
    int count = traffic->options.calls->poll_cq(lane->endpoint->cq, (int)traffic->poll_capacity, lane->completions);

    if (count < 0) {
        return fail(traffic, TUTTI_ERR_IO, "polling a completion queue", strerror(EIO));
    }
    for (int i = 0; i < count; i++) {
        if (lane->completions[i].status != IBV_WC_SUCCESS) {
            return fail(traffic, TUTTI_ERR_IO, "an RDMA operation",
                        traffic->options.calls->wc_status_str(lane->completions[i].status));
        }
        complete(traffic, lane->completions[i].wr_id);
    }
    *found = count > 0;
    return TUTTI_OK;
}

static tutti_status poll_patiently(struct tt_traffic_lane *lane, struct patience *patience)
{
    struct tt_traffic *traffic = lane->traffic;
    bool found = false;
    tutti_status status = poll_lane(lane, &found);

    if (status == TUTTI_OK && atomic_load_explicit(&traffic->has_failed, memory_order_relaxed)) {
        return tt_error_note(TUTTI_ERR_CANCELED, "%s: another thread has failed", traffic->options.device);
    }
    if (status != TUTTI_OK || found) {
        *patience = (struct patience){0};
        return status;
    }
    if (++patience->empty % LOOKS_AT_CLOCK == 0) {
        uint64_t now_ns = tt_clock_now_ns();
        patience->deadline_ns = patience->deadline_ns == 0 ? now_ns + PATIENCE_NS : patience->deadline_ns;
        if (now_ns >= patience->deadline_ns) {
            return fail(traffic, TUTTI_ERR_TIMED_OUT, "an RDMA operation", "no completion for 30 s");
        }
    }
    if (traffic->options.yields) {
        sched_yield();
    }
    return TUTTI_OK;
}

/* --- Posting ------------------------------------------------------------------------------------------------------ */

static void fill(struct ibv_send_wr *request, const struct tt_traffic_work *work)
{
    *request->sg_list =
        (struct ibv_sge){.addr = (uintptr_t)work->local, .length = work->bytes, .lkey = work->local_key};
    request->opcode = work->is_read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE;
    request->wr.rdma.remote_addr = (uintptr_t)work->remote;
    request->wr.rdma.rkey = work->remote_key;
}

/* The first `count` of the list. */
static tutti_status post_list(struct tt_traffic_lane *lane, uint32_t count)
{
    struct ibv_send_wr *last = &lane->list[count - 1], *next = last->next, *bad;

    last->next = NULL;
    int error = lane->traffic->options.calls->post_send(lane->queue->qp, lane->list, &bad);
    last->next = next;
    return error == 0 ? TUTTI_OK : fail(lane->traffic, TUTTI_ERR_IO, "posting work requests", strerror(error));
}

/* There is room for them. */
static tutti_status post_unit(struct tt_traffic_lane *lane, const struct tt_traffic_work *work, uint32_t count)
{
    const struct tt_traffic_options *options = &lane->traffic->options;
    unsigned flags = options->inline_bytes > 0 && !work->is_read ? IBV_SEND_INLINE : 0;
    uint32_t unsignalled = 0;
    tutti_status status = TUTTI_OK;

    add(&lane->outstanding, count, lane->is_shared);
    for (uint32_t posted = 0; posted < count && status == TUTTI_OK;) {
        uint32_t length = options->postlist < count - posted ? options->postlist : count - posted;
        for (uint32_t i = 0; i < length; i++) {
            struct ibv_send_wr *request = &lane->list[i];
            bool is_signalled = ++unsignalled == options->unsignalled || posted + i + 1 == count;
            fill(request, work);
            request->send_flags = flags | (is_signalled ? IBV_SEND_SIGNALED : 0);
            request->wr_id = (uint64_t)lane->index << ID_SHIFT | unsignalled;
            unsignalled = is_signalled ? 0 : unsignalled;
        }
        status = post_list(lane, length);
        posted += length;
    }
    return status;
}

tutti_status tt_traffic_post(struct tt_traffic_lane *lane, const struct tt_traffic_work *work, uint64_t count)
{
    while (count > 0) {
        uint32_t unit = lane->traffic->unit < count ? lane->traffic->unit : (uint32_t)count;
        struct patience patience = {0};
        while (!take_room(lane, unit)) {
            tutti_status status = poll_patiently(lane, &patience);
            if (status != TUTTI_OK) {
                return status;
            }
        }
        tutti_status status = post_unit(lane, work, unit);
        if (status != TUTTI_OK) {
            return status;
        }
        count -= unit;
    }
    return TUTTI_OK;
}

tutti_status tt_traffic_finish(struct tt_traffic_lane *lane)
{
    struct patience patience = {0};

    while (atomic_load(&lane->outstanding) > 0) {
        tutti_status status = poll_patiently(lane, &patience);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    return TUTTI_OK;
}
