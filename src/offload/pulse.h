/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pulses (Xu et al., section 1.3): a collective of m elements is cut so that a node never reduces more than C elements
 * at a time. A pulse has ceil(C / k) elements and k may be in flight, so there are ceil(m / ceil(C / k)) of them (the
 * paper's ceil(m / C) counts pulses of C elements). The controller gives each pulse a counter, which is its credit;
 * what is done of it is counted, and the credit comes back when all of it is.
 *
 * Credits that nodes gave to different jobs could leave every job waiting for a credit that another one has on another
 * node. So a job is admitted first: each one that is may always have a counter, and only what is left over by all of
 * them can be a second one. Who is not admitted tries again, and at last gives up with an error, as in the paper.
 */
#ifndef TT_OFFLOAD_PULSE_H
#define TT_OFFLOAD_PULSE_H

#include <stdbool.h>
#include <stdint.h>

enum { TT_PULSE_MOST_COUNTERS = 512 };

static inline uint64_t tt_pulse_elements(uint64_t capacity_elements, uint32_t in_flight)
{
    return (capacity_elements + in_flight - 1) / in_flight;
}

/* Of m elements; nothing is a pulse too. */
static inline uint64_t tt_pulse_count(uint64_t elements, uint64_t pulse_elements)
{
    return elements == 0 ? 1 : (elements + pulse_elements - 1) / pulse_elements;
}

struct tt_pulse_counter {
    bool is_taken;
    uint64_t elements, counted;
};

struct tt_pulses {
    uint64_t capacity_elements, pulse_elements;
    uint32_t counter_count; /* as many whole pulses as the capacity has, at most k */
    uint32_t taken;
    uint32_t admitted, idle; /* jobs; those of them without a counter */
    uint64_t elements;       /* in flight */
    struct tt_pulse_counter counters[TT_PULSE_MOST_COUNTERS];
};

/* 1 <= in_flight <= TT_PULSE_MOST_COUNTERS, and no more than the capacity, which is at least 1. */
void tt_pulses_init(struct tt_pulses *pulses, uint64_t capacity_elements, uint32_t in_flight);

/* False: every counter may be needed by those who are admitted already. */
bool tt_pulses_admit(struct tt_pulses *pulses);

/* A job without a counter leaves. */
void tt_pulses_dismiss(struct tt_pulses *pulses);

/*
 * A counter for a pulse of so many elements, at most pulse_elements, of a job that is admitted and has `held` counters.
 * False: none is left; never if it has none.
 */
bool tt_pulses_take(struct tt_pulses *pulses, uint32_t held, uint64_t elements, uint32_t *counter);

/* So many more elements are done; true: all of them, and the credit is back. `held` as before, with this one. */
bool tt_pulses_count(struct tt_pulses *pulses, uint32_t held, uint32_t counter, uint64_t elements);

/* Asserts that the counts agree and the capacity is kept. */
void tt_pulses_check(const struct tt_pulses *pulses);

#endif
