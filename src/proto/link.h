/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a rank knows of its host's link to a network, and whose turn it is there. One for each network: all groups that
 * use it share the link, and what is known of it. The control context's. Why windows have the size that they have is in
 * docs/flow.md.
 */
#ifndef TT_PROTO_LINK_H
#define TT_PROTO_LINK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/pacer.h"

enum {
    TT_LINK_WINDOW_BYTES = 1 << 18, /* with which a link begins: what a port of a small switch holds */
    TT_LINK_LEAST_BYTES = 1 << 17,  /* what is left of it at least, where chunks are lost */
    TT_LINK_SHORT_NS =
        8 * 1000 * 1000, /* a window that comes in less may be too short for software to report in time */
    TT_LINK_LONG_NS = 12 * 1000 * 1000, /* one that takes longer may wait behind what others have in the port; half of
                                           it, if it is smaller than those that links begin with */
    TT_LINK_SLOW_NS = 50 * 1000 * 1000, /* one that takes longer is no larger than it has to be: roots wait no longer
                                           for what allows them the next one */
    TT_LINK_SHARED_BYTES = 1 << 19,     /* as large it may become to have its part beside them */
    TT_LINK_MOST_TURNS = 2
};

/* A collective's part in the order in which this rank releases them. */
struct tt_turn {
    bool is_on, waits;
    struct tt_turn *next; /* in the link's list */
};

/* What came in some time, and of it was received. */
struct tt_link_period {
    uint64_t come_bytes, bytes, ns;
};

/* A window that was halved, or raised, is on trial: how it was before, and what was received then. */
struct tt_link_trial {
    bool is_raised;   /* else halved */
    uint32_t periods; /* until it is given up at the latest; 0: there is none */
    uint32_t window_bytes, most_bytes, patience;
    uint32_t kbit;           /* when it has been judged: with the window that was kept */
    bool is_lossy;           /* more was lost of it than noise explains */
    uint64_t forgiven_bytes; /* of come_bytes: what is lost until then may be of a larger window that has been undone */
};

struct tt_link {
    uint32_t rate_kbit;    /* all roots are to keep to, as the user says; or TT_PACER_UNKNOWN */
    uint32_t window_bytes; /* that may be on the way to this host at once, of all collectives together */
    uint32_t least_bytes;  /* it is never less */
    uint32_t most_bytes;   /* it grows no further */
    uint32_t queue_bytes;  /* nor does that: what the receive queues of every group hold */
    uint32_t calm;         /* windows since the last one of which chunks were lost */
    uint32_t patience;     /* so many before it may grow to where that was */
    uint32_t excused;      /* periods in which others are to blame for what is lost */
    uint32_t rested, rest; /* periods since the last trial; so many before a larger one is tried */
    struct tt_link_trial trial;
    uint32_t users; /* collectives that are being received: they share the window */
    uint32_t dry;   /* of these: of which all has come that most of their roots may send */
    uint32_t turns; /* collectives that this rank has released, and that are not over */
    struct tt_turn *first_waiting, *last_waiting; /* list: those that wait for one of these to end */
    bool turn_passes;                             /* one has ended: the first that waits may go on */
    uint32_t noted_kbit;                          /* the rate that the log speaks of */

    /* What comes over it, of all collectives together. */
    uint64_t come_bytes;
    uint64_t come_ns, idle_ns; /* the last time something came; when nothing came in this window though it might have */
    uint64_t timed_bytes, timed_ns;     /* what had come when the present window began, and when that was; 0: not yet */
    bool was_dry;                       /* all of them have been, in this window */
    uint32_t come_kbit;                 /* at which it comes, of late, what is lost included; 0: not known */
    struct tt_link_period period, last; /* the present one, and the one before */
};

void tt_link_init(struct tt_link *link, uint32_t rate_kbit);

/* Receive queues of a group that uses the link hold so much. */
void tt_link_limit(struct tt_link *link, uint64_t queue_bytes);

/* Collectives that are being received: one more, one less. The time in which there was none says nothing. */
void tt_link_join(struct tt_link *link);
void tt_link_leave(struct tt_link *link);

/* So much of the link's traffic has come, in so many chunks, with headers; so many of these are here, the others were
 * lost. */
void tt_link_come(struct tt_link *link, uint32_t chunks, uint32_t received, uint64_t bytes, uint64_t now_ns);

/* Whether a window has come since this last said so; then what it took, and whether the link was idle meanwhile. */
bool tt_link_time_window(struct tt_link *link, uint64_t *taken_ns, bool *was_idle);

/* A window has come in `taken_ns`, and most roots had to wait: it doubles, but to no more than what comes in
 * TT_LINK_SHORT_NS. */
void tt_link_grow(struct tt_link *link, uint64_t taken_ns);

/* More chunks were lost than noise explains: a port was full. The window is halved; it has its size again if much less
 * comes with the half, for then it is others who fill the port. */
void tt_link_shrink(struct tt_link *link);

/* A window has come without that. */
void tt_link_calm(struct tt_link *link);

/*
 * Whether a collective may be released. Two at a time are enough to leave no gap, and more would only share the links,
 * so that each took as long as all: the others wait, in the order in which they first asked, whatever group they are
 * of.
 */
bool tt_link_take_turn(struct tt_link *link, struct tt_turn *turn);

/* It is over, or will never be released. */
void tt_link_end_turn(struct tt_link *link, struct tt_turn *turn);

/* Asserts what always holds. */
void tt_link_check(const struct tt_link *link);

#endif
