/* SPDX-License-Identifier: BSD-3-Clause */
/* The network interfaces of this host: by which addresses it is reached, and where it does multicast. */
#ifndef TT_FABRIC_UDP_INTERFACE_H
#define TT_FABRIC_UDP_INTERFACE_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/ip.h"
#include "tutti/status.h"

/* The lower, the rather an address of an interface is taken; those of IPv6 may be temporary, or deprecated. */
enum tt_interface_preference { TT_INTERFACE_IPV4, TT_INTERFACE_IPV6, TT_INTERFACE_TEMPORARY, TT_INTERFACE_DEPRECATED };

struct tt_interface {
    char name[IF_NAMESIZE];
    unsigned index;       /* the system's, for IP_MULTICAST_IF; not a position in a list */
    struct tt_ip ip;      /* none: it has none that others could use */
    uint32_t prefix_bits; /* of the address's network */
    enum tt_interface_preference preference;
    uint32_t mtu;        /* largest IP packet in bytes */
    uint32_t speed_mbit; /* 0: unknown */
    bool hardware;       /* an adapter, not something that software makes: its speed is a link's */
    bool loopback;
    bool up;            /* switched on, and has a link */
    bool multicast;     /* has the flag, and no address of IPv6; see tt_interface_does_multicast() */
    bool default_route; /* of the address's family: leads to hosts that no other interface leads to */
    bool link_local;    /* has none but addresses of IPv6 that do not leave its link */
};

/*
 * Lists the interfaces by index: one entry for every address, by preference, and one for an interface without any.
 * Link-local addresses of IPv6 are none: they mean something on their link only. Nor is one that cannot be bound, as
 * another host has it, or as the system does not know yet that none has: this is waited for, up to 3 s, where the host
 * has no other address. Fills up to `capacity` entries, of interfaces without an address only where there is room;
 * *count is the number that there are, which may be more.
 */
tutti_status tt_interface_list(struct tt_interface *interfaces, size_t capacity, size_t *count);

/*
 * Finds the interface with this name or address, and with the first of its addresses if a name is given. Error:
 * INVALID_ARGUMENT (there is none, or it is down, or has no address but link-local ones), with a text that begins with
 * TUTTI_INTERFACE=.
 */
tutti_status tt_interface_find(const char *text, struct tt_interface *interface);

/* Loopback does, although it does not say so. Over IPv6 there is no multicast: udp's is of IPv4. */
static inline bool tt_interface_does_multicast(const struct tt_interface *interface)
{
    return interface->multicast || (interface->loopback && !tt_ip_is_ipv6(interface->ip));
}

/* Writes "eth0 (10.0.0.1)". Returns `text`. */
enum { TT_INTERFACE_TEXT_BYTES = IF_NAMESIZE + TT_IP_TEXT_BYTES + 2 };
const char *tt_interface_format(const struct tt_interface *interface, char text[TT_INTERFACE_TEXT_BYTES]);

#endif
