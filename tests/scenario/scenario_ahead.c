/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How far roots run ahead of a receiver that stands still: at first by little, then by twice as much each time, and by
 * little again once something was lost. Links as in support/story.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/story.h"

/* Three chains share 3 MiB, in two quanta each. */
enum { RANKS = 3, LEAST = (3 << 20) / STORY_CHUNK, QUANTUM = LEAST / (2 * RANKS) };

/* An Allgather of so many chunks a rank; the receive queues, and the switch's ports, hold so many (0: any number). */
static struct tt_world_job *begin(struct tt_story *story, uint32_t chunks, uint32_t depth, uint64_t port)
{
    tt_story_prepare(story, RANKS);
    story->options.settings.bandwidth = TT_AUTO;
    story->options.settings.alpha_ns = 40 * TT_NS_PER_MS; /* nobody gives the multicast up meanwhile */
    story->options.sim.receive_depth = depth;
    story->options.sim.downlink_queue_bytes = port * STORY_CHUNK;
    tt_story_begin(story, RANKS);
    return tt_world_job_create(story->group, TT_ALLGATHER, 0, (uint64_t)chunks * STORY_CHUNK, TT_METHOD_MULTICAST);
}

/* How many chunks rank 1 gets from rank 0 in an Allgather while rank 2 stands still from before the first chunk on. */
static uint32_t sent_ahead(struct tt_story *story, struct tt_world_job *job)
{
    uint32_t before = tt_story_arrivals(story, "chunk", 0, 1, STORY_CHUNK), count;
    uint64_t start_ns = tt_world_now(story->world), awake_ns = start_ns + 20 * TT_NS_PER_MS;

    tt_world_post_all(job);
    tt_world_run(story->world, start_ns + STORY_GATHERED_NS(RANKS) - 1);
    tt_sim_stall(story->world->sim, 2, awake_ns);
    tt_world_run(story->world, awake_ns - 1);
    count = tt_story_arrivals(story, "chunk", 0, 1, STORY_CHUNK) - before;
    tt_world_run_job(job, start_ns + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    return count;
}

static void roots_are_ahead_by_twice_as_much_after_every_allgather_without_loss(void **state)
{
    enum { DEPTH = 12000 };
    struct tt_story story;
    struct tt_world_job *job = begin(&story, 4000, DEPTH, 0);

    (void)state;
    assert_int_equal(sent_ahead(&story, job), 2 * QUANTUM);
    assert_int_equal(sent_ahead(&story, job), 4 * QUANTUM);
    assert_int_equal(sent_ahead(&story, job), 7 * QUANTUM); /* of each chain are what the queues hold */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(story.group->members[rank].group->ahead.agreed_chunks, DEPTH);
        assert_int_equal(story.group->members[rank].group->bytes_served, 0);
        assert_int_equal(story.group->members[rank].group->credit_stalls, 0);
    }
    tt_story_end(&story);
}

/* Sixteen quanta of each chain in the end, and a report for every four of them. Two blocks come to everybody, behind
 * GATHER and before FINAL; nothing stands still for want of credit. */
static void the_further_roots_may_be_ahead_the_fewer_frames_there_are(void **state)
{
    enum { GRANT = 32, CHUNKS = 8000 };
    static const uint32_t wanted[] = {14, 13, 6, 3};
    struct tt_story story;
    struct tt_world_job *job = begin(&story, CHUNKS, 40000, 0);
    uint64_t least_ns = 2 * (uint64_t)CHUNKS * STORY_CHUNK, last_ns = least_ns + 50 * TT_NS_PER_US;
    uint32_t before = 0;

    (void)state;
    for (uint32_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        uint64_t start_ns = tt_world_now(story.world), slowest_ns = 0;
        uint32_t grants;

        tt_world_post_all(job);
        tt_world_run_job(job, start_ns + TT_NS_PER_S);
        tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
        grants = tt_story_arrivals(&story, "frame", 0, 1, GRANT);
        assert_int_equal(grants - before, wanted[i]);
        before = grants;
        for (uint32_t rank = 0; rank < RANKS; rank++) {
            uint64_t taken_ns = job->parts[rank].ended_ns - start_ns;

            slowest_ns = taken_ns > slowest_ns ? taken_ns : slowest_ns;
        }
        assert_in_range(slowest_ns, least_ns, last_ns - 1);
        last_ns = slowest_ns; /* no turn of credit costs anything in the end */
    }
    tt_story_end(&story);
}

static void after_a_loss_roots_are_ahead_by_little_again(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, 4000, 12000, 300);

    (void)state;
    sent_ahead(&story, job); /* two roots at full speed do not fit a link */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const struct tt_group *group = story.group->members[rank].group;

        assert_int_equal(group->ahead.chunks, LEAST);
        assert_true(group->bytes_served > 0 || rank != 1);
    }
    assert_int_equal(sent_ahead(&story, job), 2 * QUANTUM);
    assert_int_equal(sent_ahead(&story, job), 2 * QUANTUM);
    tt_story_end(&story);
}

/* Rank 1 has only heard that all may be ahead by much, and the others have agreed on little since. */
static void who_has_not_heard_that_it_is_little_again_holds_nobody_up(void **state)
{
    enum { CHUNKS = 1400 };
    struct tt_story story;
    struct tt_world_job *grown = begin(&story, 4000, 12000, 0), *job;
    uint64_t start_ns;

    (void)state;
    for (int i = 0; i < 3; i++) {
        tt_world_post_all(grown);
        tt_world_run_job(grown, tt_world_now(story.world) + TT_NS_PER_S);
        tt_story_all_ended(grown, TUTTI_OK, TT_RANK_NONE, 0);
    }
    job = tt_world_job_create(story.group, TT_ALLGATHER, 0, (uint64_t)CHUNKS * STORY_CHUNK, TT_METHOD_MULTICAST);
    assert_int_equal(story.group->members[1].group->ahead.agreed_chunks, 12000);
    story.group->members[2].group->ahead.chunks = LEAST;
    tt_sim_drop_chunk(story.world->sim, 1, tt_story_release_imm(story.group->members[1].group->member.next_sequence),
                      1);
    start_ns = tt_world_now(story.world);
    tt_world_post_all(job);
    tt_world_run_job(job, start_ns + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    assert_int_equal(story.group->members[0].group->ahead.agreed_chunks, LEAST);
    assert_int_equal(story.group->members[1].group->ahead.agreed_chunks, 12000); /* it has missed it */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(story.group->members[rank].group->credit_stalls, 0);
        assert_in_range(job->parts[rank].ended_ns - start_ns, 0, 3 * TT_NS_PER_MS);
    }
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roots_are_ahead_by_twice_as_much_after_every_allgather_without_loss),
        cmocka_unit_test(the_further_roots_may_be_ahead_the_fewer_frames_there_are),
        cmocka_unit_test(after_a_loss_roots_are_ahead_by_little_again),
        cmocka_unit_test(who_has_not_heard_that_it_is_little_again_holds_nobody_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
