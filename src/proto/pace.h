/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pacing: how fast the roots of a collective may send, so that no switch port in front of a receiver overflows.
 *
 * struct tt_pacer holds one sender to a rate. struct tt_pace is what a rank believes its own port can take, from the
 * settings, the hardware, or what collectives have shown; the barrier finds the least of all ranks, and the roots that
 * send at once share that (Khalilov et al., section IV-A: B_link / M). With all P ranks as roots each receiver hears
 * P - 1 of them.
 *
 * Times come in as arguments, and whether a collective tries for more follows from its sequence number, so that all
 * ranks try at once without a word about it.
 */
#ifndef TT_PROTO_PACE_H
#define TT_PROTO_PACE_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/datagram.h"

/* What a chunk takes on an Ethernet link beside its payload: our header, UDP, IP, Ethernet with its checksum, preamble
 * and gap. */
enum { TT_PACE_OVERHEAD_BYTES = TT_DATAGRAM_HEADER_BYTES + 8 + 20 + 38 };

#define TT_PACE_UNKNOWN UINT32_MAX /* a rate that nobody knows: no pacing */

/* --- One sender --------------------------------------------------------------------------------------------------- */

struct tt_pacer {
    uint64_t rate_bytes;  /* a second, on the wire; 0: no limit */
    uint64_t whole_bytes; /* the same, if nothing else is sent from here */
    uint32_t share;       /* transmissions that this rank has going on */
    uint64_t burst_ns;    /* how late the sender may be without losing its turns */
    uint64_t gather_ns;   /* how long chunks that are due wait for others to go with */
    uint64_t next_ns;     /* when the next chunk is due */
};

/*
 * A sender among `roots` that send at once, the `index`-th of them, each receiver hearing `heard` of them. All together
 * are never further ahead of the rate than a small switch buffer holds; their first chunks are spread over the time of
 * one. A root on its own may begin with all of that: its own link is in front of the port.
 */
void tt_pacer_start(struct tt_pacer *pacer, uint32_t rate_kbit, uint32_t heard, uint32_t index, uint32_t chunk_bytes,
                    uint64_t now_ns);

/* Chunks have gone before this sender's first one, the next of which would have been due then: it has no burst of its
 * own beyond theirs. */
void tt_pacer_follow(struct tt_pacer *pacer, uint64_t next_ns);

/* So many transmissions of this rank go on at once: they share the rate. */
void tt_pacer_share(struct tt_pacer *pacer, uint32_t transmissions);

/* When the next of `limit` chunks of this length go: several at once where they come in quick succession. */
uint64_t tt_pacer_due(const struct tt_pacer *pacer, uint32_t chunk_bytes, uint32_t limit);

/* How many chunks of this length may go now, at most `limit`. */
uint32_t tt_pacer_allowed(const struct tt_pacer *pacer, uint32_t chunk_bytes, uint32_t limit, uint64_t now_ns);

/* These have gone. */
void tt_pacer_took(struct tt_pacer *pacer, uint32_t chunk_bytes, uint32_t chunks, uint64_t now_ns);

/* --- What a port can take ----------------------------------------------------------------------------------------- */

/* What a rank saw of a collective's multicast. */
struct tt_pace_sample {
    uint32_t expected, received; /* chunks */
    uint32_t first_received;     /* how many there were at first_ns */
    uint64_t first_ns, last_ns;  /* when the first ones, and the last ones, were seen */
    uint64_t longest_ns;         /* the longest time in between from one look that brought something to the next */
    uint32_t chunk_bytes;
    uint32_t rate_kbit; /* that the ranks had agreed on */
    uint32_t share;     /* the most transmissions that this rank had going on meanwhile; 0: it had none */
};

struct tt_pace {
    bool watches;          /* this rank takes the chunks itself: where looks are far apart, it was away */
    uint32_t ceiling_kbit; /* of the settings or the hardware, or UNKNOWN */
    uint32_t limit_kbit;   /* what the port is believed to take, or UNKNOWN */
    uint32_t interval;     /* one collective in so many tries for more; a power of two */
    uint32_t step;         /* by so many quarters */
    uint32_t noise_ppm;    /* loss that did not become less when the senders were slower: not theirs to mend */
    /* While a cut has to prove itself: */
    uint32_t trials, halvings;
    uint32_t trial_loss_ppm;
    uint32_t trial_before_kbit;
};

void tt_pace_init(struct tt_pace *pace, uint32_t ceiling_kbit);

/* What this rank offers in the barrier of the collective with this sequence number. */
uint32_t tt_pace_offer(const struct tt_pace *pace, uint64_t sequence);

/* Notes that so many chunks were here at this time. */
void tt_pace_saw(struct tt_pace_sample *sample, uint32_t received, uint64_t now_ns);

/* Whether losses have shown that the port takes less than the settings or the hardware say. */
bool tt_pace_is_found(const struct tt_pace *pace);

/* A collective has ended; learns from it if it was large enough to tell anything. Returns whether more of it was lost
 * than noise had explained until then. */
bool tt_pace_ended(struct tt_pace *pace, const struct tt_pace_sample *sample);

#endif
