/* SPDX-License-Identifier: BSD-3-Clause */
/* The "ucx" p2p provider of a build without UCX's headers: whoever asks for it is told why there is none. */
#include "base/log.h"
#include "fabric/ucx/ucx.h"

tutti_status tt_ucx_create(const struct tt_ucx_options *options, struct tt_p2p **p2p)
{
    (void)options;
    (void)p2p;
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED,
                    "ucx: this build has no UCX; TUTTI_P2P=tcp needs none (and TUTTI_UCX_TLS must be auto)");
}
