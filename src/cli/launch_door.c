/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: ranks that still look for each other learn that one of them has ended.
 *
 * Normal path: none; the launcher keeps its copy of the socket that rank 0 listens on, and does nothing with it.
 *
 * Failures: rank 0 waits for all ranks, and cannot know that one has ended before it said a word. So the launcher says
 * FAIL to it, as if it were a rank that comes. Rank 0 tells those who are there, and hangs up; or it has ended itself.
 * From then on the launcher answers whoever still comes. If all ranks are together nobody reads what is said here, and
 * nobody comes.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "cli/launch_private.h"
#include "engine/bootstrap.h"

enum { PATIENCE_US = 100000, TEXT_BYTES = 96 };

static struct sockaddr_in loopback(uint16_t port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static void close_socket(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
        *fd = -1;
    }
}

tutti_status tt_launch_door_open(struct tt_launch_door *door)
{
    struct sockaddr_in address = loopback(0);
    socklen_t length = sizeof(address);

    assert(door->listener < 0);
    door->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (door->listener < 0 || bind(door->listener, (struct sockaddr *)&address, length) != 0 ||
        listen(door->listener, SOMAXCONN) != 0 ||
        getsockname(door->listener, (struct sockaddr *)&address, &length) != 0) {
        tutti_status status =
            tt_error_note(TUTTI_ERR_NO_RESOURCE, "no socket for the ranks to meet at: %s", strerror(errno));
        close_socket(&door->listener);
        return status;
    }
    door->port = ntohs(address.sin_port);
    return TUTTI_OK;
}

void tt_launch_door_close(struct tt_launch_door *door)
{
    close_socket(&door->telling);
    close_socket(&door->listener);
    door->answers = false;
}

/* Nobody holds the launcher up for longer. */
static void be_brief(int fd)
{
    static const struct timeval patience = {.tv_usec = PATIENCE_US};
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* of connect, too */
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

/* True once all of it is on its way. */
static bool say(const struct tt_launch_door *door, int fd, uint32_t rank_count, const char *text, size_t text_bytes)
{
    struct tt_hello hello = {.type = TT_HELLO_FAIL,
                             .version = TT_HELLO_VERSION,
                             .rank = door->failed_rank,
                             .size = rank_count,
                             .status = TUTTI_ERR_PEER_FAILED,
                             .length_bytes = text_bytes};
    uint8_t bytes[TT_HELLO_BYTES + TEXT_BYTES];
    size_t length = TT_HELLO_BYTES + text_bytes;

    assert(text_bytes < TEXT_BYTES);
    tt_hello_encode(&hello, bytes);
    memcpy(bytes + TT_HELLO_BYTES, text, text_bytes);
    return send(fd, bytes, length, MSG_NOSIGNAL) == (ssize_t)length;
}

static void tell_rank_0(struct tt_launch_door *door, uint32_t rank_count)
{
    struct sockaddr_in address = loopback(door->port);

    door->telling = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (door->telling < 0) {
        return; /* then it waits for as long as it would have without a launcher */
    }
    be_brief(door->telling);
    if (connect(door->telling, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        !say(door, door->telling, rank_count, "", 0)) {
        close_socket(&door->telling);
    }
}

void tt_launch_door_ended(struct tt_launch_door *door, uint32_t rank, bool failed, bool was_killed)
{
    bool is_told = door->failed_rank != TT_HELLO_NO_RANK && door->told_ns == TT_NEVER;

    if (door->listener < 0 || (!failed && rank != 0)) {
        return; /* who ends well may never have wanted to come */
    }
    if (failed && !is_told && (door->failed_rank == TT_HELLO_NO_RANK || (was_killed && !door->was_killed))) {
        door->failed_rank = rank;
        door->was_killed = was_killed;
        door->told_ns = tt_clock_now_ns() + (was_killed ? 0 : TT_LAUNCH_ORDER_NS);
    }
    door->rank_0_ended |= rank == 0;
    if (rank == 0 && door->failed_rank == TT_HELLO_NO_RANK) {
        close_socket(&door->listener); /* what it has started may still listen there */
    } else if (rank == 0 && is_told) {
        close_socket(&door->telling);
        door->answers = true;
    }
}

void tt_launch_door_tend(struct tt_launch_door *door, uint32_t rank_count, uint64_t now_ns)
{
    if (now_ns < door->told_ns) {
        return;
    }
    assert(door->failed_rank != TT_HELLO_NO_RANK);
    door->told_ns = TT_NEVER;
    if (door->rank_0_ended) {
        door->answers = true;
    } else {
        tell_rank_0(door, rank_count);
    }
}

int tt_launch_door_waits_for(const struct tt_launch_door *door)
{
    return door->answers ? door->listener : door->telling;
}

static void answer(const struct tt_launch_door *door, int fd, uint32_t rank_count)
{
    uint8_t bytes[TT_HELLO_BYTES];
    struct tt_hello hello;
    char text[TEXT_BYTES];

    be_brief(fd);
    /* Read first: what is closed with something unread in it may lose what was said last. */
    if (recv(fd, bytes, sizeof(bytes), MSG_WAITALL) == (ssize_t)sizeof(bytes) &&
        tt_hello_decode(bytes, &hello) == TUTTI_OK && hello.type == TT_HELLO_HELLO) {
        int length = snprintf(text, sizeof(text), TT_BOOTSTRAP_ENDED, door->failed_rank);
        (void)say(door, fd, rank_count, text, (size_t)length);
    }
}

void tt_launch_door_look(struct tt_launch_door *door, uint32_t rank_count)
{
    char byte;
    int fd;

    if (!door->answers) {
        ssize_t received;
        assert(door->telling >= 0);
        received = recv(door->telling, &byte, sizeof(byte), MSG_DONTWAIT);
        if (received > 0 || (received < 0 && (errno == EAGAIN || errno == EINTR))) {
            return;
        }
        close_socket(&door->telling); /* rank 0 has heard it */
        door->answers = true;
    }
    fd = accept4(door->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0) { /* one at a time: the launcher has its own deadlines */
        answer(door, fd, rank_count);
        close(fd);
    }
}
