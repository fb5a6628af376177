/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The six ways in which T threads take queues from a NIC (section VI of the paper on scalable endpoints), each as a
 * recipe: what is made for whom. What a recipe costs is plan.h's, making it create.h's.
 */
#ifndef TT_ENDPOINT_CATEGORY_H
#define TT_ENDPOINT_CATEGORY_H

#include <stdbool.h>
#include <stdint.h>

/* In the paper's order, from all of one's own to all shared. */
enum tt_endpoint_category {
    TT_ENDPOINT_MPI_EVERYWHERE,
    TT_ENDPOINT_2XDYNAMIC,
    TT_ENDPOINT_DYNAMIC,
    TT_ENDPOINT_SHARED_DYNAMIC,
    TT_ENDPOINT_STATIC,
    TT_ENDPOINT_MPI_THREADS,
    TT_ENDPOINT_CATEGORY_COUNT
};

/* How a queue pair comes to its doorbell register (uUAR). */
enum tt_endpoint_domains {
    TT_ENDPOINT_NO_DOMAINS,     /* the driver picks one of its own */
    TT_ENDPOINT_PAIRED_DOMAINS, /* a thread domain each; two domains share a page */
    /* A thread domain each, with a page to itself. Verbs cannot ask for that (the paper proposes a `sharing` attribute,
     * which was never merged), so a second domain, without a queue pair, holds the page's other register. It must live
     * as long as the first: the driver gives a register that is free again to the next domain. */
    TT_ENDPOINT_WHOLE_PAGE_DOMAINS
};

struct tt_endpoint_recipe {
    bool context_per_thread; /* else all threads are in one context */
    bool one_for_all;        /* all threads use the same queue pairs */
    bool twice;              /* each queue pair is followed by one that stays idle */
    enum tt_endpoint_domains domains;
};

const struct tt_endpoint_recipe *tt_endpoint_recipe_of(enum tt_endpoint_category category);

/* "shared-dynamic" */
const char *tt_endpoint_category_word(enum tt_endpoint_category category);

/* False if there is no such category; *category is set only on success. */
bool tt_endpoint_category_parse(const char *text, enum tt_endpoint_category *category);

#endif
