/* SPDX-License-Identifier: BSD-3-Clause */
/* What became of a cast, host by host. */
#ifndef TT_CLI_CAST_VERDICT_H
#define TT_CLI_CAST_VERDICT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli/cast_record.h"

struct tt_cast_verdict {
    const char *name; /* of the file, for people */
    uint32_t size;    /* ranks; 0 is the sender */
    const struct tt_cast_offer *offers;
    const struct tt_cast_report *reports;
    const char *reason; /* why it failed as a whole; NULL: the sender's report says */
    bool has_ended;     /* what was read has gone everywhere; who has failed all the same, the reports say */
};

/* Prints a table, or one JSON object. Returns whether every host has the file, which is also the object's "ok". */
bool tt_cast_verdict_print(const struct tt_cast_verdict *verdict, bool json, FILE *stream);

/* Whether a receiver wrote what the sender read. */
bool tt_cast_same_data(const struct tt_cast_report *receiver, const struct tt_cast_report *sender);

#endif
