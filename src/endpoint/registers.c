/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model of the driver's register allocation.
 *
 * Normal path: init() takes the pages that a context takes at once; take() walks the driver's order of preference;
 * take_domain() goes on in the domains' own pages.
 *
 * Failures: none. A real driver runs out of pages (TT_UAR_DOMAIN_PAGES_MAX, TT_UAR_PAGES_OF_NIC); the model counts on,
 * so that a plan can say by how much.
 */
#include "endpoint/registers.h"

#include <assert.h>
#include <string.h>

static const char *const driver_words[TT_ENDPOINT_DRIVER_COUNT] = {
    [TT_ENDPOINT_LEGACY] = "legacy",
    [TT_ENDPOINT_CURRENT] = "current",
};

static const char *const class_words[TT_REGISTER_CLASS_COUNT] = {
    [TT_REGISTER_HIGH_LATENCY] = "high-latency",
    [TT_REGISTER_MEDIUM_LATENCY] = "medium-latency",
    [TT_REGISTER_LOW_LATENCY] = "low-latency",
    [TT_REGISTER_DEDICATED] = "dedicated",
    [TT_REGISTER_SHARED] = "shared",
    [TT_REGISTER_DOMAIN] = "thread-domain",
};

uint32_t tt_registers_low_latency(uint32_t total, uint32_t asked)
{
    uint32_t least = total > TT_UUARS_MEDIUM_MAX ? total - TT_UUARS_MEDIUM_MAX : 0;

    return asked > least ? asked : least;
}

void tt_registers_init(struct tt_registers *registers, enum tt_endpoint_driver driver, uint32_t total,
                       uint32_t low_latency)
{
    assert(total >= TT_UUARS_PER_PAGE && total <= TT_UUARS_MAX && total % TT_UUARS_PER_PAGE == 0);
    assert(low_latency < total);
    memset(registers, 0, sizeof(*registers));
    registers->driver = driver;
    registers->total = total;
    registers->low_latency = tt_registers_low_latency(total, low_latency);
    if (driver == TT_ENDPOINT_CURRENT) {
        registers->page_count = 1; /* for doorbells without BlueFlame; no queue pair of ours gets it */
        return;
    }
    registers->page_count = total / TT_UUARS_PER_PAGE;
    registers->slot_count = total;
    for (uint32_t i = 0; i < total; i++) {
        registers->slots[i].uuar = i;
    }
}

static uint32_t take_page(struct tt_registers *registers)
{
    return registers->page_count++ * TT_UUARS_PER_PAGE;
}

static void fill_in(struct tt_register *taken, uint32_t uuar, uint32_t load, enum tt_register_class class)
{
    taken->uuar = uuar;
    taken->page = uuar / TT_UUARS_PER_PAGE;
    taken->load = load;
    taken->class = class;
    /* The high-latency one is only rung, with single writes of eight bytes; the others that are shared need a lock. */
    taken->locked = class == TT_REGISTER_MEDIUM_LATENCY || class == TT_REGISTER_SHARED;
}

/* The least loaded of slots[first..end), and the first of these: as long as nothing is given back, this goes round. */
static struct tt_register_slot *least_loaded(struct tt_registers *registers, uint32_t first, uint32_t end)
{
    struct tt_register_slot *best = &registers->slots[first];

    for (uint32_t i = first + 1; i < end; i++) {
        if (registers->slots[i].load < best->load) {
            best = &registers->slots[i];
        }
    }
    return best;
}

static void take_legacy(struct tt_registers *registers, struct tt_register *taken)
{
    uint32_t first_low_latency = registers->total - registers->low_latency;

    for (uint32_t i = first_low_latency; i < registers->total; i++) {
        if (registers->slots[i].load == 0) {
            registers->slots[i].load = 1;
            fill_in(taken, i, 1, TT_REGISTER_LOW_LATENCY);
            return;
        }
    }
    /* uUAR0 serves only where the user left no medium-latency one. */
    bool has_medium = first_low_latency > 1;
    struct tt_register_slot *slot = has_medium ? least_loaded(registers, 1, first_low_latency) : &registers->slots[0];
    slot->load++;
    fill_in(taken, slot->uuar, slot->load, has_medium ? TT_REGISTER_MEDIUM_LATENCY : TT_REGISTER_HIGH_LATENCY);
}

static void take_current(struct tt_registers *registers, struct tt_register *taken)
{
    if (registers->dedicated_waits) {
        registers->dedicated_waits = false;
        fill_in(taken, registers->dedicated_uuar + 1, 1, TT_REGISTER_DEDICATED);
        return;
    }
    if (registers->dedicated_count < registers->low_latency) {
        registers->dedicated_uuar = take_page(registers);
        registers->dedicated_count += TT_UUARS_PER_PAGE;
        registers->dedicated_waits = true;
        fill_in(taken, registers->dedicated_uuar, 1, TT_REGISTER_DEDICATED);
        return;
    }
    if (registers->slot_count < registers->total - registers->low_latency) {
        uint32_t uuar = take_page(registers);

        for (uint32_t i = 0; i < TT_UUARS_PER_PAGE; i++) {
            registers->slots[registers->slot_count++] = (struct tt_register_slot){.uuar = uuar + i};
        }
    }
    struct tt_register_slot *slot = least_loaded(registers, 0, registers->slot_count);
    slot->load++;
    fill_in(taken, slot->uuar, slot->load, TT_REGISTER_SHARED);
}

void tt_registers_take(struct tt_registers *registers, struct tt_register *taken)
{
    if (registers->driver == TT_ENDPOINT_LEGACY) {
        take_legacy(registers, taken);
    } else {
        take_current(registers, taken);
    }
}

void tt_registers_take_domain(struct tt_registers *registers, struct tt_register *taken)
{
    if (registers->domain_count % TT_UUARS_PER_PAGE == 0) {
        registers->domain_uuar = take_page(registers);
        registers->domain_pages++;
    } else {
        registers->domain_uuar++;
    }
    registers->domain_count++;
    fill_in(taken, registers->domain_uuar, 1, TT_REGISTER_DOMAIN);
}

const char *tt_endpoint_driver_word(enum tt_endpoint_driver driver)
{
    assert((unsigned)driver < TT_ENDPOINT_DRIVER_COUNT);
    return driver_words[driver];
}

bool tt_endpoint_driver_parse(const char *text, enum tt_endpoint_driver *driver)
{
    for (unsigned i = 0; i < TT_ENDPOINT_DRIVER_COUNT; i++) {
        if (strcmp(text, driver_words[i]) == 0) {
            *driver = (enum tt_endpoint_driver)i;
            return true;
        }
    }
    return false;
}

const char *tt_register_class_word(enum tt_register_class class)
{
    assert((unsigned)class < TT_REGISTER_CLASS_COUNT);
    return class_words[class];
}
