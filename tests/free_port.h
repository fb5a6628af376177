/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A TCP port at which nobody listens or has listened lately, at any address. It is below those that the system gives to
 * connections, one of which may be taken by any connection between this look and its use; and where it looks is random,
 * so that tests that run at the same time do not look at the same.
 */
#ifndef TT_TESTS_FREE_PORT_H
#define TT_TESTS_FREE_PORT_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

static inline uint16_t tt_free_port(void)
{
    enum { FIRST = 12000, PORTS = 20000 };
    for (int look = 0; look < 1000; look++) {
        uint32_t random;
        if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
            abort();
        }
        uint16_t port = (uint16_t)(FIRST + random % PORTS);
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        int bound = bind(fd, (struct sockaddr *)&address, sizeof(address));
        close(fd);
        if (bound == 0) {
            return port;
        }
    }
    abort(); /* no descriptor, or no port of so many */
}

#endif
