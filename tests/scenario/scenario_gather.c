/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Allgathers and barriers whose blocks are gathered by rank 0, which multicasts them: exact times, what comes early or
 * late or not at all. Eight ranks report to rank 0 at once; twenty go by way of others. Links as in support/story.h; a
 * crash is noticed after 1 ms, a rank asks after 5 ms, a parent reminds after 20 ms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "engine/request.h"
#include "proto/eager.h"
#include "support/story.h"

enum { FEW = 8, MANY = 20, BYTES = 100, ALL = FEW * BYTES, GATHER = STORY_GATHER + BYTES };
enum { TYPE = 10 }; /* bytes of the terms that only what is combined has */

/* From the moment when all have posted until rank 0 has the blocks of the seven others. */
#define GATHERED_NS (STORY_WAY_NS(GATHER) + (FEW - 2) * GATHER)
#define ASK_NS      (5 * TT_NS_PER_MS)
/* ASK goes, the left neighbour has everything: DONE, and an ordinary fetch of one chunk from its copy. */
#define FETCH_NS(bytes)                                                                                                \
    (STORY_WAY_NS(STORY_FETCH) + STORY_WAY_NS(STORY_AVAILABLE) + STORY_WAY_NS(0) + STORY_WAY_NS(bytes))
#define REPAIR_NS(bytes) (STORY_WAY_NS(STORY_ASK) + STORY_WAY_NS(STORY_KEPT) + FETCH_NS(bytes))

static void run_until(struct tt_story *story, uint64_t since_start_ns)
{
    tt_world_run(story->world, story->start_ns + since_start_ns);
}

static void run(struct tt_story *story, struct tt_world_job *job)
{
    tt_world_run_job(job, tt_world_now(story->world) + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
}

static uint32_t frames(struct tt_story *story, uint32_t bytes)
{
    return tt_story_arrivals(story, "frame", TT_RANK_NONE, TT_RANK_NONE, bytes);
}

/* Everybody but rank 0 has `last_bytes`, the last datagram of several, when it has come. */
static void expect_ends(struct tt_story *story, struct tt_world_job *job, uint64_t sent_ns, uint32_t last_bytes)
{
    assert_int_equal(tt_story_end_of(story, job, 0), sent_ns);
    for (uint32_t rank = 1; rank < job->group->size; rank++) {
        assert_int_equal(tt_story_end_of(story, job, rank), sent_ns - last_bytes + STORY_WAY_NS(last_bytes));
    }
}

/* --- Nothing lost ------------------------------------------------------------------------------------------------- */

static void eight_ranks_need_a_frame_each_and_one_datagram(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, FEW);
    job = tt_story_gather(&story, BYTES);
    tt_world_post_all(job);
    run(&story, job);
    expect_ends(&story, job, GATHERED_NS + ALL, ALL);
    assert_int_equal(frames(&story, 0), FEW - 1);
    for (uint32_t rank = 1; rank < FEW; rank++) {
        assert_int_equal(tt_story_arrivals(&story, "frame", rank, 0, GATHER), 1);
        assert_int_equal(tt_story_arrivals(&story, "chunk", 0, rank, 0), 1);
        assert_int_equal(tt_story_arrivals(&story, "chunk", rank, 0, 0), 0);
    }
    tt_story_end(&story);
}

static void a_barrier_of_eight_needs_a_frame_each_and_the_release(void **state)
{
    (void)state;
    for (uint32_t root = 0; root < FEW; root += 3) { /* one that is a broadcast of nothing is rooted anywhere */
        struct tt_story story;
        struct tt_world_job *job;
        uint64_t sent_ns = STORY_GATHERED_NS(FEW) + STORY_RELEASE;

        tt_story_start(&story, FEW);
        job = tt_world_job_create(story.group, root == 0 ? TT_ALLGATHER : TT_BROADCAST, root, 0, TT_METHOD_GATHER);
        tt_world_post_all(job);
        run(&story, job);
        for (uint32_t rank = 0; rank < FEW; rank++) {
            assert_int_equal(tt_story_end_of(&story, job, rank),
                             rank == root ? sent_ns : sent_ns - STORY_RELEASE + STORY_WAY_NS(STORY_RELEASE));
            assert_int_equal(tt_story_arrivals(&story, "chunk", root, rank, STORY_RELEASE), rank != root);
        }
        assert_int_equal(frames(&story, 0), FEW - 1);
        tt_story_end(&story);
    }
}

/* The blocks of all go up; what comes down is one block, or the word that the root has heard all. */
static void what_is_combined_comes_down_as_one_block(void **state)
{
    enum { WORDS = 12, BLOCK = 8 * WORDS, ROOT = 3 };
    static const struct {
        enum tt_collective_kind kind;
        uint32_t root, count, down_bytes;
    } rows[] = {{TT_ALLREDUCE, 0, WORDS, BLOCK},
                {TT_REDUCE, ROOT, WORDS, STORY_RELEASE},
                {TT_REDUCE_SCATTER, 0, WORDS, FEW * BLOCK}}; /* each gets WORDS of them */

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        uint32_t up_bytes = STORY_GATHER + TYPE + (rows[i].kind == TT_REDUCE_SCATTER ? FEW : 1) * BLOCK;
        uint64_t sent_ns = STORY_WAY_NS(up_bytes) + (FEW - 2) * up_bytes + rows[i].down_bytes;
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, FEW);
        job = tt_world_job_combine(story.group, rows[i].kind, rows[i].root, rows[i].count, TT_WORLD_WORDS, false,
                                   TT_METHOD_GATHER);
        tt_world_post_all(job);
        run(&story, job);
        for (uint32_t rank = 0; rank < FEW; rank++) {
            bool is_root = rank == rows[i].root;

            assert_int_equal(tt_story_end_of(&story, job, rank),
                             is_root ? sent_ns : sent_ns - rows[i].down_bytes + STORY_WAY_NS(rows[i].down_bytes));
            assert_int_equal(tt_story_arrivals(&story, "frame", rank, rows[i].root, up_bytes), !is_root);
            assert_int_equal(tt_story_arrivals(&story, "chunk", rows[i].root, rank, rows[i].down_bytes), !is_root);
        }
        assert_int_equal(frames(&story, 0), FEW - 1);
        tt_story_end(&story);
    }
}

/* From a root in the middle, so that a run of vectors goes on at the beginning; inner vertices and the root post late,
 * and have been sent as much as they keep of it. */
static void as_much_as_may_be_combined_goes_up_early(void **state)
{
    enum { ROOT = 7, MOST = 64 * 1024 / MANY, WORDS = MOST / 8, LATE = 9 };
    static const uint32_t late[LATE] = {ROOT, 11, 15, 19, 3, 8, 9, 5, 6};
    static const enum tt_collective_kind kinds[] = {TT_REDUCE, TT_ALLREDUCE};
    struct tt_collective_terms terms = {
        .kind = TT_REDUCE, .method = TT_METHOD_GATHER, .block_bytes = MOST, .element_bytes = 1};

    (void)state;
    assert_int_equal(tt_request_check_method(&terms, MANY), TUTTI_OK);
    terms.block_bytes++;
    assert_int_equal(tt_request_check_method(&terms, MANY), TUTTI_ERR_TOO_LARGE);
    for (size_t i = 0; i < 2; i++) {
        uint32_t root = kinds[i] == TT_REDUCE ? ROOT : 0;
        struct tt_story story;
        struct tt_world_job *job;
        bool is_late[MANY] = {false};

        tt_story_start(&story, MANY);
        job = tt_world_job_combine(story.group, kinds[i], root, WORDS, TT_WORLD_WORDS, false, TT_METHOD_GATHER);
        for (uint32_t k = 0; k < LATE; k++) {
            is_late[(late[k] + MANY + root - ROOT) % MANY] = true;
        }
        for (uint32_t rank = 0; rank < MANY; rank++) {
            if (!is_late[rank]) {
                assert_true(tt_world_post(job, rank));
            }
        }
        run_until(&story, TT_NS_PER_MS);
        for (uint32_t k = 0; k < LATE; k++) {
            assert_true(tt_world_post(job, (late[k] + MANY + root - ROOT) % MANY));
        }
        run(&story, job);
        assert_int_equal(frames(&story, STORY_REMIND + TYPE), 0);
        tt_story_end(&story);
    }
}

/* Half of the ring for copies is used then; the barrier's own frames bring the word that it is free again. */
static void a_barrier_behind_an_eager_allgather_of_half_a_ring_needs_no_acknowledgments(void **state)
{
    enum { TIMES = 3, BLOCK = TT_EAGER_MAX_BYTES / FEW, CHUNKS = (BLOCK + STORY_CHUNK - 1) / STORY_CHUNK };
    struct tt_story story;
    struct tt_world_job *blocks, *barrier;

    (void)state;
    tt_story_start(&story, FEW);
    blocks = tt_world_job_create(story.group, TT_ALLGATHER, 0, BLOCK, TT_METHOD_EAGER);
    barrier = tt_story_gather(&story, 0);
    for (uint32_t i = 0; i < TIMES; i++) {
        tt_world_post_all(blocks);
        run(&story, blocks);
        run_until(&story, (2 * i + 1) * TT_NS_PER_MS);
        tt_world_post_all(barrier);
        run(&story, barrier);
        for (uint32_t rank = 1; rank < FEW; rank++) {
            assert_int_equal(tt_story_end_of(&story, barrier, rank),
                             (2 * i + 1) * TT_NS_PER_MS + STORY_GATHERED_NS(FEW) + STORY_WAY_NS(STORY_RELEASE));
        }
        run_until(&story, (2 * i + 2) * TT_NS_PER_MS);
    }
    assert_int_equal(frames(&story, STORY_GATHER), TIMES * (FEW - 1));
    assert_int_equal(frames(&story, 0), TIMES * (FEW - 1));
    assert_int_equal(tt_story_arrivals(&story, "chunk", 0, 1, 0), TIMES * (CHUNKS + 1));
    tt_story_end(&story);
}

/*
 * Rank 0 of 20 hears from 1, 2, 4, 8 and 19, 18, 16, 12; of these 4 speaks for 3 to 5, 8 for 6 to 10, 12 for 11 to 14,
 * 16 for 15 to 17. Each of those four hears from its leaves one behind the other, and then sends. At rank 0 the frames
 * of 4 and 16 come at the same time, that of 12 is in time to go right behind them, and that of 8 behind it.
 */
static void twenty_ranks_go_by_way_of_four_others(void **state)
{
    enum { LAST = 1000, OF_3 = STORY_GATHER + 3 * BYTES, OF_4 = OF_3 + BYTES, OF_5 = OF_4 + BYTES };
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t told_ns = STORY_WAY_NS(GATHER) + GATHER; /* 4 and 16 have both their leaves */
    uint64_t gathered_ns = told_ns + STORY_WAY_NS(OF_3) + OF_3 + OF_4 + OF_5;

    (void)state;
    tt_story_start(&story, MANY);
    job = tt_story_gather(&story, BYTES);
    tt_world_post_all(job);
    run(&story, job);
    assert_int_equal(tt_story_first_arrival(&story, "frame", 8, 0, OF_5), gathered_ns);
    expect_ends(&story, job, gathered_ns + 2 * LAST, LAST);
    assert_int_equal(frames(&story, 0), MANY - 1);
    assert_int_equal(frames(&story, GATHER), MANY - 1 - 4);
    assert_int_equal(frames(&story, OF_3), 2);
    assert_int_equal(frames(&story, OF_4), 1);
    tt_story_end(&story);
}

static void a_barrier_of_twenty_takes_two_ways_and_the_release(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t told_ns = STORY_WAY_NS(STORY_GATHER) + STORY_GATHER;
    uint64_t gathered_ns = told_ns + STORY_WAY_NS(STORY_GATHER) + 3 * STORY_GATHER;

    (void)state;
    tt_story_start(&story, MANY);
    job = tt_story_gather(&story, 0);
    tt_world_post_all(job);
    run(&story, job);
    expect_ends(&story, job, gathered_ns + STORY_RELEASE, STORY_RELEASE);
    assert_int_equal(frames(&story, 0), MANY - 1);
    tt_story_end(&story);
}

static void larger_blocks_go_in_several_frames(void **state)
{
    enum { REST = 56, BLOCK = TT_FRAME_GATHER_BYTES + REST, FULL = STORY_GATHER + TT_FRAME_GATHER_BYTES };
    struct tt_story story;
    struct tt_world_job *job;
    /* The downlink of rank 0 carries one frame behind the other from the first on. */
    uint64_t gathered_ns = FULL + 1000 + (FEW - 1) * ((uint64_t)FULL + STORY_GATHER + REST) + 1000;

    (void)state;
    tt_story_start(&story, FEW);
    job = tt_story_gather(&story, BLOCK);
    tt_world_post_all(job);
    run(&story, job);
    expect_ends(&story, job, gathered_ns + FEW * BLOCK, STORY_CHUNK);
    assert_int_equal(frames(&story, FULL), FEW - 1);
    assert_int_equal(frames(&story, 0), 2 * (FEW - 1));
    tt_story_end(&story);
}

static void two_ranks_need_one_frame_and_one_datagram(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, 2);
    job = tt_story_gather(&story, BYTES);
    tt_world_post_all(job);
    run(&story, job);
    expect_ends(&story, job, STORY_WAY_NS(GATHER) + 2 * BYTES, 2 * BYTES);
    tt_story_end(&story);
}

static void one_rank_has_everything(void **state)
{
    struct tt_story story;
    struct tt_world_job *jobs[3];

    (void)state;
    tt_story_start(&story, 1);
    for (uint32_t i = 0; i < 3; i++) {
        jobs[i] = tt_story_gather(&story, i * BYTES);
        jobs[i]->parts[0].in_place = i == 2;
        tt_world_post_all(jobs[i]);
        run(&story, jobs[i]);
        assert_int_equal(tt_story_end_of(&story, jobs[i], 0), 0);
    }
    tt_story_end(&story);
}

/* More often than there are tags, and with something lost now and then. */
static void a_persistent_one_runs_again_and_again(void **state)
{
    struct tt_story story;
    struct tt_world_job *blocks, *barrier;

    (void)state;
    tt_story_prepare(&story, FEW);
    story.options.sim.faults.loss_ppm = 20000;
    tt_story_begin(&story, FEW);
    blocks = tt_story_gather(&story, BYTES);
    barrier = tt_story_gather(&story, 0);
    for (uint32_t i = 0; i < 300; i++) {
        tt_world_post_all(blocks);
        tt_world_post_all(barrier);
        run(&story, blocks);
        run(&story, barrier);
    }
    for (uint32_t rank = 0; rank < FEW; rank++) {
        assert_int_equal(story.group->members[rank].group->drops_frame, 0);
    }
    tt_story_end(&story);
}

/* --- Late and early ----------------------------------------------------------------------------------------------- */

static void everybody_waits_for_a_rank_that_is_late(void **state)
{
    uint64_t late_ns = 3 * TT_NS_PER_MS;

    (void)state;
    for (uint32_t bytes = 0; bytes <= BYTES; bytes += BYTES) {
        uint32_t all = bytes == 0 ? STORY_RELEASE : FEW * bytes;
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, FEW);
        job = tt_story_gather(&story, bytes);
        tt_story_post_but(job, 5);
        run_until(&story, late_ns);
        assert_int_equal(frames(&story, 0), FEW - 2);
        for (uint32_t rank = 0; rank < FEW; rank++) {
            assert_int_equal(job->parts[rank].is_running, rank != 5);
            assert_int_equal(tt_story_arrivals(&story, "chunk", 0, rank, 0), 0);
        }
        tt_world_post(job, 5);
        run(&story, job);
        expect_ends(&story, job, late_ns + STORY_WAY_NS(STORY_GATHER + bytes) + all, all);
        tt_story_end(&story);
    }
}

static void a_rank_that_is_very_late_is_reminded_and_the_others_ask_once(void **state)
{
    uint64_t late_ns = 70 * TT_NS_PER_MS;
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, FEW);
    job = tt_story_gather(&story, BYTES);
    tt_story_post_but(job, 5);
    run_until(&story, late_ns);
    /* At 20 ms, and 40 ms later. */
    assert_int_equal(tt_story_arrivals(&story, "frame", 0, 5, STORY_REMIND), 2);
    assert_int_equal(tt_story_first_arrival(&story, "frame", 0, 5, STORY_REMIND),
                     TT_TREE_REMIND_NS + STORY_WAY_NS(STORY_REMIND));
    assert_int_equal(tt_story_last_arrival(&story, "frame", 0, 5, STORY_REMIND),
                     3 * TT_TREE_REMIND_NS + STORY_WAY_NS(STORY_REMIND));
    assert_int_equal(frames(&story, STORY_REMIND), 2); /* to nobody else */
    assert_int_equal(frames(&story, STORY_ASK), FEW - 2);
    tt_world_post(job, 5);
    run(&story, job);
    expect_ends(&story, job, late_ns + STORY_WAY_NS(GATHER) + ALL, ALL);
    assert_int_equal(tt_story_arrivals(&story, "frame", 5, 0, GATHER), 1);
    tt_story_end(&story);
}

static void blocks_that_come_before_the_root_has_posted_are_kept(void **state)
{
    enum { JOBS = 3 };
    uint64_t late_ns = TT_NS_PER_MS;
    struct tt_story story;
    struct tt_world_job *jobs[JOBS];

    (void)state;
    tt_story_start(&story, FEW);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = tt_story_gather(&story, i * BYTES);
        tt_story_post_but(jobs[i], 0);
    }
    run_until(&story, late_ns);
    for (uint32_t i = 0; i < JOBS; i++) {
        tt_world_post(jobs[i], 0);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        run(&story, jobs[i]);
    }
    expect_ends(&story, jobs[0], late_ns + STORY_RELEASE, STORY_RELEASE);
    expect_ends(&story, jobs[1], late_ns + STORY_RELEASE + ALL, ALL);
    assert_int_equal(frames(&story, 0), JOBS * (FEW - 1)); /* nobody had to say it again */
    assert_int_equal(story.group->members[0].group->drops_frame, 0);
    tt_story_end(&story);
}

/* An inner vertex keeps what its leaves have said. */
static void blocks_wait_at_a_rank_on_the_way_that_has_not_posted(void **state)
{
    enum { OF_5 = STORY_GATHER + 5 * BYTES };
    uint64_t late_ns = TT_NS_PER_MS;
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, MANY);
    job = tt_story_gather(&story, BYTES);
    tt_story_post_but(job, 8);
    run_until(&story, late_ns);
    tt_world_post(job, 8);
    run(&story, job);
    expect_ends(&story, job, late_ns + STORY_WAY_NS(OF_5) + 2 * STORY_CHUNK, STORY_CHUNK);
    assert_int_equal(frames(&story, 0), MANY - 1);
    tt_story_end(&story);
}

static void what_there_was_no_room_for_is_said_again_when_the_parent_posts(void **state)
{
    enum {
        JOBS = 3,
        BLOCK = TT_EAGER_MAX_BYTES / FEW,
        PIECES = (BLOCK + TT_FRAME_GATHER_BYTES - 1) / TT_FRAME_GATHER_BYTES
    };
    uint64_t late_ns = TT_NS_PER_MS;
    struct tt_story story;
    struct tt_world_job *jobs[JOBS];
    uint32_t said, dropped;

    (void)state;
    tt_story_start(&story, FEW);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = tt_story_gather(&story, BLOCK);
        tt_story_post_but(jobs[i], 0);
    }
    run_until(&story, late_ns);
    dropped = (uint32_t)story.group->members[0].group->drops_frame;
    assert_in_range(dropped, 1, (FEW - 1) * PIECES); /* of the third one */
    for (uint32_t i = 0; i < JOBS; i++) {
        tt_world_post(jobs[i], 0);
    }
    for (uint32_t i = 0; i < JOBS; i++) {
        run(&story, jobs[i]);
    }
    said = frames(&story, 0) - frames(&story, STORY_REMIND) - frames(&story, STORY_ASK) - frames(&story, STORY_KEPT) -
           frames(&story, STORY_ACK);
    assert_int_equal(said, JOBS * (FEW - 1) * PIECES + frames(&story, STORY_REMIND) * PIECES);
    assert_in_range(frames(&story, STORY_REMIND), 1, FEW - 1);
    for (uint32_t rank = 0; rank < FEW; rank++) {
        assert_in_range(tt_story_end_of(&story, jobs[2], rank), late_ns + STORY_WAY_NS(STORY_REMIND),
                        late_ns + TT_NS_PER_MS);
    }
    tt_story_end(&story);
}

/* --- Lost --------------------------------------------------------------------------------------------------------- */

static void lost_data_is_fetched_from_the_left_neighbour_s_copy(void **state)
{
    (void)state;
    for (uint32_t bytes = 0; bytes <= BYTES; bytes += BYTES) { /* of a barrier that is the release */
        uint32_t all = bytes == 0 ? STORY_RELEASE : FEW * bytes;
        struct tt_story story;
        struct tt_world_job *job;

        tt_story_start(&story, FEW);
        job = tt_story_gather(&story, bytes);
        tt_sim_drop_chunk(story.world->sim, 3, tt_story_eager_imm(0, 0), 1);
        tt_world_post_all(job);
        run(&story, job);
        assert_int_equal(tt_story_first_arrival(&story, "frame", 3, 2, STORY_ASK), ASK_NS + STORY_WAY_NS(STORY_ASK));
        assert_int_equal(tt_story_end_of(&story, job, 3), ASK_NS + REPAIR_NS(all));
        assert_int_equal(tt_story_arrivals(&story, "get-data", 2, 3, all), 1);
        assert_true(tt_story_end_of(&story, job, 2) < 100 * TT_NS_PER_US); /* it did not wait for that */
        assert_int_equal(frames(&story, STORY_ASK), 1);
        tt_story_end(&story);
    }
}

/* The release of what follows says that all have posted that. */
static void lost_data_with_later_traffic_is_asked_for_a_tail_after_the_sign(void **state)
{
    struct tt_story story;
    struct tt_world_job *lost, *next;
    uint64_t sign_ns, begun_ns = 500 * TT_NS_PER_US;

    (void)state;
    tt_story_start(&story, FEW);
    lost = tt_story_gather(&story, BYTES);
    next = tt_world_job_create(story.group, TT_ALLGATHER, 0, BYTES, TT_METHOD_MULTICAST);
    tt_sim_drop_chunk(story.world->sim, 3, tt_story_eager_imm(0, 0), 1);
    tt_world_post_all(lost);
    run_until(&story, begun_ns);
    tt_world_post_all(next);
    run(&story, lost);
    run(&story, next);
    sign_ns = begun_ns + STORY_GATHERED_NS(FEW) + STORY_WAY_NS(STORY_RELEASE);
    assert_int_equal(tt_story_first_arrival(&story, "frame", 3, 2, STORY_ASK),
                     sign_ns + 100 * TT_NS_PER_US + STORY_WAY_NS(STORY_ASK));
    tt_story_end(&story);
}

static void who_leaves_stays_until_everybody_has_the_blocks(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;

    (void)state;
    tt_story_start(&story, FEW);
    job = tt_story_gather(&story, BYTES);
    tt_sim_drop_chunk(story.world->sim, 3, tt_story_eager_imm(0, 0), 1);
    tt_world_post_all(job);
    run_until(&story, TT_NS_PER_MS);
    for (uint32_t rank = 0; rank < FEW; rank++) {
        assert_int_equal(job->parts[rank].is_running, rank == 3);
        assert_false(rank != 3 && tt_world_settle(story.group, rank));
    }
    run(&story, job);
    tt_world_run(story.world, tt_world_now(story.world) + 4 * STORY_WAY_NS(STORY_ACK));
    for (uint32_t rank = 0; rank < FEW; rank++) {
        assert_true(tt_world_settle(story.group, rank));
        tt_world_leave(story.group, rank);
    }
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_ranks_need_a_frame_each_and_one_datagram),
        cmocka_unit_test(what_is_combined_comes_down_as_one_block),
        cmocka_unit_test(as_much_as_may_be_combined_goes_up_early),
        cmocka_unit_test(a_barrier_of_eight_needs_a_frame_each_and_the_release),
        cmocka_unit_test(a_barrier_behind_an_eager_allgather_of_half_a_ring_needs_no_acknowledgments),
        cmocka_unit_test(twenty_ranks_go_by_way_of_four_others),
        cmocka_unit_test(a_barrier_of_twenty_takes_two_ways_and_the_release),
        cmocka_unit_test(larger_blocks_go_in_several_frames),
        cmocka_unit_test(two_ranks_need_one_frame_and_one_datagram),
        cmocka_unit_test(one_rank_has_everything),
        cmocka_unit_test(a_persistent_one_runs_again_and_again),
        cmocka_unit_test(everybody_waits_for_a_rank_that_is_late),
        cmocka_unit_test(a_rank_that_is_very_late_is_reminded_and_the_others_ask_once),
        cmocka_unit_test(blocks_that_come_before_the_root_has_posted_are_kept),
        cmocka_unit_test(blocks_wait_at_a_rank_on_the_way_that_has_not_posted),
        cmocka_unit_test(what_there_was_no_room_for_is_said_again_when_the_parent_posts),
        cmocka_unit_test(lost_data_is_fetched_from_the_left_neighbour_s_copy),
        cmocka_unit_test(lost_data_with_later_traffic_is_asked_for_a_tail_after_the_sign),
        cmocka_unit_test(who_leaves_stays_until_everybody_has_the_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
