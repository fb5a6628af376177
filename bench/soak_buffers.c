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

static uint64_t given_bytes(const struct soak *soak, const struct soak_slot *slot)
{
    return slot->draw.bytes * (slot->draw.kind == SOAK_REDUCE_SCATTER ? soak_family_of(soak, slot)->size : 1);
}

static uint32_t received_blocks(const struct soak *soak, const struct soak_slot *slot)
{
    return slot->draw.kind == SOAK_ALLGATHER ? soak_family_of(soak, slot)->size : 1;
}

static bool is_within(const struct soak_slot *slot)
{
    return slot->draw.kind == SOAK_REDUCE_SCATTER && slot->draw.in_place;
}

uint8_t *soak_buffers_result(const struct soak *soak, const struct soak_slot *slot)
{
    if (is_within(slot)) {
        return soak_buffers_start(slot, slot->send) + soak_family_of(soak, slot)->rank * slot->draw.bytes;
    }
    return soak_buffers_start(slot, slot->receive);
}

bool soak_buffers_given(const struct soak *soak, const struct soak_slot *slot)
{
    return slot->draw.kind != SOAK_BROADCAST || slot->draw.root == soak_family_of(soak, slot)->rank;
}

bool soak_buffers_apart(const struct soak *soak, const struct soak_slot *slot)
{
    return is_within(slot) || (!slot->draw.in_place && soak_buffers_given(soak, slot));
}

void soak_buffers_prepare(const struct soak *soak, const struct soak_slot *slot)
{
    const struct soak_family *family = soak_family_of(soak, slot);
    uint8_t *receive = soak_buffers_start(slot, slot->receive), *send = soak_buffers_start(slot, slot->send),
            *own = receive;
    uint64_t bytes = slot->draw.bytes, given = given_bytes(soak, slot);
    uint32_t blocks = received_blocks(soak, slot);

    tt_canary_fill(receive - TT_CANARY_BYTES);
    tt_canary_fill(receive + blocks * bytes);
    for (uint32_t block = 0; block < blocks; block++) {
        tt_pattern_poison(receive + block * bytes, bytes, slot->draw.kind == SOAK_ALLGATHER ? block : slot->draw.root,
                          slot->round);
    }
    if (slot->draw.kind == SOAK_ALLGATHER) {
        own += family->rank * bytes;
    }
    if (soak_buffers_apart(soak, slot)) {
        tt_canary_fill(send - TT_CANARY_BYTES);
        tt_canary_fill(send + given);
        own = send;
    }
    if (soak_buffers_given(soak, slot)) {
        tt_pattern_fill(own, given, family->rank, slot->round);
    }
}

const char *soak_kind_name(enum soak_kind kind)
{
    static const char *const names[] = {"broadcast", "allgather", "allreduce", "reduce-scatter"};

    return names[kind];
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
            soak->rank, soak->options.seed, slot->round, soak_kind_name(slot->draw.kind), slot->draw.bytes,
            (int)soak_algorithm_of(soak, slot), slot->family, family->rank, family->size, slot->draw.root,
            slot->draw.in_place ? "in place" : "out of place", wrong, what, block, first->offset_bytes, first->found,
            first->expected, first->never_written ? " (never written)" : "");
}

static uint64_t compare(const uint8_t *found, const uint8_t *expected, uint64_t bytes, struct tt_pattern_error *first)
{
    uint64_t wrong = 0;

    if (memcmp(found, expected, bytes) == 0) {
        return 0;
    }
    for (uint64_t at = 0; at < bytes; at++) {
        if (found[at] != expected[at] && wrong++ == 0) {
            *first = (struct tt_pattern_error){.offset_bytes = at, .expected = expected[at], .found = found[at]};
        }
    }
    return wrong;
}

/* The sum of what all ranks gave, of a reduce-scatter the part that is this rank's. */
static void check_sum(struct soak *soak, const struct soak_slot *slot)
{
    const struct soak_family *family = soak_family_of(soak, slot);
    uint8_t *sum = soak->reference.receive, *share = soak->reference.send;
    uint64_t bytes = slot->draw.bytes, given = given_bytes(soak, slot),
             first_byte = given > bytes ? family->rank * bytes : 0;
    struct tt_pattern_error first = {0};

    memset(sum, 0, bytes);
    for (uint32_t rank = 0; rank < family->size; rank++) {
        tt_pattern_fill(share, given, rank, slot->round);
        for (uint64_t at = 0; at < bytes; at++) {
            sum[at] = (uint8_t)(sum[at] + share[first_byte + at]);
        }
    }
    note_wrong(soak, slot, "result of rank", family->rank, compare(soak_buffers_result(soak, slot), sum, bytes, &first),
               &first);
}

/* The result may be a part of it. */
static void check_send(struct soak *soak, const struct soak_slot *slot)
{
    const struct soak_family *family = soak_family_of(soak, slot);
    uint8_t *send = soak_buffers_start(slot, slot->send), *share = soak->reference.send;
    uint64_t given = given_bytes(soak, slot);
    struct tt_pattern_error first = {0};

    note_wrong(soak, slot, "send canary", 0, tt_canary_check(send - TT_CANARY_BYTES), &first);
    note_wrong(soak, slot, "send canary", 1, tt_canary_check(send + given), &first);
    if (is_within(slot)) {
        tt_pattern_fill(share, given, family->rank, slot->round);
        memcpy(share + family->rank * slot->draw.bytes, soak_buffers_result(soak, slot), slot->draw.bytes);
        note_wrong(soak, slot, "send buffer", family->rank, compare(send, share, given, &first), &first);
    } else {
        note_wrong(soak, slot, "send buffer", family->rank,
                   tt_pattern_check(send, given, family->rank, slot->round, &first), &first);
    }
}

void soak_buffers_check(struct soak *soak, const struct soak_slot *slot)
{
    uint8_t *receive = soak_buffers_start(slot, slot->receive);
    uint32_t blocks = received_blocks(soak, slot);
    uint64_t bytes = slot->draw.bytes, total = bytes * blocks;
    struct tt_pattern_error first = {0};

    if (soak->options.plant == SOAK_PLANT_BYTE && bytes > 0 && soak->rank + 1 == soak->size &&
        slot->round % 100 == 99) {
        soak_buffers_result(soak, slot)[total - 1] ^= 1;
    }
    if (soak_reduces(slot)) {
        check_sum(soak, slot);
    }
    for (uint32_t block = 0; block < blocks && !soak_reduces(slot); block++) {
        uint32_t source = slot->draw.kind == SOAK_ALLGATHER ? block : slot->draw.root;

        note_wrong(soak, slot, "block", source,
                   tt_pattern_check(receive + block * bytes, bytes, source, slot->round, &first), &first);
    }
    memset(&first, 0, sizeof(first));
    note_wrong(soak, slot, "canary", 0, tt_canary_check(receive - TT_CANARY_BYTES), &first);
    note_wrong(soak, slot, "canary", 1, tt_canary_check(receive + total), &first);
    if (soak_buffers_apart(soak, slot)) {
        check_send(soak, slot);
    }
}
