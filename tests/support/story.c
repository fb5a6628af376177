/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stories. Normal path: the world writes its log into memory, and questions about it are answered by reading it line by
 * line. Failures are the test's: what was asked for never happened, or the world found a problem.
 */
#include "support/story.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/log.h"
#include "wire/chunk.h"

void tt_story_prepare(struct tt_story *story, uint32_t nodes)
{
    memset(story, 0, sizeof *story);
    tt_log_configure("none", NULL, (char[256]){0}, 256);
    tt_world_options_init(&story->options, nodes);
}

void tt_story_begin(struct tt_story *story, uint32_t ranks)
{
    story->file = open_memstream(&story->log, &story->log_bytes);
    assert_non_null(story->file);
    story->options.sim.log = story->file;
    story->world = tt_world_create(&story->options);
    if (ranks > 0) {
        story->group = tt_world_group_create(story->world, NULL, ranks);
    }
    story->start_ns = (tt_world_now(story->world) / TT_NS_PER_MS + 2) * TT_NS_PER_MS;
    tt_world_run(story->world, story->start_ns);
}

void tt_story_end(struct tt_story *story)
{
    char problem[TT_WORLD_PROBLEM_BYTES] = "";
    uint32_t problems = tt_world_destroy(story->world, problem);

    fclose(story->file);
    free(story->log);
    if (problems > 0) {
        fail_msg("%u problems, the first: %s", problems, problem);
    }
}

void tt_story_forgive_reads(struct tt_story *story)
{
    for (uint32_t i = 0; i < story->world->problem_count && i < TT_WORLD_PROBLEMS; i++) {
        assert_non_null(strstr(story->world->problems[i], "released"));
    }
    story->world->problem_count = 0;
}

struct arrivals {
    uint64_t first_ns, last_ns;
    uint32_t count;
};

static struct arrivals arrivals_of(struct tt_story *story, const char *kind, uint32_t from, uint32_t to, uint32_t bytes)
{
    struct arrivals found = {0};

    fflush(story->file);
    for (size_t at = 0, next; at < story->log_bytes; at = next) {
        const char *start = story->log + at, *newline = memchr(start, '\n', story->log_bytes - at);
        unsigned long long time_ns;
        unsigned node, source, target, length;
        char name[32], line[128] = ""; /* a copy: sscanf measures its input to the end, however much that is */

        next = newline != NULL ? (size_t)(newline - story->log) + 1 : story->log_bytes;
        memcpy(line, start, next - at < sizeof line ? next - at : sizeof line - 1);
        if (sscanf(line, "%llu #%*u deliver node=%u %31s %u->%u bytes=%u", &time_ns, &node, name, &source, &target,
                   &length) == 6 &&
            time_ns >= story->start_ns && (to == TT_RANK_NONE || node == to) &&
            (from == TT_RANK_NONE || source == from) && strcmp(name, kind) == 0 && (bytes == 0 || bytes == length)) {
            found.first_ns = found.count == 0 ? time_ns : found.first_ns;
            found.last_ns = time_ns;
            found.count++;
        }
    }
    return found;
}

static struct arrivals some_arrivals(struct tt_story *story, const char *kind, uint32_t from, uint32_t to,
                                     uint32_t bytes)
{
    struct arrivals found = arrivals_of(story, kind, from, to, bytes);

    if (found.count == 0) {
        fail_msg("no %s of %u bytes from node %u arrived at node %u", kind, bytes, from, to);
    }
    return found;
}

uint64_t tt_story_first_arrival(struct tt_story *story, const char *kind, uint32_t from, uint32_t to, uint32_t bytes)
{
    return some_arrivals(story, kind, from, to, bytes).first_ns - story->start_ns;
}

uint64_t tt_story_last_arrival(struct tt_story *story, const char *kind, uint32_t from, uint32_t to, uint32_t bytes)
{
    return some_arrivals(story, kind, from, to, bytes).last_ns - story->start_ns;
}

uint32_t tt_story_arrivals(struct tt_story *story, const char *kind, uint32_t from, uint32_t to, uint32_t bytes)
{
    return arrivals_of(story, kind, from, to, bytes).count;
}

uint32_t tt_story_imm(uint64_t sequence, uint32_t psn)
{
    return tt_imm_encode(tt_tag_of_sequence(sequence, false), psn);
}

uint32_t tt_story_release_imm(uint64_t sequence)
{
    return tt_story_imm(sequence, TT_PSN_RELEASE);
}

uint32_t tt_story_eager_imm(uint64_t sequence, uint32_t psn)
{
    return tt_imm_encode(tt_tag_of_sequence(sequence, true), psn);
}

uint64_t tt_story_end_of(const struct tt_story *story, const struct tt_world_job *job, uint32_t rank)
{
    assert_false(job->parts[rank].is_running);
    return job->parts[rank].ended_ns - story->start_ns;
}

void tt_story_all_ended(const struct tt_world_job *job, tutti_status status, uint32_t about, uint64_t except)
{
    for (uint32_t rank = 0; rank < job->group->size; rank++) {
        const struct tt_world_part *part = &job->parts[rank];

        if (rank < 64 && (except >> rank & 1) != 0) {
            continue;
        }
        if (part->is_running || part->status != status || (about != TT_RANK_NONE && part->failed_rank != about)) {
            fail_msg("job %u, rank %u: %s, status %d about rank %d, not %d about %d", job->index, rank,
                     part->is_running ? "runs" : "ended", part->status, (int)part->failed_rank, status, (int)about);
        }
    }
}

void tt_story_start(struct tt_story *story, uint32_t ranks)
{
    tt_story_prepare(story, ranks);
    tt_story_begin(story, ranks);
}

struct tt_world_job *tt_story_gather(const struct tt_story *story, uint64_t bytes)
{
    return tt_world_job_create(story->group, TT_ALLGATHER, 0, bytes, TT_METHOD_GATHER);
}

void tt_story_post_but(struct tt_world_job *job, uint32_t late)
{
    for (uint32_t rank = 0; rank < job->group->size; rank++) {
        if (rank != late) {
            tt_world_post(job, rank);
        }
    }
}

uint64_t tt_story_time_of(struct tt_story *story, struct tt_world_job *job)
{
    uint64_t begun_ns = tt_world_now(story->world), last_ns = 0;

    tt_world_post_all(job);
    tt_world_run_job(job, begun_ns + TT_NS_PER_S);
    tt_story_all_ended(job, TUTTI_OK, TT_RANK_NONE, 0);
    for (uint32_t rank = 0; rank < story->group->size; rank++) {
        last_ns = job->parts[rank].ended_ns > last_ns ? job->parts[rank].ended_ns : last_ns;
    }
    tt_world_run(story->world, begun_ns + 10 * TT_NS_PER_MS);
    return last_ns - begun_ns;
}

void tt_story_set_deaf(const struct tt_story *story, uint32_t node, bool deaf)
{
    struct tt_sim_faults faults = story->options.sim.faults;

    faults.loss_ppm = deaf ? 1000000 : 0;
    faults.retransmit_ns = 1;
    tt_sim_set_faults(story->world->sim, node, &faults);
}
