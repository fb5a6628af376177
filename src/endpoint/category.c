/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The categories as a table.
 *
 * Normal path: look-ups. The word is the one that users write.
 *
 * Failures: a text that is no category's word.
 */
#include "endpoint/category.h"

#include <assert.h>
#include <string.h>

static const struct {
    const char *word;
    struct tt_endpoint_recipe recipe;
} categories[TT_ENDPOINT_CATEGORY_COUNT] = {
    [TT_ENDPOINT_MPI_EVERYWHERE] = {"mpi-everywhere", {.context_per_thread = true}},
    /* The idle half keeps the pages that are written to apart, which section V-B found to be worth 15 %. */
    [TT_ENDPOINT_2XDYNAMIC] = {"2xdynamic", {.twice = true, .domains = TT_ENDPOINT_WHOLE_PAGE_DOMAINS}},
    [TT_ENDPOINT_DYNAMIC] = {"dynamic", {.domains = TT_ENDPOINT_WHOLE_PAGE_DOMAINS}},
    [TT_ENDPOINT_SHARED_DYNAMIC] = {"shared-dynamic", {.domains = TT_ENDPOINT_PAIRED_DOMAINS}},
    [TT_ENDPOINT_STATIC] = {"static", {.domains = TT_ENDPOINT_NO_DOMAINS}},
    [TT_ENDPOINT_MPI_THREADS] = {"mpi+threads", {.one_for_all = true}},
};

const struct tt_endpoint_recipe *tt_endpoint_recipe_of(enum tt_endpoint_category category)
{
    assert((unsigned)category < TT_ENDPOINT_CATEGORY_COUNT);
    return &categories[category].recipe;
}

const char *tt_endpoint_category_word(enum tt_endpoint_category category)
{
    assert((unsigned)category < TT_ENDPOINT_CATEGORY_COUNT);
    return categories[category].word;
}

bool tt_endpoint_category_parse(const char *text, enum tt_endpoint_category *category)
{
    for (unsigned i = 0; i < TT_ENDPOINT_CATEGORY_COUNT; i++) {
        if (strcmp(text, categories[i].word) == 0) {
            *category = (enum tt_endpoint_category)i;
            return true;
        }
    }
    return false;
}
