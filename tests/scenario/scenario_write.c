/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Broadcast over UC: the network writes chunks of four packets to the receivers' buffers. Links as in support/story.h,
 * the cutoff is 1 ms after the wire time, the tail 100 us.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/sequencer.h"
#include "support/story.h"

enum { RANKS = 4, CHUNKS = 5, BYTES = CHUNKS * STORY_CHUNK, PACKETS = 4, PACKET = STORY_CHUNK / PACKETS };

/* The root's `final` leaves first, then the release and the chunks; a packet is on both links while the next one is
 * on the first. */
#define BEGIN_NS    (STORY_GATHERED_NS(RANKS) + STORY_FINAL + STORY_RELEASE)
#define SENT_NS     (BEGIN_NS + BYTES)
#define CHUNKS_NS   (SENT_NS - PACKET + STORY_WAY_NS(PACKET))
#define RELEASED_NS (STORY_GATHERED_NS(RANKS) + STORY_FINAL + STORY_WAY_NS(STORY_RELEASE))
#define TAIL_NS     (100 * TT_NS_PER_US)
/* When packet p of PSN i has reached the switch. */
#define AT_SWITCH_NS(i, p) (BEGIN_NS + (i)*STORY_CHUNK + ((p) + 1) * PACKET + 1000)

static struct tt_world_job *begin(struct tt_story *story, uint32_t packet_bytes)
{
    tt_story_prepare(story, RANKS);
    story->options.sim.uc_packet_bytes = packet_bytes;
    tt_story_begin(story, RANKS);
    return tt_world_job_create(story->group, TT_BROADCAST, 0, BYTES, TT_METHOD_MULTICAST);
}

static uint64_t served(const struct tt_story *story, uint32_t rank)
{
    return story->group->members[rank].group->bytes_served;
}

static struct tt_sim_port port_of(const struct tt_story *story, uint32_t rank)
{
    struct tt_sim_port port;

    tt_sim_port_counters(story->world->sim, rank, &port);
    return port;
}

static void end_well(struct tt_story *story, struct tt_world_job *job)
{
    tt_world_run_job(job, story->start_ns + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
}

/* How many bytes of the root's block are in a rank's buffer, one behind the other from `first` on. */
static uint32_t written(const struct tt_world_job *job, uint32_t rank, uint32_t first)
{
    uint32_t count = 0;

    while (first + count < BYTES && job->parts[rank].receive[first + count] == job->parts[0].send[first + count]) {
        count++;
    }
    return count;
}

/* Everything from `done` on that a lost chunk costs its rank 1: see scenario_repair. */
static uint64_t fetched_after(uint64_t sent_ns)
{
    return sent_ns + TT_SEQUENCER_HOLD * TAIL_NS + STORY_WAY_NS(STORY_DONE) + 2 * TAIL_NS + STORY_WAY_NS(STORY_FETCH) +
           STORY_WAY_NS(STORY_AVAILABLE) + STORY_WAY_NS(0) + STORY_WAY_NS(STORY_CHUNK);
}

static void everything_is_in_the_buffer_of_a_rank_whose_software_stands_still(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, PACKET);
    uint64_t awake_ns = CHUNKS_NS + 50 * TT_NS_PER_US;

    (void)state;
    tt_world_post_all(job);
    tt_world_run(story.world, story.start_ns + STORY_GATHERED_NS(RANKS)); /* its window has been bound for long */
    tt_sim_stall(story.world->sim, 3, story.start_ns + awake_ns);
    tt_world_run(story.world, story.start_ns + CHUNKS_NS - 1);
    assert_int_equal(written(job, 3, 0), BYTES - PACKET);
    tt_world_run(story.world, story.start_ns + CHUNKS_NS);
    assert_int_equal(written(job, 3, 0), BYTES);
    end_well(&story, job);
    assert_int_equal(tt_story_last_arrival(&story, "chunk", 0, 3, PACKET), CHUNKS_NS);
    assert_int_equal(tt_story_end_of(&story, job, 3), awake_ns); /* the root's `final` has been there for long, too */
    assert_int_equal(tt_story_end_of(&story, job, 2), awake_ns + STORY_WAY_NS(STORY_FINAL));
    assert_int_equal(tt_story_end_of(&story, job, 1), CHUNKS_NS + STORY_WAY_NS(STORY_FINAL));
    assert_int_equal(served(&story, 0) + served(&story, 1) + served(&story, 2) + served(&story, 3), 0);
    tt_story_end(&story);
}

static void chunk_that_lost_one_packet_of_four_is_fetched_as_a_whole(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, PACKET);

    (void)state;
    tt_world_post_all(job);
    tt_world_run(story.world, story.start_ns + AT_SWITCH_NS(1, 0));
    tt_sim_drop_chunk(story.world->sim, 1, tt_story_imm(0, 1), 1); /* the second packet of PSN 1 */
    tt_world_run(story.world, story.start_ns + CHUNKS_NS);
    assert_int_equal(written(job, 1, 0), STORY_CHUNK + PACKET);
    assert_int_equal(written(job, 1, 2 * STORY_CHUNK), BYTES - 2 * STORY_CHUNK);
    assert_int_equal(port_of(&story, 1).lost, 1);
    assert_int_equal(port_of(&story, 1).broken_packets, 2);
    end_well(&story, job);
    assert_int_equal(tt_story_first_arrival(&story, "get-data", 0, 1, STORY_CHUNK), fetched_after(SENT_NS));
    assert_int_equal(tt_story_end_of(&story, job, 1), fetched_after(SENT_NS));
    assert_int_equal(served(&story, 0), STORY_CHUNK);
    assert_int_equal(story.group->members[1].group->queues[0].receiver.placed, CHUNKS - 1);
    tt_story_end(&story);
}

static void packets_that_overtake_each_other_cost_their_chunk_and_no_other(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, PACKET);
    struct tt_sim_faults late = {.reorder_ppm = 1000000, .reorder_ns = 50 * TT_NS_PER_US};
    struct tt_sim_faults none = {0};

    (void)state;
    tt_world_post_all(job);
    /* Of PSN 2 the second packet is late, so that at least the third overtakes it. */
    tt_world_run(story.world, story.start_ns + AT_SWITCH_NS(2, 1) - 1);
    tt_sim_set_faults(story.world->sim, 1, &late);
    tt_world_run(story.world, story.start_ns + AT_SWITCH_NS(2, 1));
    tt_sim_set_faults(story.world->sim, 1, &none);
    end_well(&story, job);
    assert_int_equal(port_of(&story, 1).reordered, 1);
    assert_int_equal(port_of(&story, 1).broken_packets, 3);
    assert_int_equal(tt_story_end_of(&story, job, 1), fetched_after(SENT_NS));
    assert_int_equal(served(&story, 0), STORY_CHUNK);
    tt_story_end(&story);
}

static void chunk_that_comes_after_the_freeze_is_not_written(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, STORY_CHUNK); /* one packet a chunk: it would be complete */
    struct tt_sim_faults spike = {.spike_ppm = 1000000, .spike_ns = 3 * TT_NS_PER_MS};
    struct tt_sim_faults none = {0};
    uint64_t last_ns = SENT_NS - STORY_CHUNK + STORY_WAY_NS(STORY_CHUNK);
    uint64_t cutoff_ns = RELEASED_NS + BYTES + 2 * TT_NS_PER_MS; /* it looks twice, as there is news */
    uint64_t late_ns = last_ns + 3 * TT_NS_PER_MS;

    (void)state;
    tt_world_post_all(job);
    tt_world_run(story.world, story.start_ns + SENT_NS + 1000 - 1);
    tt_sim_set_faults(story.world->sim, 1, &spike); /* all that comes to rank 1 waits behind the last chunk */
    tt_world_run(story.world, story.start_ns + SENT_NS + 1000);
    tt_sim_set_faults(story.world->sim, 1, &none);
    tt_world_run(story.world, story.start_ns + late_ns - 1);
    assert_int_equal(tt_story_first_arrival(&story, "frame", 1, 0, STORY_FETCH), cutoff_ns + STORY_WAY_NS(STORY_FETCH));
    assert_int_equal(port_of(&story, 1).refused_packets, 0);
    tt_world_run(story.world, story.start_ns + late_ns);
    assert_int_equal(tt_story_last_arrival(&story, "chunk", 0, 1, STORY_CHUNK), late_ns);
    assert_int_equal(port_of(&story, 1).refused_packets, 1);
    assert_int_equal(written(job, 1, 0), BYTES - STORY_CHUNK);
    end_well(&story, job);
    assert_int_equal(tt_story_end_of(&story, job, 1), tt_story_first_arrival(&story, "get-data", 0, 1, STORY_CHUNK));
    assert_int_equal(story.group->members[1].group->cutoffs, 1);
    assert_int_equal(served(&story, 0), STORY_CHUNK);
    tt_story_end(&story);
}

/* The world has scribbled over the buffers by then, and looks at its end whether anybody else did. */
static void copies_that_come_after_the_end_leave_the_users_buffer_alone(void **state)
{
    struct tt_story story;
    struct tt_world_job *job = begin(&story, PACKET);
    struct tt_sim_faults twice = {.duplicate_ppm = 1000000, .reorder_ns = 50 * TT_NS_PER_MS};

    (void)state;
    tt_world_post_all(job);
    tt_world_run(story.world, story.start_ns + AT_SWITCH_NS(0, 0) - 1);
    tt_sim_set_faults(story.world->sim, TT_SIM_ALL_NODES, &twice);
    end_well(&story, job);
    tt_world_run(story.world, story.start_ns + 100 * TT_NS_PER_MS);
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        /* A chunk's first packet finds no window, and those behind it no chunk. */
        assert_int_equal(port_of(&story, rank).duplicated, CHUNKS * PACKETS);
        assert_int_equal(port_of(&story, rank).refused_packets, CHUNKS);
        assert_int_equal(port_of(&story, rank).broken_packets, CHUNKS * (PACKETS - 1));
        assert_true(tt_story_last_arrival(&story, "chunk", 0, rank, PACKET) > tt_story_end_of(&story, job, rank));
    }
    tt_story_end(&story);
}

/* The window of a collective is not that of the next one, though it is the same buffer. */
static void copies_that_come_into_the_next_collective_of_the_same_buffer_are_not_written(void **state)
{
    enum { ROUNDS = 5 };
    struct tt_story story;
    struct tt_world_job *job = begin(&story, STORY_CHUNK); /* one packet a chunk: each copy would be complete */
    struct tt_sim_faults twice = {.duplicate_ppm = 1000000, .reorder_ns = 20 * TT_NS_PER_US};

    (void)state;
    tt_sim_set_faults(story.world->sim, TT_SIM_ALL_NODES, &twice);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        tt_world_post_all(job); /* with other bytes than before */
        end_well(&story, job);
    }
    for (uint32_t rank = 1; rank < RANKS; rank++) {
        assert_int_equal(port_of(&story, rank).broken_packets, 0);
        assert_true(port_of(&story, rank).refused_packets > ROUNDS);
    }
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_in_the_buffer_of_a_rank_whose_software_stands_still),
        cmocka_unit_test(chunk_that_lost_one_packet_of_four_is_fetched_as_a_whole),
        cmocka_unit_test(packets_that_overtake_each_other_cost_their_chunk_and_no_other),
        cmocka_unit_test(chunk_that_comes_after_the_freeze_is_not_written),
        cmocka_unit_test(copies_that_come_after_the_end_leave_the_users_buffer_alone),
        cmocka_unit_test(copies_that_come_into_the_next_collective_of_the_same_buffer_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
