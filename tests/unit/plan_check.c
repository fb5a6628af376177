/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the judge of schedules, see the header.
 *
 * Normal path: in each step first all sends are looked at, against what was held before the step, and noted at their
 * targets; then all receives are compared with those notes and carried out.
 *
 * Failures: the first fault ends it, in words.
 */
#include "plan_check.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct note {
    bool is_set;
    uint32_t from;
    uint64_t first_block, block_count;
};

struct check {
    const struct plan_view *view;
    struct plan_findings *findings;
    uint8_t *held;          /* rank by rank */
    uint64_t *lowest;       /* block that a rank misses */
    struct note *announced; /* to each rank, in this step */
    uint64_t moved_before;  /* this step */
};

#define FAULT(check, ...)                                                                                              \
    (snprintf((check)->findings->fault, sizeof((check)->findings->fault), __VA_ARGS__) >= 0 && false)

static uint8_t *held_at(const struct check *check, uint32_t rank, uint64_t block)
{
    return &check->held[rank * check->view->block_count + block];
}

static bool check_run(struct check *check, uint32_t rank, uint64_t step, const struct plan_transfer *transfer)
{
    const struct plan_view *view = check->view;

    if (transfer->peer >= view->rank_count || transfer->peer == rank) {
        return FAULT(check, "step %" PRIu64 ": rank %u with rank %u", step, rank, transfer->peer);
    }
    if (transfer->first_block >= view->block_count || transfer->block_count == 0 ||
        transfer->block_count > view->block_count) {
        return FAULT(check, "step %" PRIu64 ": rank %u moves %" PRIu64 " blocks from %" PRIu64, step, rank,
                     transfer->block_count, transfer->first_block);
    }
    return true;
}

static bool note_send(struct check *check, uint32_t rank, uint64_t step, const struct plan_transfer *transfer)
{
    if (!check_run(check, rank, step, transfer)) {
        return false;
    }
    for (uint64_t i = 0; i < transfer->block_count; i++) {
        uint64_t block = (transfer->first_block + i) % check->view->block_count;

        if (!*held_at(check, rank, block)) {
            return FAULT(check, "step %" PRIu64 ": rank %u sends block %" PRIu64 " without having it", step, rank,
                         block);
        }
    }
    struct note *note = &check->announced[transfer->peer];

    if (note->is_set) {
        return FAULT(check, "step %" PRIu64 ": ranks %u and %u both send to %u", step, note->from, rank,
                     transfer->peer);
    }
    *note = (struct note){true, rank, transfer->first_block, transfer->block_count};
    return true;
}

static bool check_sends(struct check *check, uint64_t step)
{
    const struct plan_view *view = check->view;
    struct plan_transfer transfer;

    for (uint32_t rank = 0; rank < view->rank_count; rank++) {
        uint32_t sends = 0;

        for (uint32_t lane = 0; lane < view->lane_count; lane++) {
            if (view->send(view->context, rank, lane, step, &transfer)) {
                sends++;
                if (!note_send(check, rank, step, &transfer)) {
                    return false;
                }
            }
        }
        if (sends > 0 && sends > view->limits(view->context, rank).sends) {
            return FAULT(check, "step %" PRIu64 ": rank %u sends %u times", step, rank, sends);
        }
    }
    return true;
}

static bool take(struct check *check, uint32_t rank, uint64_t step, uint64_t block)
{
    const struct plan_view *view = check->view;
    uint64_t *lowest = &check->lowest[rank];

    if (*held_at(check, rank, block)) {
        return FAULT(check, "step %" PRIu64 ": rank %u gets block %" PRIu64 " again", step, rank, block);
    }
    if (block > *lowest && block - *lowest > view->limits(view->context, rank).ahead) {
        return FAULT(check, "step %" PRIu64 ": rank %u gets block %" PRIu64 " while it lacks %" PRIu64, step, rank,
                     block, *lowest);
    }
    *held_at(check, rank, block) = 1;
    while (*lowest < view->block_count && *held_at(check, rank, *lowest)) {
        ++*lowest;
    }
    check->findings->moved++;
    return true;
}

static bool check_receives(struct check *check, uint64_t step)
{
    const struct plan_view *view = check->view;
    struct plan_transfer transfer;

    for (uint32_t rank = 0; rank < view->rank_count; rank++) {
        struct note note = check->announced[rank];
        bool receives = view->receive(view->context, rank, step, &transfer);

        check->announced[rank].is_set = false;
        if (receives != note.is_set) {
            return FAULT(check, "step %" PRIu64 ": rank %u %s", step, rank,
                         receives ? "waits for what nobody sends" : "is sent what it does not expect");
        }
        if (!receives) {
            continue;
        }
        if (transfer.peer != note.from || transfer.first_block != note.first_block ||
            transfer.block_count != note.block_count) {
            return FAULT(check, "step %" PRIu64 ": rank %u expects block %" PRIu64 " of %u, gets %" PRIu64 " of %u",
                         step, rank, transfer.first_block, transfer.peer, note.first_block, note.from);
        }
        for (uint64_t i = 0; i < note.block_count; i++) {
            if (!take(check, rank, step, (note.first_block + i) % view->block_count)) {
                return false;
            }
        }
    }
    return true;
}

static bool check_end(struct check *check)
{
    const struct plan_view *view = check->view;
    const uint64_t behind[] = {view->step_count, view->step_count + 1, view->step_count + 130, UINT64_MAX};
    struct plan_transfer transfer;

    if (view->step_count > 0 && check->findings->moved == check->moved_before) {
        return FAULT(check, "nothing moves in the last of %" PRIu64 " steps", view->step_count);
    }
    for (uint32_t rank = 0; rank < view->rank_count; rank++) {
        if (check->lowest[rank] < view->block_count) {
            return FAULT(check, "rank %u never gets block %" PRIu64, rank, check->lowest[rank]);
        }
        for (size_t i = 0; i < sizeof behind / sizeof behind[0]; i++) {
            bool moves = view->receive(view->context, rank, behind[i], &transfer);

            for (uint32_t lane = 0; lane < view->lane_count; lane++) {
                moves = moves || view->send(view->context, rank, lane, behind[i], &transfer);
            }
            if (moves) {
                return FAULT(check, "rank %u has step %" PRIu64 " of %" PRIu64, rank, behind[i], view->step_count);
            }
        }
    }
    return true;
}

static void begin(struct check *check)
{
    const struct plan_view *view = check->view;

    for (uint32_t rank = 0; rank < view->rank_count; rank++) {
        for (uint64_t block = 0; block < view->block_count; block++) {
            *held_at(check, rank, block) = view->holds(view->context, rank, block);
        }
        while (check->lowest[rank] < view->block_count && *held_at(check, rank, check->lowest[rank])) {
            check->lowest[rank]++;
        }
    }
}

static bool carry_out(struct check *check)
{
    begin(check);
    for (uint64_t step = 0; step < check->view->step_count; step++) {
        check->moved_before = check->findings->moved;
        if (!check_sends(check, step) || !check_receives(check, step)) {
            return false;
        }
    }
    return check_end(check);
}

bool plan_check(const struct plan_view *view, struct plan_findings *findings)
{
    struct check check = {.view = view, .findings = findings};

    memset(findings, 0, sizeof *findings);
    check.held = calloc(view->rank_count, view->block_count);
    check.lowest = calloc(view->rank_count, sizeof *check.lowest);
    check.announced = calloc(view->rank_count, sizeof *check.announced);
    assert_non_null(check.held);
    assert_non_null(check.lowest);
    assert_non_null(check.announced);
    bool holds = carry_out(&check);

    free(check.held);
    free(check.lowest);
    free(check.announced);
    return holds;
}

uint64_t plan_must_hold(const struct plan_view *view, const char *name)
{
    struct plan_findings findings;

    if (!plan_check(view, &findings)) {
        fail_msg("%s, %u ranks, %" PRIu64 " blocks: %s", name, view->rank_count, view->block_count, findings.fault);
    }
    return findings.moved;
}
