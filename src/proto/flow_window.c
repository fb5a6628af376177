/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What chunks say of the window. A window that comes in a short time, though most roots had sent all they were allowed
 * before they were allowed more, was too small for the time that reports take; one of which more is lost than noise
 * explains was more than a port holds. Never fails.
 */
#include <assert.h>

#include "proto/collective_private.h"

enum {
    USUAL_GAP = 8,    /* chunks */
    IDLE_PART = 16,   /* of a window's time */
    MEMORY = 16,      /* windows, for what was lost */
    LOSS_PPM = 15000, /* less than this may be a bad cable: it is fetched in less time than waiting costs */
    LOSS_CHUNKS = 8,  /* and a few chunks say nothing */
    DEVIATIONS = 3    /* nor does what may be chance, where it happens thousands of times */
};

/* Rounded down. */
static uint64_t root_of(uint64_t value)
{
    uint64_t root = 0;

    while ((root + 1) * (root + 1) <= value) {
        root++;
    }
    return root;
}

static uint32_t lost_of(const struct tt_collective *c, const struct tt_flow_view *view)
{
    return view->come > c->flow.looked ? view->come - c->flow.looked : 0;
}

/* What was lost so far is known. */
static void remember_loss(struct tt_collective *c, const struct tt_flow_view *view)
{
    c->flow.seen = view->come;
    c->flow.lost = lost_of(c, view);
}

/* Whether more was lost since than noise explains. */
static bool is_lossy(const struct tt_collective *c, const struct tt_flow_view *view)
{
    uint32_t lost = lost_of(c, view);
    uint64_t tolerated = (uint64_t)(view->come - c->flow.seen) * LOSS_PPM / 1000000;

    assert(view->come >= c->flow.seen);
    tolerated += LOSS_CHUNKS + DEVIATIONS * root_of(tolerated);
    return lost > c->flow.lost && lost - c->flow.lost > tolerated;
}

/* Whether a window has come since this last said so. Then `rate_kbit` is what it came at, or nearer to that: a link may
 * give some of it away at once, that had saved up for it. */
static bool time_window(struct tt_collective *c, const struct tt_flow_view *view, uint64_t now_ns, uint64_t *taken_ns)
{
    uint64_t bytes = (uint64_t)(view->remote - c->flow.timed) * tt_flow_wire_bytes(c), kbit;

    assert(view->remote >= c->flow.timed);
    *taken_ns = now_ns - c->flow.timed_ns;
    if (*taken_ns == 0 || bytes * tt_flow_users(c) < c->config.link->window_bytes) {
        return false;
    }
    kbit = bytes * 8000000 / *taken_ns;
    kbit = c->flow.rate_kbit == 0 ? kbit : (3 * (uint64_t)c->flow.rate_kbit + kbit) / 4;
    c->flow.rate_kbit = kbit < UINT32_MAX ? (uint32_t)kbit : UINT32_MAX;
    c->flow.found_ns = c->flow.found_ns == 0 ? now_ns - c->flow.begun_ns : c->flow.found_ns;
    c->flow.timed = view->remote;
    c->flow.timed_ns = now_ns;
    return true;
}

void tt_flow_adapt(struct tt_collective *c, const struct tt_flow_view *view, uint64_t now_ns)
{
    struct tt_link *link = c->config.link;
    uint64_t taken_ns;

    if (!c->flow.watches) {
        return;
    }
    c->flow.was_dry |= 2 * view->dry > view->lanes;
    if (is_lossy(c, view)) {
        tt_link_shrink(link);
        remember_loss(c, view);
    } else if (time_window(c, view, now_ns, &taken_ns)) {
        tt_link_calm(link);
        if (link->calm % MEMORY == 0) {
            remember_loss(c, view);
        }
        if ((c->flow.was_dry || c->flow.idle_ns > taken_ns / IDLE_PART) && taken_ns < TT_LINK_SHORT_NS) {
            tt_link_grow(link);
        }
        c->flow.was_dry = false;
        c->flow.idle_ns = 0;
    }
}

void tt_flow_note_gap(struct tt_collective *c, uint32_t chunks, uint64_t now_ns)
{
    uint64_t gap_ns = now_ns - c->flow.come_ns, usual_ns;

    if (c->flow.rate_kbit != 0 && c->flow.come_ns != 0) {
        usual_ns = (chunks + USUAL_GAP) * (uint64_t)tt_flow_wire_bytes(c) * 8000000 / c->flow.rate_kbit;
        c->flow.idle_ns += gap_ns > usual_ns ? gap_ns : 0;
    }
    c->flow.come_ns = now_ns;
}
