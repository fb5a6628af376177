/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of `tutti bench`, checked as a whole before anything is started. */
#ifndef TT_CLI_BENCH_ARGUMENTS_H
#define TT_CLI_BENCH_ARGUMENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"
#include "cli/arguments.h"
#include "cli/bench_buffers.h"
#include "tutti/tutti.h"

enum { TT_BENCH_SETTING_LIMIT = 8 };

struct tt_bench_arguments {
    struct tt_bench_job job;
    bool is_rank;       /* the environment says that this process is one rank of a job; otherwise it starts the ranks */
    uint64_t min_bytes; /* 0 of a barrier, as max_bytes */
    uint64_t max_bytes;
    uint64_t factor;
    uint32_t iterations;
    uint32_t warmup;
    enum tt_algorithm algorithm; /* as asked for, by option or environment */
    tutti_algorithm requested;   /* by option: of the measured collective; else AUTO */
    uint32_t loss_ppm;           /* likewise */
    uint64_t timeout_ns;         /* likewise */
    bool json;
    bool tune;              /* measure all algorithms: of the job's collective, */
    bool tunes_all;         /* or, whatever it says, of all that have some */
    const char *write_path; /* where the table goes; NULL: to standard output only; points into argv */
    tutti_setting settings[TT_BENCH_SETTING_LIMIT]; /* for tutti_context_options; they point into argv */
    size_t setting_count;
};

/*
 * `settings` are what the environment says, with a size if this is a rank of a job; `job` is what says so, as a -n that
 * contradicts it is told. On BAD one line has been printed on standard error; on HELP the help on
 * standard output. argv is reordered, options first.
 */
enum tt_parse tt_bench_arguments_parse(int argc, char **argv, const struct tt_settings *settings, const char *job,
                                       struct tt_bench_arguments *arguments);

/* The size that follows `size_bytes`: times the factor, 1 after 0. False behind the last. */
bool tt_bench_next_size(const struct tt_bench_arguments *arguments, uint64_t *size_bytes);

#endif
