/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A barrier of two ranks: an eager Allgather of blocks without bytes. Links as in support/story.h; a rank that misses
 * the other's datagram asks after 5 ms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/story.h"

enum { RANKS = 2, BYTES = 500 };

/* What is told to be available has no bytes to be read. */
#define REPAIR_NS                                                                                                      \
    (STORY_WAY_NS(STORY_ASK) + STORY_WAY_NS(STORY_KEPT) + STORY_WAY_NS(STORY_FETCH) + STORY_WAY_NS(STORY_AVAILABLE))

static void begin(struct tt_story *story)
{
    tt_story_prepare(story, RANKS);
    tt_story_begin(story, RANKS);
}

static struct tt_world_job *barrier(struct tt_story *story)
{
    return tt_world_job_create(story->group, TT_ALLGATHER, 0, 0, TT_METHOD_EAGER);
}

/* Of the first collective, on its way to this rank. */
static void lose(struct tt_story *story, uint32_t rank)
{
    tt_sim_drop_chunk(story->world->sim, rank, tt_story_eager_imm(0, 1 - rank), 1);
}

static void run(struct tt_story *story, struct tt_world_job *job)
{
    tt_world_run_job(job, tt_world_now(story->world) + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
}

static uint32_t frames(struct tt_story *story)
{
    return tt_story_arrivals(story, "frame", TT_RANK_NONE, TT_RANK_NONE, 0);
}

static void a_barrier_of_two_is_an_empty_datagram_each_way(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story);
    job = barrier(&story);
    tt_world_post(job, 0);
    tt_world_run(story.world, story.start_ns + TT_NS_PER_MS);
    assert_true(job->parts[0].is_running);
    tt_world_post(job, 1);
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 0), TT_NS_PER_MS + STORY_WAY_NS(0));
    assert_int_equal(tt_story_end_of(&story, job, 1), TT_NS_PER_MS); /* the other one's was there */
    assert_int_equal(frames(&story), 0);
    tt_story_end(&story);
}

static void a_lost_datagram_of_a_barrier_is_asked_for_and_nothing_is_read(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story);
    job = barrier(&story);
    lose(&story, 1);
    tt_world_post_all(job);
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 0), STORY_WAY_NS(0));
    assert_int_equal(tt_story_end_of(&story, job, 1), 5 * TT_NS_PER_MS + REPAIR_NS);
    assert_int_equal(tt_story_arrivals(&story, "get-data", 0, 1, 0), 0);
    tt_story_end(&story);
}

/* Both ask, and neither has everything. */
static void a_barrier_ends_though_both_datagrams_are_lost(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story);
    job = barrier(&story);
    lose(&story, 0);
    lose(&story, 1);
    tt_world_post_all(job);
    run(&story, job);
    for (uint32_t rank = 0; rank < 2; rank++) {
        assert_int_equal(tt_story_end_of(&story, job, rank), 5 * TT_NS_PER_MS + REPAIR_NS);
    }
    tt_story_end(&story);
}

/* More of them than there are tags. */
static void barriers_of_two_follow_one_another_without_a_frame_but_for_credit(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story);
    job = barrier(&story);
    for (uint32_t i = 0; i < 300; i++) {
        uint64_t begun_ns = tt_world_now(story.world);

        tt_world_post_all(job);
        run(&story, job);
        assert_int_equal(tt_world_now(story.world) - begun_ns, STORY_WAY_NS(0));
    }
    assert_int_equal(frames(&story), 0); /* each datagram says how far its sender has got */
    tt_story_end(&story);
}

/* A chunk of no bytes is nothing else's, so data does not pass for a barrier. */
static void a_barrier_and_data_are_a_mismatch(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story);
    job = tt_world_job_create(story.group, TT_ALLGATHER, 0, BYTES, TT_METHOD_EAGER);
    job->parts[1].terms.block_bytes = 0;
    tt_world_post_all(job);
    tt_world_run_job(job, story.start_ns + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_ERR_MISMATCH, TT_RANK_NONE, 0);
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_of_two_is_an_empty_datagram_each_way),
        cmocka_unit_test(a_lost_datagram_of_a_barrier_is_asked_for_and_nothing_is_read),
        cmocka_unit_test(a_barrier_ends_though_both_datagrams_are_lost),
        cmocka_unit_test(barriers_of_two_follow_one_another_without_a_frame_but_for_credit),
        cmocka_unit_test(a_barrier_and_data_are_a_mismatch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
