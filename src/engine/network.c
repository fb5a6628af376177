/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Networks and their connections. Normal path: the first group that needs an interface creates the providers;
 * connections are made on demand and then kept: a group that comes later finds them on both sides, in whatever order
 * the two sides create and destroy groups. Failures are the providers'.
 */
#include "engine/network.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/worker.h"
#include "fabric/lossy.h"
#include "fabric/ucx/ucx.h"
#include "fabric/udp/udp.h"
#include "fabric/verbs/mcast.h"
#include "fabric/verbs/rc.h"

static tutti_status create_udp(struct tt_network *network, const struct tt_settings *settings)
{
    struct tt_udp_options options = {.interface = network->interface,
                                     .receive_buffer_bytes = settings->receive_buffer_bytes,
                                     .ttl = 1,
                                     .loop = network->shared};

    return tt_udp_create(&options, &network->mcast);
}

struct tt_verbs_device_options tt_network_device(const struct tt_settings *settings,
                                                 const struct tt_interface *interface)
{
    return (struct tt_verbs_device_options){.name = settings->device,
                                            .gid_index = settings->gid,
                                            /* RDMA knows no loopback interface: any device reaches its own host. */
                                            .interface_index = interface->loopback ? 0 : interface->index,
                                            .address_be = interface->loopback ? 0 : interface->address_be,
                                            .endpoints = settings->endpoints,
                                            .threads = tt_workers_threads(settings->workers)};
}

const char *tt_network_p2p_wish(const struct tt_settings *settings)
{
    return strcmp(settings->p2p, "auto") == 0 && strcmp(settings->ucx_tls, "auto") != 0 ? "ucx" : settings->p2p;
}

/* Without a wish the reliable side takes the device that multicast takes: UCX, which is told the interface, does not
 * know that it is a device's. */
static bool has_verbs_p2p(const struct tt_network *network, const struct tt_settings *settings)
{
    const char *wish = tt_network_p2p_wish(settings);

    return strcmp(wish, "auto") == 0 ? network->verbs : strcmp(wish, "verbs") == 0;
}

static tutti_status create_mcast(struct tt_network *network, const struct tt_settings *settings,
                                 struct tt_verbs_device *device)
{
    struct tt_verbs_mcast_options verbs = {
        .device = device, .receive_buffer_bytes = settings->receive_buffer_bytes, .mgid = settings->mgid};
    struct tt_mcast *lossy;
    tutti_status status =
        network->verbs ? tt_verbs_mcast_create(&verbs, &network->mcast) : create_udp(network, settings);

    if (status == TUTTI_OK) {
        network->mcast_name = network->mcast->ops->name;
    }
    if (status == TUTTI_OK && settings->loss_ppm > 0) {
        status = tt_lossy_create(network->mcast, settings->loss_ppm, settings->seed, &lossy);
        if (status == TUTTI_OK) {
            network->mcast = lossy;
        }
    }
    return status;
}

static tutti_status create_ucx(const struct tt_settings *settings, const struct tt_interface *interface,
                               struct tt_p2p **p2p)
{
    struct tt_ucx_options ucx = {.interface = interface->name,
                                 .tls = strcmp(settings->ucx_tls, "auto") == 0 ? NULL : settings->ucx_tls,
                                 .lossless = interface->loopback};

    return tt_ucx_create(&ucx, p2p);
}

struct tt_p2p *tt_network_p2p_ahead(const struct tt_settings *settings, const struct tt_interface *interface)
{
    struct tt_verbs_device_options device = tt_network_device(settings, interface);
    const char *wish = tt_network_p2p_wish(settings);
    struct tt_p2p *p2p = NULL;

    if (strcmp(wish, "verbs") == 0 ||
        (strcmp(wish, "auto") == 0 && strcmp(settings->mcast, "udp") != 0 && tt_verbs_device_exists(&device))) {
        return NULL;
    }
    return create_ucx(settings, interface, &p2p) == TUTTI_OK ? p2p : NULL;
}

static tutti_status create_p2p(struct tt_network *network, const struct tt_settings *settings,
                               struct tt_verbs_device *device)
{
    struct tt_rc_options verbs = {.device = device, .thread = tt_workers_control_index(settings->workers)};

    return has_verbs_p2p(network, settings) ? tt_rc_create(&verbs, &network->p2p)
                                            : create_ucx(settings, &network->interface, &network->p2p);
}

/* Uses the p2p provider that is there already, unless an RDMA device's is wanted. */
static void take_ahead(struct tt_network *network, const struct tt_settings *settings, struct tt_p2p *ahead)
{
    if (ahead != NULL && has_verbs_p2p(network, settings)) {
        ahead->ops->destroy(ahead);
        ahead = NULL;
    }
    network->p2p = ahead;
}

static tutti_status create_providers(struct tt_network *network, const struct tt_settings *settings)
{
    struct tt_verbs_device_options wish = tt_network_device(settings, &network->interface);
    struct tt_verbs_device *device = NULL;
    tutti_status status = TUTTI_OK;

    if (network->verbs || has_verbs_p2p(network, settings)) {
        status = tt_verbs_device_open(&wish, &device);
    }
    if (status == TUTTI_OK) {
        network->endpoints = device != NULL ? tt_verbs_device_endpoints(device) : "none";
        status = create_mcast(network, settings, device);
    }
    if (status == TUTTI_OK && network->p2p == NULL) {
        status = create_p2p(network, settings, device);
    }
    tt_verbs_device_close(device); /* the providers have references of their own */
    return status;
}

static tutti_status take_address(struct tt_network *network)
{
    network->address_bytes = sizeof network->address;
    return network->p2p->ops->address(network->p2p, network->address, &network->address_bytes);
}

/* What the user says of the link. */
static void init_link(struct tt_network *network, const struct tt_settings *settings)
{
    uint64_t bits = settings->bandwidth, kbit = bits / 1000;

    tt_link_init(&network->link, bits == TT_AUTO || kbit >= TT_PACER_UNKNOWN ? TT_PACER_UNKNOWN : (uint32_t)kbit);
}

tutti_status tt_network_create(const struct tt_settings *settings, const struct tt_interface *interface, bool shared,
                               bool verbs, struct tt_p2p *ahead, struct tt_network **network)
{
    struct tt_network *made = calloc(1, sizeof *made);
    tutti_status status;

    if (made == NULL) {
        if (ahead != NULL) {
            ahead->ops->destroy(ahead);
        }
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a network");
    }
    made->interface = *interface;
    made->shared = shared;
    made->tend_ns = TT_NEVER;
    made->verbs = verbs;
    init_link(made, settings);
    take_ahead(made, settings, ahead);
    status = create_providers(made, settings);
    if (status == TUTTI_OK) {
        status = take_address(made);
    }
    if (status != TUTTI_OK) {
        tt_network_destroy(made);
        return status;
    }
    *network = made;
    return TUTTI_OK;
}

tutti_status tt_network_borrow(const struct tt_settings *settings, struct tt_mcast *mcast, struct tt_p2p *p2p,
                               struct tt_network **network)
{
    struct tt_network *made = calloc(1, sizeof *made);
    tutti_status status;

    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a network");
    }
    made->tend_ns = TT_NEVER;
    made->mcast = mcast;
    made->mcast_name = mcast->ops->name;
    made->endpoints = "none";
    made->p2p = p2p;
    made->borrowed = true;
    init_link(made, settings);
    status = take_address(made);
    if (status != TUTTI_OK) {
        tt_network_destroy(made);
        return status;
    }
    *network = made;
    return TUTTI_OK;
}

static void close_connection(struct tt_peer *peer)
{
    if (peer->connection != NULL) {
        peer->connection->ops->disconnect(peer->connection);
        peer->connection = NULL;
    }
}

void tt_network_abandon(struct tt_network *network, struct tt_peer *peer)
{
    if (peer->connection != NULL) {
        close_connection(peer);
        peer->abandoned = true;
        network->abandons = true;
    }
}

static void forget(struct tt_network *network, struct tt_peer *peer)
{
    struct tt_peer **link = &network->peers;

    while (*link != peer) {
        link = &(*link)->next;
    }
    *link = peer->next;
    close_connection(peer);
    free(peer);
}

void tt_network_destroy(struct tt_network *network)
{
    if (network == NULL) {
        return;
    }
    while (network->peers != NULL) {
        forget(network, network->peers);
    }
    if (!network->borrowed) {
        if (network->p2p != NULL) {
            network->p2p->ops->destroy(network->p2p);
        }
        if (network->mcast != NULL) {
            network->mcast->ops->destroy(network->mcast);
        }
    }
    free(network);
}

tutti_status tt_network_connect(struct tt_network *network, uint64_t context_id, const void *address,
                                size_t address_bytes, struct tt_peer **peer)
{
    struct tt_peer *made;
    tutti_status status;

    for (struct tt_peer *known = network->peers; known != NULL; known = known->next) {
        if (known->context_id == context_id && !known->down && known->connection != NULL) {
            known->users++;
            *peer = known;
            return TUTTI_OK;
        }
    }
    made = calloc(1, sizeof *made);
    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a connection");
    }
    made->context_id = context_id;
    made->users = 1;
    status =
        network->p2p->ops->connect(network->p2p, address, address_bytes, (uint64_t)(uintptr_t)made, &made->connection);
    if (status != TUTTI_OK) {
        free(made);
        return status;
    }
    made->next = network->peers;
    network->peers = made;
    *peer = made;
    return TUTTI_OK;
}

void tt_network_disconnect(struct tt_network *network, struct tt_peer *peer)
{
    peer->users--;
    if (peer->users == 0 && (peer->down || peer->connection == NULL)) {
        forget(network, peer);
    }
}

void tt_network_peer_down(struct tt_network *network, struct tt_peer *peer)
{
    peer->down = true;
    if (peer->users == 0) {
        forget(network, peer);
    }
}
