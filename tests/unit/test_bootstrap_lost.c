/* SPDX-License-Identifier: BSD-3-Clause */
/* A bootstrap whose first packet is lost: the system would repeat it after a second, and later each time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "bootstrap_fixture.h"
#include "patience.h"

enum { RANKS = 2, TIMEOUT_MS = 2500 * TT_PATIENCE };

static struct fixture_rank ranks[RANKS];

/* The local port of a socket that tries to reach this port and has not been answered; 0: there is none. */
static uint16_t port_that_waits_for(uint16_t remote)
{
    enum { SYN_SENT = 2 };
    char line[512];
    uint16_t found = 0;
    FILE *file = fopen("/proc/net/tcp", "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned own_port, remote_port, state;
        if (sscanf(line, " %*u: %*x:%x %*x:%x %x", &own_port, &remote_port, &state) == 3 && remote_port == remote &&
            state == SYN_SENT) {
            found = (uint16_t)own_port;
        }
    }
    fclose(file);
    return found;
}

static uint16_t peer_port(int fd)
{
    struct sockaddr_in address = {.sin_port = 0};
    socklen_t length = sizeof(address);
    assert_int_equal(getpeername(fd, (struct sockaddr *)&address, &length), 0);
    return ntohs(address.sin_port);
}

static void another_connection_is_tried_before_the_system_repeats_the_first_packet(void **state)
{
    uint16_t port, first = 0;
    unsigned begun_ms;
    int listener = fixture_listen(&port), filler;
    const struct timeval limit = {.tv_sec = 30};
    (void)state;
    assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0); /* of accept */
    assert_int_equal(listen(listener, 0), 0);
    filler = fixture_connect(port); /* the queue is full: what comes now is dropped */
    fixture_start(ranks, RANKS, port, TIMEOUT_MS, "x.");
    begun_ms = fixture_now_ms();
    while (first == 0 && fixture_now_ms() - begun_ms < 10000 * TT_PATIENCE) {
        first = port_that_waits_for(port);
        fixture_sleep_ms(1);
    }
    assert_int_not_equal(first, 0);
    assert_int_equal(listen(listener, 512), 0);  /* from now on nothing is */
    int accepted = accept(listener, NULL, NULL); /* the filler */
    close(accepted);
    accepted = accept(listener, NULL, NULL);
    assert_int_not_equal(peer_port(accepted), first);
    close(accepted);
    close(filler);
    close(listener);
    fixture_join(ranks, RANKS, "x.");
    assert_int_equal(ranks[1].created, TUTTI_ERR_TIMED_OUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(another_connection_is_tried_before_the_system_repeats_the_first_packet),
    };
    char message[128];
    tt_log_configure("none", NULL, message, sizeof(message));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
