/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Triggered messages that go ahead of their barrier: the first ones of their kind, method and root do not, as a rank
 * that has not posted yet may not be connected to who sends them; later ones do, and a rank that is late keeps them.
 * Links as in support/story.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/triggers.h"
#include "support/story.h"
#include "wire/trigger_frame.h"

enum { WORDS = 10, BYTES = 8 * WORDS, RANKS = 4, SPREAD_NS = 50000 };

/* Frames on the wire: a packet and the answer to one; a barrier's, with the type, the operation and the length of
 * elements. */
enum { ANSWER = TT_TRIGGER_FRAME_HEAD_BYTES, PACKET = ANSWER + BYTES, BARRIER = STORY_BARRIER + 1 + 1 + 4 };

static struct tt_world_job *allreduce(const struct tt_story *story, uint64_t words, enum tt_method method)
{
    return tt_world_job_combine(story->group, TT_ALLREDUCE, 0, words, TT_WORLD_WORDS, false, method);
}

/* --- Times -------------------------------------------------------------------------------------------------------- */

/* The barrier's frame is right behind the packet on the same links. */
static void only_the_first_messages_wait_for_their_barrier(void **state)
{
    struct tt_world_job *first, *other;
    struct tt_story story;

    (void)state;
    tt_story_start(&story, 2);
    first = allreduce(&story, WORDS, TT_METHOD_RECURSIVE_DOUBLING);
    other = allreduce(&story, WORDS, TT_METHOD_RECURSIVE_DOUBLING);
    assert_int_equal(tt_story_time_of(&story, first), STORY_WAY_NS(BARRIER) + STORY_WAY_NS(PACKET));
    assert_int_equal(tt_story_time_of(&story, first), STORY_WAY_NS(PACKET) + BARRIER);
    assert_int_equal(tt_story_time_of(&story, other), STORY_WAY_NS(PACKET) + BARRIER);
    tt_story_end(&story);
}

/* Every other one that is posted before the first one's barrier is over has one in front, too. */
static void what_is_posted_with_the_first_one_waits_as_well(void **state)
{
    struct tt_world_job *jobs[3];
    struct tt_story story;
    uint64_t begun_ns;

    (void)state;
    tt_story_start(&story, 2);
    begun_ns = tt_world_now(story.world);
    for (uint32_t i = 0; i < 3; i++) {
        jobs[i] = allreduce(&story, WORDS, TT_METHOD_RECURSIVE_DOUBLING);
        tt_world_post_all(jobs[i]);
    }
    tt_world_run(story.world, begun_ns + STORY_WAY_NS(BARRIER) - 1);
    for (uint32_t i = 0; i < 3; i++) {
        assert_false(jobs[i]->parts[0].request->relay_started);
    }
    for (uint32_t i = 0; i < 3; i++) {
        tt_world_run_job(jobs[i], begun_ns + TT_NS_PER_S);
        tt_story_all_ended(jobs[i], TUTTI_OK, TT_RANK_NONE, 0);
    }
    tt_story_end(&story);
}

/* Whether the job, posted by all but the last rank, goes ahead; then it is carried out. */
static bool goes_ahead(struct tt_story *story, struct tt_world_job *job)
{
    bool ahead;

    tt_story_post_but(job, RANKS - 1);
    tt_world_run(story->world, tt_world_now(story->world) + TT_NS_PER_MS);
    ahead = job->parts[0].request->relay_started;
    tt_world_post(job, RANKS - 1);
    tt_world_run_job(job, tt_world_now(story->world) + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    tt_world_run(story->world, tt_world_now(story->world) + 10 * TT_NS_PER_MS);
    return ahead;
}

static void what_another_method_or_root_needs_is_not_known_yet(void **state)
{
    struct tt_world_job *halves, *gathers[2];
    struct tt_story story;

    (void)state;
    tt_story_start(&story, RANKS);
    assert_false(goes_ahead(&story, allreduce(&story, WORDS, TT_METHOD_RECURSIVE_DOUBLING)));
    halves = allreduce(&story, WORDS, TT_METHOD_RABENSEIFNER);
    assert_false(goes_ahead(&story, halves));
    assert_true(goes_ahead(&story, halves));
    assert_true(goes_ahead(&story, allreduce(&story, WORDS, TT_METHOD_RECURSIVE_DOUBLING)));
    for (uint32_t root = 0; root < 2; root++) {
        gathers[root] = tt_world_job_create(story.group, TT_GATHER, root, BYTES, TT_METHOD_BINOMIAL);
        assert_false(goes_ahead(&story, gathers[root]));
        assert_true(goes_ahead(&story, gathers[root]));
    }
    assert_false(goes_ahead(&story, gathers[0])); /* one root is remembered */
    tt_story_end(&story);
}

/* Long ones have flow control, and may wait for their turn on the link. */
static void small_parts_are_made_ahead_of_the_release_and_long_ones_are_not(void **state)
{
    static const struct {
        uint64_t words;
        bool ahead;
    } sizes[] = {{1000, true}, {100000, false}};

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, RANKS);
        job = allreduce(&story, sizes[i].words, TT_METHOD_PARTS);
        tt_story_time_of(&story, job);
        assert_int_equal(goes_ahead(&story, job), sizes[i].ahead);
        tt_story_end(&story);
    }
}

/* --- Late ranks --------------------------------------------------------------------------------------------------- */

/* What the late rank has kept is not sent again: its own packet is all that is missing, with the answer in front. */
static void a_rank_that_posts_late_has_what_came_ahead(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        struct tt_story story;
        struct tt_world_job *job;
        uint64_t posted_ns;

        tt_story_start(&story, 2);
        job = allreduce(&story, WORDS, TT_METHOD_RECURSIVE_DOUBLING);
        tt_story_time_of(&story, job);
        tt_story_post_but(job, late);
        tt_world_run(story.world, tt_world_now(story.world) + TT_NS_PER_MS);
        assert_true(tt_world_is_running(job));
        posted_ns = tt_world_now(story.world);
        tt_world_post(job, late);
        tt_world_run_job(job, posted_ns + TT_NS_PER_S);
        tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
        assert_true(job->parts[late].ended_ns < posted_ns + 1000); /* before anything can have come */
        assert_int_equal(job->parts[1 - late].ended_ns, posted_ns + STORY_WAY_NS(ANSWER + PACKET) - ANSWER + BARRIER);
        tt_story_end(&story);
    }
}

/* Eight in flight by all methods, sent at once and announced, each rank late once. */
static void a_late_rank_goes_through_all_that_came_ahead_of_it(void **state)
{
    enum { JOBS = 8, LONG = 30000 };
    static const enum tt_method methods[] = {TT_METHOD_RECURSIVE_DOUBLING, TT_METHOD_RABENSEIFNER,
                                             TT_METHOD_TRIGGERED_RING, TT_METHOD_PARTS};

    (void)state;
    for (uint32_t late = 0; late < RANKS; late++) {
        struct tt_world_job *jobs[JOBS];
        struct tt_story story;

        tt_story_start(&story, RANKS);
        for (uint32_t i = 0; i < 4; i++) {
            tt_story_time_of(&story, allreduce(&story, WORDS, methods[i]));
        }
        for (uint32_t i = 0; i < JOBS; i++) {
            jobs[i] = allreduce(&story, LONG / (1 + i * i), methods[i % 3]);
            tt_story_post_but(jobs[i], late);
            assert_true(jobs[i]->parts[(late + 1) % RANKS].request->relay_started);
        }
        tt_world_run(story.world, tt_world_now(story.world) + 20 * TT_NS_PER_MS);
        for (uint32_t i = 0; i < JOBS; i++) {
            tt_world_post(jobs[i], late);
        }
        for (uint32_t i = 0; i < JOBS; i++) {
            tt_world_run_job(jobs[i], tt_world_now(story.world) + TT_NS_PER_S);
            tt_story_all_ended(jobs[i], TUTTI_OK, TT_RANK_NONE, 0);
        }
        tt_story_end(&story);
    }
}

static void a_rank_that_dies_before_it_posts_ends_what_went_ahead(void **state)
{
    (void)state;
    for (uint32_t dead = 0; dead < RANKS; dead++) {
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, RANKS);
        job = allreduce(&story, 30000, TT_METHOD_RABENSEIFNER);
        tt_story_time_of(&story, job);
        tt_story_post_but(job, dead);
        tt_world_run(story.world, tt_world_now(story.world) + TT_NS_PER_MS);
        tt_sim_crash(story.world->sim, dead, tt_world_now(story.world));
        tt_world_run_job(job, tt_world_now(story.world) + TT_NS_PER_S);
        tt_story_all_ended(job, TUTTI_ERR_PEER_FAILED, dead, UINT64_C(1) << dead);
        tt_story_end(&story);
    }
}

/* --- What ends badly here ----------------------------------------------------------------------------------------- */

static struct {
    const struct tt_p2p_ops *ops;
    const struct tt_triggers *triggers; /* whose next get that ends, ends badly; NULL: none */
} spoiled;

static uint32_t spoil(struct tt_p2p *p2p, struct tt_p2p_event *events, uint32_t max)
{
    uint32_t count = spoiled.ops->progress(p2p, events, max);

    for (uint32_t i = 0; i < count && spoiled.triggers != NULL; i++) {
        if (events[i].type == TT_P2P_DONE && events[i].status == TUTTI_OK &&
            events[i].cookie >> TT_PARTY_PAYLOAD_BITS == spoiled.triggers->party.number &&
            tt_party_payload(events[i].cookie) < TT_TRIGGERS_PORTS) {
            events[i].status = TUTTI_ERR_NO_MEMORY;
            spoiled.triggers = NULL;
        }
    }
    return count;
}

/* Nor does it wait for anybody else: the next one has gone ahead of its barrier, which is never over. */
static void a_get_that_ends_for_want_of_memory_does_not_wait_for_a_barrier(void **state)
{
    enum { LONG = 400000 }; /* announced */
    struct tt_p2p_ops ops;
    struct tt_p2p *p2p;
    struct tt_story story;
    struct tt_world_job *job, *ahead;

    (void)state;
    tt_story_start(&story, 2);
    job = tt_world_job_create(story.group, TT_GATHER, 0, LONG, TT_METHOD_DIRECT);
    ahead = tt_world_job_create(story.group, TT_GATHER, 0, LONG, TT_METHOD_DIRECT);
    (void)tt_story_time_of(&story, job);
    p2p = story.world->engines[0]->networks[0]->p2p;
    spoiled.triggers = story.group->members[0].group->triggers;
    spoiled.ops = p2p->ops;
    ops = *p2p->ops;
    ops.progress = spoil;
    p2p->ops = &ops;
    tt_world_post_all(job);
    assert_true(tt_world_post(ahead, 0));
    tt_world_run(story.world, tt_world_now(story.world) + 10 * TT_NS_PER_MS);
    assert_null(spoiled.triggers);
    assert_false(job->parts[0].is_running || ahead->parts[0].is_running);
    assert_int_equal(job->parts[0].status, TUTTI_ERR_NO_MEMORY);
    assert_int_equal(ahead->parts[0].status, TUTTI_ERR_NO_MEMORY);
    assert_int_equal(story.group->members[0].group->member.culprit, 0);
    p2p->ops = spoiled.ops;
    tt_story_forgive_reads(&story);
    tt_story_end(&story);
}

/* --- Ranks that disagree ------------------------------------------------------------------------------------------ */

/* Messages that do not fit come before the barrier's frames, which say who means what. */
static void ranks_that_disagree_are_told_by_the_barrier_and_not_by_what_went_ahead(void **state)
{
    static const struct {
        uint64_t words;
        enum tt_method method;
    } others[] = {{WORDS + 1, TT_METHOD_RECURSIVE_DOUBLING}, {3000, TT_METHOD_RECURSIVE_DOUBLING},
                  {30000, TT_METHOD_RECURSIVE_DOUBLING},     {WORDS, TT_METHOD_RABENSEIFNER},
                  {WORDS, TT_METHOD_TRIGGERED_RING},         {WORDS, TT_METHOD_PARTS}};

    (void)state;
    for (uint32_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        for (uint32_t odd = 0; odd < RANKS; odd++) {
            struct tt_story story;
            struct tt_world_job *job, *other;
            uint64_t begun_ns;

            tt_story_start(&story, RANKS);
            job = allreduce(&story, WORDS, TT_METHOD_RECURSIVE_DOUBLING);
            other = allreduce(&story, others[i].words, others[i].method);
            tt_story_time_of(&story, job);
            tt_story_time_of(&story, other);
            begun_ns = tt_world_now(story.world);
            for (uint32_t rank = 0; rank < RANKS; rank++) {
                tt_world_post(rank == odd ? other : job, rank);
            }
            tt_world_run(story.world, begun_ns + SPREAD_NS);
            for (uint32_t rank = 0; rank < RANKS; rank++) {
                const struct tt_world_part *part = &(rank == odd ? other : job)->parts[rank];

                assert_false(part->is_running);
                assert_int_equal(part->status, TUTTI_ERR_MISMATCH);
                assert_true(part->failed_rank < RANKS); /* a frame with terms has shown it, there or elsewhere */
            }
            tt_story_forgive_reads(&story);
            tt_story_end(&story);
        }
    }
}

/* Nor by what that made of a collective before, on which all agree. */
static void a_collective_on_which_ranks_agree_does_not_take_the_blame_for_the_next_one(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < RANKS; odd++) {
        struct tt_world_job *agreed, *job, *other;
        struct tt_story story;
        uint64_t begun_ns;

        tt_story_start(&story, RANKS);
        agreed = allreduce(&story, WORDS, TT_METHOD_TRIGGERED_RING);
        job = allreduce(&story, WORDS, TT_METHOD_TRIGGERED_RING);
        other = allreduce(&story, WORDS + 8, TT_METHOD_TRIGGERED_RING);
        tt_story_time_of(&story, agreed);
        begun_ns = tt_world_now(story.world);
        tt_world_post_all(agreed);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            tt_world_post(rank == odd ? other : job, rank);
        }
        tt_world_run(story.world, begun_ns + TT_NS_PER_S);
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            const struct tt_world_part *part = &(rank == odd ? other : job)->parts[rank];

            assert_false(part->is_running || agreed->parts[rank].is_running);
            assert_int_equal(part->status, TUTTI_ERR_MISMATCH);
            assert_true(part->failed_rank < RANKS);
        }
        tt_story_forgive_reads(&story);
        tt_story_end(&story);
    }
}

/* How parts are made depends on the length, and so does who needs whom: what was met around a ring is not enough for
 * what is sent directly, nor the other way round. */
static void lengths_whose_parts_are_made_otherwise_have_not_met_yet(void **state)
{
    enum { FIVE = 5, LATE = 2, RING_WORDS = 4096, DIRECT_WORDS = 2048 };
    static const enum tt_schedule_algorithm algorithms[] = {TT_SCHEDULE_RING, TT_SCHEDULE_DIRECT};

    (void)state;
    for (uint32_t met = 0; met < 2; met++) {
        struct tt_world_job *jobs[2];
        struct tt_story story;

        tt_story_prepare(&story, FIVE);
        story.options.parts_by = TT_METHOD_RING; /* as it is built in */
        tt_story_begin(&story, FIVE);
        jobs[0] = allreduce(&story, RING_WORDS, TT_METHOD_EAGER_PARTS);
        jobs[1] = allreduce(&story, DIRECT_WORDS, TT_METHOD_EAGER_PARTS);
        tt_story_time_of(&story, jobs[met]);
        tt_story_post_but(jobs[1 - met], LATE);
        tt_world_run(story.world, tt_world_now(story.world) + 5 * TT_NS_PER_MS);
        tt_world_post(jobs[1 - met], LATE);
        tt_world_run_job(jobs[1 - met], tt_world_now(story.world) + TT_NS_PER_S / 2);
        tt_story_all_ended(jobs[1 - met], TUTTI_OK, TT_RANK_NONE, 0);
        for (uint32_t i = 0; i < 2; i++) {
            assert_int_equal(jobs[i]->parts[0].request->triggered->schedule.algorithm, algorithms[i]);
        }
        tt_story_end(&story);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_first_messages_wait_for_their_barrier),
        cmocka_unit_test(what_another_method_or_root_needs_is_not_known_yet),
        cmocka_unit_test(what_is_posted_with_the_first_one_waits_as_well),
        cmocka_unit_test(small_parts_are_made_ahead_of_the_release_and_long_ones_are_not),
        cmocka_unit_test(a_rank_that_posts_late_has_what_came_ahead),
        cmocka_unit_test(lengths_whose_parts_are_made_otherwise_have_not_met_yet),
        cmocka_unit_test(a_late_rank_goes_through_all_that_came_ahead_of_it),
        cmocka_unit_test(a_rank_that_dies_before_it_posts_ends_what_went_ahead),
        cmocka_unit_test(a_get_that_ends_for_want_of_memory_does_not_wait_for_a_barrier),
        cmocka_unit_test(ranks_that_disagree_are_told_by_the_barrier_and_not_by_what_went_ahead),
        cmocka_unit_test(a_collective_on_which_ranks_agree_does_not_take_the_blame_for_the_next_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
