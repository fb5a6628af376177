/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The p2p provider "verbs": reliable connected (RC) queue pairs of libibverbs. Needs no header of that library; in a
 * build without it, tt_rc_create returns TUTTI_ERR_NOT_SUPPORTED.
 *
 * What it adds to the contract in fabric/p2p.h:
 *  - Two instances that are connected more than once pair their connections in the order of the connect calls, so the
 *    two sides must connect in the same order.
 *  - The two sides find each other's queue pairs by datagrams; connect starts that, and the other side answers in its
 *    progress, whether it has called connect or not. If it does not for some 28 seconds during which this side calls
 *    progress, it is taken for dead. Once the connection stands, the other side's device answers for it, so that a
 *    process may do other things for as long as it likes.
 *  - The first connect to a host may wait for the system to resolve its address, as the device's driver does.
 *  - get and put to a peer that is known to be down return TUTTI_ERR_PEER_FAILED at once, without a DONE event; those
 *    outside of the key's memory return TUTTI_ERR_INVALID_ARGUMENT. Reading or writing memory that its owner has
 *    released breaks the connection: hardware knows no milder answer.
 *  - Registered local memory is read and written by the device itself. Other local memory goes through buffers of the
 *    instance, piece by piece; nothing is registered on the way.
 *  - disconnect lets what the queue pair already holds of gets and puts finish, for up to 0.2 seconds; frames are
 *    delivered, and a peer that does not confirm the end within two seconds is given up.
 *
 * Nothing is allocated after creation but for a connection, and for more queued frames, gets and puts than ever before.
 */
#ifndef TT_FABRIC_VERBS_RC_H
#define TT_FABRIC_VERBS_RC_H

#include <stdbool.h>

#include "fabric/p2p.h"
#include "fabric/verbs/verbs.h"

struct tt_rc_options {
    struct tt_verbs_device *device; /* the instance holds a reference until its end */
    uint32_t thread;                /* which of the device's threads uses the instance; below their number */
    uint64_t ack_timeout_ns;        /* wait for an acknowledgement before each repetition; 0: as the device is */
    bool own_receives; /* each connection has a receive queue of its own, also where the device could share one */
};

/*
 * Creates an instance; `options` is read during the call only. The caller owns the instance until
 * (*p2p)->ops->destroy().
 * Errors: NOT_SUPPORTED (a build without libibverbs), NO_MEMORY, NO_RESOURCE (of the device), IO.
 */
tutti_status tt_rc_create(const struct tt_rc_options *options, struct tt_p2p **p2p);

#endif
