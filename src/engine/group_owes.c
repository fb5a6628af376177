/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a group owes to others: asked by whoever steps it, and by who leaves it. Never fails.
 */
#include "engine/group.h"
#include "engine/triggers.h"

bool tt_group_is_needed(const struct tt_group *group)
{
    return tt_member_owes(&group->member) ||
           (group->member.status == TUTTI_OK && !tt_triggers_are_settled(group->triggers));
}

bool tt_group_owes(const struct tt_group *group)
{
    return group->active != NULL || tt_group_is_needed(group);
}

void tt_group_note_owes(struct tt_group *group)
{
    bool owes = tt_group_owes(group);

    if (group->party.owes && !owes) {
        tt_engine_announce(group->engine); /* to who leaves it */
    }
    tt_party_note_owes(&group->engine->parties, &group->party, owes);
}
