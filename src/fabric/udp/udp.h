/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast provider "udp": IPv4 multicast through the system's sockets; unicast where a subgroup has two members.
 *
 * A chunk is one UDP datagram (wire/datagram.h) that is never fragmented. Works without privileges; a process with
 * CAP_NET_ADMIN gets larger socket buffers than net.core.rmem_max. On loopback all members are on this host; on any
 * other interface `loop` says whether some are. Receiving drops no datagram on purpose but those that are not of this
 * group; the system drops what does not fit into the socket buffer, see depth_chunks.
 */
#ifndef TT_FABRIC_UDP_UDP_H
#define TT_FABRIC_UDP_UDP_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/mcast.h"
#include "fabric/udp/interface.h"

/* What is asked of the system for a queue's socket. What waits in a network adapter's queue counts against the send
 * buffer: room for some 30 super-packets. */
enum { TT_UDP_RECEIVE_BUFFER_BYTES = 16 << 20, TT_UDP_SEND_BUFFER_BYTES = 1 << 20 };

struct tt_udp_options {
    struct tt_interface interface; /* without an address of IPv4 no queue may be attached */
    uint64_t receive_buffer_bytes; /* asked for each queue's socket; TT_AUTO: 16 MiB, or what the system allows */
    uint32_t ttl;                  /* of multicast; 1: this network only; 0: this host only; at most 255 */
    uint32_t traffic_class;        /* the byte of the IP header, at most 255; 0: the system's */
    bool loop;                     /* other ranks are on this host */
    bool plain;                    /* one datagram a message: neither UDP_SEGMENT nor UDP_GRO, for testing */
};

/*
 * Creates the provider. `options` is copied. Errors: INVALID_ARGUMENT (TTL, buffer size, or an MTU that holds no
 * datagram), NO_MEMORY.
 */
tutti_status tt_udp_create(const struct tt_udp_options *options, struct tt_mcast **mcast);

struct tt_udp_probe {
    uint64_t round_trip_ns; /* set on success */
    const char *step;       /* set on failure: what failed, "join"; static storage */
    int error;              /* set on failure: its errno, 0 if there is none (nothing came back) */
};

/*
 * For `tutti doctor`: sends one datagram with TTL 0, so that it does not leave the host, to a multicast group through
 * `interface`, and waits up to `timeout_ns` for it to come back. Errors: IO (a step failed, see *probe and the text),
 * TIMED_OUT (nothing came back: a packet filter, for instance). Unlike other outputs *probe is also set on failure.
 */
tutti_status tt_udp_probe_loop(const struct tt_interface *interface, uint64_t timeout_ns, struct tt_udp_probe *probe);

#endif
