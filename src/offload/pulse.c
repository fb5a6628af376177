/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the pulse controller.
 *
 * Normal path: admit, then a counter for each pulse until its elements are counted, then dismiss.
 *
 * Failures: no counter, or no place for another job: false, and nothing changes.
 */
#include "offload/pulse.h"

#include <assert.h>

void tt_pulses_init(struct tt_pulses *pulses, uint64_t capacity_elements, uint32_t in_flight)
{
    assert(in_flight >= 1 && in_flight <= TT_PULSE_MOST_COUNTERS && in_flight <= capacity_elements);
    uint64_t pulse_elements = tt_pulse_elements(capacity_elements, in_flight);
    uint64_t whole = capacity_elements / pulse_elements;

    *pulses = (struct tt_pulses){.capacity_elements = capacity_elements,
                                 .pulse_elements = pulse_elements,
                                 .counter_count = (uint32_t)(whole < in_flight ? whole : in_flight)};
}

bool tt_pulses_admit(struct tt_pulses *pulses)
{
    /* Those that hold second counters give them back in time, but until then the newcomer might wait for them. */
    if (pulses->taken + pulses->idle >= pulses->counter_count) {
        return false;
    }
    pulses->admitted++;
    pulses->idle++;
    return true;
}

void tt_pulses_dismiss(struct tt_pulses *pulses)
{
    assert(pulses->idle > 0);
    pulses->admitted--;
    pulses->idle--;
}

bool tt_pulses_take(struct tt_pulses *pulses, uint32_t held, uint64_t elements, uint32_t *counter)
{
    uint32_t index = 0;

    assert(elements <= pulses->pulse_elements);
    if (held > 0 && pulses->taken + pulses->idle >= pulses->counter_count) {
        return false;
    }
    while (index < pulses->counter_count && pulses->counters[index].is_taken) {
        index++;
    }
    assert(index < pulses->counter_count);
    pulses->counters[index] = (struct tt_pulse_counter){.is_taken = true, .elements = elements};
    pulses->taken++;
    pulses->idle -= held == 0;
    pulses->elements += elements;
    *counter = index;
    return true;
}

bool tt_pulses_count(struct tt_pulses *pulses, uint32_t held, uint32_t counter, uint64_t elements)
{
    struct tt_pulse_counter *c = &pulses->counters[counter];

    assert(c->is_taken && held > 0 && elements <= c->elements - c->counted);
    c->counted += elements;
    if (c->counted < c->elements) {
        return false;
    }
    c->is_taken = false;
    pulses->taken--;
    pulses->idle += held == 1;
    pulses->elements -= c->elements;
    return true;
}

void tt_pulses_check(const struct tt_pulses *pulses)
{
    uint64_t elements = 0;
    uint32_t taken = 0;

    for (uint32_t i = 0; i < pulses->counter_count; i++) {
        const struct tt_pulse_counter *c = &pulses->counters[i];

        assert(!c->is_taken || c->counted < c->elements || c->elements == 0);
        elements += c->is_taken ? c->elements : 0;
        taken += c->is_taken;
    }
    assert(taken == pulses->taken && elements == pulses->elements && elements <= pulses->capacity_elements);
    assert(pulses->idle <= pulses->admitted && pulses->taken + pulses->idle <= pulses->counter_count);
    (void)elements;
    (void)taken;
}
