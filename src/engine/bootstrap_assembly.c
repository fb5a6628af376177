/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: how rank 0 finds out who is in the job.
 *
 * Normal path: strangers are accepted and read until they have said a valid hello, which makes them members; when all
 * are here, they are told READY. Who has no rank gets the lowest that nobody has.
 *
 * Failures: bytes that are no hello end a stranger and count it. Strangers who say nothing cost a place in a ring of
 * bounded size, where the newest takes the oldest's; a rank that loses its place that way comes again. A member who
 * leaves before READY may come back, also one that was given its rank: its nonce tells. One that is missed at the
 * deadline ends the job for all, and so does one of which the launcher says that it has ended.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/ranks.h"
#include "base/shortage.h"
#include "base/socket.h"
#include "engine/bootstrap_private.h"

enum {
    EVENT_BATCH = 64,
    ACCEPT_BATCH = 64,
    RANKS_TEXT_BYTES = 400,
    TIME_TEXT_BYTES = 48,
    ADDRESS_TEXT_BYTES = 64,
    HERE_TEXT_BYTES = 300,
    LISTENER_TEXT_BYTES = TT_BOOTSTRAP_HOST_BYTES + 80
};

static void dismiss(struct tt_bootstrap *bootstrap, struct tt_bootstrap_channel *stranger, const char *reason)
{
    TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "a connection to the bootstrap port is not of this job: %s", reason);
    assert(stranger->fd >= 0);
    tt_bootstrap_hang_up(bootstrap, stranger);
    bootstrap->stranger_count++;
}

/* Closes the stranger who has been here longest; false if there is none. */
static bool dismiss_oldest(struct tt_bootstrap *bootstrap)
{
    for (uint32_t i = 0; i < bootstrap->stranger_places; i++) {
        uint32_t place = (bootstrap->next_stranger + i) % bootstrap->stranger_places;
        if (bootstrap->strangers[place].fd >= 0) {
            dismiss(bootstrap, &bootstrap->strangers[place], "silent for too long");
            return true;
        }
    }
    return false;
}

/* Where a connection comes from: "10.0.0.3". */
static const char *address_of(const struct tt_bootstrap_channel *channel, char text[ADDRESS_TEXT_BYTES])
{
    struct sockaddr_storage address;
    socklen_t length = sizeof(address);

    snprintf(text, ADDRESS_TEXT_BYTES, "somebody");
    if (getpeername(channel->fd, (struct sockaddr *)&address, &length) == 0) {
        (void)getnameinfo((struct sockaddr *)&address, length, text, ADDRESS_TEXT_BYTES, NULL, 0, NI_NUMERICHOST);
    }
    return text;
}

/* Tells why and closes. The answer fits the empty socket buffer. */
static void refuse(struct tt_bootstrap *bootstrap, struct tt_bootstrap_channel *stranger, tutti_status status,
                   const char *text)
{
    struct tt_hello hello = {
        .type = TT_HELLO_REFUSE, .version = TT_HELLO_VERSION, .size = bootstrap->size, .status = status};
    char address[ADDRESS_TEXT_BYTES];
    TT_LOG(TT_PART_ENGINE, TT_LOG_WARN, "refused: %s", text);
    snprintf(bootstrap->refused, sizeof(bootstrap->refused), "; %s was turned away: %s", address_of(stranger, address),
             text);
    tt_channel_send_text(stranger, &hello, text);
    tt_bootstrap_hang_up(bootstrap, stranger);
}

static bool is_gone(const struct tt_bootstrap_channel *channel)
{
    char byte;
    assert(channel->fd >= 0);
    ssize_t received = recv(channel->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return received == 0 || (received < 0 && errno != EAGAIN && errno != EINTR);
}

/* The rank of a hello that has none: what its process had before, else the lowest that nobody has. The job's size if
 * there is none left. */
static uint32_t rank_for(const struct tt_bootstrap *bootstrap, uint64_t nonce)
{
    uint32_t free_rank = bootstrap->size;
    for (uint32_t rank = bootstrap->size - 1; rank > 0; rank--) {
        const struct tt_bootstrap_member *member = &bootstrap->members[rank];
        if ((member->present || member->left) && member->nonce == nonce) {
            return rank;
        }
        free_rank = member->present ? free_rank : rank;
    }
    assert(free_rank > 0); /* rank 0's own is never free */
    return free_rank;
}

/* Whether the hello is one that can be let in; if not, *status and the text say why. */
static bool is_welcome(const struct tt_bootstrap *bootstrap, const struct tt_hello *hello, tutti_status *status,
                       char *text, size_t text_bytes)
{
    char name[TT_BOOTSTRAP_NAME_BYTES];
    *status = TUTTI_ERR_MISMATCH;
    if (hello->version != TT_HELLO_VERSION) {
        snprintf(text, text_bytes, "%s speaks version %u of the bootstrap, rank 0 version %d",
                 tt_bootstrap_name(hello->rank, name), hello->version, TT_HELLO_VERSION);
        return false;
    }
    if (hello->size != bootstrap->size && hello->rank == TT_HELLO_NO_RANK) {
        snprintf(text, text_bytes,
                 "a process without a rank was started for %u in all (--size or TUTTI_SIZE), but rank 0 for %u",
                 hello->size, bootstrap->size);
        return false;
    }
    if (hello->size != bootstrap->size) {
        snprintf(text, text_bytes, "%s was started with TUTTI_SIZE=%u, but rank 0 with TUTTI_SIZE=%u",
                 tt_bootstrap_name(hello->rank, name), hello->size, bootstrap->size);
        return false;
    }
    if (hello->rank == TT_HELLO_NO_RANK) {
        return true;
    }
    *status = TUTTI_ERR_BOOTSTRAP;
    const struct tt_bootstrap_member *member = &bootstrap->members[hello->rank];
    bool taken = hello->rank == 0 || (member->present && member->nonce != hello->nonce && !is_gone(&member->channel));
    if (taken) {
        snprintf(text, text_bytes, "rank %u is here already: two processes have TUTTI_RANK=%u", hello->rank,
                 hello->rank);
    }
    return !taken;
}

static void let_in(struct tt_bootstrap *bootstrap, struct tt_bootstrap_channel *stranger, const struct tt_hello *hello,
                   uint64_t deadline_ns)
{
    uint32_t rank = hello->rank == TT_HELLO_NO_RANK ? rank_for(bootstrap, hello->nonce) : hello->rank;
    if (rank == bootstrap->size) {
        dismiss(bootstrap, stranger, "all ranks are here, and it has none");
        return;
    }
    struct tt_bootstrap_member *member = &bootstrap->members[rank];
    uint64_t now_ns = tt_clock_now_ns();
    struct tt_hello welcome = {.type = TT_HELLO_WELCOME,
                               .version = TT_HELLO_VERSION,
                               .rank = rank,
                               .size = bootstrap->size,
                               .nonce = hello->nonce,
                               .value = now_ns < deadline_ns ? deadline_ns - now_ns : 0};
    /* The same process again, after its first connection broke, or a new one in the place of one that is gone. */
    if (member->present) {
        tt_member_leave(bootstrap, member);
    }
    if (!tt_channel_send_text(stranger, &welcome, "") ||
        !tt_bootstrap_watch(bootstrap, EPOLL_CTL_MOD, stranger->fd, EPOLLIN | EPOLLRDHUP, TT_SUBJECT_MEMBER, rank)) {
        dismiss(bootstrap, stranger, "it left as soon as it came");
        return;
    }
    assert(!member->present);
    assert(member->channel.fd < 0);
    tt_channel_open(&member->channel, stranger->fd);
    stranger->fd = -1;
    member->nonce = hello->nonce;
    member->present = true;
    member->rankless = hello->rank == TT_HELLO_NO_RANK;
    bootstrap->present_count++;
}

/* Who has started the ranks sees them end, also those that have not come yet. */
static bool is_of_launcher(const struct tt_bootstrap *bootstrap, const struct tt_hello *hello)
{
    return hello->type == TT_HELLO_FAIL && bootstrap->listener_is_inherited && hello->size == bootstrap->size &&
           hello->rank > 0 && hello->rank < bootstrap->size && bootstrap->failure == TUTTI_OK;
}

static void take_its_word(struct tt_bootstrap *bootstrap, struct tt_bootstrap_channel *launcher, uint32_t rank)
{
    struct tt_bootstrap_member *member = &bootstrap->members[rank];

    tt_bootstrap_hang_up(bootstrap, launcher);
    if (member->present) {
        tt_member_leave(bootstrap, member);
    }
    tt_bootstrap_fail(bootstrap, TUTTI_ERR_PEER_FAILED, (int)rank, TT_BOOTSTRAP_ENDED, rank);
}

static void stranger_event(struct tt_bootstrap *bootstrap, struct tt_bootstrap_channel *stranger, uint64_t deadline_ns)
{
    struct tt_hello hello;
    char text[256];
    tutti_status status;

    if (stranger->fd < 0) {
        return; /* its place was taken while the event waited */
    }
    enum tt_bootstrap_io io = tt_channel_receive_header(stranger);
    if (io == TT_IO_AGAIN) {
        return;
    }
    if (io == TT_IO_CLOSED) {
        dismiss(bootstrap, stranger, "it left without a hello");
    } else if (tt_hello_decode(stranger->in_header, &hello) != TUTTI_OK ||
               (hello.type != TT_HELLO_HELLO && !is_of_launcher(bootstrap, &hello))) {
        dismiss(bootstrap, stranger, "what it said is no hello");
    } else if (hello.type == TT_HELLO_FAIL) {
        take_its_word(bootstrap, stranger, hello.rank);
    } else if (!is_welcome(bootstrap, &hello, &status, text, sizeof(text))) {
        refuse(bootstrap, stranger, status, text);
    } else if (is_gone(stranger)) {
        dismiss(bootstrap, stranger, "it did not wait for an answer"); /* and may have come again behind this one */
    } else {
        let_in(bootstrap, stranger, &hello, deadline_ns);
    }
}

/* Fails where there is nothing for a member to be had, by a higher limit of descriptors or from a stranger. */
static void accept_some(struct tt_bootstrap *bootstrap, uint64_t deadline_ns)
{
    /* Not one more than needed: whoever comes last shall not fail a job that is complete for want of a descriptor. */
    for (int i = 0;
         i < ACCEPT_BATCH && bootstrap->present_count < bootstrap->size - 1 && bootstrap->failure == TUTTI_OK; i++) {
        int fd = tt_socket_accept(bootstrap->listener);
        if (fd < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return;
        }
        if (fd < 0 && tt_shortage_status(errno) != TUTTI_OK) {
            int reason = errno;
            char text[TT_SHORTAGE_TEXT_BYTES];
            if (!tt_shortage_raise_descriptors(reason) && !dismiss_oldest(bootstrap)) {
                tt_bootstrap_fail(bootstrap, tt_shortage_status(reason), 0,
                                  "rank 0 needs a connection to each of %u ranks, but has no more than %u: %s",
                                  bootstrap->size - 1, bootstrap->present_count, tt_shortage_text(reason, text));
            }
        }
        if (fd < 0) {
            continue; /* one that was gone before it was accepted */
        }
        tt_bootstrap_tune(bootstrap, fd);
        struct tt_bootstrap_channel *place = &bootstrap->strangers[bootstrap->next_stranger];
        if (place->fd >= 0) {
            dismiss(bootstrap, place, "silent for too long");
        }
        assert(place->fd < 0);
        tt_channel_open(place, fd);
        if (!tt_bootstrap_watch(bootstrap, EPOLL_CTL_ADD, fd, EPOLLIN, TT_SUBJECT_STRANGER, bootstrap->next_stranger)) {
            dismiss(bootstrap, place, strerror(errno));
        }
        bootstrap->next_stranger = (bootstrap->next_stranger + 1) % bootstrap->stranger_places;
        stranger_event(bootstrap, place, deadline_ns);
    }
}

/* A member who has been welcomed has nothing to say until READY: it left, or it never was a rank. */
static void early_event(struct tt_bootstrap *bootstrap, uint32_t rank)
{
    struct tt_bootstrap_member *member = &bootstrap->members[rank];
    char byte;
    if (!member->present) {
        return;
    }
    ssize_t received = recv(member->channel.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (received >= 0 || (errno != EAGAIN && errno != EINTR)) {
        TT_LOG(TT_PART_ENGINE, TT_LOG_WARN, "rank %u left while the job started", rank);
        tt_member_leave(bootstrap, member);
    }
}

/* Whether all are here, and still are: who was let in and who left it again may be of one batch of connections. */
static bool is_complete(struct tt_bootstrap *bootstrap)
{
    if (bootstrap->present_count < bootstrap->size - 1) {
        return false;
    }
    for (uint32_t rank = 1; rank < bootstrap->size; rank++) {
        early_event(bootstrap, rank);
    }
    return bootstrap->present_count == bootstrap->size - 1;
}

static bool never_came(const void *set, uint32_t rank)
{
    const struct tt_bootstrap_member *members = set;
    return rank > 0 && !members[rank].present && !members[rank].left;
}

static bool came_and_left(const void *set, uint32_t rank)
{
    const struct tt_bootstrap_member *members = set;
    return rank > 0 && !members[rank].present && members[rank].left;
}

/* Ranks that were given in the order of arrival tell nobody who is missing; the addresses of who is here do. Returns
 * how many have come without a rank. */
static uint32_t list_rankless(const struct tt_bootstrap *bootstrap, char text[HERE_TEXT_BYTES])
{
    uint32_t count = 0;
    size_t length = 0;

    text[0] = '\0';
    for (uint32_t rank = 1; rank < bootstrap->size; rank++) {
        const struct tt_bootstrap_member *member = &bootstrap->members[rank];
        char address[ADDRESS_TEXT_BYTES];
        if (!member->present) {
            continue;
        }
        count += member->rankless ? 1 : 0;
        if (length + ADDRESS_TEXT_BYTES + 8 < HERE_TEXT_BYTES) {
            length += (size_t)snprintf(text + length, HERE_TEXT_BYTES - length, "%s%s", length > 0 ? ", " : "",
                                       address_of(&member->channel, address));
        } else if (strcmp(text + length - 3, "...") != 0) {
            length += (size_t)snprintf(text + length, HERE_TEXT_BYTES - length, ", ...");
        }
    }
    return count;
}

/* "; it listens at 127.0.1.1, which no other host reaches": a name of this host that /etc/hosts takes for loopback. */
static const char *describe_listener(const struct tt_bootstrap *bootstrap, char text[LISTENER_TEXT_BYTES])
{
    struct sockaddr_in own = {0};
    socklen_t length = sizeof(own);
    char address[INET_ADDRSTRLEN] = "";

    text[0] = '\0';
    if (getsockname(bootstrap->listener, (struct sockaddr *)&own, &length) == 0 && own.sin_family == AF_INET &&
        ntohl(own.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET &&
        inet_ntop(AF_INET, &own.sin_addr, address, sizeof(address)) != NULL &&
        strcmp(bootstrap->host, "localhost") != 0 && strcmp(bootstrap->host, address) != 0) {
        snprintf(text, LISTENER_TEXT_BYTES, "; it listens at %s (%s), which no other host reaches", bootstrap->host,
                 address);
    }
    return text;
}

static tutti_status fail_missing(struct tt_bootstrap *bootstrap)
{
    char listener[LISTENER_TEXT_BYTES], waited[TIME_TEXT_BYTES], absent[RANKS_TEXT_BYTES], gone[RANKS_TEXT_BYTES],
        here[HERE_TEXT_BYTES];
    int first_absent = tt_bootstrap_first_of(never_came, bootstrap);
    int first_gone = tt_bootstrap_first_of(came_and_left, bootstrap);

    assert(first_absent >= 0 || first_gone >= 0); /* else there would be nobody to wait for */
    tt_format_time(bootstrap->timeout_ns, waited, sizeof(waited));
    if (list_rankless(bootstrap, here) > 0) {
        return tt_bootstrap_fail(bootstrap, TUTTI_ERR_TIMED_OUT, first_absent >= 0 ? first_absent : first_gone,
                                 "rank 0 waited %s: %u of %u others did not come or did not stay; here are %s%s",
                                 waited, bootstrap->size - 1 - bootstrap->present_count, bootstrap->size - 1, here,
                                 bootstrap->refused);
    }
    tt_ranks_format(never_came, bootstrap->members, bootstrap->size, absent, sizeof(absent));
    tt_ranks_format(came_and_left, bootstrap->members, bootstrap->size, gone, sizeof(gone));
    return tt_bootstrap_fail(bootstrap, TUTTI_ERR_TIMED_OUT, first_absent >= 0 ? first_absent : first_gone,
                             "rank 0 waited %s: %s%s%s%s%s%s%s", waited, first_absent >= 0 ? absent : "",
                             first_absent >= 0 ? " never came" : "", first_absent >= 0 && first_gone >= 0 ? "; " : "",
                             first_gone >= 0 ? gone : "", first_gone >= 0 ? " came and left" : "", bootstrap->refused,
                             describe_listener(bootstrap, listener));
}

static tutti_status assemble(struct tt_bootstrap *bootstrap)
{
    const uint64_t deadline_ns = tt_clock_now_ns() + bootstrap->timeout_ns;
    uint32_t least_missing = bootstrap->size;
    assert(bootstrap->present_count == 0);
    while (!is_complete(bootstrap)) {
        struct epoll_event events[EVENT_BATCH];
        int timeout_ms = tt_bootstrap_poll_ms(deadline_ns);
        uint32_t missing = bootstrap->size - 1 - bootstrap->present_count;
        if (tt_bootstrap_is_late(timeout_ms, missing, &least_missing)) {
            return fail_missing(bootstrap);
        }
        int count = epoll_wait(bootstrap->epoll, events, EVENT_BATCH, timeout_ms);
        for (int i = 0; i < count && bootstrap->failure == TUTTI_OK; i++) {
            enum tt_bootstrap_subject subject = (enum tt_bootstrap_subject)(events[i].data.u64 >> 32);
            uint32_t index = (uint32_t)events[i].data.u64;
            if (subject == TT_SUBJECT_MEMBER) {
                early_event(bootstrap, index);
            } else if (subject == TT_SUBJECT_STRANGER) {
                stranger_event(bootstrap, &bootstrap->strangers[index], deadline_ns);
            } else {
                accept_some(bootstrap, deadline_ns);
            }
        }
        if (bootstrap->failure != TUTTI_OK) { /* a rank will never come */
            return bootstrap->failure;
        }
    }
    return TUTTI_OK;
}

static void close_the_door(struct tt_bootstrap *bootstrap)
{
    epoll_ctl(bootstrap->epoll, EPOLL_CTL_DEL, bootstrap->listener, NULL);
    if (!bootstrap->listener_is_inherited) {
        tt_socket_close(bootstrap->listener);
        bootstrap->listener = -1;
    }
    for (uint32_t i = 0; i < bootstrap->stranger_places; i++) {
        if (bootstrap->strangers[i].fd >= 0) {
            dismiss(bootstrap, &bootstrap->strangers[i], "nobody else is waited for");
        }
    }
}

tutti_status tt_bootstrap_root_start(struct tt_bootstrap *bootstrap)
{
    assert(bootstrap->rank == 0);
    assert(bootstrap->listener >= 0);
    bootstrap->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (bootstrap->epoll < 0 ||
        !tt_bootstrap_watch(bootstrap, EPOLL_CTL_ADD, bootstrap->listener, EPOLLIN, TT_SUBJECT_LISTENER, 0)) {
        char why[TT_SHORTAGE_TEXT_BYTES];
        return tt_error(TT_PART_ENGINE, tt_shortage_status_or(errno, TUTTI_ERR_IO),
                        "rank 0 cannot wait for connections: %s", tt_shortage_text(errno, why));
    }
    tutti_status status = assemble(bootstrap);
    close_the_door(bootstrap);
    if (status != TUTTI_OK) {
        return tt_bootstrap_tell_all(bootstrap);
    }
    assert(bootstrap->present_count == bootstrap->size - 1);
    struct tt_hello ready = {.type = TT_HELLO_READY, .version = TT_HELLO_VERSION, .size = bootstrap->size};
    for (uint32_t rank = 1; rank < bootstrap->size; rank++) {
        /* Who cannot be told has just left, which the first allgather will find. */
        tt_channel_send_text(&bootstrap->members[rank].channel, &ready, "");
    }
    TT_LOG(TT_PART_ENGINE, TT_LOG_DEBUG, "all %u ranks are here", bootstrap->size);
    return TUTTI_OK;
}
