/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: one rank of `tutti doctor --job`, from the group to the verdict.
 *
 * Normal path: the ranks make a group, which meets in an allgather of 16 bytes a rank between the steps of measuring
 * (doctor_steps.c). Rank 0 judges and prints.
 *
 * Failures: a rank that does not come to a meeting is named by the library, after TT_DOCTOR_MEETING_NS.
 */
#include "cli/doctor_job.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/doctor_steps.h"
#include "tutti/tutti.h"

enum { WHO_BYTES = 24 };

struct job {
    tutti_context *context;
    tutti_group *group;
    tutti_request *meeting;
    char who[WHO_BYTES];
    struct tt_doctor_steps steps;
};

static void name_rank(struct job *job, uint32_t rank)
{
    job->steps.rank = rank;
    job->steps.who = job->who;
    snprintf(job->who, sizeof(job->who), "rank %" PRIu32 ": ", rank);
}

static tutti_status meet_in_group(struct tt_doctor_steps *steps)
{
    struct job *job = steps->how;
    tutti_status status = tutti_post(job->meeting);
    if (status == TUTTI_OK) {
        status = tutti_wait(job->meeting);
    }
    return status == TUTTI_OK ? status : tt_doctor_report_failure(steps, "meeting the other ranks", status);
}

static tutti_status create_group(struct job *job)
{
    struct tt_doctor_steps *steps = &job->steps;
    tutti_status status = tutti_context_create(NULL, &job->context);
    if (status != TUTTI_OK) {
        return tt_doctor_report_failure(steps, "creating the context", status);
    }
    status = tutti_group_create_from_environment(job->context, &job->group);
    if (status != TUTTI_OK) {
        return tt_doctor_report_failure(steps, "creating the group", status);
    }
    name_rank(job, tutti_group_rank(job->group));
    steps->size = tutti_group_size(job->group);
    status = tt_doctor_steps_init(steps);
    if (status != TUTTI_OK) {
        return tt_doctor_report_failure(steps, "allocating", status);
    }
    tutti_request_options options = {.struct_size = sizeof(options), .timeout_ns = TT_DOCTOR_MEETING_NS};
    status = tutti_allgather_init(job->group, &steps->own, steps->records, sizeof(steps->own), &options, &job->meeting);
    return status == TUTTI_OK ? status : tt_doctor_report_failure(steps, "preparing the meetings", status);
}

/* The interface that the group uses, which it tells as "name (address)". */
static tutti_status find_interface(struct job *job)
{
    tutti_group_info info = {.struct_size = sizeof(info)};
    char address[TT_IP_TEXT_BYTES] = "";
    tutti_status status = tutti_group_query(job->group, &info);
    if (status != TUTTI_OK) {
        return status;
    }
    const char *bracket = strchr(info.interface, '(');
    if (bracket == NULL || sscanf(bracket, "(%45[0-9a-f.:])", address) != 1) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NOT_SUPPORTED, "interface %s: has no address", info.interface);
    }
    job->steps.paths.group_multicast = info.multicast;
    return tt_doctor_steps_take(&job->steps, address);
}

static int report(struct job *job)
{
    static struct tt_findings findings;
    const struct tt_paths *paths = &job->steps.paths;
    if (job->steps.rank != 0) {
        return TT_EXIT_OK;
    }
    tt_doctor_judge_paths(paths, &findings);
    if (job->steps.options->json) {
        tt_doctor_print_paths_json(paths, &findings);
    } else {
        tt_doctor_print_paths(paths, &findings, job->steps.options->pairs);
    }
    return findings.worst == TT_VERDICT_FAIL ? TT_EXIT_FAILED : TT_EXIT_OK;
}

int tt_doctor_job(const struct tt_doctor_job_options *options, const struct tt_settings *settings)
{
    struct job job = {.steps = {.options = options, .settings = settings, .meet = meet_in_group, .how = &job}};
    name_rank(&job, settings->rank == TT_AUTO ? 0 : (uint32_t)settings->rank);
    tutti_status status = create_group(&job);
    if (status == TUTTI_OK) {
        tt_doctor_note(&job.steps, "finding the group's interface", find_interface(&job));
        status = tt_doctor_steps_prepare(&job.steps);
    }
    if (status == TUTTI_OK) {
        status = tt_doctor_steps_measure(&job.steps);
    }
    int exit_status = status == TUTTI_OK ? report(&job) : TT_EXIT_FAILED;
    /* After an error that left it in progress the request goes with the process. */
    tutti_finalize(job.meeting);
    tutti_group_destroy(job.group);
    tutti_context_destroy(job.context);
    tt_doctor_steps_fini(&job.steps);
    return exit_status;
}
