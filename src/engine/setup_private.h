/* SPDX-License-Identifier: BSD-3-Clause */
/* What the files of a group's creation share: the state, and what travels in each round. */
#ifndef TT_ENGINE_SETUP_PRIVATE_H
#define TT_ENGINE_SETUP_PRIVATE_H

#include "engine/locality.h"
#include "engine/setup.h"
#include "plan/choice.h"

enum tt_setup_round { TT_SETUP_HELLO, TT_SETUP_ADDRESS, TT_SETUP_ATTACH, TT_SETUP_NONE };

struct tt_setup_hello {
    uint32_t version;
    int32_t status;
    uint64_t context_id;
    uint64_t key; /* rank 0's counts */
    uint64_t chunk_bytes, subgroups, chains, in_flight;
    uint32_t algorithm;
    uint32_t rank;
    char mcast[8];           /* as in the setting: "auto", "udp", "verbs" */
    char p2p[8];             /* what is wished for: "auto", "tcp", "ucx", "verbs" */
    struct tt_choice choice; /* rank 0's counts */
    struct tt_locality locality;
};

struct tt_setup_address {
    int32_t status;
    uint32_t max_chunk_bytes;
    uint32_t length_bytes;
    uint8_t bytes[TT_P2P_MAX_ADDRESS_BYTES];
};

/* Followed by the names of the rank's queues. */
struct tt_setup_attach {
    int32_t status;
    uint32_t depth_chunks;
    uint32_t local_ranks; /* on its host */
};

struct tt_setup {
    struct tt_engine *engine;
    struct tt_group *group;
    bool listed; /* in the engine's list */
    enum tt_setup_round round;
    tutti_status status;    /* this rank's, to be told in the next round */
    uint32_t attempt;       /* of ATTACH */
    bool multicast;         /* worth trying */
    uint32_t flagless_rank; /* why it is not, though asked for: a rank whose interface has no flag; or TT_RANK_NONE */
    uint64_t key;
    uint64_t *contexts; /* by rank */
};

/* setup_rounds.c: what this rank says in a round, and what it makes of what all said. */
void tt_setup_produce_hello(struct tt_setup *setup, struct tt_setup_hello *hello);
tutti_status tt_setup_consume_hello(struct tt_setup *setup, const struct tt_setup_hello *all);
void tt_setup_produce_address(struct tt_setup *setup, struct tt_setup_address *address);
tutti_status tt_setup_consume_address(struct tt_setup *setup, const struct tt_setup_address *all);
void tt_setup_produce_attach(struct tt_setup *setup, struct tt_setup_attach *attach);
tutti_status tt_setup_consume_attach(struct tt_setup *setup, const void *all);

#endif
