/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti doctor --listen` on one host and `tutti doctor --peer` on another: the path between the two, without a job. */
#ifndef TT_CLI_DOCTOR_PAIR_H
#define TT_CLI_DOCTOR_PAIR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"

enum { TT_DOCTOR_PAIR_PORT = 29500 /* where they meet, unless another one is given */ };

struct tt_doctor_pair_options {
    const char *peer; /* the host that listens; NULL: this one does */
    uint16_t port;
    uint64_t wait_ns; /* how long the one that listens waits */
    bool json;
};

/* Both print what was found. The exit status says whether a check failed. */
int tt_doctor_pair(const struct tt_doctor_pair_options *options, const struct tt_settings *settings);

#endif
