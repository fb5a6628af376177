/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: a schedule's steps as descriptors.
 *
 * Normal path: a descriptor is held back while steps join it (receptions of the same kind into the same blocks, then
 * one send of them), then written; FromSource says that nothing has been received into its blocks before; CPCount is
 * the number of packets that have been read when it fires, modulo 64.
 *
 * Failures: a message that is too long for a packet's length field.
 */
#include "offload/compile.h"

#include <assert.h>

struct writer {
    const struct tt_compile_terms *terms;
    uint8_t *descriptors;
    uint64_t count, largest_bytes;
    uint64_t read; /* packets before the descriptor that is held back */
    struct tt_descriptor held;
    struct tt_schedule_step first; /* of the held one; a SEND: it reads nothing */
    bool holds;
    uint32_t written_first,
        written_count; /* blocks that are the buffer's: given, or received; a run around the vector */
};

uint64_t tt_compile_room(const struct tt_compile_terms *terms)
{
    uint64_t count = tt_schedule_write(terms->schedule, terms->blocks, terms->rank, NULL, 0);

    return count > 0 ? count : 1;
}

static void write_held(struct writer *writer, bool is_last)
{
    struct tt_descriptor *held = &writer->held;

    writer->read += held->source_count;
    held->collective = true;
    held->head = writer->count == 0;
    held->tail = is_last;
    held->count = writer->read % TT_TRIGGER_COUNTS;
    held->job = writer->terms->job;
    held->source_port = writer->terms->port;
    tt_descriptor_encode(held, writer->descriptors + writer->count * TT_DESCRIPTOR_BYTES);
    writer->count++;
    if (held->length_bytes > writer->largest_bytes) {
        writer->largest_bytes = held->length_bytes;
    }
}

/* --- What is in the buffer ---------------------------------------------------------------------------------------- */

static bool is_written(const struct writer *writer, uint32_t first_block, uint32_t block_count)
{
    uint32_t all = writer->terms->blocks->block_count;
    uint32_t offset = (first_block + all - writer->written_first) % all;

    return offset + block_count <= writer->written_count;
}

/* A rank of a schedule that reduces or scatters writes next to what it has written, so one run is enough. */
static void note_written(struct writer *writer, uint32_t first_block, uint32_t block_count)
{
    uint32_t all = writer->terms->blocks->block_count, end = writer->written_first + writer->written_count;

    if (is_written(writer, first_block, block_count)) {
        return;
    }
    if (writer->written_count == 0 || (first_block + block_count) % all == writer->written_first) {
        writer->written_first = first_block;
    } else {
        assert(end % all == first_block);
        (void)end;
    }
    writer->written_count += block_count;
    if (writer->written_count == all) {
        writer->written_first = 0;
    }
}

/* Elsewhere all that is sent has been given or received. */
static bool tracks(const struct writer *writer)
{
    enum tt_schedule_collective collective = writer->terms->schedule->collective;

    return collective == TT_SCHEDULE_REDUCE || collective == TT_SCHEDULE_ALLREDUCE ||
           collective == TT_SCHEDULE_REDUCE_SCATTER || collective == TT_SCHEDULE_SCATTER;
}

/* --- Descriptors -------------------------------------------------------------------------------------------------- */

static void hold(struct writer *writer, const struct tt_schedule_step *step)
{
    uint32_t element_bytes = writer->terms->element_bytes;
    struct tt_block_range range = {0, 0};

    if (step->block_count > 0) {
        range = tt_blocks_run(writer->terms->blocks, step->first_block, step->block_count);
    }
    if (writer->holds) {
        write_held(writer, false);
    }
    writer->holds = true;
    writer->first = *step;
    writer->held = (struct tt_descriptor){
        .swap_local_data = step->kind == TT_SCHEDULE_COPY,
        .reduce = step->kind == TT_SCHEDULE_REDUCED,
        .reduce_before = step->before,
        .from_source = tracks(writer) && !is_written(writer, step->first_block, step->block_count),
        .address_bytes = range.first * element_bytes,
        .length_bytes = range.count * element_bytes,
    };
}

static bool joins(const struct writer *writer, const struct tt_schedule_step *step)
{
    const struct tt_schedule_step *first = &writer->first;

    if (!writer->holds || first->kind == TT_SCHEDULE_SEND || writer->held.triggers ||
        first->first_block != step->first_block || first->block_count != step->block_count) {
        return false;
    }
    return step->kind == TT_SCHEDULE_SEND || (step->kind == first->kind && step->before == first->before &&
                                              writer->held.source_count < TT_DESCRIPTOR_MAX_SOURCES);
}

static void add(struct writer *writer, const struct tt_schedule_step *step)
{
    struct tt_descriptor *held = &writer->held;

    if (!joins(writer, step)) {
        hold(writer, step);
    }
    if (step->kind != TT_SCHEDULE_SEND) {
        if (step->block_count > 0 && tracks(writer)) {
            note_written(writer, step->first_block, step->block_count);
        }
        held->sources[held->source_count++] = tt_compile_node(writer->terms, step->peer);
        return;
    }
    held->triggers = true;
    held->sequence = step->position % TT_TRIGGER_STEPS;
    held->destination_port = writer->terms->port;
    held->destination_node = tt_compile_node(writer->terms, step->peer);
    held->collective_end = step->ends;
}

uint64_t tt_compile_steps(const struct tt_compile_terms *terms, struct tt_schedule_step *steps)
{
    return tt_schedule_write(terms->schedule, terms->blocks, terms->rank, steps, tt_compile_room(terms));
}

tutti_status tt_compile_descriptors(const struct tt_compile_terms *terms, const struct tt_schedule_step *steps,
                                    uint64_t step_count, uint8_t *descriptors, uint64_t *count, uint64_t *largest_bytes)
{
    struct writer writer = {.terms = terms, .descriptors = descriptors};

    assert(terms->port < TT_TRIGGER_PORTS);
    writer.written_count = tt_schedule_given_blocks(terms->schedule, terms->rank, &writer.written_first);
    for (uint64_t i = 0; i < step_count; i++) {
        struct tt_schedule_step step =
            tt_schedule_turned(terms->schedule, steps, step_count, terms->turn, terms->ahead, i);

        add(&writer, &step);
    }
    if (!writer.holds) { /* nobody to wait for, nobody to tell: it fires at once */
        writer.held = (struct tt_descriptor){0};
    }
    write_held(&writer, true);
    if (writer.largest_bytes > UINT32_MAX) {
        return TUTTI_ERR_TOO_LARGE;
    }
    *count = writer.count;
    *largest_bytes = writer.largest_bytes;
    return TUTTI_OK;
}

tutti_status tt_compile(const struct tt_compile_terms *terms, struct tt_schedule_step *steps, uint8_t *descriptors,
                        uint64_t *count, uint64_t *largest_bytes)
{
    return tt_compile_descriptors(terms, steps, tt_compile_steps(terms, steps), descriptors, count, largest_bytes);
}
