/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A story: a world whose log is kept in memory, so that a scenario can ask when something happened. With the world's
 * simple numbers (a byte takes 1 ns on each of two links, each link's latency is 1 us) times are worked out by hand.
 */
#ifndef TT_TESTS_SUPPORT_STORY_H
#define TT_TESTS_SUPPORT_STORY_H

#include "support/world.h"

/* From the moment when a packet of this length begins to leave until it has arrived, if nothing is in its way. */
#define STORY_WAY_NS(bytes) (2 * (uint64_t)(bytes) + 2000)

/* Lengths of frames on the wire (wire/frame.h), the windows with up to 64 chunks. */
enum {
    STORY_CHUNK = 1000,
    STORY_RELEASE = 17,
    STORY_BARRIER = 61,
    STORY_GATHER = 71, /* and the blocks */
    STORY_ACTIVATE = 24,
    STORY_DONE = 28,
    STORY_FINAL = 24,
    STORY_FETCH = 41,
    STORY_AVAILABLE = 67,
    STORY_FAIL = 36,
    STORY_ASK = 56,
    STORY_ACK = 49,
    STORY_REMIND = 48,
    STORY_KEPT = 24
};

/* From the moment when all ranks have posted until the root knows: in a small group all frames reach its downlink at
 * once. */
#define STORY_GATHERED_NS(ranks) (STORY_WAY_NS(STORY_GATHER) + ((ranks)-2) * STORY_GATHER)

struct tt_story {
    struct tt_world_options options; /* may be changed between prepare and begin */
    struct tt_world *world;
    struct tt_world_group *group; /* of all nodes; NULL unless begin made it */
    uint64_t start_ns;            /* when the group stood, and nothing of its creation was under way any more */
    FILE *file;
    char *log;
    size_t log_bytes;
};

void tt_story_prepare(struct tt_story *story, uint32_t nodes);

/* Makes the world, and a group of all nodes unless `ranks` is 0 (else of the first `ranks` nodes). Quiet at the end:
 * the next post is at a multiple of 1 ms. */
void tt_story_begin(struct tt_story *story, uint32_t ranks);

/* Fails the test if the world found a problem. */
void tt_story_end(struct tt_story *story);

/* A rank that fails lets go of its buffer, and who still reads there gets an error; the simulator takes note of that,
 * which is no problem. Fails the test if there is another one. */
void tt_story_forgive_reads(struct tt_story *story);

/* Prepares and begins, with the options as they are. */
void tt_story_start(struct tt_story *story, uint32_t ranks);

/* An Allgather of all ranks, whose blocks rank 0 gathers; nobody has posted it. */
struct tt_world_job *tt_story_gather(const struct tt_story *story, uint64_t bytes);

/* All ranks post now, but for one (TT_RANK_NONE: none). */
void tt_story_post_but(struct tt_world_job *job, uint32_t late);

/* All ranks post it now, and it ends well: returns how long it takes until the last one's end. Then nothing of it is on
 * its way any more, as answers go within 5 ms. */
uint64_t tt_story_time_of(struct tt_story *story, struct tt_world_job *job);

/* From now on no chunk reaches the node, or does again. What is point to point comes as ever, to the nanosecond or so.
 */
void tt_story_set_deaf(const struct tt_story *story, uint32_t node, bool deaf);

/* When a packet of this kind ("chunk", "frame", "get-data", ...) from a node last or first arrived at another since the
 * start (TT_RANK_NONE: any node); frames also by their length (0: any). Fails the test if it never did. */
uint64_t tt_story_first_arrival(struct tt_story *story, const char *kind, uint32_t from, uint32_t to, uint32_t bytes);
uint64_t tt_story_last_arrival(struct tt_story *story, const char *kind, uint32_t from, uint32_t to, uint32_t bytes);
uint32_t tt_story_arrivals(struct tt_story *story, const char *kind, uint32_t from, uint32_t to, uint32_t bytes);

/* The immediate of a chunk of the group's n-th collective. */
uint32_t tt_story_imm(uint64_t sequence, uint32_t psn);
uint32_t tt_story_release_imm(uint64_t sequence);
uint32_t tt_story_eager_imm(uint64_t sequence, uint32_t psn);

/* How long after the start a rank's part ended. */
uint64_t tt_story_end_of(const struct tt_story *story, const struct tt_world_job *job, uint32_t rank);

/* Every part ended with this status, and about this rank unless it is TT_RANK_NONE; ranks in the mask `except` are not
 * looked at. */
void tt_story_all_ended(const struct tt_world_job *job, tutti_status status, uint32_t about, uint64_t except);

#endif
