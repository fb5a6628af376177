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

enum { MAX_INTERFACES = 64, ORDERS = 9, IPV6_ORDERS = 6 };

static const struct tt_ip no_ip = {{0}};

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
    return interface->up && !interface->loopback && !tt_ip_is_none(interface->ip);
}

/* Of the first host of a ROOT ("host[,host...]:port", or "[host...]:port"), of which a user says which network is
 * meant: the first address of each family, or none. */
struct root {
    struct tt_ip ipv4, ipv6;
};

/* Takes as long as a name server does. */
static struct root read_root(const char *text)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM}, *found = NULL;
    struct root root = {no_ip, no_ip};
    char host[sizeof(((struct tt_settings *)0)->root)];
    bool is_bracketed = text[0] == '[';
    const char *start = text + is_bracketed;
    size_t length = strcspn(start, is_bracketed ? ",]" : ",:");

    if (length == 0 || length >= sizeof host) {
        return root;
    }
    memcpy(host, start, length);
    host[length] = '\0';
    if (getaddrinfo(host, NULL, &hints, &found) != 0) {
        return root;
    }
    for (const struct addrinfo *one = found; one != NULL; one = one->ai_next) {
        struct tt_ip ip = tt_ip_from_socket(one->ai_addr), *place = tt_ip_is_ipv6(ip) ? &root.ipv6 : &root.ipv4;

        *place = tt_ip_is_none(*place) ? ip : *place;
    }
    freeaddrinfo(found);
    return root;
}

static bool lists_ipv6(const struct tt_interface *list, size_t count)
{
    bool lists = false;

    for (size_t i = 0; i < count; i++) {
        lists |= is_usable(&list[i]) && tt_ip_is_ipv6(list[i].ip);
    }
    return lists;
}

/* The lower, the likelier it is that an interface leads to the other hosts of the job; from IPV6_ORDERS on of IPv6. */
static int order_of(const struct tt_interface *interface, const struct root *root)
{
    bool is_ipv6 = tt_ip_is_ipv6(interface->ip);
    bool is_root = tt_ip_is_equal(interface->ip, is_ipv6 ? root->ipv6 : root->ipv4);
    int order = is_root ? 0 : interface->default_route ? 1 : 2;

    return order + ORDERS / 3 * (interface->multicast ? 0 : is_ipv6 ? 2 : 1);
}

bool tt_locality_takes_verbs(const struct tt_settings *settings, const struct tt_interface *interface)
{
    static atomic_bool told; /* once a process: groups come and go */
    struct tt_verbs_device_options device = tt_network_device(settings, interface);
    struct tt_verbs_found found;

    bool is_named = strcmp(settings->device, "auto") != 0;

    /* Groups of multicast are joined by an address of IPv4. */
    if (strcmp(settings->mcast, "auto") != 0 || interface->loopback || (!is_named && tt_ip_is_ipv6(interface->ip)) ||
        !tt_verbs_device_exists(&device, &found)) {
        return false;
    }
    if (found.is_known || is_named) {
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
            if (tt_ip_is_equal(list[i].ip, locality->nets[net].ip) && tt_locality_takes_verbs(settings, &list[i])) {
                locality->nets[net].verbs = true;
            }
        }
    }
}

void tt_locality_find_verbs(const struct tt_settings *settings, struct tt_locality *locality)
{
    struct tt_interface list[MAX_INTERFACES];
    size_t count = 0;

    if (strcmp(settings->mcast, "auto") != 0 || locality->chosen != 0) {
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
    locality->nets[locality->net_count].ip = interface->ip;
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
    bool has_ipv6;
    struct root root = read_root(settings->rank == 0 ? settings->root : "");
    tutti_status status = tt_interface_list(list, MAX_INTERFACES, &count);

    if (status != TUTTI_OK) {
        return status;
    }
    if (strcmp(settings->interface, "auto") != 0) {
        status = tt_interface_find(settings->interface, &chosen); /* a bad setting is told to all ranks at once */
        if (status != TUTTI_OK) {
            return status;
        }
        locality->chosen = chosen.index;
        locality->chosen_verbs = tt_locality_takes_verbs(settings, &chosen);
        locality->chosen_multicast = tt_interface_does_multicast(&chosen);
        locality->chosen_ipv6 = tt_ip_is_ipv6(chosen.ip);
    }
    locality->host = tt_locality_host();
    read_name(locality->name);
    locality->net_count = 0;
    count = count < MAX_INTERFACES ? count : MAX_INTERFACES;
    has_ipv6 = lists_ipv6(list, count);
    for (int order = 0; order < ORDERS; order++) {
        uint32_t places = TT_LOCALITY_NETS - (has_ipv6 && order < IPV6_ORDERS);

        for (size_t i = 0; i < count && locality->net_count < places; i++) {
            if (is_usable(&list[i]) && order_of(&list[i], &root) == order) {
                add_net(&list[i], locality);
            }
        }
    }
    return TUTTI_OK;
}

static const struct tt_locality *at(const struct tt_locality *all, uint32_t stride_bytes, uint32_t rank)
{
    return (const struct tt_locality *)((const uint8_t *)all + (size_t)rank * stride_bytes);
}

/* What a network has to be. */
enum kind { WITH_MULTICAST, OF_IPV4, OF_IPV6 };

/* Whether a rank has an address in this network, of an interface with multicast if that counts; which one is *own. */
static bool is_in(const struct tt_locality *locality, struct tt_ip ip, uint32_t prefix_bits, enum kind kind,
                  struct tt_ip *own)
{
    for (uint32_t i = 0; i < locality->net_count && i < TT_LOCALITY_NETS; i++) {
        if (locality->nets[i].prefix_bits == prefix_bits &&
            (kind != WITH_MULTICAST || locality->nets[i].multicast != 0) &&
            tt_ip_share_prefix(locality->nets[i].ip, ip, prefix_bits)) {
            *own = locality->nets[i].ip;
            return true;
        }
    }
    return false;
}

/* This rank's address in the first network of rank 0 that is of this kind and reaches all; or none. */
static struct tt_ip address_in_common(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size,
                                      uint32_t rank, enum kind kind)
{
    const struct tt_locality *mine = at(all, stride_bytes, rank);

    for (uint32_t i = 0; i < all->net_count && i < TT_LOCALITY_NETS; i++) {
        struct tt_ip ip = all->nets[i].ip, own = no_ip, others = no_ip;
        uint32_t prefix_bits = all->nets[i].prefix_bits;
        bool reaches = tt_ip_is_ipv6(ip) == (kind == OF_IPV6) && is_in(mine, ip, prefix_bits, kind, &own);

        for (uint32_t other = 0; reaches && other < size; other++) {
            const struct tt_locality *there = at(all, stride_bytes, other);

            /* An address that two hosts have is none of a common network, but of a bridge for containers in each. */
            reaches = is_in(there, ip, prefix_bits, kind, &others) &&
                      (there->host == all->host || !tt_ip_is_equal(others, ip));
        }
        if (reaches) {
            return own;
        }
    }
    return no_ip;
}

/* A rank's first address of a family; or none. */
static struct tt_ip first_address(const struct tt_locality *locality, bool ipv6)
{
    for (uint32_t i = 0; i < locality->net_count && i < TT_LOCALITY_NETS; i++) {
        if (tt_ip_is_ipv6(locality->nets[i].ip) == ipv6) {
            return locality->nets[i].ip;
        }
    }
    return no_ip;
}

/* Whether every rank has an address of IPv4 that may lead to the others, through routers: not that of a bridge for
 * containers, which is the same on each host. */
static bool has_ipv4(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size)
{
    struct tt_ip first = first_address(all, false);
    bool everywhere = true;

    for (uint32_t rank = 0; rank < size && everywhere; rank++) {
        const struct tt_locality *there = at(all, stride_bytes, rank);
        struct tt_ip ip = first_address(there, false);

        everywhere = !tt_ip_is_none(ip) && (there->host == all->host || !tt_ip_is_equal(ip, first));
    }
    return everywhere;
}

/* This rank's address in the first network that reaches all, or its first at all; none: it has none. */
static struct tt_ip common_address(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size, uint32_t rank)
{
    const struct tt_locality *mine = at(all, stride_bytes, rank);
    struct tt_ip own = no_ip;

    assert(rank < size);
    assert(stride_bytes >= sizeof *all);
    for (enum kind kind = WITH_MULTICAST; kind <= OF_IPV4 && tt_ip_is_none(own); kind++) {
        own = address_in_common(all, stride_bytes, size, rank, kind);
    }
    if (tt_ip_is_none(own)) {
        bool ipv6 = !has_ipv4(all, stride_bytes, size);

        own = ipv6 ? address_in_common(all, stride_bytes, size, rank, OF_IPV6) : own;
        own = tt_ip_is_none(own) ? first_address(mine, ipv6) : own;
    }
    return tt_ip_is_none(own) && mine->net_count > 0 ? mine->nets[0].ip : own;
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
        struct tt_ip ip = local ? no_ip : common_address(all, stride_bytes, size, rank);

        everywhere = there->chosen != 0 && there->chosen_verbs != 0;
        for (uint32_t i = 0; there->chosen == 0 && i < there->net_count && i < TT_LOCALITY_NETS; i++) {
            everywhere |= tt_ip_is_equal(there->nets[i].ip, ip) && there->nets[i].verbs != 0;
        }
    }
    return everywhere;
}

uint32_t tt_locality_without_multicast(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size)
{
    bool local = is_local(all, stride_bytes, size);
    bool common = local || !tt_ip_is_none(address_in_common(all, stride_bytes, size, 0, WITH_MULTICAST));

    for (uint32_t rank = 0; rank < size; rank++) {
        const struct tt_locality *there = at(all, stride_bytes, rank);
        struct tt_ip ip = common ? no_ip : common_address(all, stride_bytes, size, rank);
        bool multicast = there->chosen != 0 ? there->chosen_multicast != 0 : tt_ip_is_none(ip);

        for (uint32_t i = 0; there->chosen == 0 && i < there->net_count && i < TT_LOCALITY_NETS; i++) {
            multicast |= tt_ip_is_equal(there->nets[i].ip, ip) && there->nets[i].multicast != 0;
        }
        if (!multicast) {
            return rank;
        }
    }
    return size;
}

bool tt_locality_uses_ipv6(const struct tt_locality *all, uint32_t stride_bytes, uint32_t size, uint32_t rank)
{
    const struct tt_locality *there = at(all, stride_bytes, rank);

    if (there->chosen != 0 || is_local(all, stride_bytes, size)) {
        return there->chosen_ipv6 != 0;
    }
    return tt_ip_is_ipv6(common_address(all, stride_bytes, size, rank));
}

/* The interface that the setting names, by its address of IPv6 where that of IPv4 does not lead to all: another rank's
 * has no other. */
static tutti_status find_named(const char *text, bool ipv6, const struct tt_interface *list, size_t count,
                               struct tt_interface *interface)
{
    tutti_status status = tt_interface_find(text, interface);

    if (status != TUTTI_OK || !ipv6 || strcmp(text, interface->name) != 0) {
        return status;
    }
    for (size_t i = 0; i < count && !tt_ip_is_ipv6(interface->ip); i++) {
        if (list[i].index == interface->index && tt_ip_is_ipv6(list[i].ip)) {
            *interface = list[i];
        }
    }
    return TUTTI_OK;
}

tutti_status tt_locality_choose(const struct tt_settings *settings, const struct tt_locality *all,
                                uint32_t stride_bytes, uint32_t size, uint32_t rank, struct tt_interface *interface)
{
    struct tt_interface list[MAX_INTERFACES];
    size_t count = 0;
    bool local, ipv6 = false;
    struct tt_ip ip;
    tutti_status status = tt_interface_list(list, MAX_INTERFACES, &count);

    if (status != TUTTI_OK) {
        return status;
    }
    count = count < MAX_INTERFACES ? count : MAX_INTERFACES;
    for (uint32_t other = 0; other < size; other++) {
        ipv6 |= at(all, stride_bytes, other)->chosen_ipv6 != 0;
    }
    if (strcmp(settings->interface, "auto") != 0) {
        return find_named(settings->interface, ipv6, list, count, interface);
    }
    local = is_local(all, stride_bytes, size);
    ip = local ? no_ip : common_address(all, stride_bytes, size, rank);
    for (size_t i = 0; i < count; i++) {
        if (local ? list[i].loopback && list[i].up && tt_ip_to_ipv4(list[i].ip) != 0
                  : tt_ip_is_equal(list[i].ip, ip) && is_usable(&list[i])) {
            *interface = list[i];
            return TUTTI_OK;
        }
    }
    return tt_error(TT_PART_ENGINE, TUTTI_ERR_NOT_SUPPORTED,
                    local ? "the loopback interface is not up"
                          : "no interface is up that has an IPv4 address, or one of IPv6 that is not link-local");
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
