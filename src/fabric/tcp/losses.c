/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What TCP has lost, and whether anybody is there. Normal path: what it has repeated, less what the other host says
 * that it had already (DSACK, RFC 2883): of frames whose acknowledgement is held back TCP repeats some that were not
 * lost. Failures: a system that does not say has lost nothing, and knows no round trip. A file of its own, as the
 * system's header with all fields does not go with the C library's.
 */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/least.h"
#include "fabric/tcp/instance.h"

/* Returns how much of it the system has filled in; 0: nothing. */
static socklen_t ask(const struct tt_tcp_socket *socket, struct tcp_info *info)
{
    socklen_t length = sizeof(*info);
    return socket->fd >= 0 && getsockopt(socket->fd, IPPROTO_TCP, TCP_INFO, info, &length) == 0 ? length : 0;
}

bool tt_tcp_has_lost(struct tt_tcp_socket *socket)
{
    struct tcp_info info;
    socklen_t length = ask(socket, &info);
    uint32_t before = socket->lost;
    socket->later = 0;
    if (length == 0) {
        return false;
    }
    socket->later = info.tcpi_sacked; /* as long as there has been the call */
    if (length < offsetof(struct tcp_info, tcpi_dsack_dups) + sizeof(info.tcpi_dsack_dups)) {
        return false;
    }
    socket->lost = info.tcpi_total_retrans > info.tcpi_dsack_dups ? info.tcpi_total_retrans - info.tcpi_dsack_dups : 0;
    return socket->lost > before;
}

uint64_t tt_tcp_round_trip_ns(const struct tt_tcp_socket *socket)
{
    struct tcp_info info;
    return ask(socket, &info) > 0 ? info.tcpi_rtt * TT_NS_PER_US : 0;
}

/* An acknowledgment of anything ends it, also one that says that there is no room yet. */
uint32_t tt_tcp_silent_ms(const struct tt_tcp_socket *socket)
{
    enum { UNANSWERED = 2 }; /* what was repeated, or asked, in a row */
    struct tcp_info info;
    bool connected = socket->stage == TT_TCP_OPEN || socket->stage == TT_TCP_GREETED;
    if (!connected || ask(socket, &info) == 0 || info.tcpi_retransmits + info.tcpi_probes < UNANSWERED) {
        return 0;
    }
    return (uint32_t)tt_least(info.tcpi_last_ack_recv, info.tcpi_last_data_recv);
}
