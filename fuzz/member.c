/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One member machine under a script of events: posts, frames (any bytes, and such as a peer could have sent), chunks,
 * answers, time, deaths. The driver checks that every action is a legal one. At the end the group
 * fails, everything owed is answered, and every request must have finished exactly once.
 */
#include <string.h>

#include "check.h"
#include "member_surroundings.h"
#include "plan/dissemination.h"
#include "plan/tree.h"

/* --- Frames ------------------------------------------------------------------------------------------------------- */

static uint32_t some_source(const struct world *world, struct script *script)
{
    const struct tt_member *member = &world->member;
    uint32_t pick = script_below(script, 64);

    if (pick < 56 && member->neighbour_count > 0) {
        return member->neighbours[pick % member->neighbour_count];
    }
    return pick < 60 ? pick % world->size : (uint32_t)script_take(script, 4);
}

static void fill_window(struct script *script, struct tt_window *window)
{
    uint32_t count = 1 + script_below(script, TT_FETCH_WINDOW);

    window->subgroup = (uint16_t)script_below(script, SUBGROUPS + 1);
    window->base = 64 * script_below(script, 8) + (script_below(script, 16) == 0);
    window->count = (uint16_t)count;
    for (uint32_t i = 0; i < (count + 63) / 64; i++) {
        uint32_t rest = count - i * 64;

        window->bits[i] = i < 2 ? script_take(script, 8) : 0;
        window->bits[i] &= rest >= 64 ? ~UINT64_C(0) : (UINT64_C(1) << rest) - 1;
    }
}

/* What others bring; which bytes they are nobody looks at. */
static const uint8_t blocks[TT_FRAME_MAX_BYTES];

/* A body with values that come near to meaning something. */
static void fill_body(struct world *world, struct script *script, struct tt_frame *frame)
{
    static uint8_t bytes[TT_FRAME_MAX_KEY_BYTES];
    const struct request *request = &world->requests[script_below(script, REQUESTS)];

    switch (frame->type) {
    case TT_FRAME_BARRIER:
        frame->body.barrier.round = (uint8_t)script_below(script, 6);
        frame->body.barrier.terms = request->collective.config.terms;
        frame->body.barrier.terms.root += script_below(script, 16) == 0;
        frame->body.barrier.finished = world->member.oldest + script_below(script, 8) - 4;
        break;
    case TT_FRAME_ASK:
        frame->body.ask.terms = request->collective.config.terms;
        frame->body.ask.terms.root += script_below(script, 16) == 0;
        frame->body.ask.digest = script_below(script, 2);
        break;
    case TT_FRAME_READY:
    case TT_FRAME_REMIND:
        frame->body.ready.terms = request->collective.config.terms;
        frame->body.ready.terms.root += script_below(script, 16) == 0;
        break;
    case TT_FRAME_DATA:
        frame->body.data.terms = request->collective.config.terms;
        frame->body.data.terms.root += script_below(script, 16) == 0;
        frame->body.data.offset_bytes = script_below(script, 3) * TT_FRAME_DATA_BYTES;
        frame->body.data.length_bytes = (uint16_t)(1 + script_below(script, TT_FRAME_DATA_BYTES));
        frame->body.data.bytes = blocks;
        break;
    case TT_FRAME_GATHER:
        frame->body.gather.terms = request->collective.config.terms;
        frame->body.gather.terms.root += script_below(script, 16) == 0;
        frame->body.gather.least.finished = world->member.oldest + script_below(script, 8) - 4;
        frame->body.gather.least.rate_kbit = (uint32_t)script_take(script, 2);
        frame->body.gather.least.window_chunks = frame->body.gather.least.rate_kbit % 512;
        tt_release_set_flags(&frame->body.gather.least, (uint8_t)script_below(script, 4));
        frame->body.gather.offset_bytes =
            (uint32_t)(script_below(script, world->size) * frame->body.gather.terms.block_bytes);
        frame->body.gather.offset_bytes += script_below(script, 4) == 0 ? (uint32_t)script_take(script, 2) : 0;
        frame->body.gather.length_bytes = (uint16_t)script_below(script, TT_FRAME_GATHER_BYTES + 1);
        frame->body.gather.bytes = world_piece(frame->source);
        break;
    case TT_FRAME_OPEN:
        frame->body.open.known = script_below(script, 2);
        frame->body.open.least = tt_release_of(world->member.oldest + script_below(script, 8) - 4);
        tt_release_set_flags(&frame->body.open.least, (uint8_t)script_below(script, 4));
        break;
    case TT_FRAME_ACK:
        frame->body.ack.round = (uint8_t)script_below(script, 6);
        break;
    case TT_FRAME_DONE:
        frame->body.done.chain = script_below(script, 5) - 1U;
        break;
    case TT_FRAME_CREDIT:
    case TT_FRAME_GRANT:
        frame->body.credit.turns =
            script_below(script, 8) < 6 ? script_below(script, 200) : (uint32_t)script_take(script, 4);
        break;
    case TT_FRAME_FETCH:
    case TT_FRAME_AVAILABLE:
        frame->body.fetch.slot = (uint8_t)script_below(script, TT_FETCH_SLOTS + 1);
        fill_window(script, &frame->body.fetch.window);
        if (frame->type == TT_FRAME_AVAILABLE) {
            frame->body.available.address = script_take(script, 8);
            frame->body.available.key_bytes = (uint16_t)script_below(script, TT_FRAME_MAX_KEY_BYTES + 1);
            frame->body.available.key = bytes;
        }
        break;
    case TT_FRAME_PROBE:
        frame->body.probe.phase = (uint8_t)script_below(script, TT_PHASE_COUNT);
        frame->body.probe.heard_all = (uint8_t)script_below(script, 2);
        frame->body.probe.failed_rank = script_below(script, world->size + 1);
        frame->body.probe.deaf_rank = script_below(script, world->size + 1);
        frame->body.probe.deaf_count = script_below(script, world->size + 1);
        break;
    case TT_FRAME_FAIL:
        frame->body.fail.status = TUTTI_ERR_PEER_FAILED;
        frame->body.fail.rank = script_below(script, world->size + 2);
        frame->body.fail.noticed_by = script_below(script, world->size + 1);
        break;
    case TT_FRAME_ROLLCALL:
        for (uint32_t i = 0; i < 4; i++) {
            bytes[i] = (uint8_t)script_take(script, 1);
        }
        frame->body.rollcall.rank_count = script_below(script, 16) == 0 ? 3 : world->size;
        frame->body.rollcall.present = bytes;
        frame->body.rollcall.first = 0;
        break;
    default:
        break;
    }
}

static void hear_plausible(struct world *world, struct script *script)
{
    struct tt_frame frame = {.group = GROUP,
                             .type = (enum tt_frame_type)(1 + script_below(script, TT_FRAME_TYPE_COUNT - 1))};
    uint32_t where = script_below(script, 8);

    frame.source = some_source(world, script);
    frame.sequence = where == 0 ? world->member.oldest + script_below(script, tt_member_slots(world->in_flight) + 2)
                     : where <= 2
                         ? world->member.oldest - 1 - script_below(script, 8) /* of which there may be copies */
                         : world->member.oldest + script_below(script, 3 * world->in_flight);
    fill_body(world, script, &frame);
    world_hear(world, &frame);
}

/* Any bytes that decode, but that they name this group. */
static void hear_bytes(struct world *world, struct script *script)
{
    uint8_t bytes[64];
    uint32_t length = script_below(script, sizeof bytes + 1);
    struct tt_frame frame;

    for (uint32_t i = 0; i < length; i++) {
        bytes[i] = (uint8_t)script_take(script, 1);
    }
    if (length >= 3) {
        bytes[0] = bytes[1] = 0x74;
        bytes[2] = TT_FRAME_VERSION;
    }
    if (tt_frame_decode(bytes, length, &frame)) {
        frame.group = GROUP;
        world_hear(world, &frame);
    }
}

/* Every rank says how far roots may go; who is no child of this one is not listened to. */
static void hear_credit(struct world *world, struct script *script, const struct request *request)
{
    struct tt_frame frame = {.group = GROUP, .type = TT_FRAME_CREDIT, .sequence = request->collective.sequence};

    frame.body.credit.turns = script_below(script, 8) * 32;
    frame.body.credit.turns = frame.body.credit.turns == 224 ? TT_FLOW_ALL : frame.body.credit.turns;
    for (uint32_t rank = 0; rank < world->size; rank++) {
        frame.source = rank;
        world_hear(world, &frame);
    }
}

/* All frames of the round of acknowledgment that is on, or of one about what has ended here. */
static void hear_round(struct world *world, struct script *script)
{
    struct tt_frame frame = {.group = GROUP, .type = TT_FRAME_ACK, .sequence = world->member.eager.wanted};

    if (script_below(script, 4) == 0) {
        frame.sequence = world->member.oldest;
    }
    for (uint32_t round = 0; round < tt_dissemination_rounds(world->size); round++) {
        frame.body.ack.round = (uint8_t)round;
        frame.source = tt_dissemination_from(world->rank, world->size, round);
        world_hear(world, &frame);
    }
}

/* What the right neighbour may want of a collective that leaves copies, one that runs or one that has ended. */
static void hear_right(struct world *world, struct script *script)
{
    const struct request *request = &world->requests[script_below(script, REQUESTS)];
    struct tt_frame frame = {.group = GROUP, .source = tt_rank_add(world->rank, 1, world->size)};
    uint64_t psns = request->streams[0].stripe.psn_count;

    if (!tt_method_row(request->collective.config.terms.method)->keeps_copies || world->size == 1) {
        return;
    }
    frame.sequence = request->collective.sequence;
    switch (script_below(script, 4)) {
    case 0:
        frame.type = TT_FRAME_FINAL;
        break;
    case 1:
        frame.type = TT_FRAME_FETCH;
        frame.body.fetch.slot = (uint8_t)script_below(script, TT_FETCH_SLOTS);
        frame.body.fetch.window.count = (uint16_t)(psns < 64 ? psns : 64);
        frame.body.fetch.window.bits[0] = script_take(script, 8);
        frame.body.fetch.window.bits[0] &= psns < 64 ? (UINT64_C(1) << psns) - 1 : ~UINT64_C(0);
        break;
    default:
        frame.type = TT_FRAME_ASK;
        frame.body.ask.terms = request->collective.config.terms;
        frame.body.ask.digest = script_below(script, 2);
        break;
    }
    world_hear(world, &frame);
}

/* The parent's next piece, or a child that is ready. */
static void hear_of_tree(struct world *world, struct script *script, const struct request *request)
{
    const struct tt_collective *collective = &request->collective;
    const struct tt_collective_terms *terms = &collective->config.terms;
    uint32_t vertex = tt_rank_subtract(world->rank, terms->root, world->size);
    uint32_t child = tt_tree_child(vertex, world->size, script_below(script, 5));
    uint64_t rest = terms->block_bytes - collective->tree.received_bytes;
    struct tt_frame frame = {.group = GROUP, .sequence = collective->sequence};

    if (child != 0 && script_below(script, 2) == 0) {
        frame.type = TT_FRAME_READY;
        frame.source = tt_rank_add(child, terms->root, world->size);
        frame.body.ready.terms = *terms;
    } else {
        frame.type = TT_FRAME_DATA;
        frame.source = tt_rank_add(tt_tree_parent(vertex), terms->root, world->size);
        frame.body.data.terms = *terms;
        frame.body.data.offset_bytes = collective->tree.received_bytes;
        frame.body.data.length_bytes = (uint16_t)(rest < TT_FRAME_DATA_BYTES ? rest : TT_FRAME_DATA_BYTES);
        frame.body.data.bytes = blocks;
    }
    world_hear(world, &frame);
}

/* Whether a collective of its kind gathers, and has not reported yet. */
static bool still_gathers(const struct tt_collective *collective)
{
    return !collective->gather.told && (collective->way->mover->gathers || collective->way->gate->releases);
}

/* The next barrier frame that a collective waits for, or FINAL, or ACTIVATE, or what ends a fetch. */
static void hear_what_is_waited_for(struct world *world, struct script *script)
{
    struct request *request = &world->requests[script_below(script, REQUESTS)];
    struct tt_collective *collective = &request->collective;
    struct tt_frame frame = {.group = GROUP, .sequence = collective->sequence};
    uint32_t left = tt_rank_subtract(world->rank, 1, world->size), right = tt_rank_add(world->rank, 1, world->size);

    if (!request->run.posted || world->size == 1) {
        return;
    }
    if (still_gathers(collective)) {
        world_hear_reports(world, script, request);
        return;
    }
    if (collective->way->mover == &tt_mover_tree) {
        hear_of_tree(world, script, request);
        return;
    }
    if (collective->state <= TT_COLLECTIVE_BARRIER && collective->way->gate->releases) {
        world_release(world, script);
        return;
    }
    if (collective->state <= TT_COLLECTIVE_BARRIER) {
        frame.type = TT_FRAME_BARRIER;
        frame.body.barrier.terms = collective->config.terms;
        for (uint32_t round = 0; round < tt_dissemination_rounds(world->size); round++) {
            frame.body.barrier.round = (uint8_t)round;
            frame.source = tt_dissemination_from(world->rank, world->size, round);
            if (request->run.posted) {
                world_hear(world, &frame);
            }
        }
        return;
    }
    switch (script_below(script, 7)) {
    case 5:
        hear_round(world, script);
        return;
    case 6:
        hear_right(world, script);
        return;
    case 0:
        frame.type = TT_FRAME_FINAL;
        frame.source = right;
        break;
    case 1:
        frame.type = TT_FRAME_ACTIVATE;
        frame.source = left;
        break;
    case 2:
        frame.type = collective->way->completion->keeps_copy ? TT_FRAME_KEPT : TT_FRAME_DONE;
        frame.source = left;
        frame.body.done.chain = script_below(script, 2) == 0 ? TT_DONE_ALL_CHAINS : 0;
        break;
    case 3:
        hear_credit(world, script, request);
        return;
    default:
        if (!request->asked_valid) {
            return;
        }
        frame.type = TT_FRAME_AVAILABLE;
        frame.source = left;
        frame.body.available.slot = request->asked.body.fetch.slot;
        frame.body.available.window = request->asked.body.fetch.window;
        frame.body.available.key = (const uint8_t *)"key";
        frame.body.available.key_bytes = 3;
        frame.body.available.window.bits[0] &= script_below(script, 2) == 0 ? script_take(script, 8) : ~UINT64_C(0);
        break;
    }
    world_hear(world, &frame);
}

/* --- The rest ----------------------------------------------------------------------------------------------------- */

static void let_time_pass(struct world *world, struct script *script)
{
    static const uint64_t steps_ns[] = {0, 1, 50, 100, 1000, 11000, 100000, 900000, 600000000};
    uint32_t pick = script_below(script, 12);
    uint64_t deadline_ns = tt_member_deadline(&world->member);

    if (pick < sizeof steps_ns / sizeof steps_ns[0]) {
        world->now_ns += steps_ns[pick];
    } else if (deadline_ns != UINT64_MAX && deadline_ns > world->now_ns) {
        world->now_ns = deadline_ns;
    }
    world_step(world, (struct tt_member_event){.type = TT_MEMBER_TICK});
}

/* Some member of the group, or nobody, is in trouble. */
static void fail_somehow(struct world *world, struct script *script)
{
    uint32_t rank = script_below(script, world->size);

    switch (script_below(script, 8)) {
    case 0:
        world_step(world, (struct tt_member_event){.type = TT_MEMBER_FAIL, .status = TUTTI_ERR_IO, .rank = rank});
        break;
    case 1:
    case 2:
        if (rank != world->rank) {
            world_step(world, (struct tt_member_event){.type = TT_MEMBER_PEER_DOWN, .rank = rank});
        }
        break;
    default:
        break;
    }
}

static void probe(struct world *world, struct script *script)
{
    uint32_t heard = (uint32_t)script_take(script, 4);

    atomic_fetch_or(&world->heard[0], heard);
    if (!world->driver.probing) {
        world_step(world, (struct tt_member_event){.type = TT_MEMBER_PROBE});
    }
}

static void play(struct world *world, struct script *script)
{
    switch (script_below(script, 16)) {
    case 0:
    case 1:
        world_post(world, script);
        break;
    case 2:
    case 3:
        world_chunks(world, script);
        break;
    case 4:
    case 5:
    case 6:
        world_answer(world, script_below(script, MEMBER_DRIVER_ANSWERS));
        break;
    case 7:
    case 8:
        let_time_pass(world, script);
        break;
    case 9:
    case 10:
    case 11:
    case 12:
        hear_what_is_waited_for(world, script);
        break;
    case 13:
        if (script_below(script, 2) == 0) {
            hear_right(world, script);
        } else {
            hear_plausible(world, script);
        }
        break;
    case 14:
        hear_bytes(world, script);
        break;
    default:
        switch (script_below(script, 4)) {
        case 0:
        case 1:
            probe(world, script);
            break;
        case 2:
            world->member.deaf = script_below(script, 2);
            world_step(world, (struct tt_member_event){.type = TT_MEMBER_FLUSH});
            break;
        default:
            fail_somehow(world, script);
            break;
        }
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct world world;
    struct script script = {.at = data, .end = data + size};

    world_init(&world, &script);
    while (!script_ended(&script)) {
        play(&world, &script);
    }
    world_end(&world);
    world_leave(&world);
    return 0;
}
