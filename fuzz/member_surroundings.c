/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The surroundings of the fuzzed member machine, around the driver that checks its actions. A real engine cannot take
 * its place: it lets in no frame that a neighbour would not send, and answers as it pleases, not as the script does.
 */
#include "member_surroundings.h"

#include <string.h>

#include "check.h"
#include "plan/layout.h"

/* --- Setting up --------------------------------------------------------------------------------------------------- */

/* What there can be of each method: a tree is a broadcast's, a few bytes are gathered, perhaps to be combined, or sent
 * eagerly. */
static void draw_terms(const struct world *world, struct script *script, struct tt_collective_terms *terms)
{
    static const enum tt_method methods[] = {TT_METHOD_RING, TT_METHOD_MULTICAST, TT_METHOD_EAGER, TT_METHOD_GATHER,
                                             TT_METHOD_TREE};
    uint32_t kind = script_below(script, 256), bytes;
    bool allgather = kind % 2 == 0;
    enum tt_method method = methods[script_below(script, 8) % 5];

    bytes = script_below(script, 65536);
    *terms = (struct tt_collective_terms){
        .method = (uint8_t)method, .subgroups = 1, .chunk_bytes = 16, .chains = 1, .block_bytes = bytes % 1600};
    if (method == TT_METHOD_EAGER) {
        terms->block_bytes += terms->block_bytes == 0;
    }
    if (method == TT_METHOD_GATHER) {
        terms->block_bytes = script_below(script, 4) == 0 ? 0 : terms->block_bytes;
        allgather |= terms->block_bytes > 0;
        if (terms->block_bytes > 0 && world_draw_combined(world, kind / 2, bytes, terms)) {
            return;
        }
    }
    allgather &= method != TT_METHOD_TREE;
    terms->kind = allgather ? TT_ALLGATHER : TT_BROADCAST;
    terms->root = allgather ? 0 : script_below(script, world->size);
    if (method == TT_METHOD_MULTICAST) {
        terms->subgroups = (uint16_t)(1 + script_below(script, SUBGROUPS));
        terms->chains = allgather ? 1 + script_below(script, world->size < CHAINS ? world->size : CHAINS) : 1;
    }
    FUZZ_CHECK(!tt_method_row(method)->keeps_copies ||
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
                                          .ask_ns = TT_EAGER_ASK_NS,
                                          .timeout_ns = script_below(script, 8) == 0 ? UINT64_MAX : 1000000,
                                          .rollcall_ns = 100000};
    struct tt_layout layout;

    config.link = script_below(script, 2) == 0 ? NULL : &world->link;
    config.tree_is_eager = world->member.pieces.own != NULL;
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
    config.gathered = tt_terms_combine(&config.terms) ? world_gathered(world, request, &config) : NULL;
    tt_collective_init(&request->collective, &config);
    request->collective.owner = &request->run;
}

/* Nothing is written next to it. */
static void check_margins(const struct request *request, uint64_t bytes)
{
    for (uint32_t i = 0; i < MARGIN && request->buffer != NULL; i++) {
        FUZZ_CHECK(request->buffer[-1 - (int)i] == 0xC3);
        FUZZ_CHECK(request->buffer[bytes + i] == 0xC3);
    }
}

static void on_action(void *argument, const struct tt_action *action)
{
    const struct world *world = argument;
    struct request *request = action->collective == NULL ? NULL : action->collective->owner;
    const struct tt_collective_terms *terms = request == NULL ? NULL : &request->collective.config.terms;

    if (request == NULL) {
        return;
    }
    if (action->type == TT_ACTION_SEND && action->body.frame.type == TT_FRAME_FETCH) {
        request->asked_valid = true;
        request->asked = action->body.frame;
    }
    if (action->type == TT_ACTION_PUBLISH && terms->method == TT_METHOD_GATHER) {
        world_put_own(world, request);
    }
    if (action->type == TT_ACTION_COMBINE) {
        world_combine(world, request);
    }
    if (action->type == TT_ACTION_FINISH) {
        check_margins(request, tt_terms_bytes(terms, world->size));
        world_check_gathered(world, request);
    }
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
    config.own = config.multicast || config.pool == NULL ? NULL : world->own;
    tt_early_pool_init(&world->pool, world->slabs, SLAB);
    tt_link_init(&world->link, TT_PACER_UNKNOWN);
    world->link.window_bytes = world->link.least_bytes = 40 * (16 + TT_PACER_OVERHEAD_BYTES);
    tt_link_limit(&world->link, 320 * (16 + TT_PACER_OVERHEAD_BYTES));
    world->actions.list = world->list;
    world->actions.capacity = tt_actions_capacity(world->size);
    FUZZ_CHECK(world->actions.capacity <= MOST_ACTIONS);
    tt_member_init(&world->member, &config);
    world->driver = (struct member_driver){
        .member = &world->member, .actions = &world->actions, .effect = on_action, .argument = world};
    for (uint32_t i = 0; i < REQUESTS; i++) {
        make_request(world, &world->requests[i], script);
    }
}

/* --- Events ------------------------------------------------------------------------------------------------------- */

/* After a failure nothing may wait for an event that perhaps never comes. */
static void check_step(const struct world *world)
{
    for (uint32_t i = 0; i < REQUESTS && world->member.status != TUTTI_OK; i++) {
        FUZZ_CHECK(!world->requests[i].run.posted || world->requests[i].collective.state == TT_COLLECTIVE_FAILING);
    }
}

void world_step(struct world *world, struct tt_member_event event)
{
    member_driver_step(&world->driver, event, world->now_ns);
    check_step(world);
}

void world_hear(struct world *world, const struct tt_frame *frame)
{
    world_step(world, (struct tt_member_event){.type = TT_MEMBER_FRAME, .frame = frame});
}

void world_post(struct world *world, struct script *script)
{
    struct request *request = &world->requests[script_below(script, REQUESTS)];

    if (request->run.posted) {
        return;
    }
    request->asked_valid = false;
    world_clear_gathered(world, request);
    member_driver_post(&world->driver, &request->collective, world->now_ns);
    check_step(world);
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
        if (request->run.posted && request->run.published && !request->run.frozen &&
            psn / stream->stripe.chunks != own && !(tt_stream_word(stream, psn / 64) >> (psn % 64) & 1)) {
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

    if (request->run.posted && request->run.published && !request->run.frozen &&
        request->collective.config.terms.method == TT_METHOD_MULTICAST &&
        world->rank != request->collective.config.terms.root && !atomic_load(&stream->released)) {
        stream->release.finished = world->member.oldest - script_below(script, 2);
        stream->release.rate_kbit = (uint32_t)script_take(script, 2);
        stream->release.window_chunks = stream->release.rate_kbit % 512;
        tt_release_set_flags(&stream->release, (uint8_t)script_below(script, 4));
        atomic_store(&stream->released, true);
    }
    world_step(world, (struct tt_member_event){.type = TT_MEMBER_TICK});
}

void world_answer(struct world *world, uint32_t pick)
{
    tutti_status got = world->member.status != TUTTI_OK ? TUTTI_ERR_CANCELED : TUTTI_OK;

    if (world->driver.answer_count > 0) {
        member_driver_answer(&world->driver, pick % world->driver.answer_count, got, world->now_ns);
        check_step(world);
    }
}

void world_end(struct world *world)
{
    world_step(world, (struct tt_member_event){.type = TT_MEMBER_FAIL, .status = TUTTI_ERR_IO, .rank = TT_RANK_NONE});
    FUZZ_CHECK(world->member.status != TUTTI_OK);
    for (uint32_t patience = 0; patience < 2; patience++) {
        while (world->driver.answer_count > 0) {
            world_answer(world, 0);
        }
        /* Whoever still reads from here is given up then. */
        world->now_ns += TT_COLLECTIVE_PATIENCE_NS;
        world_step(world, (struct tt_member_event){.type = TT_MEMBER_TICK});
    }
    for (uint32_t i = 0; i < REQUESTS; i++) {
        FUZZ_CHECK(!world->requests[i].run.posted);
    }
    FUZZ_CHECK(world->driver.answer_count == 0 && world->member.line == NULL);
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
