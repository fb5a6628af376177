/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creating a group. Normal path: HELLO, ADDRESS, ATTACH, then the probe over p2p; TERMS and PLACES come in between
 * where they have something to say. Failures: ranks with different settings or versions, which all ranks find alike and
 * say in the same words; no interface that reaches all, ports that are taken (tried again with others), whatever the
 * providers report: of these each rank's status travels in the next round, and all ranks return the error of the lowest
 * rank that has one.
 */
#include "engine/setup_private.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "engine/failure.h"

enum { MAX_ATTEMPTS = 8, DEAFNESS_BYTES = 2 * TT_RANK_TEXT_BYTES + 64 };

/* Whether the setting ALGORITHM asks for what is not possible without. */
static bool needs_multicast(const struct tt_engine *engine)
{
    return tt_method_row(tt_method_of_algorithm(engine->settings.algorithm))->multicasts;
}

bool tt_setup_may_multicast(const struct tt_engine *engine)
{
    return engine->settings.algorithm == TT_ALGORITHM_AUTO || needs_multicast(engine);
}

static void free_setup(struct tt_setup *setup)
{
    if (setup != NULL) {
        free(setup->contexts);
        free(setup->places);
        free(setup);
    }
}

tutti_status tt_setup_begin(struct tt_engine *engine, uint32_t rank, uint32_t size, struct tt_setup **setup)
{
    struct tt_setup *made = calloc(1, sizeof *made);
    struct tt_group *group = calloc(1, sizeof *group);
    tutti_status status = tt_engine_reserve(engine, size);

    assert(rank < size);
    if (status == TUTTI_OK && made != NULL && group != NULL) {
        made->contexts = calloc(size, sizeof *made->contexts);
        made->places = calloc(size, sizeof *made->places);
        group->peers = calloc(size, sizeof(struct tt_peer *));
        group->hosts = calloc(size, sizeof *group->hosts);
        group->around = calloc(size, sizeof *group->around);
        group->present = calloc((size + 7) / 8, 1);
        group->slots = calloc(tt_member_slots((uint32_t)engine->settings.in_flight), sizeof *group->slots);
        group->copy_entries =
            calloc(tt_eager_capacity((uint32_t)engine->settings.in_flight), sizeof *group->copy_entries);
    }
    if (status != TUTTI_OK || made == NULL || group == NULL || made->contexts == NULL || made->places == NULL ||
        group->peers == NULL || group->hosts == NULL || group->around == NULL || group->present == NULL ||
        group->slots == NULL || group->copy_entries == NULL) {
        if (group != NULL) {
            tt_group_free(group);
        }
        free_setup(made);
        return status != TUTTI_OK
                   ? status
                   : tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a group of %u ranks", size);
    }
    group->engine = engine;
    group->active_end = &group->active;
    group->rank = rank;
    group->size = size;
    group->probe_failed_rank = group->trouble_rank = TT_RANK_NONE;
    group->party.deadline_ns = TT_NEVER;
    atomic_store(&group->failed_rank, -1);
    made->engine = engine;
    made->group = group;
    made->round = TT_SETUP_HELLO;
    made->multicast = tt_setup_may_multicast(engine);
    *setup = made;
    return TUTTI_OK;
}

static size_t bytes_of_round(const struct tt_setup *setup)
{
    switch (setup->round) {
    case TT_SETUP_HELLO:
        return sizeof(struct tt_setup_hello);
    case TT_SETUP_TERMS:
        return sizeof(struct tt_setup_terms);
    case TT_SETUP_PLACES:
        return tt_setup_places_bytes(setup);
    case TT_SETUP_ADDRESS:
        return sizeof(struct tt_setup_address) + setup->address_bytes;
    case TT_SETUP_ATTACH:
        return sizeof(struct tt_setup_attach) + (size_t)setup->name_count * TT_MCAST_NAME_BYTES;
    default:
        return 0;
    }
}

size_t tt_setup_bytes(const struct tt_setup *setup)
{
    size_t bytes = bytes_of_round(setup);

    assert(bytes <= (size_t)TT_SETUP_MOST_BYTES);
    return bytes;
}

/* --- Rounds ------------------------------------------------------------------------------------------------------- */

void tt_setup_produce(struct tt_setup *setup, void *bytes)
{
    assert(setup->round != TT_SETUP_NONE);
    memset(bytes, 0, tt_setup_bytes(setup));
    tt_setup_find_place(setup);
    tt_setup_attach(setup);
    tt_engine_lock(setup->engine);
    switch (setup->round) {
    case TT_SETUP_HELLO:
        tt_setup_produce_hello(setup, bytes);
        break;
    case TT_SETUP_TERMS:
        tt_setup_produce_terms(setup, bytes);
        break;
    case TT_SETUP_PLACES:
        tt_setup_produce_places(setup, bytes);
        break;
    case TT_SETUP_ADDRESS:
        ((struct tt_setup_address *)bytes)->status = (int16_t)setup->status;
        tt_setup_produce_address(setup, bytes);
        break;
    case TT_SETUP_ATTACH:
        tt_setup_produce_attach(setup, bytes);
        break;
    case TT_SETUP_NONE:
        break;
    }
    tt_engine_unlock(setup->engine);
}

/* The error of the lowest rank that reports one in this round, if it is not to be tried again. */
static tutti_status check_statuses(const struct tt_setup *setup, const uint8_t *all)
{
    char name[TT_RANK_TEXT_BYTES];
    size_t offset = setup->round == TT_SETUP_HELLO ? offsetof(struct tt_setup_hello, status) : 0;
    bool may_attach_again = setup->round == TT_SETUP_ATTACH && setup->attempt + 1 < MAX_ATTEMPTS;

    for (uint32_t rank = 0; rank < setup->group->size; rank++) {
        int16_t status;

        memcpy(&status, all + rank * tt_setup_bytes(setup) + offset, sizeof status);
        if (status == TUTTI_OK || (may_attach_again && status == TUTTI_ERR_IN_USE)) {
            continue;
        }
        if (!tt_status_exists(status)) {
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_BOOTSTRAP,
                            "%s: its part of the exchange came damaged (status %d)",
                            tt_failure_rank(setup->group, rank, name), status);
        }
        if (rank == setup->group->rank && status == TUTTI_ERR_IN_USE) {
            TT_LOG(TT_PART_ENGINE, TT_LOG_ERROR, "%s", tt_last_error()); /* it was none while there were other ports */
        }
        if (rank == setup->group->rank || status == setup->status) {
            return (tutti_status)status; /* said already; most of what all ranks come to has one reason */
        }
        return tt_error(TT_PART_ENGINE, (tutti_status)status, "%s could not create the group: %s",
                        tt_failure_rank(setup->group, rank, name), tutti_status_text((tutti_status)status));
    }
    return TUTTI_OK;
}

/* Who is there, and on which terms: what is wrong with that all ranks find, and end with. Then where they are, and the
 * network, as soon as the rounds that tell have been. */
static tutti_status consume_beginning(struct tt_setup *setup, const void *all)
{
    tutti_status status = TUTTI_OK;

    switch (setup->round) {
    case TT_SETUP_HELLO:
        status = tt_setup_compare_versions(setup, all);
        if (status == TUTTI_OK) {
            status = check_statuses(setup, all);
        }
        if (status == TUTTI_OK) {
            tt_setup_consume_hello(setup, all);
        }
        break;
    case TT_SETUP_TERMS:
        status = tt_setup_consume_terms(setup, all);
        setup->round = tt_setup_places_bytes(setup) > 0 ? TT_SETUP_PLACES : TT_SETUP_ADDRESS;
        break;
    default:
        tt_setup_consume_places(setup, all);
        setup->round = TT_SETUP_ADDRESS;
        break;
    }
    return status;
}

/* What goes wrong from then on is told in the next round, so that all ranks end together. */
static tutti_status consume_rest(struct tt_setup *setup, const void *all)
{
    tutti_status status = check_statuses(setup, all);
    uint32_t attempt = setup->attempt;

    if (status != TUTTI_OK) {
        setup->all_know = true;
        return status;
    }
    if (setup->round == TT_SETUP_ADDRESS) {
        setup->status = tt_setup_consume_address(setup, all);
        setup->round = TT_SETUP_ATTACH;
        return TUTTI_OK;
    }
    setup->status = tt_setup_consume_attach(setup, all);
    setup->round = setup->attempt == attempt ? TT_SETUP_NONE : TT_SETUP_ATTACH;
    return setup->round == TT_SETUP_NONE ? setup->status : TUTTI_OK;
}

tutti_status tt_setup_consume(struct tt_setup *setup, const void *all)
{
    tutti_status status;

    assert(setup->round != TT_SETUP_NONE);
    tt_engine_lock(setup->engine);
    status = setup->round < TT_SETUP_ADDRESS ? consume_beginning(setup, all) : consume_rest(setup, all);
    tt_setup_check(setup);
    tt_engine_unlock(setup->engine);
    if (status == TUTTI_OK && setup->round == TT_SETUP_ADDRESS) { /* all is known by now */
        setup->status = tt_setup_find_network(setup);
    }
    return status;
}

bool tt_setup_done(const struct tt_setup *setup)
{
    return setup->round == TT_SETUP_NONE;
}

/* --- Probe -------------------------------------------------------------------------------------------------------- */

void tt_setup_probe(struct tt_setup *setup)
{
    struct tt_member_event event = {.type = TT_MEMBER_PROBE, .now_ns = tt_engine_now(setup->engine)};

    assert(setup->round == TT_SETUP_NONE);
    assert(setup->listed);
    tt_group_step(setup->group, &event);
}

bool tt_setup_probed(const struct tt_setup *setup)
{
    return setup->group->probed || setup->group->member.status != TUTTI_OK;
}

/* "does not get through to rank 1 on h1, which does not hear rank 0 on h0": who does not hear whom. */
static const char *describe_deafness(const struct tt_group *group, char text[DEAFNESS_BYTES])
{
    char deaf[TT_RANK_TEXT_BYTES], failed[TT_RANK_TEXT_BYTES];

    tt_failure_rank(group, group->probe_deaf_rank, deaf);
    tt_failure_rank(group, group->probe_failed_rank, failed);
    if (group->probe_deaf_count >= group->size) {
        (void)snprintf(text, DEAFNESS_BYTES, "does not get through to any rank");
    } else if (group->size > 2 && group->probe_deaf_count == group->size - 1) {
        (void)snprintf(text, DEAFNESS_BYTES, "does not get through from %s", failed);
    } else {
        (void)snprintf(text, DEAFNESS_BYTES, "does not get through to %s%s, which does not hear %s", deaf,
                       group->probe_deaf_count > 1 ? " and others" : "", failed);
    }
    return text;
}

/* `no_multicast`: why it was not tried though asked for; or empty. */
static void say_what_is_used(const struct tt_group *group, const char *no_multicast)
{
    const char *mcast = group->network->mcast_name, *p2p = group->network->p2p->ops->name;
    char interface[TT_INTERFACE_TEXT_BYTES] = "simulated", deafness[DEAFNESS_BYTES], mtu[TT_MTU_TEXT_BYTES];
    bool tried = group->queue_count > 0;

    if (group->rank != 0) {
        return;
    }
    if (group->engine->wakeup != NULL) {
        tt_interface_format(&group->network->interface, interface);
    }
    if (group->multicast) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_INFO,
               "group of %u: multicast over %s on %s, chunks of %u bytes, %u subgroups, %u chains; repair over %s",
               group->size, mcast, interface, group->chunk_bytes, group->queue_count, group->chains, p2p);
    } else if (no_multicast[0] != '\0') {
        TT_LOG(TT_PART_ENGINE, TT_LOG_WARN, "group of %u: %s: going point to point over %s", group->size, no_multicast,
               p2p);
    } else if (tried) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_WARN,
               "group of %u: multicast on %s %s: going point to point over %s; "
               "`tutti doctor --job` looks for the cause%s",
               group->size, interface, describe_deafness(group, deafness), p2p, tt_failure_mtu(group, mtu));
    } else {
        TT_LOG(TT_PART_ENGINE, TT_LOG_INFO, "group of %u: point-to-point %s over %s, as asked for", group->size,
               group->engine->settings.algorithm == TT_ALGORITHM_TREE ? "tree, ring and chain" : "ring and chain", p2p);
    }
}

tutti_status tt_setup_take(struct tt_setup *setup, struct tt_group **group)
{
    struct tt_group *made = setup->group;
    char deafness[DEAFNESS_BYTES];
    tutti_status status = TUTTI_OK;

    assert(tt_setup_probed(setup));
    if (!made->probed) {
        status = tt_error_note(made->member.status, "%s", made->failure_text);
    } else if (needs_multicast(setup->engine) && !made->multicast && made->size > 1) {
        status = tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED, "TUTTI_ALGORITHM=%s: multicast %s",
                          tt_algorithm_name(setup->engine->settings.algorithm), describe_deafness(made, deafness));
    }
    if (status != TUTTI_OK) {
        tt_setup_end(setup);
        return status;
    }
    made->multicast = made->multicast && made->size > 1;
    say_what_is_used(made, setup->no_multicast);
    if (made->engine->workers == NULL) { /* who otherwise may feed its queues just now */
        tt_group_check(made);
    }
    free_setup(setup);
    *group = made;
    return TUTTI_OK;
}

tutti_status tt_setup_timed_out(struct tt_setup *setup)
{
    uint32_t rank = tt_probe_waits_for(&setup->group->member.probe);
    char own[TT_RANK_TEXT_BYTES], name[TT_RANK_TEXT_BYTES];

    setup->all_know = true; /* it comes to all of them at the same time; each says whom it waited for */
    if (rank == TT_RANK_NONE) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_TIMED_OUT, "the group was not ready in time");
    }
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_TIMED_OUT, "the group was not ready in time: %s waited for %s",
                    tt_failure_rank(setup->group, setup->group->rank, own), tt_failure_rank(setup->group, rank, name));
}

void tt_setup_give_up(struct tt_setup *setup, tutti_status status)
{
    struct tt_group *group = setup->group;
    struct tt_member_event event = {.type = TT_MEMBER_FAIL,
                                    .now_ns = tt_engine_now(setup->engine),
                                    .status = status,
                                    .rank = group->rank,
                                    .noticed_by = group->rank};

    if (setup->listed && !setup->all_know && group->member.status == TUTTI_OK) {
        tt_group_step(group, &event); /* to those that probe, and would wait for this rank */
    }
    tt_setup_end(setup);
}

void tt_setup_end(struct tt_setup *setup)
{
    if (setup->listed) {
        tt_group_leave(setup->group);
    } else {
        tt_group_free(setup->group);
    }
    free_setup(setup);
}

/* --- Checks ------------------------------------------------------------------------------------------------------- */

void tt_setup_check(const struct tt_setup *setup)
{
    const struct tt_group *group = setup->group;

    assert(setup->engine == group->engine);
    assert(setup->round <= TT_SETUP_NONE);
    assert(setup->attempt < MAX_ATTEMPTS);
    assert(setup->listed == group->party.awake || setup->engine->wakeup != NULL); /* in virtual time nobody sleeps */
    assert(!setup->listed || setup->round >= TT_SETUP_ATTACH);
    if (setup->round == TT_SETUP_ATTACH && setup->status == TUTTI_OK) {
        assert(setup->listed); /* frames of faster ranks may come */
        assert(group->network != NULL);
        assert(group->queues != NULL);
        tt_directory_check(&group->directory);
    }
    if (setup->round == TT_SETUP_NONE && setup->status == TUTTI_OK) {
        assert(group->chains > 0);
        assert(group->chains <= group->size);
        assert(group->port_roots > 0);
    }
}
