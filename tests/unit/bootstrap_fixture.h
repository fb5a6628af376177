/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that bootstrap over loopback, each in a thread of its own, and connections that are no ranks. */
#ifndef TT_TESTS_BOOTSTRAP_FIXTURE_H
#define TT_TESTS_BOOTSTRAP_FIXTURE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"
#include "engine/bootstrap.h"
#include "wire/hello.h"

enum { FIXTURE_TEXT_BYTES = 1600 };

struct fixture_rank {
    struct tt_settings settings;
    unsigned delay_ms;                       /* before create */
    void (*play)(struct fixture_rank *self); /* what it does once created; NULL: nothing */
    const void *argument;                    /* play's */
    bool has_no_rank;                        /* rank 0 is to give it one */
    const char *host;                        /* of TUTTI_ROOT; NULL: 127.0.0.1 */

    struct tt_bootstrap *bootstrap;
    pthread_t thread;
    tutti_status created;
    uint32_t rank; /* once created */
    char create_error[FIXTURE_TEXT_BYTES];
    unsigned begun_ms, create_ms; /* when create began, and how long it took */
    int result;                   /* of the last allgather */
    char error[FIXTURE_TEXT_BYTES];
    unsigned last_ms; /* how long the last allgather took */
    int failed_rank;
    bool wrong_data;
};

/* A listening socket on loopback; *port is its port. */
int fixture_listen(uint16_t *port);

void fixture_settings(struct tt_settings *settings, uint32_t rank, uint32_t size, uint16_t port, unsigned timeout_ms);

/* Ranks that play once, and a port for them. */
void fixture_init(struct fixture_rank *ranks, uint32_t size, uint16_t *port);
/* Starts the ranks' threads, or those of them that are not left out (a string with 'x' in their places, or NULL). */
void fixture_start(struct fixture_rank *ranks, uint32_t size, uint16_t port, unsigned timeout_ms, const char *left_out);
/* Waits for the threads, and destroys what is left of the bootstraps. */
void fixture_join(struct fixture_rank *ranks, uint32_t size, const char *left_out);

/* An allgather whose bytes say where they belong; records result, error, time, and whether the data was right. */
void fixture_allgather(struct fixture_rank *self, size_t length_bytes, bool in_place);

/* For `play`: one allgather of *(const size_t *)argument bytes, 64 without an argument. */
void fixture_play_once(struct fixture_rank *self);

void fixture_sleep_ms(unsigned duration_ms);
unsigned fixture_now_ms(void);

/* A blocking connection with a receive timeout of thirty seconds. */
int fixture_connect(uint16_t port);
void fixture_say_hello(int fd, uint32_t rank, uint32_t size, uint64_t nonce, uint16_t version);
/* Reads a whole frame with its text; false on the end of the connection or after thirty seconds. */
bool fixture_read_frame(int fd, struct tt_hello *hello, char text[FIXTURE_TEXT_BYTES]);
/* By the main thread: says hello by hand, and must be welcomed as `expected`; returns the connection. */
int fixture_be_welcomed(uint16_t port, uint32_t rank, uint32_t size, uint64_t nonce, uint32_t expected);
/* What has been said on the connection must be refused with this; closes it. */
void fixture_be_refused(int fd, tutti_status status, const char *expected);
/* Reads one byte: 1, 0 for the end of the connection, -1 for an error (errno: EAGAIN after thirty seconds). */
int fixture_read_byte(int fd);
/* Closes with a reset. */
void fixture_reset(int fd);

#endif
