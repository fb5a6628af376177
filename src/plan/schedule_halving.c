/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: schedules that double and halve: allreduce by recursive doubling and Rabenseifner's algorithm, reduce by the
 * latter's first half and a tree, reduce-scatter by recursive halving.
 *
 * Normal path: ranks that are too many for a power of two give their vector to the next rank, which takes part for
 * both; the others exchange, reducing; who was left out gets the result. What comes from a lower rank is the left
 * operand, so both sides of an exchange compute the same bits.
 *
 * Failures: none; one rank has no steps.
 */
#include "plan/schedule_rule.h"

/* The vector of a rank that is left out goes to its neighbour. True: the own one did, and there is nothing to exchange.
 */
static bool fold_in(struct tt_schedule_list *list, const struct tt_schedule_fold *fold)
{
    uint32_t all = list->blocks->block_count;

    if (tt_schedule_is_folded(fold, list->rank)) {
        tt_schedule_add(list, TT_SCHEDULE_SEND, list->rank + 1, 0, all, false);
        return true;
    }
    if (list->rank < 2 * fold->rest) {
        tt_schedule_add(list, TT_SCHEDULE_REDUCED, list->rank - 1, 0, all, true);
    }
    return false;
}

/* And the whole result back. */
static void fold_out(struct tt_schedule_list *list, const struct tt_schedule_fold *fold)
{
    uint32_t all = list->blocks->block_count;

    if (tt_schedule_is_folded(fold, list->rank)) {
        tt_schedule_add(list, TT_SCHEDULE_COPY, list->rank + 1, 0, all, false);
    } else if (list->rank < 2 * fold->rest) {
        tt_schedule_add(list, TT_SCHEDULE_SEND, list->rank - 1, 0, all, false);
    }
}

/* As many blocks either way. */
static void exchange_with(struct tt_schedule_list *list, enum tt_schedule_kind kind, uint32_t partner,
                          uint32_t sent_first, uint32_t received_first, uint32_t block_count)
{
    tt_schedule_exchange(list, &(struct tt_schedule_exchange){
                                   .to = partner,
                                   .sent_first = sent_first,
                                   .sent_count = block_count,
                                   .from = partner,
                                   .received_first = received_first,
                                   .received_count = block_count,
                                   .kind = kind,
                                   .before = kind == TT_SCHEDULE_REDUCED && partner < list->rank,
                               });
}

void tt_schedule_allreduce_doubling(struct tt_schedule_list *list)
{
    struct tt_schedule_fold fold = tt_schedule_fold(list->schedule->size);

    if (!fold_in(list, &fold)) {
        uint32_t place = tt_schedule_place(&fold, list->rank);

        for (uint32_t distance = 1; distance < fold.power; distance *= 2) {
            uint32_t partner = tt_schedule_rank(&fold, place ^ distance);

            exchange_with(list, TT_SCHEDULE_REDUCED, partner, 0, 0, 1);
        }
    }
    fold_out(list, &fold);
}

/* --- Rabenseifner ------------------------------------------------------------------------------------------------- */

/* The first of the blocks that a place still works on, when the partners at `distance` have been exchanged with and
 * those behind; there are power / distance / 2 of them. */
static uint32_t part_first(uint32_t power, uint32_t place, uint32_t distance)
{
    uint32_t first = 0, length = power;

    for (uint32_t d = 1; d <= distance; d *= 2) {
        length /= 2;
        first += (place & d) != 0 ? length : 0;
    }
    return first;
}

static void halve(struct tt_schedule_list *list, const struct tt_schedule_fold *fold)
{
    uint32_t place = tt_schedule_place(fold, list->rank);

    for (uint32_t distance = 1; distance < fold->power; distance *= 2) {
        uint32_t partner = tt_schedule_rank(fold, place ^ distance), length = fold->power / distance / 2;

        exchange_with(list, TT_SCHEDULE_REDUCED, partner, part_first(fold->power, place ^ distance, distance),
                      part_first(fold->power, place, distance), length);
    }
}

void tt_schedule_allreduce_halving(struct tt_schedule_list *list)
{
    struct tt_schedule_fold fold = tt_schedule_fold(list->schedule->size);

    if (!fold_in(list, &fold)) {
        uint32_t place = tt_schedule_place(&fold, list->rank);

        halve(list, &fold);
        for (uint32_t distance = fold.power / 2; distance > 0; distance /= 2) {
            uint32_t partner = tt_schedule_rank(&fold, place ^ distance), length = fold.power / distance / 2;

            exchange_with(list, TT_SCHEDULE_COPY, partner, part_first(fold.power, place, distance),
                          part_first(fold.power, place ^ distance, distance), length);
        }
    }
    fold_out(list, &fold);
}

/* The parts go to the root's place along the same edges: whoever differs from it in the bit of a distance sends. */
static void gather_parts(struct tt_schedule_list *list, const struct tt_schedule_fold *fold)
{
    uint32_t place = tt_schedule_place(fold, list->rank);
    uint32_t root = tt_schedule_place(fold, list->schedule->root);

    for (uint32_t distance = fold->power / 2; distance > 0; distance /= 2) {
        uint32_t partner = tt_schedule_rank(fold, place ^ distance), length = fold->power / distance / 2;

        if (((place ^ root) & distance) != 0) {
            tt_schedule_add(list, TT_SCHEDULE_SEND, partner, part_first(fold->power, place, distance), length, false);
            return;
        }
        tt_schedule_add(list, TT_SCHEDULE_COPY, partner, part_first(fold->power, place ^ distance, distance), length,
                        false);
    }
}

void tt_schedule_reduce_halving(struct tt_schedule_list *list)
{
    struct tt_schedule_fold fold = tt_schedule_fold(list->schedule->size);
    uint32_t root = list->schedule->root, all = list->blocks->block_count;
    bool root_is_folded = tt_schedule_is_folded(&fold, root);

    if (!fold_in(list, &fold)) {
        halve(list, &fold);
        gather_parts(list, &fold);
    }
    if (root_is_folded && list->rank == root) {
        tt_schedule_add(list, TT_SCHEDULE_COPY, root + 1, 0, all, false);
    } else if (root_is_folded && list->rank == root + 1) {
        tt_schedule_add(list, TT_SCHEDULE_SEND, root, 0, all, false);
    }
}

/* --- Reduce-scatter by recursive halving -------------------------------------------------------------------------- */

/* The first rank that a place takes part for. */
static uint32_t place_first(const struct tt_schedule_fold *fold, uint32_t place)
{
    return place < fold->rest ? 2 * place : place + fold->rest;
}

/* The blocks of the ranks that places take part for: of `half` places either way. */
static void halve_places(struct tt_schedule_list *list, const struct tt_schedule_fold *fold, uint32_t place,
                         uint32_t half)
{
    uint32_t partner = tt_schedule_rank(fold, place ^ half);
    uint32_t own = place & ~(half - 1), other = own ^ half;

    tt_schedule_exchange(list, &(struct tt_schedule_exchange){
                                   .to = partner,
                                   .sent_first = place_first(fold, other),
                                   .sent_count = place_first(fold, other + half) - place_first(fold, other),
                                   .from = partner,
                                   .received_first = place_first(fold, own),
                                   .received_count = place_first(fold, own + half) - place_first(fold, own),
                                   .kind = TT_SCHEDULE_REDUCED,
                                   .before = partner < list->rank,
                               });
}

void tt_schedule_reduce_scatter_halving(struct tt_schedule_list *list)
{
    struct tt_schedule_fold fold = tt_schedule_fold(list->schedule->size);

    if (fold_in(list, &fold)) {
        tt_schedule_add(list, TT_SCHEDULE_COPY, list->rank + 1, list->rank, 1, false);
        return;
    }
    uint32_t place = tt_schedule_place(&fold, list->rank);

    for (uint32_t half = fold.power / 2; half > 0; half /= 2) {
        halve_places(list, &fold, place, half);
    }
    if (list->rank < 2 * fold.rest) {
        tt_schedule_add(list, TT_SCHEDULE_SEND, list->rank - 1, list->rank - 1, 1, false);
    }
}
