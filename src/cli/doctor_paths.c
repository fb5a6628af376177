/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Purpose: the arithmetic of `tutti doctor --job`: who is paired with whom, which sizes are tried, how a rate follows
 * from the arrival of a train, and a host's figures from those of its paths.
 *
 * Normal path: a round-robin tournament of the hosts; a host's rate is the best of its partners', so that one slow host
 * does not make its partners slow; the loss is that of all partners together.
 *
 * Failures: what was not measured stays 0, and is not counted.
 */
#include "cli/doctor_paths.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DOUBTFUL_PERCENT = 92, TRAIN_GROWTH = 8, LARGEST_PAYLOAD_BYTES = 65507 };

/* --- What is tried, and in which order ---------------------------------------------------------------------------- */

/* Adds a payload in its place, unless it is there or there is no room. */
static void add_size(uint32_t *sizes, uint32_t *count, uint32_t size)
{
    uint32_t place = 0;
    while (place < *count && sizes[place] < size) {
        place++;
    }
    if ((place < *count && sizes[place] == size) || *count == TT_PATHS_SIZE_LIMIT) {
        return;
    }
    memmove(&sizes[place + 1], &sizes[place], (*count - place) * sizeof(*sizes));
    sizes[place] = size;
    (*count)++;
}

uint32_t tt_paths_sizes(const struct tt_paths_host *hosts, uint32_t host_count, uint32_t sizes[TT_PATHS_SIZE_LIMIT])
{
    /* MTU 576, 1280, 1420 (WireGuard), 1450 (VXLAN), 1500, 4080 (InfiniBand's 4 KiB), 8950 (VXLAN), 9000. */
    static const uint32_t common[] = {548, 1252, 1392, 1422, 1472, 4052, 8922, 8972};
    uint32_t count = 0;
    for (size_t i = 0; i < sizeof(common) / sizeof(common[0]); i++) {
        add_size(sizes, &count, common[i]);
    }
    for (uint32_t i = 0; i < host_count; i++) {
        uint32_t own = hosts[i].mtu_bytes > TT_PATHS_PACKET_BYTES ? hosts[i].mtu_bytes - TT_PATHS_PACKET_BYTES : 1;
        add_size(sizes, &count, own < LARGEST_PAYLOAD_BYTES ? own : LARGEST_PAYLOAD_BYTES);
    }
    return count;
}

uint32_t tt_paths_round_count(uint32_t host_count)
{
    return host_count < 2 ? 0 : (host_count + host_count % 2) - 1;
}

/* The last seat stays, the others sum up to the round's number; with an odd number of hosts that seat is empty. */
uint32_t tt_paths_partner(uint32_t host_count, uint32_t round, uint32_t host)
{
    uint32_t ring = tt_paths_round_count(host_count);
    uint32_t partner = ring;
    if (ring == 0) {
        return host_count;
    }
    if (host == ring) {
        /* The one that would meet itself: 2 * partner = round, modulo an odd number. */
        partner = round % 2 == 0 ? round / 2 : (round + ring) / 2;
    } else if ((round + ring - host) % ring != host) {
        partner = (round + ring - host) % ring;
    }
    return partner < host_count ? partner : host_count;
}

/* --- Trains ------------------------------------------------------------------------------------------------------- */

void tt_arrivals_init(struct tt_arrivals *arrivals, uint64_t expected_bytes)
{
    memset(arrivals, 0, sizeof(*arrivals));
    arrivals->expected_bytes = expected_bytes;
}

void tt_arrivals_add(struct tt_arrivals *arrivals, uint64_t bytes, uint64_t stamp_ns)
{
    if (arrivals->bytes == 0) {
        arrivals->first_ns = stamp_ns;
    }
    arrivals->bytes += bytes;
    if (stamp_ns > arrivals->last_ns) {
        arrivals->last_ns = stamp_ns;
    }
    uint64_t due_bytes = arrivals->expected_bytes / TT_ARRIVALS_LIMIT * (arrivals->count + 1);
    if (arrivals->count > 0 && arrivals->marks[arrivals->count - 1].stamp_ns == arrivals->last_ns) {
        arrivals->marks[arrivals->count - 1].bytes = arrivals->bytes; /* they came together, merged */
    } else if (arrivals->count < TT_ARRIVALS_LIMIT && arrivals->bytes >= due_bytes) {
        arrivals->marks[arrivals->count].bytes = arrivals->bytes;
        arrivals->marks[arrivals->count].stamp_ns = arrivals->last_ns;
        arrivals->count++;
    }
}

uint32_t tt_arrivals_rate_kbit(const struct tt_arrivals *arrivals)
{
    for (uint32_t i = 0; i < arrivals->count; i++) {
        if (arrivals->marks[i].bytes >= arrivals->bytes / 4) {
            uint64_t bytes = arrivals->bytes - arrivals->marks[i].bytes;
            uint64_t span_ns = arrivals->last_ns - arrivals->marks[i].stamp_ns;
            double rate_kbit = span_ns == 0 ? 0 : (double)bytes * 8e6 / (double)span_ns;
            return rate_kbit < (double)UINT32_MAX ? (uint32_t)rate_kbit : UINT32_MAX;
        }
    }
    return 0;
}

uint64_t tt_train_next_bytes(uint64_t bytes, uint32_t rate_kbit, uint64_t wanted_ns)
{
    double wanted_bytes = (double)rate_kbit * (double)wanted_ns / 8e6;
    uint64_t most_bytes = bytes * TRAIN_GROWTH;
    if (rate_kbit == 0 || wanted_bytes > (double)most_bytes) {
        return most_bytes;
    }
    return (uint64_t)wanted_bytes;
}

/* --- Figures ------------------------------------------------------------------------------------------------------ */

bool tt_paths_is_connected(const struct tt_paths *paths, uint32_t one, uint32_t other)
{
    const struct tt_path *there = tt_paths_at(paths, one, other);
    const struct tt_path *back = tt_paths_at(paths, other, one);
    return there->round_trip_ns > 0 && back->round_trip_ns > 0 && there->payload_bytes > 0 && back->payload_bytes > 0;
}

bool tt_paths_do_multicast(const struct tt_paths *paths, uint32_t one, uint32_t other)
{
    return paths->hosts[one].multicast != 0 && paths->hosts[other].multicast != 0;
}

bool tt_paths_are_neighbours(const struct tt_paths *paths, uint32_t one, uint32_t other)
{
    const struct tt_paths_host *host = &paths->hosts[one];
    uint32_t different = ntohl(host->address_be ^ paths->hosts[other].address_be);
    /* Both judge by their own prefix; the narrower network counts. */
    uint32_t bits =
        host->prefix_bits > paths->hosts[other].prefix_bits ? host->prefix_bits : paths->hosts[other].prefix_bits;
    return bits == 0 || bits > 32 || different >> (32 - bits) == 0;
}

bool tt_paths_is_tried(const struct tt_paths *paths, uint32_t one, uint32_t other)
{
    return tt_paths_at(paths, one, other)->tried && tt_paths_at(paths, other, one)->tried;
}

bool tt_paths_is_cut_off(const struct tt_paths *paths, uint32_t host, uint32_t least)
{
    uint32_t tried = 0;
    for (uint32_t other = 0; other < paths->host_count; other++) {
        if (other != host && tt_paths_is_tried(paths, host, other)) {
            tried++;
            if (tt_paths_is_connected(paths, host, other)) {
                return false;
            }
        }
    }
    return tried >= least;
}

static int compare(const void *left, const void *right)
{
    uint32_t a = *(const uint32_t *)left;
    uint32_t b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

uint32_t tt_paths_median(uint32_t *values, size_t count)
{
    if (count == 0) {
        return 0;
    }
    qsort(values, count, sizeof(*values), compare);
    return values[(count - 1) / 2];
}

uint32_t tt_paths_upper_median(uint32_t *values, size_t count)
{
    tt_paths_median(values, count);
    return count > 0 ? values[count / 2] : 0;
}

uint32_t tt_paths_doubtful(const struct tt_paths *paths, struct tt_paths_pair *pairs, uint32_t capacity)
{
    size_t path_count = (size_t)paths->host_count * paths->host_count;
    uint32_t best_kbit[TT_PATHS_HOST_LIMIT];
    size_t measured = 0;
    uint32_t found = 0;
    /* The best of each sender, so that one slow receiver among few does not lower the median. */
    for (uint32_t from = 0; from < paths->host_count; from++) {
        uint32_t best = 0;
        for (uint32_t to = 0; to < paths->host_count; to++) {
            uint32_t rate_kbit = tt_paths_at(paths, from, to)->rate_kbit;
            best = rate_kbit > best ? rate_kbit : best;
        }
        if (best > 0) {
            best_kbit[measured++] = best;
        }
    }
    uint64_t median_kbit = tt_paths_upper_median(best_kbit, measured);
    for (size_t i = 0; i < path_count && found < capacity; i++) {
        if (paths->paths[i].measured && paths->paths[i].rate_kbit * UINT64_C(100) < median_kbit * DOUBTFUL_PERCENT) {
            pairs[found].from = (uint32_t)(i / paths->host_count);
            pairs[found++].to = (uint32_t)(i % paths->host_count);
        }
    }
    return found;
}

uint32_t tt_paths_ppm(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : (uint32_t)(part * 1000000 / whole);
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

void tt_paths_figure(const struct tt_paths *paths, uint32_t host, struct tt_paths_figures *figures)
{
    uint32_t round_trips[TT_PATHS_HOST_LIMIT];
    size_t round_trip_count = 0;
    uint64_t overflowed = 0;
    memset(figures, 0, sizeof(*figures));
    for (uint32_t other = 0; other < paths->host_count; other++) {
        if (other == host) {
            continue;
        }
        const struct tt_path *out = tt_paths_at(paths, host, other);
        const struct tt_path *in = tt_paths_at(paths, other, host);
        figures->payload_bytes = larger(figures->payload_bytes, larger(out->payload_bytes, in->payload_bytes));
        figures->heard += in->multicast_heard ? 1 : 0;
        figures->heard_of += in->multicast_tried ? 1 : 0;
        figures->rate_out_kbit = larger(figures->rate_out_kbit, out->rate_kbit);
        figures->rate_in_kbit = larger(figures->rate_in_kbit, in->rate_kbit);
        figures->sent_out += out->sent;
        figures->sent_in += in->sent;
        figures->lost_out += out->lost;
        figures->lost_in += in->lost;
        overflowed += in->overflowed;
        if (out->round_trip_ns > 0) {
            round_trips[round_trip_count++] = out->round_trip_ns;
        }
    }
    figures->loss_out_ppm = tt_paths_ppm(figures->lost_out, figures->sent_out);
    figures->loss_in_ppm = tt_paths_ppm(figures->lost_in, figures->sent_in);
    figures->overflow_ppm = tt_paths_ppm(overflowed, figures->sent_in);
    figures->round_trip_ns = tt_paths_median(round_trips, round_trip_count);
}

const char *tt_paths_host_text(const struct tt_paths_host *host, char text[TT_PATHS_HOST_TEXT_BYTES])
{
    char address[INET_ADDRSTRLEN] = "";
    if (host->rankless == 0) {
        snprintf(text, TT_PATHS_HOST_TEXT_BYTES, "%.28s (rank %u)", host->name, host->rank);
    } else {
        inet_ntop(AF_INET, &host->address_be, address, sizeof(address));
        snprintf(text, TT_PATHS_HOST_TEXT_BYTES, "%.28s (%s)", host->name, address);
    }
    return text;
}

bool tt_paths_peer_text(const char *peer, uint16_t port, char text[TT_PATHS_PEER_TEXT_BYTES])
{
    bool is_ipv6 = strchr(peer, ':') != strrchr(peer, ':'); /* with two colons at least; names have none */
    bool is_bare = is_ipv6 && peer[0] != '[';
    snprintf(text, TT_PATHS_PEER_TEXT_BYTES, "%s%.80s%s:%u", is_bare ? "[" : "", peer, is_bare ? "]" : "", port);
    return is_ipv6;
}
