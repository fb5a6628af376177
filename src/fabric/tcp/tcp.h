/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The p2p provider "tcp": connections over TCP sockets, below the session layer.
 *
 * What it adds to the contract in fabric/p2p.h:
 *  - A connection is a socket for frames, and one for bulk from the first get or put on, so that a frame never waits
 *    behind a read. Of the two sides the one with the lower address dials; the other one dials if nobody came for a
 *    moment. A child that a rank leaves behind does not hold its connections (base/socket.h).
 *  - Gets and puts go straight between the sockets and the caller's memory, and move only while their target calls
 *    progress (its descriptor becomes readable). Memory is reached only under the key of a registration that is alive,
 *    and only inside of it; all else ends with TUTTI_ERR_PROTOCOL. Memory that is released while peers read it is not
 *    touched any more, and their gets end in this way unless all of their bytes were on their way. A put's DONE says
 *    that it has been placed.
 *  - disconnect ends the gets and puts under way: their DONE events come out of the next calls of progress, with
 *    TUTTI_ERR_CANCELED.
 *  - get and put to a peer that is known to be down return TUTTI_ERR_PEER_FAILED at once, without a DONE event.
 *  - A lost tail is found by a probe behind it (session/tail.h), not by TCP's time-out of 200 ms.
 *  - A host that is gone without a word (its power, its cable) is noticed after peer_timeout_s: by TCP's keepalive if
 *    nothing was under way to it; else by progress, within a second more.
 */
#ifndef TT_FABRIC_TCP_TCP_H
#define TT_FABRIC_TCP_TCP_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/p2p.h"

struct tt_tcp_options {
    const char *address; /* IPv4 or IPv6, where it listens and from where it dials; NULL: 127.0.0.1 */
    uint32_t scope;      /* the interface's index, for a link-local IPv6 address; else 0 */
    uint16_t first_port; /* listens on one of these that is free; 0: on any */
    uint16_t last_port;
    uint32_t traffic_class;  /* the byte of the IP header, at most 255; 0: the system's */
    uint32_t peer_timeout_s; /* of a host that is silent, at least 2; 0: 5 */
    bool lossless;           /* nothing is lost on the way, so TCP has nothing to repeat: no probes */
};

/*
 * Creates an instance; `options` is read during the call only and may be NULL. The caller owns the instance until
 * (*p2p)->ops->destroy().
 * Errors: INVALID_ARGUMENT (text that is no address), NO_RESOURCE (no descriptor), IN_USE (no port that is free),
 * NO_MEMORY, IO (it cannot listen at that address).
 */
tutti_status tt_tcp_create(const struct tt_tcp_options *options, struct tt_p2p **p2p);

#endif
