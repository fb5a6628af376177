/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An IP address as a value: 16 bytes, in which one of IPv4 is ::ffff:a.b.c.d (RFC 4291, 2.5.5.2), and none is all
 * zeros. So there is one comparison for both, and one form to send.
 */
#ifndef TT_BASE_IP_H
#define TT_BASE_IP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

struct tt_ip {
    uint8_t bytes[16];
};

enum { TT_IP_TEXT_BYTES = 46 };

/* Network byte order; 0 is none, and there is none of IPv4 in one of IPv6. */
struct tt_ip tt_ip_from_ipv4(uint32_t address_be);
uint32_t tt_ip_to_ipv4(struct tt_ip ip);

/* None where it is not of IPv4 or IPv6, or of IPv6 and yet stands for one of IPv4; `address` may be NULL. */
struct tt_ip tt_ip_from_socket(const struct sockaddr *address);

bool tt_ip_is_none(struct tt_ip ip);
bool tt_ip_is_ipv6(struct tt_ip ip);
bool tt_ip_is_equal(struct tt_ip one, struct tt_ip other);

/* Whether both are of one family and agree in their first bits; not where that is more than an address has. */
bool tt_ip_share_prefix(struct tt_ip one, struct tt_ip other, uint32_t prefix_bits);

/* How many bits an address of its family has. */
uint32_t tt_ip_bits(struct tt_ip ip);

/* "10.0.0.1", "fd00::1"; "-" for none. Returns `text`. */
const char *tt_ip_format(struct tt_ip ip, char text[TT_IP_TEXT_BYTES]);

/* Reads such a text; false if it is no address, or stands for none in particular ("0.0.0.0", "::"). */
bool tt_ip_parse(const char *text, struct tt_ip *ip);

#endif
