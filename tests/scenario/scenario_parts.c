/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allreduces whose parts are multicast eagerly: exact times, what is sent, and chunks that are lost. Each of four ranks
 * sends three packets of 24 bytes, and a chunk of as many. Links as in support/story.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "engine/request.h"
#include "engine/triggers.h"
#include "proto/eager.h"
#include "support/story.h"
#include "wire/trigger_frame.h"

enum { RANKS = 4, WORDS = 12, PART = 8 * WORDS / RANKS };
enum {
    ANSWER = TT_TRIGGER_FRAME_HEAD_BYTES,
    PACKET = ANSWER + PART,
    BARRIER = STORY_BARRIER + 1 + 1 + 4, /* type, operation and the length of elements */
    TYPE = 10                            /* and, where the terms are whole, the counts' digest */
};

/* From the post on, if all know each other: three packets come in on one link, and behind them the barrier's first
 * frame. After its second one there are three chunks. */
#define MADE_NS  (STORY_WAY_NS(PACKET) + 2 * PACKET + BARRIER)
#define CHUNK_NS (STORY_WAY_NS(PART) + 2 * PART)
/* ASK goes left, where everything is; then an ordinary fetch of a chunk. */
#define REPAIR_NS                                                                                                      \
    (STORY_WAY_NS(STORY_ASK + TYPE) + STORY_WAY_NS(STORY_KEPT) + STORY_WAY_NS(STORY_FETCH) +                           \
     STORY_WAY_NS(STORY_AVAILABLE) + STORY_WAY_NS(0) + STORY_WAY_NS(PART))

static struct tt_world_job *allreduce(const struct tt_story *story, uint64_t words)
{
    return tt_world_job_combine(story->group, TT_ALLREDUCE, 0, words, TT_WORLD_WORDS, false, TT_METHOD_EAGER_PARTS);
}

static uint32_t frames(struct tt_story *story, uint32_t bytes)
{
    return tt_story_arrivals(story, "frame", TT_RANK_NONE, TT_RANK_NONE, bytes);
}

/* The first one of a group goes behind its barrier. No rank says anything after its chunk. */
static void a_part_goes_out_as_soon_as_it_is_made_and_nothing_after_it(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, RANKS);
    job = allreduce(&story, WORDS);
    tt_story_time_of(&story, job);
    assert_int_equal(tt_story_time_of(&story, job), MADE_NS + STORY_WAY_NS(BARRIER) + CHUNK_NS);
    assert_int_equal(tt_story_arrivals(&story, "chunk", TT_RANK_NONE, TT_RANK_NONE, PART), 2 * RANKS * (RANKS - 1));
    assert_int_equal(frames(&story, BARRIER), 2 * RANKS * 2);
    assert_int_equal(frames(&story, PACKET), 2 * RANKS * (RANKS - 1));
    assert_int_equal(frames(&story, ANSWER), 2 * RANKS * (RANKS - 1));
    assert_int_equal(frames(&story, 0), 2 * RANKS * (2 + 2 * (RANKS - 1)));
    tt_story_end(&story);
}

/* Rank 2 lacks what rank 0 has sent, and asks rank 1 when it has waited long enough. */
static void a_chunk_that_is_lost_comes_from_the_left_neighbours_copy(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, RANKS);
    job = allreduce(&story, WORDS);
    tt_story_time_of(&story, job);
    tt_sim_drop_chunk(story.world->sim, 2, tt_story_eager_imm(1, 0), 1);
    assert_int_equal(tt_story_time_of(&story, job), MADE_NS + STORY_WAY_NS(BARRIER) + TT_EAGER_ASK_NS + REPAIR_NS);
    assert_int_equal(frames(&story, STORY_ASK + TYPE), 1);
    tt_story_end(&story);
}

/* Each takes all of the ring, so the one before it must have ended everywhere: the barrier says so, and nobody asks. */
static void parts_that_fill_the_ring_need_no_acknowledgments(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, RANKS);
    job = allreduce(&story, TT_EAGER_RING_BYTES / 8);
    for (uint32_t i = 0; i < 3; i++) {
        tt_story_time_of(&story, job);
    }
    assert_int_equal(frames(&story, STORY_ACK), 0);
    assert_int_equal(frames(&story, STORY_ACK + TYPE), 0);
    tt_story_end(&story);
}

/* The most that there is, and a byte more: all parts together, which have as many whole elements each. */
static void all_parts_fit_the_ring_of_copies(void **state)
{
    enum { MOST = 64 * 1024, THIRD = MOST / 3 / 8 * 8 * 3 };
    struct tt_collective_terms terms = {
        .kind = TT_ALLREDUCE, .method = TT_METHOD_EAGER_PARTS, .block_bytes = MOST, .element_bytes = 8};

    (void)state;
    assert_int_equal(tt_request_check_method(&terms, RANKS), TUTTI_OK);
    terms.block_bytes = MOST + 8;
    assert_int_equal(tt_request_check_method(&terms, RANKS), TUTTI_ERR_TOO_LARGE);
    terms.block_bytes = THIRD;
    assert_int_equal(tt_request_check_method(&terms, 3), TUTTI_OK);
    terms.block_bytes = THIRD + 8;
    assert_int_equal(tt_request_check_method(&terms, 3), TUTTI_ERR_TOO_LARGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_part_goes_out_as_soon_as_it_is_made_and_nothing_after_it),
        cmocka_unit_test(a_chunk_that_is_lost_comes_from_the_left_neighbours_copy),
        cmocka_unit_test(parts_that_fill_the_ring_need_no_acknowledgments),
        cmocka_unit_test(all_parts_fit_the_ring_of_copies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
