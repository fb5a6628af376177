/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Broadcast down the tree, and what happens when a rank is late, dead or of another opinion. Links as in
 * support/story.h; each rank's uplink carries one frame after the other.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/eager.h"
#include "proto/tree.h"
#include "support/story.h"

enum { RANKS = 8, BYTES = 500, READY = 24 + 24, HEADER = READY + 6, DATA = HEADER + BYTES };

static void begin(struct tt_story *story, uint32_t ranks)
{
    tt_story_prepare(story, ranks);
    tt_story_begin(story, ranks);
}

static struct tt_world_job *tree(struct tt_story *story, uint32_t root, uint64_t bytes)
{
    return tt_world_job_create(story->group, TT_BROADCAST, root, bytes, TT_METHOD_TREE);
}

static void run(struct tt_story *story, struct tt_world_job *job)
{
    tt_world_run_job(job, tt_world_now(story->world) + 2 * TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
}

static void the_farthest_leaf_has_its_data_after_one_ready_and_three_hops(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t ready = STORY_WAY_NS(READY), hop = STORY_WAY_NS(DATA);

    (void)state;
    begin(&story, RANKS);
    job = tree(&story, 0, BYTES);
    tt_world_post_all(job);
    run(&story, job);
    /* Three READY come to the root at once, through its one downlink: the last one is that of vertex 4, or waits for
     * two others; the largest subtree is served first whenever it is ready. */
    assert_in_range(tt_story_end_of(&story, job, 4), ready + hop, ready + hop + 2 * READY + 2 * DATA);
    assert_in_range(tt_story_end_of(&story, job, 7), ready + 3 * hop, ready + 3 * hop + 2 * READY + 3 * DATA);
    assert_int_equal(tt_story_arrivals(&story, "frame", 0, 4, DATA), 1);
    assert_int_equal(tt_story_arrivals(&story, "frame", 6, 7, DATA), 1);
    assert_int_equal(tt_story_arrivals(&story, "frame", 0, 7, DATA), 0);
    tt_story_end(&story);
}

static void two_ranks_need_one_ready_and_one_piece(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story, 2);
    job = tree(&story, 1, BYTES);
    tt_world_post_all(job);
    run(&story, job);
    assert_int_equal(tt_story_first_arrival(&story, "frame", 0, 1, READY), STORY_WAY_NS(READY));
    assert_int_equal(tt_story_end_of(&story, job, 1), STORY_WAY_NS(READY)); /* the fabric has its copy */
    assert_int_equal(tt_story_end_of(&story, job, 0), STORY_WAY_NS(READY) + STORY_WAY_NS(DATA));
    tt_story_end(&story);
}

static void nothing_is_sent_to_a_rank_that_has_not_posted(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t late_ns = 5 * TT_NS_PER_MS;

    (void)state;
    begin(&story, 2);
    job = tree(&story, 0, BYTES);
    tt_world_post(job, 0);
    tt_world_run(story.world, story.start_ns + late_ns);
    assert_true(job->parts[0].is_running);
    assert_int_equal(tt_story_arrivals(&story, "frame", 0, 1, 0), 0);
    tt_world_post(job, 1);
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 1), late_ns + STORY_WAY_NS(READY) + STORY_WAY_NS(DATA));
    tt_story_end(&story);
}

static void a_late_parent_finds_what_its_children_said_before(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story, RANKS);
    job = tree(&story, 0, 3000);
    for (uint32_t rank = RANKS; rank-- > 1;) {
        tt_world_post(job, rank);
    }
    tt_world_run(story.world, story.start_ns + TT_NS_PER_MS);
    tt_world_post(job, 0);
    run(&story, job);
    assert_int_equal(tt_story_arrivals(&story, "frame", 4, 0, READY), 1); /* nobody had to say it again */
    tt_story_end(&story);
}

static void a_child_that_is_late_is_reminded_at_20_ms(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story, 2);
    job = tree(&story, 0, BYTES);
    tt_world_post(job, 0);
    tt_world_run(story.world, story.start_ns + 70 * TT_NS_PER_MS);
    assert_int_equal(tt_story_arrivals(&story, "frame", 0, 1, READY), 2);
    assert_int_equal(tt_story_first_arrival(&story, "frame", 0, 1, READY), TT_TREE_REMIND_NS + STORY_WAY_NS(READY));
    assert_int_equal(tt_story_last_arrival(&story, "frame", 0, 1, READY), 3 * TT_TREE_REMIND_NS + STORY_WAY_NS(READY));
    tt_world_post(job, 1);
    run(&story, job);
    tt_story_end(&story);
}

static void two_ranks_that_both_mean_to_be_the_root_are_told(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story, 2);
    job = tree(&story, 0, BYTES);
    job->parts[1].terms.root = 1;
    tt_world_post_all(job);
    tt_world_run_job(job, tt_world_now(story.world) + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_ERR_MISMATCH, TT_RANK_NONE, 0);
    assert_in_range(tt_story_end_of(&story, job, 0), TT_TREE_REMIND_NS, TT_TREE_REMIND_NS + TT_NS_PER_MS);
    tt_story_end(&story);
}

/* Who had all it wanted before anybody could know has ended well; the group has failed all the same. */
static void must_be_told(struct tt_story *story, uint32_t odd, enum tt_method other)
{
    struct tt_world_job *job = tree(story, 2, BYTES);

    job->parts[odd].terms.method = other;
    tt_world_post_all(job);
    tt_world_run_job(job, tt_world_now(story->world) + TT_NS_PER_S);
    tt_world_run(story->world, tt_world_now(story->world) + TT_NS_PER_MS); /* word travels */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_false(job->parts[rank].is_running);
        assert_true(job->parts[rank].status == TUTTI_OK || job->parts[rank].status == TUTTI_ERR_MISMATCH);
        assert_true(atomic_load(&story->group->members[rank].group->failed));
    }
    tt_story_end(story);
}

static void ranks_that_mean_other_algorithms_are_told(void **state)
{
    static const enum tt_method others[] = {TT_METHOD_RING, TT_METHOD_MULTICAST, TT_METHOD_EAGER};

    (void)state;
    for (uint32_t odd = 0; odd < RANKS; odd++) {
        for (uint32_t i = 0; i < 3; i++) {
            struct tt_story story;

            begin(&story, RANKS);
            must_be_told(&story, odd, others[i]);
        }
    }
}

static void a_rank_that_dies_ends_it_for_all_that_still_wait(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story, RANKS);
    job = tree(&story, 0, BYTES);
    tt_sim_crash(story.world->sim, 6, tt_world_now(story.world) + 100);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != 6) {
            tt_world_post(job, rank);
        }
    }
    tt_world_run_job(job, tt_world_now(story.world) + 5 * TT_NS_PER_S);
    assert_int_equal(job->parts[7].status, TUTTI_ERR_PEER_FAILED); /* below it */
    assert_int_equal(job->parts[7].failed_rank, 6);
    assert_int_equal(job->parts[4].status, TUTTI_ERR_PEER_FAILED); /* above it */
    assert_int_equal(job->parts[5].status, TUTTI_OK);              /* in another branch */
    tt_story_end(&story);
}

/* With 64 in flight each rank may be 64 ahead of its child, and 0, 4, 6, 7 is a line of three: without credit rank 0
 * would tell rank 7 of collectives for which that keeps no place yet. */
static void roots_do_not_run_further_ahead_than_frames_are_kept(void **state)
{
    enum { BELOW = 128, POSTS = 190 };
    struct tt_story story;
    struct tt_world_job *jobs[POSTS];

    (void)state;
    tt_story_prepare(&story, RANKS);
    story.options.settings.in_flight = 64;
    tt_story_begin(&story, RANKS);
    for (uint32_t i = 0; i < POSTS; i++) {
        jobs[i] = tree(&story, i < BELOW ? 0 : 7, 1 + i % 7);
        for (uint32_t rank = 0; rank < RANKS - 1; rank++) {
            tt_world_post(jobs[i], rank);
        }
    }
    tt_world_run(story.world, story.start_ns + 10 * TT_NS_PER_MS);
    assert_false(jobs[TT_EAGER_WINDOW - 1]->parts[0].is_running); /* that far it goes */
    assert_true(jobs[TT_EAGER_WINDOW]->parts[0].is_running);
    for (uint32_t i = 0; i < POSTS; i++) {
        tt_world_post(jobs[i], RANKS - 1);
    }
    for (uint32_t i = 0; i < POSTS; i++) {
        run(&story, jobs[i]);
    }
    tt_story_end(&story);
}

/* --- Eager: where there is no multicast --------------------------------------------------------------------------- */

static void begin_eager(struct tt_story *story, uint32_t ranks)
{
    tt_story_prepare(story, ranks);
    story->options.settings.algorithm = TT_ALGORITHM_TREE; /* so nothing is multicast */
    tt_story_begin(story, ranks);
    assert_false(story->group->members[0].group->multicast);
}

static void eager_data_has_arrived_after_three_hops_and_nobody_says_ready(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t hop = STORY_WAY_NS(DATA);

    (void)state;
    begin_eager(&story, RANKS);
    job = tree(&story, 0, BYTES);
    tt_world_post_all(job);
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 0), 0); /* the fabric has its copies */
    assert_int_equal(tt_story_end_of(&story, job, 4), hop);
    assert_int_equal(tt_story_end_of(&story, job, 7), 3 * hop);
    assert_int_equal(tt_story_arrivals(&story, "frame", TT_RANK_NONE, TT_RANK_NONE, READY), 0);
    assert_int_equal(tt_story_arrivals(&story, "frame", TT_RANK_NONE, TT_RANK_NONE, DATA), RANKS - 1);
    tt_story_end(&story);
}

/* Found by the swarm (seed 701124): rank 0 waits for another one's data, and all others for that of rank 0. */
static void eager_ranks_that_each_wait_for_another_root_find_out_at_20_ms(void **state)
{
    (void)state;
    for (uint32_t ranks = 2; ranks <= RANKS; ranks++) {
        for (uint32_t other = 1; other < ranks; other++) {
            struct tt_story story;
            struct tt_world_job *job;

            begin_eager(&story, ranks);
            job = tree(&story, 0, BYTES);
            job->parts[0].terms.root = other;
            tt_world_post_all(job);
            tt_world_run_job(job, tt_world_now(story.world) + TT_NS_PER_S);
            tt_story_all_ended(job, TUTTI_ERR_MISMATCH, TT_RANK_NONE, 0);
            assert_in_range(tt_story_end_of(&story, job, 0), TT_TREE_REMIND_NS, TT_TREE_REMIND_NS + TT_NS_PER_MS);
            tt_story_end(&story);
        }
    }
}

/* It has said that it waits, and what it waits for was on its way. */
static void who_waits_for_long_in_an_eager_tree_gets_its_data_all_the_same(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin_eager(&story, RANKS);
    job = tree(&story, 0, BYTES);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        tt_world_post(job, rank);
    }
    tt_world_run(story.world, story.start_ns + TT_TREE_REMIND_NS - 1);
    tt_world_post(job, 0);
    run(&story, job);
    tt_world_run(story.world, tt_world_now(story.world) + TT_NS_PER_MS);
    assert_int_equal(tt_story_arrivals(&story, "frame", TT_RANK_NONE, TT_RANK_NONE, READY), RANKS - 1);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(story.group->members[rank].group->member.drops_frame, 0);
    }
    tt_story_end(&story);
}

static void a_rank_that_posts_late_has_kept_its_data_and_ends_at_once(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t late_ns = 5 * TT_NS_PER_MS;

    (void)state;
    begin_eager(&story, RANKS);
    job = tree(&story, 0, 3 * TT_FRAME_DATA_BYTES + 1);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != 4) {
            tt_world_post(job, rank);
        }
    }
    tt_world_run(story.world, story.start_ns + late_ns);
    assert_false(job->parts[0].is_running);
    assert_false(job->parts[3].is_running); /* in another branch */
    assert_true(job->parts[5].is_running);
    assert_true(story.group->members[4].group->member.pieces.used_bytes > 3 * TT_FRAME_DATA_BYTES);
    tt_world_post(job, 4);
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 4), late_ns);
    assert_int_equal(story.group->members[4].group->member.pieces.used_bytes, 0);
    tt_story_end(&story);
}

/* A log holds four of 16 KiB: the fifth waits until everybody has started the first. Then the others come, all right.
 */
static void a_root_sends_no_more_than_a_log_holds_ahead_of_the_slowest(void **state)
{
    enum { POSTS = 20, HELD = 4 };
    struct tt_story story;
    struct tt_world_job *jobs[POSTS];

    (void)state;
    begin_eager(&story, RANKS);
    for (uint32_t i = 0; i < POSTS; i++) {
        jobs[i] = tree(&story, 0, 16384);
        for (uint32_t rank = 0; rank < RANKS - 1; rank++) {
            tt_world_post(jobs[i], rank);
        }
    }
    tt_world_run(story.world, story.start_ns + 10 * TT_NS_PER_MS);
    assert_false(jobs[HELD - 1]->parts[0].is_running);
    assert_true(jobs[HELD]->parts[0].is_running);
    for (uint32_t i = 0; i < POSTS; i++) {
        tt_world_post(jobs[i], RANKS - 1);
    }
    for (uint32_t i = 0; i < POSTS; i++) {
        run(&story, jobs[i]);
    }
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(story.group->members[rank].group->member.drops_frame, 0);
    }
    tt_story_end(&story);
}

/* Rank 8 has posted all, and waits for rank 7 in the first; when that ends, what came early of the others goes out to
 * three children in one step: more frames than a list of actions holds. */
static void what_came_early_is_passed_on_in_as_many_steps_as_it_takes(void **state)
{
    enum { MANY = 13, LATE = 7, JOBS = 3 };
    static const uint64_t bytes[JOBS] = {1, 14 * TT_FRAME_DATA_BYTES, 65536};
    struct tt_story story;
    struct tt_world_job *jobs[JOBS];

    (void)state;
    tt_story_prepare(&story, MANY);
    story.options.settings.algorithm = TT_ALGORITHM_TREE;
    story.options.settings.in_flight = 1;
    tt_story_begin(&story, MANY);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = tree(&story, i == 0 ? 1 : 0, bytes[i]);
        for (uint32_t rank = 0; rank < MANY; rank++) {
            if (rank != LATE) {
                tt_world_post(jobs[i], rank);
            }
        }
    }
    tt_world_run(story.world, story.start_ns + 2 * TT_NS_PER_MS);
    assert_false(jobs[JOBS - 1]->parts[0].is_running);
    assert_true(jobs[0]->parts[8].is_running);
    for (uint32_t i = 0; i < JOBS; i++) {
        tt_world_post(jobs[i], LATE);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        run(&story, jobs[i]);
    }
    tt_story_end(&story);
}

static void two_roots_are_told_by_each_others_data(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin_eager(&story, 2);
    job = tree(&story, 0, BYTES);
    job->parts[1].terms.root = 1;
    tt_world_post_all(job);
    tt_world_run_job(job, tt_world_now(story.world) + TT_NS_PER_S);
    tt_world_run(story.world, tt_world_now(story.world) + TT_NS_PER_MS);
    for (uint32_t rank = 0; rank < 2; rank++) { /* both had sent it, and ended */
        assert_true(atomic_load(&story.group->members[rank].group->failed));
        assert_int_equal(story.group->members[rank].group->member.status, TUTTI_ERR_MISMATCH);
    }
    tt_story_end(&story);
}

static void ranks_that_mean_other_algorithms_than_an_eager_tree_are_told(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < RANKS; odd++) {
        struct tt_story story;

        begin_eager(&story, RANKS);
        must_be_told(&story, odd, TT_METHOD_RING);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_farthest_leaf_has_its_data_after_one_ready_and_three_hops),
        cmocka_unit_test(two_ranks_need_one_ready_and_one_piece),
        cmocka_unit_test(nothing_is_sent_to_a_rank_that_has_not_posted),
        cmocka_unit_test(a_late_parent_finds_what_its_children_said_before),
        cmocka_unit_test(a_child_that_is_late_is_reminded_at_20_ms),
        cmocka_unit_test(two_ranks_that_both_mean_to_be_the_root_are_told),
        cmocka_unit_test(ranks_that_mean_other_algorithms_are_told),
        cmocka_unit_test(a_rank_that_dies_ends_it_for_all_that_still_wait),
        cmocka_unit_test(roots_do_not_run_further_ahead_than_frames_are_kept),
        cmocka_unit_test(eager_data_has_arrived_after_three_hops_and_nobody_says_ready),
        cmocka_unit_test(eager_ranks_that_each_wait_for_another_root_find_out_at_20_ms),
        cmocka_unit_test(who_waits_for_long_in_an_eager_tree_gets_its_data_all_the_same),
        cmocka_unit_test(a_rank_that_posts_late_has_kept_its_data_and_ends_at_once),
        cmocka_unit_test(a_root_sends_no_more_than_a_log_holds_ahead_of_the_slowest),
        cmocka_unit_test(what_came_early_is_passed_on_in_as_many_steps_as_it_takes),
        cmocka_unit_test(two_roots_are_told_by_each_others_data),
        cmocka_unit_test(ranks_that_mean_other_algorithms_than_an_eager_tree_are_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
