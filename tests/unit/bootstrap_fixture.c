/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: ranks in threads, for the bootstrap's tests.
 *
 * Normal path: start, join, then the test looks at what every rank has recorded.
 *
 * Failures: cmocka's assertions belong to the main thread, so the ranks' threads only record; what the fixture itself
 * cannot do (no socket, no thread) ends the program.
 */
#include "bootstrap_fixture.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "free_port.h"

static void require(bool condition, const char *what)
{
    if (!condition) {
        fprintf(stderr, "fixture: %s: %s\n", what, strerror(errno));
        abort();
    }
}

int fixture_listen(uint16_t *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *port = tt_free_port();
    address.sin_port = htons(*port);
    require(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 && listen(fd, 512) == 0, "listen");
    return fd;
}

void fixture_settings(struct tt_settings *settings, uint32_t rank, uint32_t size, uint16_t port, unsigned timeout_ms)
{
    memset(settings, 0, sizeof(*settings));
    settings->rank = rank;
    settings->size = size;
    settings->root_fd = TT_AUTO;
    settings->bootstrap_timeout_ns = timeout_ms * TT_NS_PER_MS;
    snprintf(settings->root, sizeof(settings->root), "127.0.0.1:%u", port);
}

void fixture_sleep_ms(unsigned duration_ms)
{
    struct timespec duration = {.tv_sec = duration_ms / 1000, .tv_nsec = duration_ms % 1000 * 1000000L};
    while (nanosleep(&duration, &duration) != 0 && errno == EINTR) {
    }
}

unsigned fixture_now_ms(void)
{
    return (unsigned)(tt_clock_now_ns() / TT_NS_PER_MS);
}

static uint8_t byte_of(uint32_t rank, size_t offset)
{
    return (uint8_t)(rank * 131 + offset * 7 + (offset >> 8));
}

void fixture_allgather(struct fixture_rank *self, size_t length_bytes, bool in_place)
{
    uint32_t rank = tt_bootstrap_rank(self->bootstrap), size = (uint32_t)self->settings.size;
    uint8_t *receive = malloc(size * length_bytes + 1);
    uint8_t *own = in_place ? receive + rank * length_bytes : malloc(length_bytes + 1);
    require(receive != NULL && own != NULL, "malloc");
    memset(receive, 0xAA, size * length_bytes + 1);
    for (size_t i = 0; i < length_bytes; i++) {
        own[i] = byte_of(rank, i);
    }
    unsigned start_ms = fixture_now_ms();
    tt_clear_error();
    self->result = tt_bootstrap_allgather(self->bootstrap, own, receive, length_bytes);
    self->last_ms = fixture_now_ms() - start_ms;
    snprintf(self->error, sizeof(self->error), "%s", tt_last_error());
    self->wrong_data = receive[size * length_bytes] != 0xAA;
    for (size_t i = 0; i < size * length_bytes && self->result == 0; i++) {
        self->wrong_data = self->wrong_data || receive[i] != byte_of((uint32_t)(i / length_bytes), i % length_bytes);
    }
    free(in_place ? NULL : own);
    free(receive);
}

void fixture_play_once(struct fixture_rank *self)
{
    fixture_allgather(self, self->argument != NULL ? *(const size_t *)self->argument : 64, false);
}

static void *run(void *argument)
{
    struct fixture_rank *self = argument;
    fixture_sleep_ms(self->delay_ms);
    self->begun_ms = fixture_now_ms();
    tt_clear_error();
    self->created = tt_bootstrap_create(&self->settings, &self->bootstrap);
    self->create_ms = fixture_now_ms() - self->begun_ms;
    snprintf(self->create_error, sizeof(self->create_error), "%s", tt_last_error());
    if (self->created == TUTTI_OK) {
        self->rank = tt_bootstrap_rank(self->bootstrap);
    }
    if (self->created == TUTTI_OK && self->play != NULL) {
        self->play(self);
    }
    return NULL;
}

static bool is_left_out(const char *left_out, uint32_t rank)
{
    return left_out != NULL && left_out[rank] == 'x';
}

void fixture_start(struct fixture_rank *ranks, uint32_t size, uint16_t port, unsigned timeout_ms, const char *left_out)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        if (!is_left_out(left_out, rank)) {
            uint64_t root_fd = ranks[rank].settings.root_fd, traffic_class = ranks[rank].settings.traffic_class;
            fixture_settings(&ranks[rank].settings, rank, size, port, timeout_ms);
            ranks[rank].settings.traffic_class = traffic_class;
            if (ranks[rank].host != NULL) {
                snprintf(ranks[rank].settings.root, sizeof(ranks[rank].settings.root), "%s:%u", ranks[rank].host, port);
            }
            if (root_fd != 0) {
                ranks[rank].settings.root_fd = root_fd;
            }
            if (ranks[rank].has_no_rank) {
                ranks[rank].settings.rank = TT_AUTO;
            }
            require(pthread_create(&ranks[rank].thread, NULL, run, &ranks[rank]) == 0, "pthread_create");
        }
    }
}

void fixture_join(struct fixture_rank *ranks, uint32_t size, const char *left_out)
{
    for (uint32_t rank = 0; rank < size; rank++) {
        if (!is_left_out(left_out, rank)) {
            pthread_join(ranks[rank].thread, NULL);
        }
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        tt_bootstrap_destroy(ranks[rank].bootstrap);
        ranks[rank].bootstrap = NULL;
    }
}

int fixture_connect(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct timeval limit = {.tv_sec = 30};
    unsigned start_ms = fixture_now_ms();
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        require(fd >= 0, "socket");
        if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
            setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
            return fd;
        }
        /* Rank 0 may not listen yet. */
        require(errno == ECONNREFUSED && fixture_now_ms() - start_ms < 30000, "connect");
        close(fd);
        fixture_sleep_ms(5);
    }
}

void fixture_say_hello(int fd, uint32_t rank, uint32_t size, uint64_t nonce, uint16_t version)
{
    const struct tt_hello hello = {
        .type = TT_HELLO_HELLO, .version = version, .rank = rank, .size = size, .nonce = nonce};
    uint8_t bytes[TT_HELLO_BYTES];
    tt_hello_encode(&hello, bytes);
    require(send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) == (ssize_t)sizeof(bytes), "send");
}

bool fixture_read_frame(int fd, struct tt_hello *hello, char text[FIXTURE_TEXT_BYTES])
{
    uint8_t bytes[TT_HELLO_BYTES];
    if (recv(fd, bytes, sizeof(bytes), MSG_WAITALL) != (ssize_t)sizeof(bytes) ||
        tt_hello_decode(bytes, hello) != TUTTI_OK || hello->length_bytes >= FIXTURE_TEXT_BYTES) {
        return false;
    }
    ssize_t length = (ssize_t)hello->length_bytes;
    text[length] = '\0';
    return length == 0 || recv(fd, text, (size_t)length, MSG_WAITALL) == length;
}

int fixture_read_byte(int fd)
{
    char byte;
    return (int)recv(fd, &byte, 1, 0);
}

void fixture_reset(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
}

void fixture_init(struct fixture_rank *ranks, uint32_t size, uint16_t *port)
{
    memset(ranks, 0, size * sizeof(*ranks));
    for (uint32_t i = 0; i < size; i++) {
        ranks[i].play = fixture_play_once;
    }
    *port = tt_free_port();
}

int fixture_be_welcomed(uint16_t port, uint32_t rank, uint32_t size, uint64_t nonce, uint32_t expected)
{
    struct tt_hello hello;
    char text[FIXTURE_TEXT_BYTES];
    int fd = fixture_connect(port);
    fixture_say_hello(fd, rank, size, nonce, TT_HELLO_VERSION);
    require(fixture_read_frame(fd, &hello, text), "no answer to a hello");
    assert_int_equal(hello.type, TT_HELLO_WELCOME);
    assert_int_equal(hello.rank, expected);
    assert_true(hello.nonce == nonce);
    assert_in_range(hello.value, 1, UINT64_C(30000000000)); /* the time that is left */
    return fd;
}

void fixture_be_refused(int fd, tutti_status status, const char *expected)
{
    struct tt_hello hello;
    char text[FIXTURE_TEXT_BYTES];
    require(fixture_read_frame(fd, &hello, text), "no answer to a hello");
    assert_int_equal(hello.type, TT_HELLO_REFUSE);
    assert_int_equal(hello.status, status);
    assert_string_equal(text, expected);
    assert_int_equal(fixture_read_byte(fd), 0);
    close(fd);
}
