/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A byte arena of records that fills during one progress of the UCX worker and is handed out before the next.
 *
 * Normal path: push appends a header and the data, both 8-byte aligned; pop walks over them; reset starts again at the
 * front. One progress of a worker may deliver everything that the sockets of all peers hold, so there is no upper
 * limit: the arena doubles when it is full, which allocates, and keeps its size afterwards.
 *
 * Failures: no memory to grow. The caller must treat it as the loss of a reliable connection.
 */
#include "fabric/ucx/inbox.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { ALIGN_BYTES = 8 };

static size_t record_bytes(uint32_t length_bytes)
{
    size_t bytes = sizeof(struct tt_inbox_record) + length_bytes;
    return (bytes + ALIGN_BYTES - 1) / ALIGN_BYTES * ALIGN_BYTES;
}

tutti_status tt_inbox_init(struct tt_inbox *inbox, size_t capacity_bytes)
{
    *inbox = (struct tt_inbox){.bytes = malloc(capacity_bytes), .capacity_bytes = capacity_bytes};
    return inbox->bytes != NULL ? TUTTI_OK : TUTTI_ERR_NO_MEMORY;
}

void tt_inbox_fini(struct tt_inbox *inbox)
{
    free(inbox->bytes);
    *inbox = (struct tt_inbox){0};
}

void tt_inbox_reset(struct tt_inbox *inbox)
{
    assert(tt_inbox_empty(inbox));
    inbox->head_bytes = 0;
    inbox->tail_bytes = 0;
}

tutti_status tt_inbox_push(struct tt_inbox *inbox, const struct tt_inbox_record *record, const void *data)
{
    size_t needed_bytes = inbox->tail_bytes + record_bytes(record->length_bytes);
    if (needed_bytes > inbox->capacity_bytes) {
        size_t capacity_bytes = 2 * needed_bytes;
        uint8_t *bytes = realloc(inbox->bytes, capacity_bytes);
        if (bytes == NULL) {
            return TUTTI_ERR_NO_MEMORY;
        }
        inbox->bytes = bytes;
        inbox->capacity_bytes = capacity_bytes;
    }
    uint8_t *slot = inbox->bytes + inbox->tail_bytes;
    memcpy(slot, record, sizeof(*record));
    if (record->length_bytes > 0) {
        memcpy(slot + sizeof(*record), data, record->length_bytes);
    }
    inbox->tail_bytes = needed_bytes;
    return TUTTI_OK;
}

void tt_inbox_pop(struct tt_inbox *inbox, struct tt_inbox_record *record, const void **data)
{
    assert(!tt_inbox_empty(inbox));
    const uint8_t *slot = inbox->bytes + inbox->head_bytes;
    memcpy(record, slot, sizeof(*record));
    *data = slot + sizeof(*record);
    inbox->head_bytes += record_bytes(record->length_bytes);
}
