/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a category costs, before anything is created: counted over the assignment, which knows the recipe and the
 * driver's model. A pure function of its terms.
 */
#ifndef TT_ENDPOINT_PLAN_H
#define TT_ENDPOINT_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "endpoint/assignment.h"

enum { TT_ENDPOINT_RANKS_MAX = 65536 };

/* Table I: bytes of main memory that mlx5 takes for each. */
enum {
    TT_ENDPOINT_CONTEXT_BYTES = 256 * 1024,
    TT_ENDPOINT_DOMAIN_BYTES = 144, /* a protection domain */
    TT_ENDPOINT_REGION_BYTES = 144, /* a memory region */
    TT_ENDPOINT_QUEUE_PAIR_BYTES = 80 * 1024,
    TT_ENDPOINT_COMPLETION_QUEUE_BYTES = 9 * 1024
};

/* Of all ranks of a node together. */
struct tt_endpoint_plan {
    uint64_t contexts;
    uint64_t protection_domains; /* one a context, as it costs nothing to share one (section V-C) */
    uint64_t memory_regions;     /* the same (V-D) */
    uint64_t queue_pairs;
    uint64_t completion_queues;
    uint64_t thread_domains; /* each has a queue pair */
    uint64_t idle_domains;   /* further ones, which only hold the other half of a page */
    uint64_t uar_pages;
    uint64_t uuars_allocated;
    uint64_t uuars_assigned; /* some queue pair has it, idle or not */
    uint64_t uuars_used; /* by queue pairs that are not idle; at most 15 of 16 that the driver picks from: see plan.c */
    uint64_t uuars_wasted; /* allocated - used */
    uint64_t bytes;
    enum tt_endpoint_sharing sharing; /* the most that two threads of a rank share */
    uint32_t domain_pages;            /* of one context */
    bool fits_context;                /* not more of these than the driver gives a context */
    bool fits_nic;                    /* not more pages than the paper's NIC has */
};

/* `ranks` is from 1 to TT_ENDPOINT_RANKS_MAX; each has its own `terms->threads`. */
void tt_endpoint_plan(const struct tt_endpoint_terms *terms, uint32_t ranks, struct tt_endpoint_plan *plan);

#endif
