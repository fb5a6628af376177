/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Eight ranks whose links have a switch with finite buffers in between: all are roots at once, and only their pace
 * keeps seven blocks from meeting in front of one link. Links as in support/story.h, 8 Gbit/s; a chunk takes 1 us on
 * each.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "support/story.h"

enum {
    RANKS = 8,
    CHUNKS = 500,
    BUFFER_CHUNKS = 100,
    LINK_KBIT = 8000000,
    WIRE_CHUNK = STORY_CHUNK + TT_PACE_OVERHEAD_BYTES
};
#define WIRE(bytes) ((bytes) + TT_PACE_OVERHEAD_BYTES)

static struct tt_world_job *begin(struct tt_story *story, uint64_t bandwidth)
{
    tt_story_prepare(story, RANKS);
    story->options.settings.bandwidth = bandwidth;
    story->options.sim.header_bytes = TT_PACE_OVERHEAD_BYTES;
    story->options.sim.downlink_queue_bytes = (uint64_t)BUFFER_CHUNKS * WIRE_CHUNK;
    story->options.sim.receive_depth = RANKS * CHUNKS; /* plenty: what is lost is lost in the network */
    tt_story_begin(story, RANKS);
    return tt_world_job_create(story->group, TT_ALLGATHER, 0, (uint64_t)CHUNKS * STORY_CHUNK, TT_METHOD_MULTICAST);
}

static uint64_t overflows(const struct tt_story *story)
{
    uint64_t drops = 0;

    for (uint32_t rank = 0; rank < RANKS; rank++) {
        struct tt_sim_port port;

        tt_sim_port_counters(story->world->sim, rank, &port);
        drops += port.tail_drops;
    }
    return drops;
}

/* Posts everywhere and runs to the end; returns how long the slowest rank took. */
static uint64_t run(struct tt_story *story, struct tt_world_job *job)
{
    uint64_t start_ns = tt_world_now(story->world), slowest_ns = 0;

    tt_world_post_all(job);
    tt_world_run_job(job, start_ns + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint64_t taken_ns = job->parts[rank].ended_ns - start_ns;

        slowest_ns = taken_ns > slowest_ns ? taken_ns : slowest_ns;
    }
    return slowest_ns;
}

static void with_a_known_bandwidth_nothing_is_lost_and_every_link_is_full(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, LINK_KBIT * UINT64_C(1000));
    uint64_t turn_ns, gathered_ns, first_ns;

    (void)state;
    assert_true(run(&story, job) < 7 * CHUNKS * (uint64_t)WIRE_CHUNK * 103 / 100);
    assert_int_equal(overflows(&story), 0);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        assert_int_equal(story.group->members[rank].group->bytes_served, 0);
        assert_int_equal(story.group->members[rank].group->ahead.chunks, RANKS * CHUNKS); /* all that queues hold */
    }
    /* A turn is a chunk at a seventh of 127/128 of the link. Chunks gather for 50 us; whoever has waited for them sends
     * them at once, and rank 1 begins a seventh of that time after it was released. */
    turn_ns = WIRE_CHUNK * TT_NS_PER_S / ((TT_NS_PER_S - TT_NS_PER_S / 128) / 7);
    gathered_ns = STORY_WAY_NS(WIRE(STORY_GATHER)) + (RANKS - 2) * WIRE(STORY_GATHER);
    first_ns = gathered_ns + 50000 - turn_ns + STORY_WAY_NS(WIRE_CHUNK);
    assert_int_equal(tt_story_first_arrival(&story, "chunk", 0, 1, STORY_RELEASE),
                     gathered_ns + STORY_WAY_NS(WIRE(STORY_RELEASE)));
    assert_int_equal(tt_story_first_arrival(&story, "chunk", 0, 1, STORY_CHUNK), first_ns);
    assert_int_equal(tt_story_first_arrival(&story, "chunk", 1, 2, 0),
                     first_ns + STORY_WAY_NS(WIRE(STORY_RELEASE)) + 50000 / 7);
    tt_story_end(&story);
}

static void the_first_allgather_loses_and_the_next_ones_know(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, TT_AUTO);
    uint64_t lost, before, first_ns, second_ns;

    (void)state;
    first_ns = run(&story, job);
    lost = overflows(&story);
    assert_true(lost > RANKS * (RANKS - 1) * CHUNKS / 2); /* six of seven did not fit */
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        /* A full port delivers at exactly its rate. */
        assert_in_range(story.group->members[rank].group->pace.limit_kbit, LINK_KBIT / 100 * 99, LINK_KBIT);
    }
    second_ns = run(&story, job);
    assert_int_equal(overflows(&story), lost);
    assert_true(second_ns < first_ns);
    assert_true(second_ns < 7 * CHUNKS * (uint64_t)WIRE_CHUNK * 103 / 100);
    for (uint32_t i = 0; i < 20; i++) {
        run(&story, job);
    }
    before = overflows(&story); /* attempts to send more have cost some by now, but the limit is the link's */
    assert_true(before > lost);
    assert_in_range(story.group->members[3].group->pace.limit_kbit, LINK_KBIT / 100 * 98, LINK_KBIT / 100 * 103);
    assert_int_equal(story.group->members[3].group->ahead.chunks, story.group->members[3].group->ahead.least_chunks);
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_a_known_bandwidth_nothing_is_lost_and_every_link_is_full),
        cmocka_unit_test(the_first_allgather_loses_and_the_next_ones_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
