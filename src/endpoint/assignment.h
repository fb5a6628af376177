/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Queue pair by queue pair, what the threads of one process get: whose it is, in which context, which doorbell register
 * the driver gives it, and what it shares there. Everything that a plan counts is counted here, a step a queue pair, so
 * that no table has to be kept.
 */
#ifndef TT_ENDPOINT_ASSIGNMENT_H
#define TT_ENDPOINT_ASSIGNMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "endpoint/category.h"
#include "endpoint/registers.h"

enum {
    TT_ENDPOINT_THREADS_MAX = 4096,
    TT_ENDPOINT_QUEUE_PAIRS_MAX = 64,    /* of a thread */
    TT_ENDPOINT_ALL_THREADS = UINT16_MAX /* a queue pair that every thread uses */
};

struct tt_endpoint_terms {
    enum tt_endpoint_category category;
    enum tt_endpoint_driver driver;
    uint32_t threads;                /* of one process: 1 to TT_ENDPOINT_THREADS_MAX */
    uint32_t queue_pairs_per_thread; /* 1 to TT_ENDPOINT_QUEUE_PAIRS_MAX; they share a completion queue */
    uint32_t total_uuars;            /* as tt_registers_init() wants it */
    uint32_t low_latency_uuars;      /* the same */
};

/* What two threads have in common on the way to the NIC. The four levels of section V, figure 4(b), are NOTHING and
 * CONTEXT (1), PAGE (2), UUAR (3), QUEUE_PAIR (4). */
enum tt_endpoint_sharing {
    TT_ENDPOINT_SHARES_NOTHING,
    TT_ENDPOINT_SHARES_CONTEXT,
    TT_ENDPOINT_SHARES_PAGE,
    TT_ENDPOINT_SHARES_UUAR,
    TT_ENDPOINT_SHARES_QUEUE_PAIR,
    TT_ENDPOINT_SHARING_COUNT
};

struct tt_endpoint_place {
    uint32_t queue_pair; /* counted through all contexts */
    uint32_t context;
    uint32_t thread; /* or TT_ENDPOINT_ALL_THREADS */
    bool idle;       /* made to keep its neighbours' pages apart, never used */
    bool first_use;  /* of its register, by a queue pair that is not idle */
    struct tt_register place;
    enum tt_endpoint_sharing shares; /* with threads whose queue pairs came before; of an idle one: nothing */
    uint32_t context_pages;          /* that the context has now */
    uint32_t context_domain_pages;   /* of these, those for thread domains */
};

struct tt_endpoint_assignment {
    struct tt_endpoint_terms terms;
    uint32_t next_thread, next_lane, next_queue_pair;
    bool next_is_idle;
    struct tt_registers registers; /* of the context at hand */
    /* Whose queue pair first used a register, as thread + 1; 0: nobody's. Domains are kept apart: theirs is the last
     * page only. */
    uint32_t owners[TT_UUARS_MAX + 2 * TT_UUARS_PER_PAGE];
    uint32_t domain_page, domain_owner;
};

void tt_endpoint_assignment_init(struct tt_endpoint_assignment *assignment, const struct tt_endpoint_terms *terms);

/* The next queue pair; false behind the last one. */
bool tt_endpoint_assignment_next(struct tt_endpoint_assignment *assignment, struct tt_endpoint_place *place);

/* "page"; and the paper's number of it */
const char *tt_endpoint_sharing_word(enum tt_endpoint_sharing sharing);
uint32_t tt_endpoint_sharing_level(enum tt_endpoint_sharing sharing);

#endif
