/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: from rank 0's interfaces to a connection, without anybody having to name an address.
 *
 * Normal path: rank 0 listens everywhere and describes itself; each other rank picks what it can reach. The bootstrap
 * says hello at the address, so one that leads elsewhere costs a try and no more.
 *
 * Failures: a port that is taken; a host without an address can still be met from itself.
 */
#include "engine/meeting.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ip.h"
#include "base/log.h"
#include "base/shortage.h"
#include "engine/locality.h"
#include "fabric/udp/interface.h"

enum { MAX_INTERFACES = 64, MAX_ADDRESSES = 8, ORDERS = 4, ADDRESS_TEXT_BYTES = TT_IP_TEXT_BYTES + 16 };

struct address {
    struct tt_ip ip;
    uint32_t prefix_bits;
};

/* --- The socket --------------------------------------------------------------------------------------------------- */

/* The socket, or -1 with errno; children share it, who may meet there in groups of their own. Also for IPv6 where there
 * is one, since a name may stand for either. */
static int open_listener(uint16_t port)
{
    static const int on = 1, off = 0;
    struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = IN6ADDR_ANY_INIT};
    struct sockaddr_in any4 = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = INADDR_ANY};
    bool has_ipv6 = true;
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) != 0) {
        if (fd >= 0) {
            close(fd);
        }
        has_ipv6 = false;
        fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    }
    if (fd < 0) {
        return -1;
    }
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)); /* connections of an earlier job may still be closing */
    int failed =
        has_ipv6 ? bind(fd, (struct sockaddr *)&any6, sizeof(any6)) : bind(fd, (struct sockaddr *)&any4, sizeof(any4));
    if (failed != 0 || listen(fd, SOMAXCONN) != 0) {
        int reason = errno;
        close(fd);
        errno = reason;
        return -1;
    }
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof(address);
    struct sockaddr_in in4;
    struct sockaddr_in6 in6;

    getsockname(fd, (struct sockaddr *)&address, &length);
    if (address.ss_family == AF_INET6) {
        memcpy(&in6, &address, sizeof(in6));
        return ntohs(in6.sin6_port);
    }
    memcpy(&in4, &address, sizeof(in4));
    return ntohs(in4.sin_port);
}

tutti_status tt_meeting_listen(uint16_t *port, int *fd)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        int fd;
        uint16_t asked, port;
    } kept = {.fd = -1};
    tutti_status status = TUTTI_OK;

    pthread_mutex_lock(&lock);
    if (kept.fd < 0 || kept.asked != *port) {
        int opened = open_listener(*port);
        if (opened >= 0) {
            /* A socket for another port stays open: a group may be meeting there. */
            kept.fd = opened;
            kept.asked = *port;
            kept.port = port_of(opened);
        } else if (errno == EADDRINUSE) {
            status =
                tt_error(TT_PART_ENGINE, TUTTI_ERR_IN_USE,
                         "rank 0 cannot listen at port %u: another process does (TUTTI_ROOT=host:port chooses)", *port);
        } else {
            char why[TT_SHORTAGE_TEXT_BYTES];

            status = tt_error(TT_PART_ENGINE, tt_shortage_status_or(errno, TUTTI_ERR_IO),
                              "rank 0 cannot listen at port %u: %s", *port, tt_shortage_text(errno, why));
        }
    }
    if (status == TUTTI_OK) {
        assert(kept.fd >= 0);
        assert(kept.port > 0);
        *port = kept.port;
        *fd = kept.fd;
    }
    pthread_mutex_unlock(&lock);
    return status;
}

/* --- Addresses ---------------------------------------------------------------------------------------------------- */

/* This host's addresses but loopback's: those of IPv4 first, of these the default route's interface. */
static tutti_status own_addresses(const struct tt_settings *settings, struct address addresses[MAX_ADDRESSES],
                                  size_t *count)
{
    struct tt_interface list[MAX_INTERFACES];
    size_t listed = 0, found = 0;
    tutti_status status;

    if (strcmp(settings->interface, "auto") != 0) {
        status = tt_interface_find(settings->interface, &list[0]);
        listed = 1;
    } else {
        status = tt_interface_list(list, MAX_INTERFACES, &listed);
    }
    if (status != TUTTI_OK) {
        return status;
    }
    listed = listed < MAX_INTERFACES ? listed : MAX_INTERFACES;
    for (int order = 0; order < ORDERS; order++) {
        for (size_t i = 0; i < listed && found < MAX_ADDRESSES; i++) {
            if (list[i].up && !list[i].loopback && !tt_ip_is_none(list[i].ip) &&
                tt_ip_is_ipv6(list[i].ip) * 2 + !list[i].default_route == order) {
                addresses[found++] = (struct address){list[i].ip, list[i].prefix_bits};
            }
        }
    }
    *count = found;
    return TUTTI_OK;
}

tutti_status tt_meeting_describe(const struct tt_settings *settings, uint16_t port, char *text, size_t text_bytes)
{
    struct address addresses[MAX_ADDRESSES];
    char written[TT_SETTING_TEXT_BYTES] = "", address[TT_IP_TEXT_BYTES], word[ADDRESS_TEXT_BYTES];
    size_t count = 0;
    tutti_status status = own_addresses(settings, addresses, &count);

    if (status != TUTTI_OK) {
        return status;
    }
    size_t length = (size_t)snprintf(written, sizeof(written), "%u %016" PRIx64, port, tt_locality_host());
    for (size_t i = 0; i < count; i++) {
        size_t bytes = (size_t)snprintf(word, sizeof(word), " %s/%" PRIu32, tt_ip_format(addresses[i].ip, address),
                                        addresses[i].prefix_bits);

        if (length + bytes < sizeof(written)) { /* all of IPv4 do, and some of IPv6 */
            memcpy(written + length, word, bytes + 1);
            length += bytes;
        }
    }
    if (length >= text_bytes) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_TOO_LARGE, "rank 0's addresses do not fit %zu bytes: %s", text_bytes,
                        written);
    }
    memcpy(text, written, length + 1);
    return TUTTI_OK;
}

static bool share_network(const struct address *one, const struct address *other)
{
    return one->prefix_bits == other->prefix_bits && one->prefix_bits > 0 && !tt_ip_is_equal(one->ip, other->ip) &&
           tt_ip_share_prefix(one->ip, other->ip, one->prefix_bits);
}

/* How near an address of rank 0 is: in a network that this host is in, elsewhere, or one that this host has itself,
 * which leads nowhere else (the address of a bridge for containers is the same on every host). */
enum { NEAR, ELSEWHERE, OWN, DISTANCE_COUNT };

static int distance_to(const struct address *theirs, const struct address *own, size_t own_count)
{
    int distance = ELSEWHERE;
    for (size_t i = 0; i < own_count; i++) {
        if (tt_ip_is_equal(own[i].ip, theirs->ip)) {
            return OWN;
        }
        distance = share_network(theirs, &own[i]) ? NEAR : distance;
    }
    return distance;
}

/* Reads a number up to one of `ends`, or the text's end if that is '\0'; NULL if there is none, else where it ends. */
static const char *read_number(const char *text, int base, const char *ends, uint64_t maximum, uint64_t *number)
{
    char *end = NULL;
    errno = 0;
    *number = strtoull(text, &end, base);
    bool is_number = isxdigit((unsigned char)*text) && end != text && errno == 0 && *number <= maximum;
    return is_number && (*end == '\0' || strchr(ends, *end) != NULL) ? end : NULL;
}

/* Reads "ADDRESS/BITS" up to a space or the end; NULL if that is none, else where it ends. */
static const char *read_address(const char *text, struct address *address)
{
    char word[TT_IP_TEXT_BYTES];
    size_t length = strcspn(text, "/");
    struct tt_ip ip;
    uint64_t bits = 0;

    if (length >= sizeof(word) || text[length] != '/') {
        return NULL;
    }
    memcpy(word, text, length);
    word[length] = '\0';
    if (!tt_ip_parse(word, &ip)) {
        return NULL;
    }
    const char *end = read_number(text + length + 1, 10, " ", tt_ip_bits(ip), &bits);
    if (end != NULL) {
        *address = (struct address){ip, (uint32_t)bits};
    }
    return end;
}

/* Reads the addresses of a description; false if it is none. */
static bool parse_description(const char *description, uint64_t *port, uint64_t *host,
                              struct address addresses[MAX_ADDRESSES], size_t *count)
{
    const char *at = read_number(description, 10, " ", UINT16_MAX, port);
    if (at == NULL || *at != ' ' || *port == 0) {
        return false;
    }
    at = read_number(at + 1, 16, " ", UINT64_MAX, host);
    for (*count = 0; at != NULL && *at == ' ' && *count < MAX_ADDRESSES; ++*count) {
        at = read_address(at + 1, &addresses[*count]);
    }
    return at != NULL && *at == '\0';
}

tutti_status tt_meeting_choose(const struct tt_settings *settings, const char *description, char *root,
                               size_t root_bytes)
{
    struct address theirs[MAX_ADDRESSES], own[MAX_ADDRESSES];
    char hosts[MAX_ADDRESSES * ADDRESS_TEXT_BYTES] = "";
    size_t their_count = 0, own_count = 0, length = 0;
    uint64_t port = 0, host = 0;
    bool has_ipv6 = false;

    if (!parse_description(description, &port, &host, theirs, &their_count)) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_BOOTSTRAP, "'%s' does not say where rank 0 listens", description);
    }
    tutti_status status = own_addresses(settings, own, &own_count);
    if (status != TUTTI_OK) {
        return status;
    }
    if (host == tt_locality_host()) {
        their_count = 0;
        length = (size_t)snprintf(hosts, sizeof(hosts), "127.0.0.1");
    }
    for (int distance = 0; distance < DISTANCE_COUNT; distance++) {
        for (size_t i = 0; i < their_count; i++) {
            char address[TT_IP_TEXT_BYTES];
            if (distance_to(&theirs[i], own, own_count) == distance) {
                has_ipv6 |= tt_ip_is_ipv6(theirs[i].ip);
                length += (size_t)snprintf(hosts + length, sizeof(hosts) - length, "%s%s", length > 0 ? "," : "",
                                           tt_ip_format(theirs[i].ip, address));
                assert(length < sizeof(hosts));
            }
        }
    }
    if (length == 0) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_BOOTSTRAP,
                        "rank 0 is on another host and has no address that others could reach ('%s')", description);
    }
    const char *open = has_ipv6 ? "[" : "", *close = has_ipv6 ? "]" : "";
    if ((size_t)snprintf(NULL, 0, "%s%s%s:%" PRIu64, open, hosts, close, port) >= root_bytes) {
        return tt_error(TT_PART_ENGINE, TUTTI_ERR_TOO_LARGE, "rank 0's addresses do not fit %zu bytes: %s", root_bytes,
                        hosts);
    }
    snprintf(root, root_bytes, "%s%s%s:%" PRIu64, open, hosts, close, port);
    return TUTTI_OK;
}
