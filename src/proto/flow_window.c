/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a collective's chunks say of the link's window. One that comes in a short time, though most roots had sent all
 * they were allowed before they were allowed more, was too small for the time that reports take; one of which more is
 * lost than noise explains was more than a port holds. Never fails.
 */
#include <assert.h>

#include "proto/collective_private.h"

enum {
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
    c->flow.memory = c->config.link->calm / MEMORY;
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

/* Of so many more that have come: those that are here, and earlier ones that were late. */
static uint32_t received_of(struct tt_collective *c, const struct tt_flow_view *view, uint32_t chunks)
{
    uint32_t lost = lost_of(c, view), before = c->flow.missing;

    c->flow.missing = lost;
    return chunks + before > lost ? chunks + before - lost : 0;
}

void tt_flow_note_dry(struct tt_collective *c, bool is_dry)
{
    c->config.link->dry = c->config.link->dry + is_dry - c->flow.is_dry;
    c->flow.is_dry = is_dry;
}

void tt_flow_note_come(struct tt_collective *c, const struct tt_flow_view *view, uint64_t now_ns)
{
    uint32_t chunks = view->remote - c->flow.remote;

    assert(view->come >= c->flow.come && view->remote >= c->flow.remote); /* positions only ever go up */
    c->flow.come = view->come;
    c->flow.remote = view->remote;
    c->flow.begun_ns = c->flow.begun_ns == 0 ? now_ns : c->flow.begun_ns;
    if (c->flow.watches) {
        if (c->flow.counted) {
            tt_flow_note_dry(c, 2 * view->dry > view->lanes);
        }
        if (chunks > 0) { /* else they are of this host */
            tt_link_come(c->config.link, chunks, received_of(c, view, chunks), (uint64_t)chunks * tt_flow_wire_bytes(c),
                         now_ns);
        }
    }
}

void tt_flow_adapt(struct tt_collective *c, const struct tt_flow_view *view, uint64_t now_ns)
{
    struct tt_link *link = c->config.link;
    uint64_t taken_ns;
    bool was_idle, is_timed, lossy;

    if (!c->flow.watches) {
        return;
    }
    lossy = is_lossy(c, view);
    if (lossy) { /* of the window so far, whichever follows it now */
        tt_link_shrink(link);
        remember_loss(c, view);
    }
    is_timed = tt_link_time_window(link, &taken_ns, &was_idle);
    if (is_timed && !lossy) {
        c->flow.found_ns = c->flow.found_ns == 0 ? now_ns - c->flow.begun_ns : c->flow.found_ns;
        tt_link_calm(link);
        if (was_idle) {
            tt_link_grow(link, taken_ns);
        }
    }
    if (c->flow.memory != link->calm / MEMORY) {
        remember_loss(c, view);
    }
}
