/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Connections that break between two ranks that are both alive: each of them blames the other one, and all others one
 * of the two, whoever hears it first from whom. Each end notices after a time of its own, so that word of it often
 * comes before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "support/story.h"

enum { RANKS = 20 /* not all are neighbours */, BYTES = 200000, BREAKS_NS = 20000 };

struct way {
    enum tt_collective_kind kind;
    enum tt_method method;
};

static const struct way ways[] = {
    {TT_ALLGATHER, TT_METHOD_RING},
    {TT_ALLGATHER, TT_METHOD_MULTICAST},
    {TT_BROADCAST, TT_METHOD_SEQUENTIAL}, /* objects: connected to others than the group's ranks are */
    {TT_BROADCAST, TT_METHOD_BINOMIAL_PIPELINE},
    {TT_ALLREDUCE, TT_METHOD_RABENSEIFNER}, /* triggered messages: so are these */
    {TT_REDUCE_SCATTER, TT_METHOD_DIRECT},
};

static struct tt_world_job *create(const struct tt_story *story, const struct way *way)
{
    if (tt_kind_row(way->kind)->combines) {
        return tt_world_job_combine(story->group, way->kind, 0, BYTES / 8, TT_WORLD_WORDS, false, way->method);
    }
    return tt_world_job_create(story->group, way->kind, 0, way->kind == TT_ALLGATHER ? BYTES / RANKS : BYTES,
                               way->method);
}

static void expect_blame(const struct tt_world_job *job, uint32_t rank, const uint32_t ends[2])
{
    const struct tt_world_part *part = &job->parts[rank];
    const struct tt_group *group = job->group->members[rank].group;
    uint32_t noticed_by = group->member.noticed_by;

    if (part->status == TUTTI_OK) { /* it was over here before the word came */
        return;
    }
    assert_int_equal(part->status, TUTTI_ERR_PEER_FAILED);
    assert_int_equal(part->failed_rank, group->failed_rank);
    assert_true(noticed_by == ends[0] || noticed_by == ends[1]);
    if (rank == ends[0] || rank == ends[1]) {
        assert_int_equal(part->failed_rank, rank == ends[0] ? ends[1] : ends[0]);
        assert_int_equal(strstr(group->failure_text, "cannot reach this rank") != NULL, noticed_by != rank);
    } else {
        assert_true(part->failed_rank == ends[0] || part->failed_rank == ends[1]);
        assert_int_not_equal(part->failed_rank, noticed_by);
        assert_null(strstr(group->failure_text, "left"));
    }
}

/* Returns how many ranks have been told. */
static uint32_t break_one(const struct way *way, const uint32_t ends[2], uint64_t seed)
{
    struct tt_world_job *job;
    struct tt_story story;
    uint32_t told = 0;
    bool was_up;

    tt_story_prepare(&story, RANKS);
    story.options.sim.seed = seed;
    story.options.sim.detection_min_ns = TT_NS_PER_US;
    story.options.sim.detection_max_ns = 100 * TT_NS_PER_US;
    tt_story_begin(&story, RANKS);
    job = create(&story, way);
    tt_world_post_all(job);
    tt_world_run(story.world, tt_world_now(story.world) + BREAKS_NS);
    assert_true(tt_world_is_running(job));
    was_up = tt_sim_sever(story.world->sim, ends[0], ends[1]);
    tt_world_run_job(job, story.start_ns + TT_NS_PER_S);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        told += job->parts[rank].status != TUTTI_OK;
        expect_blame(job, rank, ends);
    }
    assert_true(was_up || told == 0);
    tt_story_forgive_reads(&story);
    tt_story_end(&story);
    return told;
}

static void ends_of_what_breaks_blame_each_other_and_nobody_blames_a_third(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        uint32_t told = 0;

        for (uint32_t rank = 1; rank < RANKS; rank++) {
            told += break_one(&ways[i], (uint32_t[2]){0, rank}, rank);
            told += rank % 3 == 0 ? break_one(&ways[i], (uint32_t[2]){rank, (rank + 3) % RANKS}, RANKS + rank) : 0;
        }
        print_message("%s by %s: %u ranks were told\n", tt_kind_word(ways[i].kind), tt_method_row(ways[i].method)->name,
                      told);
        assert_in_range(told, 5 * RANKS, 2 * RANKS * RANKS);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ends_of_what_breaks_blame_each_other_and_nobody_blames_a_third),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
