/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control. Normal path: update() follows each lane's highest chunk, and says how far roots may go in steps of half
 * a window; the least of the subtree goes to the parent, and vertex 0 grants the least of all, which every
 * vertex passes on. All ranks round to the same steps, so that no level of the tree adds a delay of its own.
 *
 * A window that comes in a short time, though most roots had sent all they were allowed before they were allowed more,
 * was too small for the time that reports take; one of which more is lost than noise explains was more than a port
 * holds.
 *
 * Failures: lost reports cost time only, as a root that hears nothing goes on by itself.
 */
#include "proto/flow.h"

#include <assert.h>
#include <string.h>

#include "plan/chain.h"
#include "plan/dissemination.h"
#include "plan/tree.h"

enum {
    MOST_CHUNKS = 1 << 20, /* in a window that somebody says it has */
    LEAST_CHUNKS = 8,      /* in a window of one collective, whoever shares it */
    REACH_CHUNKS = 128,    /* a longer gap is looked for only if nothing else has come */
    USUAL_GAP = 8,         /* chunks */
    IDLE_PART = 16,        /* of a window's time */
    MEMORY = 16,           /* windows, for what was lost */
    LOSS_PPM = 15000,      /* less than this may be a bad cable: it is fetched in less time than waiting costs */
    LOSS_CHUNKS = 8,       /* and a few chunks say nothing */
    DEVIATIONS = 3         /* nor does what may be chance, where it happens thousands of times */
};

#define MOST_TURN_BYTES (UINT64_C(64) << 20) /* of a collective that others wait for */

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* --- Turns -------------------------------------------------------------------------------------------------------- */

/* How many chunks of a lane come within so many turns. */
static uint32_t lane_limit(const struct tt_flow *flow, uint32_t lane, uint32_t turns)
{
    return turns <= lane ? 0 : (turns - lane - 1) / flow->config.lanes + 1;
}

static uint32_t wire_bytes(const struct tt_flow *flow)
{
    return flow->config.chunk_bytes + TT_PACER_OVERHEAD_BYTES;
}

static bool is_on_this_host(const struct tt_flow *flow, uint32_t rank)
{
    const struct tt_flow_config *config = &flow->config;
    uint32_t own = tt_rank_add(config->vertex, config->base, config->size);

    return rank == own || (config->hosts != NULL && config->hosts[rank] == config->hosts[own]);
}

static bool is_local(const struct tt_flow *flow, uint32_t root_index)
{
    return is_on_this_host(flow, flow->config.root_count > 1 ? root_index : flow->config.base);
}

/* Whether a lane is of this host while others come over the link. */
static bool is_left_out(const struct tt_flow *flow, const struct tt_chain *roots)
{
    return roots->length == 1 && flow->has_remote && is_local(flow, roots->first);
}

void tt_flow_init(struct tt_flow *flow, const struct tt_flow_config *config)
{
    uint32_t longest = tt_chain_at(config->root_count, config->lanes, 0).length;
    bool spans_hosts = false;

    memset(flow, 0, sizeof *flow);
    flow->config = *config;
    flow->block_chunks = tt_streams_block_chunks(config->streams, config->subgroups);
    flow->turns = (uint64_t)longest * flow->block_chunks * config->lanes;
    for (uint32_t root = 0; root < config->root_count; root++) {
        flow->has_remote |= !is_local(flow, root);
    }
    for (uint32_t rank = 0; rank < config->size; rank++) {
        spans_hosts |= !is_on_this_host(flow, rank);
    }
    flow->watches = flow->has_remote || !spans_hosts;
    flow->enabled = config->link != NULL && config->size > 1 && flow->turns < TT_FLOW_ALL &&
                    flow->turns > config->link->least_bytes / wire_bytes(flow);
}

void tt_flow_reset(struct tt_flow *flow)
{
    const struct tt_flow_config *config = &flow->config;

    if (!flow->enabled) {
        return;
    }
    flow->agreed = flow->own = flow->reported = flow->granted = 0;
    memset(flow->children, 0, sizeof flow->children);
    flow->looked = flow->come = flow->seen = flow->lost = flow->timed = flow->rate_kbit = 0;
    flow->timed_ns = flow->begun_ns = flow->found_ns = 0;
    flow->come_ns = flow->idle_ns = 0;
    flow->was_dry = false;
    for (uint32_t lane = 0; lane < config->lanes; lane++) {
        uint32_t first = tt_chain_at(config->root_count, config->lanes, lane).first;

        for (uint32_t s = 0; s < config->subgroups; s++) {
            config->positions[lane * config->subgroups + s] = first * config->streams[s].stripe.chunks;
        }
    }
}

/* Of a window; two at least, so that something is always on its way. */
static uint32_t chunks_in(const struct tt_flow *flow, uint32_t window_bytes)
{
    return most(window_bytes / wire_bytes(flow), 2);
}

uint32_t tt_flow_window(const struct tt_flow *flow)
{
    const struct tt_link *link = flow->config.link;
    uint32_t all, share;

    if (link == NULL) {
        return TT_FLOW_ALL;
    }
    all = chunks_in(flow, link->window_bytes);
    share = all / most(link->users + !flow->counted, 1);
    return most(share, least(all, LEAST_CHUNKS));
}

/* In which a window of chunks passes the busiest port. */
static uint32_t turns_of_window(const struct tt_flow *flow, uint32_t chunks)
{
    return (uint32_t)((uint64_t)chunks * flow->config.lanes / most(flow->config.heard, 1));
}

static bool takes_turns(const struct tt_flow *flow)
{
    return flow->enabled && flow->turns * flow->config.chunk_bytes <= MOST_TURN_BYTES;
}

bool tt_flow_begin(struct tt_flow *flow)
{
    return !takes_turns(flow) || tt_link_take_turn(flow->config.link, &flow->turn);
}

void tt_flow_end(struct tt_flow *flow)
{
    tt_flow_stop(flow);
    if (takes_turns(flow)) {
        tt_link_end_turn(flow->config.link, &flow->turn);
    }
}

void tt_flow_start(struct tt_flow *flow, const struct tt_release *least_of_all)
{
    uint32_t window;

    if (!flow->enabled) {
        return;
    }
    window = chunks_in(flow, flow->config.link->least_bytes);
    if (!flow->counted) {
        flow->counted = true;
        flow->config.link->users++;
    }
    if (least_of_all != NULL) {
        flow->agreed = turns_of_window(flow, least(least_of_all->window_chunks, MOST_CHUNKS));
        flow->reported = most(flow->reported, flow->agreed);
        window = flow->agreed;
    }
    flow->own = most(flow->own, window);
    flow->granted = most(flow->granted, window);
}

void tt_flow_stop(struct tt_flow *flow)
{
    flow->own = TT_FLOW_ALL;
    if (flow->counted) {
        flow->counted = false;
        flow->config.link->users--;
    }
}

uint32_t tt_flow_step(const struct tt_flow *flow)
{
    uint32_t step = flow->agreed / TT_FLOW_REPORTS,
             most_step = turns_of_window(flow, tt_flow_window(flow)) / TT_FLOW_REPORTS;

    while (step > most_step) { /* the own window has become smaller: steps that others' are multiples of */
        step /= 2;
    }
    return most(step, 1);
}

/* --- Receiving ---------------------------------------------------------------------------------------------------- */

/* What a look at the lanes finds. */
struct view {
    uint64_t sum;    /* chunks that have come, in lanes that count and are not through */
    uint32_t lanes;  /* these */
    uint32_t dry;    /* of them: those of which all has come that was allowed */
    uint32_t come;   /* chunks of all lanes; a lost one has come when a later one has */
    uint32_t remote; /* of those, which came over the link */
};

/* Moves a position over what has been seen since, and over the own block, which nobody receives. */
static uint32_t advance(const struct tt_flow *flow, const struct tt_stream *stream, uint32_t position, uint32_t limit)
{
    uint32_t chunks = stream->stripe.chunks, own_first = flow->config.own_root_index * chunks;
    uint32_t own_end = own_first + chunks, before, after;

    if (flow->config.own_root_index == TT_RANK_NONE || position >= own_end || limit <= own_first) {
        return tt_stream_highest(stream, position, limit);
    }
    before = position >= own_first ? own_first : tt_stream_highest(stream, position, own_first);
    after = limit > own_end ? tt_stream_highest(stream, own_end, limit) : own_end;
    return after > own_end || before == own_first ? most(after, own_end) : before;
}

/* Of one lane, with no gap of more than `reach` chunks: how many have come, the own ones that it went past included. */
static uint32_t look_at_lane(const struct tt_flow *flow, uint32_t lane, const struct tt_chain *roots, uint32_t reach)
{
    const struct tt_flow_config *config = &flow->config;
    uint32_t come = 0;

    for (uint32_t s = 0; s < config->subgroups; s++) {
        const struct tt_stream *stream = &config->streams[s];
        uint32_t first = roots->first * stream->stripe.chunks, end = first + roots->length * stream->stripe.chunks;
        uint32_t *position = &config->positions[lane * config->subgroups + s];

        for (uint32_t before = end; *position < end && *position != before;) {
            before = *position;
            *position = advance(flow, stream, before, reach < end - before ? before + reach : end);
        }
        come += *position - first;
    }
    return come;
}

/* Own chunks among those of a lane that count as come. */
static uint32_t own_among(const struct tt_flow *flow, const struct tt_chain *roots, uint32_t come)
{
    uint32_t before = (flow->config.own_root_index - roots->first) * flow->block_chunks;

    if (flow->config.own_root_index == TT_RANK_NONE || flow->config.own_root_index < roots->first ||
        flow->config.own_root_index >= roots->first + roots->length || come <= before) {
        return 0;
    }
    return least(come - before, flow->block_chunks);
}

static struct view look(const struct tt_flow *flow, uint32_t reach)
{
    const struct tt_flow_config *config = &flow->config;
    struct view view = {0};

    for (uint32_t lane = 0; lane < config->lanes; lane++) {
        struct tt_chain roots = tt_chain_at(config->root_count, config->lanes, lane);
        uint32_t all = roots.length * flow->block_chunks, come, others;

        if (roots.length == 1 && roots.first == config->own_root_index) {
            continue;
        }
        come = look_at_lane(flow, lane, &roots, reach);
        others = come - own_among(flow, &roots, come);
        view.come += others;
        if (is_left_out(flow, &roots)) {
            continue;
        }
        view.remote += others;
        if (come < all) {
            view.lanes++;
            view.sum += come;
            view.dry += come >= least(lane_limit(flow, lane, flow->own), all);
        }
    }
    return view;
}

/* How far roots may go: each of the lanes that are not through as far as the others, and all together a window further
 * than they have come. */
static uint32_t turns_of(const struct tt_flow *flow, const struct view *view)
{
    uint64_t turns;

    if (view->lanes == 0) {
        return TT_FLOW_ALL;
    }
    turns = (view->sum + tt_flow_window(flow)) * flow->config.lanes / view->lanes;
    return turns < flow->turns ? (uint32_t)turns : TT_FLOW_ALL;
}

/* Rounded down. */
static uint64_t root_of(uint64_t value)
{
    uint64_t root = 0;

    while ((root + 1) * (root + 1) <= value) {
        root++;
    }
    return root;
}

static uint32_t lost_of(const struct tt_flow *flow, const struct view *view)
{
    return view->come > flow->looked ? view->come - flow->looked : 0;
}

/* What was lost so far is known. */
static void remember_loss(struct tt_flow *flow, const struct view *view)
{
    flow->seen = view->come;
    flow->lost = lost_of(flow, view);
}

/* Whether more was lost since than noise explains. */
static bool is_lossy(const struct tt_flow *flow, const struct view *view)
{
    uint32_t lost = lost_of(flow, view);
    uint64_t tolerated = (uint64_t)(view->come - flow->seen) * LOSS_PPM / 1000000;

    tolerated += LOSS_CHUNKS + DEVIATIONS * root_of(tolerated);
    return lost > flow->lost && lost - flow->lost > tolerated;
}

/* Whether a window has come since this last said so. Then `rate_kbit` is what it came at, or nearer to that: a link may
 * give some of it away at once, that had saved up for it. */
static bool time_window(struct tt_flow *flow, const struct view *view, uint64_t now_ns, uint64_t *taken_ns)
{
    uint64_t bytes = (uint64_t)(view->remote - flow->timed) * wire_bytes(flow), kbit;

    *taken_ns = now_ns - flow->timed_ns;
    if (flow->timed_ns == 0) {
        flow->begun_ns = flow->timed_ns = now_ns;
        flow->timed = view->remote;
        return false;
    }
    if (*taken_ns == 0 || bytes * flow->config.link->users < flow->config.link->window_bytes) {
        return false;
    }
    kbit = bytes * 8000000 / *taken_ns;
    kbit = flow->rate_kbit == 0 ? kbit : (3 * (uint64_t)flow->rate_kbit + kbit) / 4;
    flow->rate_kbit = kbit < UINT32_MAX ? (uint32_t)kbit : UINT32_MAX;
    flow->found_ns = flow->found_ns == 0 ? now_ns - flow->begun_ns : flow->found_ns;
    flow->timed = view->remote;
    flow->timed_ns = now_ns;
    return true;
}

static void adapt(struct tt_flow *flow, const struct view *view, uint64_t now_ns)
{
    struct tt_link *link = flow->config.link;
    uint64_t taken_ns;

    if (!flow->watches) {
        return;
    }
    flow->was_dry |= 2 * view->dry > view->lanes;
    if (is_lossy(flow, view)) {
        tt_link_shrink(link);
        remember_loss(flow, view);
    } else if (time_window(flow, view, now_ns, &taken_ns)) {
        tt_link_calm(link);
        if (link->calm % MEMORY == 0) {
            remember_loss(flow, view);
        }
        if ((flow->was_dry || flow->idle_ns > taken_ns / IDLE_PART) && taken_ns < TT_LINK_SHORT_NS) {
            tt_link_grow(link);
        }
        flow->was_dry = false;
        flow->idle_ns = 0;
    }
}

/* Chunks have come after a time in which more might have. */
static void note_gap(struct tt_flow *flow, uint32_t chunks, uint64_t now_ns)
{
    uint64_t gap_ns = now_ns - flow->come_ns, usual_ns;

    if (flow->rate_kbit != 0 && flow->come_ns != 0) {
        usual_ns = (chunks + USUAL_GAP) * (uint64_t)wire_bytes(flow) * 8000000 / flow->rate_kbit;
        flow->idle_ns += gap_ns > usual_ns ? gap_ns : 0;
    }
    flow->come_ns = now_ns;
}

/* What this rank allows, if chunks have come. */
static void allow(struct tt_flow *flow, uint32_t step, uint64_t now_ns)
{
    uint32_t here = tt_streams_received(flow->config.streams, flow->config.subgroups), turns;
    struct view view;

    if (flow->own == TT_FLOW_ALL || here == flow->looked) {
        return;
    }
    note_gap(flow, here - flow->looked, now_ns);
    flow->looked = here;
    view = look(flow, REACH_CHUNKS);
    if (view.come == flow->come) {
        view = look(flow, UINT32_MAX);
    }
    flow->come = view.come;
    turns = turns_of(flow, &view);
    if (turns == TT_FLOW_ALL || turns / step > flow->own / step) {
        adapt(flow, &view, now_ns);
        flow->own = most(flow->own, turns_of(flow, &view));
    }
}

/* --- Reports ------------------------------------------------------------------------------------------------------ */

bool tt_flow_credit(struct tt_flow *flow, const struct tt_frame *frame)
{
    const struct tt_flow_config *config = &flow->config;
    uint32_t vertex, index;

    if (!flow->enabled) {
        return false;
    }
    vertex = tt_rank_subtract(frame->source, config->base, config->size);
    if (vertex == 0 || tt_tree_parent(vertex) != config->vertex) {
        return false;
    }
    index = tt_tree_child_index(vertex);
    flow->children[index] = most(flow->children[index], frame->body.credit.turns);
    return true;
}

static void tell(const struct tt_flow *flow, uint32_t vertex, enum tt_frame_type type, uint32_t turns,
                 const struct tt_frame *template, struct tt_collective *collective, struct tt_actions *actions)
{
    struct tt_action *action = tt_actions_add(actions, TT_ACTION_SEND, collective);

    action->to = tt_rank_add(vertex, flow->config.base, flow->config.size);
    action->body.frame = *template;
    action->body.frame.type = type;
    action->body.frame.body.credit.turns = turns;
}

/* Down the tree, where there are other roots to tell. */
static void grant(struct tt_flow *flow, uint32_t turns, const struct tt_frame *template,
                  struct tt_collective *collective, struct tt_actions *actions)
{
    const struct tt_flow_config *config = &flow->config;
    uint32_t child;

    flow->granted = most(flow->granted, turns);
    for (uint32_t i = 0; config->root_count > 1 && (child = tt_tree_child(config->vertex, config->size, i)) != 0; i++) {
        tell(flow, child, TT_FRAME_GRANT, turns, template, collective, actions);
    }
}

bool tt_flow_grant(struct tt_flow *flow, const struct tt_frame *frame, const struct tt_frame *template,
                   struct tt_collective *collective, struct tt_actions *actions)
{
    const struct tt_flow_config *config = &flow->config;

    if (!flow->enabled || config->root_count == 1 || config->vertex == 0 ||
        frame->source != tt_rank_add(tt_tree_parent(config->vertex), config->base, config->size)) {
        return false;
    }
    grant(flow, frame->body.credit.turns, template, collective, actions);
    return true;
}

void tt_flow_update(struct tt_flow *flow, uint64_t now_ns, const struct tt_frame *template,
                    struct tt_collective *collective, struct tt_actions *actions)
{
    const struct tt_flow_config *config = &flow->config;
    uint32_t step, all;

    if (!flow->enabled || flow->reported == TT_FLOW_ALL) {
        return;
    }
    step = tt_flow_step(flow);
    allow(flow, step, now_ns);
    all = flow->own == TT_FLOW_ALL ? TT_FLOW_ALL : flow->own / step * step;
    for (uint32_t i = 0; tt_tree_child(config->vertex, config->size, i) != 0; i++) {
        all = least(all, flow->children[i]);
    }
    if (all <= flow->reported) {
        return;
    }
    flow->reported = all;
    if (config->vertex == 0) {
        grant(flow, all, template, collective, actions);
    } else {
        tell(flow, tt_tree_parent(config->vertex), TT_FRAME_CREDIT, all, template, collective, actions);
    }
}

/* --- Sending ------------------------------------------------------------------------------------------------------ */

void tt_flow_stalled(struct tt_flow *flow)
{
    uint32_t window = tt_flow_window(flow);

    flow->granted = flow->granted < TT_FLOW_ALL - window ? flow->granted + window : TT_FLOW_ALL;
}

uint32_t tt_flow_limit(const struct tt_flow *flow)
{
    const struct tt_flow_config *config = &flow->config;
    uint32_t lane, before, allowed;

    if (!flow->enabled || flow->granted == TT_FLOW_ALL) {
        return flow->block_chunks;
    }
    lane = tt_chain_of(config->root_count, config->lanes, config->own_root_index);
    before = (config->own_root_index - tt_chain_at(config->root_count, config->lanes, lane).first) * flow->block_chunks;
    allowed = lane_limit(flow, lane, flow->granted);
    return allowed <= before ? 0 : least(allowed - before, flow->block_chunks);
}

void tt_flow_check(const struct tt_flow *flow)
{
    if (!flow->enabled) {
        assert(!flow->counted && !flow->turn.is_on && !flow->turn.waits);
        return;
    }
    tt_link_check(flow->config.link);
    assert(!flow->counted || flow->config.link->users > 0);
    assert(flow->reported <= flow->own); /* own turns are among those that the least is taken of */
    assert(flow->config.own_root_index == TT_RANK_NONE || tt_flow_limit(flow) <= flow->block_chunks);
}
