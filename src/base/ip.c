/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * IP addresses. Normal path: bytes are compared, whatever the family. Failures: none but text that is no address.
 */
#include "base/ip.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

enum { MAPPED_BYTES = 12, IPV4_BITS = 32, IPV6_BITS = 128, BITS = 8 };

static const uint8_t mapped[MAPPED_BYTES] = {[10] = 0xFF, 0xFF};

static bool is_ipv4(struct tt_ip ip)
{
    return memcmp(ip.bytes, mapped, MAPPED_BYTES) == 0;
}

struct tt_ip tt_ip_from_ipv4(uint32_t address_be)
{
    struct tt_ip ip = {{0}};

    if (address_be != 0) {
        memcpy(ip.bytes, mapped, MAPPED_BYTES);
        memcpy(ip.bytes + MAPPED_BYTES, &address_be, sizeof address_be);
    }
    return ip;
}

uint32_t tt_ip_to_ipv4(struct tt_ip ip)
{
    uint32_t address_be = 0;

    if (is_ipv4(ip)) {
        memcpy(&address_be, ip.bytes + MAPPED_BYTES, sizeof address_be);
    }
    return address_be;
}

struct tt_ip tt_ip_from_socket(const struct sockaddr *address)
{
    struct sockaddr_in ipv4 = {0};
    struct sockaddr_in6 ipv6 = {0};
    struct tt_ip ip = {{0}};

    if (address != NULL && address->sa_family == AF_INET) {
        memcpy(&ipv4, address, sizeof ipv4);
        ip = tt_ip_from_ipv4(ipv4.sin_addr.s_addr);
    } else if (address != NULL && address->sa_family == AF_INET6) {
        memcpy(&ipv6, address, sizeof ipv6);
        memcpy(ip.bytes, &ipv6.sin6_addr, sizeof ip.bytes);
        ip = is_ipv4(ip) ? (struct tt_ip){{0}} : ip; /* its prefix would be that of an address of IPv6 */
    }
    return ip;
}

bool tt_ip_is_none(struct tt_ip ip)
{
    return tt_ip_is_equal(ip, (struct tt_ip){{0}});
}

bool tt_ip_is_ipv6(struct tt_ip ip)
{
    return !tt_ip_is_none(ip) && !is_ipv4(ip);
}

bool tt_ip_is_equal(struct tt_ip one, struct tt_ip other)
{
    return memcmp(one.bytes, other.bytes, sizeof one.bytes) == 0;
}

uint32_t tt_ip_bits(struct tt_ip ip)
{
    return is_ipv4(ip) ? IPV4_BITS : IPV6_BITS;
}

bool tt_ip_share_prefix(struct tt_ip one, struct tt_ip other, uint32_t prefix_bits)
{
    if (is_ipv4(one) != is_ipv4(other) || prefix_bits > tt_ip_bits(one)) {
        return false;
    }
    uint32_t bits = IPV6_BITS - tt_ip_bits(one) + prefix_bits, whole = bits / BITS, rest = bits % BITS;

    return memcmp(one.bytes, other.bytes, whole) == 0 &&
           (rest == 0 || (one.bytes[whole] ^ other.bytes[whole]) >> (BITS - rest) == 0);
}

const char *tt_ip_format(struct tt_ip ip, char text[TT_IP_TEXT_BYTES])
{
    bool ipv4 = is_ipv4(ip);

    if (tt_ip_is_none(ip) ||
        inet_ntop(ipv4 ? AF_INET : AF_INET6, ip.bytes + (ipv4 ? MAPPED_BYTES : 0), text, TT_IP_TEXT_BYTES) == NULL) {
        snprintf(text, TT_IP_TEXT_BYTES, "-");
    }
    return text;
}

bool tt_ip_parse(const char *text, struct tt_ip *ip)
{
    struct in_addr ipv4;
    struct tt_ip read = {{0}};

    if (inet_pton(AF_INET, text, &ipv4) == 1) {
        read = tt_ip_from_ipv4(ipv4.s_addr);
    } else if (inet_pton(AF_INET6, text, read.bytes) != 1) {
        return false;
    }
    if (tt_ip_is_none(read)) {
        return false;
    }
    *ip = read;
    return true;
}
