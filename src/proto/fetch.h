/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The fetch ring (Khalilov et al., section III-C): a rank with holes asks its left neighbour for them, is told which of
 * them may be read, and reads those one-sidedly. A neighbour that lacks some itself answers for them as soon as it has
 * them, and it asks *its* left neighbour; in the worst case the data comes all the way from the root, which is also how
 * the point-to-point algorithms (ring and chain) move everything.
 *
 * Holes are asked for in windows, lowest first on every rank. That order is what keeps the ring free of deadlock: of
 * all windows that anybody misses, the lowest one is under request at every rank that misses it, up to a rank that does
 * not.
 */
#ifndef TT_PROTO_FETCH_H
#define TT_PROTO_FETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/action.h"
#include "proto/receive.h"
#include "wire/frame.h"

enum {
    TT_FETCH_SLOTS = 8,             /* windows under request at once */
    TT_FETCH_RUNS = 32,             /* gets under way at once */
    TT_FETCH_RUN_BYTES = 256 * 1024 /* a get reads at most this much, but at least one chunk */
};

/* A window that this rank asked for. */
struct tt_fetch_slot {
    bool active;
    uint32_t gets;                             /* under way */
    struct tt_window missing;                  /* still to arrive */
    uint64_t told[TT_FETCH_WINDOW_WORDS];      /* have been said to be available */
    uint64_t available[TT_FETCH_WINDOW_WORDS]; /* of these, may be read, and no get is under way */
};

/* A get: consecutive chunks of one block. */
struct tt_fetch_run {
    bool active;
    uint8_t slot;
    uint32_t first, count;
};

struct tt_fetch {
    struct tt_stream *streams;
    uint32_t subgroups;
    uint32_t own_root_index; /* whose chunks are served only once own_ready; TT_RANK_NONE: nobody's */
    bool own_ready;
    bool used; /* somebody has asked for something: there is more to be forgotten than own_ready and the scan */

    /* asking */
    uint32_t scan_subgroup, scan_psn; /* nothing is missing, or it is under request, before here */
    uint32_t active_slots, active_runs;
    uint64_t fetched_chunks;
    uint64_t remote_address;
    uint32_t key_bytes;
    uint8_t key[TT_FRAME_MAX_KEY_BYTES];
    struct tt_fetch_slot slots[TT_FETCH_SLOTS];
    struct tt_fetch_run runs[TT_FETCH_RUNS];

    /* answering */
    uint32_t wanted_count;
    uint64_t served_bytes; /* told to be available: the right neighbour reads them */
    struct {
        bool active;
        struct tt_window window; /* bits: wanted and not yet answered */
    } wanted[TT_FETCH_SLOTS];
};

void tt_fetch_init(struct tt_fetch *fetch, struct tt_stream *streams, uint32_t subgroups, uint32_t own_root_index);

/* Forgets the last run of a persistent request. */
void tt_fetch_reset(struct tt_fetch *fetch);

/* Asks for further windows and starts gets, as far as slots and runs allow. Only once the streams are frozen. `frame`
 * actions go to rank `left` with this template's group, source and sequence. Returns whether nothing is missing. */
bool tt_fetch_pump(struct tt_fetch *fetch, const struct tt_frame *template, uint32_t left,
                   struct tt_collective *collective, struct tt_actions *actions);

/* An AVAILABLE frame from the left neighbour. False: it says what was not asked for, or what it has said before. */
bool tt_fetch_available(struct tt_fetch *fetch, const struct tt_frame *frame);

/* A get has ended; on success its chunks are marked. False: no such run. */
bool tt_fetch_got(struct tt_fetch *fetch, uint32_t run, tutti_status status);

/* A FETCH frame from the right neighbour. False: it asks for what does not exist, or in a slot that is taken. */
bool tt_fetch_wanted(struct tt_fetch *fetch, const struct tt_frame *frame);

/* Whether tt_fetch_serve would answer anything. */
bool tt_fetch_can_serve(const struct tt_fetch *fetch);

/* Answers whatever of the right neighbour's wants has come in. */
void tt_fetch_serve(struct tt_fetch *fetch, const struct tt_frame *template, uint32_t right,
                    struct tt_collective *collective, struct tt_actions *actions);

/* Asserts what always holds. */
void tt_fetch_check(const struct tt_fetch *fetch);

#endif
