/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective that combines, gathers or scatters, and all by triggered messages, for 1 to 33 ranks with odd
 * counts, 0 and fewer than ranks, in place and not, posted twice, one after the other in the simulated world, which
 * knows what has to come out. Types and operations take turns. Among many ranks there is less of it, for the time it
 * takes.
 *
 * With the argument `all`, by hand, instead every operation on every type by every method among 2 to 13 ranks: 17,835
 * collectives, a minute of one core.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/reduce.h"
#include "proto/eager.h"
#include "support/story.h"

enum { MOST = 33, MOST_GATHERED = 65536, ALL_VARIANTS = 9, VARIANTS = 8, PULSE_BYTES = 12344 };

static const uint64_t counts[] = {0, 1, 7, 35, 131, 2049};

enum { COUNTS = sizeof counts / sizeof counts[0], SHORT = 4, FEW_RANKS = 8 };

/* The next type and operation that go with each other. */
static struct tt_combining next_combining(void)
{
    static uint32_t turn;
    enum tt_reduce_operation operation;
    enum tt_type type;

    do {
        type = (enum tt_type)(turn % TT_TYPE_COUNT);
        operation = (enum tt_reduce_operation)(turn / TT_TYPE_COUNT % TT_REDUCE_OPERATION_COUNT);
        turn++;
    } while (tt_reduce_supported(type, operation) != TUTTI_OK);
    return tt_world_combining_of(type, operation);
}

static void post_and_run(struct tt_story *story, struct tt_world_job *job, uint32_t variant)
{
    const struct tt_request_options *terms = &job->parts[0].terms;

    tt_world_post_all(job);
    tt_world_run_job(job, tt_world_now(story->world) + TT_NS_PER_S);
    if (story->world->problem_count > 0) {
        fail_msg("%s of %s %s by %s of %llu bytes, %u ranks, root %u, variant %u: %s", tt_kind_word(terms->kind),
                 tt_type_row(terms->combining.type)->name, tt_reduce_operation_row(terms->combining.operation)->name,
                 tt_method_row(terms->method)->word, (unsigned long long)terms->block_bytes, job->group->size,
                 terms->root, variant, story->world->problems[0]);
    }
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
}

/* How many have run. */
static uint32_t run_kind(struct tt_story *story, uint32_t size, enum tt_collective_kind kind, enum tt_method method,
                         uint64_t count, struct tt_combining combining, uint32_t variant)
{
    const struct tt_method_row *row = tt_method_row(method);
    bool combines = tt_kind_row(kind)->combines;
    uint32_t root = tt_kind_has_root(kind) ? (uint32_t)(count + variant) % size : 0;
    bool uneven = variant % 2 == 1 && (!row->multicasts || count >= 3); /* or there may be nothing */
    uint64_t total = count * size * (kind == TT_REDUCE_SCATTER ? size : 1) * 16 / 3 * (uneven ? 4 : 3);
    uint64_t most = row->gathers ? tt_gather_most_bytes(kind, size) : MOST_GATHERED;
    struct tt_world_job *job;

    if (row->multicasts && (count == 0 || size == 1 || (row->keeps_copies && total > most))) {
        return 0;
    }
    job = combines ? tt_world_job_combine_as(story->group, kind, root, count, combining, uneven, method)
                   : tt_world_job_create(story->group, kind, root, count, method);
    for (uint32_t rank = 0; rank < size; rank++) {
        job->parts[rank].in_place = ((variant >> 1) + rank) % 3 == 0 || variant == 0;
    }
    post_and_run(story, job, variant);
    if (size <= ALL_VARIANTS || size % 4 == 0) {
        post_and_run(story, job, variant);
    }
    return 1;
}

/* With several pulses: more than 8 KiB of each rank's part, and of the whole. */
static uint32_t run_pulses(struct tt_story *story, uint32_t size, enum tt_collective_kind kind, enum tt_method method)
{
    struct tt_combining sums = tt_world_combining(TT_WORLD_WORDS);
    uint64_t parts = kind == TT_BROADCAST || kind == TT_REDUCE || kind == TT_ALLREDUCE ? size : 1;
    uint64_t count = PULSE_BYTES * parts / (tt_kind_row(kind)->combines ? sums.element_bytes : 1);

    return run_kind(story, size, kind, method, count, sums, size % VARIANTS);
}

/* All counts; the longer ones, and what there is among many ranks, in one way each. */
static uint32_t run_method(struct tt_story *story, uint32_t size, enum tt_collective_kind kind, enum tt_method method)
{
    bool one_tree = tt_method_row(method)->one_tree;
    uint32_t jobs = 0;

    for (uint32_t i = 0; i < COUNTS; i++) {
        uint32_t first = (size + i + kind) % VARIANTS, all = size <= ALL_VARIANTS && i < SHORT ? VARIANTS : 1;

        /* What is announced and fetched, in groups of up to 8 ranks. */
        for (uint32_t variant = first; variant < first + all && (i + 1 < COUNTS || size <= FEW_RANKS); variant++) {
            bool keeps_order = one_tree && variant % VARIANTS >= 6;

            jobs += run_kind(story, size, kind, method, counts[i],
                             keeps_order ? tt_world_combining(TT_WORLD_AFFINE) : next_combining(), variant % VARIANTS);
        }
    }
    if (tt_method_row(method)->by_triggers && (size == 10 || (size == 17 && !tt_kind_row(kind)->combines))) {
        jobs += run_pulses(story, size, kind, method);
    }
    return jobs;
}

/* Without `parts_by` (TT_METHOD_RING) all; else that, and what makes parts, by that. */
static void run_size(uint32_t size, enum tt_method parts_by, uint32_t hosts, uint32_t *jobs)
{
    struct tt_story story;

    tt_story_prepare(&story, size);
    story.options.parts_by = parts_by;
    story.options.hosts = hosts;
    tt_story_begin(&story, size);
    for (unsigned kind = TT_BROADCAST; kind < TT_KIND_COUNT; kind++) {
        for (unsigned method = 0; method < TT_METHOD_COUNT; method++) {
            bool is_ours = parts_by != TT_METHOD_RING
                               ? tt_method_row(method)->by_parts || method == parts_by
                               : tt_method_row(method)->by_triggers || tt_kind_row(kind)->combines;

            if (tt_method_serves(method, kind) && is_ours) {
                *jobs += run_method(&story, size, (enum tt_collective_kind)kind, (enum tt_method)method);
            }
        }
    }
    tt_story_end(&story);
}

static void every_collective_is_right_for_every_number_of_ranks(void **state)
{
    uint32_t jobs = 0;

    (void)state;
    for (uint32_t size = 1; size <= MOST; size++) {
        run_size(size, TT_METHOD_RING, 0, &jobs);
        run_size(size, TT_METHOD_RECURSIVE_HALVING, 0, &jobs);
        run_size(size, TT_METHOD_TRIGGERED_RING, 3, &jobs);
    }
    assert_in_range(jobs, 11000, 13000);
    print_message("%u collectives\n", jobs);
}

/* How many have run. The world keeps buffers to its end, so each method has one of its own. */
static uint32_t run_combinings(uint32_t size, enum tt_collective_kind kind, enum tt_method method,
                               enum tt_method parts_by)
{
    static const uint64_t few[] = {7, 2049};
    struct tt_story story;
    uint32_t jobs = 0;

    tt_story_prepare(&story, size);
    story.options.parts_by = parts_by;
    tt_story_begin(&story, size);
    for (unsigned type = 0; type < TT_TYPE_COUNT; type++) {
        for (unsigned operation = 0; operation < TT_REDUCE_OPERATION_COUNT; operation++) {
            for (unsigned i = 0; i < 2 && tt_reduce_supported(type, operation) == TUTTI_OK; i++) {
                jobs += run_kind(&story, size, kind, method, few[i],
                                 tt_world_combining_of((enum tt_type)type, (enum tt_reduce_operation)operation),
                                 (type + operation + i) % VARIANTS);
            }
        }
    }
    tt_story_end(&story);
    return jobs;
}

static void every_operation_on_every_type_is_right_by_every_method(void **state)
{
    static const uint32_t sizes[] = {2, 3, 5, 8, 13};
    uint32_t jobs = 0;

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        for (unsigned kind = TT_BROADCAST; kind < TT_KIND_COUNT; kind++) {
            for (unsigned method = 0; method < TT_METHOD_COUNT; method++) {
                if (!tt_kind_row(kind)->combines || !tt_method_serves(method, kind)) {
                    continue;
                }
                jobs += run_combinings(sizes[i], (enum tt_collective_kind)kind, (enum tt_method)method, TT_METHOD_RING);
                if (tt_method_row(method)->by_parts) {
                    jobs += run_combinings(sizes[i], (enum tt_collective_kind)kind, (enum tt_method)method,
                                           TT_METHOD_RECURSIVE_HALVING);
                }
            }
        }
    }
    print_message("%u collectives\n", jobs);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_is_right_for_every_number_of_ranks),
    };
    const struct CMUnitTest by_hand[] = {
        cmocka_unit_test(every_operation_on_every_type_is_right_by_every_method),
    };

    if (argc > 1 && strcmp(argv[1], "all") == 0) {
        return cmocka_run_group_tests(by_hand, NULL, NULL);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
