/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: what holds in a bootstrap, whatever the others say.
 *
 * Normal path: rank and failure, then what rank 0 has: members, of which those that are present have a connection, and
 * the ring of strangers.
 *
 * Failures: none; what does not hold ends the process.
 */
#include <assert.h>

#include "engine/bootstrap_private.h"

static void check_members(const struct tt_bootstrap *bootstrap)
{
    uint32_t present = 0;

    assert(!bootstrap->members[0].present); /* rank 0 itself */
    for (uint32_t rank = 1; rank < bootstrap->size; rank++) {
        const struct tt_bootstrap_member *member = &bootstrap->members[rank];

        assert(member->present == (member->channel.fd >= 0));
        present += member->present;
    }
    assert(present == bootstrap->present_count);
}

static void check_root(const struct tt_bootstrap *bootstrap)
{
    assert(bootstrap->members != NULL);
    assert(bootstrap->strangers != NULL);
    assert(bootstrap->root_channel.fd < 0);
    assert(bootstrap->stranger_places >= bootstrap->size); /* who is late finds a place though all others are silent */
    assert(bootstrap->next_stranger < bootstrap->stranger_places);
    check_members(bootstrap);
}

void tt_bootstrap_check(const struct tt_bootstrap *bootstrap)
{
    assert(bootstrap->size > 0);
    assert(bootstrap->rank < bootstrap->size || bootstrap->rank == TT_HELLO_NO_RANK);
    assert(bootstrap->failed_rank >= -1);
    assert(bootstrap->failed_rank == -1 || (uint32_t)bootstrap->failed_rank < bootstrap->size);
    assert(bootstrap->failure != TUTTI_OK || bootstrap->failed_rank == -1);
    if (bootstrap->size > 1 && bootstrap->rank == 0) {
        check_root(bootstrap);
    } else {
        assert(bootstrap->members == NULL);
        assert(bootstrap->listener < 0);
        assert(bootstrap->present_count == 0);
    }
}
