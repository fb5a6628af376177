/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager collectives: no barrier, no handshake, and what repairs them. Links as in support/story.h; the tail, after a
 * sign that somebody has finished, is 100 us; without one a rank asks after 5 ms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "proto/eager.h"
#include "support/story.h"

enum { RANKS = 4, BYTES = 500, HALF = TT_EAGER_RING_BYTES / 2 };

/* ASK goes, the left neighbour has everything: DONE, and an ordinary fetch of one chunk from its copy. */
#define FETCH_NS(bytes)                                                                                                \
    (STORY_WAY_NS(STORY_FETCH) + STORY_WAY_NS(STORY_AVAILABLE) + STORY_WAY_NS(0) + STORY_WAY_NS(bytes))
#define REPAIR_NS(bytes) (STORY_WAY_NS(STORY_ASK) + STORY_WAY_NS(STORY_KEPT) + FETCH_NS(bytes))
#define TAIL_NS          (100 * TT_NS_PER_US)

static void begin(struct tt_story *story)
{
    tt_story_prepare(story, RANKS);
    tt_story_begin(story, RANKS);
}

static struct tt_world_job *broadcast(struct tt_story *story, uint32_t root, uint64_t bytes)
{
    return tt_world_job_create(story->group, TT_BROADCAST, root, bytes, TT_METHOD_EAGER);
}

static struct tt_world_job *allgather(struct tt_story *story, uint64_t bytes)
{
    return tt_world_job_create(story->group, TT_ALLGATHER, 0, bytes, TT_METHOD_EAGER);
}

static void lose(struct tt_story *story, uint32_t rank, uint64_t sequence, uint32_t psn)
{
    tt_sim_drop_chunk(story->world->sim, rank, tt_story_eager_imm(sequence, psn), 1);
}

static void run(struct tt_story *story, struct tt_world_job *job)
{
    tt_world_run_job(job, tt_world_now(story->world) + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
}

static void run_until(struct tt_story *story, uint64_t since_start_ns)
{
    tt_world_run(story->world, story->start_ns + since_start_ns);
}

static uint32_t frames(struct tt_story *story, uint32_t bytes)
{
    return tt_story_arrivals(story, "frame", TT_RANK_NONE, TT_RANK_NONE, bytes);
}

/* --- Nothing lost ------------------------------------------------------------------------------------------------- */

static void broadcast_without_loss_takes_the_time_on_the_wire_and_nothing_else(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story);
    job = broadcast(&story, 2, BYTES);
    tt_world_post_all(job);
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 2), BYTES); /* its datagram has left */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != 2) {
            assert_int_equal(tt_story_end_of(&story, job, rank), STORY_WAY_NS(BYTES));
            assert_int_equal(tt_story_arrivals(&story, "chunk", 2, rank, 0), 1);
        }
    }
    assert_int_equal(frames(&story, 0), 0);
    tt_story_end(&story);
}

static void allgather_without_loss_is_one_datagram_a_rank(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story);
    job = allgather(&story, BYTES);
    tt_world_post_all(job);
    run(&story, job);
    for (uint32_t rank = 0; rank < RANKS; rank++) { /* three datagrams meet at every downlink */
        assert_int_equal(tt_story_end_of(&story, job, rank), STORY_WAY_NS(BYTES) + 2 * BYTES);
    }
    assert_int_equal(frames(&story, 0), 0);
    tt_story_end(&story);
}

static void who_posts_late_finds_the_data_there(void **state)
{
    enum { JOBS = 5 };
    struct tt_story story;
    struct tt_world_job *jobs[JOBS];

    (void)state;
    begin(&story);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = broadcast(&story, i % 2, BYTES);
        for (uint32_t rank = 0; rank < RANKS - 1; rank++) {
            tt_world_post(jobs[i], rank);
        }
    }
    run_until(&story, 3 * TT_NS_PER_MS);
    for (uint32_t i = 0; i < JOBS; i++) {
        for (uint32_t rank = 0; rank < RANKS - 1; rank++) {
            assert_false(jobs[i]->parts[rank].is_running); /* nobody waited for rank 3 */
        }
    }
    assert_int_equal(story.group->members[3].group->queues[0].receiver.early, JOBS);
    for (uint32_t i = 0; i < JOBS; i++) {
        tt_world_post(jobs[i], 3);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        run(&story, jobs[i]);
        assert_int_equal(tt_story_end_of(&story, jobs[i], 3), 3 * TT_NS_PER_MS); /* at once */
    }
    assert_int_equal(story.group->members[3].group->queues[0].receiver.placed, JOBS);
    assert_int_equal(frames(&story, 0), 0);
    tt_story_end(&story);
}

/* --- Something lost ----------------------------------------------------------------------------------------------- */

static void a_lost_datagram_without_later_traffic_is_asked_for_after_5_ms(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t asked_ns = 5 * TT_NS_PER_MS + STORY_WAY_NS(STORY_ASK);

    (void)state;
    begin(&story);
    job = broadcast(&story, 0, BYTES);
    lose(&story, 2, 0, 0);
    tt_world_post_all(job);
    run(&story, job);
    assert_int_equal(tt_story_first_arrival(&story, "frame", 2, 1, STORY_ASK), asked_ns);
    assert_int_equal(tt_story_end_of(&story, job, 2), 5 * TT_NS_PER_MS + REPAIR_NS(BYTES));
    assert_int_equal(tt_story_end_of(&story, job, 1), STORY_WAY_NS(BYTES)); /* it did not wait for that */
    assert_int_equal(frames(&story, 0), 4);
    tt_story_end(&story);
}

/* The release of what comes next says that all have posted that, so that what came before has been sent. */
static void a_lost_datagram_with_later_traffic_is_asked_for_a_tail_after_the_sign(void **state)
{
    struct tt_story story;
    struct tt_world_job *lost, *next;
    uint64_t sign_ns = 500 * TT_NS_PER_US + STORY_GATHERED_NS(RANKS) + STORY_FINAL + STORY_WAY_NS(STORY_RELEASE);

    (void)state;
    begin(&story);
    lost = broadcast(&story, 0, BYTES);
    next = tt_world_job_create(story.group, TT_BROADCAST, 0, BYTES, TT_METHOD_MULTICAST);
    lose(&story, 2, 0, 0);
    tt_world_post_all(lost);
    run_until(&story, 500 * TT_NS_PER_US);
    tt_world_post_all(next);
    run(&story, lost);
    assert_int_equal(tt_story_first_arrival(&story, "chunk", 0, 2, STORY_RELEASE), sign_ns);
    assert_int_equal(tt_story_first_arrival(&story, "frame", 2, 1, STORY_ASK),
                     sign_ns + TAIL_NS + STORY_WAY_NS(STORY_ASK));
    assert_int_equal(tt_story_end_of(&story, lost, 2), sign_ns + TAIL_NS + REPAIR_NS(BYTES));
    run(&story, next);
    tt_story_end(&story);
}

static void what_a_root_has_no_room_for_yet_is_not_taken_for_lost(void **state)
{
    enum { EAGER = 3 };
    struct tt_story story;
    struct tt_world_job *jobs[EAGER], *next;

    (void)state;
    begin(&story);
    lose(&story, 3, 0, 0);
    for (uint32_t i = 0; i < EAGER; i++) {
        jobs[i] = broadcast(&story, 0, HALF);
        tt_world_post_all(jobs[i]);
    }
    next = tt_world_job_create(story.group, TT_BROADCAST, 0, BYTES, TT_METHOD_MULTICAST);
    tt_world_post_all(next);
    for (uint32_t i = 0; i < EAGER; i++) {
        run(&story, jobs[i]);
    }
    run(&story, next);
    /* All have posted all of it, and the third could not be sent before rank 3 had the first. */
    assert_true(tt_story_end_of(&story, jobs[1], 1) < tt_story_first_arrival(&story, "frame", 3, 2, STORY_ASK));
    assert_true(tt_story_end_of(&story, jobs[2], 1) > tt_story_end_of(&story, jobs[0], 3));
    assert_int_equal(frames(&story, STORY_ASK), 1);
    tt_story_end(&story);
}

static void what_the_left_neighbour_lost_too_comes_from_its_left_neighbour(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t second_ns = 5 * TT_NS_PER_MS + REPAIR_NS(BYTES);

    (void)state;
    begin(&story);
    job = broadcast(&story, 0, BYTES);
    lose(&story, 2, 0, 0);
    lose(&story, 3, 0, 0);
    tt_world_post_all(job);
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 2), second_ns);
    /* Rank 3 asked at the same time, and is told when rank 2 has it, behind the FINAL to rank 1. */
    assert_int_equal(tt_story_first_arrival(&story, "frame", 3, 2, STORY_ASK),
                     5 * TT_NS_PER_MS + STORY_WAY_NS(STORY_ASK));
    assert_int_equal(tt_story_first_arrival(&story, "frame", 2, 3, STORY_KEPT),
                     second_ns + STORY_FINAL + STORY_WAY_NS(STORY_KEPT));
    assert_int_equal(tt_story_end_of(&story, job, 3),
                     second_ns + STORY_FINAL + STORY_WAY_NS(STORY_KEPT) + FETCH_NS(BYTES));
    assert_int_equal(tt_story_arrivals(&story, "get-data", 0, 1, 0) + tt_story_arrivals(&story, "get-data", 0, 3, 0),
                     0); /* nobody went to the root */
    tt_story_end(&story);
}

static void allgather_with_one_datagram_lost_fetches_that_block(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story);
    job = allgather(&story, BYTES);
    lose(&story, 0, 0, 2);
    tt_world_post_all(job);
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 0), 5 * TT_NS_PER_MS + REPAIR_NS(BYTES));
    assert_int_equal(tt_story_end_of(&story, job, 1), STORY_WAY_NS(BYTES) + 2 * BYTES);
    assert_int_equal(frames(&story, 0), 4);
    assert_int_equal(tt_story_arrivals(&story, "get-data", 3, 0, BYTES), 1);
    tt_story_end(&story);
}

/* Two ranks, each of which has sent the other one's half of its vector: the chunk of one of them, or of both. */
static void a_lost_half_of_a_reduce_scatter_of_two_is_fetched(void **state)
{
    enum { WORDS = 180, PART = 8 * WORDS, REST = PART - STORY_CHUNK };

    (void)state;
    for (uint32_t lost = 1; lost < 4; lost++) { /* a bit a rank */
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, 2);
        job = tt_world_job_combine(story.group, TT_REDUCE_SCATTER, 0, WORDS, TT_WORLD_WORDS, false, TT_METHOD_EAGER);
        for (uint32_t rank = 0; rank < 2; rank++) {
            if ((lost >> rank & 1) != 0) {
                lose(&story, rank, 0, 2 * (1 - rank) + 1); /* the second of the two that the other one sends */
            }
        }
        tt_world_post_all(job);
        run(&story, job);
        for (uint32_t rank = 0; rank < 2; rank++) {
            bool has_lost = (lost >> rank & 1) != 0;

            assert_int_equal(tt_story_arrivals(&story, "get-data", 1 - rank, rank, REST), has_lost);
            assert_int_equal(tt_story_arrivals(&story, "get-data", 1 - rank, rank, 0), has_lost);
            assert_true((tt_story_end_of(&story, job, rank) > 5 * TT_NS_PER_MS) == has_lost);
        }
        tt_story_end(&story);
    }
}

/* Nobody is complete, so nobody may wait until the left neighbour is. */
static void allgather_ends_though_every_rank_has_lost_a_datagram(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t both_ns = STORY_WAY_NS(STORY_ASK) + STORY_WAY_NS(STORY_KEPT);

    (void)state;
    begin(&story);
    job = allgather(&story, BYTES);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        lose(&story, rank, 0, (rank + 2) % RANKS); /* which the left neighbour has */
    }
    tt_world_post_all(job);
    run(&story, job);
    assert_int_equal(frames(&story, STORY_ASK), RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(tt_story_first_arrival(&story, "frame", rank, (rank + 1) % RANKS, STORY_KEPT),
                         5 * TT_NS_PER_MS + both_ns);
        assert_int_equal(tt_story_end_of(&story, job, rank), 5 * TT_NS_PER_MS + REPAIR_NS(BYTES));
    }
    tt_story_end(&story);
}

/* All have the same and miss the same: the one who is late will send it to everybody. */
static void allgather_with_a_rank_that_is_late_is_not_taken_for_one_with_losses(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story);
    job = allgather(&story, BYTES);
    for (uint32_t rank = 0; rank < RANKS - 1; rank++) {
        tt_world_post(job, rank);
    }
    run_until(&story, 40 * TT_NS_PER_MS);
    assert_int_equal(frames(&story, STORY_ASK), 3 * 3); /* after 5, 10 more, and 20 more */
    assert_int_equal(frames(&story, 0), 3 * 3);
    tt_world_post(job, RANKS - 1);
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 1), 40 * TT_NS_PER_MS + STORY_WAY_NS(BYTES));
    assert_int_equal(frames(&story, STORY_FETCH), 0);
    tt_story_end(&story);
}

/* --- Credit ------------------------------------------------------------------------------------------------------- */

static void a_root_without_credit_waits_for_the_slowest_rank_and_a_round(void **state)
{
    enum { JOBS = 4 };
    struct tt_story story;
    struct tt_world_job *jobs[JOBS];
    uint64_t awake_ns = 10 * TT_NS_PER_MS;

    (void)state;
    begin(&story);
    tt_sim_stall(story.world->sim, 3, story.start_ns + awake_ns);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = broadcast(&story, 0, HALF);
        tt_world_post_all(jobs[i]);
    }
    run_until(&story, awake_ns - 1);
    /* Two fill the ring; what rank 3 has not finished must not be overwritten. */
    for (uint32_t rank = 0; rank < RANKS - 1; rank++) {
        assert_false(jobs[1]->parts[rank].is_running);
        assert_true(jobs[2]->parts[rank].is_running);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        run(&story, jobs[i]);
    }
    /* Rank 3 finishes the first two at once. What it says in a round goes to rank 2, behind two ASK, for what rank 3
     * waits for since long, and one frame to rank 1; and from there to the root. The next round is right behind, so
     * that the root sends two halves in turn, behind two frames of further rounds; of their last, short chunks the
     * older one's goes first. */
    assert_int_equal(tt_story_end_of(&story, jobs[1], 3), awake_ns);
    assert_int_equal(tt_story_end_of(&story, jobs[2], 0), awake_ns + 2 * STORY_ASK + STORY_ACK +
                                                              2 * STORY_WAY_NS(STORY_ACK) + 2 * STORY_ACK + 2 * HALF -
                                                              HALF % STORY_CHUNK);
    assert_true(frames(&story, STORY_ACK) >= 8);
    assert_int_equal(story.group->members[1].group->chunks_repaired, 0);
    tt_story_end(&story);
}

/* --- Ends --------------------------------------------------------------------------------------------------------- */

static void who_misses_what_only_a_dead_rank_had_learns_who_it_was(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    begin(&story);
    job = broadcast(&story, 0, BYTES);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        lose(&story, rank, 0, 0);
    }
    tt_world_post_all(job);
    tt_sim_crash(story.world->sim, 0, story.start_ns + TT_NS_PER_MS);
    tt_world_run_job(job, story.start_ns + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_ERR_PEER_FAILED, 0, 1);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        assert_int_equal(tt_story_end_of(&story, job, rank), 2 * TT_NS_PER_MS); /* detection takes 1 ms */
    }
    tt_story_end(&story);
}

static void who_leaves_stays_until_its_right_neighbour_has_everything(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    /* The others tell each other that they have finished, and so rank 2 learns that it lost something. */
    uint64_t sign_ns = TT_NS_PER_MS + STORY_WAY_NS(STORY_ACK), repaired_ns = sign_ns + TAIL_NS + REPAIR_NS(BYTES);

    (void)state;
    begin(&story);
    job = broadcast(&story, 0, BYTES);
    lose(&story, 2, 0, 0);
    tt_world_post_all(job);
    run_until(&story, TT_NS_PER_MS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(job->parts[rank].is_running, rank == 2);
        assert_false(rank != 2 && tt_world_settle(story.group, rank));
    }
    run_until(&story, repaired_ns - 1);
    assert_true(job->parts[2].is_running);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_false(rank != 2 && tt_world_settle(story.group, rank));
    }
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 2), repaired_ns);
    /* Rank 3 waits for round 0 from rank 2, and rank 1 for round 1 from rank 3. */
    tt_world_run(story.world, tt_world_now(story.world) + 2 * STORY_WAY_NS(STORY_ACK) + STORY_ACK);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_true(tt_world_settle(story.group, rank));
        tt_world_leave(story.group, rank);
    }
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcast_without_loss_takes_the_time_on_the_wire_and_nothing_else),
        cmocka_unit_test(allgather_without_loss_is_one_datagram_a_rank),
        cmocka_unit_test(who_posts_late_finds_the_data_there),
        cmocka_unit_test(a_lost_datagram_without_later_traffic_is_asked_for_after_5_ms),
        cmocka_unit_test(a_lost_datagram_with_later_traffic_is_asked_for_a_tail_after_the_sign),
        cmocka_unit_test(what_a_root_has_no_room_for_yet_is_not_taken_for_lost),
        cmocka_unit_test(what_the_left_neighbour_lost_too_comes_from_its_left_neighbour),
        cmocka_unit_test(allgather_with_one_datagram_lost_fetches_that_block),
        cmocka_unit_test(a_lost_half_of_a_reduce_scatter_of_two_is_fetched),
        cmocka_unit_test(allgather_ends_though_every_rank_has_lost_a_datagram),
        cmocka_unit_test(allgather_with_a_rank_that_is_late_is_not_taken_for_one_with_losses),
        cmocka_unit_test(a_root_without_credit_waits_for_the_slowest_rank_and_a_round),
        cmocka_unit_test(who_misses_what_only_a_dead_rank_had_learns_who_it_was),
        cmocka_unit_test(who_leaves_stays_until_its_right_neighbour_has_everything),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
