/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A bit for each descriptor, set from the call that makes a socket until it is closed. A fork waits until no call is in
 * the middle of either, so a child finds what it has, and nothing else. A socket for whose bit there is no memory is
 * closed again.
 */
#include "base/socket.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { WORD_BITS = 64, LEAST_WORDS = 16 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static bool handles_forks;
static uint64_t *sockets;
static size_t word_count;

static uint64_t bit_of(int fd)
{
    return UINT64_C(1) << ((unsigned)fd % WORD_BITS);
}

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&mutex);
}

static void in_child(void)
{
    for (size_t i = 0; i < word_count; i++) {
        for (; sockets[i] != 0; sockets[i] &= sockets[i] - 1) {
            close((int)(i * WORD_BITS) + __builtin_ctzll(sockets[i]));
        }
    }
    pthread_mutex_unlock(&mutex);
}

/* Before anybody can have opened a socket: a fork that comes between that and its handlers would find the mutex locked.
 */
__attribute__((constructor)) static void handle_forks(void)
{
    handles_forks = pthread_atfork(before_fork, after_fork, in_child) == 0;
}

/* For the bit of `fd`; false: there is no memory. */
static bool make_room(int fd)
{
    size_t wanted = word_count > LEAST_WORDS ? word_count : LEAST_WORDS;
    while (wanted <= (size_t)fd / WORD_BITS) {
        wanted *= 2;
    }
    if (wanted > word_count) {
        uint64_t *grown = realloc(sockets, wanted * sizeof(*sockets));
        if (grown == NULL) {
            return false;
        }
        memset(grown + word_count, 0, (wanted - word_count) * sizeof(*sockets));
        sockets = grown;
        word_count = wanted;
    }
    return true;
}

/* The mutex is held; returns what the caller gets. */
static int keep(int fd)
{
    if (fd >= 0 && (!handles_forks || !make_room(fd))) {
        close(fd);
        errno = ENOMEM;
        return -1;
    }
    if (fd >= 0) {
        sockets[fd / WORD_BITS] |= bit_of(fd);
    }
    return fd;
}

int tt_socket_open(int family, int type)
{
    pthread_mutex_lock(&mutex);
    int fd = keep(socket(family, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    pthread_mutex_unlock(&mutex);
    return fd;
}

int tt_socket_accept(int listener)
{
    pthread_mutex_lock(&mutex);
    int fd = keep(accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK));
    pthread_mutex_unlock(&mutex);
    return fd;
}

void tt_socket_close(int socket)
{
    int error = errno;
    pthread_mutex_lock(&mutex);
    if (socket >= 0 && (size_t)socket / WORD_BITS < word_count && (sockets[socket / WORD_BITS] & bit_of(socket)) != 0) {
        sockets[socket / WORD_BITS] &= ~bit_of(socket);
        close(socket);
    }
    pthread_mutex_unlock(&mutex);
    errno = error;
}
