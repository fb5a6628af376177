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
#include "proto/pacer.h"

enum {
    USUAL_GAP = 8, /* chunks */
    IDLE_PART = 16 /* of a window's time */
};

enum { LEAST_PATIENCE = 256, MOST_PATIENCE = 1 << 16 }; /* windows */

void tt_link_init(struct tt_link *link, uint32_t rate_kbit)
{
    memset(link, 0, sizeof *link);
    link->rate_kbit = tt_most(rate_kbit, TT_PACER_LEAST_KBIT);
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

/* --- What comes --------------------------------------------------------------------------------------------------- */

void tt_link_join(struct tt_link *link)
{
    if (link->users++ == 0) {
        link->timed_ns = link->come_ns = link->idle_ns = 0;
        link->was_dry = false;
    }
}

void tt_link_leave(struct tt_link *link)
{
    assert(link->users > 0);
    link->users--;
}

void tt_link_come(struct tt_link *link, uint32_t chunks, uint64_t bytes, uint64_t now_ns)
{
    uint64_t gap_ns = now_ns - link->come_ns, usual_ns;

    assert(chunks > 0);
    if (link->come_kbit != 0 && link->come_ns != 0) {
        usual_ns = (bytes + USUAL_GAP * bytes / chunks) * 8000000 / link->come_kbit;
        link->idle_ns += gap_ns > usual_ns ? gap_ns : 0;
    }
    link->come_ns = now_ns;
    link->come_bytes += bytes;
    if (link->timed_ns == 0) {
        link->timed_ns = now_ns;
        link->timed_bytes = link->come_bytes;
    }
    link->was_dry |= link->dry > 0 && link->dry == link->users;
}

/* A link may give some of a window away at once, that had saved up for it: so the rate follows slowly. */
bool tt_link_time_window(struct tt_link *link, uint64_t *taken_ns, bool *was_idle)
{
    uint64_t bytes = link->come_bytes - link->timed_bytes, since_ns = link->come_ns - link->timed_ns, kbit;

    if (link->timed_ns == 0 || since_ns == 0 || bytes < link->window_bytes) {
        return false;
    }
    kbit = bytes * 8000000 / since_ns;
    kbit = link->come_kbit == 0 ? kbit : (3 * (uint64_t)link->come_kbit + kbit) / 4;
    link->come_kbit = kbit < UINT32_MAX ? (uint32_t)kbit : UINT32_MAX;
    *taken_ns = since_ns * link->window_bytes / bytes;
    *was_idle = link->was_dry || link->idle_ns > since_ns / IDLE_PART;
    link->timed_bytes = link->come_bytes;
    link->timed_ns = link->come_ns;
    link->idle_ns = 0;
    link->was_dry = false;
    return true;
}

/* --- Windows ------------------------------------------------------------------------------------------------------ */

void tt_link_grow(struct tt_link *link, uint64_t taken_ns)
{
    uint64_t enough = (uint64_t)link->window_bytes * TT_LINK_SHORT_NS / tt_most(taken_ns, 1);

    if (enough > link->window_bytes) {
        enough = tt_least(enough, 2 * (uint64_t)link->window_bytes);
        link->window_bytes = (uint32_t)tt_least(enough, link->most_bytes);
    }
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
    assert(link->rate_kbit >= TT_PACER_LEAST_KBIT);
    assert(link->turns <= TT_LINK_MOST_TURNS);
    assert(link->dry <= link->users);
    assert(link->timed_bytes <= link->come_bytes && link->timed_ns <= link->come_ns);
    check_waiting(link);
}
