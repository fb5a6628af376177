/* SPDX-License-Identifier: BSD-3-Clause */
/* Who has failed, for a rank or member that is told of it. */
#ifndef TT_PROTO_CULPRIT_H
#define TT_PROTO_CULPRIT_H

#include <stdint.h>

#include "tutti/status.h"

/* A connection may break between two that are both alive. All are told of one end by the other; the one that is told of
 * itself knows better, and names that other one. */
static inline uint32_t tt_failed_rank(tutti_status status, uint32_t culprit, uint32_t noticed_by, uint32_t own)
{
#ifdef TT_FAULT_BLAMES_ITSELF
    (void)noticed_by;
    (void)own;
    (void)status;
    return culprit;
#else
    return status == TUTTI_ERR_PEER_FAILED && culprit == own ? noticed_by : culprit;
#endif
}

#endif
