/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Vectors longer than a frame, which are combined on the way up to rank 0 of eight: 4 hears from 5 and 6, 6 from 7,
 * 2 from 3, and 0 from 1, 2 and 4. Ranks on the way die, or do not hear what comes down. Links as in support/story.h;
 * a crash is noticed after 1 ms, a rank asks after 5 ms. What is combined keeps its order or comes out wrong, which the
 * world finds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/story.h"

enum { RANKS = 8, LATE = 1, PART = 20, COUNT = RANKS * PART, BYTES = 16 * COUNT };
enum { TYPE = 10 }; /* bytes of the terms that only what is combined has */
enum {
    FULL = STORY_GATHER + TYPE + TT_FRAME_GATHER_BYTES,
    LAST = STORY_GATHER + TYPE + BYTES - TT_FRAME_GATHER_BYTES /* the two frames of a vector */
};

#define ASK_NS (5 * TT_NS_PER_MS)
/* Far more than word of a failure needs, or a repair. */
#define SPREAD_NS (200 * TT_NS_PER_US)

/* Who hears from others and is not the root, and whom it tells. */
static const struct {
    uint32_t rank, parent;
} inner[] = {{2, 0}, {4, 0}, {6, 4}};
enum { INNER = sizeof inner / sizeof inner[0] };

static struct tt_world_job *begin(struct tt_story *story, enum tt_collective_kind kind)
{
    tt_story_start(story, RANKS);
    return tt_world_job_combine(story->group, kind, 0, kind == TT_REDUCE_SCATTER ? PART : COUNT, TT_WORLD_AFFINE, false,
                                TT_METHOD_GATHER);
}

static void run(struct tt_story *story, struct tt_world_job *job)
{
    tt_world_run_job(job, tt_world_now(story->world) + TT_NS_PER_S);
}

/* All but the dead and who has not posted, soon after the crash is noticed. */
static void expect_told(struct tt_story *story, const struct tt_world_job *job, uint32_t dead, uint64_t except,
                        uint64_t death_ns)
{
    except |= UINT64_C(1) << dead;
    tt_story_all_ended(job, TUTTI_ERR_PEER_FAILED, dead, except);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (!(except >> rank & 1)) {
            assert_in_range(tt_story_end_of(story, job, rank), death_ns + TT_NS_PER_MS,
                            death_ns + TT_NS_PER_MS + SPREAD_NS);
        }
    }
}

/* --- Who dies ----------------------------------------------------------------------------------------------------- */

static void a_rank_that_dies_before_its_vector_goes_up_is_named_on_every_survivor(void **state)
{
    uint64_t death_ns = TT_NS_PER_US; /* no frame has come yet */

    (void)state;
    for (uint32_t i = 0; i < INNER; i++) {
        struct tt_story story;
        struct tt_world_job *job = begin(&story, TT_ALLREDUCE);

        tt_sim_crash(story.world->sim, inner[i].rank, story.start_ns + death_ns);
        tt_world_post_all(job);
        run(&story, job);
        assert_int_equal(tt_story_arrivals(&story, "frame", inner[i].rank, inner[i].parent, FULL), 0);
        expect_told(&story, job, inner[i].rank, 0, death_ns);
        tt_story_end(&story);
    }
}

/* Somebody is late, so that no result comes. */
static void a_rank_that_dies_behind_its_vector_is_named_on_every_survivor(void **state)
{
    uint64_t death_ns = 100 * TT_NS_PER_US;

    (void)state;
    for (uint32_t i = 0; i < INNER; i++) {
        struct tt_story story;
        struct tt_world_job *job = begin(&story, TT_ALLREDUCE);

        tt_sim_crash(story.world->sim, inner[i].rank, story.start_ns + death_ns);
        tt_story_post_but(job, LATE);
        tt_world_run(story.world, story.start_ns + death_ns - 1);
        assert_int_equal(tt_story_arrivals(&story, "frame", inner[i].rank, inner[i].parent, FULL), 1);
        assert_int_equal(tt_story_arrivals(&story, "frame", inner[i].rank, inner[i].parent, LAST), 1);
        run(&story, job);
        expect_told(&story, job, inner[i].rank, 1 << LATE, death_ns);
        assert_false(tt_world_post(job, LATE));
        tt_story_end(&story);
    }
}

/* Its vector is in the result, which all others get. */
static void a_rank_that_dies_while_the_result_is_made_holds_up_nobody(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < INNER; i++) {
        struct tt_story story;
        struct tt_world_job *job = begin(&story, TT_ALLREDUCE);
        uint64_t told_ns;

        tt_world_post_all(job);
        run(&story, job);
        told_ns = tt_story_last_arrival(&story, "frame", inner[i].rank, inner[i].parent, LAST);
        tt_story_end(&story);

        job = begin(&story, TT_ALLREDUCE);
        tt_sim_crash(story.world->sim, inner[i].rank, story.start_ns + told_ns);
        tt_world_post_all(job);
        run(&story, job);
        tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, UINT64_C(1) << inner[i].rank);
        assert_int_equal(tt_story_arrivals(&story, "chunk", 0, inner[i].rank, 0), 0);
        tt_story_end(&story);
    }
}

/* --- Who is deaf -------------------------------------------------------------------------------------------------- */

/* It waits a while for what may be late, until it knows that it is deaf; then it asks at once. */
static void a_rank_that_multicast_does_not_reach_reads_the_result(void **state)
{
    static const struct {
        enum tt_collective_kind kind;
        uint32_t slow; /* of one chunk, the release, it takes more of them */
    } rows[] = {{TT_ALLREDUCE, 2}, {TT_REDUCE_SCATTER, 2}, {TT_REDUCE, 6}};
    enum { ROWS = sizeof rows / sizeof rows[0] };

    (void)state;
    for (uint32_t i = 0; i < INNER * ROWS; i++) {
        uint32_t deaf = inner[i / ROWS].rank, slow = rows[i % ROWS].slow;
        struct tt_story story;
        struct tt_world_job *job = begin(&story, rows[i % ROWS].kind);

        tt_story_set_deaf(&story, deaf, true);
        for (uint32_t k = 1; k <= slow + 3; k++) {
            uint64_t begun_ns = tt_world_now(story.world) - story.start_ns;

            tt_world_post_all(job);
            run(&story, job);
            tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
            for (uint32_t rank = 0; rank < RANKS; rank++) {
                uint64_t since_ns = rank == deaf && k <= slow ? ASK_NS : 0;

                assert_in_range(tt_story_end_of(&story, job, rank) - begun_ns, since_ns, since_ns + SPREAD_NS);
            }
            assert_int_equal(tt_story_arrivals(&story, "frame", deaf, inner[i / ROWS].parent, LAST), k);
            assert_int_equal(tt_story_arrivals(&story, "frame", deaf, deaf - 1, STORY_ASK + TYPE), k);
        }
        tt_story_end(&story);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_that_dies_before_its_vector_goes_up_is_named_on_every_survivor),
        cmocka_unit_test(a_rank_that_dies_behind_its_vector_is_named_on_every_survivor),
        cmocka_unit_test(a_rank_that_dies_while_the_result_is_made_holds_up_nobody),
        cmocka_unit_test(a_rank_that_multicast_does_not_reach_reads_the_result),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
