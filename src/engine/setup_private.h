/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the files of a group's creation share: the state, and what travels in each round. Rank 0 sends every rank's
 * contribution to every rank, so that each byte here counts as often as the square of the number of ranks: a round that
 * has nothing to say is left out, which all ranks decide from what all have said before.
 */
#ifndef TT_ENGINE_SETUP_PRIVATE_H
#define TT_ENGINE_SETUP_PRIVATE_H

#include "engine/locality.h"
#include "engine/setup.h"
#include "plan/choice.h"

/* In this order. TERMS only where digests differ, PLACES only where there are several hosts, ATTACH perhaps again. */
enum tt_setup_round {
    TT_SETUP_HELLO,
    TT_SETUP_TERMS,
    TT_SETUP_PLACES,
    TT_SETUP_ADDRESS,
    TT_SETUP_ATTACH,
    TT_SETUP_NONE
};

enum { TT_SETUP_CHOSEN_VERBS = 1, TT_SETUP_CHOSEN_MULTICAST = 2, TT_SETUP_CHOSEN_IPV6 = 4 }; /* flags of HELLO */
enum { TT_SETUP_NET_VERBS = 1, TT_SETUP_NET_MULTICAST = 2 };                                 /* of a network */

struct tt_setup_hello {
    uint8_t version;
    uint8_t flags; /* of the interface that the setting INTERFACE names */
    int16_t status;
    uint16_t rank;
    uint8_t name_bytes, net_count; /* that this rank has to say in PLACES */
    uint64_t context_id;
    uint64_t host;
    uint64_t digest;        /* of its struct tt_setup_terms */
    uint32_t groups_before; /* rank 0's counts: the group's key comes from that */
    uint32_t chosen;        /* as in struct tt_locality */
};

/* What ranks must have in common, and what rank 0 decides. No padding. */
struct tt_setup_terms {
    uint64_t chunk_bytes, subgroups, chains, in_flight;
    uint32_t algorithm;
    uint32_t reserved;
    char mcast[8];           /* as in the setting: "auto", "udp", "verbs" */
    char p2p[8];             /* what is wished for: "auto", "tcp", "ucx", "verbs" */
    char deterministic[8];   /* "run", "strict" */
    struct tt_choice choice; /* rank 0's counts; rows that are not used are zeros */
};

/* In PLACES: as many as the rank with the most has, then as many bytes of host name as the longest one has. */
struct tt_setup_net {
    struct tt_ip ip;
    uint8_t prefix_bits, flags;
};
_Static_assert(sizeof(struct tt_setup_net) == 18 && _Alignof(struct tt_setup_net) == 1, "read where it lies");

/* Followed by the address, in as much room as an address of the providers needs. */
struct tt_setup_address {
    int16_t status;
    uint16_t length_bytes;
    uint32_t max_chunk_bytes, good_chunk_bytes;
};

/* Followed by the names of the rank's queues, where they mean something. */
struct tt_setup_attach {
    int16_t status;
    uint16_t local_ranks; /* on its host */
    uint32_t depth_chunks;
};

enum { TT_SETUP_REASON_BYTES = 128 };

struct tt_setup {
    struct tt_engine *engine;
    struct tt_group *group;
    bool listed; /* in the engine's list */
    enum tt_setup_round round;
    tutti_status status;                      /* this rank's, to be told in the next round */
    bool all_know;                            /* the others end for the same reason, by themselves */
    uint32_t attempt;                         /* of ATTACH */
    bool multicast;                           /* worth trying */
    char no_multicast[TT_SETUP_REASON_BYTES]; /* why it is not, though asked for, in words; or empty */
    uint64_t key;
    uint64_t *contexts;                 /* by rank */
    struct tt_locality *places;         /* by rank, as far as it was told */
    uint32_t name_bytes, net_count;     /* in PLACES */
    uint32_t address_bytes, name_count; /* room for an address in ADDRESS, names of queues in ATTACH */
};

/* setup_hello.c: who is there, on which terms, and where; up to the network that the group uses. What compare_versions
 * and consume_terms find wrong all ranks find alike, as they have all been told the same: the setup ends everywhere. */
size_t tt_setup_places_bytes(const struct tt_setup *setup);
void tt_setup_produce_hello(struct tt_setup *setup, struct tt_setup_hello *hello);
void tt_setup_produce_terms(const struct tt_setup *setup, struct tt_setup_terms *terms);
void tt_setup_produce_places(const struct tt_setup *setup, uint8_t *bytes);
tutti_status tt_setup_compare_versions(const struct tt_setup *setup, const struct tt_setup_hello *all);
void tt_setup_consume_hello(struct tt_setup *setup, const struct tt_setup_hello *all);
tutti_status tt_setup_consume_terms(struct tt_setup *setup, const struct tt_setup_terms *all);
void tt_setup_consume_places(struct tt_setup *setup, const uint8_t *all);

/* Both without the engine's lock. The first before each round: what this rank is to say of where it is. */
void tt_setup_find_place(struct tt_setup *setup);
tutti_status tt_setup_find_network(struct tt_setup *setup);

/* setup_rounds.c: what this rank says in the other rounds, and what it makes of what all said; before ATTACH, and
 * without the lock, its queues are attached, which the network may take its time for. */
void tt_setup_attach(struct tt_setup *setup);
void tt_setup_produce_address(struct tt_setup *setup, struct tt_setup_address *address);
tutti_status tt_setup_consume_address(struct tt_setup *setup, const uint8_t *all);
void tt_setup_produce_attach(struct tt_setup *setup, struct tt_setup_attach *attach);
tutti_status tt_setup_consume_attach(struct tt_setup *setup, const void *all);

#endif
