/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Received frames and immediates, in order of arrival, between UCX's receive callback and the caller of progress.
 */
#ifndef TT_FABRIC_UCX_INBOX_H
#define TT_FABRIC_UCX_INBOX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/status.h"

struct tt_inbox {
    uint8_t *bytes;
    size_t capacity_bytes;
    size_t head_bytes; /* the first record that has not been popped */
    size_t tail_bytes; /* where the next record goes */
};

struct tt_inbox_record {
    uint64_t value; /* an immediate; for a frame its sender's instance */
    uint32_t length_bytes;
    uint32_t kind;
};

tutti_status tt_inbox_init(struct tt_inbox *inbox, size_t capacity_bytes);
void tt_inbox_fini(struct tt_inbox *inbox);

static inline bool tt_inbox_empty(const struct tt_inbox *inbox)
{
    return inbox->head_bytes == inbox->tail_bytes;
}

/* Forgets what was popped, and so ends the validity of its data. The inbox must be empty. */
void tt_inbox_reset(struct tt_inbox *inbox);

/* Copies a record in; grows when it does not fit. NO_MEMORY: the record was not taken. */
tutti_status tt_inbox_push(struct tt_inbox *inbox, const struct tt_inbox_record *record, const void *data);

/* Takes the oldest record out; *data stays valid until the next reset or push. The inbox must not be empty. */
void tt_inbox_pop(struct tt_inbox *inbox, struct tt_inbox_record *record, const void **data);

#endif
