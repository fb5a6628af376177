/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Two members of one subgroup on an interface: `sender` has rank 0, `receiver` has rank 1. Unless they are to be a
 * pair, they are told of a third rank that is not there, so that they multicast. Every fixture has a group address and
 * port of its own, so that tests may run beside each other. After <cmocka.h>.
 */
#ifndef TT_TESTS_UDP_FIXTURE_H
#define TT_TESTS_UDP_FIXTURE_H

#include "base/settings.h"
#include "fabric/mcast.h"
#include "fabric/udp/udp.h"

#define UDP_FIXTURE_KEY UINT64_C(0xFEDCBA9876543210)

enum { UDP_FIXTURE_MAX = 256 };

struct udp_fixture {
    struct tt_interface interface;
    struct tt_mcast *sending;
    struct tt_mcast *receiving;
    struct tt_mcast_queue *sender;
    struct tt_mcast_queue *receiver;
    struct tt_mcast_queue_options options; /* of the receiver */
    uint8_t *memory;                       /* 64 KiB and more of a pattern, to send from */
};

struct udp_fixture_options {
    const char *interface; /* NULL: loopback */
    uint32_t chunk_bytes;
    uint64_t receive_buffer_bytes; /* 0: TT_AUTO */
    bool pair;                     /* nobody else is in the subgroup */
    bool plain_sender;
    bool plain_receiver;
};

enum { UDP_FIXTURE_RANKS = 3 };

/* Introduces a queue, to the members of its subgroup, by rank; NULL where nobody is. */
tutti_status udp_fixture_introduce(struct tt_mcast_queue *queue, struct tt_mcast_queue *const *members, uint32_t size);

/* An address that no other fixture has. */
struct tt_mcast_address udp_fixture_address(void);

struct tt_mcast *udp_fixture_provider(const struct tt_interface *interface, uint64_t receive_buffer_bytes, bool plain);

/* Of a provider on this interface, if its MTU were that. */
struct tt_mcast_attributes udp_fixture_attributes(struct tt_interface interface, uint32_t mtu,
                                                  uint64_t receive_buffer_bytes);

void udp_fixture_open(struct udp_fixture *fixture, const struct udp_fixture_options *options);
void udp_fixture_close(struct udp_fixture *fixture);

/* A chunk whose payload depends on its number; imm is the number. */
struct tt_send_chunk udp_fixture_chunk(const struct udp_fixture *fixture, uint32_t number, uint32_t length_bytes);

/* Posts `count` chunks of one length, `batch` at a time, until all are accepted. */
void udp_fixture_send(struct udp_fixture *fixture, uint32_t first_number, uint32_t count, uint32_t length_bytes,
                      uint32_t batch);

/* Fails unless the chunk is what udp_fixture_chunk makes of its number. */
void udp_fixture_check(const struct udp_fixture *fixture, const struct tt_receive_chunk *chunk);

/* Polls `max` at a time until nothing comes or at least `limit` have, checks each and reposts; returns how many came.
 * Notes in seen[number] that a chunk has come, unless `seen` is NULL. */
uint32_t udp_fixture_drain(struct udp_fixture *fixture, uint32_t max, uint32_t limit, uint8_t *seen);

/* One poll that may bring one chunk, which is not reposted, or none; returns how many came. */
uint32_t udp_fixture_poll_one(struct tt_mcast_queue *queue, struct tt_receive_chunk *chunk);

struct tt_mcast_counters udp_fixture_counters(const struct tt_mcast_queue *queue);

/* A socket that sends to the subgroup, or to the receiver of a pair in the sender's name, from outside the library; to
 * be closed. */
int udp_fixture_stranger(const struct udp_fixture *fixture);

#endif
