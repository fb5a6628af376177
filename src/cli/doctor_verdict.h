/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files that judge the paths of a job share; nobody else includes this. */
#ifndef TT_CLI_DOCTOR_VERDICT_H
#define TT_CLI_DOCTOR_VERDICT_H

#include "cli/doctor_checks.h"
#include "cli/doctor_paths.h"

struct tt_doctor_view {
    const struct tt_paths *paths;
    struct tt_findings *findings;
    struct tt_paths_figures figures[TT_PATHS_HOST_LIMIT];
    uint32_t pairs; /* named by the check at work */
};

void tt_doctor_add(struct tt_doctor_view *view, const char *check, enum tt_verdict verdict, const char *subject,
                   const char *advice, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* Names a host. Returns `text`. */
const char *tt_doctor_subject(const struct tt_doctor_view *view, uint32_t host, char text[TT_PATHS_HOST_TEXT_BYTES]);

/* Names a pair by both hosts' names and what tells hosts of one name apart, up to a number of pairs a check; false
 * beyond that. tt_doctor_close_pairs() says how many more there were, and ends the check. */
bool tt_doctor_subject_pair(struct tt_doctor_view *view, uint32_t from, uint32_t to, const char *between,
                            char text[TT_FINDING_SUBJECT_BYTES]);
void tt_doctor_close_pairs(struct tt_doctor_view *view, const char *check, enum tt_verdict verdict);

/* --- doctor_verdict_mtu.c --- */
void tt_doctor_judge_packet_sizes(struct tt_doctor_view *view);

/* --- doctor_verdict_rate.c --- */
void tt_doctor_judge_rate(struct tt_doctor_view *view);
void tt_doctor_judge_loss(struct tt_doctor_view *view);

#endif
