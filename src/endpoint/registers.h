/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A model of how mlx5 hands out doorbell registers within one context. A UAR page of 4 KiB has two that user space may
 * write to (uUARs; appendix A: the page's other two are the NIC's). Which one a queue pair gets decides what it shares
 * with another thread's: nothing, the page, or the register itself.
 *
 * Two drivers are known:
 *
 * legacy: the paper's. A context takes 8 pages (16 uUARs) at once. uUAR0 can ring only, without BlueFlame; the last 4
 *   are low-latency, for one queue pair each; those between are medium-latency, shared and locked (appendix B).
 * current: rdma-core since 2020, on kernels that give out single pages (its pull requests 727 and 874). A context takes
 * one page for doorbells without BlueFlame; queue pairs without a domain take pages as they come, two to a page: first
 * as many uUARs as there would have been low-latency ones, for one queue pair each (dedicated), then the others, shared
 * and locked, one page a queue pair until there are enough, and always the least loaded.
 *
 * With both a thread domain takes the next uUAR of pages that only domains use, so two consecutive ones share a page.
 * Nothing is ever given back in this model.
 */
#ifndef TT_ENDPOINT_REGISTERS_H
#define TT_ENDPOINT_REGISTERS_H

#include <stdbool.h>
#include <stdint.h>

enum tt_endpoint_driver { TT_ENDPOINT_LEGACY, TT_ENDPOINT_CURRENT, TT_ENDPOINT_DRIVER_COUNT };

enum {
    TT_UUARS_PER_PAGE = 2,
    TT_UUARS_DEFAULT = 16,            /* MLX5_TOTAL_UUARS */
    TT_UUARS_MAX = 512,               /* of it */
    TT_UUARS_LOW_LATENCY_DEFAULT = 4, /* MLX5_NUM_LOW_LAT_UUARS */
    TT_UUARS_MEDIUM_MAX = 12,         /* further ones are low-latency, whatever was asked for */
    TT_UAR_DOMAIN_PAGES_MAX = 512,    /* in a context of the legacy driver */
    TT_UAR_PAGES_OF_NIC = 8192        /* ConnectX-4, section III */
};

enum tt_register_class {
    TT_REGISTER_HIGH_LATENCY,
    TT_REGISTER_MEDIUM_LATENCY,
    TT_REGISTER_LOW_LATENCY,
    TT_REGISTER_DEDICATED,
    TT_REGISTER_SHARED,
    TT_REGISTER_DOMAIN,
    TT_REGISTER_CLASS_COUNT
};

/* The register that a queue pair got. */
struct tt_register {
    uint32_t uuar; /* its index in the context */
    uint32_t page; /* uuar / 2 */
    uint32_t load; /* queue pairs on it now, with this one */
    enum tt_register_class class;
    bool locked; /* whoever writes to it takes a lock */
};

/* A uUAR from which queue pairs without a domain are served. */
struct tt_register_slot {
    uint32_t uuar;
    uint32_t load;
};

struct tt_registers {
    enum tt_endpoint_driver driver;
    uint32_t total;        /* MLX5_TOTAL_UUARS */
    uint32_t low_latency;  /* as the driver understands the wish */
    uint32_t page_count;   /* taken so far */
    uint32_t domain_pages; /* of these, for domains */
    uint32_t domain_count;
    uint32_t domain_uuar;     /* the last domain's */
    uint32_t dedicated_count; /* current driver: uUARs that are for one queue pair each */
    uint32_t dedicated_uuar;  /* the last that was given away; */
    bool dedicated_waits;     /* and the one behind it is free */
    uint32_t slot_count;
    struct tt_register_slot slots[TT_UUARS_MAX + TT_UUARS_PER_PAGE];
};

/* What the driver makes of the two settings: it never has more than 12 medium-latency uUARs. */
uint32_t tt_registers_low_latency(uint32_t total, uint32_t asked);

/* A new context. `total` is even, from 2 to TT_UUARS_MAX; `low_latency` below `total`, as asked for. */
void tt_registers_init(struct tt_registers *registers, enum tt_endpoint_driver driver, uint32_t total,
                       uint32_t low_latency);

/* A queue pair outside of any thread domain. */
void tt_registers_take(struct tt_registers *registers, struct tt_register *taken);

/* A thread domain; its queue pairs all get this register. */
void tt_registers_take_domain(struct tt_registers *registers, struct tt_register *taken);

/* "legacy", "medium-latency"; parse() is false if there is no such driver, and sets *driver only on success. */
const char *tt_endpoint_driver_word(enum tt_endpoint_driver driver);
bool tt_endpoint_driver_parse(const char *text, enum tt_endpoint_driver *driver);
const char *tt_register_class_word(enum tt_register_class class);

#endif
