/* SPDX-License-Identifier: BSD-3-Clause */
/* The request that a benchmark measures, through the public API. */
#ifndef TT_CLI_BENCH_REQUEST_H
#define TT_CLI_BENCH_REQUEST_H

#include "cli/bench_buffers.h"
#include "tutti/tutti.h"

/* A request on the buffers, of their present size; they stay as they are until it is finalized. `factor` has room for
 * 8 bytes, and is read at every post. */
tutti_status tt_bench_request_init(tutti_group *group, const struct tt_bench_buffers *buffers, void *factor,
                                   const tutti_request_options *options, tutti_request **request);

#endif
