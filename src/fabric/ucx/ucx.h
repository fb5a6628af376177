/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The p2p provider "ucx": reliable connections and one-sided access over UCX (TCP, RC and DC verbs, shared memory).
 *
 * What it adds to the contract in fabric/p2p.h:
 *  - Two instances that are connected more than once pair their connections in the order of the connect calls, so the
 *    two sides must connect in the same order.
 *  - get and put to a peer that is known to be down return TUTTI_ERR_PEER_FAILED at once, without a DONE event.
 *  - Over verbs (rc, dc), gets and puts are the hardware's. Everywhere else they are messages of this provider: they
 *    begin when the other side has connected too, and move only while their target calls progress (its descriptor
 *    becomes readable). UCX's own emulation is not used: in UCX 1.13 a process that answers a get is aborted when the
 *    reader's connection breaks at that moment.
 *  - By messages, remote memory is reached only under the key of a registration that is alive, and only inside of it;
 *    all else ends with TUTTI_ERR_PROTOCOL. Memory that is released while peers read it is not touched any more, and
 *    their gets end in this way.
 *  - disconnect ends the gets and puts under way: their DONE events come out of the next calls of progress, with
 *    TUTTI_ERR_CANCELED. Frames are delivered and the peer confirms them; a peer that does not within two seconds is
 *    given up. With a get or put of hardware under way, the connection is torn down instead, and frames that have not
 *    left yet are lost.
 *  - Shared memory is not used, even if named in `tls`, unless UCX_MM_ERROR_HANDLING=y; then the contract's promises
 *    about dead and stopped processes do not hold (setup.c says what was seen).
 *
 * UCX is quiet and installs no signal handlers unless UCX_LOG_LEVEL and UCX_HANDLE_ERRORS say otherwise; what it says
 * goes to standard error. Every UCX_ variable of the environment wins over the choice made here.
 */
#ifndef TT_FABRIC_UCX_UCX_H
#define TT_FABRIC_UCX_UCX_H

#include <stdbool.h>

#include "fabric/p2p.h"

struct tt_ucx_options {
    const char *interface; /* restrict network devices to this one ("eth0", "lo"); NULL: UCX chooses */
    const char *tls;       /* transports in UCX's words; NULL: UCX_TLS, or else the provider's choice */
    bool lossless;         /* no frame is lost on the way, so TCP has nothing to repeat: no probes */
};

/*
 * Creates an instance; `options` is read during the call only and may be NULL. The caller owns the instance until
 * (*p2p)->ops->destroy().
 * Errors: INVALID_ARGUMENT (an interface that does not exist), NOT_SUPPORTED (no transport of those named is there),
 * NO_MEMORY, NO_RESOURCE, IO.
 */
tutti_status tt_ucx_create(const struct tt_ucx_options *options, struct tt_p2p **p2p);

#endif
