/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Gathering that comes to no good end: ranks that die, get stuck or mean something else, at every kind of place in the
 * tree. Links as in support/story.h; a crash is noticed after 1 ms, a rank asks after 5 ms, a parent reminds after
 * 20 ms, a collective times out after 1 s.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/story.h"

enum { FEW = 8, MANY = 20, BYTES = 100 };

#define ASK_NS (5 * TT_NS_PER_MS)
/* Far more than word of a failure needs. */
#define SPREAD_NS (200 * TT_NS_PER_US)

/* The root, leaves of its own, inner vertices, and leaves of those; with few ranks all are leaves. */
static const struct {
    uint32_t size, rank;
} places[] = {{FEW, 0},  {FEW, 1},  {FEW, 6},  {FEW, 7},   {MANY, 0},  {MANY, 1},
              {MANY, 4}, {MANY, 8}, {MANY, 9}, {MANY, 12}, {MANY, 15}, {MANY, 19}};
enum { PLACES = sizeof places / sizeof places[0] };

static void a_rank_that_dies_while_it_is_waited_for_is_named_on_every_survivor(void **state)
{
    uint64_t death_ns = 100 * TT_NS_PER_US;

    (void)state;
    for (uint32_t i = 0; i < PLACES; i++) {
        uint32_t dead = places[i].rank;
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, places[i].size);
        job = tt_story_gather(&story, i % 2 * BYTES);
        tt_story_post_but(job, dead);
        tt_sim_crash(story.world->sim, dead, story.start_ns + death_ns);
        tt_world_run_job(job, story.start_ns + TT_NS_PER_S);
        tt_story_all_ended(job, TUTTI_ERR_PEER_FAILED, dead, UINT64_C(1) << dead);
        for (uint32_t rank = 0; rank < places[i].size; rank++) {
            if (rank != dead) {
                assert_in_range(tt_story_end_of(&story, job, rank), death_ns + TT_NS_PER_MS,
                                death_ns + TT_NS_PER_MS + SPREAD_NS);
            }
        }
        tt_story_end(&story);
    }
}

/* Its leaves, or the others, have said all they had to say. */
static void a_rank_that_is_stuck_is_named_at_the_deadline(void **state)
{
    static const uint32_t stuck[] = {0, 8, 9, 19};

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, MANY);
        job = tt_story_gather(&story, i % 2 * BYTES);
        tt_sim_stall(story.world->sim, stuck[i], story.start_ns + 10 * TT_NS_PER_S);
        tt_story_post_but(job, stuck[i]);
        tt_world_run(story.world, story.start_ns + TT_NS_PER_S + SPREAD_NS);
        tt_story_all_ended(job, TUTTI_ERR_TIMED_OUT, stuck[i], UINT64_C(1) << stuck[i]);
        for (uint32_t rank = 0; rank < MANY; rank++) {
            assert_true(rank == stuck[i] || tt_story_end_of(&story, job, rank) >= TT_NS_PER_S);
        }
        tt_story_end(&story);
    }
}

static void expect_mismatch(struct tt_story *story, struct tt_world_job *job, uint64_t from_ns)
{
    tt_world_post_all(job);
    tt_world_run_job(job, story->start_ns + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_ERR_MISMATCH, TT_RANK_NONE, 0);
    for (uint32_t rank = 0; rank < job->group->size; rank++) {
        assert_in_range(tt_story_end_of(story, job, rank), from_ns, from_ns + SPREAD_NS);
    }
    tt_story_end(story);
}

static void a_rank_with_blocks_of_another_size_is_found_by_its_parent_or_its_children(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < PLACES; i++) {
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, places[i].size);
        job = tt_story_gather(&story, BYTES);
        job->parts[places[i].rank].terms.block_bytes = i % 3 * BYTES * 2;
        expect_mismatch(&story, job, 0);
    }
}

static void a_rank_that_means_another_algorithm_is_told(void **state)
{
    static const enum tt_method others[] = {TT_METHOD_RING, TT_METHOD_MULTICAST};

    (void)state;
    for (uint32_t i = 0; i < 2 * PLACES; i++) {
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, places[i / 2].size);
        job = tt_story_gather(&story, i / 2 % 2 * BYTES);
        job->parts[places[i / 2].rank].terms.method = others[i % 2];
        expect_mismatch(&story, job, 0);
    }
}

/* It sends its block at once, and asks for the others' after 5 ms. */
static void a_rank_that_sends_eagerly_is_told_when_somebody_asks(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < FEW; odd++) {
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, FEW);
        job = tt_story_gather(&story, BYTES);
        job->parts[odd].terms.method = TT_METHOD_EAGER;
        expect_mismatch(&story, job, odd == 0 ? 0 /* the others report to it */ : ASK_NS);
    }
}

static void two_barriers_with_different_roots_find_out_at_20_ms(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, FEW);
    job = tt_world_job_create(story.group, TT_BROADCAST, 0, 0, TT_METHOD_GATHER);
    job->parts[5].terms.root = 5;
    expect_mismatch(&story, job, ASK_NS); /* who waits for a datagram asks before that */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_dies_while_it_is_waited_for_is_named_on_every_survivor),
        cmocka_unit_test(a_rank_that_is_stuck_is_named_at_the_deadline),
        cmocka_unit_test(a_rank_with_blocks_of_another_size_is_found_by_its_parent_or_its_children),
        cmocka_unit_test(a_rank_that_means_another_algorithm_is_told),
        cmocka_unit_test(a_rank_that_sends_eagerly_is_told_when_somebody_asks),
        cmocka_unit_test(two_barriers_with_different_roots_find_out_at_20_ms),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
