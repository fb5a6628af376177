/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The surroundings of the fuzzed member machine. Every action is checked: to whom it goes, that it is this run's turn
 * for it, that what it names lies inside of the buffer; and what it asks for is owed, until the script gives it.
 */
#include "member_surroundings.h"

#include <string.h>

#include "check.h"
#include "plan/layout.h"

/* --- Setting up --------------------------------------------------------------------------------------------------- */

/* What there can be of each method: a tree is a broadcast's, a few bytes are gathered or sent eagerly. */
static void draw_terms(const struct world *world, struct script *script, struct tt_collective_terms *terms)
{
    static const enum tt_method methods[] = {TT_METHOD_RING, TT_METHOD_MULTICAST, TT_METHOD_EAGER, TT_METHOD_GATHER,
                                             TT_METHOD_TREE};
    bool allgather = script_below(script, 2) == 0;
    enum tt_method method = methods[script_below(script, 8) % 5];

    *terms = (struct tt_collective_terms){.method = (uint8_t)method,
                                          .subgroups = 1,
                                          .chunk_bytes = 16,
                                          .chains = 1,
                                          .block_bytes = script_below(script, 1600)};
    if (method == TT_METHOD_EAGER) {
        terms->block_bytes += terms->block_bytes == 0;
    }
    if (method == TT_METHOD_GATHER) {
        terms->block_bytes = script_below(script, 4) == 0 ? 0 : terms->block_bytes;
        allgather |= terms->block_bytes > 0;
    }
    allgather &= method != TT_METHOD_TREE;
    terms->kind = allgather ? TT_ALLGATHER : TT_BROADCAST;
    terms->root = allgather ? 0 : script_below(script, world->size);
    if (method == TT_METHOD_MULTICAST) {
        terms->subgroups = (uint16_t)(1 + script_below(script, SUBGROUPS));
        terms->chains = allgather ? 1 + script_below(script, world->size < CHAINS ? world->size : CHAINS) : 1;
    }
    FUZZ_CHECK(!tt_method_keeps_copies(method) ||
               tt_terms_root_bytes(terms, world->size) * tt_terms_roots(terms, world->size) <= TT_EAGER_MAX_BYTES);
}

static void make_buffer(struct world *world, struct request *request, uint64_t bytes)
{
    uint8_t *memory = world->memory[request - world->requests];

    FUZZ_CHECK(bytes <= BUFFER);
    request->buffer = memory + MARGIN;
    memset(memory, 0xC3, MARGIN);
    memset(request->buffer, 0, bytes);
    memset(request->buffer + bytes, 0xC3, MARGIN);
    request->streams[0].buffer = request->buffer;
}

static void make_request(struct world *world, struct request *request, struct script *script)
{
    struct tt_collective_config config = {.rank = world->rank,
                                          .size = world->size,
                                          .group = GROUP,
                                          .streams = request->streams,
                                          .positions = request->positions,
                                          .done = request->done,
                                          .wire_ns = 10000,
                                          .alpha_ns = 1000,
                                          .tail_ns = 100,
                                          .stall_ns = 500,
                                          .timeout_ns = script_below(script, 8) == 0 ? UINT64_MAX : 1000000,
                                          .rollcall_ns = 100000};
    struct tt_layout layout;

    config.link = script_below(script, 2) == 0 ? NULL : &world->link;
    draw_terms(world, script, &config.terms);
    FUZZ_CHECK(tt_layout_init(&layout, tt_terms_root_bytes(&config.terms, world->size), 16,
                              tt_terms_roots(&config.terms, world->size), config.terms.subgroups, PSNS));
    for (uint32_t s = 0; s < config.terms.subgroups; s++) {
        tt_layout_stripe(&layout, s, &request->streams[s].stripe);
        request->streams[s].first_source = config.terms.root;
        request->streams[s].bitmap = request->bitmaps[s];
    }
    if (config.terms.method == TT_METHOD_GATHER || config.terms.method == TT_METHOD_TREE) {
        make_buffer(world, request, tt_terms_root_bytes(&config.terms, world->size));
    }
    tt_collective_init(&request->collective, &config);
    request->collective.owner = request;
    request->made = true;
}

void world_init(struct world *world, struct script *script)
{
    struct tt_member_config config = {.group = GROUP,
                                      .slots = world->slots,
                                      .copies = world->copies,
                                      .present = world->present,
                                      .heard = world->heard,
                                      .heard_count = 1,
                                      .probe_timeout_ns = 1000000};

    memset(world, 0, offsetof(struct world, list));
    world->size = 1 + script_below(script, RANKS);
    world->rank = script_below(script, world->size);
    world->in_flight = 1 + script_below(script, 4);
    world->now_ns = 1000;
    config.rank = world->rank;
    config.size = world->size;
    config.in_flight = world->in_flight;
    config.multicast = script_below(script, 4) != 0;
    config.pool = script_below(script, 4) != 0 ? &world->pool : NULL;
    tt_early_pool_init(&world->pool, world->slabs, SLAB);
    tt_link_init(&world->link, TT_PACER_UNKNOWN);
    world->link.window_bytes = world->link.least_bytes = 40 * (16 + TT_PACER_OVERHEAD_BYTES);
    tt_link_limit(&world->link, 320 * (16 + TT_PACER_OVERHEAD_BYTES));
    world->actions.list = world->list;
    world->actions.capacity = tt_actions_capacity(world->size);
    FUZZ_CHECK(world->actions.capacity <= MOST_ACTIONS);
    tt_member_init(&world->member, &config);
    for (uint32_t i = 0; i < REQUESTS; i++) {
        make_request(world, &world->requests[i], script);
    }
}

/* --- Actions ------------------------------------------------------------------------------------------------------ */

static void owe(struct world *world, enum tt_member_event_type type, struct request *request, uint32_t run)
{
    FUZZ_CHECK(world->answer_count < ANSWERS);
    world->answers[world->answer_count++] = (struct answer){type, request, run};
}

static bool is_neighbour(const struct world *world, uint32_t rank)
{
    for (uint32_t i = 0; i < world->member.neighbour_count; i++) {
        if (world->member.neighbours[i] == rank) {
            return true;
        }
    }
    return false;
}

/* What is answered for a collective that has ended, or that serves from a copy. */
static bool is_from_copy(const struct world *world, const struct tt_action *action)
{
    const struct tt_frame *frame = &action->body.frame;

    if (frame->type == TT_FRAME_AVAILABLE) {
        FUZZ_CHECK(frame->body.available.address < TT_EAGER_RING_BYTES);
    }
    return (frame->type == TT_FRAME_AVAILABLE || frame->type == TT_FRAME_DONE) &&
           frame->sequence < world->member.next_sequence && action->to == (world->rank + 1) % world->size;
}

static uint64_t buffer_bytes(const struct world *world, const struct request *request)
{
    const struct tt_collective_terms *terms = &request->collective.config.terms;

    return tt_terms_bytes(terms, world->size);
}

/* The bytes that a frame carries lie in the buffer, where it says. */
static void check_bytes(const struct world *world, const struct request *request, const struct tt_frame *frame)
{
    uint64_t bytes = request != NULL ? buffer_bytes(world, request) : 0;

    if (frame->type == TT_FRAME_DATA) {
        FUZZ_CHECK((uint64_t)frame->body.data.offset_bytes + frame->body.data.length_bytes <= bytes);
        FUZZ_CHECK(frame->body.data.bytes == request->buffer + frame->body.data.offset_bytes);
    }
    if (frame->type == TT_FRAME_GATHER) {
        uint32_t offset = frame->body.gather.offset_bytes, length = frame->body.gather.length_bytes;

        FUZZ_CHECK(request->collective.config.terms.method == TT_METHOD_GATHER || length == 0);
        FUZZ_CHECK(length == 0 || (uint64_t)offset + length <= bytes);
        FUZZ_CHECK(length == 0 || frame->body.gather.bytes == request->buffer + offset);
        FUZZ_CHECK(frame->body.gather.least.finished <= world->member.oldest);
    }
}

static void check_send(struct world *world, const struct tt_action *action, struct request *request)
{
    struct tt_frame frame = action->body.frame, again;
    uint8_t bytes[TT_FRAME_MAX_BYTES];
    size_t length;

    FUZZ_CHECK(action->to < world->size && action->to != world->rank && is_neighbour(world, action->to));
    FUZZ_CHECK(frame.source == world->rank && frame.group == GROUP);
    FUZZ_CHECK(request == NULL || (request->posted && frame.sequence == request->collective.sequence));
    FUZZ_CHECK(request != NULL || frame.type == TT_FRAME_PROBE || frame.type == TT_FRAME_FAIL ||
               frame.type == TT_FRAME_ROLLCALL || frame.type == TT_FRAME_BYE || frame.type == TT_FRAME_ACK ||
               is_from_copy(world, action));
    if (frame.type == TT_FRAME_AVAILABLE) {
        frame.body.available.key_bytes = 0;
        frame.body.available.address = 0;
    }
    check_bytes(world, request, &frame);
    length = tt_frame_encode(&frame, bytes, sizeof bytes);
    FUZZ_CHECK(length > 0 && tt_frame_decode(bytes, length, &again));
    if (request != NULL && frame.type == TT_FRAME_FETCH) {
        request->asked_valid = true;
        request->asked = frame;
    }
}

static void check_get(struct world *world, const struct tt_action *action, struct request *request)
{
    uint64_t bytes = buffer_bytes(world, request);
    uint32_t run = action->body.get.run;

    FUZZ_CHECK(action->to == (world->rank + world->size - 1) % world->size && world->size > 1);
    FUZZ_CHECK(action->body.get.length_bytes > 0 && action->body.get.length_bytes <= bytes);
    FUZZ_CHECK(action->body.get.offset_bytes <= bytes - action->body.get.length_bytes);
    FUZZ_CHECK(!request->published || request->frozen); /* nobody else may write any more */
    FUZZ_CHECK(run < TT_FETCH_RUNS && !(request->gets >> run & 1));
    request->gets |= UINT32_C(1) << run;
    owe(world, TT_MEMBER_GOT, request, run);
}

static void check_transmit(struct world *world, struct request *request)
{
    const struct tt_collective *collective = &request->collective;
    uint32_t chunks = 0, limit = tt_collective_send_limit(collective);

    FUZZ_CHECK(collective->own_root_index != TT_RANK_NONE && !request->sent && !request->canceled);
    if (collective->config.terms.method == TT_METHOD_GATHER || tt_collective_releases(collective)) {
        FUZZ_CHECK(collective->everybody); /* has reported */
    }
    for (uint32_t s = 0; s < collective->config.terms.subgroups; s++) {
        chunks += request->streams[s].stripe.chunks;
    }
    FUZZ_CHECK(limit <= chunks && limit >= request->limit);
    request->limit = limit;
    request->transmitting = true;
    if (limit == chunks || !tt_method_is_multicast(collective->config.terms.method)) {
        request->sent = true;
        owe(world, TT_MEMBER_SENT, request, 0);
    }
}

static void check_keep(const struct world *world, const struct tt_action *action, struct request *request)
{
    uint64_t bytes = buffer_bytes(world, request);

    FUZZ_CHECK(tt_method_keeps_copies(request->collective.config.terms.method) && request->frozen);
    FUZZ_CHECK(action->body.keep.length_bytes == bytes);
    FUZZ_CHECK(action->body.keep.offset_bytes <= TT_EAGER_RING_BYTES - bytes);
    request->kept = true;
}

/* Nothing is written next to it. */
static void check_margins(const struct world *world, const struct request *request)
{
    for (uint32_t i = 0; i < MARGIN && request->buffer != NULL; i++) {
        FUZZ_CHECK(request->buffer[-1 - (int)i] == 0xC3);
        FUZZ_CHECK(request->buffer[buffer_bytes(world, request) + i] == 0xC3);
    }
}

static void check_finish(struct world *world, const struct tt_action *action, struct request *request)
{
    tutti_status status = action->body.finish.status;

    FUZZ_CHECK(request->posted);
    FUZZ_CHECK((!request->published || request->frozen) && request->gets == 0);
    for (uint32_t i = 0; i < world->answer_count; i++) {
        FUZZ_CHECK(world->answers[i].request != request); /* it could be posted again, or freed */
    }
    FUZZ_CHECK(status == world->member.status || status == TUTTI_OK);
    FUZZ_CHECK(status != TUTTI_OK || request->kept == tt_method_keeps_copies(request->collective.config.terms.method));
    check_margins(world, request);
    for (uint32_t s = 0; s < request->collective.config.terms.subgroups && status == TUTTI_OK; s++) {
        if (request->collective.config.terms.method == TT_METHOD_TREE) {
            continue; /* its bytes are counted instead */
        }
        for (uint32_t psn = 0; psn < request->streams[s].stripe.psn_count; psn++) {
            FUZZ_CHECK(tt_stream_word(&request->streams[s], psn / 64) >> (psn % 64) & 1);
        }
    }
    request->posted = false;
}

static void cancel(struct world *world, struct request *request)
{
    FUZZ_CHECK(request->transmitting && !request->canceled);
    request->canceled = true;
    if (!request->sent) {
        request->sent = true;
        owe(world, TT_MEMBER_SENT, request, 0);
    }
}

static void carry_out(struct world *world, const struct tt_action *action)
{
    struct request *request = action->collective == NULL ? NULL : action->collective->owner;

    if (action->type == TT_ACTION_SEND) {
        check_send(world, action, request);
        return;
    }
    if (action->type == TT_ACTION_PROBE || action->type == TT_ACTION_PROBED) {
        FUZZ_CHECK(world->probing && !world->probed);
        world->probed = action->type == TT_ACTION_PROBED;
        return;
    }
    FUZZ_CHECK(request != NULL && request->posted);
    switch (action->type) {
    case TT_ACTION_PUBLISH:
        FUZZ_CHECK(!request->published && tt_method_is_multicast(request->collective.config.terms.method));
        request->published = true;
        if (request->collective.config.terms.method == TT_METHOD_GATHER) {
            uint64_t block_bytes = request->collective.config.terms.block_bytes;

            memset(request->buffer + world->rank * block_bytes, (int)world->rank, block_bytes);
        }
        break;
    case TT_ACTION_TRANSMIT:
        check_transmit(world, request);
        break;
    case TT_ACTION_CANCEL:
        cancel(world, request);
        break;
    case TT_ACTION_FREEZE:
        FUZZ_CHECK(request->published && !request->frozen);
        request->frozen = true;
        owe(world, TT_MEMBER_FROZEN, request, 0);
        break;
    case TT_ACTION_GET:
        check_get(world, action, request);
        break;
    case TT_ACTION_ABANDON:
        FUZZ_CHECK(action->to < world->size && is_neighbour(world, action->to));
        break;
    case TT_ACTION_KEEP:
        check_keep(world, action, request);
        break;
    case TT_ACTION_FINISH:
        check_finish(world, action, request);
        break;
    default:
        FUZZ_CHECK(!"an action that does not exist");
    }
}

/* --- Events ------------------------------------------------------------------------------------------------------- */

void world_step(struct world *world, struct tt_member_event event)
{
    uint32_t steps = 0;

    event.now_ns = world->now_ns;
    do {
        tt_member_step(&world->member, &event, &world->actions);
        FUZZ_CHECK(world->actions.count <= world->actions.capacity);
        for (uint32_t i = 0; i < world->actions.count; i++) {
            carry_out(world, &world->list[i]);
        }
        event = (struct tt_member_event){.type = TT_MEMBER_TICK, .now_ns = world->now_ns};
        FUZZ_CHECK(++steps < 100);
    } while (world->actions.more);
    /* After a failure nothing may wait for an event that perhaps never comes. */
    for (uint32_t i = 0; i < REQUESTS && world->member.status != TUTTI_OK; i++) {
        FUZZ_CHECK(!world->requests[i].posted || world->requests[i].collective.state == TT_COLLECTIVE_FAILING);
    }
}

void world_post(struct world *world, struct script *script)
{
    struct request *request = &world->requests[script_below(script, REQUESTS)];

    if (request->posted) {
        return;
    }
    request->posted = true;
    request->published = request->frozen = request->transmitting = request->sent = request->canceled = false;
    request->kept = false;
    request->asked_valid = false;
    request->limit = 0;
    world_step(world, (struct tt_member_event){.type = TT_MEMBER_POST, .collective = &request->collective});
}

void world_chunks(struct world *world, struct script *script)
{
    struct request *request = &world->requests[script_below(script, REQUESTS)];
    struct tt_stream *stream = &request->streams[script_below(script, request->collective.config.terms.subgroups)];
    uint32_t first = script_below(script, PSNS), count = script_below(script, 256);
    uint32_t own = request->collective.own_root_index;

    if (count > 200) { /* all of them, often enough that collectives complete */
        first = 0;
        count = PSNS;
    }
    for (uint32_t psn = first; psn < first + count && psn < stream->stripe.psn_count; psn++) {
        if (request->posted && request->published && !request->frozen && psn / stream->stripe.chunks != own &&
            !(tt_stream_word(stream, psn / 64) >> (psn % 64) & 1)) {
            tt_stream_mark(stream, psn, 1);
            atomic_fetch_add(&stream->received, 1);
        }
    }
    world_step(world, (struct tt_member_event){.type = TT_MEMBER_TICK});
}

void world_release(struct world *world, struct script *script)
{
    struct request *request = &world->requests[script_below(script, REQUESTS)];
    struct tt_stream *stream = &request->streams[0];

    if (request->posted && request->published && !request->frozen &&
        request->collective.config.terms.method == TT_METHOD_MULTICAST &&
        world->rank != request->collective.config.terms.root && !atomic_load(&stream->released)) {
        stream->release.finished = world->member.oldest - script_below(script, 2);
        stream->release.rate_kbit = (uint32_t)script_take(script, 2);
        stream->release.window_chunks = stream->release.rate_kbit % 512;
        atomic_store(&stream->released, true);
    }
    world_step(world, (struct tt_member_event){.type = TT_MEMBER_TICK});
}

void world_answer(struct world *world, uint32_t pick)
{
    struct tt_member_event event = {0};
    struct answer answer;

    if (world->answer_count == 0) {
        return;
    }
    pick %= world->answer_count;
    answer = world->answers[pick];
    world->answers[pick] = world->answers[--world->answer_count];
    event.type = answer.type;
    event.collective = &answer.request->collective;
    event.run = answer.run;
    event.status = answer.type == TT_MEMBER_GOT && world->member.status != TUTTI_OK ? TUTTI_ERR_CANCELED : TUTTI_OK;
    if (answer.type == TT_MEMBER_GOT) {
        answer.request->gets &= ~(UINT32_C(1) << answer.run);
    }
    world_step(world, event);
}

void world_end(struct world *world)
{
    world_step(world, (struct tt_member_event){.type = TT_MEMBER_FAIL, .status = TUTTI_ERR_IO, .rank = TT_RANK_NONE});
    FUZZ_CHECK(world->member.status != TUTTI_OK);
    for (uint32_t patience = 0; patience < 2; patience++) {
        while (world->answer_count > 0) {
            world_answer(world, 0);
        }
        /* Whoever still reads from here is given up then. */
        world->now_ns += TT_COLLECTIVE_PATIENCE_NS;
        world_step(world, (struct tt_member_event){.type = TT_MEMBER_TICK});
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        FUZZ_CHECK(!world->requests[i].posted);
    }
    FUZZ_CHECK(world->answer_count == 0 && world->member.line == NULL);
}

void world_leave(struct world *world)
{
    world_step(world, (struct tt_member_event){.type = TT_MEMBER_LEAVE});
    for (uint32_t i = 0; i < world->actions.count; i++) {
        const struct tt_frame *frame = &world->list[i].body.frame;

        FUZZ_CHECK(frame->type == TT_FRAME_BYE && frame->sequence == world->member.next_sequence);
    }
    tt_member_fini(&world->member);
    FUZZ_CHECK(world->pool.taken == 0);
}
