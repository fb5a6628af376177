/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A link is shared by all groups that use its network: what a rank transmits at once, in whatever groups, keeps to the
 * rate together, and what one of them receives meanwhile is a share of what the port takes.
 */
#ifndef TT_ENGINE_SHARE_H
#define TT_ENGINE_SHARE_H

struct tt_request;

/* The transmission of this request has begun or ended: if it is one that counts, counts those on its network anew.
 * Control's. */
void tt_share_count(const struct tt_request *request);

#endif
