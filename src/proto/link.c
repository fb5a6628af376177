/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host's link. Normal path: windows keep their size. One that was too small is doubled, one that was too large is
 * halved, and it takes twice as long every time until it may be larger again. Collectives that wait for their turn
 * stand in a list, from which the one in front goes on when one that is on has ended; one that fails while it waits
 * leaves the list.
 */
#include "proto/link.h"

#include <assert.h>
#include <string.h>

#include "base/least.h"

enum { LEAST_KBIT = 1000 /* no rank may hold all others up for ever */ };

enum { LEAST_PATIENCE = 256, MOST_PATIENCE = 1 << 16 }; /* windows */

void tt_link_init(struct tt_link *link, uint32_t rate_kbit)
{
    memset(link, 0, sizeof *link);
    link->rate_kbit = rate_kbit > LEAST_KBIT ? rate_kbit : LEAST_KBIT;
    link->window_bytes = TT_LINK_WINDOW_BYTES;
    link->least_bytes = TT_LINK_LEAST_BYTES;
    link->most_bytes = link->queue_bytes = UINT32_MAX;
    link->patience = LEAST_PATIENCE;
}

void tt_link_limit(struct tt_link *link, uint64_t queue_bytes)
{
    if (queue_bytes < link->queue_bytes) {
        link->queue_bytes = (uint32_t)queue_bytes;
        link->least_bytes = tt_least(link->least_bytes, link->queue_bytes);
        link->most_bytes = tt_least(link->most_bytes, link->queue_bytes);
        link->window_bytes = tt_least(link->window_bytes, link->most_bytes);
    }
}

/* --- Windows ------------------------------------------------------------------------------------------------------ */

void tt_link_grow(struct tt_link *link)
{
    link->window_bytes = link->window_bytes > link->most_bytes / 2 ? link->most_bytes : 2 * link->window_bytes;
}

void tt_link_shrink(struct tt_link *link)
{
    link->window_bytes = link->window_bytes / 2 > link->least_bytes ? link->window_bytes / 2 : link->least_bytes;
    link->most_bytes = link->window_bytes;
    link->patience = tt_least(2 * link->patience, MOST_PATIENCE);
    link->calm = 0;
}

void tt_link_calm(struct tt_link *link)
{
    link->calm++;
    if (link->calm >= link->patience && link->most_bytes < link->queue_bytes) {
        link->most_bytes = link->most_bytes > link->queue_bytes / 2 ? link->queue_bytes : 2 * link->most_bytes;
        link->calm = 0;
    }
}

/* --- Turns -------------------------------------------------------------------------------------------------------- */

static void stop_waiting(struct tt_link *link, struct tt_turn *turn)
{
    struct tt_turn *before = NULL;

    assert(turn->waits);
    for (struct tt_turn *other = link->first_waiting; other != turn; other = other->next) {
        assert(other != NULL); /* who waits is in the list */
        before = other;
    }
    *(before != NULL ? &before->next : &link->first_waiting) = turn->next;
    link->last_waiting = link->last_waiting == turn ? before : link->last_waiting;
    turn->next = NULL;
    turn->waits = false;
}

bool tt_link_take_turn(struct tt_link *link, struct tt_turn *turn)
{
    if (turn->is_on) {
        return true;
    }
    if (link->turns < TT_LINK_MOST_TURNS && (link->first_waiting == NULL || link->first_waiting == turn)) {
        if (turn->waits) {
            stop_waiting(link, turn);
        }
        turn->is_on = true;
        link->turns++;
        return true;
    }
    if (!turn->waits) {
        assert(turn->next == NULL);
        *(link->last_waiting != NULL ? &link->last_waiting->next : &link->first_waiting) = turn;
        link->last_waiting = turn;
        turn->waits = true;
    }
    return false;
}

void tt_link_end_turn(struct tt_link *link, struct tt_turn *turn)
{
    if (turn->waits) {
        stop_waiting(link, turn);
    }
    if (turn->is_on) {
        assert(link->turns > 0);
        turn->is_on = false;
        link->turns--;
    }
    link->turn_passes |= link->first_waiting != NULL && link->turns < TT_LINK_MOST_TURNS;
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

/* Who waits is in the list once, and is not on. */
static void check_waiting(const struct tt_link *link)
{
    const struct tt_turn *last = NULL;

    for (const struct tt_turn *turn = link->first_waiting; turn != NULL; turn = turn->next) {
        assert(turn->waits);
        assert(!turn->is_on);
        last = turn;
    }
    assert(link->last_waiting == last);
}

void tt_link_check(const struct tt_link *link)
{
    assert(link->window_bytes >= link->least_bytes && link->window_bytes <= link->most_bytes);
    assert(link->most_bytes <= link->queue_bytes);
    assert(link->patience >= LEAST_PATIENCE && link->patience <= MOST_PATIENCE);
    assert(link->rate_kbit >= LEAST_KBIT);
    assert(link->turns <= TT_LINK_MOST_TURNS);
    check_waiting(link);
}
