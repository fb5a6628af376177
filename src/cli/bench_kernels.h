/* SPDX-License-Identifier: BSD-3-Clause */
/* What `tutti bench globalarray` and `stencil` compute, for themselves and for their test. */
#ifndef TT_CLI_BENCH_KERNELS_H
#define TT_CLI_BENCH_KERNELS_H

#include <stdint.h>

#include "cli/bench_rdma.h"

struct tt_globalarray {
    uint64_t order; /* rows and columns of the matrices: a multiple of `tile` */
    uint64_t tile;
};

struct tt_stencil {
    uint64_t grid; /* rows and columns: a multiple of the threads */
    uint64_t iterations;
    uint64_t ranks; /* 0: one a thread, half as many, ... 1 */
};

extern const struct tt_rdma_bench tt_globalarray_bench, tt_stencil_bench;

/* Measure and print row after row. */
tutti_status tt_globalarray_run(void *own, struct tt_rdma_wish *wish);
tutti_status tt_stencil_run(void *own, struct tt_rdma_wish *wish);

#endif
