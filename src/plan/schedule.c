/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: which schedules there are, and the list of a rank's steps with the numbers that its messages have where they
 * go.
 *
 * Normal path: the pair's row writes the rank's steps; then each peer that is sent to has its own steps computed once,
 * not to be kept but to number what it receives from this rank.
 *
 * Failures: a pair that is none is refused at init. Too little room for the steps is no failure: they are counted.
 */
#include "plan/schedule.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "base/least.h"
#include "plan/schedule_rule.h"

/* One line a pair. What the number of blocks is: one, two, the largest power of two of ranks, or one a rank. */
enum blocks_rule { ONE, TWO, POWER, EACH };

static const struct rule {
    enum tt_schedule_collective collective;
    enum tt_schedule_algorithm algorithm;
    void (*write)(struct tt_schedule_list *list);
    enum blocks_rule blocks;
    bool keeps_order;
} rules[] = {
    {TT_SCHEDULE_BARRIER, TT_SCHEDULE_DISSEMINATION, tt_schedule_barrier, ONE, true},
    {TT_SCHEDULE_BROADCAST, TT_SCHEDULE_BINOMIAL, tt_schedule_broadcast_binomial, ONE, true},
    {TT_SCHEDULE_BROADCAST, TT_SCHEDULE_DOUBLE_TREE, tt_schedule_broadcast_double_tree, TWO, true},
    {TT_SCHEDULE_REDUCE, TT_SCHEDULE_BINOMIAL, tt_schedule_reduce_binomial, ONE, true},
    {TT_SCHEDULE_REDUCE, TT_SCHEDULE_RABENSEIFNER, tt_schedule_reduce_halving, POWER, true},
    {TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RECURSIVE_DOUBLING, tt_schedule_allreduce_doubling, ONE, true},
    {TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RABENSEIFNER, tt_schedule_allreduce_halving, POWER, true},
    {TT_SCHEDULE_ALLREDUCE, TT_SCHEDULE_RING, tt_schedule_allreduce_ring, EACH, false},
    {TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_RING, tt_schedule_reduce_scatter_ring, EACH, false},
    {TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_RECURSIVE_HALVING, tt_schedule_reduce_scatter_halving, EACH, false},
    {TT_SCHEDULE_REDUCE_SCATTER, TT_SCHEDULE_DIRECT, tt_schedule_reduce_scatter_direct, EACH, false},
    {TT_SCHEDULE_ALLGATHER, TT_SCHEDULE_RING, tt_schedule_allgather, EACH, true},
    {TT_SCHEDULE_ALLGATHER, TT_SCHEDULE_RECURSIVE_DOUBLING, tt_schedule_allgather, EACH, true},
    {TT_SCHEDULE_GATHER, TT_SCHEDULE_BINOMIAL, tt_schedule_gather, EACH, true},
    {TT_SCHEDULE_GATHER, TT_SCHEDULE_DIRECT, tt_schedule_gather_direct, EACH, true},
    {TT_SCHEDULE_SCATTER, TT_SCHEDULE_BINOMIAL, tt_schedule_scatter, EACH, true},
    {TT_SCHEDULE_SCATTER, TT_SCHEDULE_DIRECT, tt_schedule_scatter_direct, EACH, true},
};

static const struct rule *find_rule(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm)
{
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (rules[i].collective == collective && rules[i].algorithm == algorithm) {
            return &rules[i];
        }
    }
    return NULL;
}

bool tt_schedule_is_known(enum tt_schedule_collective collective, enum tt_schedule_algorithm algorithm)
{
    return find_rule(collective, algorithm) != NULL;
}

bool tt_schedule_has_root(enum tt_schedule_collective collective)
{
    return collective == TT_SCHEDULE_BROADCAST || collective == TT_SCHEDULE_REDUCE ||
           collective == TT_SCHEDULE_GATHER || collective == TT_SCHEDULE_SCATTER;
}

bool tt_schedule_init(struct tt_schedule *schedule, enum tt_schedule_collective collective,
                      enum tt_schedule_algorithm algorithm, uint32_t size, uint32_t root)
{
    if (!tt_schedule_is_known(collective, algorithm) || size == 0 || size > TT_SCHEDULE_MOST_RANKS ||
        root >= (tt_schedule_has_root(collective) ? size : 1)) {
        return false;
    }
    *schedule = (struct tt_schedule){.collective = collective, .algorithm = algorithm, .size = size, .root = root};
    return true;
}

uint32_t tt_schedule_block_count(const struct tt_schedule *schedule)
{
    switch (find_rule(schedule->collective, schedule->algorithm)->blocks) {
    case ONE:
        return 1;
    case TWO:
        return 2;
    case POWER:
        return tt_schedule_fold(schedule->size).power;
    default:
        return schedule->size;
    }
}

bool tt_schedule_has_rank_blocks(const struct tt_schedule *schedule)
{
    return schedule->collective >= TT_SCHEDULE_REDUCE_SCATTER;
}

bool tt_schedule_keeps_order(const struct tt_schedule *schedule)
{
    const struct rule *rule = find_rule(schedule->collective, schedule->algorithm);

    /* A binomial tree that is rooted elsewhere begins there. */
    return rule->keeps_order &&
           (rule->write != tt_schedule_reduce_binomial || schedule->root == 0 || schedule->size == 1);
}

uint32_t tt_schedule_given_blocks(const struct tt_schedule *schedule, uint32_t rank, uint32_t *first_block)
{
    enum tt_schedule_collective collective = schedule->collective;
    bool is_root = tt_schedule_has_root(collective) && rank == schedule->root;
    bool keeps_own = collective == TT_SCHEDULE_ALLGATHER || collective == TT_SCHEDULE_GATHER ||
                     (collective == TT_SCHEDULE_SCATTER && is_root);

    if (collective == TT_SCHEDULE_BARRIER) {
        return 0;
    }
    if (schedule->size == 1 || (collective == TT_SCHEDULE_BROADCAST && is_root)) {
        *first_block = 0;
        return tt_schedule_block_count(schedule);
    }
    if (keeps_own) {
        *first_block = rank;
        return 1;
    }
    return 0;
}

/* --- The list ----------------------------------------------------------------------------------------------------- */

static void number_message(struct tt_schedule_list *list, const struct tt_schedule_step *step)
{
    list->last = NULL;
    if (step->kind == TT_SCHEDULE_SEND) {
        return;
    }
    if (step->peer == list->sender) {
        struct tt_schedule_step *sent = &list->steps[list->sender_cursor];

        while (sent->kind != TT_SCHEDULE_SEND || sent->peer != list->rank) {
            list->sender_cursor++;
            assert(list->sender_cursor < list->sender_count);
            sent = &list->steps[list->sender_cursor];
        }
        assert(sent->first_block == step->first_block && sent->block_count == step->block_count);
        sent->position = list->received;
        list->sender_cursor++;
        list->last = sent;
    }
    list->received++;
}

static void add_piece(struct tt_schedule_list *list, const struct tt_schedule_step *step)
{
    if (list->sender != list->rank) {
        number_message(list, step);
    } else if (list->count < list->capacity) {
        list->steps[list->count] = *step;
    }
    list->count++;
}

/* Adds the first piece of what is left of a run, as a step like this one. False: nothing is left. */
static bool add_next(struct tt_schedule_list *list, struct tt_schedule_step *step, uint32_t *block_count)
{
    uint32_t to_end = list->blocks->block_count - step->first_block;

    if (*block_count == 0) {
        return false;
    }
    step->block_count = tt_blocks_piece(list->blocks, step->first_block, *block_count < to_end ? *block_count : to_end);
    add_piece(list, step);
    *block_count -= step->block_count;
    step->first_block = (step->first_block + step->block_count) % list->blocks->block_count;
    return true;
}

void tt_schedule_add(struct tt_schedule_list *list, enum tt_schedule_kind kind, uint32_t peer, uint32_t first_block,
                     uint32_t block_count, bool before)
{
    struct tt_schedule_step step = {.kind = kind, .peer = peer, .first_block = first_block, .before = before};

    if (block_count == 0) {
        add_piece(list, &step);
    }
    while (add_next(list, &step, &block_count)) {
    }
}

void tt_schedule_exchange(struct tt_schedule_list *list, const struct tt_schedule_exchange *exchange)
{
    struct tt_schedule_step sent = {
        .kind = TT_SCHEDULE_SEND, .peer = exchange->to, .first_block = exchange->sent_first};
    struct tt_schedule_step received = {.kind = exchange->kind,
                                        .peer = exchange->from,
                                        .first_block = exchange->received_first,
                                        .before = exchange->before};
    uint32_t sent_count = exchange->sent_count, received_count = exchange->received_count;
    bool has_more = true;

    while (has_more) {
        has_more = add_next(list, &sent, &sent_count);
        has_more |= add_next(list, &received, &received_count);
    }
}

uint32_t tt_schedule_turns(const struct tt_schedule *schedule)
{
    bool independent = schedule->collective == TT_SCHEDULE_REDUCE_SCATTER && schedule->algorithm == TT_SCHEDULE_DIRECT;

    return independent && schedule->size > 2 ? schedule->size - 1 : 1;
}

/* Of so many sends, each with a reception behind it: where the step is in that order which comes at `index` when the
 * first `ahead` sends go in front, and each further one behind a reception. */
static uint64_t index_of(uint64_t index, uint64_t sends, uint64_t ahead)
{
    uint64_t paired = 2 * (sends - ahead), behind;

    if (index < ahead) {
        return 2 * index;
    }
    behind = index - ahead;
    if (behind < paired) {
        return behind % 2 == 0 ? behind + 1 : 2 * ahead + behind - 1;
    }
    return 2 * (behind - paired + sends - ahead) + 1;
}

struct tt_schedule_step tt_schedule_turned(const struct tt_schedule *schedule, const struct tt_schedule_step *steps,
                                           uint64_t count, uint32_t turn, uint32_t ahead, uint64_t index)
{
    uint32_t turns = tt_schedule_turns(schedule);
    struct tt_schedule_step step;

    assert(turn < turns && index < count);
    if (turns == 1) {
        return steps[index];
    }
    assert(count == 2 * (uint64_t)turns);
    step = steps[(index_of(index, turns, tt_least(tt_most(ahead, 1), turns)) + (uint64_t)2 * turn) % count];
    if (step.kind == TT_SCHEDULE_SEND) {
        step.position = (step.position + turns - turn) % turns;
        step.ends = step.position == turns - 1;
    }
    return step;
}

static bool is_first_to_peer(const struct tt_schedule_step *steps, uint64_t index)
{
    for (uint64_t i = 0; i < index; i++) {
        if (steps[i].kind == TT_SCHEDULE_SEND && steps[i].peer == steps[index].peer) {
            return false;
        }
    }
    return true;
}

uint64_t tt_schedule_write(const struct tt_schedule *schedule, const struct tt_blocks *blocks, uint32_t rank,
                           struct tt_schedule_step *steps, uint64_t capacity)
{
    const struct rule *rule = find_rule(schedule->collective, schedule->algorithm);
    struct tt_schedule_list own = {
        .schedule = schedule, .blocks = blocks, .rank = rank, .sender = rank, .steps = steps, .capacity = capacity};

    assert(rank < schedule->size && blocks->block_count == tt_schedule_block_count(schedule));
    rule->write(&own);
    for (uint64_t i = 0; i < own.count && own.count <= capacity; i++) {
        if (steps[i].kind != TT_SCHEDULE_SEND || !is_first_to_peer(steps, i)) {
            continue;
        }
        struct tt_schedule_list peer = {.schedule = schedule,
                                        .blocks = blocks,
                                        .rank = steps[i].peer,
                                        .sender = rank,
                                        .steps = steps,
                                        .sender_cursor = i,
                                        .sender_count = own.count};

        rule->write(&peer);
        if (peer.last != NULL) {
            peer.last->ends = true;
        }
    }
    return own.count;
}

/* --- Words -------------------------------------------------------------------------------------------------------- */

static const char *const collective_words[TT_SCHEDULE_COLLECTIVE_COUNT] = {
    "barrier", "broadcast", "reduce", "allreduce", "reduce-scatter", "allgather", "gather", "scatter"};
static const char *const algorithm_words[TT_SCHEDULE_ALGORITHM_COUNT] = {
    "dissemination", "binomial", "double-tree",       "recursive-doubling",
    "rabenseifner",  "ring",     "recursive-halving", "direct"};

const char *tt_schedule_collective_word(enum tt_schedule_collective collective)
{
    return collective_words[collective];
}

const char *tt_schedule_algorithm_word(enum tt_schedule_algorithm algorithm)
{
    return algorithm_words[algorithm];
}

static bool find_word(const char *const *words, unsigned count, const char *word, unsigned *index)
{
    for (unsigned i = 0; i < count; i++) {
        if (strcmp(words[i], word) == 0) {
            *index = i;
            return true;
        }
    }
    return false;
}

bool tt_schedule_collective_of_word(const char *word, enum tt_schedule_collective *collective)
{
    unsigned index;

    if (!find_word(collective_words, TT_SCHEDULE_COLLECTIVE_COUNT, word, &index)) {
        return false;
    }
    *collective = (enum tt_schedule_collective)index;
    return true;
}

bool tt_schedule_algorithm_of_word(const char *word, enum tt_schedule_algorithm *algorithm)
{
    unsigned index;

    if (!find_word(algorithm_words, TT_SCHEDULE_ALGORITHM_COUNT, word, &index)) {
        return false;
    }
    *algorithm = (enum tt_schedule_algorithm)index;
    return true;
}
