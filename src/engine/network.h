/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A network: the pair of providers on one interface, and the connections to other engines over it. Groups that use the
 * same interface share it, and groups that contain the same peers share their connections.
 */
#ifndef TT_ENGINE_NETWORK_H
#define TT_ENGINE_NETWORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "fabric/mcast.h"
#include "fabric/p2p.h"
#include "fabric/udp/interface.h"
#include "fabric/verbs/rc.h"
#include "fabric/verbs/verbs.h"
#include "proto/link.h"
#include "proto/pacer.h"
#include "tutti/status.h"

enum { TT_PEER_REASON_BYTES = 160 };

/* The last JOIN from there of an object group that was not here; `key` is 0 if there was none. */
struct tt_stray_join {
    uint64_t key, members;
    uint32_t created;
};

/* A connection to another engine. */
struct tt_peer {
    uint64_t context_id;
    uint32_t users; /* groups */
    bool down;
    bool starved;   /* down for want of something here: no fault of the peer */
    bool abandoned; /* given up here: no PEER_DOWN comes, and its groups have to be told */
    struct tt_stray_join stray;
    char reason[TT_PEER_REASON_BYTES]; /* why it is down, in the provider's words; empty where it has none */
    struct tt_p2p_peer *connection;    /* NULL once given up */
    struct tt_peer *next;
};

/* Whom a frame came from, as far as its provider says. */
struct tt_origin {
    const struct tt_peer *peer; /* whose connection it came by; NULL: nobody here has made it, or does not any more */
    const void *address;        /* of the engine on that network; NULL: not known */
    size_t address_bytes;
};

struct tt_network {
    struct tt_interface interface;
    bool shared; /* multicast reaches other ranks of this host too */
    bool verbs;  /* multicast is the RDMA device's */
    struct tt_mcast *mcast;
    const char *mcast_name; /* of the provider itself, where a decorator is around it */
    const char *endpoints;  /* the category that is effective on the RDMA device; "none" without one; static storage */
    struct tt_p2p *p2p;
    bool borrowed;                /* the providers are the caller's (simulator) */
    struct tt_link link;          /* of this host to it; control's */
    struct tt_pacer pacer;        /* of this rank; the sending thread's */
    uint64_t tend_ns;             /* when p2p has something due */
    _Atomic uint64_t probes_sent; /* by p2p; control's, read by anybody */
    struct tt_peer *peers;
    bool abandons; /* one of them is abandoned, and its groups have not been told */
    size_t address_bytes;
    uint8_t address[TT_P2P_MAX_ADDRESS_BYTES];
};

/* What of the settings, and of the interface, says which RDMA device a network uses, and how its threads do. */
struct tt_verbs_device_options tt_network_device(const struct tt_settings *settings,
                                                 const struct tt_interface *interface);

/* What of the settings says how queue pairs are on that device. */
struct tt_rc_options tt_network_queue_pairs(const struct tt_settings *settings, struct tt_verbs_device *device);

/* The setting P2P, which all ranks must have in common: "auto" is "ucx" where UCX_TLS says how. Static or the
 * settings'. */
const char *tt_network_p2p_wish(const struct tt_settings *settings);

/* How long the reliable side's address can be, from what all ranks have in common. */
uint32_t tt_network_address_room(const struct tt_settings *settings, bool verbs);

/* `shared`: other ranks of this host may use the network too. `verbs`: multicast over an RDMA device, not over UDP. */
tutti_status tt_network_create(const struct tt_settings *settings, const struct tt_interface *interface, bool shared,
                               bool verbs, struct tt_network **network);

/* Over providers that the caller keeps. */
tutti_status tt_network_borrow(const struct tt_settings *settings, struct tt_mcast *mcast, struct tt_p2p *p2p,
                               struct tt_network **network);

void tt_network_destroy(struct tt_network *network); /* NULL is allowed */

/* Asserts what holds between two calls. */
void tt_network_check(const struct tt_network *network);

/* The connection to the engine with this id, made if there is none. Given back with tt_network_disconnect; it stays. */
tutti_status tt_network_connect(struct tt_network *network, uint64_t context_id, const void *address,
                                size_t address_bytes, struct tt_peer **peer);
void tt_network_disconnect(struct tt_network *network, struct tt_peer *peer);

/* The provider said that the peer is down; its groups have been told. The peer may be gone afterwards. */
void tt_network_peer_down(struct tt_network *network, struct tt_peer *peer);

/* Ends the connection for all its users, and the gets that are under way over it; the engine tells the users. */
void tt_network_abandon(struct tt_network *network, struct tt_peer *peer);

#endif
