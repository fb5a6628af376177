/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti doctor --job`: one rank of a job that measures the paths between its hosts. */
#ifndef TT_CLI_DOCTOR_JOB_H
#define TT_CLI_DOCTOR_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "cli/doctor_checks.h"
#include "cli/doctor_paths.h"

struct tt_doctor_job_options {
    bool pairs; /* measure every pair, and show them */
    bool json;
    bool rankless;     /* two that met by hand */
    uint64_t limit_ns; /* no step begins later than this after the first */
};

/* Takes part; rank 0 prints. The exit status: rank 0's says whether a check failed, that of all whether they could
 * measure. */
int tt_doctor_job(const struct tt_doctor_job_options *options, const struct tt_settings *settings);

/* --- doctor_verdict.c: what is wrong with the paths, in words. Pure. --- */
void tt_doctor_judge_paths(const struct tt_paths *paths, struct tt_findings *findings);

/* --- doctor_verdict_pair.c: the same for two hosts that met by hand, and what works, too. Pure. --- */
void tt_doctor_judge_pair(const struct tt_paths *paths, struct tt_findings *findings);

/* --- doctor_report.c --- */
void tt_doctor_print_paths(const struct tt_paths *paths, const struct tt_findings *findings, bool pairs);
void tt_doctor_print_findings(const struct tt_findings *findings);
/* One object that has nothing but them; `subject`: the key of what a finding is about. */
void tt_doctor_print_findings_json(const struct tt_findings *findings, const char *subject);
void tt_doctor_print_paths_json(const struct tt_paths *paths, const struct tt_findings *findings);

#endif
