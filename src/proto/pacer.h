/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A rank's pace, where the user gives a rate (TUTTI_BANDWIDTH): when the next chunk is due, whatever collective it is
 * of. One for each network; the sending thread's. The roots that send at once share the rate (Khalilov et al., section
 * IV-A: B_link / M).
 */
#ifndef TT_PROTO_PACER_H
#define TT_PROTO_PACER_H

#include <stdint.h>

#include "wire/datagram.h"

/* What a chunk takes on an Ethernet link beside its payload: our header, UDP, IP, Ethernet with its checksum, preamble
 * and gap. */
enum { TT_PACER_OVERHEAD_BYTES = TT_DATAGRAM_HEADER_BYTES + 8 + 20 + 38 };

/* No rank is less: none may hold all others up for ever, nor may who makes one up. */
enum { TT_PACER_LEAST_KBIT = 1000 };

#define TT_PACER_UNKNOWN UINT32_MAX /* a rate that nobody gives: no pace */

struct tt_pacer {
    uint64_t next_ns;
};

/* What one chunk takes of a rate that `heard` roots share; 0: there is none to keep to. */
uint64_t tt_pacer_chunk_ns(uint32_t rate_kbit, uint32_t heard, uint32_t chunk_bytes);

/* A transmission begins, as the `index`-th of `heard` that do at once: their first chunks are spread over the time of
 * one. One alone may begin with a burst, if nothing has gone just now. */
void tt_pacer_start(struct tt_pacer *pacer, uint64_t chunk_ns, uint32_t index, uint32_t heard, uint64_t now_ns);

/* When the next of `limit` chunks go: several at once where they come in quick succession. */
uint64_t tt_pacer_due(const struct tt_pacer *pacer, uint64_t chunk_ns, uint32_t limit);

/* How many may go now, at most `limit`. */
uint32_t tt_pacer_allowed(const struct tt_pacer *pacer, uint64_t chunk_ns, uint32_t limit, uint64_t now_ns);

/* These have gone. */
void tt_pacer_took(struct tt_pacer *pacer, uint64_t chunk_ns, uint32_t chunks, uint64_t now_ns);

#endif
