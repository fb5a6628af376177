/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A connection of UCX that breaks while the kernel has taken a part of a message. What UCX sends goes through the
 * functions below, which the program gives to the libraries that it loads.
 */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "fabric/ucx/ucx.h"
#include "pair_fixture.h"

enum { REGION_BYTES = 300000, LARGE_BYTES = 16 * 1024 };

static uint8_t theirs[REGION_BYTES], mine[REGION_BYTES];

/* --- What UCX sends ---------------------------------------------------------------------------------------------- */

static enum { WHOLE, TAKE_A_PART, BROKEN } next_large = WHOLE;
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
    if (next_large != TAKE_A_PART || total_bytes < LARGE_BYTES) {
        return real(fd, message, flags);
    }
    struct iovec part = message->msg_iov[0];
    for (size_t i = 0; i < message->msg_iovlen; i++) {
        part = message->msg_iov[i].iov_len > part.iov_len ? message->msg_iov[i] : part;
    }
    struct msghdr shortened = {.msg_iov = message->msg_iov, .msg_iovlen = 1};
    if (message->msg_iovlen == 1) {
        part.iov_len = total_bytes / 2;
        shortened.msg_iov = &part;
    }
    next_large = BROKEN;
    broken_fd = fd;
    return real(fd, &shortened, flags);
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
    pair_exchange();
    pair_expose(&pair_sides[B], theirs, REGION_BYTES, &remote);
    next_large = TAKE_A_PART;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_connection_that_breaks_within_a_message_ends_the_peer_and_nothing_else,
                                        pair_make_connected, pair_end),
    };
    return pair_run("ucx", "ucx_breaks", tests, sizeof(tests) / sizeof(tests[0]));
}
