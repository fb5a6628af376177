/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of `soak` share: one rank's state, and what the ranks draw together. */
#ifndef TT_BENCH_SOAK_H
#define TT_BENCH_SOAK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "cli/bench_pattern.h"
#include "tutti/reduction.h"
#include "tutti/tutti.h"

enum {
    SOAK_SLOTS_LIMIT = 16,
    SOAK_FAMILIES_LIMIT = 16,
    SOAK_SAMPLES_LIMIT = 1024,
    SOAK_BUFFER_BYTES = 2 << 20, /* all blocks of a collective */
    SOAK_MISALIGNMENT_LIMIT = 64,
    SOAK_EXCHANGE_BYTES = 8192, /* of a contribution while a group is created */
    SOAK_WRONG_DESCRIBED = 5,
    SOAK_ALGORITHMS_LIMIT = 12
};

/* Of the last two, the sums of bytes. */
enum soak_kind { SOAK_BROADCAST, SOAK_ALLGATHER, SOAK_ALLREDUCE, SOAK_REDUCE_SCATTER };

enum soak_plant { SOAK_PLANT_NOTHING, SOAK_PLANT_BYTE, SOAK_PLANT_DESCRIPTOR, SOAK_PLANT_MEMORY };

struct soak_options {
    uint64_t seed;
    uint64_t count;   /* collectives */
    uint64_t from;    /* the sample after so many is what later ones are compared with */
    uint64_t every;   /* collectives between samples */
    uint64_t seconds; /* at the first sample after this it is enough; 0: never */
    uint64_t slots;   /* collectives in flight */
    uint64_t groups;  /* beside the one of all ranks that stays */
    bool alone;       /* no other program on this host joins multicast groups */
    bool json;
    enum soak_plant plant;
};

/* One collective, as all ranks draw it. */
struct soak_draw {
    uint32_t slot;
    bool again;      /* post the slot's last request once more, if it has one; the rest is that one's then */
    uint32_t family; /* an index that is to be taken modulo the number of families */
    enum soak_kind kind;
    bool in_place;
    bool by_test;       /* tutti_test a while before tutti_wait */
    uint64_t bytes;     /* of a block, before it is cut to what fits the buffer */
    uint32_t root;      /* modulo the group's size */
    uint32_t algorithm; /* index into the algorithms there are for its like */
    uint32_t misalignment_bytes;
};

/* How a family of groups is to be made; the random numbers of its order follow. */
struct soak_split {
    bool environment; /* all ranks, in their order, as the environment says */
    uint32_t parts;   /* else so many groups, each rank in one of them */
};

/* Pure: the same seed gives the same to every rank. */
void soak_draw_collective(struct tt_random *random, uint32_t slots, struct soak_draw *draw);
void soak_draw_split(struct tt_random *random, uint32_t size, struct soak_split *split);
/* A random order of the numbers below `count`. */
void soak_draw_order(struct tt_random *random, uint32_t count, uint32_t *order);

/* Groups that were created together; this rank is in one of them. */
struct soak_family {
    tutti_group *group; /* NULL: none at present */
    uint32_t rank;
    uint32_t size;
    bool multicast;
};

struct soak_slot {
    uint8_t *send; /* memory of SOAK_BUFFER_BYTES and what surrounds it */
    uint8_t *receive;
    tutti_request *request; /* NULL: none */
    bool in_flight;
    struct soak_draw draw; /* of the request; bytes and root as they are in the group */
    uint32_t family;
    uint64_t round; /* of the pattern in flight */
};

/* What is looked at while nothing is in flight and only the first group is there. */
enum soak_field {
    SOAK_DESCRIPTORS,
    SOAK_MEMBERSHIPS, /* of multicast groups, of this host */
    SOAK_THREADS,
    SOAK_HEAP_BYTES, /* allocated and not freed */
    SOAK_DATA_BYTES,
    SOAK_RESIDENT_BYTES,
    SOAK_FIELD_COUNT
};

/* What a rank says of itself at a sample. */
struct soak_sample {
    uint64_t collectives;
    uint64_t elapsed_ns;
    uint64_t groups_created;
    uint64_t wrong;
    uint64_t reduced;
    uint64_t fields[SOAK_FIELD_COUNT];
#define SOAK_COUNTER(name, help) uint64_t name;
    TUTTI_COUNTERS_TABLE(SOAK_COUNTER)
#undef SOAK_COUNTER
};

struct soak {
    struct soak_options options;
    tutti_context *context;
    uint32_t rank, size;
    uint32_t workers;
    uint64_t begun_ns;
    struct tt_random common;                              /* the same on all ranks, drawn from in the same order */
    struct tt_random private;                             /* this rank's delays */
    struct soak_family families[SOAK_FAMILIES_LIMIT + 1]; /* the first stays */
    struct soak_slot slots[SOAK_SLOTS_LIMIT];
    struct soak_slot reference;   /* what comes of a reduction (receive), and a rank's share */
    uint32_t algorithm_counts[2]; /* of what moves, and of what reduces */
    tutti_algorithm algorithms[2][SOAK_ALGORITHMS_LIMIT];
    uint64_t done;    /* collectives whose result has been checked */
    uint64_t reduced; /* reductions among them */
    uint64_t posted;
    uint64_t groups_created;
    uint64_t groups_without_multicast;
    uint64_t wrong; /* bytes */
    uint32_t wrong_described;
    tutti_counters counters; /* of groups that are gone */
    uint8_t *exchange_send, *exchange_receive;
    uint32_t *order; /* of the ranks, for the next family */
    uint32_t sample_count;
    struct soak_sample *samples; /* rank by rank, sample by sample: of all ranks */
};

/* Says what failed, where, and how to come back there. Returns the status. */
tutti_status soak_failed(const struct soak *soak, const char *what, tutti_status status);

/* An allgather of `length_bytes` in the first group. */
tutti_status soak_gather(struct soak *soak, const void *send, void *receive, uint64_t length_bytes);

static inline const struct soak_family *soak_family_of(const struct soak *soak, const struct soak_slot *slot)
{
    return &soak->families[slot->family];
}

static inline bool soak_reduces(const struct soak_slot *slot)
{
    return slot->draw.kind == SOAK_ALLREDUCE || slot->draw.kind == SOAK_REDUCE_SCATTER;
}

static inline tutti_algorithm soak_algorithm_of(const struct soak *soak, const struct soak_slot *slot)
{
    return soak->algorithms[soak_reduces(slot)][slot->draw.algorithm];
}

const char *soak_kind_name(enum soak_kind kind);

/* soak_buffers.c: memory for a slot; where a buffer begins in it; before a collective; after it. */
tutti_status soak_buffers_init(struct soak_slot *slot);
void soak_buffers_fini(struct soak_slot *slot);
uint8_t *soak_buffers_start(const struct soak_slot *slot, uint8_t *memory);
/* Where the result comes: of a reduce-scatter in place, a part of what is sent. */
uint8_t *soak_buffers_result(const struct soak *soak, const struct soak_slot *slot);
/* Whether this rank has something to send; whether that is not in the receive buffer already. */
bool soak_buffers_given(const struct soak *soak, const struct soak_slot *slot);
bool soak_buffers_apart(const struct soak *soak, const struct soak_slot *slot);
void soak_buffers_prepare(const struct soak *soak, const struct soak_slot *slot);
void soak_buffers_check(struct soak *soak, const struct soak_slot *slot);

/* soak_groups.c: the first family; all connections there can be; another family in place `index`; away with it. */
tutti_status soak_groups_begin(struct soak *soak);
tutti_status soak_groups_meet(struct soak *soak);
tutti_status soak_groups_create(struct soak *soak, uint32_t index);
tutti_status soak_groups_destroy(struct soak *soak, uint32_t index);

/* soak_sample.c: before all, a heap whose caches are full and stay so; takes one, together; only the first group may be
 * there. The record of the ranks is one longer then. */
void soak_sample_prepare(void);
tutti_status soak_sample_take(struct soak *soak);
void soak_sample_head(const struct soak *soak);
void soak_sample_print(const struct soak *soak);
/* Whether anything was wrong or has grown on any rank; the same on all. Rank 0 says what. */
bool soak_sample_verdict(const struct soak *soak);

#endif
