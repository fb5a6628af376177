/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rounds of creating a group. HELLO compares settings and chooses the interface, ADDRESS connects the neighbours
 * and prepares the queues, ATTACH joins the multicast subgroups. What goes wrong on a rank becomes its status, which it
 * tells in the next round; a port that is taken is no error but another attempt.
 */
#include "engine/setup_private.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/failure.h"

enum { SETUP_VERSION = 12, DEFAULT_CHUNK_BYTES = 8192, FRAME_CHUNK_BYTES = 8956, WORD_BYTES = 8 };

/* --- HELLO -------------------------------------------------------------------------------------------------------- */

void tt_setup_produce_hello(struct tt_setup *setup, struct tt_setup_hello *hello)
{
    const struct tt_settings *settings = &setup->engine->settings;

    hello->version = SETUP_VERSION;
    hello->context_id = setup->engine->context_id;
    hello->key = tt_locality_key(setup->engine->context_id, setup->engine->groups_created++);
    hello->chunk_bytes = settings->chunk_bytes;
    hello->subgroups = settings->subgroups != TT_AUTO ? settings->subgroups
                       : settings->workers > 0        ? settings->workers
                                                      : 1;
    hello->chains = settings->chains;
    hello->in_flight = settings->in_flight;
    hello->algorithm = settings->algorithm;
    hello->choice = setup->engine->table.choice;
    hello->rank = setup->group->rank;
    snprintf(hello->mcast, sizeof hello->mcast, "%.*s", (int)sizeof hello->mcast - 1, settings->mcast);
    snprintf(hello->p2p, sizeof hello->p2p, "%.*s", (int)sizeof hello->p2p - 1, tt_network_p2p_wish(settings));
    if (setup->engine->wakeup != NULL) {
        hello->status = tt_locality_read(settings, &hello->locality);
    }
}

/* Of texts that end within their bytes, or are as long as they. */
static tutti_status disagree(const char *name, const char mine[WORD_BYTES], uint32_t own_rank,
                             const char other[WORD_BYTES], uint32_t rank)
{
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_MISMATCH, "%s is %.*s on rank %u and %.*s on rank %u", name, WORD_BYTES,
                    mine, own_rank, WORD_BYTES, other, rank);
}

static tutti_status compare_hello(const struct tt_setup_hello *mine, const struct tt_setup_hello *other, uint32_t rank)
{
    static const struct {
        const char *name;
        size_t offset;
    } settings[] = {{"TUTTI_CHUNK", offsetof(struct tt_setup_hello, chunk_bytes)},
                    {"TUTTI_SUBGROUPS (or TUTTI_WORKERS)", offsetof(struct tt_setup_hello, subgroups)},
                    {"TUTTI_CHAINS", offsetof(struct tt_setup_hello, chains)},
                    {"TUTTI_IN_FLIGHT", offsetof(struct tt_setup_hello, in_flight)}};

    if (other->version != mine->version) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_MISMATCH,
                        "rank %u speaks version %u of the setup, rank %u version %u", mine->rank, mine->version, rank,
                        other->version);
    }
    if (other->rank != rank) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_BOOTSTRAP,
                        "the allgather put the contribution of rank %u at the place of rank %u", other->rank, rank);
    }
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++) {
        uint64_t here, there;

        memcpy(&here, (const uint8_t *)mine + settings[i].offset, sizeof here);
        memcpy(&there, (const uint8_t *)other + settings[i].offset, sizeof there);
        if (here != there) {
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_MISMATCH,
                            "%s is %lld on rank %u and %lld on rank %u (-1: auto, -2: frame)", settings[i].name,
                            (long long)here, mine->rank, (long long)there, rank);
        }
    }
    if (strncmp(other->mcast, mine->mcast, sizeof mine->mcast) != 0) {
        return disagree("TUTTI_MCAST", mine->mcast, mine->rank, other->mcast, rank);
    }
    if (strncmp(other->p2p, mine->p2p, sizeof mine->p2p) != 0) {
        return disagree("TUTTI_P2P (or TUTTI_UCX_TLS)", mine->p2p, mine->rank, other->p2p, rank);
    }
    if (other->algorithm != mine->algorithm) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_MISMATCH, "TUTTI_ALGORITHM is %s on rank %u and %s on rank %u",
                        tt_algorithm_name((enum tt_algorithm)mine->algorithm), mine->rank,
                        tt_algorithm_name((enum tt_algorithm)other->algorithm), rank);
    }
    return TUTTI_OK;
}

/* The network on this interface, made if this engine has none yet. */
static tutti_status find_network(struct tt_setup *setup, const struct tt_interface *interface, bool shared, bool verbs)
{
    struct tt_engine *engine = setup->engine;
    tutti_status status;

    assert(setup->group->network == NULL);
    for (uint32_t i = 0; i < engine->network_count; i++) {
        if (engine->networks[i]->borrowed ||
            (engine->networks[i]->shared >= shared && engine->networks[i]->verbs == verbs &&
             engine->networks[i]->interface.index == interface->index &&
             engine->networks[i]->interface.address_be == interface->address_be)) {
            setup->group->network = engine->networks[i];
            return TUTTI_OK;
        }
    }
    if (engine->network_count == TT_ENGINE_MAX_NETWORKS) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "a context can use %d interfaces, not more",
                        TT_ENGINE_MAX_NETWORKS);
    }
    assert(engine->wakeup != NULL); /* in the simulator there is one */
    status = tt_network_create(&engine->settings, interface, shared, verbs, &setup->group->network);
    if (status == TUTTI_OK) {
        int fd = setup->group->network->p2p->ops->fd(setup->group->network->p2p);

        engine->networks[engine->network_count++] = setup->group->network;
        status = tt_wakeup_add(engine->wakeup, fd);
    }
    return status;
}

static uint32_t count_local_ranks(const struct tt_group *group)
{
    uint32_t local = 0;

    for (uint32_t rank = 0; rank < group->size; rank++) {
        local += group->hosts[rank] == group->hosts[group->rank];
    }
    return local;
}

/* Where there are several hosts; without memory for it sentences go without names. */
static void note_names(struct tt_group *group, const struct tt_setup_hello *all)
{
    if (group->engine->wakeup == NULL || group->local_ranks == group->size) {
        return;
    }
    group->names = calloc(group->size, sizeof *group->names);
    for (uint32_t rank = 0; group->names != NULL && rank < group->size; rank++) {
        memcpy(group->names[rank].text, all[rank].locality.name, sizeof group->names[rank].text);
        tt_locality_clean(group->names[rank].text);
    }
}

/* Without the flag MULTICAST on each rank's interface multicast is not tried. All ranks find the same. */
static tutti_status require_flag(struct tt_setup *setup, const struct tt_setup_hello *all)
{
    char name[TT_RANK_TEXT_BYTES];
    uint32_t size = setup->group->size;
    uint32_t rank = tt_locality_without_multicast(&all[0].locality, sizeof *all, size);

    if (rank == size || size == 1 || !setup->multicast) {
        return TUTTI_OK;
    }
    if (setup->engine->settings.algorithm != TT_ALGORITHM_AUTO) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
                        "TUTTI_ALGORITHM=%s: the network interface of %s has no flag MULTICAST",
                        tt_algorithm_name(setup->engine->settings.algorithm),
                        tt_failure_rank(setup->group, rank, name));
    }
    setup->multicast = false;
    setup->flagless_rank = rank;
    return TUTTI_OK;
}

tutti_status tt_setup_consume_hello(struct tt_setup *setup, const struct tt_setup_hello *all)
{
    struct tt_group *group = setup->group;
    struct tt_interface interface = {0};
    tutti_status status = TUTTI_OK;
    bool verbs = strcmp(setup->engine->settings.mcast, "verbs") == 0;

    for (uint32_t rank = 0; rank < group->size; rank++) {
        status = compare_hello(&all[group->rank], &all[rank], rank);
        if (status != TUTTI_OK) {
            return status;
        }
        setup->contexts[rank] = all[rank].context_id;
        group->hosts[rank] = setup->engine->wakeup != NULL ? all[rank].locality.host : rank; /* or simulated */
    }
    if (!tt_choice_is_sound(&all[0].choice)) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_BOOTSTRAP, "the table of methods that rank 0 sent is none: %u rows",
                        all[0].choice.row_count);
    }
    group->choice = all[0].choice;
    group->party.key = setup->key = all[0].key;
    group->local_ranks = count_local_ranks(group);
    note_names(group, all);
    group->queue_count = (uint32_t)all[0].subgroups;
    group->chains = all[0].chains == TT_AUTO ? 0 : (uint32_t)all[0].chains; /* 0: when the queues' depth is known */
    if (setup->engine->wakeup != NULL) {
        uint32_t stride = sizeof(struct tt_setup_hello);

        status = tt_locality_choose(&setup->engine->settings, &all[0].locality, stride, group->size, group->rank,
                                    &interface);
        if (strcmp(setup->engine->settings.mcast, "auto") == 0) {
            verbs = tt_locality_has_verbs(&all[0].locality, stride, group->size);
        }
        if (status == TUTTI_OK && !verbs) {
            status = require_flag(setup, all);
        }
    }
    return status == TUTTI_OK ? find_network(setup, &interface, group->local_ranks > 1, verbs) : status;
}

/* --- ADDRESS ------------------------------------------------------------------------------------------------------ */

void tt_setup_produce_address(struct tt_setup *setup, struct tt_setup_address *address)
{
    struct tt_network *network = setup->group->network;
    struct tt_mcast_attributes attributes;

    if (network == NULL) {
        return;
    }
    assert(network->address_bytes <= sizeof address->bytes);
    network->mcast->ops->attributes(network->mcast, &attributes);
    address->max_chunk_bytes = attributes.max_chunk_bytes;
    address->length_bytes = (uint32_t)network->address_bytes;
    memcpy(address->bytes, network->address, network->address_bytes);
}

static tutti_status allocate_queues(struct tt_setup *setup)
{
    struct tt_group *group = setup->group;
    size_t words = (group->size + 63) / 64;

    assert(words > 0);
    assert(group->queues == NULL);
    if (!setup->multicast || group->size == 1) {
        group->queue_count = 0;
    }
    group->queues = aligned_alloc(64, (group->queue_count + 1) * sizeof *group->queues);
    group->heard = calloc((group->queue_count + 1) * words, sizeof *group->heard);
    group->probe_payload = calloc(1, group->chunk_bytes);
    if (group->queues == NULL || group->heard == NULL || group->probe_payload == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for %u subgroups", group->queue_count);
    }
    memset(group->queues, 0, (group->queue_count + 1) * sizeof *group->queues);
    for (uint32_t s = 0; s < group->queue_count; s++) {
        struct tt_receiver *receiver = &group->queues[s].receiver;

        receiver->rank = group->rank;
        receiver->size = group->size;
        receiver->probe_bytes = group->chunk_bytes;
        receiver->heard = group->heard + s * words;
    }
    return TUTTI_OK;
}

static tutti_status choose_chunk(struct tt_setup *setup, const struct tt_setup_address *all)
{
    uint64_t wanted = setup->engine->settings.chunk_bytes;
    uint32_t largest = UINT32_MAX;

    for (uint32_t rank = 0; rank < setup->group->size; rank++) {
        largest = all[rank].max_chunk_bytes < largest ? all[rank].max_chunk_bytes : largest;
    }
    if (wanted < TT_CHUNK_FRAME && wanted > largest && setup->multicast) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_CHUNK=%llu: the path carries chunks of at most %u bytes", (unsigned long long)wanted,
                        largest);
    }
    if (wanted >= TT_CHUNK_FRAME) {
        uint32_t most = wanted == TT_CHUNK_FRAME ? FRAME_CHUNK_BYTES : DEFAULT_CHUNK_BYTES;

        wanted = largest < most ? largest / 4 * 4 : most;
    }
    setup->group->chunk_bytes = (uint32_t)wanted;
    return TUTTI_OK;
}

static void init_member(struct tt_setup *setup)
{
    struct tt_group *group = setup->group;
    struct tt_member_config config = {.rank = group->rank,
                                      .size = group->size,
                                      .group = group->party.key,
                                      .in_flight = (uint32_t)setup->engine->settings.in_flight,
                                      .slots = group->slots,
                                      .copies = group->copy_entries,
                                      .pool = &setup->engine->early,
                                      .present = group->present,
                                      .heard = group->heard,
                                      .heard_count = group->queue_count,
                                      .multicast = group->queue_count > 0,
                                      .probe_timeout_ns = setup->engine->settings.probe_timeout_ns};

    tt_member_init(&group->member, &config);
}

tutti_status tt_setup_consume_address(struct tt_setup *setup, const struct tt_setup_address *all)
{
    struct tt_group *group = setup->group;
    tutti_status status = choose_chunk(setup, all);

    if (status == TUTTI_OK) {
        status = allocate_queues(setup);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (group->queue_count > 0) {
        status = tt_copies_init(&group->copies, group->network);
        group->queues[0].receiver.log.pool = &setup->engine->early;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    init_member(setup);
    status = tt_directory_init(&group->directory, group->size, setup->contexts, &all[0].length_bytes, all[0].bytes,
                               sizeof all[0]);
    for (uint32_t i = 0; status == TUTTI_OK && i < group->member.neighbour_count; i++) {
        uint32_t rank = group->member.neighbours[i];

        assert(rank != group->rank);
        assert(group->peers[rank] == NULL); /* each is named once */
        status = tt_directory_connect(&group->directory, group->network, rank, &group->peers[rank]);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    /* Frames of faster ranks come as soon as the last round has ended there. */
    status = tt_group_list(group);
    setup->listed = status == TUTTI_OK;
    return status;
}

/* --- ATTACH ------------------------------------------------------------------------------------------------------- */

void tt_setup_produce_attach(struct tt_setup *setup, struct tt_setup_attach *attach)
{
    struct tt_group *group = setup->group;
    struct tt_mcast_queue_options options = {.rank = group->rank, .chunk_bytes = group->chunk_bytes};
    uint8_t *names = (uint8_t *)(attach + 1);
    tutti_status status = setup->status;

    attach->depth_chunks = UINT32_MAX;
    attach->local_ranks = group->local_ranks;
    for (uint32_t s = 0; status == TUTTI_OK && s < group->queue_count; s++) {
        struct tt_queue *queue = &group->queues[s];
        uint32_t depth;

        status = tt_locality_address(&setup->engine->settings, setup->key, setup->attempt, s, &options.address);
        if (status == TUTTI_OK) {
            status = tt_queue_attach(queue, setup->engine, group->network->mcast, &options);
        }
        if (status == TUTTI_OK) {
            depth = queue->mcast->ops->depth_chunks(queue->mcast);
            attach->depth_chunks = depth < attach->depth_chunks ? depth : attach->depth_chunks;
            queue->mcast->ops->describe(queue->mcast, names + (size_t)s * TT_MCAST_NAME_BYTES);
        }
    }
    setup->status = status;
    attach->status = status;
}

/* Tells every queue who its members are: their names for it lie a rank's contribution apart. */
static tutti_status introduce_queues(struct tt_group *group, const uint8_t *all, uint32_t stride_bytes)
{
    tutti_status status = TUTTI_OK;

    for (uint32_t s = 0; status == TUTTI_OK && s < group->queue_count; s++) {
        const uint8_t *names = all + sizeof(struct tt_setup_attach) + (size_t)s * TT_MCAST_NAME_BYTES;

        status = tt_queue_introduce(&group->queues[s], group->engine, &group->party, names, stride_bytes, group->size);
    }
    return status;
}

/* At the busiest host: roots whose chunks come from others, or go out to them. On one host all share what is its link.
 */
static uint32_t count_port_roots(uint32_t size, uint32_t least_local, uint32_t most_local)
{
    uint32_t most_remote = size - least_local;

    if (least_local == size) {
        return size > 1 ? size - 1 : 1;
    }
    return most_remote > most_local ? most_remote : most_local;
}

tutti_status tt_setup_consume_attach(struct tt_setup *setup, const void *all)
{
    struct tt_group *group = setup->group;
    size_t stride_bytes = tt_setup_bytes(setup);
    uint32_t depth = UINT32_MAX, least_local = group->size, most_local = 1;
    bool in_use = false;

    assert(setup->listed); /* else this rank has told an error, and all have given up */
    for (uint32_t rank = 0; rank < group->size; rank++) {
        struct tt_setup_attach attach;

        memcpy(&attach, (const uint8_t *)all + rank * stride_bytes, sizeof attach);
        in_use |= attach.status == TUTTI_ERR_IN_USE;
        depth = attach.depth_chunks < depth ? attach.depth_chunks : depth;
        least_local = attach.local_ranks < least_local ? attach.local_ranks : least_local;
        most_local = attach.local_ranks > most_local ? attach.local_ranks : most_local;
    }
    if (in_use) {
        for (uint32_t s = 0; s < group->queue_count; s++) {
            tt_queue_detach(&group->queues[s], setup->engine);
        }
        setup->status = TUTTI_OK;
        setup->attempt++;
        return TUTTI_OK;
    }
    tt_link_limit(&group->network->link, (uint64_t)depth * group->chunk_bytes);
    /* Only all roots at once fill every link: with fewer, the active ones receive less than the others. */
    group->chains = group->chains == 0 || group->chains > group->size ? group->size : group->chains;
    group->port_roots = count_port_roots(group->size, least_local, most_local);
    return introduce_queues(group, all, (uint32_t)stride_bytes);
}
