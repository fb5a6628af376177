/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The start-up probe: does multicast get through from every host to every rank, on every subgroup, at the size of a
 * chunk? Up to two ranks of each host multicast probes now and then until the end; who has heard all of these, or has
 * waited long enough, votes; the votes go up the gather tree (plan/gather.h) of rank 0, and the result down, so that
 * all ranks learn the same answer. Queues ought to be attached when the first rank starts; a probe that came too early
 * is repeated.
 */
#ifndef TT_PROTO_PROBE_H
#define TT_PROTO_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include "plan/gather.h"
#include "proto/action.h"
#include "proto/receive.h"

enum tt_probe_state {
    TT_PROBE_IDLE,
    TT_PROBE_LISTEN,
    TT_PROBE_DECIDED, /* the own vote is clear, a child's is missing */
    TT_PROBE_VOTED,   /* for all that this rank speaks for; the result is missing */
    TT_PROBE_DONE
};

struct tt_probe {
    uint32_t rank, size, heard_count;
    const _Atomic uint64_t *heard; /* a bit a rank, (size + 63) / 64 words a subgroup */
    const uint64_t *speakers;      /* a bit a rank: who multicasts probes; NULL: all */
    uint32_t turn_after;           /* whose probe goes before this rank's; TT_RANK_NONE: nobody's */
    uint64_t timeout_ns;
    struct tt_frame template;
    struct tt_gather_place place;
    uint32_t child_count;
    enum tt_probe_state state;
    bool multicast;          /* is tried */
    uint64_t probing, voted; /* a bit a child: what it has told */
    bool told;               /* the parent, that all here are probing */
    bool all_probing;        /* as far as is known here */
    bool heard_all;          /* of everybody whose vote is in */
    uint32_t failed_rank;    /* lowest that somebody did not hear */
    uint32_t deaf_rank;      /* lowest that did not hear somebody */
    uint32_t deaf_count;     /* how many did not, of those that had looked when a no was known */
    uint32_t probes_sent;
    uint64_t next_probe_ns, deadline_ns;
};

enum {
    TT_PROBE_INTERVAL_NS = 5 * 1000 * 1000, /* between the first probes; doubles up to eightfold */
    TT_PROBE_AT_ONCE = 24                   /* ranks whose first probes may be on their way: less than a window */
};

enum { TT_PROBE_SPEAKERS = 2 }; /* of a host: so that each of its ranks hears one of them, too */

/* Who multicasts probes, given the ranks' hosts: a bit a rank. What gets through from one rank of a host gets through
 * from the others, and a thousand probes to a thousand ranks of a host are more than it takes. */
void tt_probe_choose_speakers(const uint64_t *hosts, uint32_t size, uint64_t *speakers);

/* `multicast`: whether to try at all; without, the vote is no, but the ranks still meet. `speakers` is not copied. */
void tt_probe_init(struct tt_probe *probe, uint32_t rank, uint32_t size, uint64_t group, bool multicast,
                   const uint64_t *speakers, const _Atomic uint64_t *heard, uint32_t heard_count, uint64_t timeout_ns);

void tt_probe_start(struct tt_probe *probe, uint64_t now_ns, struct tt_actions *actions);

/* A PROBE frame, which may come before the start; false if it is out of turn. */
bool tt_probe_frame(struct tt_probe *probe, uint64_t now_ns, const struct tt_frame *frame, struct tt_actions *actions);

void tt_probe_tick(struct tt_probe *probe, uint64_t now_ns, struct tt_actions *actions);

uint64_t tt_probe_deadline(const struct tt_probe *probe);

/* The rank whose word is missing, or, while this one listens, the lowest that it has not heard; TT_RANK_NONE if none
 * is. */
uint32_t tt_probe_waits_for(const struct tt_probe *probe);

/* Asserts what always holds. */
void tt_probe_check(const struct tt_probe *probe);

#endif
