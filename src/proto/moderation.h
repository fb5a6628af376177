/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How long a rank may leave multicast chunks where they are, without anything being later for it. While a Broadcast of
 * many chunks comes in at some pace, to look at each of them at once only costs its core: they are as well placed a few
 * at a time. Frames are another matter, as are the last chunks, and all of a collective that somebody waits for.
 */
#ifndef TT_PROTO_MODERATION_H
#define TT_PROTO_MODERATION_H

#include <stdint.h>

#include "proto/member.h"

#define TT_MODERATION_NONE UINT64_MAX /* this member waits for no chunks */

/* 0: they are wanted now. Never longer than four milliseconds, or than half of what the receive queue holds lasts. */
uint64_t tt_moderation(struct tt_member *member, uint64_t now_ns);

#endif
