/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: an RDMC plan for people and for programs.
 *
 * Normal path: the drawing has a line for each member and a column for each step, with what the member receives then;
 * it looks at each of the few steps. The table and JSON follow the order of transfers.
 *
 * Failures: none here; what could not be written ends the loops, and the command's end reports it.
 */
#include "cli/plan_rdmc_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cli/json.h"
#include "cli/table.h"

enum { DRAWN_MEMBERS = 16, DRAWN_COLUMNS = 110, LABEL_COLUMNS = 8 };

static uint64_t transfer_count(const struct tt_rdmc *plan)
{
    return plan->block_count * (plan->member_count - 1);
}

/* --- Drawing ------------------------------------------------------------------------------------------------------ */

static void format_receive(const struct tt_rdmc *plan, uint32_t member, uint64_t step, char *cell)
{
    struct tt_rdmc_transfer transfer;
    if (tt_rdmc_receive(plan, member, step, &transfer)) {
        snprintf(cell, TT_CELL_BYTES, "%" PRIu64 "<%" PRIu32, transfer.block, transfer.peer);
    } else {
        snprintf(cell, TT_CELL_BYTES, ".");
    }
}

/* Columns of text that a step needs at most. */
static int cell_width(const struct tt_rdmc *plan)
{
    char cell[TT_CELL_BYTES];
    int block = snprintf(cell, sizeof(cell), "%" PRIu64, plan->block_count - 1);
    int member = snprintf(cell, sizeof(cell), "%" PRIu32, plan->member_count - 1);
    int step = snprintf(cell, sizeof(cell), "%" PRIu64, plan->step_count);
    return block + 1 + member > step ? block + 1 + member : step;
}

static bool has_room(const struct tt_rdmc *plan, int width)
{
    uint64_t columns = DRAWN_COLUMNS - LABEL_COLUMNS;
    return plan->member_count > 1 && plan->member_count <= DRAWN_MEMBERS &&
           plan->step_count <= columns / ((uint64_t)width + 2);
}

static bool begins_rack(const struct tt_rdmc *plan, uint32_t member)
{
    for (uint32_t rack = 0; rack < plan->rack_count; rack++) {
        if (plan->rack_firsts[rack] == member) {
            return true;
        }
    }
    return false;
}

static void draw(const struct tt_rdmc *plan)
{
    int width = cell_width(plan);
    if (!has_room(plan, width)) {
        return;
    }
    printf("#\n# What each member receives at each step, as block<sender:\n#\n#%*s", LABEL_COLUMNS - 1, "step");
    for (uint64_t step = 0; step < plan->step_count; step++) {
        printf("  %*" PRIu64, width, step);
    }
    putchar('\n');
    for (uint32_t member = 0; member < plan->member_count; member++) {
        if (member > 0 && begins_rack(plan, member)) {
            puts("#");
        }
        printf("#%*" PRIu32, LABEL_COLUMNS - 1, member);
        for (uint64_t step = 0; step < plan->step_count; step++) {
            char cell[TT_CELL_BYTES];
            format_receive(plan, member, step, cell);
            printf("  %*s", width, cell);
        }
        putchar('\n');
    }
    puts("#");
}

/* --- All transfers ------------------------------------------------------------------------------------------------ */

static void widen(struct tt_column *column, uint64_t largest)
{
    char cell[TT_CELL_BYTES];
    int width = (int)strlen(tt_cell_count(cell, largest));
    column->width = width > column->width ? width : column->width;
}

void tt_plan_rdmc_print(const struct tt_rdmc *plan, struct tt_plan_order *order)
{
    struct tt_column columns[] = {
        {"step", NULL, 4, false}, {"from", NULL, 4, false}, {"to", NULL, 4, false}, {"block", NULL, 5, false}};
    enum { COLUMNS = sizeof(columns) / sizeof(columns[0]) };
    const uint64_t largest[COLUMNS] = {plan->step_count, plan->member_count, plan->member_count, plan->block_count};
    for (size_t i = 0; i < COLUMNS; i++) {
        widen(&columns[i], largest[i] - (largest[i] > 0));
    }
    printf("# %s: members %" PRIu32 ", blocks %" PRIu64 ", ", tt_rdmc_word(plan->algorithm), plan->member_count,
           plan->block_count);
    if (plan->rack_count > 0) {
        printf("racks %" PRIu32 ", ", plan->rack_count);
    }
    printf("steps %" PRIu64 ", transfers %" PRIu64 "\n", plan->step_count, transfer_count(plan));
    draw(plan);
    tt_table_heading(stdout, columns, COLUMNS);

    struct tt_plan_move move;
    while (ferror(stdout) == 0 && tt_plan_order_next(order, &move)) {
        char text[COLUMNS][TT_CELL_BYTES];
        const char *cells[COLUMNS] = {tt_cell_count(text[0], move.step), tt_cell_count(text[1], move.from),
                                      tt_cell_count(text[2], move.to), tt_cell_count(text[3], move.block)};
        tt_table_row(stdout, columns, COLUMNS, cells);
    }
}

static void print_racks_json(const struct tt_rdmc *plan, struct tt_json *json)
{
    tt_json_begin_array(json, "racks");
    for (uint32_t rack = 0; rack < plan->rack_count; rack++) {
        uint32_t end = rack + 1 < plan->rack_count ? plan->rack_firsts[rack + 1] : plan->member_count;
        tt_json_count(json, NULL, end - plan->rack_firsts[rack]);
    }
    tt_json_end_array(json);
}

void tt_plan_rdmc_print_json(const struct tt_rdmc *plan, struct tt_plan_order *order)
{
    struct tt_json json;
    tt_json_init(&json, stdout);
    tt_json_begin_object(&json, NULL);
    tt_json_text(&json, "algorithm", tt_rdmc_word(plan->algorithm));
    tt_json_count(&json, "members", plan->member_count);
    tt_json_count(&json, "blocks", plan->block_count);
    print_racks_json(plan, &json);
    tt_json_count(&json, "steps", plan->step_count);
    tt_json_count(&json, "transfer_count", transfer_count(plan));
    tt_json_begin_array(&json, "transfers");
    struct tt_plan_move move;
    while (ferror(stdout) == 0 && tt_plan_order_next(order, &move)) {
        tt_json_begin_object(&json, NULL);
        tt_json_count(&json, "step", move.step);
        tt_json_count(&json, "from", move.from);
        tt_json_count(&json, "to", move.to);
        tt_json_count(&json, "block", move.block);
        tt_json_end_object(&json);
    }
    tt_json_end_array(&json);
    tt_json_end_object(&json);
}
