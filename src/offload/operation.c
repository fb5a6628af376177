/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: a collective in pulses.
 *
 * Normal path: the steps, which all pulses have in common, are computed at init. It is admitted by the pulse
 * controller; then each pulse, in order, takes a counter, its port's descriptors are made of the steps for its slice
 * and posted; when it has ended its elements are counted, and the credit is there for the next one. When all pulses
 * have ended it is dismissed.
 *
 * Failures: not admitted so many times: TUTTI_ERR_NO_RESOURCE, as the paper's error to the host. A pulse that cannot be
 * posted or ends in an error: no more are posted, the ports are closed, and the first error is the operation's.
 */
#include "offload/operation.h"

#include <assert.h>
#include <string.h>

static bool has_rank_blocks(const struct tt_operation_terms *terms)
{
    return terms->compile.blocks->counts != NULL;
}

/* The elements that pulses cut, and of one pulse's slice. */
static void measure(const struct tt_operation_terms *terms, uint64_t *whole, uint64_t *each)
{
    const struct tt_blocks *blocks = terms->compile.blocks;

    *whole = blocks->slice_count;
    *each = terms->pulse_elements;
    if (has_rank_blocks(terms)) {
        *whole = 0;
        *each = terms->pulse_elements / blocks->block_count;
        for (uint32_t i = 0; i < blocks->block_count; i++) {
            *whole = blocks->counts[i] > *whole ? blocks->counts[i] : *whole;
        }
    }
}

static uint32_t lane_of(const struct tt_operation *operation, uint64_t pulse)
{
    return (uint32_t)((pulse + operation->terms.first_lane) % operation->terms.lane_count);
}

/* The terms of one pulse: its slice and its port. */
static struct tt_compile_terms pulse_terms(const struct tt_operation *operation, uint64_t pulse,
                                           struct tt_blocks *blocks)
{
    struct tt_compile_terms terms = operation->terms.compile;
    uint64_t first = pulse * operation->each, left = operation->whole - first;

    *blocks = *terms.blocks;
    blocks->is_apart = operation->pulse_count > 1 && has_rank_blocks(&operation->terms);
    blocks->slice_first = first;
    blocks->slice_count = left < operation->each ? left : operation->each;
    terms.blocks = blocks;
    terms.port = (uint16_t)(terms.port + lane_of(operation, pulse));
    terms.turn = (uint32_t)(pulse % tt_schedule_turns(terms.schedule));
    return terms;
}

/* The same for every pulse: steps depend on neither the slice of blocks that are apart, nor a vector's length. */
static uint64_t room_of(const struct tt_operation *operation)
{
    struct tt_blocks blocks;
    struct tt_compile_terms terms = pulse_terms(operation, 0, &blocks);

    return tt_compile_room(&terms);
}

/* Behind the last element of the vector. */
static uint64_t end_of(const struct tt_blocks *blocks)
{
    uint64_t end = blocks->counts == NULL ? blocks->slice_count : 0;

    for (uint32_t i = 0; blocks->counts != NULL && i < blocks->block_count; i++) {
        uint64_t behind = blocks->firsts[i] + blocks->counts[i];

        end = behind > end ? behind : end;
    }
    return end;
}

static bool prepare(struct tt_operation *operation, const struct tt_operation_terms *terms)
{
    *operation = (struct tt_operation){.terms = *terms, .status = TUTTI_OK};
    if (terms->lane_count < 1 || terms->lane_count > TT_OPERATION_MOST_LANES ||
        terms->first_lane >= terms->lane_count || terms->retry_ns == 0 ||
        terms->compile.port + terms->lane_count > TT_TRIGGER_PORTS || terms->compile.element_bytes == 0) {
        return false;
    }
    measure(terms, &operation->whole, &operation->each);
    if (operation->each == 0) {
        return false;
    }
    uint64_t end = end_of(terms->compile.blocks);

    operation->whole_bytes = end * terms->compile.element_bytes;
    operation->window = terms->window.count > 0 ? terms->window : (struct tt_block_range){0, end};
    operation->pulse_count = tt_pulse_count(operation->whole, operation->each);
    return true;
}

size_t tt_operation_memory_bytes(const struct tt_operation_terms *terms)
{
    struct tt_operation operation;

    if (!prepare(&operation, terms)) {
        return 0;
    }
    return room_of(&operation) * (sizeof(struct tt_schedule_step) + (size_t)terms->lane_count * TT_DESCRIPTOR_BYTES);
}

void tt_operation_init(struct tt_operation *operation, const struct tt_operation_terms *terms, void *memory)
{
    if (!prepare(operation, terms)) {
        assert(!"terms that make no sense");
    }
    uint64_t room = room_of(operation);
    uint8_t *at = memory;

    operation->steps = memory;
    at += room * sizeof(struct tt_schedule_step);
    for (uint32_t i = 0; i < terms->lane_count; i++) {
        operation->lanes[i].descriptors = at;
        at += room * TT_DESCRIPTOR_BYTES;
    }
    struct tt_blocks blocks;
    struct tt_compile_terms first = pulse_terms(operation, 0, &blocks);

    operation->step_count = tt_compile_steps(&first, operation->steps);
}

void tt_operation_again(struct tt_operation *operation, const struct tt_operation_terms *terms)
{
    struct tt_operation before = *operation;

    assert(before.step_count <= room_of(&before) && (before.is_done || before.next == 0));
    if (!prepare(operation, terms)) {
        assert(!"terms that make no sense");
    }
    operation->steps = before.steps;
    operation->step_count = before.step_count;
    for (uint32_t i = 0; i < terms->lane_count; i++) {
        operation->lanes[i].descriptors = before.lanes[i].descriptors;
    }
}

static void fail(struct tt_operation *operation, struct tt_offload *offload, tutti_status status)
{
    if (operation->status != TUTTI_OK) {
        return;
    }
    operation->status = status;
    for (uint32_t i = 0; i < operation->terms.lane_count; i++) {
        tt_offload_close_port(offload, (uint16_t)(operation->terms.compile.port + i), status);
    }
}

static void end_if_over(struct tt_operation *operation, struct tt_pulses *pulses)
{
    if (operation->held == 0 && (operation->status != TUTTI_OK || operation->ended == operation->pulse_count)) {
        tt_pulses_dismiss(pulses);
        operation->is_admitted = false;
        operation->is_done = true;
    }
}

static void ask_for_admission(struct tt_operation *operation, struct tt_pulses *pulses, uint64_t now_ns)
{
    if (now_ns < operation->due_ns) {
        return;
    }
    if (tt_pulses_admit(pulses)) {
        operation->is_admitted = true;
        return;
    }
    operation->tried++;
    operation->due_ns = now_ns + operation->terms.retry_ns;
    if (operation->tried == operation->terms.tries) {
        operation->status = TUTTI_ERR_NO_RESOURCE;
        operation->is_done = true;
    }
}

/* What the pulse's sequence does not write itself. */
static void copy_given(const struct tt_operation *operation, const struct tt_blocks *blocks)
{
    const struct tt_operation_terms *terms = &operation->terms;
    uint64_t element_bytes = terms->compile.element_bytes;
    uint32_t first_block,
        block_count = tt_schedule_given_blocks(terms->compile.schedule, terms->compile.rank, &first_block);

    if (terms->source == NULL || block_count == 0) {
        return;
    }
    struct tt_block_range range = tt_blocks_run(blocks, first_block, block_count);

    if (range.count > 0) {
        memcpy((uint8_t *)terms->buffer + (range.first - operation->window.first) * element_bytes,
               (const uint8_t *)terms->source + range.first * element_bytes, range.count * element_bytes);
    }
}

/* False: it has to wait for a port or a credit. */
static bool start_next(struct tt_operation *operation, struct tt_offload *offload, struct tt_pulses *pulses)
{
    struct tt_operation_lane *lane = &operation->lanes[lane_of(operation, operation->next)];
    struct tt_blocks blocks;
    struct tt_compile_terms terms = pulse_terms(operation, operation->next, &blocks);
    uint64_t elements = blocks.slice_count * (has_rank_blocks(&operation->terms) ? blocks.block_count : 1);
    struct tt_sequence sequence = {.descriptors = lane->descriptors,
                                   .buffer = operation->terms.buffer,
                                   .buffer_first = operation->window.first * terms.element_bytes,
                                   .buffer_bytes = operation->window.count * terms.element_bytes,
                                   .source = operation->terms.source,
                                   .source_bytes = operation->whole_bytes,
                                   .reduction = operation->terms.reduction,
                                   .cookie = operation->next};
    uint64_t largest_bytes;

    if (lane->is_busy || !tt_pulses_take(pulses, operation->held, elements, &lane->counter)) {
        return false;
    }
    operation->held++;
    copy_given(operation, &blocks);
    tutti_status status = tt_compile_descriptors(&terms, operation->steps, operation->step_count, lane->descriptors,
                                                 &sequence.count, &largest_bytes);

    status = status == TUTTI_OK ? tt_offload_post(offload, terms.port, &sequence) : status;
    if (status != TUTTI_OK) {
        tt_pulses_count(pulses, operation->held, lane->counter, elements);
        operation->held--;
        fail(operation, offload, status);
        return false;
    }
    lane->is_busy = true;
    lane->elements = elements;
    operation->next++;
    return true;
}

void tt_operation_advance(struct tt_operation *operation, struct tt_offload *offload, struct tt_pulses *pulses,
                          uint64_t now_ns)
{
    if (operation->is_done) {
        return;
    }
    if (!operation->is_admitted) {
        ask_for_admission(operation, pulses, now_ns);
    }
    if (!operation->is_admitted) {
        return;
    }
    while (operation->status == TUTTI_OK && operation->next < operation->pulse_count &&
           start_next(operation, offload, pulses)) {
    }
    end_if_over(operation, pulses);
}

void tt_operation_ended(struct tt_operation *operation, struct tt_offload *offload, struct tt_pulses *pulses,
                        const struct tt_offload_action *action)
{
    struct tt_operation_lane *lane = &operation->lanes[action->port - operation->terms.compile.port];

    assert(lane->is_busy && lane == &operation->lanes[lane_of(operation, action->cookie)]);
    tt_pulses_count(pulses, operation->held, lane->counter, lane->elements);
    operation->held--;
    operation->ended++;
    lane->is_busy = false;
    if (action->status != TUTTI_OK) {
        fail(operation, offload, action->status);
    }
    end_if_over(operation, pulses);
}

uint64_t tt_operation_deadline(const struct tt_operation *operation)
{
    return operation->is_done || operation->is_admitted ? UINT64_MAX : operation->due_ns;
}
