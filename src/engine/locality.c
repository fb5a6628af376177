/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Locality. Normal path: hash what identifies the host, list the interfaces, and later compare everybody's. Addresses
 * and keys are hashes, so that jobs that know nothing of one another seldom meet; where they do, the keys keep them
 * apart.
 */
#include "engine/locality.h"

#include <arpa/inet.h>
#include <assert.h>
#include <fcntl.h>
#include <netdb.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/siphash.h"
#include "engine/network.h"
#include "plan/dissemination.h"

enum { MAX_INTERFACES = 64, ORDERS = 6 };

/* What is derived: each under a key of its own, or what a datagram shows would be the same as what another one needs.
 */
enum purpose { OF_HOST, OF_ADDRESS, OF_QUEUE, OF_GROUP };

/* Containers and network namespaces of one machine have the same: they share its cores. */
static uint64_t machine_identity(void)
{
    uint64_t hash = 0;
    char text[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);

    if (fd >= 0) {
        ssize_t length = read(fd, text, sizeof text);

        hash = tt_siphash(hash, OF_HOST, text, length > 0 ? (size_t)length : 0);
        close(fd);
    }
    return hash;
}

uint64_t tt_locality_host(void)
{
    uint64_t hash = machine_identity();
    char text[256] = "";
    struct stat namespace;

    if (gethostname(text, sizeof text) == 0) {
        text[sizeof text - 1] = '\0';
        hash = tt_siphash(hash, OF_HOST, text, strlen(text));
    }
    if (stat("/proc/self/ns/net", &namespace) == 0) {
        hash = tt_siphash(hash, OF_HOST, &namespace.st_ino, sizeof namespace.st_ino);
    }
    return hash;
}

static bool is_usable(const struct tt_interface *interface)
{
    return interface->up && !interface->loopback && interface->address_be != 0;
}

/* The address of the first host of a ROOT ("host[,host...]:port"), of which a user says which network is meant; 0:
 * there is none of IPv4. Takes as long as a name server does. */
static uint32_t address_of_root(const char *root)
{
    struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found = NULL;
    struct sockaddr_in address = {.sin_family = AF_INET};
    char host[sizeof(((struct tt_settings *)0)->root)];
    size_t length = strcspn(root, ",:");

    if (length == 0 || length >= sizeof host || root[0] == '[') {
        return 0;
    }
    memcpy(host, root, length);
    host[length] = '\0';
    if (getaddrinfo(host, NULL, &hints, &found) == 0) {
        memcpy(&address, found->ai_addr, sizeof address);
        freeaddrinfo(found);
    }
    return address.sin_addr.s_addr;
}

/* The lower, the likelier it is that an interface leads to the other hosts of the job. */
static int order_of(const struct tt_interface *interface, uint32_t root_be)
{
    int order = interface->address_be == root_be ? 0 : interface->default_route ? 1 : 2;

    return interface->multicast ? order : order + ORDERS / 2;
}

bool tt_locality_takes_verbs(const struct tt_settings *settings, const struct tt_interface *interface)
{
    static atomic_bool told; /* once a process: groups come and go */
    struct tt_verbs_device_options device = tt_network_device(settings, interface);
    struct tt_verbs_found found;

    if (strcmp(settings->mcast, "auto") != 0 || interface->loopback || !tt_verbs_device_exists(&device, &found)) {
        return false;
    }
    if (found.is_known || strcmp(settings->device, "auto") != 0) {
        return true;
    }
    if (!atomic_exchange(&told, true)) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_INFO,
               "%s has the RDMA device %s, of a kind that tutti has not been tried on: TUTTI_MCAST=verbs or "
               "TUTTI_DEVICE=%s, on all ranks, uses it; now it is udp, and tcp unless TUTTI_P2P says something else",
               interface->name, found.device, found.device);
    }
    return false;
}

void tt_locality_mark_verbs(const struct tt_settings *settings, const struct tt_interface *list, size_t count,
                            struct tt_locality *locality)
{
    for (uint32_t net = 0; net < locality->net_count; net++) {
        for (size_t i = 0; i < count; i++) {
            if (list[i].address_be == locality->nets[net].address_be && tt_locality_takes_verbs(settings, &list[i])) {
                locality->nets[net].verbs = true;
            }
        }
    }
}

void tt_locality_find_verbs(const struct tt_settings *settings, struct tt_locality *locality)
{
    struct tt_interface list[MAX_INTERFACES];
    size_t count = 0;

    if (strcmp(settings->mcast, "auto") != 0 || locality->chosen_be != 0) {
        return; /* nobody asks */
    }
    if (tt_interface_list(list, MAX_INTERFACES, &count) != TUTTI_OK) {
        tt_clear_error(); /* then there are none */
        return;
    }
    tt_locality_mark_verbs(settings, list, count < MAX_INTERFACES ? count : MAX_INTERFACES, locality);
}

static void add_net(const struct tt_interface *interface, struct tt_locality *locality)
{
    assert(locality->net_count < TT_LOCALITY_NETS);
    locality->nets[locality->net_count].address_be = interface->address_be;
    locality->nets[locality->net_count].prefix_bits = interface->prefix_bits;
    locality->nets[locality->net_count].multicast = interface->multicast;
    locality->nets[locality->net_count].verbs = false;
    locality->net_count++;
}

void tt_locality_clean(char name[TT_LOCALITY_NAME_BYTES])
{
    name[TT_LOCALITY_NAME_BYTES - 1] = '\0';
    for (char *at = name; *at != '\0'; at++) {
        *at = *at > ' ' && *at < 127 ? *at : '?';
    }
}

static void read_name(char name[TT_LOCALITY_NAME_BYTES])
{
    char whole[256] = "";

    (void)gethostname(whole, sizeof whole - 1);
    memset(name, 0, TT_LOCALITY_NAME_BYTES);
    memcpy(name, whole, strnlen(whole, TT_LOCALITY_NAME_BYTES - 1));
    tt_locality_clean(name);
}

tutti_status tt_locality_read(const struct tt_settings *settings, struct tt_locality *locality)
{
    struct tt_interface list[MAX_INTERFACES], chosen;
    size_t count = 0;
    uint32_t root_be = settings->rank == 0 ? address_of_root(settings->root) : 0;
    tutti_status status = tt_interface_list(list, MAX_INTERFACES, &count);

    if (status != TUTTI_OK) {
        return status;
    }
    if (strcmp(settings->interface, "auto") != 0) {
        status = tt_interface_find(settings->interface, &chosen); /* a bad setting is told to all ranks at once */
        if (status != TUTTI_OK) {
            return status;
        }
        locality->chosen_be = chosen.address_be;
        locality->chosen_verbs = tt_locality_takes_verbs(settings, &chosen);
        locality->chosen_multicast = tt_interface_does_multicast(&chosen);
    }
    locality->host = tt_locality_host();
    read_name(locality->name);
    locality->net_count = 0;
    for (int order = 0; order < ORDERS; order++) {
        for (size_t i = 0; i < count && i < MAX_INTERFACES && locality->net_count < TT_LOCALITY_NETS; i++) {
            if (is_usable(&list[i]) && order_of(&list[i], root_be) == order) {
                add_net(&list[i], locality);
            }
        }
    }
    return TUTTI_OK;
}

static uint32_t network_of(uint32_t address_be, uint32_t prefix_bits)
{
    return prefix_bits == 0 ? 0 : ntohl(address_be) >> (32 - prefix_bits);
}

static const struct tt_locality *at(const struct tt_locality *all, uint32_t stride_bytes, uint32_t rank)
{
    return (const struct tt_locality *)((const uint8_t *)all + (size_t)rank * stride_bytes);
}

/* Whether a rank has an address in this network, of an interface with multicast if that counts; which one is *own_be.
 */
static bool is_in(const struct tt_locality *locality, uint32_t address_be, uint32_t prefix_bits, bool multicast,
                  uint32_t *own_be)
{
    for (uint32_t i = 0; i < locality->net_count && i < TT_LOCALITY_NETS; i++) {
        if (prefix_bits <= 32 && locality->nets[i].prefix_bits == prefix_bits &&
            (!multicast || locality->nets[i].multicast != 0) &&
            network_of(locality->nets[i].address_be, prefix_bits) == network_of(address_be, prefix_bits)) {
            *own_be = locality->nets[i].address_be;
            return true;
        }
    }
    return false;
}

/* This rank's address in the first network of rank 0 that reaches all, by multicast if that counts; 0: there is none.
 */
static uint32_t address_in_common(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size, uint32_t rank,
                                  bool multicast)
{
    const struct tt_locality *mine = at(all, stride_bytes, rank);

    for (uint32_t i = 0; i < all->net_count && i < TT_LOCALITY_NETS; i++) {
        uint32_t own_be = 0, other_be = 0;
        bool reaches = is_in(mine, all->nets[i].address_be, all->nets[i].prefix_bits, multicast, &own_be);

        for (uint32_t other = 0; reaches && other < size; other++) {
            const struct tt_locality *there = at(all, stride_bytes, other);

            /* An address that two hosts have is none of a common network, but of a bridge for containers in each. */
            reaches = is_in(there, all->nets[i].address_be, all->nets[i].prefix_bits, multicast, &other_be) &&
                      (there->host == all->host || other_be != all->nets[i].address_be);
        }
        if (reaches) {
            return own_be;
        }
    }
    return 0;
}

/* This rank's address in the first network that reaches all, or its first at all; 0: it has none. */
static uint32_t common_address(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size, uint32_t rank)
{
    const struct tt_locality *mine = at(all, stride_bytes, rank);
    uint32_t own_be = 0;

    assert(rank < size);
    assert(stride_bytes >= sizeof *all);
    for (int multicast = 1; multicast >= 0 && own_be == 0; multicast--) {
        own_be = address_in_common(all, stride_bytes, size, rank, multicast != 0);
    }
    return own_be != 0 || mine->net_count == 0 ? own_be : mine->nets[0].address_be;
}

static bool is_local(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size)
{
    bool local = true;

    for (uint32_t other = 0; other < size; other++) {
        local &= at(all, stride_bytes, other)->host == all->host;
    }
    return local;
}

bool tt_locality_has_verbs(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size)
{
    bool local = is_local(all, stride_bytes, size), everywhere = true;

    for (uint32_t rank = 0; rank < size && everywhere; rank++) {
        const struct tt_locality *there = at(all, stride_bytes, rank);
        uint32_t address_be = local ? 0 : common_address(all, stride_bytes, size, rank);

        everywhere = there->chosen_be != 0 && there->chosen_verbs != 0;
        for (uint32_t i = 0; there->chosen_be == 0 && i < there->net_count && i < TT_LOCALITY_NETS; i++) {
            everywhere |= there->nets[i].address_be == address_be && there->nets[i].verbs != 0;
        }
    }
    return everywhere;
}

uint32_t tt_locality_without_multicast(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size)
{
    bool local = is_local(all, stride_bytes, size);
    bool common = local || address_in_common(all, stride_bytes, size, 0, true) != 0;

    for (uint32_t rank = 0; rank < size; rank++) {
        const struct tt_locality *there = at(all, stride_bytes, rank);
        uint32_t address_be = common ? 0 : common_address(all, stride_bytes, size, rank);
        bool multicast = there->chosen_be != 0 ? there->chosen_multicast != 0 : address_be == 0;

        for (uint32_t i = 0; there->chosen_be == 0 && i < there->net_count && i < TT_LOCALITY_NETS; i++) {
            multicast |= there->nets[i].address_be == address_be && there->nets[i].multicast != 0;
        }
        if (!multicast) {
            return rank;
        }
    }
    return size;
}

tutti_status tt_locality_choose(const struct tt_settings *settings, const struct tt_locality *all,
                                uint32_t stride_bytes, uint32_t size, uint32_t rank, struct tt_interface *interface)
{
    struct tt_interface list[MAX_INTERFACES];
    size_t count = 0;
    uint32_t address_be;
    tutti_status status;
    bool local;

    if (strcmp(settings->interface, "auto") != 0) {
        return tt_interface_find(settings->interface, interface);
    }
    status = tt_interface_list(list, MAX_INTERFACES, &count);
    if (status != TUTTI_OK) {
        return status;
    }
    local = is_local(all, stride_bytes, size);
    address_be = local ? 0 : common_address(all, stride_bytes, size, rank);
    for (size_t i = 0; i < count && i < MAX_INTERFACES; i++) {
        if (local ? list[i].loopback && list[i].up && list[i].address_be != 0
                  : list[i].address_be == address_be && is_usable(&list[i])) {
            *interface = list[i];
            return TUTTI_OK;
        }
    }
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
                    local ? "the loopback interface is not up" : "no interface is up that has an IPv4 address");
}

bool tt_locality_around(const uint64_t *hosts, uint32_t size, uint32_t first, uint32_t *around)
{
    uint32_t count = 0;
    bool differs = false;

    for (uint32_t i = 0; i < size; i++) {
        uint64_t host = hosts[tt_rank_add(first, i, size)];
        bool is_placed = false;

        for (uint32_t k = 0; k < count && !is_placed; k++) {
            is_placed = hosts[around[k]] == host;
        }
        for (uint32_t k = i; k < size && !is_placed; k++) {
            uint32_t rank = tt_rank_add(first, k, size);

            if (hosts[rank] == host) {
                differs |= k != count;
                around[count++] = rank;
            }
        }
    }
    return differs;
}

tutti_status tt_locality_address(const struct tt_settings *settings, uint64_t key, uint32_t attempt, uint32_t subgroup,
                                 struct tt_mcast_address *address)
{
    uint32_t first, count, base;
    uint16_t first_port, last_port;
    uint64_t hash;
    tutti_status status = tt_parse_group_range(settings->group_range, &first, &count);

    if (status == TUTTI_OK) {
        status = tt_parse_ports(settings->ports, &first_port, &last_port);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    assert(count > 0);
    assert(first_port <= last_port);
    hash = tt_siphash(key, OF_ADDRESS, &attempt, sizeof attempt);
    base = (uint32_t)(hash % count);
    address->group_be = htonl(first + (uint32_t)(((uint64_t)base + subgroup) % count));
    address->port = (uint16_t)(first_port + (hash >> 32) % (uint64_t)(last_port - first_port + 1));
    address->key = tt_siphash(key, OF_QUEUE, &subgroup, sizeof subgroup);
    return TUTTI_OK;
}

uint64_t tt_locality_key(uint64_t context_id, uint64_t groups_before)
{
    return tt_siphash(context_id, OF_GROUP, &groups_before, sizeof groups_before);
}
