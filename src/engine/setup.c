/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Creating a group. Normal path: HELLO, ADDRESS, ATTACH, then the probe over p2p. Failures: ranks with different
 * settings or versions, no interface that reaches all, ports that are taken (tried again with others), whatever the
 * providers report; each rank's status travels in the next round, and all ranks return the error of the lowest rank
 * that has one.
 */
#include "engine/setup.h"

#include <assert.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "engine/failure.h"
#include "engine/locality.h"
#include "engine/worker.h"

enum { SETUP_VERSION = 1, MAX_ATTEMPTS = 8, DEFAULT_CHUNK_BYTES = 8192, DEFAULT_CHAINS = 4 };

enum round { ROUND_HELLO, ROUND_ADDRESS, ROUND_ATTACH, ROUND_NONE };

struct hello {
    uint32_t version;
    int32_t status;
    uint64_t context_id;
    uint64_t key; /* rank 0's counts */
    uint64_t chunk_bytes, subgroups, chains, in_flight;
    uint32_t algorithm;
    uint32_t rank;
    struct tt_locality locality;
};

struct address {
    int32_t status;
    uint32_t max_chunk_bytes;
    uint32_t length_bytes;
    uint8_t bytes[TT_P2P_MAX_ADDRESS_BYTES];
};

struct attach {
    int32_t status;
    uint32_t depth_chunks;
};

struct tt_setup {
    struct tt_engine *engine;
    struct tt_group *group;
    bool listed; /* in the engine's list */
    enum round round;
    tutti_status status; /* this rank's, to be told in the next round */
    uint32_t attempt;    /* of ATTACH */
    bool multicast;      /* worth trying */
    uint64_t key;
    uint64_t *contexts; /* by rank */
};

tutti_status tt_setup_begin(struct tt_engine *engine, uint32_t rank, uint32_t size, struct tt_setup **setup)
{
    struct tt_setup *made = calloc(1, sizeof *made);
    struct tt_group *group = calloc(1, sizeof *group);
    tutti_status status = tt_engine_reserve(engine, size);

    if (status == TUTTI_OK && made != NULL && group != NULL) {
        made->contexts = calloc(size, sizeof *made->contexts);
        group->peers = calloc(size, sizeof(struct tt_peer *));
        group->present = calloc((size + 7) / 8, 1);
        group->slots = calloc(2 * engine->settings.in_flight, sizeof *group->slots);
    }
    if (status != TUTTI_OK || made == NULL || group == NULL || made->contexts == NULL || group->peers == NULL ||
        group->present == NULL || group->slots == NULL) {
        if (group != NULL) {
            tt_group_free(group);
        }
        if (made != NULL) {
            free(made->contexts);
        }
        free(made);
        return status != TUTTI_OK
                   ? status
                   : tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a group of %u ranks", size);
    }
    group->engine = engine;
    group->rank = rank;
    group->size = size;
    group->probe_failed_rank = TT_RANK_NONE;
    group->deadline_ns = TT_NEVER;
    atomic_store(&group->failed_rank, -1);
    made->engine = engine;
    made->group = group;
    made->round = ROUND_HELLO;
    made->multicast =
        engine->settings.algorithm == TT_ALGORITHM_AUTO || engine->settings.algorithm == TT_ALGORITHM_MULTICAST;
    *setup = made;
    return TUTTI_OK;
}

size_t tt_setup_bytes(const struct tt_setup *setup)
{
    switch (setup->round) {
    case ROUND_HELLO:
        return sizeof(struct hello);
    case ROUND_ADDRESS:
        return sizeof(struct address);
    case ROUND_ATTACH:
        return sizeof(struct attach);
    default:
        return 0;
    }
}

/* --- HELLO -------------------------------------------------------------------------------------------------------- */

static void produce_hello(struct tt_setup *setup, struct hello *hello)
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
    hello->rank = setup->group->rank;
    if (setup->engine->wakeup != NULL) {
        hello->status = tt_locality_read(settings, &hello->locality);
    }
}

static tutti_status compare_hello(const struct hello *mine, const struct hello *other, uint32_t rank)
{
    static const struct {
        const char *name;
        size_t offset;
    } settings[] = {{"TUTTI_CHUNK", offsetof(struct hello, chunk_bytes)},
                    {"TUTTI_SUBGROUPS (or TUTTI_WORKERS)", offsetof(struct hello, subgroups)},
                    {"TUTTI_CHAINS", offsetof(struct hello, chains)},
                    {"TUTTI_IN_FLIGHT", offsetof(struct hello, in_flight)}};

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
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_MISMATCH, "%s is %lld on rank %u and %lld on rank %u (-1: auto)",
                            settings[i].name, (long long)here, mine->rank, (long long)there, rank);
        }
    }
    if (other->algorithm != mine->algorithm) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_MISMATCH, "TUTTI_ALGORITHM is %s on rank %u and %s on rank %u",
                        tt_algorithm_name((enum tt_algorithm)mine->algorithm), mine->rank,
                        tt_algorithm_name((enum tt_algorithm)other->algorithm), rank);
    }
    return TUTTI_OK;
}

/* The network on this interface, made if this engine has none yet. */
static tutti_status find_network(struct tt_setup *setup, const struct tt_interface *interface, bool shared)
{
    struct tt_engine *engine = setup->engine;
    tutti_status status;

    for (uint32_t i = 0; i < engine->network_count; i++) {
        if (engine->networks[i]->borrowed ||
            (engine->networks[i]->shared >= shared && engine->networks[i]->interface.index == interface->index &&
             engine->networks[i]->interface.address_be == interface->address_be)) {
            setup->group->network = engine->networks[i];
            return TUTTI_OK;
        }
    }
    if (engine->network_count == TT_ENGINE_MAX_NETWORKS) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_RESOURCE, "a context can use %d interfaces, not more",
                        TT_ENGINE_MAX_NETWORKS);
    }
    status = tt_network_create(&engine->settings, interface, shared, &setup->group->network);
    if (status == TUTTI_OK) {
        int fd = setup->group->network->p2p->ops->fd(setup->group->network->p2p);

        engine->networks[engine->network_count++] = setup->group->network;
        status = tt_wakeup_add(engine->wakeup, fd);
    }
    return status;
}

static tutti_status consume_hello(struct tt_setup *setup, const struct hello *all)
{
    struct tt_group *group = setup->group;
    struct tt_interface interface = {0};
    tutti_status status = TUTTI_OK;
    uint32_t local = 0;

    for (uint32_t rank = 0; rank < group->size; rank++) {
        status = compare_hello(&all[group->rank], &all[rank], rank);
        if (status != TUTTI_OK) {
            return status;
        }
        setup->contexts[rank] = all[rank].context_id;
        local += all[rank].locality.host == all[group->rank].locality.host;
    }
    group->key = setup->key = all[0].key;
    group->local_ranks = local;
    group->queue_count = (uint32_t)all[0].subgroups;
    group->chains = all[0].chains == TT_AUTO ? DEFAULT_CHAINS : (uint32_t)all[0].chains;
    group->chains = group->chains < group->size ? group->chains : group->size;
    if (setup->engine->wakeup != NULL) {
        uint32_t stride = sizeof(struct hello);

        status = tt_locality_choose(&setup->engine->settings, &all[0].locality, stride, group->size, group->rank,
                                    &interface);
        setup->engine->auto_poll_ns = tt_locality_poll_time(local);
    }
    return status == TUTTI_OK ? find_network(setup, &interface, local > 1) : status;
}

/* --- ADDRESS ------------------------------------------------------------------------------------------------------ */

static void produce_address(struct tt_setup *setup, struct address *address)
{
    struct tt_network *network = setup->group->network;
    struct tt_mcast_attributes attributes;

    if (network == NULL) {
        return;
    }
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

static tutti_status choose_chunk(struct tt_setup *setup, const struct address *all)
{
    uint64_t wanted = setup->engine->settings.chunk_bytes;
    uint32_t largest = UINT32_MAX;

    for (uint32_t rank = 0; rank < setup->group->size; rank++) {
        largest = all[rank].max_chunk_bytes < largest ? all[rank].max_chunk_bytes : largest;
    }
    if (wanted != TT_AUTO && wanted > largest && setup->multicast) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_CHUNK=%llu: the path carries chunks of at most %u bytes", (unsigned long long)wanted,
                        largest);
    }
    setup->group->chunk_bytes = wanted != TT_AUTO               ? (uint32_t)wanted
                                : largest < DEFAULT_CHUNK_BYTES ? largest / 4 * 4
                                                                : DEFAULT_CHUNK_BYTES;
    return TUTTI_OK;
}

static void init_member(struct tt_setup *setup)
{
    struct tt_group *group = setup->group;
    struct tt_member_config config = {.rank = group->rank,
                                      .size = group->size,
                                      .group = group->key,
                                      .in_flight = (uint32_t)setup->engine->settings.in_flight,
                                      .slots = group->slots,
                                      .present = group->present,
                                      .heard = group->heard,
                                      .heard_count = group->queue_count,
                                      .multicast = group->queue_count > 0,
                                      .probe_timeout_ns = setup->engine->settings.probe_timeout_ns};

    tt_member_init(&group->member, &config);
}

static tutti_status consume_address(struct tt_setup *setup, const struct address *all)
{
    struct tt_group *group = setup->group;
    tutti_status status = choose_chunk(setup, all);

    if (status == TUTTI_OK) {
        status = allocate_queues(setup);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    init_member(setup);
    for (uint32_t i = 0; i < group->member.neighbour_count; i++) {
        uint32_t rank = group->member.neighbours[i];

        if (all[rank].length_bytes > sizeof all[rank].bytes) {
            return tt_error(TT_PART_ENGINE, TUTTI_ERR_BOOTSTRAP, "the address of rank %u has %u bytes", rank,
                            all[rank].length_bytes);
        }
        status = tt_network_connect(group->network, setup->contexts[rank], all[rank].bytes, all[rank].length_bytes,
                                    &group->peers[rank]);
        if (status != TUTTI_OK) {
            return status;
        }
    }
    /* Frames of faster ranks come as soon as the last round has ended there. */
    group->next = setup->engine->groups;
    setup->engine->groups = group;
    setup->listed = true;
    return TUTTI_OK;
}

/* --- ATTACH ------------------------------------------------------------------------------------------------------- */

static void detach_queues(struct tt_group *group)
{
    for (uint32_t s = 0; s < group->queue_count; s++) {
        if (group->queues[s].mcast == NULL) {
            continue;
        }
        if (group->engine->workers != NULL) {
            tt_workers_remove_queue(group->engine->workers, &group->queues[s]);
        } else if (group->engine->wakeup != NULL) {
            tt_wakeup_remove(group->engine->wakeup, group->queues[s].mcast->ops->receive_fd(group->queues[s].mcast));
        }
        group->queues[s].mcast->ops->detach(group->queues[s].mcast);
        group->queues[s].mcast = NULL;
    }
}

static tutti_status watch_queue(struct tt_engine *engine, struct tt_queue *queue)
{
    if (engine->workers != NULL) {
        return tt_workers_add_queue(engine->workers, queue);
    }
    return engine->wakeup == NULL ? TUTTI_OK
                                  : tt_wakeup_add(engine->wakeup, queue->mcast->ops->receive_fd(queue->mcast));
}

static void produce_attach(struct tt_setup *setup, struct attach *attach)
{
    struct tt_group *group = setup->group;
    struct tt_mcast_queue_options options = {.rank = group->rank, .chunk_bytes = group->chunk_bytes};
    tutti_status status = setup->status;

    attach->depth_chunks = UINT32_MAX;
    for (uint32_t s = 0; status == TUTTI_OK && s < group->queue_count; s++) {
        struct tt_queue *queue = &group->queues[s];
        uint32_t depth;

        status = tt_locality_address(&setup->engine->settings, setup->key, setup->attempt, s, &options.address);
        if (status == TUTTI_OK) {
            status = group->network->mcast->ops->attach(group->network->mcast, &options, &queue->mcast);
        }
        if (status == TUTTI_OK) {
            status = watch_queue(setup->engine, queue);
        }
        if (status == TUTTI_OK) {
            depth = queue->mcast->ops->depth_chunks(queue->mcast);
            attach->depth_chunks = depth < attach->depth_chunks ? depth : attach->depth_chunks;
        }
    }
    setup->status = status;
    attach->status = status;
}

static tutti_status consume_attach(struct tt_setup *setup, const struct attach *all)
{
    struct tt_group *group = setup->group;
    bool in_use = false;

    group->depth_chunks = UINT32_MAX;
    for (uint32_t rank = 0; rank < group->size; rank++) {
        in_use |= all[rank].status == TUTTI_ERR_IN_USE;
        group->depth_chunks =
            all[rank].depth_chunks < group->depth_chunks ? all[rank].depth_chunks : group->depth_chunks;
    }
    if (in_use) {
        detach_queues(group);
        setup->status = TUTTI_OK;
        setup->attempt++;
    }
    return TUTTI_OK;
}

/* --- Rounds ------------------------------------------------------------------------------------------------------- */

void tt_setup_produce(struct tt_setup *setup, void *bytes)
{
    memset(bytes, 0, tt_setup_bytes(setup));
    switch (setup->round) {
    case ROUND_HELLO:
        produce_hello(setup, bytes);
        break;
    case ROUND_ADDRESS:
        ((struct address *)bytes)->status = setup->status;
        produce_address(setup, bytes);
        break;
    case ROUND_ATTACH:
        produce_attach(setup, bytes);
        break;
    case ROUND_NONE:
        break;
    }
}

/* The error of the lowest rank that reports one in this round, if it is not to be tried again. */
static tutti_status check_statuses(const struct tt_setup *setup, const uint8_t *all)
{
    size_t offset = setup->round == ROUND_HELLO ? offsetof(struct hello, status) : 0;

    for (uint32_t rank = 0; rank < setup->group->size; rank++) {
        int32_t status;

        memcpy(&status, all + rank * tt_setup_bytes(setup) + offset, sizeof status);
        if (status == TUTTI_OK || (status == TUTTI_ERR_IN_USE && setup->attempt + 1 < MAX_ATTEMPTS)) {
            continue;
        }
        if (rank == setup->group->rank) {
            return (tutti_status)status; /* said already */
        }
        return tt_error(TT_PART_ENGINE, (tutti_status)status, "rank %u could not create the group: %s", rank,
                        tutti_status_text((tutti_status)status));
    }
    return TUTTI_OK;
}

tutti_status tt_setup_consume(struct tt_setup *setup, const void *all)
{
    tutti_status status = check_statuses(setup, all);
    uint32_t attempt = setup->attempt;

    if (status != TUTTI_OK) {
        return status;
    }
    switch (setup->round) {
    case ROUND_HELLO:
        setup->status = consume_hello(setup, all);
        setup->round = ROUND_ADDRESS;
        break;
    case ROUND_ADDRESS:
        setup->status = consume_address(setup, all);
        setup->round = ROUND_ATTACH;
        break;
    case ROUND_ATTACH:
        setup->status = consume_attach(setup, all);
        setup->round = setup->attempt == attempt ? ROUND_NONE : ROUND_ATTACH;
        break;
    case ROUND_NONE:
        break;
    }
    /* An error here is told in the next round, so that all ranks end together. */
    return setup->round == ROUND_NONE ? setup->status : TUTTI_OK;
}

bool tt_setup_done(const struct tt_setup *setup)
{
    return setup->round == ROUND_NONE;
}

/* --- Probe -------------------------------------------------------------------------------------------------------- */

void tt_setup_probe(struct tt_setup *setup)
{
    struct tt_member_event event = {.type = TT_MEMBER_PROBE, .now_ns = tt_engine_now(setup->engine)};

    tt_group_step(setup->group, &event);
}

bool tt_setup_probed(const struct tt_setup *setup)
{
    return setup->group->probed || setup->group->member.status != TUTTI_OK;
}

static void say_what_is_used(const struct tt_group *group)
{
    const char *mcast = group->network->mcast_name, *p2p = group->network->p2p->ops->name;
    char interface[TT_INTERFACE_TEXT_BYTES] = "simulated";
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
    } else if (tried) {
        TT_LOG(
            TT_PART_ENGINE, TT_LOG_WARN,
            "group of %u: multicast on %s does not get through from rank %u to every rank: using point-to-point ring "
            "and chain over %s",
            group->size, interface, group->probe_failed_rank, p2p);
    } else {
        TT_LOG(TT_PART_ENGINE, TT_LOG_INFO, "group of %u: point-to-point ring and chain over %s, as asked for",
               group->size, p2p);
    }
}

tutti_status tt_setup_take(struct tt_setup *setup, struct tt_group **group)
{
    struct tt_group *made = setup->group;

    if (!made->probed) {
        tutti_status status = tt_error_note(made->member.status, "%s", made->failure_text);

        tt_setup_end(setup);
        return status;
    }
    if (setup->engine->settings.algorithm == TT_ALGORITHM_MULTICAST && !made->multicast && made->size > 1) {
        tutti_status status =
            tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
                     "TUTTI_ALGORITHM=multicast: multicast does not get through from rank %u to every rank",
                     made->probe_failed_rank);

        tt_setup_end(setup);
        return status;
    }
    made->multicast = made->multicast && made->size > 1;
    say_what_is_used(made);
    free(setup->contexts);
    free(setup);
    *group = made;
    return TUTTI_OK;
}

tutti_status tt_setup_timed_out(struct tt_setup *setup)
{
    uint32_t rank = tt_probe_waits_for(&setup->group->member.probe);

    if (rank == TT_RANK_NONE) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_TIMED_OUT, "the group was not ready in time");
    }
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_TIMED_OUT, "the group was not ready in time: rank %u waited for rank %u",
                    setup->group->rank, rank);
}

void tt_group_leave(struct tt_group *group)
{
    struct tt_engine *engine = group->engine;
    struct tt_group **link = &engine->groups;
    struct tt_member_event bye = {.type = TT_MEMBER_LEAVE, .now_ns = tt_engine_now(engine)};

    tt_group_step(group, &bye);
    while (*link != group) {
        link = &(*link)->next;
    }
    *link = group->next;
    detach_queues(group);
    tt_group_free(group);
}

void tt_setup_end(struct tt_setup *setup)
{
    if (setup->listed) {
        tt_group_leave(setup->group);
    } else {
        tt_group_free(setup->group);
    }
    free(setup->contexts);
    free(setup);
}
