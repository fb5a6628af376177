/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The walk through a process's queue pairs.
 *
 * Normal path: thread by thread, queue pair by queue pair, an idle one behind each where the recipe says twice. A new
 * context begins with the first queue pair, or with each thread's. The register model says what the driver would do.
 *
 * Failures: none; terms out of range are a programmer's error.
 */
#include "endpoint/assignment.h"

#include <assert.h>
#include <string.h>

static const char *const sharing_words[TT_ENDPOINT_SHARING_COUNT] = {
    [TT_ENDPOINT_SHARES_NOTHING] = "nothing",
    [TT_ENDPOINT_SHARES_CONTEXT] = "context",
    [TT_ENDPOINT_SHARES_PAGE] = "page",
    [TT_ENDPOINT_SHARES_UUAR] = "uUAR",
    [TT_ENDPOINT_SHARES_QUEUE_PAIR] = "queue pair",
};

void tt_endpoint_assignment_init(struct tt_endpoint_assignment *assignment, const struct tt_endpoint_terms *terms)
{
    assert(terms->threads >= 1 && terms->threads <= TT_ENDPOINT_THREADS_MAX);
    assert(terms->queue_pairs_per_thread >= 1 && terms->queue_pairs_per_thread <= TT_ENDPOINT_QUEUE_PAIRS_MAX);
    memset(assignment, 0, sizeof(*assignment));
    assignment->terms = *terms;
}

static void begin_context(struct tt_endpoint_assignment *assignment)
{
    const struct tt_endpoint_terms *terms = &assignment->terms;

    tt_registers_init(&assignment->registers, terms->driver, terms->total_uuars, terms->low_latency_uuars);
    memset(assignment->owners, 0, sizeof(assignment->owners));
    assignment->domain_owner = 0;
}

static void take_register(struct tt_endpoint_assignment *assignment, enum tt_endpoint_domains domains,
                          struct tt_register *taken)
{
    struct tt_register companion;

    if (domains == TT_ENDPOINT_NO_DOMAINS) {
        tt_registers_take(&assignment->registers, taken);
        return;
    }
    tt_registers_take_domain(&assignment->registers, taken);
    if (domains == TT_ENDPOINT_WHOLE_PAGE_DOMAINS) {
        tt_registers_take_domain(&assignment->registers, &companion);
    }
}

/* What two threads share who are both in one context, and no further. */
static enum tt_endpoint_sharing shares_at_least(const struct tt_endpoint_place *place)
{
    return place->context == 0 && place->thread > 0 ? TT_ENDPOINT_SHARES_CONTEXT : TT_ENDPOINT_SHARES_NOTHING;
}

/* Of a register that only one domain has: the page's other one may be another thread's. */
static enum tt_endpoint_sharing note_domain(struct tt_endpoint_assignment *assignment, struct tt_endpoint_place *place)
{
    uint32_t owner = place->thread + 1;
    bool same_page = assignment->domain_owner != 0 && assignment->domain_page == place->place.page;
    bool shared = same_page && assignment->domain_owner != owner;

    place->first_use = true;
    assignment->domain_page = place->place.page;
    assignment->domain_owner = owner;
    return shared ? TT_ENDPOINT_SHARES_PAGE : shares_at_least(place);
}

static enum tt_endpoint_sharing note_owner(struct tt_endpoint_assignment *assignment, struct tt_endpoint_place *place)
{
    uint32_t owner = place->thread + 1, uuar = place->place.uuar;

    assert((uuar | 1) < sizeof(assignment->owners) / sizeof(assignment->owners[0]));
    uint32_t here = assignment->owners[uuar], beside = assignment->owners[uuar ^ 1];
    place->first_use = here == 0;
    if (here == 0) {
        assignment->owners[uuar] = owner;
    } else if (here != owner) {
        return TT_ENDPOINT_SHARES_UUAR;
    }
    return beside != 0 && beside != owner ? TT_ENDPOINT_SHARES_PAGE : shares_at_least(place);
}

static void note_sharing(struct tt_endpoint_assignment *assignment, struct tt_endpoint_place *place)
{
    place->first_use = false;
    place->shares = TT_ENDPOINT_SHARES_NOTHING;
    if (place->idle) {
        return;
    }
    bool is_domain = place->place.class == TT_REGISTER_DOMAIN;
    place->shares = is_domain ? note_domain(assignment, place) : note_owner(assignment, place);
    if (place->thread == TT_ENDPOINT_ALL_THREADS) {
        place->shares = assignment->terms.threads > 1 ? TT_ENDPOINT_SHARES_QUEUE_PAIR : TT_ENDPOINT_SHARES_NOTHING;
    }
}

/* Goes on to what follows the queue pair that was just given out. */
static void advance(struct tt_endpoint_assignment *assignment, const struct tt_endpoint_recipe *recipe)
{
    assignment->next_queue_pair++;
    if (recipe->twice && !assignment->next_is_idle) {
        assignment->next_is_idle = true;
        return;
    }
    assignment->next_is_idle = false;
    if (++assignment->next_lane == assignment->terms.queue_pairs_per_thread) {
        assignment->next_lane = 0;
        assignment->next_thread++;
    }
}

bool tt_endpoint_assignment_next(struct tt_endpoint_assignment *assignment, struct tt_endpoint_place *place)
{
    const struct tt_endpoint_recipe *recipe = tt_endpoint_recipe_of(assignment->terms.category);
    uint32_t thread = assignment->next_thread;

    if (thread == (recipe->one_for_all ? 1 : assignment->terms.threads)) {
        return false;
    }
    bool is_first = assignment->next_lane == 0 && !assignment->next_is_idle;
    if (is_first && (thread == 0 || recipe->context_per_thread)) {
        begin_context(assignment);
    }
    place->queue_pair = assignment->next_queue_pair;
    place->context = recipe->context_per_thread ? thread : 0;
    place->thread = recipe->one_for_all ? TT_ENDPOINT_ALL_THREADS : thread;
    place->idle = assignment->next_is_idle;
    take_register(assignment, recipe->domains, &place->place);
    note_sharing(assignment, place);
    place->context_pages = assignment->registers.page_count;
    place->context_domain_pages = assignment->registers.domain_pages;
    advance(assignment, recipe);
    return true;
}

const char *tt_endpoint_sharing_word(enum tt_endpoint_sharing sharing)
{
    assert((unsigned)sharing < TT_ENDPOINT_SHARING_COUNT);
    return sharing_words[sharing];
}

uint32_t tt_endpoint_sharing_level(enum tt_endpoint_sharing sharing)
{
    return sharing <= TT_ENDPOINT_SHARES_CONTEXT ? 1 : (uint32_t)sharing;
}
