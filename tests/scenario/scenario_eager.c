/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eager collectives: no barrier, no handshake, and what repairs them. Links as in support/story.h; the tail, after a
 * sign that somebody has finished, is 100 us; without one a rank asks after 5 ms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/story.h"

enum { RANKS = 4, BYTES = 500 };

static struct tt_world_job *eager_broadcast(struct tt_story *story, uint32_t root, uint64_t bytes)
{
    return tt_world_job_create(story->group, TT_BROADCAST, root, bytes, TT_METHOD_EAGER);
}

static struct tt_world_job *eager_allgather(struct tt_story *story, uint64_t bytes)
{
    return tt_world_job_create(story->group, TT_ALLGATHER, 0, bytes, TT_METHOD_EAGER);
}

static void run(struct tt_story *story, struct tt_world_job *job)
{
    tt_world_run_job(job, tt_world_now(story->world) + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
}

static void broadcast_without_loss_takes_the_time_on_the_wire_and_nothing_else(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, RANKS);
    job = eager_broadcast(&story, 2, BYTES);
    tt_world_post_all(job);
    run(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 2), BYTES); /* its datagram has left */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        if (rank != 2) {
            assert_int_equal(tt_story_end_of(&story, job, rank), STORY_WAY_NS(BYTES));
            assert_int_equal(tt_story_arrivals(&story, "chunk", 2, rank, 0), 1);
        }
        for (uint32_t from = 0; from < RANKS; from++) {
            assert_int_equal(tt_story_arrivals(&story, "frame", from, rank, 0), 0);
        }
    }
    tt_story_end(&story);
}

/* Nobody is complete, so nobody may wait until the left neighbour is. */
static void allgather_ends_though_every_rank_has_lost_a_datagram(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_prepare(&story, RANKS);
    tt_story_begin(&story, RANKS);
    job = eager_allgather(&story, BYTES);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        tt_sim_drop_chunk(story.world->sim, rank, tt_story_eager_imm(0, (rank + 2) % RANKS), 1);
    }
    tt_world_post_all(job);
    run(&story, job);
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broadcast_without_loss_takes_the_time_on_the_wire_and_nothing_else),
        cmocka_unit_test(allgather_ends_though_every_rank_has_lost_a_datagram),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
