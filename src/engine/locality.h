/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is where: which ranks share a host, which interface reaches all of them, and which multicast address a group
 * takes.
 */
#ifndef TT_ENGINE_LOCALITY_H
#define TT_ENGINE_LOCALITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/ip.h"
#include "base/settings.h"
#include "fabric/mcast.h"
#include "fabric/udp/interface.h"
#include "tutti/status.h"

enum { TT_LOCALITY_NETS = 8, TT_LOCALITY_NAME_BYTES = 40 };

/* What a rank tells the others about its host. */
struct tt_locality {
    uint64_t host; /* the same for processes that reach one another over loopback: boot, host name, network namespace */
    char name[TT_LOCALITY_NAME_BYTES]; /* of the host, as far as it fits */
    uint32_t net_count;
    uint32_t chosen;           /* the index of the interface that the setting INTERFACE names; 0: auto */
    uint32_t chosen_verbs;     /* tt_locality_takes_verbs */
    uint32_t chosen_multicast; /* it has the flag MULTICAST, and an address of IPv4 */
    uint32_t chosen_ipv6;      /* its address is of IPv6 */
    struct {
        struct tt_ip ip;
        uint32_t prefix_bits, verbs, multicast;
    } nets[TT_LOCALITY_NETS]; /* of interfaces that are up, but loopback; see tt_locality_read */
};

/* Networks with multicast come first, then the others of IPv4, then those of IPv6, which has none, but of which there
 * is one if the host has any. Of each kind the first is the one with ROOT's address, if ROOT is set and this is rank 0;
 * then the default route's. */
tutti_status tt_locality_read(const struct tt_settings *settings, struct tt_locality *locality);

/* Looks for the RDMA devices of its networks, which tt_locality_read leaves alone: that takes milliseconds, or more,
 * and only counts where a group is on several hosts. The second is that with a given list of interfaces. */
void tt_locality_find_verbs(const struct tt_settings *settings, struct tt_locality *locality);
void tt_locality_mark_verbs(const struct tt_settings *settings, const struct tt_interface *list, size_t count,
                            struct tt_locality *locality);

/* The host's identity, as in tt_locality. */
uint64_t tt_locality_host(void);

/*
 * The interface for a group: the setting INTERFACE, by its address of IPv6 if another rank's has no other; loopback
 * where all ranks are on one host; else the first network of rank 0 that every rank has an address in, on every host
 * another one, and where it does multicast, if there is such a network; else this rank's first. Networks of IPv6 count
 * where some rank has no address of IPv4 that leads to others. `all` are the localities by rank, `stride_bytes` apart.
 * Errors: INVALID_ARGUMENT (the setting), NOT_SUPPORTED (no interface that is up and has an address).
 */
tutti_status tt_locality_choose(const struct tt_settings *settings, const struct tt_locality *all,
                                uint32_t stride_bytes, uint32_t size, uint32_t rank, struct tt_interface *interface);

/* Whether MCAST=auto takes the interface's RDMA device: there is one, and its kind is known to work and the interface
 * has an address of IPv4, or DEVICE names it. Where it is only there, the log says how to use it (info), once. */
bool tt_locality_takes_verbs(const struct tt_settings *settings, const struct tt_interface *interface);

/* Whether every rank takes the RDMA device of the interface that its tt_locality_choose takes. The same at all ranks.
 */
bool tt_locality_has_verbs(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size);

/* Of a name that came from elsewhere: it ends, and steers no terminal. */
void tt_locality_clean(char name[TT_LOCALITY_NAME_BYTES]);

/* The lowest rank whose interface, as tt_locality_choose takes it, does no multicast; `size` if all do. The second:
 * whether its address is of IPv6. The same at all ranks. */
uint32_t tt_locality_without_multicast(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size);
bool tt_locality_uses_ipv6(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size, uint32_t rank);

/* The ranks, all around from `first` on, host by host: each host is at the place of its first rank, so a ring enters
 * and leaves it once. Returns whether that is another order than the ranks' own. */
bool tt_locality_around(const uint64_t *hosts, uint32_t size, uint32_t first, uint32_t *around);

/* The address of a group's subgroup, at the n-th attempt to find one that is free. */
tutti_status tt_locality_address(const struct tt_settings *settings, uint64_t key, uint32_t attempt, uint32_t subgroup,
                                 struct tt_mcast_address *address);

/* A group's key, from its first rank's context. Neither that nor other groups' keys can be found out from it. */
uint64_t tt_locality_key(uint64_t context_id, uint64_t groups_before);

#endif
