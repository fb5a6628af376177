/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Ranks that disagree, die, get stuck or leave, and what the others are told. Links as in support/story.h; a crash is
 * noticed after 1 ms, a collective times out after 1 s, and the roll call is held in its last quarter.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "support/story.h"

enum { RANKS = 5 };

/* Far more than word of a failure needs among five ranks. */
#define SPREAD_NS (100 * TT_NS_PER_US)

static struct tt_world_job *begin(struct tt_story *story, enum tt_collective_kind kind, uint64_t bytes)
{
    tt_story_prepare(story, RANKS);
    tt_story_begin(story, RANKS);
    return tt_world_job_create(story->group, kind, 0, bytes, TT_METHOD_MULTICAST);
}

static void run_jobs(struct tt_story *story, struct tt_world_job *job)
{
    tt_world_run_job(job, story->start_ns + 100 * TT_NS_PER_S);
}

/* --- Mismatch ----------------------------------------------------------------------------------------------------- */

/* Everybody learns of it between these times. */
static void expect_mismatch(struct tt_story *story, struct tt_world_job *job, uint64_t from_ns, uint64_t to_ns)
{
    tt_world_post_all(job);
    run_jobs(story, job);
    tt_story_all_ended(job, TUTTI_ERR_MISMATCH, TT_RANK_NONE, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_in_range(tt_story_end_of(story, job, rank), from_ns, to_ns);
        assert_false(tt_world_post(job, rank)); /* the group is over */
    }
    tt_story_end(story);
}

static void mismatched_size_is_an_error_on_all_ranks(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < RANKS; odd++) {
        struct tt_story story;
        struct tt_world_job *job = begin(&story, TT_BROADCAST, 5000);

        job->parts[odd].terms.block_bytes = 5001;
        expect_mismatch(&story, job, 0, SPREAD_NS);
    }
}

static void mismatched_root_is_an_error_on_all_ranks(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < RANKS; odd++) {
        struct tt_story story;
        struct tt_world_job *job = begin(&story, TT_BROADCAST, 5000);

        job->parts[odd].terms.root = odd == 3 ? 2 : 3; /* somebody who does not think so */
        expect_mismatch(&story, job, 0, SPREAD_NS);
    }
}

/* Each waits for all others to report, and reports to nobody: until one reminds the other. */
static void two_ranks_that_both_mean_to_be_the_root_find_out_at_20_ms(void **state)
{
    (void)state;
    for (uint32_t odd = 1; odd < RANKS; odd++) {
        struct tt_story story;
        struct tt_world_job *job = begin(&story, TT_BROADCAST, 5000);

        job->parts[odd].terms.root = odd;
        expect_mismatch(&story, job, TT_TREE_REMIND_NS, TT_TREE_REMIND_NS + SPREAD_NS);
    }
}

static void mismatched_kind_is_an_error_on_all_ranks(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < RANKS; odd++) {
        struct tt_story story;
        struct tt_world_job *job = begin(&story, TT_BROADCAST, 5000);

        job->parts[odd].terms.kind = TT_ALLGATHER;
        expect_mismatch(&story, job, 0, SPREAD_NS);
    }
}

static void mismatched_algorithm_is_an_error_on_all_ranks(void **state)
{
    static const enum tt_method methods[] = {TT_METHOD_MULTICAST, TT_METHOD_RING, TT_METHOD_GATHER};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        for (uint32_t odd = 0; odd < RANKS; odd++) {
            for (uint32_t bytes = 0; bytes <= 500; bytes += 500) {
                struct tt_story story;
                struct tt_world_job *job = begin(&story, TT_ALLGATHER, bytes);

                for (uint32_t rank = 0; rank < RANKS; rank++) {
                    job->parts[rank].terms.method = methods[(i + (rank == odd)) % 3];
                }
                expect_mismatch(&story, job, 0, SPREAD_NS);
            }
        }
    }
}

/* Found by the swarm (seed 2806 of its first day): the rank that saw it told everybody, and did not end itself. */
static void mismatch_that_an_early_frame_reveals_ends_the_request_of_the_rank_that_sees_it(void **state)
{
    enum { FEW = 3, BYTES = 500 };
    static const struct {
        enum tt_method method;
        uint32_t frame_bytes;
    } ways[] = {{TT_METHOD_RING, STORY_BARRIER},
                {TT_METHOD_MULTICAST, STORY_GATHER},
                {TT_METHOD_GATHER, STORY_GATHER + BYTES + 1}};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        uint64_t way_ns = STORY_WAY_NS(ways[i].frame_bytes);
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_prepare(&story, FEW);
        tt_story_begin(&story, FEW);
        job = tt_world_job_create(story.group, TT_ALLGATHER, 0, BYTES, ways[i].method);
        job->parts[2].terms.block_bytes = BYTES + 1;
        tt_world_post(job, 2); /* its frame waits at rank 0, and nowhere else */
        tt_world_run(story.world, story.start_ns + way_ns);
        tt_world_post(job, 0);
        tt_world_run(story.world, story.start_ns + SPREAD_NS);
        tt_story_all_ended(job, TUTTI_ERR_MISMATCH, 2, UINT64_C(2)); /* rank 1 has not posted, */
        assert_int_equal(tt_story_end_of(&story, job, 0), way_ns);
        assert_false(tt_world_post(job, 1)); /* and it is too late for it */
        tt_story_end(&story);
    }
}

/* Found by the swarm (seed 129): a failing collective broke a connection that the other group used, too, and the other
 * group was told of the death of a rank that was well. */
static void failure_of_one_group_leaves_another_alone_while_reads_are_under_way(void **state)
{
    struct tt_story story;
    struct tt_world_job *ring, *odd, *other_job;
    struct tt_world_group *other;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, RANKS);
    other = tt_world_group_create(story.world, NULL, RANKS);
    other_job = tt_world_job_create(other, TT_ALLGATHER, 0, 100000, TT_METHOD_RING);
    ring = tt_world_job_create(story.group, TT_ALLGATHER, 0, 100000, TT_METHOD_RING);
    odd = tt_world_job_create(story.group, TT_BROADCAST, 0, 10, TT_METHOD_MULTICAST);
    odd->parts[2].terms.block_bytes = 11;
    tt_world_post_all(ring);
    tt_world_post_all(other_job);
    tt_world_run(story.world, tt_world_now(story.world) + 50 * TT_NS_PER_US);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_true(ring->parts[rank].request->collective.fetch.active_runs > 0);
    }
    tt_world_post_all(odd);
    run_jobs(&story, ring);
    run_jobs(&story, other_job);
    tt_story_all_ended(ring, TUTTI_ERR_MISMATCH, TT_RANK_NONE, 0);
    tt_story_all_ended(odd, TUTTI_ERR_MISMATCH, TT_RANK_NONE, 0);
    tt_story_all_ended(other_job, TUTTI_OK, TT_RANK_NONE, 0);
    tt_story_end(&story);
}

/* Found by the swarm (seed 7178): a failing rank let go of a buffer that its right neighbour still read. */
static void failing_rank_keeps_its_buffer_until_the_right_neighbour_reads_no_more(void **state)
{
    struct tt_story story;
    struct tt_world_job *ring, *odd;
    uint64_t read_ns;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, RANKS);
    ring = tt_world_job_create(story.group, TT_BROADCAST, 0, 500000, TT_METHOD_RING);
    odd = tt_world_job_create(story.group, TT_BROADCAST, 0, 10, TT_METHOD_MULTICAST);
    odd->parts[4].terms.block_bytes = 11;
    tt_world_post_all(ring);
    tt_world_run(story.world, tt_world_now(story.world) + 50 * TT_NS_PER_US);
    tt_world_post_all(odd);
    while (ring->parts[0].is_running) {
        assert_true(tt_world_step(story.world, story.start_ns + TT_NS_PER_S));
    }
    tt_world_leave(story.group, 0); /* the registration goes at once: a read that is late would be a violation */
    run_jobs(&story, ring);
    tt_story_all_ended(ring, TUTTI_ERR_MISMATCH, TT_RANK_NONE, 0);
    read_ns = tt_story_last_arrival(&story, "get-data", 0, 1, 0);
    assert_true(tt_story_end_of(&story, ring, 0) > read_ns);
    tt_story_end(&story);
}

/* --- Death -------------------------------------------------------------------------------------------------------- */

static void dead_rank_is_named_on_every_survivor(void **state)
{
    (void)state;
    for (uint32_t dead = 0; dead < RANKS; dead++) {
        struct tt_story story;
        struct tt_world_job *job = begin(&story, TT_ALLGATHER, 200 * STORY_CHUNK);
        uint64_t death_ns = 100 * TT_NS_PER_US;

        tt_world_post_all(job);
        tt_sim_crash(story.world->sim, dead, story.start_ns + death_ns);
        run_jobs(&story, job);
        tt_story_all_ended(job, TUTTI_ERR_PEER_FAILED, dead, UINT64_C(1) << dead);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            if (rank != dead) {
                assert_true(tt_story_end_of(&story, job, rank) >= death_ns + TT_NS_PER_MS);
                assert_true(tt_story_end_of(&story, job, rank) < death_ns + TT_NS_PER_MS + 2 * TT_NS_PER_MS);
            }
        }
        tt_story_end(&story);
    }
}

static void rank_that_is_dead_before_the_post_is_named_as_well(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, TT_BROADCAST, 5000);

    (void)state;
    tt_sim_crash(story.world->sim, 2, story.start_ns);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != 2) {
            tt_world_post(job, rank);
        }
    }
    run_jobs(&story, job);
    tt_story_all_ended(job, TUTTI_ERR_PEER_FAILED, 2, UINT64_C(1) << 2);
    tt_story_end(&story);
}

static void death_during_the_creation_of_a_group_fails_it_on_every_survivor(void **state)
{
    struct tt_story story;
    struct tt_world_group *group;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, 0);
    tt_sim_crash(story.world->sim, 3, story.start_ns + 3 * TT_NS_PER_US);
    group = tt_world_group_begin(story.world, NULL, RANKS);
    tt_world_run(story.world, story.start_ns + 5 * TT_NS_PER_MS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != 3) {
            assert_true(group->members[rank].is_created);
            assert_int_equal(group->members[rank].status, TUTTI_ERR_PEER_FAILED);
            assert_int_equal(group->members[rank].failed_rank, 3);
        }
    }
    tt_story_end(&story);
}

/* --- Stuck -------------------------------------------------------------------------------------------------------- */

static void stuck_rank_is_named_when_the_deadline_comes(void **state)
{
    (void)state;
    for (uint32_t stuck = 0; stuck < RANKS; stuck++) {
        struct tt_story story;
        struct tt_world_job *job = begin(&story, TT_ALLGATHER, 20 * STORY_CHUNK);

        tt_sim_stall(story.world->sim, stuck, story.start_ns + 10 * TT_NS_PER_S);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            if (rank != stuck) {
                tt_world_post(job, rank);
            }
        }
        tt_world_run(story.world, story.start_ns + TT_NS_PER_S + SPREAD_NS);
        tt_story_all_ended(job, TUTTI_ERR_TIMED_OUT, stuck, UINT64_C(1) << stuck);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            assert_true(rank == stuck || tt_story_end_of(&story, job, rank) >= TT_NS_PER_S);
        }
        tt_story_end(&story);
    }
}

/* Every rank but the stuck one either did not need it any more, or names it; its left neighbour needs its `final`. */
static void expect_ok_or_named(const struct tt_world_job *job, uint32_t stuck)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct tt_world_part *part = &job->parts[rank];

        if (rank == stuck) {
            continue;
        }
        assert_false(part->is_running);
        if (part->status != TUTTI_OK || rank == (stuck + RANKS - 1) % RANKS) {
            assert_int_equal(part->status, TUTTI_ERR_TIMED_OUT);
            assert_int_equal(part->failed_rank, stuck);
        }
    }
}

static void rank_that_gets_stuck_in_the_middle_is_named_too(void **state)
{
    (void)state;
    for (uint32_t stuck = 0; stuck < RANKS; stuck++) {
        struct tt_story story;
        struct tt_world_job *job = begin(&story, TT_ALLGATHER, 100 * STORY_CHUNK);

        tt_world_post_all(job);
        tt_world_run(story.world, story.start_ns + 60 * TT_NS_PER_US);
        tt_sim_stall(story.world->sim, stuck, story.start_ns + 10 * TT_NS_PER_S);
        tt_world_run(story.world, story.start_ns + TT_NS_PER_S + TT_COLLECTIVE_PATIENCE_NS + SPREAD_NS);
        expect_ok_or_named(job, stuck);
        run_jobs(&story, job); /* the stuck one wakes; it may have all it needs, or learns what was said of it */
        assert_true(job->parts[stuck].status == TUTTI_OK || job->parts[stuck].failed_rank == stuck);
        tt_story_end(&story);
    }
}

/* Found by the swarm (seed 17 of its first day): it culprit whom it had been waiting for. */
static void rank_that_slept_past_its_deadline_blames_nobody_else(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, TT_ALLGATHER, 20 * STORY_CHUNK);

    (void)state;
    tt_world_post_all(job);
    tt_world_run(story.world, story.start_ns + STORY_WAY_NS(STORY_GATHER) / 2); /* it has reported, and does not send */
    tt_sim_stall(story.world->sim, 1, story.start_ns + 5 * TT_NS_PER_S);
    run_jobs(&story, job);
    tt_story_all_ended(job, TUTTI_ERR_TIMED_OUT, 1, 0);
    for (uint32_t rank = 0; rank < story.group->size; rank++) {
        const char *text = story.group->members[rank].group->failure_text;

        assert_non_null(strstr(text, rank == 1 ? "waited for this rank, rank 1" : "missing rank 1"));
    }
    assert_true(tt_story_end_of(&story, job, 1) < 5 * TT_NS_PER_S + SPREAD_NS);
    tt_story_end(&story);
}

/* Found by the swarm: ranks that asked about different collectives answered each other for ever, ever more of them. */
static void roll_calls_about_different_collectives_come_to_an_end(void **state)
{
    enum { JOBS = 4 };
    struct tt_story story;
    struct tt_world_job *jobs[JOBS];
    uint64_t frames = 0;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, RANKS);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = tt_world_job_create(story.group, TT_BROADCAST, 0, 20 * STORY_CHUNK, TT_METHOD_MULTICAST);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            if (rank != 1 || i == 0) {
                tt_world_post(jobs[i], rank);
            }
            tt_world_run(story.world, tt_world_now(story.world) + TT_NS_PER_US);
        }
    }
    /* Rank 1 holds up its left neighbour in the first one, which it has not ended, and all others in the next. */
    tt_sim_stall(story.world->sim, 1, story.start_ns + 10 * TT_NS_PER_S);
    for (uint32_t i = 0; i < JOBS; i++) {
        tt_world_run(story.world, story.start_ns + 3 * TT_NS_PER_S);
        expect_ok_or_named(jobs[i], 1);
    }
    tt_story_all_ended(jobs[JOBS - 1], TUTTI_ERR_TIMED_OUT, 1, UINT64_C(1) << 1);
    assert_int_equal(jobs[0]->parts[2].status, TUTTI_OK); /* so the others did ask about another one */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        frames += story.group->members[rank].group->frames_sent;
    }
    assert_true(frames < 1000);
    tt_story_end(&story);
}

/* --- Leaving ------------------------------------------------------------------------------------------------------ */

static void a_rank_that_left_is_not_a_failure_for_those_that_do_not_need_it(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, TT_BROADCAST, 20 * STORY_CHUNK);

    (void)state;
    tt_sim_drop_chunk(story.world->sim, 2, tt_story_imm(0, 7), 1);
    tt_world_post_all(job);
    while (job->parts[4].is_running) {
        assert_true(tt_world_step(story.world, story.start_ns + TT_NS_PER_S));
    }
    assert_true(job->parts[2].is_running && job->parts[1].is_running); /* the hole is not filled yet */
    tt_world_leave(story.group, 4);
    run_jobs(&story, job);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    for (uint32_t rank = 0; rank < 4; rank++) {
        assert_int_equal(story.group->members[rank].group->member.status, TUTTI_OK);
    }
    tt_story_end(&story);
}

static void a_rank_that_left_is_named_by_whoever_needs_it_afterwards(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, TT_BROADCAST, 5000);

    (void)state;
    tt_world_post_all(job);
    run_jobs(&story, job);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    tt_world_leave(story.group, 4);
    tt_world_run(story.world, tt_world_now(story.world) + TT_NS_PER_MS);
    for (uint32_t rank = 0; rank < 4; rank++) {
        if (!tt_world_post(job, rank)) {
            continue; /* has heard of it already */
        }
        tt_world_run(story.world, tt_world_now(story.world) + TT_NS_PER_MS);
        assert_int_equal(job->parts[rank].status, TUTTI_ERR_PEER_FAILED);
        assert_int_equal(job->parts[rank].failed_rank, 4);
        assert_non_null(strstr(story.group->members[rank].group->failure_text, "rank 4 has left the group"));
    }
    assert_int_equal(job->parts[0].posts, 2);
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mismatched_size_is_an_error_on_all_ranks),
        cmocka_unit_test(mismatched_root_is_an_error_on_all_ranks),
        cmocka_unit_test(two_ranks_that_both_mean_to_be_the_root_find_out_at_20_ms),
        cmocka_unit_test(mismatched_kind_is_an_error_on_all_ranks),
        cmocka_unit_test(mismatched_algorithm_is_an_error_on_all_ranks),
        cmocka_unit_test(mismatch_that_an_early_frame_reveals_ends_the_request_of_the_rank_that_sees_it),
        cmocka_unit_test(failure_of_one_group_leaves_another_alone_while_reads_are_under_way),
        cmocka_unit_test(failing_rank_keeps_its_buffer_until_the_right_neighbour_reads_no_more),
        cmocka_unit_test(dead_rank_is_named_on_every_survivor),
        cmocka_unit_test(rank_that_is_dead_before_the_post_is_named_as_well),
        cmocka_unit_test(death_during_the_creation_of_a_group_fails_it_on_every_survivor),
        cmocka_unit_test(stuck_rank_is_named_when_the_deadline_comes),
        cmocka_unit_test(rank_that_gets_stuck_in_the_middle_is_named_too),
        cmocka_unit_test(rank_that_slept_past_its_deadline_blames_nobody_else),
        cmocka_unit_test(roll_calls_about_different_collectives_come_to_an_end),
        cmocka_unit_test(a_rank_that_left_is_not_a_failure_for_those_that_do_not_need_it),
        cmocka_unit_test(a_rank_that_left_is_named_by_whoever_needs_it_afterwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
