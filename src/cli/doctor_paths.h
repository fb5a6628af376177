/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The hosts of a job and the paths between them: what `tutti doctor --job` measures, in which order, and the figures
 * that follow from it. Pure.
 */
#ifndef TT_CLI_DOCTOR_PATHS_H
#define TT_CLI_DOCTOR_PATHS_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TT_PATHS_HOST_LIMIT = 256,
    TT_PATHS_SIZE_LIMIT = 16,
    TT_PATHS_NAME_BYTES = 48,
    TT_PATHS_PEER_TEXT_BYTES = 96,
    TT_PATHS_PACKET_BYTES = 28,   /* headers of IP and UDP */
    TT_PATHS_FRAME_BYTES = 42,    /* and Ethernet's */
    TT_PATHS_HOST_TEXT_BYTES = 48 /* "node17 (rank 17)" */
};

/* What became of a try to reach a port. These numbers travel. */
enum tt_knock {
    TT_KNOCK_NONE,     /* not tried */
    TT_KNOCK_OPEN,     /* answered, and what was sent arrived */
    TT_KNOCK_REFUSED,  /* a reset, or port unreachable, though somebody listens there */
    TT_KNOCK_REJECTED, /* another word of a router or firewall: no route to host, administratively prohibited */
    TT_KNOCK_SILENT,   /* no answer */
    TT_KNOCK_STALLED,  /* connected, but full packets did not arrive */
    TT_KNOCK_BROKEN,   /* connected, and then reset or garbled */
    TT_KNOCK_COUNT
};

enum { TT_DOCTOR_PORTS = 3 /* the first of TUTTI_PORTS, one in the middle, the last */ };

struct tt_paths_host {
    uint32_t rank;                     /* the lowest on this host, which measures for it */
    uint32_t rank_count;               /* on this host */
    uint32_t address_be;               /* IPv4, of the interface that the group uses */
    uint32_t mtu_bytes;                /* the interface's */
    uint16_t port;                     /* UDP */
    uint8_t prefix_bits;               /* of the address's network */
    uint8_t multicast;                 /* 1: the interface has the flag MULTICAST, or is loopback */
    uint8_t rankless;                  /* 1: of two that met by hand, and is named by its address */
    uint8_t ttl;                       /* of its multicast */
    uint16_t first_port, last_port;    /* TUTTI_PORTS */
    uint32_t group_first, group_count; /* TUTTI_GROUP_RANGE */
    char interface[IF_NAMESIZE];
    char name[TT_PATHS_NAME_BYTES];
};

/* From one host to another; what was not measured is 0. */
struct tt_path {
    bool tried;    /* whether anything gets through */
    bool arrived;  /* the second got what the first asked */
    bool measured; /* rate and loss */
    bool multicast_tried;
    bool multicast_heard;               /* the second hears the first */
    uint8_t udp;                        /* enum tt_knock: how the first is turned away, where nothing arrived */
    uint8_t tcp[TT_DOCTOR_PORTS];       /* enum tt_knock: what became of the first's connections */
    uint16_t tcp_port[TT_DOCTOR_PORTS]; /* of the second; 0: none was free */
    uint32_t round_trip_ns;             /* asked by the first; 0: no answer */
    uint32_t payload_bytes;             /* the largest UDP payload that came through in one piece; 0: none */
    uint32_t rate_kbit;                 /* kbit/s at the receiver, counted in frames with Ethernet's header */
    uint32_t sent;                      /* datagrams, well below that rate; those of the path back are not in it */
    uint32_t lost;                      /* of them */
    uint32_t overflowed;                /* of them: arrived, but found the receiver's socket full; not in `lost` */
};

struct tt_paths {
    uint32_t rank_count;
    uint32_t host_count;
    bool rankless;        /* two hosts that met by hand: there is no group, and TCP was tried */
    bool one_host;        /* every rank counts as a host: all share one */
    bool group_multicast; /* the job's own group uses multicast */
    bool stopped;         /* the time was over before all rounds */
    uint64_t duration_ns;
    struct tt_paths_host *hosts; /* by rank */
    struct tt_path *paths;       /* from * host_count + to */
};

/* Payloads to try, rising: common MTUs and those of the hosts' own interfaces, at most TT_PATHS_SIZE_LIMIT. Returns
 * their number. */
uint32_t tt_paths_sizes(const struct tt_paths_host *hosts, uint32_t host_count, uint32_t sizes[TT_PATHS_SIZE_LIMIT]);

/*
 * Rounds of disjoint pairs, in which every host meets every other once. With whom a host is paired in one of them;
 * host_count: with nobody.
 */
uint32_t tt_paths_round_count(uint32_t host_count);
uint32_t tt_paths_partner(uint32_t host_count, uint32_t round, uint32_t host);

static inline struct tt_path *tt_paths_at(const struct tt_paths *paths, uint32_t from, uint32_t to)
{
    return &paths->paths[(size_t)from * paths->host_count + to];
}

/*
 * Paths that are slower than most, so that they are to be measured once more, alone: another pair may have been in the
 * way, on a switch or, in a testbed, on a processor. Fills up to `capacity` of them; returns their number.
 */
struct tt_paths_pair {
    uint32_t from, to;
};
uint32_t tt_paths_doubtful(const struct tt_paths *paths, struct tt_paths_pair *pairs, uint32_t capacity);

/* Both directions get datagrams through. */
bool tt_paths_is_connected(const struct tt_paths *paths, uint32_t one, uint32_t other);

/* The interfaces of both have the flag MULTICAST. */
bool tt_paths_do_multicast(const struct tt_paths *paths, uint32_t one, uint32_t other);

/* Both have addresses of one network, so that no router is between them. */
bool tt_paths_are_neighbours(const struct tt_paths *paths, uint32_t one, uint32_t other);

/* It has been looked, in both directions, whether they do. */
bool tt_paths_is_tried(const struct tt_paths *paths, uint32_t one, uint32_t other);

/* The host was tried with at least so many others, and is connected with none. */
bool tt_paths_is_cut_off(const struct tt_paths *paths, uint32_t host, uint32_t least);

/* What is said of one host. */
struct tt_paths_figures {
    uint32_t payload_bytes;     /* the largest that passed in or out, to whomever */
    uint32_t heard, heard_of;   /* others whose multicast it hears */
    uint32_t rate_out_kbit;     /* the best that anybody got from it */
    uint32_t rate_in_kbit;      /* the best that it got from anybody */
    uint32_t sent_out, sent_in; /* datagrams of the trains for loss, all partners together */
    uint32_t lost_out, lost_in;
    uint32_t loss_out_ppm, loss_in_ppm; /* of these */
    uint32_t overflow_ppm;              /* of what was sent to it */
    uint32_t round_trip_ns;             /* the middle one of its partners' */
};
void tt_paths_figure(const struct tt_paths *paths, uint32_t host, struct tt_paths_figures *figures);

/* The middle value, the lower one of two; 0 for none. Sorts `values`. */
uint32_t tt_paths_median(uint32_t *values, size_t count);
uint32_t tt_paths_upper_median(uint32_t *values, size_t count); /* the upper one of two */
uint32_t tt_paths_ppm(uint64_t part, uint64_t whole);

/* "node17 (rank 17)", or "node17 (10.0.0.17)"; returns `text`. */
const char *tt_paths_host_text(const struct tt_paths_host *host, char text[TT_PATHS_HOST_TEXT_BYTES]);

/* "node17:29500", or "[fd00::17]:29500" of an IPv6 address, with or without its brackets. Returns whether it is one. */
bool tt_paths_peer_text(const char *peer, uint16_t port, char text[TT_PATHS_PEER_TEXT_BYTES]);

/*
 * A train as it arrives, for its rate. The first quarter of the bytes does not count: it is what buckets and buffers on
 * the way let through at once.
 */
enum { TT_ARRIVALS_LIMIT = 128 };
struct tt_arrivals {
    uint64_t expected_bytes;
    uint64_t bytes; /* so far */
    uint64_t first_ns, last_ns;
    uint32_t count; /* of marks */
    struct {
        uint64_t bytes, stamp_ns;
    } marks[TT_ARRIVALS_LIMIT];
};
void tt_arrivals_init(struct tt_arrivals *arrivals, uint64_t expected_bytes);
void tt_arrivals_add(struct tt_arrivals *arrivals, uint64_t bytes, uint64_t stamp_ns);
/* kbit/s; 0 if the train was too short to tell. */
uint32_t tt_arrivals_rate_kbit(const struct tt_arrivals *arrivals);

/*
 * How many bytes the next train for a rate should have, to take `wanted_ns`, after one of `bytes` that took `span_ns`
 * with this rate: at most eight times as many, since a short train may have met an empty bucket.
 */
uint64_t tt_train_next_bytes(uint64_t bytes, uint32_t rate_kbit, uint64_t wanted_ns);

#endif
