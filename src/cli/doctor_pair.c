/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: two hosts that meet by hand, and what is between them.
 *
 * Normal path: one listens, the other connects to it; this connection stands for the group of a job, so that the steps
 * are those of `tutti doctor --job`, and are gone also where no job could start. It carries 16 bytes at a time. Before
 * the steps both try each other's TCP ports; after them, UDP that did not get through. Both judge, and print.
 *
 * Failures: who cannot meet the other says what was tried and what to do. A connection that does not begin as it should
 * is closed, and the waiting goes on; one that comes while another is served is told so. Every wait has a deadline.
 * What the other side says is looked at: datagrams go to the address that it connects from, or to one of the network
 * that TUTTI_INTERFACE names here, and nowhere else.
 */
#include "cli/doctor_pair.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "cli/command.h"
#include "cli/doctor_connection.h"
#include "cli/doctor_guest.h"
#include "cli/doctor_job.h"
#include "cli/doctor_ports.h"
#include "cli/doctor_steps.h"

enum { LISTENER, GUEST, PAIR, BACKLOG = 8, ADDRESSES_SHOWN = 4, LIST_BYTES = 96 };

#define HELLO_NS (2 * TT_NS_PER_S) /* of whoever connects, before the next one is looked at */
#define LIMIT_NS (60 * TT_NS_PER_S)

struct pair {
    const struct tt_doctor_pair_options *options;
    const struct tt_settings *settings;
    int listening_fd; /* -1: none */
    int fd;           /* to the other; -1: none */
    uint32_t other_be;
    uint16_t port[PAIR][TT_DOCTOR_PORTS];
    uint8_t knocks[PAIR][TT_DOCTOR_PORTS]; /* of whom: what became of its tries */
    struct tt_doctor_ports ports;
    struct tt_doctor_steps steps;
};

/* --- What both say ------------------------------------------------------------------------------------------------ */

static void turn_away(const struct pair *pair)
{
    int fd;
    while (pair->listening_fd >= 0 && (fd = accept4(pair->listening_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        tt_doctor_say(fd, TT_DOCTOR_BUSY);
        close(fd);
    }
}

/* The other's record, while those who come meanwhile are turned away; as tt_doctor_receive(). */
static bool receive_record(const struct pair *pair, struct tt_doctor_record *record, uint64_t deadline_ns)
{
    for (;;) {
        uint64_t now_ns = tt_clock_now_ns();
        struct timespec left = tt_clock_timespec(deadline_ns > now_ns ? deadline_ns - now_ns : 0);
        struct pollfd descriptors[] = {{.fd = pair->fd, .events = POLLIN},
                                       {.fd = pair->listening_fd, .events = POLLIN}};
        int ready = ppoll(descriptors, 2, &left, NULL);
        if (descriptors[1].revents != 0) {
            turn_away(pair);
        }
        if (ready > 0 && descriptors[0].revents != 0) {
            return tt_doctor_receive(pair->fd, record, sizeof(*record), deadline_ns);
        }
        if (now_ns >= deadline_ns) {
            errno = ETIMEDOUT;
            return false;
        }
    }
}

static tutti_status meet_by_hand(struct tt_doctor_steps *steps)
{
    struct pair *pair = steps->how;
    char address[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &pair->other_be, address, sizeof(address));
    steps->records[steps->rank] = steps->own;
    ssize_t sent = send(pair->fd, &steps->own, sizeof(steps->own), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == sizeof(steps->own) &&
        receive_record(pair, &steps->records[1 - steps->rank], tt_clock_now_ns() + TT_DOCTOR_MEETING_NS)) {
        if (steps->records[1 - steps->rank].failed != 0) {
            fprintf(stderr, "tutti doctor: %s cannot go on, and says there why\n", address);
        }
        return TUTTI_OK;
    }
    fprintf(stderr, "tutti doctor: %s %s: the connection by which both meet ended before all was measured\n", address,
            errno == 0           ? "has hung up"
            : errno == ETIMEDOUT ? "says nothing any more"
                                 : strerror(errno));
    return TUTTI_ERR_PEER_FAILED;
}

/* --- Meeting ------------------------------------------------------------------------------------------------------ */

/* All that there is to say if the two do not meet. */
static int print_alone(const struct pair *pair, const struct tt_findings *findings)
{
    if (pair->options->json) {
        tt_doctor_print_findings_json(findings, "subject");
    } else {
        tt_doctor_print_findings(findings);
    }
    return TT_EXIT_FAILED;
}

static int report_alone(const struct pair *pair, const char *subject, const char *found, const char *advice)
{
    static struct tt_findings findings;
    tt_findings_add(&findings, "meeting", TT_VERDICT_FAIL, subject, found, advice);
    return print_alone(pair, &findings);
}

/* "10.0.0.1 or 10.1.0.1": where this host may be reached. */
static void list_addresses(char text[LIST_BYTES])
{
    struct tt_interface interfaces[32];
    size_t count = 0, length = 0, shown = 0;
    text[0] = '\0';
    if (tt_interface_list(interfaces, sizeof(interfaces) / sizeof(interfaces[0]), &count) != TUTTI_OK) {
        return;
    }
    for (size_t i = 0; i < count && i < sizeof(interfaces) / sizeof(interfaces[0]) && shown < ADDRESSES_SHOWN; i++) {
        char address[TT_IP_TEXT_BYTES];
        if (interfaces[i].up && !interfaces[i].loopback && tt_ip_to_ipv4(interfaces[i].ip) != 0) {
            tt_ip_format(interfaces[i].ip, address);
            length += (size_t)snprintf(text + length, LIST_BYTES - length, "%s%s", shown > 0 ? " or " : "", address);
            shown++;
        }
    }
}

/* Whether who has connected is a guest; a stranger is told of. */
static bool is_guest(int fd, const struct sockaddr_in *from)
{
    uint8_t bytes[TT_DOCTOR_HELLO_BYTES];
    char address[INET_ADDRSTRLEN] = "";
    inet_ntop(AF_INET, &from->sin_addr, address, sizeof(address));
    if (!tt_doctor_receive(fd, bytes, sizeof(bytes), tt_clock_now_ns() + HELLO_NS)) {
        fprintf(stderr, "tutti doctor: %s connected and did not say who it is\n", address);
        return false;
    }
    enum tt_doctor_hello hello = tt_doctor_hello_decode(bytes);
    if (hello == TT_DOCTOR_OTHER_VERSION) {
        fprintf(stderr, "tutti doctor: %s has another version of tutti\n", address);
        tt_doctor_say(fd, TT_DOCTOR_WELCOME); /* from which it sees the same */
    } else if (hello != TT_DOCTOR_GUEST) {
        fprintf(stderr, "tutti doctor: %s connected, but is no `tutti doctor --peer`\n", address);
    }
    return hello == TT_DOCTOR_GUEST;
}

static bool wait_for_guest(struct pair *pair, uint64_t deadline_ns)
{
    while (tt_doctor_wait(pair->listening_fd, POLLIN, deadline_ns) && tt_clock_now_ns() < deadline_ns) {
        struct sockaddr_in from = {0};
        socklen_t from_bytes = sizeof(from);
        int fd = accept4(pair->listening_fd, (struct sockaddr *)&from, &from_bytes, SOCK_CLOEXEC);
        if (fd >= 0 && is_guest(fd, &from)) {
            tt_doctor_say(fd, TT_DOCTOR_WELCOME);
            tt_doctor_hurry(fd);
            pair->fd = fd;
            pair->other_be = from.sin_addr.s_addr;
            return true;
        }
        if (fd >= 0) {
            close(fd);
        }
    }
    return false;
}

static int listen_for_guest(struct pair *pair)
{
    const struct tt_doctor_pair_options *options = pair->options;
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(options->port)};
    char subject[32], found[TT_FINDING_BYTES], addresses[LIST_BYTES], wait[32], port[32] = "";
    int on = 1;
    snprintf(subject, sizeof(subject), "port %u", options->port);
    pair->listening_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (pair->listening_fd < 0 || setsockopt(pair->listening_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
        bind(pair->listening_fd, (const struct sockaddr *)&own, sizeof(own)) != 0 ||
        listen(pair->listening_fd, BACKLOG) != 0) {
        snprintf(found, sizeof(found), "cannot listen there: %s", strerror(errno));
        return report_alone(pair, subject, found, "another one by --port, on both hosts");
    }
    list_addresses(addresses);
    tt_format_time(options->wait_ns, wait, sizeof(wait));
    if (options->port != TT_DOCTOR_PAIR_PORT) {
        snprintf(port, sizeof(port), " --port %u", options->port);
    }
    fprintf(stderr, "tutti doctor: waiting %s at port %u for `tutti doctor --peer %s%s` on the other host\n", wait,
            options->port, addresses[0] != '\0' ? addresses : "THIS_HOST", port);
    if (wait_for_guest(pair, tt_clock_now_ns() + options->wait_ns)) {
        return TT_EXIT_OK;
    }
    snprintf(found, sizeof(found), "nobody came in %s", wait);
    return report_alone(
        pair, subject, found,
        "run `tutti doctor --peer` with this host's name on the other one meanwhile; what it says tells "
        "whether a firewall is between them");
}

static int call_on_listener(struct pair *pair)
{
    static struct tt_findings findings;
    pair->fd = tt_doctor_guest_call(pair->options->peer, pair->options->port, &findings, &pair->other_be);
    return pair->fd >= 0 ? TT_EXIT_OK : print_alone(pair, &findings);
}

/* --- Between the two ---------------------------------------------------------------------------------------------- */

/* The interface that TUTTI_INTERFACE names, or the one of the connection. */
static tutti_status find_interface(struct pair *pair)
{
    struct sockaddr_in own;
    socklen_t own_bytes = sizeof(own);
    char address[INET_ADDRSTRLEN] = "";
    if (strcmp(pair->settings->interface, "auto") != 0) {
        return tt_doctor_steps_take(&pair->steps, pair->settings->interface);
    }
    if (getsockname(pair->fd, (struct sockaddr *)&own, &own_bytes) != 0) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_IO, "getsockname: %s", strerror(errno));
    }
    inet_ntop(AF_INET, &own.sin_addr, address, sizeof(address));
    return tt_doctor_steps_take(&pair->steps, address);
}

/* Nothing is sent to an address only because somebody says so. */
static tutti_status check_address(const struct pair *pair)
{
    const struct tt_doctor_steps *steps = &pair->steps;
    uint32_t said_be = steps->paths.hosts[1 - steps->rank].address_be;
    uint32_t bits = steps->interface.prefix_bits;
    uint32_t different = ntohl(said_be ^ tt_ip_to_ipv4(steps->interface.ip));
    bool is_neighbour = bits > 0 && bits <= 32 && different >> (32 - bits) == 0;
    char said[INET_ADDRSTRLEN] = "", seen[INET_ADDRSTRLEN] = "";
    if (said_be == pair->other_be || (strcmp(pair->settings->interface, "auto") != 0 && is_neighbour)) {
        return TUTTI_OK;
    }
    inet_ntop(AF_INET, &said_be, said, sizeof(said));
    inet_ntop(AF_INET, &pair->other_be, seen, sizeof(seen));
    return tt_error(
        TT_PART_CLI, TUTTI_ERR_NOT_SUPPORTED,
        "the other host says that its address is %s, but is seen as %s: behind address translation no job can "
        "reach it; to measure by another network than the two meet in, set TUTTI_INTERFACE on both",
        said, seen);
}

/* Both try each other's ports, one after the other. */
static tutti_status try_tcp(struct pair *pair)
{
    struct tt_doctor_steps *steps = &pair->steps;
    uint32_t key = steps->greetings[LISTENER].key;
    uint32_t other = 1 - steps->rank;
    tt_doctor_note(steps, "checking the other's address", check_address(pair));
    tt_doctor_note(steps, "opening TCP ports", tt_doctor_ports_open(&pair->ports, pair->settings, &steps->interface));
    tutti_status status = tt_doctor_share(steps, pair->ports.port, pair->port, sizeof(pair->ports.port));
    for (uint32_t turn = 0; status == TUTTI_OK && turn < PAIR; turn++) {
        uint8_t knocks[TT_DOCTOR_PORTS] = {0};
        if (turn == steps->rank) {
            tt_doctor_ports_try(pair->port[other], &steps->interface, steps->paths.hosts[other].address_be, key,
                                knocks);
        } else {
            tt_doctor_ports_serve(&pair->ports, key, pair->fd, tt_clock_now_ns() + 2 * TT_DOCTOR_KNOCK_NS);
        }
        uint8_t told[PAIR][TT_DOCTOR_PORTS];
        status = tt_doctor_share(steps, knocks, told, sizeof(knocks));
        memcpy(pair->knocks[turn], told[turn], sizeof(pair->knocks[turn]));
    }
    tt_doctor_ports_close(&pair->ports);
    return status;
}

static uint8_t knock_from(uint8_t said)
{
    return said < TT_KNOCK_COUNT ? said : TT_KNOCK_BROKEN;
}

/* Where no datagram arrived: whether somebody says so. */
static tutti_status try_udp(struct pair *pair)
{
    struct tt_doctor_steps *steps = &pair->steps;
    uint32_t other = 1 - steps->rank;
    uint8_t knock = TT_KNOCK_NONE, told[PAIR];
    if (!tt_paths_at(&steps->paths, steps->rank, other)->arrived) {
        const struct tt_paths_host *there = &steps->paths.hosts[other];
        knock = (uint8_t)tt_doctor_knock_udp(&steps->interface, there->address_be, there->port);
    }
    tutti_status status = tt_doctor_share(steps, &knock, told, sizeof(knock));
    for (uint32_t from = 0; status == TUTTI_OK && from < PAIR; from++) {
        struct tt_path *path = tt_paths_at(&steps->paths, from, 1 - from);
        path->udp = knock_from(told[from]);
        for (int i = 0; i < TT_DOCTOR_PORTS; i++) {
            path->tcp[i] = knock_from(pair->knocks[from][i]);
            path->tcp_port[i] = pair->port[1 - from][i];
        }
    }
    return status;
}

static int examine(struct pair *pair)
{
    static struct tt_findings findings;
    struct tt_doctor_steps *steps = &pair->steps;
    tutti_status status = tt_doctor_steps_init(steps);
    if (status != TUTTI_OK) {
        tt_doctor_report_failure(steps, "allocating", status);
        return TT_EXIT_FAILED;
    }
    tt_doctor_note(steps, "finding the interface", find_interface(pair));
    status = tt_doctor_steps_prepare(steps);
    if (status == TUTTI_OK) {
        status = try_tcp(pair);
    }
    if (status == TUTTI_OK) {
        status = tt_doctor_steps_measure(steps);
    }
    if (status == TUTTI_OK) {
        status = try_udp(pair);
    }
    if (status != TUTTI_OK) {
        return TT_EXIT_FAILED; /* which has been said */
    }
    steps->paths.group_multicast = true; /* there is no group to do without */
    tt_doctor_judge_pair(&steps->paths, &findings);
    if (pair->options->json) {
        tt_doctor_print_paths_json(&steps->paths, &findings);
    } else {
        tt_doctor_print_paths(&steps->paths, &findings, false);
    }
    return findings.worst == TT_VERDICT_FAIL ? TT_EXIT_FAILED : TT_EXIT_OK;
}

int tt_doctor_pair(const struct tt_doctor_pair_options *options, const struct tt_settings *settings)
{
    struct tt_doctor_job_options job = {.json = options->json, .rankless = true, .limit_ns = LIMIT_NS};
    struct pair pair = {.options = options, .settings = settings, .listening_fd = -1, .fd = -1};
    pair.steps = (struct tt_doctor_steps){.options = &job,
                                          .settings = settings,
                                          .rank = options->peer == NULL ? LISTENER : GUEST,
                                          .size = PAIR,
                                          .who = "",
                                          .meet = meet_by_hand,
                                          .how = &pair};
    int status = options->peer == NULL ? listen_for_guest(&pair) : call_on_listener(&pair);
    if (status == TT_EXIT_OK) {
        status = examine(&pair);
        tt_doctor_steps_fini(&pair.steps);
    }
    if (pair.listening_fd >= 0) {
        turn_away(&pair);
        close(pair.listening_fd);
    }
    if (pair.fd >= 0) {
        close(pair.fd);
    }
    return status;
}
