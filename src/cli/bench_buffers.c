/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: memory for a benchmark's rounds, and the verdict on each.
 *
 * Normal path: init for the largest size, then for every size resize, and for every round prepare, the collective,
 * check. Nothing is allocated after init. What is in a buffer follows from the collective's row: blocks of bytes
 * (bench_pattern.h) where data only moves, or else elements (bench_element.h) and results of reducing them
 * (bench_result.h).
 *
 * Failures: memory that is not to be had. A wrong byte is no failure here but a count, and the first is described.
 */
#include "cli/bench_buffers.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"

/* Room for a canary before and behind the data, with the data itself at a page's start. */
enum { ALIGN_BYTES = 4096 };

/* As most systems have them; where they are of another size the advice is taken for as much as it fits. */
enum { HUGE_PAGE_BYTES = 2 << 20 };

/* Compared in 0.1 ms; and in the time in which an element of an input is made again and added to a result. */
enum { LONG_BYTES = 1 << 20, ELEMENT_BYTES = 64 };

/* --- Where what is ------------------------------------------------------------------------------------------------ */

static const struct tt_bench_collective_row *row_of(const struct tt_bench_job *job)
{
    return tt_bench_collective_row(job->collective);
}

static uint32_t block_count(const struct tt_bench_job *job, enum tt_bench_share share)
{
    return share == TT_BENCH_ALL ? job->rank_count : 1;
}

/* Which memory a rank has. Where a collective is in place, it is the larger one of the two. */
struct place {
    bool has_send, has_receive;
    bool is_source_in_receive, is_result_in_send;
};

static struct place place_of(const struct tt_bench_job *job, bool is_root)
{
    const struct tt_bench_collective_row *row = row_of(job);
    bool sends = tt_bench_is_among(row->sends, is_root), receives = tt_bench_is_among(row->receives, is_root);
    bool in_place = job->in_place && sends && receives;
    struct place place = {.is_result_in_send = in_place && row->sent == TT_BENCH_ALL,
                          .is_source_in_receive =
                              (in_place && row->sent != TT_BENCH_ALL) || (row->is_sourced_in_place && is_root)};
    place.has_send = sends && !place.is_source_in_receive;
    place.has_receive = receives && !place.is_result_in_send;
    return place;
}

static struct place own_place(const struct tt_bench_buffers *buffers)
{
    return place_of(&buffers->job, buffers->rank == buffers->job.root);
}

static uint64_t sent_bytes(const struct tt_bench_buffers *buffers)
{
    return block_count(&buffers->job, row_of(&buffers->job)->sent) * buffers->block_bytes;
}

static uint64_t received_bytes(const struct tt_bench_buffers *buffers)
{
    return block_count(&buffers->job, row_of(&buffers->job)->received) * buffers->block_bytes;
}

/* Where the own block begins, in a buffer that holds those of all ranks. */
static uint64_t own_offset(const struct tt_bench_buffers *buffers, enum tt_bench_share share)
{
    return share == TT_BENCH_ALL ? buffers->rank * buffers->block_bytes : 0;
}

uint64_t tt_bench_job_round(const struct tt_bench_job *job, uint64_t size_bytes)
{
    uint64_t unit = tt_bench_collective_divides(job->collective) ? job->rank_count : 1;
    if (row_of(job)->reduces) {
        uint32_t element_bytes = tt_type_row(job->type)->bytes;
        unit *= element_bytes > 0 ? element_bytes : TT_BENCH_OPAQUE_BYTES;
    }
    return size_bytes - size_bytes % unit;
}

/* --- Memory ------------------------------------------------------------------------------------------------------- */

/* Of one buffer, without the canaries. The size is that of all blocks together if the collective divides it. */
static uint64_t capacity_of(const struct tt_bench_job *job, enum tt_bench_share share, uint64_t capacity_bytes)
{
    if (tt_bench_collective_divides(job->collective)) {
        return share == TT_BENCH_ALL ? capacity_bytes : capacity_bytes / job->rank_count;
    }
    return block_count(job, share) * capacity_bytes;
}

static bool is_huge(uint64_t length_bytes)
{
    return length_bytes >= HUGE_PAGE_BYTES;
}

/* By a buffer with its canaries; a large one has its pages for itself. */
static uint64_t taken_by(uint64_t length_bytes)
{
    uint64_t taken_bytes = length_bytes + UINT64_C(2) * ALIGN_BYTES;
    return is_huge(length_bytes) ? (taken_bytes + HUGE_PAGE_BYTES - 1) / HUGE_PAGE_BYTES * HUGE_PAGE_BYTES
                                 : taken_bytes;
}

uint64_t tt_bench_buffers_need(const struct tt_bench_job *job, bool is_root, uint64_t capacity_bytes)
{
    const struct tt_bench_collective_row *row = row_of(job);
    struct place place = place_of(job, is_root);
    uint64_t limit = UINT64_C(1) << 47; /* user addresses of a 64-bit machine */
    uint32_t sent = block_count(job, row->sent), received = block_count(job, row->received);
    uint64_t blocks = tt_bench_collective_divides(job->collective) ? 2 : (uint64_t)sent + received;
    if (capacity_bytes > limit / blocks) {
        return UINT64_MAX;
    }
    return (place.has_send ? taken_by(capacity_of(job, row->sent, capacity_bytes)) : 0) +
           (place.has_receive ? taken_by(capacity_of(job, row->received, capacity_bytes)) : 0);
}

static tutti_status allocate(uint64_t length_bytes, void **memory, uint8_t **data)
{
    void *start;
    size_t align_bytes = is_huge(length_bytes) ? HUGE_PAGE_BYTES : ALIGN_BYTES;
    if (posix_memalign(&start, align_bytes, taken_by(length_bytes)) != 0) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "a buffer of %" PRIu64 " bytes: out of memory", length_bytes);
    }
    if (is_huge(length_bytes)) { /* advice: else it is a benchmark of page tables, too */
        (void)madvise(start, taken_by(length_bytes), MADV_HUGEPAGE);
    }
    *memory = start;
    *data = (uint8_t *)start + ALIGN_BYTES;
    return TUTTI_OK;
}

tutti_status tt_bench_buffers_init(struct tt_bench_buffers *buffers, const struct tt_bench_job *job, uint32_t rank,
                                   uint64_t capacity_bytes)
{
    const struct tt_bench_collective_row *row = row_of(job);
    struct tt_bench_buffers made = {.job = *job, .rank = rank, .capacity_bytes = capacity_bytes};
    struct place place = own_place(&made);
    tutti_status status = TUTTI_OK;
    if (tt_bench_buffers_need(job, rank == job->root, capacity_bytes) == UINT64_MAX) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "%" PRIu32 " blocks of %" PRIu64 " bytes: out of memory",
                        job->rank_count, capacity_bytes);
    }
    if (place.has_receive) {
        status = allocate(capacity_of(job, row->received, capacity_bytes), &made.receive_memory, &made.receive);
    }
    if (status == TUTTI_OK && place.has_send) {
        status = allocate(capacity_of(job, row->sent, capacity_bytes), &made.send_memory, &made.send);
    }
    if (status != TUTTI_OK) {
        tt_bench_buffers_fini(&made);
        return status;
    }
    if (row->reduces) {
        tt_bench_result_init(&made.results, job->type, job->operation, job->rank_count);
    }
    *buffers = made;
    return TUTTI_OK;
}

void tt_bench_buffers_fini(struct tt_bench_buffers *buffers)
{
    free(buffers->send_memory);
    free(buffers->receive_memory);
    buffers->send_memory = NULL;
    buffers->receive_memory = NULL;
}

static void surround(uint8_t *data, uint64_t length_bytes)
{
    tt_canary_fill(data - TT_CANARY_BYTES);
    tt_canary_fill(data + length_bytes);
}

void tt_bench_buffers_resize(struct tt_bench_buffers *buffers, uint64_t size_bytes)
{
    const struct tt_bench_job *job = &buffers->job;
    struct place place = own_place(buffers);
    assert(size_bytes <= buffers->capacity_bytes);
    buffers->size_bytes = tt_bench_job_round(job, size_bytes);
    buffers->block_bytes =
        tt_bench_collective_divides(job->collective) ? buffers->size_bytes / job->rank_count : buffers->size_bytes;
    if (place.has_receive) {
        surround(buffers->receive, received_bytes(buffers));
    }
    if (place.has_send) {
        surround(buffers->send, sent_bytes(buffers));
    }
    if (place.is_result_in_send) {
        buffers->receive = buffers->send + own_offset(buffers, row_of(job)->sent);
    }
}

/* --- Contents ----------------------------------------------------------------------------------------------------- */

/* Whose pattern the first block of such a share is; the others follow. */
static uint32_t first_owner(const struct tt_bench_buffers *buffers, enum tt_bench_share share)
{
    return share == TT_BENCH_ALL ? 0 : share == TT_BENCH_OWN ? buffers->rank : buffers->job.root;
}

static uint64_t elements_in(const struct tt_bench_buffers *buffers, uint64_t length_bytes)
{
    return length_bytes / buffers->results.elements.element_bytes;
}

/* The index of a result's first element in the vector that ranks put in. */
static uint64_t first_result(const struct tt_bench_buffers *buffers)
{
    return row_of(&buffers->job)->received == TT_BENCH_OWN ? buffers->rank * elements_in(buffers, buffers->block_bytes)
                                                           : 0;
}

static void fill_source(const struct tt_bench_buffers *buffers, uint64_t round, uint8_t *source)
{
    const struct tt_bench_collective_row *row = row_of(&buffers->job);
    uint64_t block = buffers->block_bytes;
    if (row->reduces) {
        tt_bench_elements_fill(&buffers->results.elements, buffers->rank, round, 0,
                               elements_in(buffers, sent_bytes(buffers)), source);
        return;
    }
    for (uint32_t i = 0; i < block_count(&buffers->job, row->sent); i++) {
        tt_pattern_fill(source + i * block, block, first_owner(buffers, row->sent) + i, round);
    }
}

static void poison_result(const struct tt_bench_buffers *buffers, uint64_t round)
{
    const struct tt_bench_collective_row *row = row_of(&buffers->job);
    uint64_t block = buffers->block_bytes;
    if (row->reduces) {
        tt_bench_result_poison(&buffers->results, round, first_result(buffers), elements_in(buffers, block),
                               buffers->receive);
        return;
    }
    for (uint32_t i = 0; i < block_count(&buffers->job, row->received); i++) {
        tt_pattern_poison(buffers->receive + i * block, block, first_owner(buffers, row->received) + i, round);
    }
}

void tt_bench_buffers_prepare(struct tt_bench_buffers *buffers, uint64_t round)
{
    struct place place = own_place(buffers);
    if (place.has_receive) {
        poison_result(buffers, round);
    }
    if (place.has_send) {
        fill_source(buffers, round, buffers->send);
    } else if (place.is_source_in_receive) {
        fill_source(buffers, round, buffers->receive + own_offset(buffers, row_of(&buffers->job)->received));
    }
}

/* --- The verdict -------------------------------------------------------------------------------------------------- */

static void add_wrong(struct tt_bench_wrong *wrong, uint64_t bytes, const char *what, uint32_t rank,
                      const struct tt_pattern_error *first)
{
    if (bytes > 0 && wrong->bytes == 0) {
        wrong->what = what;
        wrong->rank = rank;
        wrong->first = *first;
    }
    wrong->bytes += bytes;
}

static void check_canaries(const uint8_t *data, uint64_t length_bytes, uint32_t rank, struct tt_bench_wrong *wrong)
{
    struct tt_pattern_error none = {0};
    uint64_t bytes = tt_canary_check(data - TT_CANARY_BYTES) + tt_canary_check(data + length_bytes);
    add_wrong(wrong, bytes, "canary", rank, &none);
}

/* With a result: each rank that has one makes the inputs of all ranks again. */
static uint64_t compared_bytes(const struct tt_bench_buffers *buffers)
{
    const struct tt_bench_collective_row *row = row_of(&buffers->job);
    uint64_t inputs = row->reduces ? buffers->job.rank_count : 1;
    return row->receives == TT_BENCH_NOBODY ? 0 : received_bytes(buffers) * inputs;
}

bool tt_bench_buffers_are_long(const struct tt_bench_buffers *buffers)
{
    uint64_t bytes = compared_bytes(buffers);

    return (row_of(&buffers->job)->reduces ? elements_in(buffers, bytes) * ELEMENT_BYTES : bytes) >= LONG_BYTES;
}

/* How many bytes prepare and check go through, inputs that are made again included. */
static uint64_t touched_bytes(const struct tt_bench_buffers *buffers)
{
    const struct tt_bench_collective_row *row = row_of(&buffers->job);
    return compared_bytes(buffers) + (row->sends == TT_BENCH_NOBODY ? 0 : sent_bytes(buffers));
}

uint64_t tt_bench_buffers_timeout_ns(const struct tt_bench_buffers *buffers, uint64_t timeout_ns)
{
    const uint64_t slow_bytes_per_s = UINT64_C(100) << 20; /* of one rank, among others on its core */
    if (timeout_ns == TT_AUTO) {
        return 0;
    }
    return timeout_ns + touched_bytes(buffers) / (slow_bytes_per_s / 1000) * TT_NS_PER_MS;
}

static void check_result(const struct tt_bench_buffers *buffers, uint64_t round, struct tt_bench_wrong *sum)
{
    const struct tt_bench_collective_row *row = row_of(&buffers->job);
    struct tt_pattern_error first = {0};
    uint64_t block = buffers->block_bytes;
    if (row->reduces) {
        uint64_t wrong = tt_bench_result_wrong(&buffers->results, round, first_result(buffers),
                                               elements_in(buffers, block), buffers->receive, sum->element);
        add_wrong(sum, wrong * buffers->results.elements.element_bytes, "result", buffers->rank, &first);
        return;
    }
    for (uint32_t i = 0; i < block_count(&buffers->job, row->received); i++) {
        uint32_t owner = first_owner(buffers, row->received) + i;
        uint64_t bytes = tt_pattern_check(buffers->receive + i * block, block, owner, round, &first);
        add_wrong(sum, bytes, "block", owner, &first);
    }
}

/* The part of the send buffer at `offset`, which only the caller may have written. */
static void check_source(const struct tt_bench_buffers *buffers, uint64_t round, uint64_t offset, uint64_t length_bytes,
                         struct tt_bench_wrong *sum)
{
    const struct tt_bench_elements *elements = &buffers->results.elements;
    struct tt_pattern_error first = {0};
    const uint8_t *data = buffers->send + offset;
    uint64_t block = buffers->block_bytes, wrong;
    if (row_of(&buffers->job)->reduces) {
        wrong = tt_bench_elements_differ(elements, buffers->rank, round, elements_in(buffers, offset),
                                         elements_in(buffers, length_bytes), data, &first.offset_bytes);
        if (wrong > 0) {
            uint8_t element[TT_BENCH_OPAQUE_BYTES];
            uint64_t at = first.offset_bytes;
            first.offset_bytes += offset;
            tt_bench_elements_fill(elements, buffers->rank, round, first.offset_bytes / elements->element_bytes, 1,
                                   element);
            first.expected = element[at % elements->element_bytes];
            first.found = data[at];
        }
        add_wrong(sum, wrong, "send buffer", buffers->rank, &first);
        return;
    }
    for (uint64_t at = 0; at < length_bytes; at += block) {
        uint32_t owner = first_owner(buffers, row_of(&buffers->job)->sent) + (uint32_t)((offset + at) / block);
        wrong = tt_pattern_check(data + at, block, owner, round, &first);
        first.offset_bytes += offset + at;
        add_wrong(sum, wrong, "send buffer", buffers->rank, &first);
    }
}

void tt_bench_buffers_check(const struct tt_bench_buffers *buffers, uint64_t round, struct tt_bench_wrong *wrong)
{
    struct tt_bench_wrong sum = {0};
    struct place place = own_place(buffers);
    uint64_t sent = sent_bytes(buffers);
    if (place.has_receive || place.is_result_in_send) {
        check_result(buffers, round, &sum);
    }
    if (place.has_receive) {
        check_canaries(buffers->receive, received_bytes(buffers), buffers->rank, &sum);
    }
    if (place.is_result_in_send) {
        uint64_t begin = own_offset(buffers, row_of(&buffers->job)->sent), end = begin + buffers->block_bytes;
        check_source(buffers, round, 0, begin, &sum);
        check_source(buffers, round, end, sent - end, &sum);
    } else if (place.has_send) {
        check_source(buffers, round, 0, sent, &sum);
    }
    if (place.has_send) {
        check_canaries(buffers->send, sent, buffers->rank, &sum);
    }
    *wrong = sum;
}
