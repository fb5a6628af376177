/* SPDX-License-Identifier: BSD-3-Clause */
/* A name with two addresses: what a test that includes this has instead of the C library's resolver. */
#ifndef TT_TESTS_UNIT_TWO_ADDRESSES_H
#define TT_TESTS_UNIT_TWO_ADDRESSES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <sys/socket.h>

enum { ADDRESSES = 2 };

static const char *addresses[ADDRESSES]; /* of two.example, in their order */

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's header has reserved names */
int getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
    static struct sockaddr_in places[ADDRESSES];
    static struct addrinfo list[ADDRESSES];
    assert_string_equal(host, "two.example");
    for (int i = 0; i < ADDRESSES; i++) {
        places[i].sin_family = AF_INET;
        places[i].sin_port = htons((uint16_t)(service != NULL ? strtoul(service, NULL, 10) : 0));
        assert_int_equal(inet_pton(AF_INET, addresses[i], &places[i].sin_addr), 1);
        list[i] = (struct addrinfo){.ai_family = AF_INET,
                                    .ai_socktype = hints->ai_socktype,
                                    .ai_addrlen = sizeof(places[i]),
                                    .ai_addr = (struct sockaddr *)&places[i],
                                    .ai_next = i + 1 < ADDRESSES ? &list[i + 1] : NULL};
    }
    *found = list;
    return 0;
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): as above */
void freeaddrinfo(struct addrinfo *list)
{
    (void)list;
}

#endif
