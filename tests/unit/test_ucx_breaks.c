/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection of UCX that breaks while the kernel has taken a part of a message. What UCX sends goes through the
 * functions below, which the program gives to the libraries that it loads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "fabric/ucx/ucx.h"
#include "pair_fixture.h"

enum { REGION_BYTES = 300000, LARGE_BYTES = 16 * 1024, PIECES = 8 };

static uint8_t theirs[REGION_BYTES], mine[REGION_BYTES];

/* --- What UCX sends ---------------------------------------------------------------------------------------------- */

static bool breaks; /* with the next large message */
static int broken_fd = -1;
static uint32_t refused;

/* Half of the first large message, and then nothing more on its socket. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
    static ssize_t (*real)(int, const struct msghdr *, int);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
    }
    if (fd == broken_fd) {
        refused++;
        errno = ECONNRESET;
        return -1;
    }
    size_t total_bytes = 0;
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        total_bytes += message->msg_iov[i].iov_len;
    }
    if (!breaks || total_bytes < LARGE_BYTES || message->msg_iovlen > PIECES) {
        return real(fd, message, flags);
    }
    struct iovec pieces[PIECES];
    struct msghdr half = {.msg_iov = pieces};
    for (size_t left_bytes = total_bytes / 2; left_bytes > 0; half.msg_iovlen++) {
        struct iovec piece = message->msg_iov[half.msg_iovlen];
        piece.iov_len = piece.iov_len < left_bytes ? piece.iov_len : left_bytes;
        pieces[half.msg_iovlen] = piece;
        left_bytes -= piece.iov_len;
    }
    breaks = false;
    broken_fd = fd;
    return real(fd, &half, flags);
}

/* NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): the system's header has reserved names */
ssize_t send(int fd, const void *bytes, size_t length_bytes, int flags)
{
    struct iovec whole = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length_bytes};
    return sendmsg(fd, &(struct msghdr){.msg_iov = &whole, .msg_iovlen = 1}, flags);
}

/* UCX 1.13 ends a send that it had begun without a copy twice, and the process by an assertion. */
static void a_connection_that_breaks_within_a_message_ends_the_peer_and_nothing_else(void **state)
{
    struct tt_p2p_peer *peer = pair_sides[A].peer;
    struct remote remote;
    (void)state;
    refused = 0;
    pair_exchange();
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &remote);
    breaks = true;
    assert_int_equal(peer->ops->put(peer, remote.key, remote.key_bytes, (uintptr_t)theirs, mine, REGION_BYTES,
                                    &(struct tt_p2p_immediate){.value = 9}, 2),
                     TUTTI_OK);
    assert_true(pair_reaches(&pair_sides[A].dones, 1));
    assert_true(pair_reaches(&pair_sides[A].downs, 1));
    assert_int_equal(pair_sides[A].last_status, TUTTI_ERR_PEER_FAILED);
    assert_true(refused > 0);
    assert_int_equal(pair_sides[B].immediates, 0);
    broken_fd = -1;
    pair_sides[B].p2p->ops->memory_release(remote.memory);
}

/* As where there are devices, whose gets and puts need it. */
static int make_without_copies(void **state)
{
    setenv("UCX_ZCOPY_THRESH", "1k", 1);
    return pair_make_connected(state);
}

static int end_without_copies(void **state)
{
    unsetenv("UCX_ZCOPY_THRESH");
    return pair_end(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_connection_that_breaks_within_a_message_ends_the_peer_and_nothing_else,
                                        pair_make_connected, pair_end),
        {.name = "a_connection_that_breaks_within_a_message_that_may_be_sent_without_a_copy_does_so_too",
         .test_func = a_connection_that_breaks_within_a_message_ends_the_peer_and_nothing_else,
         .setup_func = make_without_copies,
         .teardown_func = end_without_copies},
    };
    return pair_run("ucx", "ucx_breaks", tests, sizeof(tests) / sizeof(tests[0]));
}
