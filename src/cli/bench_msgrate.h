/* SPDX-License-Identifier: BSD-3-Clause */
/* What `tutti bench msgrate` measures, for itself and for its test. */
#ifndef TT_CLI_BENCH_MSGRATE_H
#define TT_CLI_BENCH_MSGRATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/bench_rdma.h"

enum tt_msgrate_share {
    TT_MSGRATE_SHARE_NOTHING, /* categories instead */
    TT_MSGRATE_SHARE_BUF,
    TT_MSGRATE_SHARE_CTX,
    TT_MSGRATE_SHARE_PD,
    TT_MSGRATE_SHARE_MR,
    TT_MSGRATE_SHARE_CQ,
    TT_MSGRATE_SHARE_QP,
    TT_MSGRATE_SHARE_COUNT
};

struct tt_msgrate {
    uint64_t postlist, unsignalled; /* one divides the other */
    uint64_t size_bytes;
    bool is_inline;
    enum tt_msgrate_share share;
    uint64_t ways;     /* 0: 1, 2, 4, ... */
    uint64_t messages; /* of a thread; 0: for a time */
    uint64_t seconds;  /* 0: 1 */
};

extern const struct tt_rdma_bench tt_msgrate_bench;

struct tt_msgrate tt_msgrate_defaults(void);

/* Measures and prints row after row. */
tutti_status tt_msgrate_run(void *own, struct tt_rdma_wish *wish);

#endif
