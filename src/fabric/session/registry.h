/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The registrations of an instance whose transport looks at keys itself: each has a place in a table and a random
 * token, and who knows both reaches its bytes, and no others.
 */
#ifndef TT_FABRIC_SESSION_REGISTRY_H
#define TT_FABRIC_SESSION_REGISTRY_H

#include <stddef.h>
#include <stdint.h>

#include "tutti/status.h"

/* Part of a transport's registration, which the transport allocates. */
struct tt_registration {
    uint8_t *address;
    size_t length_bytes;
    uint32_t index; /* in the registry */
    uint64_t token;
};

/* All zero: empty. */
struct tt_registry {
    struct tt_registration **entries; /* by their index; NULL: free */
    uint32_t count;
};

/* Enters it, and sets all of *registration. Errors: NO_MEMORY, IO (no random number); each with its text. */
tutti_status tt_registry_add(struct tt_registry *registry, struct tt_registration *registration, void *address,
                             size_t length_bytes);
void tt_registry_remove(struct tt_registry *registry, const struct tt_registration *registration);

/* The registration that the range lies in; NULL: none. */
struct tt_registration *tt_registry_find(const struct tt_registry *registry, uint32_t index, uint64_t token,
                                         uint64_t address, uint64_t length_bytes);

void tt_registry_fini(struct tt_registry *registry);

#endif
