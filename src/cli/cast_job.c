/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: from a command line to a group whose members know one another by name.
 *
 * Normal path: with --root the bootstrap brings everybody together and gives the receivers their ranks; else the
 * environment says who is who. Records go round by Allgather.
 *
 * Failures: each is one line that names the rank and, once that is known, the host.
 */
#include "cli/cast_job.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/handles.h"
#include "base/clock.h"
#include "base/least.h"
#include "base/log.h"
#include "base/text.h"
#include "cli/arguments.h"
#include "cli/cast_segments.h"
#include "cli/command.h"
#include "engine/environment.h"

enum { LINE_BYTES = 2048, RECORD_BYTES = TT_OFFER_BYTES };

/* Disks may be slow, and what they have not written when the last byte comes is waited for. */
#define DEFAULT_TIMEOUT_NS (600 * TT_NS_PER_S)

_Static_assert((int)RECORD_BYTES >= (int)TT_REPORT_BYTES, "both kinds of records have room");

void tt_cast_say(struct tt_cast_job *job, const char *format, ...)
{
    char line[LINE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
    tt_text_clean(line);
    tt_cast_progress_clear(&job->progress);
    fprintf(stderr, "tutti %s: %s\n", job->arguments->command, line);
}

tutti_status tt_cast_fail(struct tt_cast_job *job, const char *what, tutti_status status, int rank)
{
    char said[LINE_BYTES / 2];
    snprintf(said, sizeof(said), "%s", tutti_last_error()); /* until the next call of the library */
    if (job->group != NULL && tutti_group_failed_rank(job->group) >= 0) {
        rank = tutti_group_failed_rank(job->group);
    }
    bool has_offered = rank >= 0 && (uint32_t)rank < job->size && job->offers != NULL;
    job->lost_rank = rank;
    tt_command_failure(job->failure, sizeof(job->failure), status, said, rank,
                       has_offered ? job->offers[rank].host : "", what);
    tt_cast_say(job, "%s", job->failure);
    return status;
}

/* --- Coming together ---------------------------------------------------------------------------------------------- */

/* With --root: the sender listens there and is rank 0, the receivers get theirs as they come. */
static tutti_status open_root(struct tt_cast_job *job, const struct tt_settings *settings)
{
    struct tt_settings own = *settings;
    own.rank = job->arguments->role == TT_CAST_SENDER ? 0 : TT_AUTO;
    own.size = job->arguments->size;
    own.root_fd = TT_AUTO;
    tutti_status status = tt_bootstrap_open(&own, &job->bootstrap);
    if (status == TUTTI_ERR_INVALID_ARGUMENT) {
        tt_usage_error_value(job->arguments->command, "--root", job->arguments->root, "ROOT");
        return status;
    }
    return status == TUTTI_OK ? status : tt_cast_fail(job, "coming together", status, -1);
}

/* Another rank's setting may be what is wrong, and then the own command line makes sense. */
static tutti_status not_together(struct tt_cast_job *job, tutti_status status)
{
    tt_cast_fail(job, "coming together", status, -1);
    return status == TUTTI_ERR_INVALID_ARGUMENT ? TUTTI_ERR_BOOTSTRAP : status;
}

static tutti_status join_root(struct tt_cast_job *job)
{
    tutti_status status = tt_bootstrap_meet(job->bootstrap);
    if (status == TUTTI_OK) {
        tutti_group_options options = {.struct_size = sizeof(options),
                                       .rank = tt_bootstrap_rank(job->bootstrap),
                                       .size = job->arguments->size,
                                       .allgather = tt_bootstrap_allgather,
                                       .argument = job->bootstrap};
        status = tutti_group_create(job->context, &options, &job->group);
    }
    return status == TUTTI_OK ? status : not_together(job, status);
}

/* Whether this process is what its rank is for. */
static bool check_role(const struct tt_cast_arguments *arguments, const struct tt_environment *environment)
{
    if (environment->source == TT_ENVIRONMENT_NONE) {
        tt_usage_error(arguments->command, "no job: neither --root and --size, nor a launcher or TUTTI_SIZE");
        return false;
    }
    if (environment->size < 2) {
        tt_usage_error(arguments->command, "%s: a job of one has nobody to %s", environment->text,
                       arguments->role == TT_CAST_SENDER ? "catch" : "cast");
        return false;
    }
    if ((environment->rank == 0) != (arguments->role == TT_CAST_SENDER)) {
        tt_usage_error(arguments->command, "this is rank %u of the job: rank 0 casts, and the others catch",
                       environment->rank);
        return false;
    }
    return true;
}

static tutti_status join_environment(struct tt_cast_job *job, const struct tt_settings *settings)
{
    struct tt_environment environment;
    if (tt_environment_find(settings, &environment) != TUTTI_OK) {
        tt_usage_error(job->arguments->command, "%s", tt_last_error());
        return TUTTI_ERR_INVALID_ARGUMENT;
    }
    tutti_status status = TUTTI_ERR_INVALID_ARGUMENT;
    if (check_role(job->arguments, &environment)) {
        status = tutti_group_create_from_environment(job->context, &job->group);
        status = status == TUTTI_OK ? status : not_together(job, status);
    }
    tt_environment_release(&environment);
    return status;
}

static tutti_status allocate(struct tt_cast_job *job)
{
    job->offers = calloc(job->size, sizeof(*job->offers));
    job->reports = calloc(job->size, sizeof(*job->reports));
    job->records = calloc(job->size, RECORD_BYTES);
    if (job->offers != NULL && job->reports != NULL && job->records != NULL) {
        return TUTTI_OK;
    }
    tutti_status status = tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "no memory for %u hosts", job->size);
    return tt_cast_fail(job, "coming together", status, -1);
}

/* With what the command line says. Chunks of a whole frame unless TUTTI_CHUNK has a size: each has a header. */
static tutti_status create_context(struct tt_cast_job *job, const struct tt_settings *settings)
{
    tutti_setting all[TT_CAST_SETTING_LIMIT + 1];
    tutti_context_options options = {
        .struct_size = sizeof(options), .settings = all, .setting_count = job->arguments->setting_count};
    memcpy(all, job->arguments->settings, sizeof(job->arguments->settings));
    if (settings->chunk_bytes == TT_AUTO) {
        all[options.setting_count++] = (tutti_setting){"CHUNK", "frame"};
    }
    return tutti_context_create(&options, &job->context);
}

tutti_status tt_cast_join(struct tt_cast_job *job, const struct tt_cast_arguments *arguments,
                          const struct tt_settings *settings)
{
    tutti_group_info info = {.struct_size = sizeof(info)};

    *job = (struct tt_cast_job){.arguments = arguments, .lost_rank = -1};
    job->timeout_ns = settings->timeout_ns == TT_AUTO ? DEFAULT_TIMEOUT_NS : settings->timeout_ns;
    tutti_status status = arguments->root != NULL ? open_root(job, settings) : TUTTI_OK;
    if (status != TUTTI_OK) {
        return status;
    }
    status = create_context(job, settings);
    if (status != TUTTI_OK) {
        return tt_cast_fail(job, "creating the context", status, -1);
    }
    status = arguments->root != NULL ? join_root(job) : join_environment(job, settings);
    if (status != TUTTI_OK) {
        return status;
    }
    job->rank = tutti_group_rank(job->group);
    job->size = tutti_group_size(job->group);
    status = tutti_group_query(job->group, &info);
    job->has_multicast = info.multicast;
    return status == TUTTI_OK ? allocate(job) : tt_cast_fail(job, "coming together", status, -1);
}

void tt_cast_leave(struct tt_cast_job *job)
{
    tutti_group_destroy(job->group);
    tutti_context_destroy(job->context);
    tt_bootstrap_destroy(job->bootstrap);
    free(job->offers);
    free(job->reports);
    free(job->records);
}

/* --- Records ------------------------------------------------------------------------------------------------------ */

/* An Allgather in job->records, where the own record is already. */
static tutti_status gather(struct tt_cast_job *job, size_t record_bytes, uint64_t timeout_ns, const char *what)
{
    tutti_request_options options = {.struct_size = sizeof(options), .timeout_ns = timeout_ns};
    tutti_request *request = NULL;
    tutti_status status =
        tutti_allgather_init(job->group, TUTTI_IN_PLACE, job->records, record_bytes, &options, &request);
    if (status == TUTTI_OK) {
        status = tutti_post(request);
    }
    if (status == TUTTI_OK) {
        status = tutti_wait(request);
    }
    if (status != TUTTI_OK) {
        tt_cast_fail(job, what, status, -1);
    }
    tutti_finalize(request);
    return status;
}

static tutti_status fail_record(struct tt_cast_job *job, uint32_t rank, tutti_status status)
{
    status = tt_error(TT_PART_CLI, status,
                      status == TUTTI_ERR_MISMATCH ? "rank %u is of another version of tutti cast and catch"
                                                   : "rank %u says what makes no sense",
                      rank);
    return tt_cast_fail(job, "coming together", status, (int)rank);
}

tutti_status tt_cast_exchange_offers(struct tt_cast_job *job, const struct tt_cast_offer *own)
{
    tt_cast_offer_encode(own, job->records + (size_t)job->rank * TT_OFFER_BYTES);
    tutti_status status = gather(job, TT_OFFER_BYTES, job->timeout_ns, "coming together");
    for (uint32_t rank = 0; rank < job->size && status == TUTTI_OK; rank++) {
        struct tt_cast_offer *offer = &job->offers[rank];
        status = tt_cast_offer_decode(job->records + (size_t)rank * TT_OFFER_BYTES, offer);
        if (status == TUTTI_OK && offer->is_sender != (rank == 0)) {
            status = TUTTI_ERR_PROTOCOL;
        }
        if (status != TUTTI_OK) {
            return fail_record(job, rank, status);
        }
    }
    job->is_acquainted = status == TUTTI_OK;
    return status;
}

tutti_status tt_cast_check_way(struct tt_cast_job *job)
{
    if (job->offers[0].by != TT_CAST_BY_MULTICAST || job->has_multicast) {
        return TUTTI_OK;
    }
    tutti_status status = tt_error(TT_PART_CLI, TUTTI_ERR_NOT_SUPPORTED,
                                   "multicast does not get through to every host; --by pipeline does without");
    return tt_cast_fail(job, "--by multicast", status, -1);
}

static tutti_status exchange_reports(struct tt_cast_job *job, const struct tt_cast_report *own, uint64_t timeout_ns)
{
    tt_cast_report_encode(own, job->records + (size_t)job->rank * TT_REPORT_BYTES);
    tutti_status status = gather(job, TT_REPORT_BYTES, timeout_ns, "telling how it went");
    for (uint32_t rank = 0; rank < job->size && status == TUTTI_OK; rank++) {
        status = tt_cast_report_decode(job->records + (size_t)rank * TT_REPORT_BYTES, &job->reports[rank]);
        if (status != TUTTI_OK) {
            return fail_record(job, rank, status);
        }
    }
    return status;
}

tutti_status tt_cast_exchange_reports(struct tt_cast_job *job, const struct tt_cast_report *own)
{
    return exchange_reports(job, own, job->timeout_ns);
}

tutti_status tt_cast_exchange_results(struct tt_cast_job *job, const struct tt_cast_report *own, uint64_t segments)
{
    uint64_t times = 1 + tt_least(segments, TT_SEGMENT_COUNT);
    return exchange_reports(job, own, job->timeout_ns < TT_NEVER / times ? job->timeout_ns * times : TT_NEVER);
}

bool tt_cast_anybody_ready(const struct tt_cast_job *job)
{
    for (uint32_t rank = 1; rank < job->size; rank++) {
        if (!job->reports[rank].failed) {
            return true;
        }
    }
    return false;
}

/* --- The commands ------------------------------------------------------------------------------------------------- */

bool tt_cast_shows_progress(const struct tt_cast_arguments *arguments)
{
    return arguments->progress || isatty(STDERR_FILENO) == 1;
}

int tt_cast_command(enum tt_cast_role role, int argc, char **argv,
                    int (*run)(const struct tt_cast_arguments *arguments, const struct tt_settings *settings))
{
    struct tt_settings settings;
    struct tt_cast_arguments arguments;
    if (!tt_command_settings(argv[0], &settings)) {
        return TT_EXIT_USAGE;
    }
    enum tt_parse parse = tt_cast_arguments_parse(role, argc, argv, &settings, &arguments);
    if (parse == TT_PARSE_HELP) {
        return tt_command_finish(argv[0], TT_EXIT_OK);
    }
    if (parse == TT_PARSE_BAD || !tt_command_log(argv[0], &settings)) {
        return TT_EXIT_USAGE;
    }
    /* Errors of writing, not the end of the process. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    return tt_command_finish(argv[0], run(&arguments, &settings));
}
