/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A host's link. Normal path: windows keep their size. One that was too small is doubled, one that was too large is
 * halved, and it takes twice as long every time until it may be larger again; where halving only made it slower it gets
 * its size back, and where it waits behind others' traffic it is raised. Collectives that wait for their turn stand in
 * a list, from which the one in front goes on when one that is on has ended; one that fails while it waits leaves the
 * list.
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

enum { LEAST_REST = 2, MOST_REST = 1 << 12, MOST_HALVED = 2, MOST_RAISED = 16, EXCUSED = 32 }; /* periods */

/* A period tells what a window brings: it is of so many windows, and so long that a moment without a processor decides
 * nothing. */
enum { PERIOD_WINDOWS = 4 };

#define PERIOD_NS       (UINT64_C(100) * 1000 * 1000)
#define LEAST_PERIOD_NS (PERIOD_NS / 10) /* of the first one, if something is lost before it is over */

void tt_link_init(struct tt_link *link, uint32_t rate_kbit)
{
    memset(link, 0, sizeof *link);
    link->rate_kbit = tt_most(rate_kbit, TT_PACER_LEAST_KBIT);
    link->window_bytes = TT_LINK_WINDOW_BYTES;
    link->least_bytes = TT_LINK_LEAST_BYTES;
    link->most_bytes = link->queue_bytes = UINT32_MAX;
    link->patience = LEAST_PATIENCE;
    link->rest = LEAST_REST;
}

/* Ends a trial, and the window is as it was. What a larger one allowed is still on its way. */
static void undo(struct tt_link *link)
{
    link->trial.periods = 0;
    link->trial.forgiven_bytes = link->trial.is_raised ? link->come_bytes + 2 * (uint64_t)link->window_bytes : 0;
    link->most_bytes = (uint32_t)tt_least(link->trial.most_bytes, link->queue_bytes);
    link->window_bytes = (uint32_t)tt_least(link->trial.window_bytes, link->most_bytes);
    link->patience = link->trial.patience;
}

static bool is_raised(const struct tt_link *link)
{
    return link->trial.periods > 0 && link->trial.is_raised;
}

void tt_link_limit(struct tt_link *link, uint64_t queue_bytes)
{
    if (queue_bytes < link->queue_bytes) {
        if (queue_bytes < link->window_bytes && link->trial.periods > 0) {
            undo(link); /* neither window would be what it is taken for */
        }
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

void tt_link_come(struct tt_link *link, uint32_t chunks, uint32_t received, uint64_t bytes, uint64_t now_ns)
{
    uint64_t gap_ns = link->come_ns != 0 ? now_ns - link->come_ns : 0, usual_ns;

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
    } else {
        link->period.come_bytes += bytes;
        link->period.bytes += received * (bytes / chunks);
        link->period.ns += gap_ns;
    }
    link->was_dry |= link->dry > 0 && link->dry == link->users;
}

/* --- Trials ------------------------------------------------------------------------------------------------------- */

static uint32_t kbit_of(uint64_t bytes, uint64_t ns)
{
    return (uint32_t)tt_least(bytes * 8000000 / ns, UINT32_MAX);
}

/* What a window brought before what is just being lost; 0: not known. */
static uint32_t received_kbit(const struct tt_link *link)
{
    const struct tt_link_period *period = link->last.ns > 0 ? &link->last : &link->period;
    bool is_known = period->come_bytes >= 2 * (uint64_t)link->window_bytes && period->ns >= LEAST_PERIOD_NS;

    return is_known ? kbit_of(period->bytes, period->ns) : 0;
}

static void begin_trial(struct tt_link *link, uint32_t window_bytes, uint32_t periods)
{
    if (link->trial.periods == 0) {
        link->trial = (struct tt_link_trial){.is_raised = window_bytes > link->window_bytes,
                                             .window_bytes = link->window_bytes,
                                             .most_bytes = link->most_bytes,
                                             .patience = link->patience,
                                             .kbit = received_kbit(link)};
    }
    link->trial.periods = periods;
    link->period = (struct tt_link_period){0};
    link->window_bytes = window_bytes;
}

/* Whether a window of so many bytes takes longer than so, at the pace of that period. */
static bool takes_longer(const struct tt_link_period *period, uint64_t bytes, uint64_t ns)
{
    return period->ns * bytes > ns * period->come_bytes;
}

/*
 * A port that lets C through, and holds X of others beside a window W, lets W C / (W + X) of it through. Alone, half of
 * a window is as fast as all of it, and half as much again no faster: then it is to be small. Beside others half of it
 * is slower, up to twice, and loses as large a part; more of it is faster. So where half of it is slower by more than a
 * quarter it was not too large, where more of it is faster by a fifth it was too small, and others are to blame for
 * what is lost. What is lost does not count: beyond a port chunks may come as fast as anybody likes.
 *
 * What others have lost at the same moment makes them slower for a while: so half of it has to do for two periods, and
 * more of it that was lossy has a second one. More of it that nothing is lost of stays on trial: it may be that other
 * ranks' windows have to be raised as well before anything is faster.
 */
static void judge(struct tt_link *link, const struct tt_link_period *period, uint32_t now_kbit)
{
    struct tt_link_trial *trial = &link->trial;
    uint64_t now = now_kbit, then = trial->kbit;
    bool was_raised = is_raised(link), is_undone = was_raised ? 5 * now < 6 * then : 4 * now < 3 * then;
    bool is_slow = takes_longer(period, link->window_bytes, TT_LINK_SLOW_NS);

    trial->periods--;
    if (trial->periods > 0 && (was_raised ? is_undone && !is_slow : !is_undone)) { /* it may turn out otherwise yet */
        trial->periods = trial->is_lossy ? 1 : trial->periods;
        trial->is_lossy = false;
        return;
    }
    trial->periods = 0;
    if (is_undone) {
        undo(link);
    } else {
        trial->kbit = now_kbit;
    }
    link->rested = 0;
    if (was_raised != is_undone) {
        link->excused = EXCUSED;
        link->rest = was_raised ? 0 : LEAST_REST; /* what it brings now is known, or not yet */
    } else {
        link->rest = tt_least(2 * tt_most(link->rest, LEAST_REST), MOST_REST);
    }
}

/* Half of a window more, if windows take so long that they may wait behind others' traffic, but reports come before
 * roots go on without them; and if that much is allowed: by less it would not show. */
static void raise_window(struct tt_link *link, const struct tt_link_period *period)
{
    uint64_t window = link->window_bytes, most = tt_least(TT_LINK_SHARED_BYTES, link->queue_bytes);
    uint64_t raised = tt_least(window * 3 / 2, most);
    uint64_t long_ns = window < TT_LINK_WINDOW_BYTES ? TT_LINK_LONG_NS / 2 : TT_LINK_LONG_NS;

    if (3 * raised >= 4 * window && takes_longer(period, window, long_ns) &&
        !takes_longer(period, window, TT_LINK_SLOW_NS)) {
        begin_trial(link, (uint32_t)raised, MOST_RAISED);
        link->most_bytes = (uint32_t)tt_most(link->most_bytes, raised);
    }
}

/* A period has passed without a trial. */
static void rest(struct tt_link *link, uint32_t now_kbit)
{
    uint64_t now = now_kbit, then = link->trial.kbit;

    link->rested++;
    if (4 * now < 3 * then) { /* others have come */
        link->excused = 0;
        link->rested = link->rest > LEAST_REST ? 0 : link->rested;
        link->rest = tt_least(link->rest, LEAST_REST);
    } else if (3 * now > 4 * then) { /* or have left */
        link->excused = 0;
    }
}

/* What has come may be of collectives that are all less than a window. */
static void go_on_trying(struct tt_link *link)
{
    struct tt_link_period period = link->period;
    uint32_t now_kbit;

    if (period.come_bytes < PERIOD_WINDOWS * (uint64_t)link->window_bytes || period.ns < PERIOD_NS) {
        return;
    }
    now_kbit = kbit_of(period.bytes, period.ns);
    link->last = period;
    link->period = (struct tt_link_period){0};
    link->excused -= link->excused > 0;
    if (link->trial.periods > 0) {
        judge(link, &period, now_kbit);
    } else {
        rest(link, now_kbit);
    }
    if (link->trial.periods == 0 && link->rested >= link->rest) {
        raise_window(link, &period);
    }
}

/* --- Windows' time ------------------------------------------------------------------------------------------------ */

/* A link may give some of a window away at once, that had saved up for it: so the rate follows slowly. */
static uint32_t follow(uint32_t kbit, uint32_t now_kbit)
{
    return kbit == 0 ? now_kbit : (uint32_t)((3 * (uint64_t)kbit + now_kbit) / 4);
}

bool tt_link_time_window(struct tt_link *link, uint64_t *taken_ns, bool *was_idle)
{
    uint64_t bytes = link->come_bytes - link->timed_bytes, since_ns = link->come_ns - link->timed_ns;

    go_on_trying(link);
    if (link->timed_ns == 0 || since_ns == 0 || bytes < link->window_bytes) {
        return false;
    }
    link->come_kbit = follow(link->come_kbit, kbit_of(bytes, since_ns));
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
    uint32_t half = tt_most(link->window_bytes / 2, link->least_bytes);

    if (link->excused > 0 || is_raised(link) || link->come_bytes < link->trial.forgiven_bytes) {
        link->trial.is_lossy = true;
        link->calm = 0;
        return;
    }
    if (half < link->window_bytes) {
        begin_trial(link, half, MOST_HALVED);
    }
    link->window_bytes = link->most_bytes = half;
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
    assert(link->trial.periods <= MOST_RAISED && link->excused <= EXCUSED);
    assert(link->rest <= MOST_REST);
    assert(link->patience >= LEAST_PATIENCE && link->patience <= MOST_PATIENCE);
    assert(link->rate_kbit >= TT_PACER_LEAST_KBIT);
    assert(link->turns <= TT_LINK_MOST_TURNS);
    assert(link->dry <= link->users);
    assert(link->timed_bytes <= link->come_bytes && link->timed_ns <= link->come_ns);
    check_waiting(link);
}
