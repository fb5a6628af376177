/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whom a member of an object group is connected to. Normal path: the plan is followed for one number of blocks that is
 * enough for every pair to occur that occurs with any number, and the dissemination pattern is added. Failures: terms
 * that the plan refuses have no neighbours.
 */
#include <assert.h>
#include <string.h>

#include "plan/rdmc.h"
#include "proto/object.h"

/* Adds to an ascending list; returns its length. Most come in order. */
static uint32_t add(uint32_t *members, uint32_t count, uint32_t member)
{
    uint32_t place = count;

    while (place > 0 && members[place - 1] > member) {
        place--;
    }
    if (place > 0 && members[place - 1] == member) {
        return count;
    }
    memmove(&members[place + 1], &members[place], (count - place) * sizeof members[0]);
    members[place] = member;
    return count + 1;
}

/* A pipeline's pairs come again after twice as many steps as the hypercube has dimensions (the twins change places
 * after an odd number of set bits); it has begun, and ends, within as many. All other plans do the same for each block.
 */
static uint64_t enough_blocks(const struct tt_object_config *config)
{
    if (config->algorithm != TT_RDMC_BINOMIAL_PIPELINE && config->algorithm != TT_RDMC_HYBRID) {
        return 1;
    }
    return 4 * ((uint64_t)tt_dissemination_rounds(config->member_count) + 1);
}

uint32_t tt_object_neighbours(const struct tt_object_config *config, uint32_t *members)
{
    struct tt_rdmc plan;
    struct tt_rdmc_transfer transfer;
    uint32_t count = 0, size = config->member_count;

    if (!tt_rdmc_init(&plan, config->algorithm, size, enough_blocks(config), config->rack_firsts, config->rack_count)) {
        return 0;
    }
    for (unsigned lane = 0; lane < TT_RDMC_LANE_COUNT; lane++) {
        for (uint64_t step = 0; tt_rdmc_next_send(&plan, config->member, (enum tt_rdmc_lane)lane, step, &transfer);
             step = transfer.step + 1) {
            count = add(members, count, transfer.peer);
        }
    }
    for (uint64_t step = 0; tt_rdmc_next_receive(&plan, config->member, step, &transfer); step = transfer.step + 1) {
        count = add(members, count, transfer.peer);
    }
    for (uint32_t round = 0; round < tt_dissemination_rounds(size); round++) {
        count = add(members, count, tt_rank_add(config->member, UINT32_C(1) << round, size));
        count = add(members, count, tt_rank_subtract(config->member, UINT32_C(1) << round, size));
    }
    assert(count < size); /* without itself */
    return count;
}
