/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the paths between hosts, measured in steps that all ranks go together.
 *
 * Normal path: the ranks tell each other their hosts; the lowest rank of each host measures for it (all ranks do, if
 * there is one host only). The steps are: multicast, in which all call; for each round of disjoint pairs what gets
 * through, one direction after the other; then, for some rounds or all, rate and loss in the same way, and once more
 * for what was slow, one path at a time. Before and after every step all ranks meet, which carries the step's results:
 * 16 bytes a rank, so small that it gets through where large packets do not. Rank 0 also says there when the time is
 * over.
 *
 * Failures: whoever cannot go on says so in the next meeting, and all end. What other ranks bring is looked at before
 * it is used: a name is made printable, and a figure that cannot be counts as none.
 */
#include "cli/doctor_steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/log.h"
#include "base/text.h"
#include "engine/locality.h"
#include "tutti/tutti.h"

enum { ROUNDS = 4, DOUBTFUL = 16, GIVEN_UP = 3 };

tutti_status tt_doctor_report_failure(const struct tt_doctor_steps *steps, const char *what, tutti_status status)
{
    const char *text = tutti_status_text(status);
    const char *sentence = tutti_last_error();
    bool says_it = strncmp(sentence, text, strlen(text)) == 0;
    fprintf(stderr, "tutti doctor: %s%s%s%s (%s)\n", steps->who, says_it ? "" : text, says_it ? "" : ": ", sentence,
            what);
    return status;
}

void tt_doctor_note(struct tt_doctor_steps *steps, const char *what, tutti_status status)
{
    if (status != TUTTI_OK && !steps->failed) {
        steps->failed = true;
        tt_doctor_report_failure(steps, what, status);
    }
}

/* --- Meetings ----------------------------------------------------------------------------------------------------- */

/* Brings steps->own, and has everybody's in steps->records afterwards. */
static tutti_status meet(struct tt_doctor_steps *steps)
{
    uint64_t now_ns = tt_clock_now_ns();
    steps->own.failed = steps->failed ? 1 : 0;
    uint64_t passed_ns = steps->begun_ns != 0 ? now_ns - steps->begun_ns : 0;
    steps->own.late = passed_ns > steps->options->limit_ns       ? TT_DOCTOR_OVER
                      : passed_ns > steps->options->limit_ns / 2 ? TT_DOCTOR_HALF_OVER
                                                                 : TT_DOCTOR_IN_TIME;
    tutti_status status = steps->meet(steps);
    if (status != TUTTI_OK) {
        return status;
    }
    memset(&steps->own, 0, sizeof(steps->own));
    steps->late = (enum tt_doctor_late)steps->records[0].late;
    for (uint32_t rank = 0; rank < steps->size; rank++) {
        if (steps->records[rank].failed != 0) {
            return TUTTI_ERR_PEER_FAILED; /* which has said why */
        }
    }
    return TUTTI_OK;
}

/* An allgather of any length, in meetings. */
tutti_status tt_doctor_share(struct tt_doctor_steps *steps, const void *send, void *receive, size_t length_bytes)
{
    const size_t part_bytes = sizeof(steps->own.is.bytes);
    for (size_t offset = 0; offset < length_bytes; offset += part_bytes) {
        size_t length = length_bytes - offset < part_bytes ? length_bytes - offset : part_bytes;
        memcpy(steps->own.is.bytes, (const uint8_t *)send + offset, length);
        tutti_status status = meet(steps);
        if (status != TUTTI_OK) {
            return status;
        }
        for (uint32_t rank = 0; rank < steps->size; rank++) {
            memcpy((uint8_t *)receive + rank * length_bytes + offset, steps->records[rank].is.bytes, length);
        }
    }
    return TUTTI_OK;
}

/* --- Beginning ---------------------------------------------------------------------------------------------------- */

tutti_status tt_doctor_steps_init(struct tt_doctor_steps *steps)
{
    steps->records = calloc(steps->size, sizeof(*steps->records));
    steps->greetings = calloc(steps->size, sizeof(*steps->greetings));
    steps->socket = malloc(sizeof(*steps->socket));
    if (steps->records == NULL || steps->greetings == NULL || steps->socket == NULL) {
        free(steps->socket);
        steps->socket = NULL;
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "%" PRIu32 " ranks: out of memory", steps->size);
    }
    steps->socket->fd = -1;
    steps->socket->multicast_fd = -1;
    return TUTTI_OK;
}

void tt_doctor_steps_fini(struct tt_doctor_steps *steps)
{
    if (steps->socket != NULL) {
        tt_doctor_socket_close(steps->socket);
    }
    free(steps->socket);
    free(steps->records);
    free(steps->greetings);
    free(steps->paths.hosts);
    free(steps->paths.paths);
}

tutti_status tt_doctor_steps_take(struct tt_doctor_steps *steps, const char *interface)
{
    char text[TT_INTERFACE_TEXT_BYTES];
    tutti_status status = tt_interface_find(interface, &steps->interface);
    if (status == TUTTI_OK && tt_ip_is_ipv6(steps->interface.ip)) {
        status = tt_error(TT_PART_CLI, TUTTI_ERR_NOT_SUPPORTED, "interface %s: paths are measured over IPv4 only",
                          tt_interface_format(&steps->interface, text));
    }
    return status;
}

static void fill_greeting(struct tt_doctor_steps *steps, struct tt_doctor_greeting *own)
{
    own->host = tt_locality_host();
    if (getrandom(&own->key, sizeof(own->key), 0) != sizeof(own->key)) {
        own->key = (uint32_t)tt_clock_now_ns();
    }
    own->own.rank = steps->rank;
    own->own.rank_count = 1;
    own->own.address_be = tt_ip_to_ipv4(steps->interface.ip);
    own->own.mtu_bytes = steps->interface.mtu;
    own->own.prefix_bits = (uint8_t)steps->interface.prefix_bits;
    /* Both have been looked at when the settings were read. */
    tt_parse_ports(steps->settings->ports, &own->own.first_port, &own->own.last_port);
    tt_parse_group_range(steps->settings->group_range, &own->own.group_first, &own->own.group_count);
    own->own.ttl = (uint8_t)steps->settings->ttl;
    own->own.multicast = tt_interface_does_multicast(&steps->interface);
    snprintf(own->own.interface, sizeof(own->own.interface), "%s", steps->interface.name);
    if (gethostname(own->own.name, sizeof(own->own.name)) != 0) {
        snprintf(own->own.name, sizeof(own->own.name), "?");
    }
    own->own.name[sizeof(own->own.name) - 1] = '\0';
}

/* What a rank says of its host, as far as it can be. */
static void take_host(const struct tt_doctor_steps *steps, uint32_t rank, struct tt_paths_host *host)
{
    *host = steps->greetings[rank].own;
    host->rank = rank;
    host->rank_count = 1;
    host->rankless = steps->options->rankless;
    host->name[sizeof(host->name) - 1] = '\0';
    host->interface[sizeof(host->interface) - 1] = '\0';
    tt_text_clean(host->name);
    tt_text_clean(host->interface);
}

/* From the greetings: one host a lowest rank, or, on one host, one a rank. */
static tutti_status list_hosts(struct tt_doctor_steps *steps)
{
    struct tt_paths *paths = &steps->paths;
    bool one_host = true;
    paths->rank_count = steps->size;
    paths->hosts = calloc(steps->size, sizeof(*paths->hosts));
    if (paths->hosts == NULL) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "%" PRIu32 " hosts: out of memory", steps->size);
    }
    for (uint32_t rank = 1; rank < steps->size; rank++) {
        one_host = one_host && steps->greetings[rank].host == steps->greetings[0].host;
    }
    for (uint32_t rank = 0; rank < steps->size; rank++) {
        uint32_t host = 0;
        while (host < paths->host_count &&
               (one_host || steps->greetings[paths->hosts[host].rank].host != steps->greetings[rank].host)) {
            host++;
        }
        if (host < paths->host_count) {
            paths->hosts[host].rank_count++;
            continue;
        }
        steps->self = rank == steps->rank ? host : steps->self;
        take_host(steps, rank, &paths->hosts[host]);
        paths->host_count++;
    }
    paths->one_host = one_host;
    paths->rankless = steps->options->rankless;
    if (paths->host_count > TT_PATHS_HOST_LIMIT) {
        return tt_error(TT_PART_CLI, TUTTI_ERR_TOO_LARGE, "%" PRIu32 " hosts: at most %d are measured",
                        paths->host_count, TT_PATHS_HOST_LIMIT);
    }
    paths->paths = calloc((size_t)paths->host_count * paths->host_count, sizeof(*paths->paths));
    return paths->paths != NULL
               ? TUTTI_OK
               : tt_error(TT_PART_CLI, TUTTI_ERR_NO_MEMORY, "%" PRIu32 " hosts: out of memory", paths->host_count);
}

tutti_status tt_doctor_steps_prepare(struct tt_doctor_steps *steps)
{
    struct tt_doctor_greeting own;
    memset(&own, 0, sizeof(own)); /* padding travels, too */
    if (!steps->failed) {
        fill_greeting(steps, &own);
        tt_doctor_note(steps, "opening a socket",
                       tt_doctor_socket_open(steps->socket, steps->settings, &steps->interface, &own.own.port));
    }
    tutti_status status = tt_doctor_share(steps, &own, steps->greetings, sizeof(own));
    if (status != TUTTI_OK) {
        return status;
    }
    steps->self = TT_DOCTOR_NO_HOST;
    tt_doctor_note(steps, "listing the hosts", list_hosts(steps));
    steps->socket->key = steps->greetings[0].key;
    steps->socket->self = (uint16_t)steps->self;
    if (!steps->failed && steps->self != TT_DOCTOR_NO_HOST) {
        if (tt_interface_does_multicast(&steps->interface)) {
            tt_doctor_note(steps, "joining a multicast group", tt_doctor_socket_join(steps->socket, steps->settings));
        }
    }
    steps->size_count = tt_paths_sizes(steps->paths.hosts, steps->paths.host_count, steps->sizes);
    return meet(steps);
}

/* --- Steps -------------------------------------------------------------------------------------------------------- */

static tutti_status call_all(struct tt_doctor_steps *steps)
{
    enum { MASK_BYTES = TT_PATHS_HOST_LIMIT / 8 };
    struct tt_paths *paths = &steps->paths;
    bool heard[TT_PATHS_HOST_LIMIT] = {false};
    uint8_t mask[MASK_BYTES] = {0};
    size_t length_bytes = (paths->host_count + 7) / 8;
    uint8_t *masks = calloc(steps->size, length_bytes);
    tt_doctor_note(steps, "allocating", masks != NULL ? TUTTI_OK : tt_error_note(TUTTI_ERR_NO_MEMORY, "out of memory"));
    steps->socket->step++;
    if (steps->self != TT_DOCTOR_NO_HOST) {
        tt_doctor_call(steps->socket, paths->host_count, heard);
    }
    for (uint32_t host = 0; host < paths->host_count; host++) {
        mask[host / 8] |= (uint8_t)(heard[host] ? 1 << host % 8 : 0);
    }
    tutti_status status = meet(steps);
    if (status != TUTTI_OK || masks == NULL) {
        free(masks);
        return status;
    }
    status = tt_doctor_share(steps, mask, masks, length_bytes);
    for (uint32_t to = 0; status == TUTTI_OK && to < paths->host_count; to++) {
        const uint8_t *heard_there = masks + paths->hosts[to].rank * length_bytes;
        for (uint32_t from = 0; from < paths->host_count; from++) {
            struct tt_path *path = tt_paths_at(paths, from, to);
            path->multicast_tried = from != to && tt_paths_do_multicast(paths, from, to);
            path->multicast_heard = path->multicast_tried && (heard_there[from / 8] >> from % 8 & 1) != 0;
        }
    }
    free(masks);
    return status;
}

static struct tt_doctor_partner partner_of(const struct tt_doctor_steps *steps, uint32_t host)
{
    const struct tt_paths_host *other = &steps->paths.hosts[host];
    struct tt_doctor_partner partner = {.index = (uint16_t)host};
    partner.address = (struct sockaddr_in){
        .sin_family = AF_INET, .sin_addr.s_addr = other->address_be, .sin_port = htons(other->port)};
    return partner;
}

/* Who asks in a step: the lower of two first, then the other. */
static bool asks(uint32_t host, uint32_t other, uint32_t turn)
{
    return (host < other) == (turn == 0);
}

/* What this rank does in a step; its results go to steps->own. */
static void take_part(struct tt_doctor_steps *steps, uint32_t other, bool measure, bool asking)
{
    struct tt_doctor_partner partner = partner_of(steps, other);
    struct tt_path path = {0};
    if (!asking) {
        steps->own.is.path.sent = (uint16_t)tt_doctor_serve(steps->socket, &partner, steps->sizes, steps->size_count);
    } else if (measure) {
        uint32_t payload_bytes = tt_paths_at(&steps->paths, other, steps->self)->payload_bytes;
        tt_doctor_measure(steps->socket, &partner, payload_bytes, &path);
        steps->own.is.path.number = path.rate_kbit;
        steps->own.is.path.sent = (uint16_t)path.sent;
        steps->own.is.path.lost = (uint16_t)path.lost;
        steps->own.is.path.overflowed = (uint16_t)path.overflowed;
    } else {
        tt_doctor_reach(steps->socket, &partner, steps->sizes, steps->size_count, &path);
        steps->own.is.path.number = path.round_trip_ns;
        steps->own.is.path.payload_bytes = (uint16_t)path.payload_bytes;
    }
}

/* No more than was sent, whatever another rank says. */
static uint32_t at_most(uint32_t part, uint32_t whole)
{
    return part < whole ? part : whole;
}

/* Notes what `asker` has found. */
static void keep(struct tt_doctor_steps *steps, uint32_t asker, uint32_t other, bool measure)
{
    const struct tt_doctor_record *record = &steps->records[steps->paths.hosts[asker].rank];
    if (measure) {
        struct tt_path *path = tt_paths_at(&steps->paths, other, asker);
        path->measured = true;
        path->rate_kbit = record->is.path.number > path->rate_kbit ? record->is.path.number : path->rate_kbit;
        path->sent += record->is.path.sent;
        path->lost += at_most(record->is.path.lost, record->is.path.sent);
        path->overflowed += at_most(record->is.path.overflowed, record->is.path.sent);
    } else {
        struct tt_path *path = tt_paths_at(&steps->paths, asker, other);
        path->tried = true;
        path->arrived = steps->records[steps->paths.hosts[other].rank].is.path.sent > 0;
        path->round_trip_ns = record->is.path.number;
        path->payload_bytes = record->is.path.payload_bytes;
    }
}

/* With whom a host has a step in this round; host_count: with none. */
static uint32_t partner_in(const struct tt_doctor_steps *steps, uint32_t round, uint32_t host, bool measure)
{
    uint32_t other = tt_paths_partner(steps->paths.host_count, round, host);
    if (other < steps->paths.host_count && (measure ? !tt_paths_is_connected(&steps->paths, host, other)
                                                    : tt_paths_is_cut_off(&steps->paths, host, GIVEN_UP) ||
                                                          tt_paths_is_cut_off(&steps->paths, other, GIVEN_UP))) {
        return steps->paths.host_count; /* nothing would come, and be waited for */
    }
    return other;
}

static tutti_status run_round(struct tt_doctor_steps *steps, uint32_t round, bool measure)
{
    for (uint32_t turn = 0; turn < 2; turn++) {
        uint32_t host_count = steps->paths.host_count;
        steps->socket->step++;
        if (steps->self != TT_DOCTOR_NO_HOST) {
            uint32_t other = partner_in(steps, round, steps->self, measure);
            if (other < host_count) {
                take_part(steps, other, measure, asks(steps->self, other, turn));
            }
        }
        tutti_status status = meet(steps);
        if (status != TUTTI_OK) {
            return status;
        }
        for (uint32_t host = 0; host < host_count; host++) {
            uint32_t other = partner_in(steps, round, host, measure);
            if (other < host_count && asks(host, other, turn)) {
                keep(steps, host, other, measure);
            }
        }
    }
    return TUTTI_OK;
}

/* Measures one path while all other hosts are quiet. */
static tutti_status run_alone(struct tt_doctor_steps *steps, const struct tt_paths_pair *pair)
{
    steps->socket->step++;
    if (steps->self == pair->to || steps->self == pair->from) {
        take_part(steps, steps->self == pair->to ? pair->from : pair->to, true, steps->self == pair->to);
    }
    tutti_status status = meet(steps);
    if (status == TUTTI_OK) {
        keep(steps, pair->to, pair->from, true);
    }
    return status;
}

static tutti_status measure_doubtful(struct tt_doctor_steps *steps)
{
    struct tt_paths_pair pairs[DOUBTFUL];
    uint32_t count = tt_paths_doubtful(&steps->paths, pairs, DOUBTFUL);
    tutti_status status = TUTTI_OK;
    for (uint32_t i = 0; i < count && status == TUTTI_OK && steps->late < TT_DOCTOR_OVER; i++) {
        status = run_alone(steps, &pairs[i]);
    }
    return status;
}

tutti_status tt_doctor_steps_measure(struct tt_doctor_steps *steps)
{
    uint32_t rounds = tt_paths_round_count(steps->paths.host_count);
    uint32_t tried = 0, measured = 0;
    steps->begun_ns = tt_clock_now_ns();
    tutti_status status = call_all(steps);
    for (; tried < rounds && status == TUTTI_OK && steps->late < TT_DOCTOR_HALF_OVER; tried++) {
        status = run_round(steps, tried, false);
    }
    uint32_t wanted = steps->options->pairs || tried < ROUNDS ? tried : ROUNDS;
    for (; measured < wanted && status == TUTTI_OK && steps->late < TT_DOCTOR_OVER; measured++) {
        status = run_round(steps, measured * tried / wanted, true);
    }
    if (status == TUTTI_OK) {
        status = measure_doubtful(steps);
    }
    steps->paths.stopped = tried < rounds || measured < wanted;
    steps->paths.duration_ns = tt_clock_now_ns() - steps->begun_ns;
    return status;
}
