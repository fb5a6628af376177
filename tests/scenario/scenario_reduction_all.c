/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Every collective that combines, gathers or scatters, and all by triggered messages, for 1 to 33 ranks with odd
 * counts, 0 and fewer than ranks, in place and not, one after the other in the simulated world, which knows what has to
 * come out.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/story.h"

enum { MOST = 33, MOST_GATHERED = 16384 };

/* How many have run. */
static uint32_t run_kind(struct tt_story *story, uint32_t size, enum tt_collective_kind kind, enum tt_method method,
                         uint64_t count, uint32_t variant)
{
    const struct tt_method_row *row = tt_method_row(method);
    bool combines = tt_kind_row(kind)->combines;
    enum tt_world_elements elements = (enum tt_world_elements)(variant / 2 % (row->one_tree ? 4 : 2));
    uint32_t root = tt_kind_has_root(kind) ? (uint32_t)(count + variant) % size : 0;
    uint64_t total = count * size * (kind == TT_REDUCE_SCATTER ? size : 1) * 16;
    struct tt_world_job *job;

    if (row->multicasts && (count == 0 || size == 1 || (row->keeps_copies && total > MOST_GATHERED))) {
        return 0;
    }
    job = combines ? tt_world_job_combine(story->group, kind, root, count, elements,
                                          variant % 2 == 1 && !row->keeps_copies, method)
                   : tt_world_job_create(story->group, kind, root, count, method);
    for (uint32_t rank = 0; rank < size; rank++) {
        job->parts[rank].in_place = ((variant >> 1) + rank) % 3 == 0 || variant == 0;
    }
    tt_world_post_all(job);
    tt_world_run_job(job, tt_world_now(story->world) + TT_NS_PER_S);
    if (story->world->problem_count > 0) {
        fail_msg("%s by %s of %llu, %u ranks, root %u, variant %u: %s", tt_kind_word(kind), row->word,
                 (unsigned long long)count, size, root, variant, story->world->problems[0]);
    }
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    return 1;
}

static void run_size(uint32_t size, uint32_t *jobs)
{
    static const uint64_t counts[] = {0, 1, 7, 35, 131, 2049};
    struct tt_story story;
    /* What is announced and fetched, in groups of up to 8 ranks. */
    uint32_t count = size <= 8 ? 6 : 5;

    tt_story_prepare(&story, size);
    tt_story_begin(&story, size);
    for (unsigned kind = TT_BROADCAST; kind < TT_KIND_COUNT; kind++) {
        for (unsigned method = 0; method < TT_METHOD_COUNT; method++) {
            bool triggers = tt_method_row(method)->by_triggers;

            for (uint32_t i = 0; i < count && tt_method_serves(method, kind); i++) {
                if (triggers || tt_kind_row(kind)->combines) {
                    *jobs += run_kind(&story, size, (enum tt_collective_kind)kind, (enum tt_method)method, counts[i],
                                      (size + i + kind) % 8);
                }
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
        run_size(size, &jobs);
    }
    assert_in_range(jobs, 2500, 4200);
    print_message("%u collectives\n", jobs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_collective_is_right_for_every_number_of_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
