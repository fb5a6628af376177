/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The table of registrations. Normal path: a free place, and a token. Failures: what no registration covers is not
 * found; without memory or a random number nothing has changed.
 */
#include "fabric/session/registry.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/log.h"

enum { FIRST_ENTRIES = 16 };

/* A free place in the table, which grows if there is none. */
static tutti_status find_index(struct tt_registry *registry, uint32_t *result)
{
    for (uint32_t i = 0; i < registry->count; i++) {
        if (registry->entries[i] == NULL) {
            *result = i;
            return TUTTI_OK;
        }
    }
    uint32_t count = registry->count > 0 ? 2 * registry->count : FIRST_ENTRIES;
    struct tt_registration **entries = realloc(registry->entries, count * sizeof(struct tt_registration *));
    if (entries == NULL) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for a registration");
    }
    memset(entries + registry->count, 0, (count - registry->count) * sizeof(struct tt_registration *));
    *result = registry->count;
    registry->entries = entries;
    registry->count = count;
    return TUTTI_OK;
}

tutti_status tt_registry_add(struct tt_registry *registry, struct tt_registration *registration, void *address,
                             size_t length_bytes)
{
    tutti_status status = find_index(registry, &registration->index);
    if (status != TUTTI_OK) {
        return status;
    }
    if (getrandom(&registration->token, sizeof(registration->token), 0) != sizeof(registration->token)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_IO, "no random number for a registration");
    }
    registration->address = address;
    registration->length_bytes = length_bytes;
    registry->entries[registration->index] = registration;
    return TUTTI_OK;
}

void tt_registry_remove(struct tt_registry *registry, const struct tt_registration *registration)
{
    registry->entries[registration->index] = NULL;
}

struct tt_registration *tt_registry_find(const struct tt_registry *registry, uint32_t index, uint64_t token,
                                         uint64_t address, uint64_t length_bytes)
{
    struct tt_registration *found = index < registry->count ? registry->entries[index] : NULL;
    if (found == NULL || found->token != token || address < (uintptr_t)found->address) {
        return NULL;
    }
    uint64_t offset_bytes = address - (uintptr_t)found->address;
    if (offset_bytes > found->length_bytes || length_bytes > found->length_bytes - offset_bytes) {
        return NULL;
    }
    return found;
}

void tt_registry_fini(struct tt_registry *registry)
{
    free(registry->entries);
    *registry = (struct tt_registry){0};
}
