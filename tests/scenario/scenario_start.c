/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a group comes about: the start-up probe over multicast that works, loses a probe or does not get through, and
 * with a rank that is late. Links as in support/story.h; probes are waited for 50 ms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/story.h"

enum { RANKS = 5 };

static void multicast_that_does_not_get_through_leads_to_the_ring_on_all_ranks(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    struct tt_sim_faults deaf = {.loss_ppm = 0};

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, 0);
    /* Rank 2 hears every rank but rank 3: exactly those probes are lost. */
    tt_sim_set_faults(story.world->sim, 2, &deaf);
    tt_sim_drop_chunk(story.world->sim, 2, tt_imm_encode(TT_TAG_PROBE, 3), UINT32_MAX);
    story.group = tt_world_group_create(story.world, NULL, RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_false(story.group->members[rank].multicast);
        assert_int_equal(story.group->members[rank].group->probe_failed_rank, 3);
        assert_true(story.group->members[rank].created_ns - story.start_ns >= 50 * TT_NS_PER_MS); /* it tried */
    }
    tt_world_run(story.world, 200 * TT_NS_PER_MS);
    story.start_ns = tt_world_now(story.world);
    job = tt_world_job_create(story.group, TT_ALLGATHER, 0, 5000, TT_METHOD_MULTICAST);
    tt_world_post_all(job);
    tt_world_run_job(job, story.start_ns + 100 * TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    assert_int_equal(tt_story_arrivals(&story, "chunk", 0, 1, 0), 0);
    tt_story_end(&story);
}

static void a_lost_probe_is_repeated(void **state)
{
    struct tt_story story;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, 0);
    tt_sim_drop_chunk(story.world->sim, 2, tt_imm_encode(TT_TAG_PROBE, 3), 1);
    story.group = tt_world_group_create(story.world, NULL, RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_true(story.group->members[rank].multicast);
        assert_true(story.group->members[rank].created_ns - story.start_ns > 5 * TT_NS_PER_MS);
        assert_true(story.group->members[rank].created_ns - story.start_ns < 6 * TT_NS_PER_MS);
    }
    tt_story_end(&story);
}

/* Rank 0 hears of all at once where nothing is slow; and in a group this large not all are its children. */
static void creating_a_group_takes_one_frame_up_and_one_down_for_each_rank(void **state)
{
    static const uint32_t sizes[] = {2, RANKS, 16, 17, 40};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct tt_story story;
        uint64_t frames = 0;

        tt_story_prepare(&story, sizes[i]);
        tt_story_begin(&story, 0);
        story.group = tt_world_group_create(story.world, NULL, sizes[i]);
        for (uint32_t rank = 0; rank < sizes[i]; rank++) {
            assert_true(story.group->members[rank].multicast);
            assert_true(story.group->members[rank].created_ns - story.start_ns < TT_NS_PER_MS);
            frames += story.group->members[rank].group->frames_sent;
        }
        assert_int_equal(frames, 2 * (sizes[i] - 1));
        tt_story_end(&story);
    }
}

static void a_rank_that_stands_still_at_the_start_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) { /* rank 0, and another */
        struct tt_story story;

        tt_story_prepare(&story, RANKS);
        tt_story_begin(&story, 0);
        tt_sim_stall(story.world->sim, late, story.start_ns + 2 * TT_NS_PER_S);
        story.group = tt_world_group_create(story.world, NULL, RANKS);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_true(story.group->members[rank].multicast);
            assert_in_range(story.group->members[rank].created_ns - story.start_ns, 2 * TT_NS_PER_S,
                            2 * TT_NS_PER_S + 41 * TT_NS_PER_MS);
        }
        tt_story_end(&story);
    }
}

static uint64_t readings;

/* Every look at the clock takes a nanosecond. */
static uint64_t ticking(void *argument)
{
    const struct tt_world_clock *clock = argument;

    return tt_sim_now(clock->sim) + readings++;
}

/* What is posted begins at the time of the progress that takes it, and is not older than what follows in that. */
static void time_does_not_go_back_after_a_post(void **state)
{
    struct tt_world_options options;
    struct tt_world_group *group;
    struct tt_world_job *job;
    struct tt_world *world;

    (void)state;
    tt_world_options_init(&options, 2);
    world = tt_world_create(&options);
    group = tt_world_group_create(world, NULL, 2);
    job = tt_world_job_create(group, TT_BROADCAST, 0, 1000, TT_METHOD_RING);
    world->engines[0]->now_ns = ticking;
    assert_true(tt_world_post(job, 0));
    assert_true(job->parts[0].request->collective.timeout.deadline_ns ==
                world->engines[0]->looked_ns + options.settings.timeout_ns);
    assert_true(tt_world_post(job, 1));
    tt_world_run_job(job, 100 * TT_NS_PER_MS);
    assert_int_equal(tt_world_destroy(world, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(multicast_that_does_not_get_through_leads_to_the_ring_on_all_ranks),
        cmocka_unit_test(a_lost_probe_is_repeated),
        cmocka_unit_test(creating_a_group_takes_one_frame_up_and_one_down_for_each_rank),
        cmocka_unit_test(a_rank_that_stands_still_at_the_start_is_waited_for),
        cmocka_unit_test(time_does_not_go_back_after_a_post),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
