/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti cast`: sends a file to every `tutti catch` of the job.
 *
 * Normal path: open the file, come together, offer it, hear who can take it, send, tell the digest, hear what became of
 * it everywhere, and print that.
 *
 * Failures: a file that cannot be opened ends it before anybody is waited for. A receiver that fails by itself (a full
 * disk) has a verdict that says so, and the others get the file. One that dies ends the job for all.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cast_arguments.h"
#include "cli/cast_job.h"
#include "cli/cast_source.h"
#include "cli/cast_transfer.h"
#include "cli/cast_verdict.h"
#include "cli/command.h"

struct cast {
    const struct tt_cast_arguments *arguments;
    struct tt_cast_job job;
    struct tt_cast_source source;
    struct tt_segments segments;
    bool has_segments;
    bool was_sent; /* at least one receiver could take it */
};

/* What may pause would fill the segments with its pauses. */
static bool is_file(const struct cast *cast)
{
    return cast->source.size_bytes != TT_CAST_UNKNOWN;
}

static void make_offer(struct cast *cast, struct tt_cast_offer *offer)
{
    const struct tt_cast_arguments *arguments = cast->arguments;
    *offer = (struct tt_cast_offer){.is_sender = true,
                                    .by = arguments->by,
                                    .mode = cast->source.mode,
                                    .size_bytes = cast->source.size_bytes,
                                    .segment_bytes = arguments->segment_bytes,
                                    .ahead = is_file(cast) ? TT_CAST_AHEAD : TT_CAST_AHEAD_PAUSES};
    if (offer->by == TT_CAST_BY_AUTO) {
        offer->by = cast->job.has_multicast ? TT_CAST_BY_MULTICAST : TT_CAST_BY_PIPELINE;
    }
    gethostname(offer->host, sizeof(offer->host) - 1);
    if (strcmp(arguments->path, "-") != 0) {
        const char *slash = strrchr(arguments->path, '/');
        snprintf(offer->name, sizeof(offer->name), "%s", slash != NULL ? slash + 1 : arguments->path);
    }
    for (uint32_t i = 0; i < TT_CAST_AHEAD; i++) {
        offer->first_bytes[i] = TT_CAST_END;
        if (i < offer->ahead) {
            tt_segments_peek(&cast->segments, i, true, &offer->first_bytes[i]);
        }
    }
}

/* From the offer to the verdicts in job.reports. */
static tutti_status send_file(struct cast *cast)
{
    struct tt_cast_job *job = &cast->job;
    struct tt_cast_report own = {.failed = false};
    struct tt_cast_offer offer;

    make_offer(cast, &offer);
    tutti_status status = tt_cast_exchange_offers(job, &offer);
    if (status == TUTTI_OK) {
        status = tt_cast_check_way(job);
    }
    if (status == TUTTI_OK) {
        status = tt_cast_exchange_reports(job, &own);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    uint64_t begun_ns = tt_clock_now_ns();
    cast->was_sent = tt_cast_anybody_ready(job);
    if (cast->was_sent) {
        tt_cast_progress_begin(&job->progress, offer.size_bytes, tt_cast_shows_progress(cast->arguments));
        status = tt_cast_send(job, &cast->segments);
        if (status != TUTTI_OK) {
            return status;
        }
        tt_cast_progress_end(&job->progress);
    } else {
        tt_segments_cancel(&cast->segments);
    }
    tt_cast_source_stop(&cast->source);
    status = tt_cast_exchange_results(job, &cast->source.report, cast->was_sent ? cast->segments.taken : 0);
    if (status == TUTTI_OK) {
        status = tt_cast_exchange_reports(job, &cast->source.report);
        job->reports[0].duration_ns = tt_clock_now_ns() - begun_ns;
        job->reports[0].bytes = cast->was_sent ? job->reports[0].bytes : 0; /* not what was only read */
    }
    return status;
}

/* Verdicts where there are none: the job has failed. */
static void judge_failure(struct tt_cast_job *job)
{
    for (uint32_t rank = 0; rank < job->size; rank++) {
        job->reports[rank] = (struct tt_cast_report){.failed = true};
        snprintf(job->reports[rank].text, sizeof(job->reports[rank].text), "%s",
                 (int)rank == job->lost_rank ? "lost" : "given up");
    }
    job->reports[0].bytes = job->progress.done_bytes;
}

static bool start_reading(struct cast *cast)
{
    tutti_status status = tt_segments_init(&cast->segments, cast->arguments->segment_bytes);
    cast->has_segments = status == TUTTI_OK;
    if (status == TUTTI_OK) {
        status = tt_cast_source_start(&cast->source, &cast->segments);
    }
    if (status != TUTTI_OK) {
        tt_cast_fail(&cast->job, "preparing", status, -1);
    }
    return status == TUTTI_OK;
}

/* It has failed before there were receivers to say anything of: a person has read why, a program gets it here. */
static int give_up(const struct cast *cast)
{
    const struct tt_cast_offer offer = {.by = cast->arguments->by};
    const struct tt_cast_report report = {.failed = true};
    const struct tt_cast_verdict verdict = {.name = tt_cast_source_name(cast->arguments->path),
                                            .size = 1,
                                            .offers = &offer,
                                            .reports = &report,
                                            .reason = cast->job.failure};
    if (cast->arguments->json) {
        tt_cast_verdict_print(&verdict, true, stdout);
    }
    return TT_EXIT_FAILED;
}

static int run(struct cast *cast, const struct tt_settings *settings)
{
    const struct tt_cast_arguments *arguments = cast->arguments;
    struct tt_cast_job *job = &cast->job;
    /* It is read while all come together. */
    if (is_file(cast) && !start_reading(cast)) {
        return give_up(cast);
    }
    tutti_status status = tt_cast_join(job, arguments, settings);
    if (status != TUTTI_OK) {
        return status == TUTTI_ERR_INVALID_ARGUMENT ? TT_EXIT_USAGE : give_up(cast);
    }
    if (!is_file(cast) && !start_reading(cast)) {
        return give_up(cast);
    }
    status = send_file(cast);
    if (!job->is_acquainted) {
        return give_up(cast);
    }
    if (status != TUTTI_OK) {
        judge_failure(job);
    }
    struct tt_cast_verdict verdict = {.name = cast->source.path,
                                      .size = job->size,
                                      .offers = job->offers,
                                      .reports = job->reports,
                                      .reason = status == TUTTI_OK ? NULL : job->failure,
                                      .has_ended = status == TUTTI_OK && cast->was_sent};
    return tt_cast_verdict_print(&verdict, arguments->json, stdout) ? TT_EXIT_OK : TT_EXIT_FAILED;
}

static int cast_file(const struct tt_cast_arguments *arguments, const struct tt_settings *settings)
{
    struct cast cast = {.arguments = arguments, .job.arguments = arguments};
    if (tt_cast_source_open(&cast.source, arguments->path) != TUTTI_OK) {
        snprintf(cast.job.failure, sizeof(cast.job.failure), "%s", tt_last_error());
        tt_cast_say(&cast.job, "%s", cast.job.failure);
        return give_up(&cast);
    }
    int status = run(&cast, settings);
    if (cast.has_segments) {
        tt_segments_cancel(&cast.segments);
    }
    tt_cast_source_close(&cast.source);
    tt_cast_leave(&cast.job);
    if (cast.has_segments) {
        tt_segments_fini(&cast.segments);
    }
    return status;
}

int tt_command_cast(int argc, char **argv)
{
    return tt_cast_command(TT_CAST_SENDER, argc, argv, cast_file);
}
