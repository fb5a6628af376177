/* SPDX-License-Identifier: BSD-3-Clause */
/* The processes of a cast: how they come together, what they tell one another, and what is said when one is lost. */
#ifndef TT_CLI_CAST_JOB_H
#define TT_CLI_CAST_JOB_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/cast_arguments.h"
#include "cli/cast_progress.h"
#include "cli/cast_record.h"
#include "engine/bootstrap.h"
#include "tutti/tutti.h"

struct tt_cast_job {
    const struct tt_cast_arguments *arguments;
    uint64_t timeout_ns;            /* of each collective */
    struct tt_bootstrap *bootstrap; /* with --root */
    tutti_context *context;
    tutti_group *group;
    uint32_t rank, size;
    bool has_multicast;
    struct tt_cast_progress progress;

    struct tt_cast_offer *offers;   /* by rank, once exchanged */
    struct tt_cast_report *reports; /* by rank, of the last exchange */
    uint8_t *records;               /* of all ranks, encoded, with room for the longer kind */
    bool is_acquainted;             /* the offers have been exchanged */
    int lost_rank;                  /* because of whom it failed; -1 */
    char failure[2048];             /* what tt_cast_fail() said; "": it has not failed */
};

/* Joins the others. On an error, which has been reported, close it all the same; INVALID_ARGUMENT is a command line or
 * an environment that cannot be. */
tutti_status tt_cast_join(struct tt_cast_job *job, const struct tt_cast_arguments *arguments,
                          const struct tt_settings *settings);

/* Leaves. Also for a struct of zeros. */
void tt_cast_leave(struct tt_cast_job *job);

/* Whether the sender's way can be gone here; if not, that has been reported. The same everywhere. */
tutti_status tt_cast_check_way(struct tt_cast_job *job);

/* Every process gives one and gets all, into job->offers or job->reports. An error has been reported. */
tutti_status tt_cast_exchange_offers(struct tt_cast_job *job, const struct tt_cast_offer *own);
tutti_status tt_cast_exchange_reports(struct tt_cast_job *job, const struct tt_cast_report *own);

/* As that, behind the data: receivers come when they have written it, and each of as many segments as they still hold
 * has the timeout for itself. `segments`: that were moved. */
tutti_status tt_cast_exchange_results(struct tt_cast_job *job, const struct tt_cast_report *own, uint64_t segments);

/* Whether a receiver has not failed, as the last reports say. */
bool tt_cast_anybody_ready(const struct tt_cast_job *job);

/*
 * Reports that the job failed at `what`, with tutti_last_error() and, where one is to blame, its rank and host; returns
 * `status`. `rank` is who is to blame if the group does not know; -1.
 */
tutti_status tt_cast_fail(struct tt_cast_job *job, const char *what, tutti_status status, int rank);

bool tt_cast_shows_progress(const struct tt_cast_arguments *arguments);

/* What both commands begin and end with; `run` does the work between, and returns the exit status. */
int tt_cast_command(enum tt_cast_role role, int argc, char **argv,
                    int (*run)(const struct tt_cast_arguments *arguments, const struct tt_settings *settings));

/* One line on standard error, "tutti catch: ...". Control characters are shown as '?'. */
void tt_cast_say(struct tt_cast_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
