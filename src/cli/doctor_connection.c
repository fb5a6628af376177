/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Normal path: what is waited for comes. Failures: the deadline, which is a failure like those of the system.
 */
#include "cli/doctor_connection.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include "base/clock.h"

void tt_doctor_say(int fd, enum tt_doctor_hello hello)
{
    uint8_t bytes[TT_DOCTOR_HELLO_BYTES];
    tt_doctor_hello_encode(hello, bytes);
    send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL | MSG_DONTWAIT); /* so few always fit a new socket */
}

bool tt_doctor_wait(int fd, short events, uint64_t deadline_ns)
{
    struct pollfd descriptor = {.fd = fd, .events = events};
    int ready;
    do {
        uint64_t now_ns = tt_clock_now_ns();
        struct timespec left = tt_clock_timespec(deadline_ns > now_ns ? deadline_ns - now_ns : 0);
        ready = ppoll(&descriptor, 1, &left, NULL);
    } while (ready < 0 && errno == EINTR);
    return ready > 0;
}

bool tt_doctor_receive(int fd, void *bytes, size_t length_bytes, uint64_t deadline_ns)
{
    size_t received = 0;
    while (received < length_bytes) {
        ssize_t length = recv(fd, (uint8_t *)bytes + received, length_bytes - received, MSG_DONTWAIT);
        if (length > 0) {
            received += (size_t)length;
        } else if (length == 0) {
            errno = 0;
            return false;
        } else if (errno != EAGAIN && errno != EINTR) {
            return false;
        } else if (!tt_doctor_wait(fd, POLLIN, deadline_ns)) {
            errno = ETIMEDOUT;
            return false;
        }
    }
    return true;
}

void tt_doctor_hurry(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}
