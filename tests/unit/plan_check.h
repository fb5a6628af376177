/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Judges any schedule of block transfers, given as functions, by carrying it out step by step. Knows no algorithm, so a
 * schedule that is wrong on purpose can be handed in as well.
 *
 * What it holds to: a rank sends only blocks that it held before the step, and at most once in each of its lanes; what
 * one sends in a step is exactly what another one receives in it; no rank gets a block that it holds already; at the
 * end all hold all; something moves in the last step and nothing behind it.
 */
#ifndef PLAN_CHECK_H
#define PLAN_CHECK_H

#include <stdbool.h>
#include <stdint.h>

/* A run of blocks, on whose last one follows block 0. */
struct plan_transfer {
    uint32_t peer;
    uint64_t first_block;
    uint64_t block_count;
};

struct plan_limits {
    uint32_t sends; /* a step */
    uint64_t ahead; /* of the lowest block that is missing, when a block arrives */
};

struct plan_view {
    const void *context; /* handed to all of these */
    uint32_t rank_count;
    uint64_t block_count;
    uint32_t lane_count;
    uint64_t step_count;
    bool (*send)(const void *context, uint32_t rank, uint32_t lane, uint64_t step, struct plan_transfer *transfer);
    bool (*receive)(const void *context, uint32_t rank, uint64_t step, struct plan_transfer *transfer);
    bool (*holds)(const void *context, uint32_t rank, uint64_t block); /* at the start */
    struct plan_limits (*limits)(const void *context, uint32_t rank);
};

struct plan_findings {
    char fault[160]; /* the first one */
    uint64_t moved;  /* blocks, until then */
};

/* False: there is a fault. */
bool plan_check(const struct plan_view *view, struct plan_findings *findings);

/* Fails the test, and says what was wrong with which plan, if there is a fault. Returns how many blocks were moved. */
uint64_t plan_must_hold(const struct plan_view *view, const char *name);

#endif
