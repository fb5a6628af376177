/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A library that stands for all ranks of a job of which the loop of `tutti bench` is one: it knows what was posted
 * when, and misbehaves on request. For programs that link no other.
 */
#ifndef TT_TESTS_FAKE_LIBRARY_H
#define TT_TESTS_FAKE_LIBRARY_H

#include <stdbool.h>
#include <stdint.h>

#include "tutti/reduction.h"
#include "tutti/tutti.h"

enum { RANKS = 4, NO_ROUND = -1, LATE_US = 100000000 };

enum role { ROLE_BARRIER, ROLE_MEASURED, ROLE_GATHER };

/* What the library was asked for, and how it is to behave. */
struct fake_library {
    uint32_t rank;  /* of the loop: 0, or another to be no root */
    int live;       /* contexts, groups and requests that were not given back */
    enum role last; /* of the request that was made last */
    int measured_inits;
    int round; /* measured posts so far */
    int gathers;
    bool aligned;      /* a barrier since the last measured post */
    bool was_poisoned; /* every receive byte was wrong before every measured post */
    uint64_t barrier_timeout_ns, gather_timeout_ns;
    tutti_counters counters;
    bool loses_less;      /* with every round: 10 chunks, 9, ... */
    int skip_in_round;    /* one byte is not delivered */
    uint8_t *skipped;     /* that one, */
    bool mends;           /* which the next barrier brings */
    int overrun_in_round; /* one byte too many is written */
    int fail_in_round;    /* rank 3 dies */
    bool late_at_first;   /* rank 3 takes LATE_US longer in the first iteration of every size */
    tutti_status group_status;
    int failed_rank;
};
extern struct fake_library fake;

/* Reductions here are of int32. What the loop says about them is kept, for a test to look at. */
struct fake_asked {
    uint64_t count;
    tutti_type type;
    tutti_operation operation;
    tutti_reduction_options options;
    const void *send;
    void *receive;
    uint32_t root;
};
extern struct fake_asked asked;

#endif
