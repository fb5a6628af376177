/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: a plan of any algorithm, and the hybrid, which is two levels of the binomial pipeline.
 *
 * Normal path: a lane of a member belongs to a level: members that follow one rule among themselves, from a step on. An
 * algorithm with one lane is one level of all members. The hybrid has a level of leaders, numbered by rack, and one in
 * each rack, numbered from its leader, which begins when the leader has what it is to send (Behrens et al.,
 * section 4.3; what overlaps is defined in the header).
 *
 * Failures: only init has some, and a word that is none. Steps behind the end, and members without anything to do, have
 * no transfer.
 */
#include "plan/rdmc.h"

#include <assert.h>
#include <string.h>

#include "plan/rdmc_rule.h"

static const struct algorithm {
    const char *word;
    const struct tt_rdmc_rule *rule; /* of each level */
} algorithms[TT_RDMC_ALGORITHM_COUNT] = {
    [TT_RDMC_SEQUENTIAL] = {"sequential", &tt_rdmc_sequential},
    [TT_RDMC_CHAIN] = {"chain", &tt_rdmc_chain},
    [TT_RDMC_BINOMIAL_TREE] = {"binomial-tree", &tt_rdmc_tree},
    [TT_RDMC_BINOMIAL_PIPELINE] = {"binomial-pipeline", &tt_rdmc_pipeline},
    [TT_RDMC_HYBRID] = {"hybrid", &tt_rdmc_pipeline},
};

/* --- Racks and levels --------------------------------------------------------------------------------------------- */

static uint32_t rack_size(const struct tt_rdmc *plan, uint32_t rack)
{
    uint32_t end = rack + 1 < plan->rack_count ? plan->rack_firsts[rack + 1] : plan->member_count;

    return end - plan->rack_firsts[rack];
}

static uint32_t rack_of(const struct tt_rdmc *plan, uint32_t member)
{
    uint32_t low = 0, high = plan->rack_count; /* the rack is in [low, high) */

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (plan->rack_firsts[middle] <= member) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool is_leader(const struct tt_rdmc *plan, uint32_t member)
{
    return plan->rack_firsts[rack_of(plan, member)] == member;
}

/* A leader has block b before step b + ceil(log2 R) + 1, see rdmc_pipeline.c; the first one has all from the start. */
static uint64_t rack_start(const struct tt_rdmc *plan, uint32_t rack)
{
    return rack == 0 ? 0 : tt_log2_up(plan->rack_count) + 1;
}

struct level {
    uint32_t n;
    uint32_t place;          /* of the member, among the n */
    uint64_t start;          /* the plan's step that is the rule's step 0 */
    const uint32_t *members; /* by place; NULL: consecutive ones from `first` on */
    uint32_t first;
};

/* False: the member is in no such level, or alone in it. */
static bool find_level(const struct tt_rdmc *plan, uint32_t member, enum tt_rdmc_lane lane, struct level *level)
{
    assert(member < plan->member_count);
    if (plan->algorithm != TT_RDMC_HYBRID) {
        if (lane != TT_RDMC_MAIN || plan->member_count == 1) {
            return false;
        }
        *level = (struct level){.n = plan->member_count, .place = member};
        return true;
    }
    uint32_t rack = rack_of(plan, member), first = plan->rack_firsts[rack];

    if (lane == TT_RDMC_MAIN) {
        *level = (struct level){.n = plan->rack_count, .place = rack, .members = plan->rack_firsts};
        return member == first && level->n > 1;
    }
    *level = (struct level){
        .n = rack_size(plan, rack), .place = member - first, .start = rack_start(plan, rack), .first = first};
    return level->n > 1;
}

/* In which lane a member receives: leaders from other leaders, everybody else in the rack. */
static enum tt_rdmc_lane lane_from(const struct tt_rdmc *plan, uint32_t member)
{
    return plan->algorithm == TT_RDMC_HYBRID && !is_leader(plan, member) ? TT_RDMC_RACK : TT_RDMC_MAIN;
}

/* --- Transfers ---------------------------------------------------------------------------------------------------- */

/* `step` is the rule's. */
static bool transfer_at(const struct tt_rdmc *plan, const struct level *level, tt_rdmc_at *at, uint64_t step,
                        struct tt_rdmc_transfer *transfer)
{
    struct tt_rdmc_transfer found;

    if (!at(level->n, plan->block_count, level->place, step, &found)) {
        return false;
    }
    transfer->step = step + level->start;
    transfer->block = found.block;
    transfer->peer = level->members != NULL ? level->members[found.peer] : level->first + found.peer;
    return true;
}

static bool next_transfer(const struct tt_rdmc *plan, const struct level *level, tt_rdmc_from *from, tt_rdmc_at *at,
                          uint64_t step, struct tt_rdmc_transfer *transfer)
{
    uint64_t next = step > level->start ? step - level->start : 0;

    while ((next = from(level->n, plan->block_count, level->place, next)) != TT_RDMC_NEVER) {
        if (transfer_at(plan, level, at, next, transfer)) {
            return true;
        }
        next++;
    }
    return false;
}

bool tt_rdmc_send(const struct tt_rdmc *plan, uint32_t member, enum tt_rdmc_lane lane, uint64_t step,
                  struct tt_rdmc_transfer *transfer)
{
    struct level level;

    return find_level(plan, member, lane, &level) && step >= level.start &&
           transfer_at(plan, &level, algorithms[plan->algorithm].rule->send, step - level.start, transfer);
}

bool tt_rdmc_receive(const struct tt_rdmc *plan, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer)
{
    struct level level;

    return find_level(plan, member, lane_from(plan, member), &level) && step >= level.start &&
           transfer_at(plan, &level, algorithms[plan->algorithm].rule->receive, step - level.start, transfer);
}

bool tt_rdmc_next_send(const struct tt_rdmc *plan, uint32_t member, enum tt_rdmc_lane lane, uint64_t step,
                       struct tt_rdmc_transfer *transfer)
{
    const struct tt_rdmc_rule *rule = algorithms[plan->algorithm].rule;
    struct level level;

    return find_level(plan, member, lane, &level) &&
           next_transfer(plan, &level, rule->send_from, rule->send, step, transfer);
}

bool tt_rdmc_next_receive(const struct tt_rdmc *plan, uint32_t member, uint64_t step, struct tt_rdmc_transfer *transfer)
{
    const struct tt_rdmc_rule *rule = algorithms[plan->algorithm].rule;
    struct level level;

    return find_level(plan, member, lane_from(plan, member), &level) &&
           next_transfer(plan, &level, rule->receive_from, rule->receive, step, transfer);
}

/* --- The whole ---------------------------------------------------------------------------------------------------- */

static bool racks_are_good(enum tt_rdmc_algorithm algorithm, uint32_t member_count, const uint32_t *rack_firsts,
                           uint32_t rack_count)
{
    if (algorithm != TT_RDMC_HYBRID) {
        return rack_firsts == NULL && rack_count == 0;
    }
    if (rack_firsts == NULL || rack_count == 0 || rack_firsts[0] != 0) {
        return false;
    }
    for (uint32_t i = 1; i < rack_count; i++) {
        if (rack_firsts[i] <= rack_firsts[i - 1]) {
            return false;
        }
    }
    return rack_firsts[rack_count - 1] < member_count;
}

static uint64_t count_steps(const struct tt_rdmc *plan)
{
    const struct tt_rdmc_rule *rule = algorithms[plan->algorithm].rule;

    if (plan->algorithm != TT_RDMC_HYBRID) {
        return rule->steps(plan->member_count, plan->block_count);
    }
    uint64_t steps = rule->steps(plan->rack_count, plan->block_count);

    for (uint32_t rack = 0; rack < plan->rack_count; rack++) {
        uint32_t size = rack_size(plan, rack);
        uint64_t end = size > 1 ? rack_start(plan, rack) + rule->steps(size, plan->block_count) : 0;

        steps = end > steps ? end : steps;
    }
    return steps;
}

bool tt_rdmc_init(struct tt_rdmc *plan, enum tt_rdmc_algorithm algorithm, uint32_t member_count, uint64_t block_count,
                  const uint32_t *rack_firsts, uint32_t rack_count)
{
    assert((unsigned)algorithm < TT_RDMC_ALGORITHM_COUNT);
    if (member_count == 0 || member_count > TT_RDMC_MOST_MEMBERS || block_count == 0 ||
        block_count > TT_RDMC_MOST_BLOCKS || !racks_are_good(algorithm, member_count, rack_firsts, rack_count)) {
        return false;
    }
    *plan = (struct tt_rdmc){.algorithm = algorithm,
                             .member_count = member_count,
                             .block_count = block_count,
                             .rack_firsts = rack_firsts,
                             .rack_count = rack_count};
    plan->step_count = count_steps(plan);
    return true;
}

static uint32_t pipeline_ahead(uint32_t n)
{
    return n > 1 ? tt_log2_up(n) - 1 : 0;
}

uint32_t tt_rdmc_most_ahead(const struct tt_rdmc *plan)
{
    if (plan->algorithm == TT_RDMC_BINOMIAL_PIPELINE) {
        return pipeline_ahead(plan->member_count);
    }
    uint32_t most = pipeline_ahead(plan->rack_count); /* without racks 0 */

    for (uint32_t rack = 0; rack < plan->rack_count; rack++) {
        uint32_t ahead = pipeline_ahead(rack_size(plan, rack));

        most = ahead > most ? ahead : most;
    }
    return most;
}

const char *tt_rdmc_word(enum tt_rdmc_algorithm algorithm)
{
    return algorithms[algorithm].word;
}

bool tt_rdmc_of_word(const char *word, enum tt_rdmc_algorithm *algorithm)
{
    for (unsigned i = 0; i < TT_RDMC_ALGORITHM_COUNT; i++) {
        if (strcmp(word, algorithms[i].word) == 0) {
            *algorithm = (enum tt_rdmc_algorithm)i;
            return true;
        }
    }
    return false;
}
