/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the drawing of a triggered collective's steps.
 *
 * Normal path: the ranks' lists of messages are carried out step by step; a message that is sent in a step can be
 * received in it. Each rank's part in the step becomes a cell: >3 is a message to rank 3, <3 data from it, +3 an
 * operand from it that is reduced, *3 a signal.
 *
 * Failures: what has no room is not drawn.
 */
#include "cli/plan_trigger_draw.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/table.h"

enum { RANKS = TT_PLAN_TRIGGER_DRAWN_RANKS, MOST_STEPS = 64, DRAWN_COLUMNS = 110, LABEL_COLUMNS = 8 };

struct rank {
    struct tt_schedule_step *steps;
    uint64_t count, at;
    uint64_t received;
    bool has_sent, has_received; /* in this step */
};

struct drawing {
    uint32_t size, step_count;
    struct rank ranks[RANKS];
    char cells[RANKS][MOST_STEPS][TT_CELL_BYTES];
};

/* Whether the message that a rank receives next has been sent. */
static bool is_sent(const struct drawing *drawing, uint32_t rank)
{
    const struct rank *own = &drawing->ranks[rank], *peer = &drawing->ranks[own->steps[own->at].peer];

    for (uint64_t i = 0; i < peer->at; i++) {
        const struct tt_schedule_step *step = &peer->steps[i];

        if (step->kind == TT_SCHEDULE_SEND && step->peer == rank && step->position == own->received) {
            return true;
        }
    }
    return false;
}

static void note(struct drawing *drawing, uint32_t rank, char mark, uint32_t peer)
{
    char *cell = drawing->cells[rank][drawing->step_count];
    size_t length = strlen(cell);

    snprintf(cell + length, TT_CELL_BYTES - length, "%s%c%" PRIu32, length > 0 ? " " : "", mark, peer);
}

/* What a rank can still do in this step. */
static bool go_on(struct drawing *drawing, uint32_t rank)
{
    static const char marks[] = {
        [TT_SCHEDULE_SEND] = '>', [TT_SCHEDULE_SIGNAL] = '*', [TT_SCHEDULE_COPY] = '<', [TT_SCHEDULE_REDUCED] = '+'};
    struct rank *own = &drawing->ranks[rank];

    if (own->at == own->count || own->has_received) {
        return false;
    }
    const struct tt_schedule_step *step = &own->steps[own->at];

    if (step->kind == TT_SCHEDULE_SEND ? own->has_sent : !is_sent(drawing, rank)) {
        return false;
    }
    note(drawing, rank, marks[step->kind], step->peer);
    own->has_sent |= step->kind == TT_SCHEDULE_SEND;
    own->has_received |= step->kind != TT_SCHEDULE_SEND;
    own->received += step->kind != TT_SCHEDULE_SEND;
    own->at++;
    return true;
}

/* True: all have done all. */
static bool carry_out(struct drawing *drawing)
{
    bool is_over = false;

    while (!is_over && drawing->step_count < MOST_STEPS) {
        bool moves = true, moved = false;

        for (uint32_t rank = 0; rank < drawing->size; rank++) {
            drawing->ranks[rank].has_sent = drawing->ranks[rank].has_received = false;
        }
        while (moves) {
            moves = false;
            for (uint32_t rank = 0; rank < drawing->size; rank++) {
                moves |= go_on(drawing, rank);
            }
            moved |= moves;
        }
        is_over = !moved;
        drawing->step_count += moved;
    }
    return is_over;
}

static int widest_of(const struct drawing *drawing)
{
    int width = 2;

    for (uint32_t rank = 0; rank < drawing->size; rank++) {
        for (uint32_t step = 0; step < drawing->step_count; step++) {
            int length = (int)strlen(drawing->cells[rank][step]);

            width = length > width ? length : width;
        }
    }
    return width;
}

static void print(const struct drawing *drawing)
{
    int width = widest_of(drawing);

    if (drawing->step_count > (uint32_t)((DRAWN_COLUMNS - LABEL_COLUMNS) / (width + 2))) {
        return;
    }
    printf("#\n# What each rank sends (>) and receives (< data, + operands, * signals) at each step:\n#\n#%*s",
           LABEL_COLUMNS - 1, "step");
    for (uint32_t step = 0; step < drawing->step_count; step++) {
        printf("  %*" PRIu32, width, step);
    }
    putchar('\n');
    for (uint32_t rank = 0; rank < drawing->size; rank++) {
        printf("#%*" PRIu32, LABEL_COLUMNS - 1, rank);
        for (uint32_t step = 0; step < drawing->step_count; step++) {
            const char *cell = drawing->cells[rank][step];

            printf("  %*s", width, cell[0] == '\0' ? "." : cell);
        }
        putchar('\n');
    }
    puts("#");
}

void tt_plan_trigger_draw(const struct tt_schedule *schedule, const struct tt_blocks *blocks)
{
    if (schedule->size < 2 || schedule->size > RANKS) {
        return;
    }
    struct drawing *drawing = calloc(1, sizeof(*drawing));
    bool has_memory = drawing != NULL;

    for (uint32_t rank = 0; has_memory && rank < schedule->size; rank++) {
        struct rank *own = &drawing->ranks[rank];

        own->count = tt_schedule_write(schedule, blocks, rank, NULL, 0);
        own->steps = calloc(own->count + 1, sizeof(*own->steps));
        has_memory = own->steps != NULL;
        if (has_memory) {
            tt_schedule_write(schedule, blocks, rank, own->steps, own->count);
        }
    }
    if (has_memory) {
        drawing->size = schedule->size;
        if (carry_out(drawing)) {
            print(drawing);
        }
    }
    for (uint32_t rank = 0; drawing != NULL && rank < schedule->size; rank++) {
        free(drawing->ranks[rank].steps);
    }
    free(drawing);
}
