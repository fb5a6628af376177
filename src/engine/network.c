/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Networks and their connections. Normal path: the first group that needs an interface creates the providers;
 * connections are made on demand and then kept: a group that comes later finds them on both sides, in whatever order
 * the two sides create and destroy groups. Failures are the providers'.
 */
#include "engine/network.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "engine/worker.h"
#include "fabric/lossy.h"
#include "fabric/tcp/message.h"
#include "fabric/tcp/tcp.h"
#include "fabric/ucx/ucx.h"
#include "fabric/udp/udp.h"
#include "fabric/verbs/mcast.h"
#include "fabric/verbs/rc_message.h"

static tutti_status create_udp(struct tt_network *network, const struct tt_settings *settings)
{
    struct tt_udp_options options = {.interface = network->interface,
                                     .receive_buffer_bytes = settings->receive_buffer_bytes,
                                     .ttl = (uint32_t)settings->ttl,
                                     .traffic_class = (uint32_t)settings->traffic_class,
                                     .loop = network->shared};

    return tt_udp_create(&options, &network->mcast);
}

/* By what an RDMA device is asked for; NULL: it has been found. */
static const char *asked_by(const struct tt_settings *settings)
{
    return strcmp(settings->mcast, "verbs") == 0 ? "TUTTI_MCAST=verbs: "
           : strcmp(settings->p2p, "verbs") == 0 ? "TUTTI_P2P=verbs: "
                                                 : NULL;
}

struct tt_verbs_device_options tt_network_device(const struct tt_settings *settings,
                                                 const struct tt_interface *interface)
{
    return (struct tt_verbs_device_options){.name = settings->device,
                                            .gid_index = settings->gid,
                                            .pkey = settings->pkey,
                                            .traffic_class = (uint8_t)settings->traffic_class,
                                            .service_level = (uint8_t)settings->service_level,
                                            /* RDMA knows no loopback interface: any device reaches its own host. */
                                            .interface_index = interface->loopback ? 0 : interface->index,
                                            .address_be = interface->loopback ? 0 : tt_ip_to_ipv4(interface->ip),
                                            .endpoints = settings->endpoints,
                                            .threads = tt_workers_threads(settings->workers),
                                            .asked_by = asked_by(settings)};
}

struct tt_rc_options tt_network_queue_pairs(const struct tt_settings *settings, struct tt_verbs_device *device)
{
    return (struct tt_rc_options){.device = device,
                                  .thread = tt_workers_control_index(settings->workers),
                                  .ack_timeout_ns = settings->rc_timeout_ns == TT_AUTO ? 0 : settings->rc_timeout_ns};
}

const char *tt_network_p2p_wish(const struct tt_settings *settings)
{
    return strcmp(settings->p2p, "auto") == 0 && strcmp(settings->ucx_tls, "auto") != 0 ? "ucx" : settings->p2p;
}

/* Without a wish the reliable side takes the device that multicast takes. */
static bool has_verbs_p2p(const struct tt_settings *settings, bool verbs)
{
    const char *wish = tt_network_p2p_wish(settings);

    return strcmp(wish, "auto") == 0 ? verbs : strcmp(wish, "verbs") == 0;
}

uint32_t tt_network_address_room(const struct tt_settings *settings, bool verbs)
{
    if (has_verbs_p2p(settings, verbs)) {
        return TT_RC_ADDRESS_BYTES;
    }
    return strcmp(tt_network_p2p_wish(settings), "ucx") == 0 ? TT_P2P_MAX_ADDRESS_BYTES : TT_TCP_ADDRESS_BYTES;
}

static tutti_status create_mcast(struct tt_network *network, const struct tt_settings *settings,
                                 struct tt_verbs_device *device)
{
    struct tt_verbs_mcast_options verbs = {.device = device,
                                           .receive_buffer_bytes = settings->receive_buffer_bytes,
                                           .mgid = settings->mgid,
                                           .ttl = (uint8_t)settings->ttl};
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

static tutti_status create_tcp(const struct tt_settings *settings, const struct tt_interface *interface,
                               struct tt_p2p **p2p)
{
    char address[TT_IP_TEXT_BYTES];
    struct tt_tcp_options tcp = {.address = tt_ip_format(interface->ip, address),
                                 .scope = interface->index,
                                 .traffic_class = (uint32_t)settings->traffic_class,
                                 .peer_timeout_s =
                                     (uint32_t)((settings->peer_timeout_ns + TT_NS_PER_S - 1) / TT_NS_PER_S),
                                 .lossless = interface->loopback};
    tutti_status status = tt_parse_ports(settings->ports, &tcp.first_port, &tcp.last_port);

    if (status != TUTTI_OK) {
        return status;
    }
    return tt_tcp_create(&tcp, p2p);
}

static tutti_status create_ucx(const struct tt_settings *settings, const struct tt_interface *interface,
                               struct tt_p2p **p2p)
{
    struct tt_ucx_options ucx = {.interface = interface->name,
                                 .tls = strcmp(settings->ucx_tls, "auto") == 0 ? NULL : settings->ucx_tls,
                                 .lossless = interface->loopback};

    return tt_ucx_create(&ucx, p2p);
}

static tutti_status create_p2p(struct tt_network *network, const struct tt_settings *settings,
                               struct tt_verbs_device *device)
{
    struct tt_rc_options verbs = tt_network_queue_pairs(settings, device);

    if (has_verbs_p2p(settings, network->verbs)) {
        return tt_rc_create(&verbs, &network->p2p);
    }
    return strcmp(tt_network_p2p_wish(settings), "ucx") == 0 ? create_ucx(settings, &network->interface, &network->p2p)
                                                             : create_tcp(settings, &network->interface, &network->p2p);
}

static tutti_status create_providers(struct tt_network *network, const struct tt_settings *settings)
{
    struct tt_verbs_device_options wish = tt_network_device(settings, &network->interface);
    struct tt_verbs_device *device = NULL;
    tutti_status status = TUTTI_OK;

    if (network->verbs || has_verbs_p2p(settings, network->verbs)) {
        status = tt_verbs_device_open(&wish, &device);
    }
    if (status == TUTTI_OK) {
        network->endpoints = device != NULL ? tt_verbs_device_endpoints(device) : "none";
        status = create_mcast(network, settings, device);
    }
    if (status == TUTTI_OK) {
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
                               bool verbs, struct tt_network **network)
{
    struct tt_network *made = calloc(1, sizeof *made);
    tutti_status status;

    if (made == NULL) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_NO_MEMORY, "no memory for a network");
    }
    made->interface = *interface;
    made->shared = shared;
    made->tend_ns = TT_NEVER;
    made->verbs = verbs;
    init_link(made, settings);
    status = create_providers(made, settings);
    if (status == TUTTI_OK) {
        status = take_address(made);
    }
    if (status != TUTTI_OK) {
        tt_network_destroy(made);
        return status;
    }
    tt_network_check(made);
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
    tt_network_check(made);
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
    assert(peer->users > 0); /* who else would be told */
    if (peer->connection != NULL) {
        close_connection(peer);
        peer->abandoned = true;
        network->abandons = true;
    }
}

static void forget(struct tt_network *network, struct tt_peer *peer)
{
    struct tt_peer **link = &network->peers;

    assert(peer->users == 0);
    while (*link != peer) {
        assert(*link != NULL);
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

    assert(address_bytes <= TT_P2P_MAX_ADDRESS_BYTES);
    for (struct tt_peer *known = network->peers; known != NULL; known = known->next) {
#ifdef TT_FAULT_DOWN_TAKEN_AGAIN
        if (known->context_id == context_id && known->connection != NULL) {
#else
        if (known->context_id == context_id && !known->down && known->connection != NULL) {
#endif
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
    assert(made->connection != NULL);
    network->tend_ns = 0; /* frames will wait for it to open, whoever leaves meanwhile */
    made->next = network->peers;
    network->peers = made;
    *peer = made;
    return TUTTI_OK;
}

void tt_network_disconnect(struct tt_network *network, struct tt_peer *peer)
{
    assert(peer->users > 0);
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

/* --- Checks ------------------------------------------------------------------------------------------------------- */

/* Whether a group that looks for this engine is given this connection. */
static bool is_usable(const struct tt_peer *peer)
{
    return !peer->down && peer->connection != NULL;
}

static void check_peer(const struct tt_network *network, const struct tt_peer *peer)
{
    assert(peer->users > 0 || is_usable(peer)); /* else it would have been forgotten */
    assert(!peer->abandoned || network->abandons);
    assert(!peer->abandoned || peer->connection == NULL);
}

void tt_network_check(const struct tt_network *network)
{
    assert(network->mcast != NULL);
    assert(network->p2p != NULL);
    assert(network->mcast_name != NULL);
    assert(network->endpoints != NULL);
    assert(network->address_bytes > 0);
    assert(network->address_bytes <= sizeof network->address);
    tt_link_check(&network->link);
    for (const struct tt_peer *peer = network->peers; peer != NULL; peer = peer->next) {
        check_peer(network, peer);
    }
}
