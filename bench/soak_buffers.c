/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The buffers of a slot of `soak`: filled before a collective and compared, to the byte, after it.
 *
 * Normal path: what a rank sends says whose it is and of which collective; all that it is to receive starts as the
 * opposite; canaries stand directly before and behind. Failures: no memory. What is wrong is counted, and the first of
 * it described.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/log.h"
#include "soak.h"

enum { MEMORY_BYTES = TT_CANARY_BYTES + SOAK_MISALIGNMENT_LIMIT + SOAK_BUFFER_BYTES + TT_CANARY_BYTES };

/* Not of the heap, which is watched; resident from the beginning. */
static tutti_status map(uint8_t **memory)
{
    void *mapped = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    if (mapped == MAP_FAILED) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "no memory for a buffer of %d bytes", (int)MEMORY_BYTES);
    }
    *memory = mapped;
    return TUTTI_OK;
}

tutti_status soak_buffers_init(struct soak_slot *slot)
{
    tutti_status status = map(&slot->send);

    return status == TUTTI_OK ? map(&slot->receive) : status;
}

void soak_buffers_fini(struct soak_slot *slot)
{
    if (slot->send != NULL) {
        munmap(slot->send, MEMORY_BYTES);
    }
    if (slot->receive != NULL) {
        munmap(slot->receive, MEMORY_BYTES);
    }
}

uint8_t *soak_buffers_start(const struct soak_slot *slot, uint8_t *memory)
{
    return memory + TT_CANARY_BYTES + slot->draw.misalignment_bytes;
}

static uint64_t received_bytes(const struct soak *soak, const struct soak_slot *slot)
{
    return slot->draw.allgather ? slot->draw.bytes * soak_family_of(soak, slot)->size : slot->draw.bytes;
}

bool soak_buffers_apart(const struct soak *soak, const struct soak_slot *slot)
{
    return !slot->draw.in_place && (slot->draw.allgather || slot->draw.root == soak_family_of(soak, slot)->rank);
}

void soak_buffers_prepare(const struct soak *soak, const struct soak_slot *slot)
{
    const struct soak_family *family = soak_family_of(soak, slot);
    uint8_t *receive = soak_buffers_start(slot, slot->receive), *send = soak_buffers_start(slot, slot->send),
            *own = receive;
    uint64_t bytes = slot->draw.bytes, total = received_bytes(soak, slot);
    uint32_t blocks = slot->draw.allgather ? family->size : 1;
    bool has_own = slot->draw.allgather || slot->draw.root == family->rank;

    tt_canary_fill(receive - TT_CANARY_BYTES);
    tt_canary_fill(receive + total);
    for (uint32_t block = 0; block < blocks; block++) {
        tt_pattern_poison(receive + block * bytes, bytes, slot->draw.allgather ? block : slot->draw.root, slot->round);
    }
    if (slot->draw.allgather) {
        own += family->rank * bytes;
    }
    if (soak_buffers_apart(soak, slot)) {
        tt_canary_fill(send - TT_CANARY_BYTES);
        tt_canary_fill(send + bytes);
        own = send;
    }
    if (has_own) {
        tt_pattern_fill(own, bytes, family->rank, slot->round);
    }
}

static void note_wrong(struct soak *soak, const struct soak_slot *slot, const char *what, uint32_t block,
                       uint64_t wrong, const struct tt_pattern_error *first)
{
    const struct soak_family *family = soak_family_of(soak, slot);

    soak->wrong += wrong;
    if (wrong == 0 || soak->wrong_described == SOAK_WRONG_DESCRIBED) {
        return;
    }
    soak->wrong_described++;
    fprintf(stderr,
            "soak: rank %u: seed %" PRIu64 ", collective %" PRIu64 ": %s of %" PRIu64
            " bytes, algorithm %d, in family %u as rank %u of %u, root %u, %s: %" PRIu64
            " wrong bytes in %s %u, first %" PRIu64 ": 0x%02x instead of 0x%02x%s\n",
            soak->rank, soak->options.seed, slot->round, slot->draw.allgather ? "allgather" : "broadcast",
            slot->draw.bytes, (int)soak->algorithms[slot->draw.algorithm], slot->family, family->rank, family->size,
            slot->draw.root, slot->draw.in_place ? "in place" : "out of place", wrong, what, block, first->offset_bytes,
            first->found, first->expected, first->never_written ? " (never written)" : "");
}

void soak_buffers_check(struct soak *soak, const struct soak_slot *slot)
{
    const struct soak_family *family = soak_family_of(soak, slot);
    uint8_t *receive = soak_buffers_start(slot, slot->receive), *send = soak_buffers_start(slot, slot->send);
    uint64_t bytes = slot->draw.bytes, total = received_bytes(soak, slot);
    uint32_t blocks = slot->draw.allgather ? family->size : 1;
    struct tt_pattern_error first = {0};

    if (soak->options.plant == SOAK_PLANT_BYTE && bytes > 0 && soak->rank + 1 == soak->size &&
        slot->round % 100 == 99) {
        receive[total - 1] ^= 1;
    }
    for (uint32_t block = 0; block < blocks; block++) {
        uint32_t source = slot->draw.allgather ? block : slot->draw.root;

        note_wrong(soak, slot, "block", source,
                   tt_pattern_check(receive + block * bytes, bytes, source, slot->round, &first), &first);
    }
    memset(&first, 0, sizeof(first));
    note_wrong(soak, slot, "canary", 0, tt_canary_check(receive - TT_CANARY_BYTES), &first);
    note_wrong(soak, slot, "canary", 1, tt_canary_check(receive + total), &first);
    if (soak_buffers_apart(soak, slot)) {
        note_wrong(soak, slot, "send canary", 0, tt_canary_check(send - TT_CANARY_BYTES), &first);
        note_wrong(soak, slot, "send canary", 1, tt_canary_check(send + bytes), &first);
        note_wrong(soak, slot, "send buffer", family->rank,
                   tt_pattern_check(send, bytes, family->rank, slot->round, &first), &first);
    }
}
