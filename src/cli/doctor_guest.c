/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Normal path: the name is looked up, the host that listens is connected to, and welcomes this one. A name may have
 * several addresses, which are tried in turn, as the ranks of a job do.
 *
 * Failures: each address has its own sentence and advice; every wait has a deadline. Past who says that it is the host
 * that listens nobody goes on.
 */
#include "cli/doctor_guest.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/doctor_connection.h"
#include "cli/doctor_paths.h"

enum { ADDRESSES = 16 /* of a name, that are tried */ };

#define CONNECT_NS (5 * TT_NS_PER_S)
#define ANSWER_NS  (15 * TT_NS_PER_S) /* of the one that listens, which may be looking at others first */

/* What was found out in a try, which is told with the others if none succeeds. Returns -1, for who has no connection.
 */
static int __attribute__((format(printf, 4, 5)))
find(struct tt_findings *findings, const char *subject, const char *advice, const char *format, ...)
{
    char found[TT_FINDING_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(found, sizeof(found), format, arguments);
    va_end(arguments);
    tt_findings_add(findings, "meeting", TT_VERDICT_FAIL, subject, found, advice);
    return -1;
}

/* Connects to one address; -1 with errno. */
static int connect_to(const struct sockaddr_in *address, uint64_t deadline_ns)
{
    int error = 0;
    socklen_t error_bytes = sizeof(error);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -1;
    }
    if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0) {
        if (errno != EINPROGRESS) {
            error = errno;
        } else if (!tt_doctor_wait(fd, POLLOUT, deadline_ns)) {
            error = ETIMEDOUT;
        } else {
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_bytes);
        }
    }
    if (error != 0) {
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

static int say_unreachable(struct tt_findings *findings, const char *subject, const char *address, int error)
{
    char text[TT_FINDING_BYTES];
    const char *advice = "look for a route to it, and for a firewall on the way that turns TCP away";
    if (error == ECONNREFUSED) {
        advice = "start `tutti doctor --listen` there first; if it runs, a firewall there rejects TCP to this port";
    } else if (error == ETIMEDOUT || error == EHOSTUNREACH) {
        snprintf(text, sizeof(text),
                 "its host is not there, or a firewall %s TCP to this port: try --port with one that is let in, or the "
                 "two the other way round",
                 error == ETIMEDOUT ? "drops" : "rejects");
        advice = text;
    }
    return find(findings, subject, advice, "%s: %s", address,
                error == ETIMEDOUT ? "no answer in 5 s" : strerror(error));
}

/* Says hello at one address. *is_listener: it is the one that was looked for, whatever it says. */
static int call_at(const struct sockaddr_in *there, const char *subject, struct tt_findings *findings,
                   bool *is_listener)
{
    uint8_t bytes[TT_DOCTOR_HELLO_BYTES];
    char address[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &there->sin_addr, address, sizeof(address));
    int fd = connect_to(there, tt_clock_now_ns() + CONNECT_NS);
    if (fd < 0) {
        return say_unreachable(findings, subject, address, errno);
    }
    tt_doctor_hurry(fd);
    tt_doctor_say(fd, TT_DOCTOR_GUEST);
    if (!tt_doctor_receive(fd, bytes, sizeof(bytes), tt_clock_now_ns() + ANSWER_NS)) {
        const char *found = errno == ETIMEDOUT ? "connects, but does not answer" : "hangs up at once";
        close(fd);
        return find(findings, subject, "`tutti doctor --listen` there, and nothing else at this port", "%s %s", address,
                    found);
    }
    enum tt_doctor_hello answer = tt_doctor_hello_decode(bytes);
    *is_listener = answer == TT_DOCTOR_WELCOME || answer == TT_DOCTOR_BUSY || answer == TT_DOCTOR_OTHER_VERSION;
    if (answer == TT_DOCTOR_WELCOME) {
        return fd;
    }
    close(fd);
    switch (answer) {
    case TT_DOCTOR_BUSY:
        return find(findings, subject, "again, when it is done", "%s is busy with another host", address);
    case TT_DOCTOR_OTHER_VERSION:
        return find(findings, subject, "the same version on both hosts", "%s has another version of tutti", address);
    default:
        return find(findings, subject, "another port by --port, on both hosts",
                    "%s: something else than `tutti doctor --listen` answers", address);
    }
}

int tt_doctor_guest_call(const char *peer, uint16_t port, struct tt_findings *findings, uint32_t *there_be)
{
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    char subject[TT_PATHS_PEER_TEXT_BYTES];
    struct addrinfo *list = NULL;
    bool is_ipv6 = tt_paths_peer_text(peer, port, subject), is_listener = false;
    int problem = is_ipv6 ? EAI_ADDRFAMILY : getaddrinfo(peer, NULL, &hints, &list), fd = -1, tried = 0;
    if (problem != 0) {
        return find(findings, subject, "the host's name or IPv4 address: the two meet, and measure, over IPv4 only",
                    "%s", is_ipv6 ? "is an IPv6 address" : gai_strerror(problem));
    }
    for (const struct addrinfo *a = list; a != NULL && !is_listener && tried < ADDRESSES; a = a->ai_next, tried++) {
        struct sockaddr_in there;
        if (tried > 0) {
            fprintf(stderr, "tutti doctor: %s: %s; trying its next address\n", subject,
                    findings->items[findings->count - 1].found);
        }
        memcpy(&there, a->ai_addr, sizeof(there));
        there.sin_port = htons(port);
        *there_be = there.sin_addr.s_addr;
        fd = call_at(&there, subject, findings, &is_listener);
    }
    freeaddrinfo(list);
    return fd;
}
