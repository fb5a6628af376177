/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A Broadcast by blocks, whose root begins while another rank still waits for its last frame of the barrier: until that
 * has come the rank has not given its buffer to anybody, since the request would end at once if the group failed.
 * Frames of rank 2 take 10 ms; rank 1 posts after 20 ms, so that the root's barrier is over then and its own after 30.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "engine/relay.h"
#include "support/story.h"

enum { ROOT, LATE, SLOW, RANKS, BYTES = 200000 };

#define BEGINS_NS (100 * TT_NS_PER_MS)
#define POSTS_NS  (20 * TT_NS_PER_MS)
#define LOOKS_NS  (25 * TT_NS_PER_MS)
#define STARTS_NS (35 * TT_NS_PER_MS)

static struct tt_world_job *begin(struct tt_story *story)
{
    const struct tt_sim_link slow = {.bits_per_second = UINT64_C(10000000000), .latency_ns = 10 * TT_NS_PER_MS};
    const struct tt_sim_link usual = {.bits_per_second = UINT64_C(10000000000), .latency_ns = TT_NS_PER_US};
    struct tt_world_job *job;

    tt_story_start(story, RANKS);
    job = tt_world_job_create(story->group, TT_BROADCAST, ROOT, BYTES, TT_METHOD_BINOMIAL_PIPELINE);
    (void)tt_story_time_of(story, job); /* by now the members of its object group have found each other */
    tt_world_run(story->world, story->start_ns + BEGINS_NS);
    tt_sim_set_links(story->world->sim, SLOW, slow, usual);
    tt_story_post_but(job, LATE);
    tt_world_run(story->world, story->start_ns + BEGINS_NS + POSTS_NS);
    assert_true(tt_world_post(job, LATE));
    tt_world_run(story->world, story->start_ns + BEGINS_NS + LOOKS_NS);
    return job;
}

static const struct tt_objects *objects_of(const struct tt_story *story)
{
    return story->group->members[LATE].group->relays->objects;
}

static void a_buffer_is_not_given_before_the_barrier_is_over(void **state)
{
    struct tt_world_job *job;
    struct tt_story story;

    (void)state;
    job = begin(&story);
    assert_int_equal(objects_of(&story)->machine.offered, 2);
    assert_null(objects_of(&story)->places[1].memory);
    tt_world_run(story.world, story.start_ns + BEGINS_NS + STARTS_NS);
    assert_non_null(objects_of(&story)->places[1].memory);
    tt_world_run_job(job, story.start_ns + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    tt_story_end(&story);
}

static void a_rank_that_dies_meanwhile_ends_it_for_the_others(void **state)
{
    struct tt_world_job *job;
    struct tt_story story;

    (void)state;
    job = begin(&story);
    tt_sim_crash(story.world->sim, SLOW, tt_world_now(story.world));
    tt_world_run_job(job, story.start_ns + TT_NS_PER_S);
    for (uint32_t rank = 0; rank < SLOW; rank++) {
        assert_int_equal(job->parts[rank].status, TUTTI_ERR_PEER_FAILED);
        assert_int_equal(job->parts[rank].failed_rank, SLOW);
    }
    tt_story_forgive_reads(&story);
    tt_story_end(&story);
}

/* By its group, once a rank, and not by the object group of which it has to be told. */
static void a_failure_of_nobody_in_particular_names_nobody(void **state)
{
    char path[] = "/tmp/tutti-scenario-relay-XXXXXX", text[4096] = "", ignored[256];
    struct tt_group *group;
    struct tt_world_job *job;
    struct tt_story story;
    uint32_t lines = 0;
    int fd = mkstemp(path);

    (void)state;
    assert_true(fd >= 0);
    job = begin(&story);
    group = story.group->members[ROOT].group;
    group->trouble = TUTTI_ERR_PROTOCOL;
    group->stepping_needed = true;
    tt_sim_mark_ready(story.world->sim, ROOT);
    assert_int_equal(tt_log_configure("error", path, ignored, sizeof ignored), TUTTI_OK);
    tt_world_run_job(job, story.start_ns + TT_NS_PER_S);
    assert_int_equal(tt_log_configure("none", NULL, ignored, sizeof ignored), TUTTI_OK);
    tt_story_all_ended(job, TUTTI_ERR_PROTOCOL, TT_RANK_NONE, 0);
    assert_true(read(fd, text, sizeof text - 1) > 0);
    assert_null(strstr(text, "rank -1"));
    for (const char *line = text; (line = strchr(line, '\n')) != NULL; line++) {
        lines++;
    }
    assert_int_equal(lines, RANKS);
    close(fd);
    unlink(path);
    tt_story_forgive_reads(&story);
    tt_story_end(&story);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_buffer_is_not_given_before_the_barrier_is_over),
        cmocka_unit_test(a_rank_that_dies_meanwhile_ends_it_for_the_others),
        cmocka_unit_test(a_failure_of_nobody_in_particular_names_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
