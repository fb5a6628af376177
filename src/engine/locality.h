/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is where: which ranks share a host, which interface reaches all of them, and which multicast address a group
 * takes.
 */
#ifndef TT_ENGINE_LOCALITY_H
#define TT_ENGINE_LOCALITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/settings.h"
#include "fabric/mcast.h"
#include "fabric/udp/interface.h"
#include "tutti/status.h"

enum { TT_LOCALITY_NETS = 8 };

/* What a rank tells the others about its host. */
struct tt_locality {
    uint64_t host; /* the same for processes that reach one another over loopback: boot, host name, network namespace */
    uint32_t net_count;
    uint32_t chosen_be;    /* the address of the interface that the setting INTERFACE names; 0: auto */
    uint32_t chosen_verbs; /* it is an RDMA device's; 0 where nobody asked */
    uint32_t reserved;
    struct {
        uint32_t address_be, prefix_bits, verbs;
    } nets[TT_LOCALITY_NETS]; /* interfaces that are up and do multicast, but loopback; the likeliest first */
};

/* The first network is the one with ROOT's address, if ROOT is set and this is rank 0; then the default route's. */
tutti_status tt_locality_read(const struct tt_settings *settings, struct tt_locality *locality);

/*
 * The address of the first host of a ROOT ("host[,host...]:port"), of which a user says which network is meant; 0:
 * there is none of IPv4. Takes as long as a name server does.
 */
uint32_t tt_locality_root(const char *root);

/* The host's identity, as in tt_locality. */
uint64_t tt_locality_host(void);

/*
 * The interface for a group: the setting INTERFACE; loopback where all ranks are on one host; else the first network of
 * rank 0 that every rank has an address in, on every host another one; else this rank's first. `all` are the localities
 * by rank, `stride_bytes` apart. Errors: INVALID_ARGUMENT (the setting), NOT_SUPPORTED (no interface that does
 * multicast).
 */
tutti_status tt_locality_choose(const struct tt_settings *settings, const struct tt_locality *all,
                                uint32_t stride_bytes, uint32_t size, uint32_t rank, struct tt_interface *interface);

/* Whether the interface that every rank's tt_locality_choose takes is an RDMA device's. The same at all ranks. */
bool tt_locality_has_verbs(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size);

/* The address of a group's subgroup, at the n-th attempt to find one that is free. */
tutti_status tt_locality_address(const struct tt_settings *settings, uint64_t key, uint32_t attempt, uint32_t subgroup,
                                 struct tt_mcast_address *address);

/* A group's key, from its first rank's context. */
uint64_t tt_locality_key(uint64_t context_id, uint64_t groups_before);

#endif
