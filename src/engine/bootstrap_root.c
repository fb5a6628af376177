/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: rank 0's side of an allgather, and what rank 0 knows of the other ranks.
 *
 * Normal path: every contribution is read straight into its place in the result, then the result is written to
 * everybody. epoll makes a step cost what happens in it, whatever the number of ranks.
 *
 * Failures: a member who leaves while contributions are gathered, or is missed at the deadline, ends the bootstrap: all
 * others are told the same sentence, and given a moment to read it, since closing a connection with unread data in it
 * may destroy what was said last. Once all contributions are here, a member who leaves is nobody's loss but its own:
 * the others get the result, and hear of it in the next allgather.
 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/ranks.h"
#include "engine/bootstrap_private.h"

enum { EVENT_BATCH = 64, RANKS_TEXT_BYTES = 400, TIME_TEXT_BYTES = 48, DRAIN_BYTES = 4096 };

/* How long those who are told of a failure have to hear it. */
#define FAREWELL_NS TT_NS_PER_S

bool tt_bootstrap_watch(struct tt_bootstrap *bootstrap, int operation, int fd, uint32_t events,
                        enum tt_bootstrap_subject subject, uint32_t index)
{
    struct epoll_event event = {.events = events, .data.u64 = (uint64_t)subject << 32 | index};
    return epoll_ctl(bootstrap->epoll, operation, fd, &event) == 0;
}

void tt_bootstrap_hang_up(struct tt_bootstrap *bootstrap, struct tt_bootstrap_channel *channel)
{
    if (channel->fd >= 0) {
        epoll_ctl(bootstrap->epoll, EPOLL_CTL_DEL, channel->fd, NULL);
        tt_channel_close(channel);
    }
}

void tt_member_leave(struct tt_bootstrap *bootstrap, struct tt_bootstrap_member *member)
{
    tt_bootstrap_hang_up(bootstrap, &member->channel);
    member->left = true;
    if (member->present) {
        assert(bootstrap->present_count > 0);
        member->present = false;
        bootstrap->present_count--;
    }
}

static bool is_unfinished(const void *set, uint32_t rank)
{
    const struct tt_bootstrap_member *members = set;
    return rank > 0 && !members[rank].finished;
}

int tt_bootstrap_first_of(bool (*contains)(const void *set, uint32_t rank), const struct tt_bootstrap *bootstrap)
{
    for (uint32_t rank = 1; rank < bootstrap->size; rank++) {
        if (contains(bootstrap->members, rank)) {
            return (int)rank;
        }
    }
    return -1;
}

/* --- Telling of a failure ----------------------------------------------------------------------------------------- */

static void wait_for_socket(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd waiting = {.fd = fd, .events = events};
    poll(&waiting, 1, tt_bootstrap_poll_ms(deadline_ns));
}

/* Reads and forgets: what is there, and if the member is in this call (`listens`), until it has hung up. */
static void drain(struct tt_bootstrap_channel *channel, bool listens, uint64_t deadline_ns)
{
    uint8_t ignored[DRAIN_BYTES];
    for (;;) {
        ssize_t received = recv(channel->fd, ignored, sizeof(ignored), MSG_DONTWAIT);
        bool nothing_yet = received < 0 && (errno == EAGAIN || errno == EINTR);
        if ((received <= 0 && !nothing_yet) || (nothing_yet && !listens) || tt_bootstrap_poll_ms(deadline_ns) == 0) {
            return;
        }
        listens = true;
        if (nothing_yet) {
            wait_for_socket(channel->fd, POLLIN, deadline_ns);
        }
    }
}

tutti_status tt_bootstrap_tell_all(struct tt_bootstrap *bootstrap)
{
    const char *text = bootstrap->failure_text;
    const struct tt_hello hello = {.type = TT_HELLO_FAIL,
                                   .version = TT_HELLO_VERSION,
                                   .rank =
                                       bootstrap->failed_rank < 0 ? TT_HELLO_NO_RANK : (uint32_t)bootstrap->failed_rank,
                                   .size = bootstrap->size,
                                   .status = bootstrap->failure,
                                   .length_bytes = strlen(text)};
    const uint64_t deadline_ns = tt_clock_now_ns() + FAREWELL_NS;

    assert(bootstrap->failure != TUTTI_OK);
    for (uint32_t rank = 1; rank < bootstrap->size; rank++) {
        struct tt_bootstrap_member *member = &bootstrap->members[rank];
        if (member->present) {
            tt_channel_begin_send(&member->channel, &hello);
            tt_channel_send(&member->channel, text, hello.length_bytes);
        }
    }
    /* Those whose buffers were full get the rest now; those who are in the call hang up once they have read it. */
    for (uint32_t rank = 1; rank < bootstrap->size; rank++) {
        struct tt_bootstrap_channel *channel = &bootstrap->members[rank].channel;
        if (!bootstrap->members[rank].present) {
            continue;
        }
        while (tt_channel_send(channel, text, hello.length_bytes) == TT_IO_AGAIN &&
               tt_bootstrap_poll_ms(deadline_ns) > 0) {
            wait_for_socket(channel->fd, POLLOUT, deadline_ns);
        }
        drain(channel, bootstrap->sequence == 0 || channel->in_bytes > 0, deadline_ns);
    }
    return bootstrap->failure;
}

/* --- Allgather ---------------------------------------------------------------------------------------------------- */

static tutti_status fail_left(struct tt_bootstrap *bootstrap, uint32_t rank, int reason)
{
    assert(rank > 0);
    assert(rank < bootstrap->size);
    tt_bootstrap_fail(bootstrap, TUTTI_ERR_PEER_FAILED, (int)rank, "rank %u died or left during allgather %u%s%s%s",
                      rank, bootstrap->sequence, reason != 0 ? " (" : "", reason != 0 ? strerror(reason) : "",
                      reason != 0 ? ")" : "");
    tt_member_leave(bootstrap, &bootstrap->members[rank]);
    return tt_bootstrap_tell_all(bootstrap);
}

static void fail_late(struct tt_bootstrap *bootstrap, const char *what)
{
    char waited[TIME_TEXT_BYTES], late[RANKS_TEXT_BYTES];
    tt_format_time(bootstrap->timeout_ns, waited, sizeof(waited));
    tt_ranks_format(is_unfinished, bootstrap->members, bootstrap->size, late, sizeof(late));
    tt_bootstrap_fail(bootstrap, TUTTI_ERR_TIMED_OUT, tt_bootstrap_first_of(is_unfinished, bootstrap),
                      "rank 0 waited %s: %s %s allgather %u", waited, late, what, bootstrap->sequence);
}

/* Whether a member's frame is a contribution to this allgather; if not, the failure is recorded. */
static bool is_contribution(struct tt_bootstrap *bootstrap, uint32_t rank, size_t length_bytes)
{
    struct tt_hello hello;
    if (tt_hello_decode(bootstrap->members[rank].channel.in_header, &hello) != TUTTI_OK ||
        hello.type != TT_HELLO_GATHER || hello.rank != rank || hello.sequence != bootstrap->sequence) {
        tt_bootstrap_fail(bootstrap, TUTTI_ERR_PROTOCOL, (int)rank, "rank %u sent what makes no sense in allgather %u",
                          rank, bootstrap->sequence);
        return false;
    }
    if (hello.length_bytes != length_bytes) {
        tt_bootstrap_fail(bootstrap, TUTTI_ERR_MISMATCH, (int)rank,
                          "rank %u gave %" PRIu64 " bytes to allgather %u, rank 0 %zu", rank, hello.length_bytes,
                          bootstrap->sequence, length_bytes);
        return false;
    }
    return true;
}

/* Moves one member's contribution on. OK: nothing went wrong so far. */
static tutti_status gather_from(struct tt_bootstrap *bootstrap, uint32_t rank, uint8_t *receive, size_t length_bytes)
{
    struct tt_bootstrap_member *member = &bootstrap->members[rank];
    enum tt_bootstrap_io io = TT_IO_DONE;

    if (member->finished) {
        /* Only watched for its end now. */
        int reason = 0;
        socklen_t reason_bytes = sizeof(reason);
        getsockopt(member->channel.fd, SOL_SOCKET, SO_ERROR, &reason, &reason_bytes);
        return fail_left(bootstrap, rank, reason);
    }
    if (member->channel.in_bytes < TT_HELLO_BYTES) {
        io = tt_channel_receive_header(&member->channel);
        if (io == TT_IO_DONE && !is_contribution(bootstrap, rank, length_bytes)) {
            return tt_bootstrap_tell_all(bootstrap);
        }
    }
    if (io == TT_IO_DONE && length_bytes > 0) {
        io = tt_channel_receive_payload(&member->channel, receive + (size_t)rank * length_bytes, length_bytes);
    }
    if (io == TT_IO_CLOSED) {
        return fail_left(bootstrap, rank, errno);
    }
    if (io == TT_IO_DONE) {
        member->finished = true;
        tt_bootstrap_watch(bootstrap, EPOLL_CTL_MOD, member->channel.fd, EPOLLRDHUP, TT_SUBJECT_MEMBER, rank);
    }
    return TUTTI_OK;
}

static tutti_status gather(struct tt_bootstrap *bootstrap, uint8_t *receive, size_t length_bytes, uint64_t deadline_ns)
{
    uint32_t remaining = bootstrap->size - 1;
    uint32_t least_remaining = bootstrap->size;
    while (remaining > 0) {
        struct epoll_event events[EVENT_BATCH];
        int timeout_ms = tt_bootstrap_poll_ms(deadline_ns);
        if (tt_bootstrap_is_late(timeout_ms, remaining, &least_remaining)) {
            fail_late(bootstrap, "did not take part in");
            return tt_bootstrap_tell_all(bootstrap);
        }
        int count = epoll_wait(bootstrap->epoll, events, EVENT_BATCH, timeout_ms);
        for (int i = 0; i < count; i++) {
            uint32_t rank = (uint32_t)events[i].data.u64;
            assert(rank < bootstrap->size);
            bool was_finished = bootstrap->members[rank].finished;
            tutti_status status = gather_from(bootstrap, rank, receive, length_bytes);
            if (status != TUTTI_OK) {
                return status;
            }
            remaining -= !was_finished && bootstrap->members[rank].finished;
        }
    }
    return TUTTI_OK;
}

/* Moves the result on to one member; true once this member needs nothing more. */
static bool scatter_to(struct tt_bootstrap *bootstrap, uint32_t rank, const uint8_t *receive, uint64_t total_bytes)
{
    struct tt_bootstrap_member *member = &bootstrap->members[rank];
    assert(!member->finished);
    enum tt_bootstrap_io io = tt_channel_send(&member->channel, receive, total_bytes);
    if (io == TT_IO_AGAIN) {
        return false;
    }
    member->finished = true;
    if (io == TT_IO_CLOSED) {
        /* Its own contribution is in the result: the others can still have that, and hear of this next time. */
        TT_LOG(TT_PART_ENGINE, TT_LOG_WARN, "rank %u died or left while it was sent the result of allgather %u", rank,
               bootstrap->sequence);
        tt_member_leave(bootstrap, member);
    }
    return true;
}

static tutti_status scatter(struct tt_bootstrap *bootstrap, const uint8_t *receive, size_t length_bytes,
                            uint64_t deadline_ns)
{
    const struct tt_hello hello = {.type = TT_HELLO_RESULT,
                                   .version = TT_HELLO_VERSION,
                                   .size = bootstrap->size,
                                   .sequence = bootstrap->sequence,
                                   .length_bytes = (uint64_t)length_bytes * bootstrap->size};
    uint32_t remaining = 0, least_remaining = bootstrap->size;

    for (uint32_t rank = 1; rank < bootstrap->size; rank++) {
        struct tt_bootstrap_member *member = &bootstrap->members[rank];
        assert(member->finished); /* all contributions are here */
        member->finished = false;
        tt_channel_begin_send(&member->channel, &hello);
        /* Its end is not watched: who has the whole result may leave, and what it sends next is for the next call. */
        bool done = scatter_to(bootstrap, rank, receive, hello.length_bytes);
        if (member->present) {
            tt_bootstrap_watch(bootstrap, EPOLL_CTL_MOD, member->channel.fd, done ? EPOLLET : EPOLLOUT,
                               TT_SUBJECT_MEMBER, rank);
        }
        remaining += !done;
    }
    while (remaining > 0) {
        struct epoll_event events[EVENT_BATCH];
        int timeout_ms = tt_bootstrap_poll_ms(deadline_ns);
        if (tt_bootstrap_is_late(timeout_ms, remaining, &least_remaining)) {
            /* They are in the middle of a frame and cannot be told otherwise than by the end of their connection. */
            fail_late(bootstrap, "did not take the result of");
            for (uint32_t rank = 1; rank < bootstrap->size; rank++) {
                if (!bootstrap->members[rank].finished) {
                    tt_member_leave(bootstrap, &bootstrap->members[rank]);
                }
            }
            return tt_bootstrap_tell_all(bootstrap);
        }
        int count = epoll_wait(bootstrap->epoll, events, EVENT_BATCH, timeout_ms);
        for (int i = 0; i < count; i++) {
            uint32_t rank = (uint32_t)events[i].data.u64;
            if (!bootstrap->members[rank].finished && scatter_to(bootstrap, rank, receive, hello.length_bytes)) {
                remaining--;
                if (bootstrap->members[rank].present) {
                    tt_bootstrap_watch(bootstrap, EPOLL_CTL_MOD, bootstrap->members[rank].channel.fd, EPOLLET,
                                       TT_SUBJECT_MEMBER, rank);
                }
            }
        }
    }
    return TUTTI_OK;
}

tutti_status tt_bootstrap_root_allgather(struct tt_bootstrap *bootstrap, const void *send, void *receive,
                                         size_t length_bytes)
{
    const uint64_t deadline_ns = tt_clock_now_ns() + bootstrap->timeout_ns;

    for (uint32_t rank = 1; rank < bootstrap->size; rank++) {
        struct tt_bootstrap_member *member = &bootstrap->members[rank];
        if (!member->present) {
            return fail_left(bootstrap, rank, 0);
        }
        member->finished = false;
        tt_channel_begin_receive(&member->channel);
        tt_bootstrap_watch(bootstrap, EPOLL_CTL_MOD, member->channel.fd, EPOLLIN | EPOLLRDHUP, TT_SUBJECT_MEMBER, rank);
    }
    if (length_bytes > 0) {
        memmove(receive, send, length_bytes);
    }
    tutti_status status = gather(bootstrap, receive, length_bytes, deadline_ns);
    return status == TUTTI_OK ? scatter(bootstrap, receive, length_bytes, deadline_ns) : status;
}
