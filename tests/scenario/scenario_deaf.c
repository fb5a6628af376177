/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Multicast that stops when the group stands: the collective that it stops in and two more are repaired, slowly; then
 * who hears nothing reads from its left neighbour at once, and if nobody hears anything nothing is multicast. When it
 * works again it is used again. Links as in support/story.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/story.h"

enum { RANKS = 8, UNHEARD = 2, UNHEARD_CHUNKS = 6, BLOCK = 64 * STORY_CHUNK };
#define PATIENCE_NS TT_NS_PER_S

static void begin(struct tt_story *story, uint32_t ranks)
{
    tt_story_prepare(story, ranks);
    tt_story_begin(story, ranks);
}

/* How long it takes until the last rank has ended. */
static uint64_t time_of(const struct tt_story *story, struct tt_world_job *job)
{
    uint64_t start_ns = tt_world_now(story->world);

    tt_world_post_all(job);
    tt_world_run_job(job, start_ns + PATIENCE_NS);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    return tt_world_now(story->world) - start_ns;
}

static bool is_deaf(const struct tt_story *story, uint32_t rank)
{
    return story->group->members[rank].group->member.deaf;
}

static uint64_t chunks_sent(const struct tt_story *story)
{
    uint64_t sum = 0;

    for (uint32_t rank = 0; rank < story->group->size; rank++) {
        const struct tt_queue *queue = story->group->members[rank].group->queues;
        struct tt_mcast_counters counters;

        queue->mcast->ops->counters(queue->mcast, &counters);
        sum += counters.datagrams_sent;
    }
    return sum;
}

static void assert_at_most(uint64_t ns, uint64_t most_ns)
{
    if (ns > most_ns) {
        fail_msg("%llu ns, at most %llu were expected", (unsigned long long)ns, (unsigned long long)most_ns);
    }
}

/* A collective and what it takes, once the network is known, and what the same takes point to point. */
struct measured {
    struct tt_world_job *job;
    uint64_t before_ns, usual_ns;
};

static struct measured begin_measured(struct tt_story *story, enum tt_collective_kind kind, uint32_t ranks)
{
    struct measured measured;
    struct tt_world_job *reference;

    begin(story, ranks);
    measured.job = tt_world_job_create(story->group, kind, 0, BLOCK, TT_METHOD_MULTICAST);
    reference = tt_world_job_create(story->group, kind, 0, BLOCK, TT_METHOD_RING);
    time_of(story, measured.job); /* finds out what the network takes */
    measured.before_ns = time_of(story, measured.job);
    measured.usual_ns = time_of(story, reference);
    return measured;
}

/* What is read at once is no slower than point to point. */
static void assert_is_read(const struct tt_story *story, const struct measured *measured)
{
    assert_at_most(time_of(story, measured->job), measured->usual_ns * 11 / 10 + 20 * TT_NS_PER_US);
}

/* Roots: how many ranks send, each a block. */
static void check_all_deaf(enum tt_collective_kind kind, uint32_t ranks, uint32_t roots)
{
    struct tt_story story;
    struct measured measured = begin_measured(&story, kind, ranks);
    uint64_t sent;

    tt_story_set_deaf(&story, TT_SIM_ALL_NODES, true);
    for (uint32_t i = 0; i < UNHEARD; i++) {
        time_of(&story, measured.job);
    }
    for (uint32_t rank = 0; rank < ranks; rank++) {
        assert_true(is_deaf(&story, rank) == (kind == TT_ALLGATHER || rank != 0));
    }
    for (uint32_t i = 0; i < 5; i++) {
        sent = chunks_sent(&story);
        assert_is_read(&story, &measured);
        assert_int_equal(chunks_sent(&story) - sent, 1 + roots); /* the release, and a chunk of each */
    }
    tt_story_set_deaf(&story, TT_SIM_ALL_NODES, false);
    time_of(&story, measured.job); /* in which they are heard */
    assert_int_equal(is_deaf(&story, 1), false);
    time_of(&story, measured.job);
    assert_at_most(time_of(&story, measured.job), measured.before_ns * 11 / 10);
    tt_story_end(&story);
}

/* At any moment of a collective: that one is slow, and as many as nobody hears anything of. */
static void at_most_three_are_slow_whenever_multicast_stops(void **state)
{
    enum { MOMENTS = 7, MOST_SLOW = 3 };

    (void)state;
    for (uint32_t which = 0; which < 2; which++) {
        for (uint64_t moment = 0; moment <= MOMENTS; moment++) {
            enum tt_collective_kind kind = which == 0 ? TT_BROADCAST : TT_ALLGATHER;
            struct tt_story story;
            struct measured measured = begin_measured(&story, kind, RANKS);
            uint64_t start_ns = tt_world_now(story.world);

            tt_world_post_all(measured.job);
            tt_world_run(story.world, start_ns + measured.before_ns * moment / MOMENTS);
            tt_story_set_deaf(&story, TT_SIM_ALL_NODES, true);
            tt_world_run_job(measured.job, start_ns + PATIENCE_NS);
            tt_story_all_ended(measured.job, TUTTI_OK, TT_RANK_NONE, 0);
            for (uint32_t slow = 1; slow < MOST_SLOW; slow++) {
                time_of(&story, measured.job);
            }
            assert_is_read(&story, &measured);
            tt_story_end(&story);
        }
    }
}

static void broadcast_that_nobody_hears_is_read_and_multicast_again_when_it_can_be(void **state)
{
    (void)state;
    check_all_deaf(TT_BROADCAST, RANKS, 1);
    check_all_deaf(TT_BROADCAST, 2, 1);
    check_all_deaf(TT_BROADCAST, 5, 1);
    check_all_deaf(TT_BROADCAST, 33, 1);
}

static void allgather_that_nobody_hears_is_read_and_multicast_again_when_it_can_be(void **state)
{
    (void)state;
    check_all_deaf(TT_ALLGATHER, RANKS, RANKS);
    check_all_deaf(TT_ALLGATHER, 3, 3);
    check_all_deaf(TT_ALLGATHER, 12, 12);
}

/* One rank of many: what the others do is as before, or nearly, and that one is no slower than by reads. */
static void who_alone_is_deaf_does_not_hold_up_the_others_for_long(void **state)
{
    (void)state;
    for (uint32_t deaf = 0; deaf < RANKS; deaf++) {
        for (uint32_t which = 0; which < 2; which++) {
            enum tt_collective_kind kind = which == 0 ? TT_BROADCAST : TT_ALLGATHER;
            struct tt_story story;
            struct tt_world_job *job;
            uint64_t before_ns, after_ns = 0;

            begin(&story, RANKS);
            job = tt_world_job_create(story.group, kind, 0, BLOCK, TT_METHOD_MULTICAST);
            time_of(&story, job);
            before_ns = time_of(&story, job);
            tt_story_set_deaf(&story, deaf, true);
            for (uint32_t i = 0; i < UNHEARD; i++) {
                time_of(&story, job);
            }
            for (uint32_t rank = 0; rank < RANKS; rank++) {
                assert_true(is_deaf(&story, rank) == (rank == deaf && (kind == TT_ALLGATHER || rank != 0)));
            }
            for (uint32_t i = 0; i < 3; i++) {
                after_ns = time_of(&story, job);
                assert_at_most(after_ns, 3 * before_ns); /* the left neighbour sends twice, one after the other */
            }
            tt_story_set_deaf(&story, deaf, false);
            time_of(&story, job);
            time_of(&story, job);
            assert_false(is_deaf(&story, deaf));
            assert_at_most(time_of(&story, job), before_ns * 11 / 10);
            tt_story_end(&story);
        }
    }
}

/* Small ones have no barrier, and their data goes on being multicast. */
static void small_ones_wait_for_nothing_that_will_not_come(void **state)
{
    static const struct {
        enum tt_collective_kind kind;
        enum tt_method method;
        uint32_t slow; /* of one chunk it takes more of them */
    } cases[] = {{TT_BROADCAST, TT_METHOD_EAGER, UNHEARD_CHUNKS},
                 {TT_ALLGATHER, TT_METHOD_EAGER, UNHEARD},
                 {TT_ALLGATHER, TT_METHOD_GATHER, UNHEARD_CHUNKS}};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tt_story story;
        struct tt_world_job *job;
        uint64_t before_ns;

        begin(&story, RANKS);
        job = tt_world_job_create(story.group, cases[i].kind, 0, 100, cases[i].method);
        time_of(&story, job);
        before_ns = time_of(&story, job);
        tt_story_set_deaf(&story, TT_SIM_ALL_NODES, true);
        for (uint32_t slow = 0; slow < cases[i].slow; slow++) {
            assert_true(time_of(&story, job) > TT_EAGER_ASK_NS);
        }
        for (uint32_t quick = 0; quick < 5; quick++) {
            assert_at_most(time_of(&story, job), 400 * TT_NS_PER_US);
        }
        tt_story_set_deaf(&story, TT_SIM_ALL_NODES, false);
        for (uint32_t again = 0; again < 3; again++) {
            time_of(&story, job);
        }
        assert_at_most(time_of(&story, job), before_ns * 11 / 10);
        tt_story_end(&story);
    }
}

/* Of an allreduce the half that is multicast. */
static void parts_are_read_too(void **state)
{
    struct tt_story story;
    struct tt_world_job *job;
    uint64_t before_ns;

    (void)state;
    begin(&story, RANKS);
    job = tt_world_job_combine(story.group, TT_ALLREDUCE, 0, 16000, TT_WORLD_WORDS, false, TT_METHOD_PARTS);
    time_of(&story, job);
    before_ns = time_of(&story, job);
    tt_story_set_deaf(&story, TT_SIM_ALL_NODES, true);
    for (uint32_t i = 0; i < UNHEARD; i++) {
        time_of(&story, job);
    }
    for (uint32_t i = 0; i < 3; i++) {
        assert_at_most(time_of(&story, job), 2 * before_ns);
    }
    tt_story_set_deaf(&story, TT_SIM_ALL_NODES, false);
    time_of(&story, job);
    time_of(&story, job);
    assert_at_most(time_of(&story, job), before_ns * 11 / 10);
    tt_story_end(&story);
}

/* Those that had begun before it was known are repaired; those that were read at once say nothing against multicast
 * that works again meanwhile. */
static void many_at_once_end_well_and_nobody_is_deaf_for_longer_than_it_is(void **state)
{
    enum { JOBS = 12 };
    struct tt_world_job *jobs[JOBS];
    struct tt_story story;

    (void)state;
    begin(&story, RANKS);
    for (uint32_t i = 0; i < JOBS; i++) {
        jobs[i] = tt_world_job_create(story.group, i % 3 == 0 ? TT_ALLGATHER : TT_BROADCAST, i % RANKS, BLOCK / 4,
                                      TT_METHOD_MULTICAST);
    }
    for (uint32_t round = 0; round < 6; round++) {
        if (round % 2 == 0) {
            tt_story_set_deaf(&story, round == 4 ? 5 : TT_SIM_ALL_NODES, true);
        }
        for (uint32_t i = 0; i < JOBS; i++) {
            tt_world_post_all(jobs[i]);
            if (i == JOBS / 2 && round % 2 == 1) {
                tt_world_run(story.world, tt_world_now(story.world) + 50 * TT_NS_PER_US);
                tt_story_set_deaf(&story, TT_SIM_ALL_NODES, false);
            }
        }
        for (uint32_t i = 0; i < JOBS; i++) {
            tt_world_run_job(jobs[i], tt_world_now(story.world) + PATIENCE_NS);
            tt_story_all_ended(jobs[i], TUTTI_OK, TT_RANK_NONE, 0);
        }
    }
    time_of(&story, jobs[0]);
    time_of(&story, jobs[0]);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_false(is_deaf(&story, rank));
    }
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_most_three_are_slow_whenever_multicast_stops),
        cmocka_unit_test(broadcast_that_nobody_hears_is_read_and_multicast_again_when_it_can_be),
        cmocka_unit_test(allgather_that_nobody_hears_is_read_and_multicast_again_when_it_can_be),
        cmocka_unit_test(who_alone_is_deaf_does_not_hold_up_the_others_for_long),
        cmocka_unit_test(small_ones_wait_for_nothing_that_will_not_come),
        cmocka_unit_test(parts_are_read_too),
        cmocka_unit_test(many_at_once_end_well_and_nobody_is_deaf_for_longer_than_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
