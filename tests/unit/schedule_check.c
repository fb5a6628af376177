/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the judge of schedules, see the header.
 *
 * Normal path: ranks go on in a random order, each with its next step if that can be done, until nobody can; then what
 * they have is compared with what the collective means.
 *
 * Failures: the first fault ends it, in words.
 */
#include "schedule_check.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/random.h"

enum { MOST_MESSAGES = SCHEDULE_MOST_RANKS * 64 };

struct message {
    uint32_t from, to;
    const struct tt_schedule_step *step;
    bool accepted, as_next;
    uint64_t heard;
    struct affine data[SCHEDULE_MOST_ELEMENTS];
};

struct rank {
    uint64_t at, received;
    uint32_t open, kept;
    bool has_next; /* the place of the next message is taken */
    uint64_t heard;
    struct affine vector[SCHEDULE_MOST_ELEMENTS];
};

static struct {
    const struct schedule_lists *lists;
    const struct schedule_world *world;
    struct rank ranks[SCHEDULE_MOST_RANKS];
    struct message messages[MOST_MESSAGES];
    uint32_t message_count;
    char fault[160];
} run;

static struct affine initial(uint32_t rank, uint64_t element)
{
    return affine_initial(run.world->commutes, 0, rank, element);
}

void schedule_lists_write(struct schedule_lists *lists, const struct tt_schedule *schedule,
                          const struct tt_blocks *blocks, uint64_t element_count)
{
    lists->schedule = *schedule;
    lists->blocks = *blocks;
    lists->element_count = element_count;
    assert(schedule->size <= SCHEDULE_MOST_RANKS && element_count <= SCHEDULE_MOST_ELEMENTS);
    for (uint32_t rank = 0; rank < schedule->size; rank++) {
        lists->counts[rank] =
            tt_schedule_write(schedule, &lists->blocks, rank, lists->steps[rank], SCHEDULE_MOST_STEPS);
        assert(lists->counts[rank] <= SCHEDULE_MOST_STEPS);
    }
}

static struct tt_block_range range_of(const struct tt_schedule_step *step)
{
    if (step->block_count == 0) {
        return (struct tt_block_range){0, 0};
    }
    return tt_blocks_run(&run.lists->blocks, step->first_block, step->block_count);
}

static bool is_write(const struct tt_schedule_step *step)
{
    return step->kind == TT_SCHEDULE_COPY || step->kind == TT_SCHEDULE_REDUCED;
}

/* --- One message -------------------------------------------------------------------------------------------------- */

static void accept_what_may_be(void)
{
    for (uint32_t i = 0; i < run.message_count; i++) {
        struct message *message = &run.messages[i];
        struct rank *to = &run.ranks[message->to], *from = &run.ranks[message->from];

        if (message->step == NULL || message->accepted) {
            continue;
        }
        if (message->step->position == to->received && !to->has_next) {
            message->as_next = to->has_next = true;
        } else if (to->kept < run.world->room) {
            message->as_next = false;
            to->kept++;
        } else {
            continue;
        }
        struct tt_block_range range = range_of(message->step);

        message->accepted = true;
        message->heard = from->heard;
        memcpy(message->data, from->vector + range.first, range.count * sizeof message->data[0]);
        from->open--;
    }
}

static struct message *find_message(uint32_t to, uint64_t position)
{
    for (uint32_t i = 0; i < run.message_count; i++) {
        struct message *message = &run.messages[i];

        if (message->step != NULL && message->accepted && message->to == to && message->step->position == position) {
            return message;
        }
    }
    return NULL;
}

static void send_step(uint32_t rank, const struct tt_schedule_step *step)
{
    uint32_t place = 0;

    while (place < run.message_count && run.messages[place].step != NULL) {
        place++;
    }
    assert(place < MOST_MESSAGES);
    run.message_count += place == run.message_count;
    run.messages[place] = (struct message){.from = rank, .to = step->peer, .step = step};
    run.ranks[rank].open++;
}

static void apply(struct rank *r, const struct tt_schedule_step *step, const struct message *message)
{
    struct tt_block_range range = range_of(step);

    for (uint64_t i = 0; i < range.count; i++) {
        struct affine *own = &r->vector[range.first + i];

        if (step->kind == TT_SCHEDULE_COPY) {
            *own = message->data[i];
        } else if (step->kind == TT_SCHEDULE_REDUCED) {
            *own = step->before ? affine_compose(message->data[i], *own) : affine_compose(*own, message->data[i]);
        }
    }
    r->heard |= message->heard;
}

static void receive_step(uint32_t rank, const struct tt_schedule_step *step)
{
    struct rank *r = &run.ranks[rank];
    struct message *message = find_message(rank, r->received);
    struct tt_block_range sent = range_of(message->step), wanted = range_of(step);

    if (message->from != step->peer || sent.first != wanted.first || sent.count != wanted.count) {
        snprintf(run.fault, sizeof run.fault, "rank %u gets message %llu from %u instead of %u, or other blocks", rank,
                 (unsigned long long)r->received, message->from, step->peer);
    } else if (message->step->ends != (r->at + 1 == run.lists->counts[rank])) {
        snprintf(run.fault, sizeof run.fault, "message %llu for rank %u is wrong about the end",
                 (unsigned long long)r->received, rank);
    }
    apply(r, step, message);
    r->received++;
    if (message->as_next) {
        r->has_next = false;
    } else {
        r->kept--;
    }
    message->step = NULL;
}

/* --- What comes of it --------------------------------------------------------------------------------------------- */

static struct affine product(uint64_t element)
{
    struct affine all = initial(0, element);

    for (uint32_t rank = 1; rank < run.lists->schedule.size; rank++) {
        all = affine_compose(all, initial(rank, element));
    }
    return all;
}

/* Which rank has block b at first, or last. */
static bool is_result(uint32_t rank, uint32_t block)
{
    switch (run.lists->schedule.collective) {
    case TT_SCHEDULE_REDUCE:
    case TT_SCHEDULE_GATHER:
        return rank == run.lists->schedule.root;
    case TT_SCHEDULE_REDUCE_SCATTER:
    case TT_SCHEDULE_SCATTER:
        return rank == block;
    default:
        return true;
    }
}

static struct affine result(uint32_t block, uint64_t element)
{
    switch (run.lists->schedule.collective) {
    case TT_SCHEDULE_BROADCAST:
    case TT_SCHEDULE_SCATTER:
        return initial(run.lists->schedule.root, element);
    case TT_SCHEDULE_ALLGATHER:
    case TT_SCHEDULE_GATHER:
        return initial(block, element);
    default:
        return product(element);
    }
}

static void check_results(void)
{
    const struct tt_schedule *schedule = &run.lists->schedule;
    uint64_t all = (UINT64_C(1) << schedule->size) - 1;
    bool is_exact = run.world->commutes || tt_schedule_keeps_order(schedule);

    for (uint32_t rank = 0; rank < schedule->size; rank++) {
        if (schedule->collective == TT_SCHEDULE_BARRIER && run.ranks[rank].heard != all) {
            snprintf(run.fault, sizeof run.fault, "rank %u has not heard of everybody", rank);
        }
        for (uint32_t block = 0; schedule->collective != TT_SCHEDULE_BARRIER && block < run.lists->blocks.block_count;
             block++) {
            struct tt_block_range range = tt_block_at(&run.lists->blocks, block);

            for (uint64_t i = range.first; is_result(rank, block) && i < range.first + range.count; i++) {
                /* Where order is another one it still is one: the same at all ranks. */
                struct affine wanted = is_exact || schedule->collective != TT_SCHEDULE_ALLREDUCE
                                           ? result(block, i)
                                           : run.ranks[0].vector[i];

                if ((is_exact || schedule->collective == TT_SCHEDULE_ALLREDUCE) &&
                    !affine_is(run.ranks[rank].vector[i], wanted)) {
                    snprintf(run.fault, sizeof run.fault, "rank %u: element %llu of block %u is wrong", rank,
                             (unsigned long long)i, block);
                }
            }
        }
    }
}

/* Whether what the step writes has been sent, and nobody has accepted it yet. */
static bool is_being_sent(uint32_t rank, const struct tt_schedule_step *step)
{
    struct tt_block_range written = range_of(step);

    for (uint32_t i = 0; i < run.message_count && is_write(step); i++) {
        const struct message *message = &run.messages[i];

        if (message->step != NULL && !message->accepted && message->from == rank) {
            struct tt_block_range sent = range_of(message->step);

            if (sent.first < written.first + written.count && written.first < sent.first + sent.count) {
                return true;
            }
        }
    }
    return false;
}

static bool can_go_on(uint32_t rank)
{
    const struct rank *r = &run.ranks[rank];
    const struct tt_schedule_step *step = &run.lists->steps[rank][r->at];

    if (r->at == run.lists->counts[rank]) {
        return false;
    }
    return step->kind == TT_SCHEDULE_SEND ? r->open < run.world->window
                                          : find_message(rank, r->received) != NULL && !is_being_sent(rank, step);
}

/* Ranks go on in an order of their own until nobody can. */
static void carry_out(void)
{
    struct tt_random random;
    bool moved = true;

    tt_random_init(&random, run.world->seed);
    while (moved) {
        moved = false;
        accept_what_may_be();
        for (uint32_t rank = 0; rank < run.lists->schedule.size && run.fault[0] == '\0'; rank++) {
            if (!can_go_on(rank)) {
                continue;
            }
            moved = true;
            if (tt_random_below(&random, 3) > 0) {
                const struct tt_schedule_step *step = &run.lists->steps[rank][run.ranks[rank].at];

                (step->kind == TT_SCHEDULE_SEND ? send_step : receive_step)(rank, step);
                run.ranks[rank].at++;
                accept_what_may_be();
            }
        }
    }
}

const char *schedule_check(const struct schedule_lists *lists, const struct schedule_world *world)
{
    memset(&run, 0, sizeof run);
    run.lists = lists;
    run.world = world;
    for (uint32_t rank = 0; rank < lists->schedule.size; rank++) {
        run.ranks[rank].heard = UINT64_C(1) << rank;
        for (uint64_t i = 0; i < lists->element_count; i++) {
            run.ranks[rank].vector[i] = initial(rank, i);
        }
    }
    carry_out();
    for (uint32_t rank = 0; rank < lists->schedule.size && run.fault[0] == '\0'; rank++) {
        if (run.ranks[rank].at < lists->counts[rank] || run.ranks[rank].open > 0) {
            snprintf(run.fault, sizeof run.fault, "rank %u is stuck at step %llu of %llu", rank,
                     (unsigned long long)run.ranks[rank].at, (unsigned long long)lists->counts[rank]);
        }
    }
    for (uint32_t i = 0; i < run.message_count && run.fault[0] == '\0'; i++) {
        if (run.messages[i].step != NULL) {
            snprintf(run.fault, sizeof run.fault, "rank %u reads no message %llu", run.messages[i].to,
                     (unsigned long long)run.messages[i].step->position);
        }
    }
    if (run.fault[0] == '\0') {
        check_results();
    }
    return run.fault[0] == '\0' ? NULL : run.fault;
}
