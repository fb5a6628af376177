/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Interface discovery.
 *
 * Normal path: getifaddrs() names interfaces, flags and addresses; ioctls on a scratch socket add MTU and link speed.
 * The ioctls are asked rather than /sys because they look at the network namespace of the caller, whereas /sys shows
 * that of whoever mounted it. A host whose only address is one of IPv6 that cannot be bound yet is waited for.
 * Failures: no descriptor or no memory; an interface that vanishes meanwhile keeps MTU 0 and is reported as down; a
 * speed that a driver does not know, or says is -1, is 0.
 */
#include "fabric/udp/interface.h"

#include <errno.h>
#include <ifaddrs.h>
#include <limits.h>
#include <linux/ethtool.h>
#include <linux/if_addr.h>
#include <linux/sockios.h>
#include <net/route.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/socket.h"

enum {
    NAMES_BYTES = 256,
    ADDRESS_FLAGS_SHIFT = 24, /* those of an address of IPv6, above the interface's in its ifa_flags */
    LOOK_AGAIN_MS = 50
};

#define TENTATIVE_PATIENCE_NS (3000 * TT_NS_PER_MS) /* it takes the system 1 to 2 s to know */

static bool is_link_local(struct tt_ip ip)
{
    return ip.bytes[0] == 0xFE && (ip.bytes[1] & 0xC0) == 0x80; /* fe80::/10 */
}

static bool is_global(const struct ifaddrs *entry)
{
    struct tt_ip ip = tt_ip_from_socket(entry->ifa_addr);

    return !tt_ip_is_none(ip) && !is_link_local(ip);
}

/* Whether the system is still looking if another host has the address (IPv6): nobody can bind it meanwhile. */
static bool is_tentative(const struct ifaddrs *entry)
{
    unsigned flags = entry->ifa_flags >> ADDRESS_FLAGS_SHIFT;

    return (flags & IFA_F_TENTATIVE) != 0 && (flags & (IFA_F_OPTIMISTIC | IFA_F_DADFAILED)) == 0;
}

/* Not one that another host has, either. */
static bool has_address(const struct ifaddrs *entry)
{
    return is_global(entry) && !is_tentative(entry) && (entry->ifa_flags >> ADDRESS_FLAGS_SHIFT & IFA_F_DADFAILED) == 0;
}

/* Adds the flags of the addresses of IPv6, which /proc/net lists as "fd00...01 INDEX PREFIX SCOPE FLAGS NAME". */
static void add_address_flags(struct ifaddrs *all)
{
    enum { MATTERS = IFA_F_TENTATIVE | IFA_F_OPTIMISTIC | IFA_F_DADFAILED | IFA_F_DEPRECATED | IFA_F_TEMPORARY };
    enum { FIELDS = 6 };
    char line[256];
    FILE *addresses = fopen("/proc/net/if_inet6", "re");

    while (addresses != NULL && fgets(line, sizeof(line), addresses) != NULL) {
        char *rest = line, *fields[FIELDS];
        unsigned count = 0;
        struct tt_ip ip;

        while (count < FIELDS && (fields[count] = strtok_r(rest, " \n", &rest)) != NULL) {
            count++;
        }
        if (count < FIELDS || strlen(fields[0]) != 2 * sizeof(ip.bytes)) {
            continue;
        }
        for (size_t i = 0; i < sizeof(ip.bytes); i++) {
            const char digits[] = {fields[0][2 * i], fields[0][2 * i + 1], '\0'};
            ip.bytes[i] = (uint8_t)strtoul(digits, NULL, 16);
        }
        unsigned flags = (unsigned)strtoul(fields[4], NULL, 16) & MATTERS;
        for (struct ifaddrs *entry = all; flags != 0 && entry != NULL; entry = entry->ifa_next) {
            if (tt_ip_is_equal(tt_ip_from_socket(entry->ifa_addr), ip) && strcmp(entry->ifa_name, fields[5]) == 0) {
                entry->ifa_flags |= flags << ADDRESS_FLAGS_SHIFT;
            }
        }
    }
    if (addresses != NULL) {
        fclose(addresses);
    }
}

/* Whether there is an address that can be used soon, and none that can be now. */
static bool promises_address(const struct ifaddrs *all)
{
    bool promises = false;

    for (const struct ifaddrs *entry = all; entry != NULL; entry = entry->ifa_next) {
        if ((entry->ifa_flags & IFF_LOOPBACK) == 0 && (entry->ifa_flags & IFF_RUNNING) != 0) {
            if (has_address(entry)) {
                return false;
            }
            promises |= is_global(entry) && is_tentative(entry);
        }
    }
    return promises;
}

static int list_addresses(struct ifaddrs **all)
{
    uint64_t deadline_ns = tt_clock_now_ns() + TENTATIVE_PATIENCE_NS;

    for (;;) {
        if (getifaddrs(all) != 0) {
            return -1;
        }
        add_address_flags(*all);
        if (!promises_address(*all) || tt_clock_now_ns() >= deadline_ns) {
            return 0;
        }
        freeifaddrs(*all);
        (void)poll(NULL, 0, LOOK_AGAIN_MS);
    }
}

static bool has_link_local(const char *name, const struct ifaddrs *all)
{
    for (const struct ifaddrs *entry = all; entry != NULL; entry = entry->ifa_next) {
        if (strcmp(entry->ifa_name, name) == 0 && is_link_local(tt_ip_from_socket(entry->ifa_addr))) {
            return true;
        }
    }
    return false;
}

/* Whether an entry stands for an interface that has no address: its AF_PACKET entry, if no other follows. */
static bool stands_for_none(const struct ifaddrs *entry, const struct ifaddrs *all)
{
    if (entry->ifa_addr == NULL || entry->ifa_addr->sa_family != AF_PACKET) {
        return false;
    }
    size_t length = strlen(entry->ifa_name);
    for (const struct ifaddrs *other = all; other != NULL; other = other->ifa_next) {
        /* An address with a label is listed under its label, such as "eth0:1". */
        if (has_address(other) && strncmp(other->ifa_name, entry->ifa_name, length) == 0 &&
            (other->ifa_name[length] == '\0' || other->ifa_name[length] == ':')) {
            return false;
        }
    }
    return true;
}

static uint32_t query_mtu(int fd, const char *name)
{
    struct ifreq request = {0};

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    return ioctl(fd, SIOCGIFMTU, &request) == 0 && request.ifr_mtu > 0 ? (uint32_t)request.ifr_mtu : 0;
}

static uint32_t query_speed(int fd, const char *name)
{
    struct ethtool_cmd command = {.cmd = ETHTOOL_GSET};
    struct ifreq request = {.ifr_data = (char *)&command};

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(fd, SIOCETHTOOL, &request) != 0) {
        return 0;
    }
    uint32_t speed_mbit = (uint32_t)command.speed_hi << 16 | command.speed;
    return speed_mbit == (uint32_t)SPEED_UNKNOWN || speed_mbit == UINT16_MAX ? 0 : speed_mbit;
}

/* Whether an adapter is behind the interface. Where there is a bus the kernel names the place on it; virtual interfaces
 * say nothing, or one of a few words. */
static bool query_hardware(int fd, const char *name)
{
    static const char *const virtual[] = {"", "N/A", "tap", "tun"};
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ifreq request = {.ifr_data = (char *)&info};

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(fd, SIOCETHTOOL, &request) != 0) {
        return false;
    }
    for (size_t i = 0; i < sizeof(virtual) / sizeof(virtual[0]); i++) {
        if (strncmp(info.bus_info, virtual[i], sizeof(info.bus_info)) == 0) {
            return false;
        }
    }
    return true;
}

/* How the system lists the routes of a family, in words of a line from 0 on. */
struct route_list {
    const char *path;
    unsigned device, destination, mask, flags, metric;
    const char *any, *any_mask; /* destination and mask of the default route */
    int metric_base;
};

static const struct route_list routes_of_ipv4 = {"/proc/net/route", 0, 1, 7, 3, 6, "00000000", "00000000", 10};
static const struct route_list routes_of_ipv6 = {
    "/proc/net/ipv6_route", 9, 0, 1, 8, 5, "00000000000000000000000000000000", "00", 16};

/* The name of the interface with the default route, the one with the lowest metric; "" if there is none. Like the
 * ioctls, /proc/net is of the caller's network namespace. */
static void find_default_route(const struct route_list *list, char name[IF_NAMESIZE])
{
    enum { FIELDS = 10 };
    char line[256];
    unsigned long lowest = ULONG_MAX;
    FILE *routes = fopen(list->path, "re");

    name[0] = '\0';
    while (routes != NULL && fgets(line, sizeof(line), routes) != NULL) {
        char *rest = line, *fields[FIELDS];
        unsigned count = 0;

        while (count < FIELDS && (fields[count] = strtok_r(rest, " \t\n", &rest)) != NULL) {
            count++;
        }
        if (count <= list->device || count <= list->mask || strlen(fields[list->device]) >= IF_NAMESIZE ||
            strcmp(fields[list->destination], list->any) != 0 || strcmp(fields[list->mask], list->any_mask) != 0 ||
            (strtoul(fields[list->flags], NULL, 16) & RTF_UP) == 0) {
            continue;
        }
        unsigned long metric = strtoul(fields[list->metric], NULL, list->metric_base);
        if (metric < lowest) {
            lowest = metric;
            memcpy(name, fields[list->device], strlen(fields[list->device]) + 1);
        }
    }
    if (routes != NULL) {
        fclose(routes);
    }
}

/* How many bits a mask has; 0 without one. */
static uint32_t count_bits(const struct sockaddr *mask)
{
    struct tt_ip ip = tt_ip_from_socket(mask);
    uint32_t bits = 0;

    for (size_t i = tt_ip_is_ipv6(ip) ? 0 : sizeof(ip.bytes) - sizeof(uint32_t); i < sizeof(ip.bytes); i++) {
        bits += (uint32_t)__builtin_popcount(ip.bytes[i]);
    }
    return bits;
}

static void describe(int fd, const struct ifaddrs *entry, struct tt_interface *interface)
{
    memset(interface, 0, sizeof(*interface));
    size_t length = strcspn(entry->ifa_name, ":");
    memcpy(interface->name, entry->ifa_name, length < IF_NAMESIZE ? length : IF_NAMESIZE - 1);
    interface->index = if_nametoindex(interface->name);
    interface->mtu = query_mtu(fd, interface->name);
    interface->speed_mbit = query_speed(fd, interface->name);
    interface->hardware = query_hardware(fd, interface->name);
    interface->loopback = (entry->ifa_flags & IFF_LOOPBACK) != 0;
    interface->up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0 && interface->mtu > 0;
    if (has_address(entry)) {
        interface->ip = tt_ip_from_socket(entry->ifa_addr);
        interface->prefix_bits = count_bits(entry->ifa_netmask);
        unsigned flags = entry->ifa_flags >> ADDRESS_FLAGS_SHIFT;
        interface->preference = !tt_ip_is_ipv6(interface->ip)     ? TT_INTERFACE_IPV4
                                : (flags & IFA_F_DEPRECATED) != 0 ? TT_INTERFACE_DEPRECATED
                                : (flags & IFA_F_TEMPORARY) != 0  ? TT_INTERFACE_TEMPORARY
                                                                  : TT_INTERFACE_IPV6;
    }
    interface->multicast = (entry->ifa_flags & IFF_MULTICAST) != 0 && !tt_ip_is_ipv6(interface->ip);
}

static bool is_before(const struct tt_interface *one, const struct tt_interface *other)
{
    return one->index != other->index ? one->index < other->index : one->preference < other->preference;
}

/* Sorts by index, and leaves the addresses of one interface in their order, of which the first is its primary one; but
 * those of IPv6 come last, and of them those that end soon. */
static void sort_by_index(struct tt_interface *interfaces, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        struct tt_interface moving = interfaces[i];
        size_t place = i;
        for (; place > 0 && is_before(&moving, &interfaces[place - 1]); place--) {
            interfaces[place] = interfaces[place - 1];
        }
        interfaces[place] = moving;
    }
}

tutti_status tt_interface_list(struct tt_interface *interfaces, size_t capacity, size_t *count)
{
    struct ifaddrs *all = NULL;
    char default_route[IF_NAMESIZE], default_route_ipv6[IF_NAMESIZE];
    size_t found = 0;

    int fd = tt_socket_open(AF_INET, SOCK_DGRAM);
    if (fd < 0) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_RESOURCE, "cannot list network interfaces: socket: %s",
                        strerror(errno));
    }
    if (list_addresses(&all) != 0) {
        tt_socket_close(fd);
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_RESOURCE, "cannot list network interfaces: getifaddrs: %s",
                        strerror(errno));
    }
    find_default_route(&routes_of_ipv4, default_route);
    find_default_route(&routes_of_ipv6, default_route_ipv6);
    for (int pass = 0; pass < 2; pass++) { /* those with an address first: there may be many without */
        for (const struct ifaddrs *entry = all; entry != NULL; entry = entry->ifa_next) {
            if (pass == 0 ? !has_address(entry) : !stands_for_none(entry, all)) {
                continue;
            }
            if (found < capacity) {
                struct tt_interface *interface = &interfaces[found];
                describe(fd, entry, interface);
                interface->default_route =
                    strcmp(interface->name, tt_ip_is_ipv6(interface->ip) ? default_route_ipv6 : default_route) == 0;
                interface->link_local = tt_ip_is_none(interface->ip) && has_link_local(interface->name, all);
            }
            found++;
        }
    }
    freeifaddrs(all);
    tt_socket_close(fd);
    sort_by_index(interfaces, found < capacity ? found : capacity);
    *count = found;
    return TUTTI_OK;
}

/* Lists all interfaces into memory that the caller frees. */
static tutti_status list_all(struct tt_interface **interfaces, size_t *count)
{
    size_t capacity = 16;

    for (;;) {
        struct tt_interface *list = calloc(capacity, sizeof(*list));
        if (list == NULL) {
            return tt_error(TT_PART_FABRIC, TUTTI_ERR_NO_MEMORY, "no memory for a list of %zu interfaces", capacity);
        }
        size_t found = 0;
        tutti_status status = tt_interface_list(list, capacity, &found);
        if (status == TUTTI_OK && found <= capacity) {
            *interfaces = list;
            *count = found;
            return TUTTI_OK;
        }
        free(list);
        if (status != TUTTI_OK) {
            return status;
        }
        capacity = found + 16;
    }
}

/* "lo, eth0", as many as fit. */
static void join_names(const struct tt_interface *interfaces, size_t count, char text[NAMES_BYTES])
{
    size_t length = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        bool repeated = false;
        for (size_t j = 0; j < i; j++) {
            repeated = repeated || interfaces[j].index == interfaces[i].index;
        }
        if (repeated) {
            continue;
        }
        if (length + IF_NAMESIZE + sizeof(", ...") > NAMES_BYTES) {
            snprintf(text + length, NAMES_BYTES - length, ", ...");
            return;
        }
        length +=
            (size_t)snprintf(text + length, NAMES_BYTES - length, "%s%s", length == 0 ? "" : ", ", interfaces[i].name);
    }
}

static tutti_status check_usable(const char *text, const struct tt_interface *interface)
{
    if (!interface->up) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=%s: is down", text);
    }
    if (tt_ip_is_none(interface->ip)) {
        return tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT, "TUTTI_INTERFACE=%s: has no %s", text,
                        interface->link_local ? "address but a link-local one of IPv6, which other hosts cannot use"
                                              : "IPv4 or IPv6 address");
    }
    return TUTTI_OK;
}

tutti_status tt_interface_find(const char *text, struct tt_interface *interface)
{
    struct tt_interface *interfaces = NULL;
    size_t count = 0;
    struct tt_ip ip = {{0}};

    tutti_status status = list_all(&interfaces, &count);
    if (status != TUTTI_OK) {
        return status;
    }
    bool is_address = tt_ip_parse(text, &ip);
    const struct tt_interface *match = NULL;
    for (size_t i = 0; i < count && match == NULL; i++) {
        bool same_address = is_address && tt_ip_is_equal(interfaces[i].ip, ip);
        if (same_address || strcmp(interfaces[i].name, text) == 0) {
            match = &interfaces[i];
        }
    }
    if (match == NULL && is_address && is_link_local(ip)) {
        status = tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                          "TUTTI_INTERFACE=%s: is a link-local address, which other hosts cannot use", text);
    } else if (match == NULL) {
        char names[NAMES_BYTES];
        join_names(interfaces, count, names);
        status = tt_error(TT_PART_FABRIC, TUTTI_ERR_INVALID_ARGUMENT,
                          "TUTTI_INTERFACE=%s: no such interface (there are %s)", text, names);
    } else {
        status = check_usable(text, match);
        if (status == TUTTI_OK) {
            *interface = *match;
        }
    }
    free(interfaces);
    return status;
}

const char *tt_interface_format(const struct tt_interface *interface, char text[TT_INTERFACE_TEXT_BYTES])
{
    char address[TT_IP_TEXT_BYTES];

    snprintf(text, TT_INTERFACE_TEXT_BYTES, "%s (%s)", interface->name, tt_ip_format(interface->ip, address));
    return text;
}
