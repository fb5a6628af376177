/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The beginning of creating a group: who is there, on which terms, and where. HELLO tells digests of what must be the
 * same everywhere, and how much there is to say in the next rounds; TERMS the settings themselves and the table of
 * methods, where digests differ; PLACES names of hosts and their networks, where there are several hosts. From all that
 * the interface and the network follow.
 *
 * Failures: settings that differ are found by all ranks alike, each of which compares all with rank 0's: so each says
 * the same sentence, with the setting and both values, and no round more is needed. What goes wrong on one rank, here
 * an interface or a network, becomes its status, which it tells in the next round.
 */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/failure.h"
#include "engine/setup_private.h"

enum { SETUP_VERSION = 22, WORD_BYTES = 8, VALUE_BYTES = 24 };

/* FNV-1a. */
#define DIGEST_BASIS UINT64_C(0xCBF29CE484222325)
#define DIGEST_PRIME UINT64_C(0x100000001B3)

_Static_assert(sizeof(struct tt_setup_hello) == (size_t)TT_SETUP_FIRST_BYTES,
               "every byte of it goes from rank 0 to all ranks, for each of them");
_Static_assert(sizeof(struct tt_setup_terms) == 64 + sizeof(struct tt_choice), "a digest of it covers no padding");
_Static_assert(sizeof(struct tt_setup_terms) <= (size_t)TT_SETUP_MOST_BYTES, "room for the longest round");
_Static_assert((int)TT_LOCALITY_NAME_BYTES <= UINT8_MAX && (int)TT_LOCALITY_NETS <= UINT8_MAX, "numbers fit HELLO");

/* --- TERMS -------------------------------------------------------------------------------------------------------- */

static void copy_word(char word[WORD_BYTES], const char *text)
{
    snprintf(word, WORD_BYTES, "%.*s", WORD_BYTES - 1, text);
}

void tt_setup_produce_terms(const struct tt_setup *setup, struct tt_setup_terms *terms)
{
    const struct tt_settings *settings = &setup->engine->settings;
    const struct tt_choice *choice = &setup->engine->table.choice;

    memset(terms, 0, sizeof *terms);
    terms->chunk_bytes = settings->chunk_bytes;
    terms->subgroups = settings->subgroups != TT_AUTO ? settings->subgroups
                       : settings->workers > 0        ? settings->workers
                                                      : 1;
    terms->chains = settings->chains;
    terms->in_flight = settings->in_flight;
    terms->algorithm = settings->algorithm;
    copy_word(terms->mcast, settings->mcast);
    copy_word(terms->p2p, tt_network_p2p_wish(settings));
    copy_word(terms->deterministic, settings->deterministic);
    assert(choice->row_count <= TT_CHOICE_MAX_ROWS);
    terms->choice.row_count = choice->row_count;
    memcpy(terms->choice.rows, choice->rows, choice->row_count * sizeof choice->rows[0]);
}

static uint64_t digest_of(const struct tt_setup_terms *terms)
{
    const uint8_t *at = (const uint8_t *)terms;
    uint64_t digest = DIGEST_BASIS;

    for (size_t i = 0; i < sizeof *terms; i++) {
        digest = (digest ^ at[i]) * DIGEST_PRIME;
    }
    return digest;
}

static tutti_status disagree(const char *name, const char *first, const char *other, uint32_t rank)
{
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_MISMATCH, "%s is %s on rank 0 and %s on rank %u", name, first, other,
                    rank);
}

/* May use `text`. */
static const char *format_number(uint64_t number, char text[VALUE_BYTES])
{
    if (number == TT_AUTO || number == TT_CHUNK_FRAME) {
        return number == TT_AUTO ? "auto" : "frame";
    }
    snprintf(text, VALUE_BYTES, "%llu", (unsigned long long)number);
    return text;
}

static tutti_status compare_numbers(const struct tt_setup_terms *first, const struct tt_setup_terms *other,
                                    uint32_t rank)
{
    static const struct {
        const char *name;
        size_t offset;
    } settings[] = {{"TUTTI_CHUNK", offsetof(struct tt_setup_terms, chunk_bytes)},
                    {"TUTTI_SUBGROUPS (or TUTTI_WORKERS)", offsetof(struct tt_setup_terms, subgroups)},
                    {"TUTTI_CHAINS", offsetof(struct tt_setup_terms, chains)},
                    {"TUTTI_IN_FLIGHT", offsetof(struct tt_setup_terms, in_flight)}};
    char first_text[VALUE_BYTES], other_text[VALUE_BYTES];

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        uint64_t here, there;

        memcpy(&here, (const uint8_t *)first + settings[i].offset, sizeof here);
        memcpy(&there, (const uint8_t *)other + settings[i].offset, sizeof there);
        if (here != there) {
            return disagree(settings[i].name, format_number(here, first_text), format_number(there, other_text), rank);
        }
    }
    return TUTTI_OK;
}

static tutti_status compare_words(const struct tt_setup_terms *first, const struct tt_setup_terms *other, uint32_t rank)
{
    static const struct {
        const char *name;
        size_t offset;
    } settings[] = {{"TUTTI_MCAST", offsetof(struct tt_setup_terms, mcast)},
                    {"TUTTI_P2P (or TUTTI_UCX_TLS)", offsetof(struct tt_setup_terms, p2p)},
                    {"TUTTI_DETERMINISTIC", offsetof(struct tt_setup_terms, deterministic)}};
    char here[WORD_BYTES], there[WORD_BYTES];

    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        copy_word(here, (const char *)first + settings[i].offset);
        copy_word(there, (const char *)other + settings[i].offset);
        if (strcmp(here, there) != 0) {
            return disagree(settings[i].name, here, there, rank);
        }
    }
    return TUTTI_OK;
}

static tutti_status compare_terms(const struct tt_setup_terms *first, const struct tt_setup_terms *other, uint32_t rank)
{
    tutti_status status = compare_numbers(first, other, rank);

    if (status == TUTTI_OK) {
        status = compare_words(first, other, rank);
    }
    if (status == TUTTI_OK && other->algorithm != first->algorithm) {
        status = disagree("TUTTI_ALGORITHM", tt_algorithm_name((enum tt_algorithm)first->algorithm),
                          tt_algorithm_name((enum tt_algorithm)other->algorithm), rank);
    }
    return status;
}

tutti_status tt_setup_consume_terms(struct tt_setup *setup, const struct tt_setup_terms *all)
{
    struct tt_group *group = setup->group;

    for (uint32_t rank = 1; rank < group->size; rank++) {
        tutti_status status = compare_terms(&all[0], &all[rank], rank);

        if (status != TUTTI_OK) {
            return status;
        }
    }
    if (!tt_choice_is_sound(&all[0].choice)) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_BOOTSTRAP, "the table of methods that rank 0 sent is none: %u rows",
                        all[0].choice.row_count);
    }
    group->choice = all[0].choice;
    return TUTTI_OK;
}

/* --- HELLO -------------------------------------------------------------------------------------------------------- */

/* The settings, which may change while nobody holds the lock: the first group from the environment finds rank 0. */
static void copy_settings(struct tt_setup *setup, struct tt_settings *settings)
{
    tt_engine_lock(setup->engine);
    *settings = setup->engine->settings;
    tt_engine_unlock(setup->engine);
}

void tt_setup_find_place(struct tt_setup *setup)
{
    struct tt_locality *place = &setup->places[setup->group->rank];
    struct tt_settings settings;

    if (setup->engine->wakeup == NULL || setup->round > TT_SETUP_PLACES) {
        return;
    }
    copy_settings(setup, &settings);
    if (setup->round == TT_SETUP_HELLO) {
        setup->status = tt_locality_read(&settings, place);
    } else if (setup->round == TT_SETUP_PLACES) {
        tt_locality_find_verbs(&settings, place);
    }
}

void tt_setup_produce_hello(struct tt_setup *setup, struct tt_setup_hello *hello)
{
    struct tt_locality *place = &setup->places[setup->group->rank];
    struct tt_setup_terms terms;

    tt_setup_produce_terms(setup, &terms);
    hello->version = SETUP_VERSION;
    hello->rank = (uint16_t)setup->group->rank;
    hello->context_id = setup->engine->context_id;
    hello->digest = digest_of(&terms);
    hello->groups_before = (uint32_t)setup->engine->groups_created++;
    if (setup->engine->wakeup == NULL) {
        return; /* simulated: nobody is anywhere */
    }
    hello->status = (int16_t)setup->status;
    if (hello->status == TUTTI_OK) {
        hello->host = place->host;
        hello->chosen = place->chosen;
        hello->flags = (uint8_t)((place->chosen_verbs != 0 ? TT_SETUP_CHOSEN_VERBS : 0) |
                                 (place->chosen_multicast != 0 ? TT_SETUP_CHOSEN_MULTICAST : 0) |
                                 (place->chosen_ipv6 != 0 ? TT_SETUP_CHOSEN_IPV6 : 0));
        hello->name_bytes = (uint8_t)strnlen(place->name, TT_LOCALITY_NAME_BYTES - 1);
        hello->net_count = (uint8_t)place->net_count;
    }
}

/* Of a rank that has an error no more is looked at. */
void tt_setup_decline(uint32_t rank, tutti_status status, uint8_t bytes[TT_SETUP_FIRST_BYTES])
{
    struct tt_setup_hello hello = {.version = SETUP_VERSION, .rank = (uint16_t)rank, .status = (int16_t)status};

    memcpy(bytes, &hello, sizeof hello);
}

/* Before anything else of what was said is believed. */
tutti_status tt_setup_compare_versions(const struct tt_setup *setup, const struct tt_setup_hello *all)
{
    for (uint32_t rank = 0; rank < setup->group->size; rank++) {
        if (all[rank].version != all[0].version) {
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_MISMATCH,
                            "rank 0 speaks version %u of the setup, rank %u version %u", all[0].version, rank,
                            all[rank].version);
        }
        if (all[rank].rank != rank) {
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_BOOTSTRAP,
                            "the allgather put the contribution of rank %u at the place of rank %u", all[rank].rank,
                            rank);
        }
    }
    return TUTTI_OK;
}

static uint32_t count_local_ranks(const struct tt_group *group)
{
    uint32_t local = 0;

    for (uint32_t rank = 0; rank < group->size; rank++) {
        local += group->hosts[rank] == group->hosts[group->rank];
    }
    return local;
}

/* What HELLO says of where a rank is. */
static void note_place(struct tt_setup *setup, const struct tt_setup_hello *hello, uint32_t rank)
{
    struct tt_locality *place = &setup->places[rank];
    uint32_t name_bytes = hello->name_bytes < TT_LOCALITY_NAME_BYTES ? hello->name_bytes : TT_LOCALITY_NAME_BYTES - 1;
    uint32_t net_count = hello->net_count < TT_LOCALITY_NETS ? hello->net_count : TT_LOCALITY_NETS;

    if (rank != setup->group->rank) {
        *place = (struct tt_locality){.host = hello->host,
                                      .chosen = hello->chosen,
                                      .chosen_verbs = (hello->flags & TT_SETUP_CHOSEN_VERBS) != 0,
                                      .chosen_multicast = (hello->flags & TT_SETUP_CHOSEN_MULTICAST) != 0,
                                      .chosen_ipv6 = (hello->flags & TT_SETUP_CHOSEN_IPV6) != 0,
                                      .net_count = net_count};
    }
    setup->name_bytes = name_bytes > setup->name_bytes ? name_bytes : setup->name_bytes;
    setup->net_count = net_count > setup->net_count ? net_count : setup->net_count;
}

/* A context has one address, so it is one rank of a group. */
static tutti_status check_contexts(const struct tt_setup *setup, const struct tt_setup_hello *all)
{
    uint32_t own = setup->group->rank;

    for (uint32_t rank = 0; rank < setup->group->size; rank++) {
        if (rank != own && all[rank].context_id == all[own].context_id) {
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT,
                            "ranks %u and %u of the group have one context: each needs its own",
                            rank < own ? rank : own, rank < own ? own : rank);
        }
    }
    return TUTTI_OK;
}

/* Decides which rounds follow. */
void tt_setup_consume_hello(struct tt_setup *setup, const struct tt_setup_hello *all)
{
    struct tt_group *group = setup->group;
    struct tt_setup_terms terms;
    bool differ = false, spread = false;

    tt_setup_produce_terms(setup, &terms);
    setup->status = check_contexts(setup, all);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        setup->contexts[rank] = all[rank].context_id;
        group->hosts[rank] = setup->engine->wakeup != NULL ? all[rank].host : rank; /* or simulated */
        note_place(setup, &all[rank], rank);
        differ |= all[rank].digest != all[0].digest;
        spread |= all[rank].host != all[0].host;
    }
    if (!tt_locality_around(group->hosts, group->size, 0, group->around)) {
        free(group->around);
        group->around = NULL;
    }
    group->choice = terms.choice; /* rank 0's, too, unless digests differ */
    group->party.key = setup->key = tt_locality_key(all[0].context_id, all[0].groups_before);
    group->local_ranks = count_local_ranks(group);
    group->queue_count = (uint32_t)terms.subgroups;
    group->chains = terms.chains == TT_AUTO ? 0 : (uint32_t)terms.chains; /* 0: when the queues' depth is known */
    if (!spread) {
        setup->name_bytes = setup->net_count = 0; /* nobody needs them */
    }
    setup->round = differ ? TT_SETUP_TERMS : tt_setup_places_bytes(setup) > 0 ? TT_SETUP_PLACES : TT_SETUP_ADDRESS;
}

/* --- PLACES ------------------------------------------------------------------------------------------------------- */

size_t tt_setup_places_bytes(const struct tt_setup *setup)
{
    return setup->net_count * sizeof(struct tt_setup_net) + setup->name_bytes;
}

void tt_setup_produce_places(const struct tt_setup *setup, uint8_t *bytes)
{
    const struct tt_locality *place = &setup->places[setup->group->rank];

    for (uint32_t i = 0; i < place->net_count; i++) {
        struct tt_setup_net net = {.ip = place->nets[i].ip,
                                   .prefix_bits = (uint8_t)place->nets[i].prefix_bits,
                                   .flags = (uint8_t)((place->nets[i].verbs != 0 ? TT_SETUP_NET_VERBS : 0) |
                                                      (place->nets[i].multicast != 0 ? TT_SETUP_NET_MULTICAST : 0))};

        memcpy(bytes + i * sizeof net, &net, sizeof net);
    }
    memcpy(bytes + setup->net_count * sizeof(struct tt_setup_net), place->name,
           strnlen(place->name, setup->name_bytes));
}

static void take_place(const struct tt_setup *setup, const uint8_t *bytes, struct tt_locality *place)
{
    for (uint32_t i = 0; i < place->net_count; i++) {
        const struct tt_setup_net *net = (const struct tt_setup_net *)bytes + i;

        place->nets[i].ip = net->ip;
        place->nets[i].prefix_bits = net->prefix_bits;
        place->nets[i].verbs = (net->flags & TT_SETUP_NET_VERBS) != 0;
        place->nets[i].multicast = (net->flags & TT_SETUP_NET_MULTICAST) != 0;
    }
    memcpy(place->name, bytes + setup->net_count * sizeof(struct tt_setup_net), setup->name_bytes);
    tt_locality_clean(place->name);
}

/* Without memory for names sentences go without them. */
void tt_setup_consume_places(struct tt_setup *setup, const uint8_t *all)
{
    struct tt_group *group = setup->group;
    size_t bytes = tt_setup_places_bytes(setup);

    group->names = calloc(group->size, sizeof *group->names);
    for (uint32_t rank = 0; rank < group->size; rank++) {
        if (rank != group->rank) {
            take_place(setup, all + rank * bytes, &setup->places[rank]);
        }
        if (group->names != NULL) {
            memcpy(group->names[rank].text, setup->places[rank].name, sizeof group->names[rank].text);
        }
    }
}

/* --- The network -------------------------------------------------------------------------------------------------- */

/* What a network is for. */
struct network_wish {
    struct tt_interface interface;
    bool shared, verbs;
};

/* One that this engine has already, or NULL. Holds the lock. */
static struct tt_network *find_known(const struct tt_engine *engine, const struct network_wish *wish)
{
    for (uint32_t i = 0; i < engine->network_count; i++) {
        struct tt_network *network = engine->networks[i];

        if (network->borrowed || (network->shared >= wish->shared && network->verbs == wish->verbs &&
                                  network->interface.index == wish->interface.index &&
                                  tt_ip_is_equal(network->interface.ip, wish->interface.ip))) {
            return network;
        }
    }
    return NULL;
}

/* Makes one, while others go on: devices are opened. Holds the lock, but not meanwhile. */
static tutti_status make_network(struct tt_engine *engine, const struct tt_settings *settings,
                                 const struct network_wish *wish, struct tt_network **network)
{
    struct tt_network *made = NULL;
    tutti_status status;

    if (engine->network_count == TT_ENGINE_MAX_NETWORKS) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "a context can use %d interfaces, not more",
                        TT_ENGINE_MAX_NETWORKS);
    }
    assert(engine->wakeup != NULL); /* in the simulator there is one */
    tt_engine_unlock(engine);
    status = tt_network_create(settings, &wish->interface, wish->shared, wish->verbs, &made);
    tt_engine_lock(engine);
    if (status != TUTTI_OK) {
        return status;
    }
    status = tt_wakeup_add(engine->wakeup, made->p2p->ops->fd(made->p2p));
    if (status != TUTTI_OK) {
        tt_network_destroy(made);
        return status;
    }
    engine->networks[engine->network_count++] = made;
    *network = made;
    return TUTTI_OK;
}

/* The network that serves, made if this engine has none yet; by one thread at a time, which nobody waits for whose
 * network is there. */
static tutti_status find_network(struct tt_setup *setup, const struct tt_settings *settings,
                                 const struct network_wish *wish)
{
    struct tt_engine *engine = setup->engine;
    struct tt_network **network = &setup->group->network;
    tutti_status status = TUTTI_OK;

    assert(*network == NULL);
    tt_engine_lock(engine);
    *network = find_known(engine, wish);
    tt_engine_unlock(engine);
    if (*network != NULL) {
        return TUTTI_OK;
    }
    pthread_mutex_lock(&engine->networks_lock);
    tt_engine_lock(engine);
    *network = find_known(engine, wish); /* another thread may have made it */
    if (*network == NULL) {
        status = make_network(engine, settings, wish, network);
    }
    tt_engine_unlock(engine);
    pthread_mutex_unlock(&engine->networks_lock);
    return status;
}

/* Where some rank's interface does no multicast it is not tried. All ranks find the same. */
static tutti_status require_multicast(struct tt_setup *setup)
{
    enum tt_algorithm algorithm = setup->engine->settings.algorithm;
    char name[TT_RANK_TEXT_BYTES];
    uint32_t size = setup->group->size, stride_bytes = sizeof setup->places[0];
    uint32_t rank = tt_locality_without_multicast(setup->places, stride_bytes, size);

    if (rank == size || size == 1 || !setup->multicast) {
        return TUTTI_OK;
    }
    snprintf(setup->no_multicast, sizeof setup->no_multicast,
             tt_locality_uses_ipv6(setup->places, stride_bytes, size, rank)
                 ? "there is no multicast over IPv6, by which %s is reached"
                 : "the network interface of %s has no flag MULTICAST",
             tt_failure_rank(setup->group, rank, name));
    setup->multicast = false;
    return algorithm == TT_ALGORITHM_AUTO ? TUTTI_OK
                                          : tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED, "TUTTI_ALGORITHM=%s: %s",
                                                     tt_algorithm_name(algorithm), setup->no_multicast);
}

/* When it is known where all are. How long an address is follows from what all know alike, whatever fails here. */
tutti_status tt_setup_find_network(struct tt_setup *setup)
{
    struct tt_settings settings;
    struct tt_group *group = setup->group;
    struct network_wish wish = {.shared = group->local_ranks > 1};
    uint32_t stride_bytes = sizeof setup->places[0];
    tutti_status status;

    copy_settings(setup, &settings);
    wish.verbs = strcmp(settings.mcast, "verbs") == 0;
    if (setup->engine->wakeup == NULL) {
        setup->address_bytes = (uint32_t)setup->engine->networks[0]->address_bytes;
        return setup->status == TUTTI_OK ? find_network(setup, &settings, &wish) : setup->status;
    }
    if (strcmp(settings.mcast, "auto") == 0) {
        wish.verbs = tt_locality_has_verbs(setup->places, stride_bytes, group->size);
    }
    setup->address_bytes = tt_network_address_room(&settings, wish.verbs);
    if (setup->status != TUTTI_OK) {
        return setup->status; /* that this rank has failed is told in the place of its address */
    }
    status = tt_locality_choose(&settings, setup->places, stride_bytes, group->size, group->rank, &wish.interface);
    if (status == TUTTI_OK && !wish.verbs) {
        status = require_multicast(setup);
    }
    return status == TUTTI_OK ? find_network(setup, &settings, &wish) : status;
}
