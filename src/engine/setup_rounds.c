/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The rounds of creating a group once its network is known (setup_hello.c is before that). ADDRESS connects the
 * neighbours and prepares the queues, ATTACH joins the multicast subgroups. What goes wrong on a rank becomes its
 * status, which it tells in the next round; a port that is taken is no error but another attempt.
 */
#include "engine/setup_private.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cache_line.h"
#include "base/least.h"
#include "base/log.h"
#include "engine/failure.h"

enum { FRAME_CHUNK_BYTES = 8956 };

/* --- ADDRESS ------------------------------------------------------------------------------------------------------ */

void tt_setup_produce_address(struct tt_setup *setup, struct tt_setup_address *address)
{
    struct tt_network *network = setup->group->network;
    struct tt_mcast_attributes attributes;

    if (network == NULL) {
        return;
    }
    assert(network->address_bytes <= setup->address_bytes);
    tt_failure_begin(setup->group); /* when its address is told others may connect */
    network->mcast->ops->attributes(network->mcast, &attributes);
    address->max_chunk_bytes = attributes.max_chunk_bytes;
    address->good_chunk_bytes = attributes.good_chunk_bytes;
    address->length_bytes = (uint16_t)network->address_bytes;
    memcpy(address + 1, network->address, network->address_bytes);
}

/* Ranks of a host that were given different interfaces are as if of different hosts. */
static bool choose_speakers(struct tt_setup *setup)
{
    struct tt_group *group = setup->group;
    uint64_t *paths = calloc(group->size, sizeof *paths);

    if (paths == NULL) {
        return false;
    }
    for (uint32_t rank = 0; rank < group->size; rank++) {
        paths[rank] = group->hosts[rank] ^ setup->places[rank].chosen * UINT64_C(0x9E3779B97F4A7C15);
    }
    tt_probe_choose_speakers(paths, group->size, group->speakers);
    free(paths);
    return true;
}

static tutti_status allocate_queues(struct tt_setup *setup)
{
    struct tt_group *group = setup->group;
    size_t words = (group->size + 63) / 64;

    assert(words > 0);
    assert(group->queues == NULL);
    group->queues = aligned_alloc(TT_CACHE_LINE_BYTES, (group->queue_count + 1) * sizeof *group->queues);
    if (group->queues != NULL) { /* before anything can fail: who ends the group looks at each of them */
        memset(group->queues, 0, (group->queue_count + 1) * sizeof *group->queues);
    }
    group->heard = calloc((group->queue_count + 1) * words, sizeof *group->heard);
    group->speakers = calloc(words, sizeof *group->speakers);
    group->probe_payload = calloc(1, group->chunk_bytes);
    if (group->queues == NULL || group->heard == NULL || group->speakers == NULL || group->probe_payload == NULL ||
        !choose_speakers(setup)) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for %u subgroups", group->queue_count);
    }
    for (uint32_t s = 0; s < group->queue_count; s++) {
        struct tt_receiver *receiver = &group->queues[s].receiver;

        receiver->rank = group->rank;
        receiver->size = group->size;
        receiver->hosts = group->hosts;
        receiver->probe_bytes = group->chunk_bytes;
        receiver->heard = group->heard + s * words;
    }
    return TUTTI_OK;
}

static struct tt_setup_address address_of(const struct tt_setup *setup, const uint8_t *all, uint32_t rank)
{
    struct tt_setup_address address;

    memcpy(&address, all + rank * tt_setup_bytes(setup), sizeof address);
    return address;
}

static tutti_status choose_chunk(struct tt_setup *setup, const uint8_t *all)
{
    uint64_t wanted = setup->engine->settings.chunk_bytes, largest = UINT32_MAX, good = UINT32_MAX;

    for (uint32_t rank = 0; rank < setup->group->size; rank++) {
        struct tt_setup_address address = address_of(setup, all, rank);

        largest = tt_least(largest, address.max_chunk_bytes);
        good = tt_least(good, address.good_chunk_bytes);
    }
    if (wanted < TT_CHUNK_FRAME && wanted > largest && setup->multicast) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_INVALID_ARGUMENT,
                        "TUTTI_CHUNK=%llu: the path carries chunks of at most %llu bytes", (unsigned long long)wanted,
                        (unsigned long long)largest);
    }
    if (wanted >= TT_CHUNK_FRAME) {
        wanted = (wanted == TT_CHUNK_FRAME ? tt_least(largest, FRAME_CHUNK_BYTES) : good) / 4 * 4;
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
                                      .own = group->copies.memory,
                                      .present = group->present,
                                      .speakers = group->speakers,
                                      .heard = group->heard,
                                      .heard_count = group->queue_count,
                                      .multicast = group->queue_count > 0,
                                      .probe_timeout_ns = setup->engine->settings.probe_timeout_ns};

    tt_member_init(&group->member, &config);
}

/* Every rank's address, and connections to the neighbours. */
static tutti_status connect_neighbours(struct tt_setup *setup, const uint8_t *all)
{
    struct tt_group *group = setup->group;
    const uint8_t *lengths = all + offsetof(struct tt_setup_address, length_bytes);
    tutti_status status =
        tt_directory_init(&group->directory, group->size, setup->contexts, lengths,
                          all + sizeof(struct tt_setup_address), setup->address_bytes, tt_setup_bytes(setup));

    for (uint32_t i = 0; status == TUTTI_OK && i < group->member.neighbour_count; i++) {
        uint32_t rank = group->member.neighbours[i];

        assert(rank != group->rank);
        assert(group->peers[rank] == NULL); /* each is named once */
        status = tt_directory_connect(&group->directory, group->network, rank, &group->peers[rank]);
    }
    return status;
}

/* Alike at all ranks, whatever fails afterwards: ATTACH has as many names. Between two members queues always have
 * names; in larger groups of some providers nobody asks for them. */
static void count_queues(struct tt_setup *setup)
{
    struct tt_group *group = setup->group;
    struct tt_mcast_attributes attributes;

    group->network->mcast->ops->attributes(group->network->mcast, &attributes);
    if (!setup->multicast || group->size == 1) {
        group->queue_count = 0;
    }
    setup->name_count = attributes.names_in_pairs_only && group->size > 2 ? 0 : group->queue_count;
}

tutti_status tt_setup_consume_address(struct tt_setup *setup, const uint8_t *all)
{
    struct tt_group *group = setup->group;
    tutti_status status;

    count_queues(setup);
    status = choose_chunk(setup, all);
    if (status == TUTTI_OK) {
        status = allocate_queues(setup);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    if (group->size > 1) {
        status = tt_copies_init(&group->copies, group->queue_count > 0 ? group->network : NULL);
    }
    if (group->queue_count > 0) {
        group->queues[0].receiver.log.pool = &setup->engine->early;
    }
    if (status != TUTTI_OK) {
        return status;
    }
    init_member(setup);
    status = connect_neighbours(setup, all);
    if (status != TUTTI_OK) {
        return status;
    }
    /* Frames of faster ranks come as soon as the last round has ended there. */
    status = tt_group_list(group);
    setup->listed = status == TUTTI_OK;
    return status;
}

/* --- ATTACH ------------------------------------------------------------------------------------------------------- */

static tutti_status attach_queues(struct tt_setup *setup)
{
    struct tt_group *group = setup->group;
    struct tt_mcast_queue_options options = {.rank = group->rank, .chunk_bytes = group->chunk_bytes};
    tutti_status status = setup->status;

    for (uint32_t s = 0; status == TUTTI_OK && s < group->queue_count; s++) {
        status = tt_locality_address(&setup->engine->settings, setup->key, setup->attempt, s, &options.address);
        if (status == TUTTI_OK) {
            status = tt_queue_attach(&group->queues[s], setup->engine, group->network->mcast, &options);
        }
    }
    return status;
}

void tt_setup_attach(struct tt_setup *setup)
{
    struct tt_group *group = setup->group;

    if (setup->round != TT_SETUP_ATTACH) {
        return;
    }
    tt_engine_lock(setup->engine);
    setup->status = attach_queues(setup);
    tt_engine_unlock(setup->engine);
    for (uint32_t s = 0; setup->status == TUTTI_OK && s < group->queue_count; s++) {
        setup->status = tt_mcast_join(group->queues[s].mcast);
    }
}

void tt_setup_produce_attach(struct tt_setup *setup, struct tt_setup_attach *attach)
{
    const struct tt_group *group = setup->group;
    uint8_t *names = (uint8_t *)(attach + 1);

    attach->depth_chunks = UINT32_MAX;
    attach->local_ranks = (uint16_t)group->local_ranks;
    attach->status = (int16_t)setup->status;
    for (uint32_t s = 0; setup->status == TUTTI_OK && s < group->queue_count; s++) {
        const struct tt_mcast_queue *queue = group->queues[s].mcast;

        attach->depth_chunks = (uint32_t)tt_least(attach->depth_chunks, queue->ops->depth_chunks(queue));
        if (s < setup->name_count) {
            queue->ops->describe(queue, names + (size_t)s * TT_MCAST_NAME_BYTES);
        }
    }
}

/* Tells every queue who its members are: their names for it lie a rank's contribution apart. Without names all are
 * nobody in particular. */
static tutti_status introduce_queues(const struct tt_setup *setup, const uint8_t *all)
{
    static const uint8_t nobody[TT_MCAST_NAME_BYTES];
    struct tt_group *group = setup->group;
    uint32_t stride_bytes = setup->name_count > 0 ? (uint32_t)tt_setup_bytes(setup) : 0;
    tutti_status status = TUTTI_OK;

    assert(setup->name_count == 0 || setup->name_count == group->queue_count);
    for (uint32_t s = 0; status == TUTTI_OK && s < group->queue_count; s++) {
        const uint8_t *names = all + sizeof(struct tt_setup_attach) + (size_t)s * TT_MCAST_NAME_BYTES;

        status = tt_queue_introduce(&group->queues[s], group->engine, &group->party,
                                    setup->name_count > 0 ? names : nobody, stride_bytes, group->size);
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
        tt_clear_error();
        return TUTTI_OK;
    }
    tt_link_limit(&group->network->link, (uint64_t)depth * group->chunk_bytes);
    /* Only all roots at once fill every link: with fewer, the active ones receive less than the others. */
    group->chains = group->chains == 0 || group->chains > group->size ? group->size : group->chains;
    group->port_roots = count_port_roots(group->size, least_local, most_local);
    return introduce_queues(setup, all);
}
