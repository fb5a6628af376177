/* SPDX-License-Identifier: BSD-3-Clause */
/* What surrounds the member machine in its fuzz target: requests, and what a hostile network makes of them. */
#ifndef TT_FUZZ_MEMBER_SURROUNDINGS_H
#define TT_FUZZ_MEMBER_SURROUNDINGS_H

#include "proto/member.h"
#include "script.h"
#include "support/member_driver.h"

enum { REQUESTS = 6, SUBGROUPS = 3, CHAINS = 4, PSNS = 2048, RANKS = 20, MOST_ACTIONS = 1024 };
enum { BUFFER = TT_EAGER_MAX_BYTES, MARGIN = 64, SLAB = 4096 };
enum { GATHERED = 6 * TT_EAGER_MAX_BYTES }; /* of one of RANKS and its children, where vectors fold */
#define GROUP UINT64_C(0x1122334455667788)

/* One collective, posted as often as the script likes, and what it may ask for. */
struct request {
    struct member_run run; /* first */
    struct tt_collective collective;
    struct tt_stream streams[SUBGROUPS];
    _Atomic uint64_t bitmaps[SUBGROUPS][PSNS / 64];
    uint32_t positions[CHAINS * SUBGROUPS];
    uint8_t done[CHAINS];
    uint8_t *buffer;       /* to receive into, between margins, of those whose bytes the machines move; NULL */
    bool asked_valid;      /* in this run: */
    struct tt_frame asked; /* the last FETCH */
};

struct world {
    uint32_t rank, size, in_flight;
    uint64_t now_ns;
    struct tt_member member;
    struct tt_link link;
    struct tt_member_slot slots[TT_EAGER_WINDOW + 8];
    struct tt_eager_entry copies[TT_EAGER_WINDOW + 4];
    uint8_t present[(RANKS + 7) / 8];
    _Atomic uint64_t heard[2];
    struct tt_early_pool pool;
    struct request requests[REQUESTS];
    struct member_driver driver;
    struct tt_actions actions;
    struct tt_action list[MOST_ACTIONS]; /* from here on nothing needs clearing */
    uint8_t memory[REQUESTS][MARGIN + BUFFER + MARGIN];
    uint8_t gathered[REQUESTS][MARGIN + GATHERED + MARGIN];
    _Alignas(8) uint8_t slabs[TT_EARLY_SLABS * SLAB];
    _Alignas(8) uint8_t own[SLAB];
};

/* A group of some size, and requests that have not been posted. */
void world_init(struct world *world, struct script *script);

/* Steps, carries out the actions, and goes on with TICK while there is more. */
void world_step(struct world *world, struct tt_member_event event);

/* Hears a frame. */
void world_hear(struct world *world, const struct tt_frame *frame);

/* Posts some request that is not in progress. */
void world_post(struct world *world, struct script *script);

/* The kernel places some chunks of a stream that is published. */
void world_chunks(struct world *world, struct script *script);

/* The release of some collective comes. */
void world_release(struct world *world, struct script *script);

/* Gives answer number `pick` modulo how many are owed. */
void world_answer(struct world *world, uint32_t pick);

/* Ends the group and checks that everything ends with it. */
void world_end(struct world *world);

/* Says goodbye, which is legal once nothing is in progress, and gives back what was taken. */
void world_leave(struct world *world);

/* --- Gathering (member_gather.c) ---------------------------------------------------------------------------------- */

/* Terms of something gathered that combines, by what has been drawn; false: it is another kind's turn. */
bool world_draw_combined(const struct world *world, uint32_t kind_pick, uint32_t bytes_pick,
                         struct tt_collective_terms *terms);

/* Where the vectors of a request that combines come together, between margins. */
uint8_t *world_gathered(struct world *world, const struct request *request, const struct tt_collective_config *config);

/* Nothing has come yet. */
void world_clear_gathered(struct world *world, const struct request *request);

/* The own block, or vector. */
void world_put_own(const struct world *world, const struct request *request);

/* Checks that all vectors are there, each from whom it has to come, and makes the result. */
void world_combine(const struct world *world, struct request *request);

/* Nothing is written next to them. */
void world_check_gathered(const struct world *world, const struct request *request);

/* What a rank sends of a block, or a vector; as much as a frame holds. */
const uint8_t *world_piece(uint32_t source);

/* What children of a request that is posted still have to report, right or wrong. */
void world_hear_reports(struct world *world, struct script *script, const struct request *request);

#endif
