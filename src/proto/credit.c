/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Flow control by credit. Normal path: update() follows each chain's highest marked chunk, takes the minimum over
 * chains, subgroups and children, and reports a growth to the parent; vertex 0 turns it into grants, which travel down
 * the tree to the roots whose blocks begin or continue within the newly allowed range. Lost reports cost time only.
 */
#include "proto/credit.h"

#include <string.h>

#include "plan/chain.h"
#include "plan/dissemination.h"
#include "plan/tree.h"

enum { REPORTS = 4 /* while a root sends what it may be ahead */ };

void tt_credit_init(struct tt_credit *credit, const struct tt_credit_config *config)
{
    uint32_t longest = tt_chain_at(config->root_count, config->chains, 0).length;
    uint32_t quantum = config->depth_chunks / (TT_CREDIT_AHEAD * config->chains);

    memset(credit, 0, sizeof *credit);
    credit->config = *config;
    credit->quantum = quantum > TT_CREDIT_MIN_QUANTUM ? quantum : TT_CREDIT_MIN_QUANTUM;
    credit->enabled = config->size > 1 && (uint64_t)longest * config->streams[0].stripe.chunks >
                                              (uint64_t)TT_CREDIT_AHEAD * credit->quantum;
    tt_credit_reset(credit);
}

void tt_credit_reset(struct tt_credit *credit)
{
    const struct tt_credit_config *config = &credit->config;

    credit->own = credit->reported = credit->granted = 0;
    credit->ahead = credit->told = TT_CREDIT_AHEAD;
    memset(credit->children, 0, sizeof credit->children);
    for (uint32_t chain = 0; chain < config->chains; chain++) {
        for (uint32_t s = 0; s < config->subgroups; s++) {
            config->positions[chain * config->subgroups + s] =
                tt_chain_at(config->root_count, config->chains, chain).first * config->streams[s].stripe.chunks;
        }
    }
}

void tt_credit_open(struct tt_credit *credit, uint32_t ahead_chunks, bool is_agreed)
{
    uint32_t quanta = ahead_chunks / (credit->quantum * credit->config.chains);

    credit->ahead = quanta > TT_CREDIT_AHEAD ? quanta : TT_CREDIT_AHEAD;
    credit->told = is_agreed ? credit->ahead : TT_CREDIT_AHEAD;
}

bool tt_credit_child(struct tt_credit *credit, uint32_t source, uint32_t quanta)
{
    const struct tt_credit_config *config = &credit->config;
    uint32_t vertex = tt_rank_subtract(source, config->base, config->size);
    uint32_t index;

    if (!credit->enabled || vertex == 0 || tt_tree_parent(vertex) != config->vertex) {
        return false;
    }
    index = tt_tree_child_index(vertex);
    if (quanta > credit->children[index]) {
        credit->children[index] = quanta;
    }
    return true;
}

/* Moves a position over what has been seen since, and over the own block, which nobody receives. */
static uint32_t advance(const struct tt_credit *credit, const struct tt_stream *stream, uint32_t position, uint32_t end)
{
    uint32_t chunks = stream->stripe.chunks, ahead = (credit->ahead + 1) * credit->quantum;
    uint32_t own_first, own_end, before, after, limit;

    if (credit->config.own_root_index == TT_RANK_NONE) {
        return tt_stream_highest(stream, position, end - position < ahead ? end : position + ahead);
    }
    own_first = credit->config.own_root_index * chunks;
    own_end = own_first + chunks;
    if (position >= own_end || end <= own_first) {
        return tt_stream_highest(stream, position, end - position < ahead ? end : position + ahead);
    }
    if (position >= own_first) {
        position = own_end;
    }
    limit = end - position < ahead ? end : position + ahead;
    if (position >= own_end) {
        return tt_stream_highest(stream, position, limit);
    }
    before = tt_stream_highest(stream, position, limit < own_first ? limit : own_first);
    limit = end - own_end < ahead ? end : own_end + ahead;
    after = tt_stream_highest(stream, own_end, limit);
    return after > own_end || before == own_first ? after : before;
}

/* The least that any chain and subgroup has been consumed here, in quanta of subgroup 0. The others may have a chunk a
 * block less and are scaled: their chunks come to fewer, though nothing of them is behind. */
static uint32_t consumed(struct tt_credit *credit)
{
    const struct tt_credit_config *config = &credit->config;
    uint32_t least = TT_CREDIT_ALL;

    for (uint32_t i = 0; i < config->chains; i++) {
        struct tt_chain chain = tt_chain_at(config->root_count, config->chains, i);

        for (uint32_t s = 0; s < config->subgroups; s++) {
            const struct tt_stream *stream = &config->streams[s];
            uint32_t first = chain.first * stream->stripe.chunks;
            uint32_t end = first + chain.length * stream->stripe.chunks;
            uint32_t *position = &config->positions[i * config->subgroups + s];

            if (*position < end) {
                *position = advance(credit, stream, *position, end);
            }
            if (*position < end) {
                uint64_t scaled = (uint64_t)(*position - first) * config->streams[0].stripe.chunks;
                uint32_t quanta = (uint32_t)(scaled / stream->stripe.chunks / credit->quantum);

                least = quanta < least ? quanta : least;
            }
        }
    }
    return least;
}

static void send_grant(struct tt_credit *credit, uint32_t target, uint32_t quanta, const struct tt_frame *template,
                       struct tt_collective *collective, struct tt_actions *actions)
{
    const struct tt_credit_config *config = &credit->config;
    struct tt_action *action = tt_actions_add(actions, TT_ACTION_SEND, collective);

    action->to = tt_rank_add(tt_tree_toward(config->vertex, target), config->base, config->size);
    action->body.frame = *template;
    action->body.frame.type = TT_FRAME_GRANT;
    action->body.frame.body.grant.quanta = quanta;
    action->body.frame.body.grant.target = target;
}

/* At vertex 0: tells every root that sends within the range between the old and the new allowance. Where vertex 0 is
 * the only root there is nobody to tell. With several roots the base is rank 0 and root indices are vertices. */
static void grant_roots(struct tt_credit *credit, uint32_t before, uint32_t now, const struct tt_frame *template,
                        struct tt_collective *collective, struct tt_actions *actions)
{
    const struct tt_credit_config *config = &credit->config;
    /* The subgroups differ by one chunk a block at most; taking the extremes reaches every root in question. */
    uint64_t most = config->streams[0].stripe.chunks, fewest = config->streams[config->subgroups - 1].stripe.chunks;
    uint64_t from = (uint64_t)(before + TT_CREDIT_AHEAD) * credit->quantum;
    uint64_t to = now == TT_CREDIT_ALL ? UINT64_MAX : ((uint64_t)now + credit->ahead) * credit->quantum;

    for (uint32_t i = 0; i < config->chains && config->root_count > 1; i++) {
        struct tt_chain chain = tt_chain_at(config->root_count, config->chains, i);

        for (uint64_t root = from / most; root < chain.length && (fewest == 0 || root <= to / fewest); root++) {
            uint32_t target = chain.first + (uint32_t)root;

            if (target != config->own_root_index) {
                send_grant(credit, target, now, template, collective, actions);
            }
        }
    }
}

/* Whether a root that may be half as far ahead as this rank has heard would wait for credit at all. */
static bool is_needed(const struct tt_credit *credit)
{
    const struct tt_credit_config *config = &credit->config;
    uint64_t longest = tt_chain_at(config->root_count, config->chains, 0).length;

    return longest * config->streams[0].stripe.chunks > (uint64_t)credit->told / 2 * credit->quantum;
}

/* Less than that is not worth a frame. */
static uint32_t step_of(const struct tt_credit *credit)
{
    return credit->told > REPORTS ? credit->told / REPORTS : 1;
}

void tt_credit_update(struct tt_credit *credit, bool finished, const struct tt_frame *template,
                      struct tt_collective *collective, struct tt_actions *actions)
{
    const struct tt_credit_config *config = &credit->config;
    uint32_t least;

    if (!credit->enabled || credit->reported == TT_CREDIT_ALL || !is_needed(credit)) {
        return;
    }
    if (credit->own != TT_CREDIT_ALL) {
        credit->own = finished ? TT_CREDIT_ALL : consumed(credit);
    }
    least = credit->own;
    for (uint32_t i = 0; tt_tree_child(config->vertex, config->size, i) != 0; i++) {
        if (credit->children[i] < least) {
            least = credit->children[i];
        }
    }
    if (least <= credit->reported || least - credit->reported < step_of(credit)) {
        return;
    }
    if (config->vertex == 0) {
        grant_roots(credit, credit->reported, least, template, collective, actions);
        credit->granted = least > credit->granted ? least : credit->granted; /* never below what a stall allowed */
    } else {
        struct tt_action *action = tt_actions_add(actions, TT_ACTION_SEND, collective);

        action->to = tt_rank_add(tt_tree_parent(config->vertex), config->base, config->size);
        action->body.frame = *template;
        action->body.frame.type = TT_FRAME_CREDIT;
        action->body.frame.body.credit.quanta = least;
    }
    credit->reported = least;
}

void tt_credit_grant(struct tt_credit *credit, const struct tt_frame *frame, const struct tt_frame *template,
                     struct tt_collective *collective, struct tt_actions *actions)
{
    uint32_t target = frame->body.grant.target;

    if (target == credit->config.own_root_index) {
        if (frame->body.grant.quanta > credit->granted) {
            credit->granted = frame->body.grant.quanta;
        }
    } else if (target < credit->config.size && target > credit->config.vertex) {
        send_grant(credit, target, frame->body.grant.quanta, template, collective, actions);
    }
}

uint32_t tt_credit_limit(const struct tt_credit *credit, uint32_t subgroup)
{
    const struct tt_credit_config *config = &credit->config;
    uint32_t chunks = config->streams[subgroup].stripe.chunks;
    struct tt_chain chain;
    uint64_t allowed, before;

    if (!credit->enabled || credit->granted >= TT_CREDIT_ALL - credit->ahead) {
        return chunks;
    }
    chain = tt_chain_at(config->root_count, config->chains,
                        tt_chain_of(config->root_count, config->chains, config->own_root_index));
    before = (uint64_t)(config->own_root_index - chain.first) * chunks;
    allowed = (uint64_t)(credit->granted + credit->ahead) * credit->quantum * chunks / config->streams[0].stripe.chunks;
    if (allowed <= before) {
        return 0;
    }
    return allowed - before < chunks ? (uint32_t)(allowed - before) : chunks;
}
