/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whose turn it is. The Broadcasts that a rank multicasts behind barriers in one group go one after the other, in the
 * order of the sequence numbers: two at once would only share the link, so that each takes as long as both. Barriers
 * and handshakes go on meanwhile, so a root that has two in progress leaves no gap between them. Since the release of a
 * collective goes with its data, receivers begin to count its time when its turn has come. Allgathers send at a part of
 * the link's rate, and take no turns; nor does anybody wait for a very large Broadcast that is longer than its own, as
 * its timeout may be shorter, too.
 *
 * Normal path: a Broadcast begins when no older one is being transmitted here; the end of a transmission lets the next
 * one begin. Nobody waits for ever: it only ever waits for older ones, and a group that fails ends them all.
 */
#include <assert.h>

#include "base/least.h"
#include "proto/collective_private.h"
#include "proto/member_private.h"

enum { LARGE_BYTES = 16 << 20 }; /* what is longer is waited for only by what is as long */

static bool takes_turns(const struct tt_collective *collective)
{
    return tt_collective_roots(collective) == 1 && collective->way->gate->releases &&
           tt_collective_has_block(collective);
}

/* Its barrier is over, and it has not sent everything. */
static bool wants_turn(const struct tt_collective *collective)
{
    return takes_turns(collective) && collective->sending.activated && !collective->sending.sent &&
           collective->state != TT_COLLECTIVE_FAILING;
}

static bool is_first(const struct tt_member *member, const struct tt_collective *collective)
{
    uint64_t most_bytes = tt_most(LARGE_BYTES, collective->config.terms.block_bytes);

    assert(takes_turns(collective));
    for (uint64_t sequence = member->oldest; sequence < collective->sequence; sequence++) {
        const struct tt_collective *older = tt_member_slot_of(member, sequence)->collective;

        if (older != NULL && wants_turn(older) && older->config.terms.block_bytes <= most_bytes) {
            return false;
        }
    }
    return true;
}

void tt_member_give_turn(const struct tt_member *member, struct tt_collective *collective)
{
    bool ends = member->status != TUTTI_OK; /* also what waits in line and has no slot yet */

    if (!ends && !collective->sending.transmitting && takes_turns(collective)) {
        collective->sending.has_turn = is_first(member, collective);
    }
}

void tt_member_advance_turns(struct tt_member *member, uint64_t now_ns, struct tt_actions *actions)
{
    if (!member->turn_passes) {
        return;
    }
    for (uint64_t sequence = member->oldest, end = tt_member_end(member); sequence < end; sequence++) {
        struct tt_collective *collective = tt_member_slot_of(member, sequence)->collective;

        if (collective == NULL || !wants_turn(collective) || collective->sending.transmitting ||
            !is_first(member, collective)) {
            continue;
        }
        if (!tt_member_has_room(actions, tt_actions_worst(member->config.size))) {
            actions->more = true;
            return;
        }
        tt_member_step_collective(member, collective,
                                  &(struct tt_collective_event){.type = TT_EVENT_TICK, .now_ns = now_ns}, actions);
    }
    member->turn_passes = false;
}
