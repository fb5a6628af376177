/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast provider "verbs": unreliable datagrams of InfiniBand or RoCE (Khalilov et al., section III).
 *
 * A chunk is one datagram of a UD queue pair that is attached to a multicast group. The immediate data is the
 * datagram's own; who sent it is read from the completion and the network header, so that the payload carries nothing
 * but payload. Receives land in a ring of registered staging; sends leave from registered memory, or through a copy.
 */
#ifndef TT_FABRIC_VERBS_MCAST_H
#define TT_FABRIC_VERBS_MCAST_H

#include <stdint.h>

#include "fabric/mcast.h"
#include "fabric/verbs/verbs.h"

struct tt_verbs_mcast_options {
    struct tt_verbs_device *device; /* takes a reference */
    uint64_t receive_buffer_bytes;  /* staging of each queue; TT_AUTO: 4 MiB */
    uint8_t ttl;                    /* how far multicast goes over RoCE; 0: 1, this network only */
    const char *mgid;               /* the group of all queues, "ff12:401b::1/0xc001"; NULL or "": each joins its own */
};

/* Creates the provider. Errors: NOT_SUPPORTED (the port has no IPv4 address, without which it joins no group),
 * INVALID_ARGUMENT (buffer size, mgid), NO_RESOURCE (librdmacm's kernel module is not there), NO_MEMORY. */
tutti_status tt_verbs_mcast_create(const struct tt_verbs_mcast_options *options, struct tt_mcast **mcast);

#endif
