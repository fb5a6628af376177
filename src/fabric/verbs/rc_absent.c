/* SPDX-License-Identifier: BSD-3-Clause */
/* The "verbs" p2p provider of a build without libibverbs: whoever asks for it is told why there is none. */
#include "base/log.h"
#include "fabric/verbs/rc.h"

tutti_status tt_rc_create(const struct tt_rc_options *options, struct tt_p2p **p2p)
{
    (void)options;
    (void)p2p;
    return tt_error(TT_PART_FABRIC, TUTTI_ERR_NOT_SUPPORTED, "verbs: this build has no libibverbs");
}
