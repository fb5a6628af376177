/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: `tutti catch`: receives what `tutti cast` sends into a file.
 *
 * Normal path: come together, hear the offer, open the file, say so, receive and write, compare digests, give the file
 * its name, and tell the sender.
 *
 * Failures: of the own file (there already, a full disk, another digest): this host goes on receiving for the sake of
 * the others, and says at the end what was wrong. Of the job: nothing is left under the file's name.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/cast_arguments.h"
#include "cli/cast_job.h"
#include "cli/cast_transfer.h"
#include "cli/cast_verdict.h"
#include "cli/catch_file.h"
#include "cli/catch_sink.h"
#include "cli/command.h"

struct catch
{
    const struct tt_cast_arguments *arguments;
    struct tt_cast_job job;
    struct tt_catch_file file;
    struct tt_segments segments;
    bool has_segments;
    struct tt_catch_sink sink;
    struct tt_cast_report own; /* once failed, it stays so */
};

/* What this host failed by, and only by the first such thing. Of a long text the end counts: there is the reason, and
 * before it the name of the file, whatever its directories are called. */
static void note_failure(struct catch *catch, const char *what, const char *text)
{
    enum { WHAT_BYTES = 32, CUT_BYTES = 3, TEXT_BYTES = TT_CAST_TEXT_BYTES - WHAT_BYTES - CUT_BYTES - 1 };
    size_t length = strlen(text);
    if (!catch->own.failed) {
        bool is_long = length > TEXT_BYTES;
        catch->own.failed = true;
        snprintf(catch->own.text, sizeof(catch->own.text), "%.*s%s%.*s", WHAT_BYTES, what, is_long ? "..." : "",
                 TEXT_BYTES, is_long ? text + length - TEXT_BYTES : text);
    }
}

static void note_write_failure(struct catch *catch)
{
    char text[sizeof(catch->file.path) + sizeof(catch->sink.report.text) + 2];
    snprintf(text, sizeof(text), "%s: %s", catch->file.path, catch->sink.report.text);
    note_failure(catch, "cannot write ", text);
}

/* Comes together; the file is open, or why not is noted. */
static tutti_status prepare(struct catch *catch)
{
    const struct tt_cast_arguments *arguments = catch->arguments;
    struct tt_cast_job *job = &catch->job;
    struct tt_cast_offer offer = {.is_sender = false};

    gethostname(offer.host, sizeof(offer.host) - 1);
    tutti_status status = tt_cast_exchange_offers(job, &offer);
    if (status == TUTTI_OK) {
        status = tt_cast_check_way(job);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (tt_catch_file_open(&catch->file, arguments->path, job->offers[0].name, arguments->force) != TUTTI_OK) {
        note_failure(catch, "", tt_last_error());
    }
    return tt_cast_exchange_reports(job, &catch->own);
}

static tutti_status receive(struct catch *catch)
{
    struct tt_cast_job *job = &catch->job;
    const struct tt_cast_offer *offer = &job->offers[0];
    /* Standard output may be anything, and is not for us to sync. */
    bool sync = !catch->arguments->no_sync && catch->file.directory >= 0;

    tutti_status status = tt_segments_init(&catch->segments, offer->segment_bytes);
    catch->has_segments = status == TUTTI_OK;
    if (status == TUTTI_OK) {
        status = tt_catch_sink_start(&catch->sink, &catch->segments, catch->file.fd, sync);
    }
    if (status != TUTTI_OK) {
        return tt_cast_fail(job, "preparing", status, -1);
    }
    tt_cast_progress_begin(&job->progress, offer->size_bytes, tt_cast_shows_progress(catch->arguments));
    status = tt_cast_receive(job, &catch->segments);
    if (status != TUTTI_OK) {
        tt_catch_sink_abort(&catch->sink);
        return status;
    }
    tt_catch_sink_stop(&catch->sink);
    tt_cast_progress_end(&job->progress);
    return TUTTI_OK;
}

/* Compares with what the sender says that it sent, and gives the file its name if all is well. */
static void judge(struct catch *catch)
{
    const struct tt_cast_report *sender = &catch->job.reports[0];
    if (sender->failed) {
        note_failure(catch, "the sender failed: ", sender->text);
    } else if (!tt_cast_same_data(&catch->own, sender)) {
        note_failure(catch, "", "the digest is wrong: what was written is not what was sent");
    }
    if (catch->own.failed) {
        tt_catch_file_abandon(&catch->file);
    } else if (tt_catch_file_commit(&catch->file, catch->job.offers[0].mode, !catch->arguments->no_sync) != TUTTI_OK) {
        note_failure(catch, "", tt_last_error());
    }
}

/* From the offers to the verdict. */
static tutti_status receive_file(struct catch *catch)
{
    struct tt_cast_job *job = &catch->job;
    tutti_status status = prepare(catch);
    uint64_t begun_ns = tt_clock_now_ns();
    if (status == TUTTI_OK && tt_cast_anybody_ready(job)) {
        status = receive(catch);
        if (status == TUTTI_OK && catch->sink.report.failed) {
            note_write_failure(catch);
        }
        memcpy(catch->own.digest, catch->sink.report.digest, sizeof(catch->own.digest));
        catch->own.bytes = catch->sink.report.bytes;
    }
    if (status == TUTTI_OK) {
        status = tt_cast_exchange_results(job, &catch->own, catch->segments.published);
    }
    if (status == TUTTI_OK) {
        judge(catch);
        catch->own.duration_ns = tt_clock_now_ns() - begun_ns;
        status = tt_cast_exchange_reports(job, &catch->own);
    }
    return status;
}

static int catch_file(const struct tt_cast_arguments *arguments, const struct tt_settings *settings)
{
    struct catch catch = {.arguments = arguments, .file = {.fd = -1, .directory = -1}};
    tutti_status status = tt_cast_join(&catch.job, arguments, settings);
    bool was_refused = status == TUTTI_ERR_INVALID_ARGUMENT;
    if (status == TUTTI_OK) {
        status = receive_file(&catch);
        if (status == TUTTI_OK && catch.own.failed) {
            tt_cast_say(&catch.job, "%s", catch.own.text);
        }
    }
    tt_catch_file_abandon(&catch.file);
    tt_cast_leave(&catch.job);
    if (catch.has_segments) {
        tt_segments_fini(&catch.segments);
    }
    if (was_refused) {
        return TT_EXIT_USAGE;
    }
    return status == TUTTI_OK && !catch.own.failed ? TT_EXIT_OK : TT_EXIT_FAILED;
}

int tt_command_catch(int argc, char **argv)
{
    return tt_cast_command(TT_CAST_RECEIVER, argc, argv, catch_file);
}
