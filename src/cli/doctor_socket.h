/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The sockets of `tutti doctor --job`, and its datagrams. Every datagram carries the job's key and the number of the
 * step in which it was sent; all others are skipped on receipt, so that what comes late is not taken for something
 * else.
 */
#ifndef TT_CLI_DOCTOR_SOCKET_H
#define TT_CLI_DOCTOR_SOCKET_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/settings.h"
#include "fabric/udp/interface.h"
#include "tutti/status.h"

enum tt_doctor_kind {
    TT_DOCTOR_PING, /* number: which; answered with PONG */
    TT_DOCTOR_PONG,
    TT_DOCTOR_SIZE,  /* number: which size; as long as that says */
    TT_DOCTOR_ASK,   /* which sizes have come? answered with SIZES */
    TT_DOCTOR_SIZES, /* value: a bit for each */
    TT_DOCTOR_ORDER, /* number: of the train; value (how many), length_bytes, rate_kbit, burst */
    TT_DOCTOR_TRAIN, /* number: as ordered */
    TT_DOCTOR_END,   /* number: as ordered; value: datagrams that were sent */
    TT_DOCTOR_DONE,  /* the step is over */
    TT_DOCTOR_CALL   /* by multicast */
};

struct tt_doctor_header {
    uint32_t key;
    uint32_t step;
    uint16_t kind;
    uint16_t from; /* index of the host */
    uint32_t number;
    uint32_t value;
    uint32_t length_bytes;
    uint32_t rate_kbit; /* 0: as fast as it goes */
    uint32_t burst;     /* datagrams that may be sent at once */
};

enum { TT_DOCTOR_BUFFER_BYTES = 1 << 16 };

struct tt_doctor_socket {
    int fd;           /* unicast, bound to the interface's address */
    int multicast_fd; /* receives multicast; -1 until joined */
    struct sockaddr_in multicast;
    const struct tt_interface *interface;
    uint32_t key;
    uint32_t step;
    uint16_t self; /* index of this host */
    bool segments; /* the kernel cuts what is sent */

    /* What has been received and not looked at, datagrams of equal length but for the last. */
    uint32_t filled_bytes, used_bytes, segment_bytes;
    uint64_t stamp_ns;
    uint32_t overflowed; /* datagrams that found the socket full, since it was opened */
    uint8_t received[TT_DOCTOR_BUFFER_BYTES];
    uint8_t sending[TT_DOCTOR_BUFFER_BYTES];
};

struct tt_doctor_datagram {
    struct tt_doctor_header header;
    uint32_t payload_bytes; /* the header included */
    uint64_t stamp_ns;      /* when the kernel got it, by its clock of the day */
};

/* Opens the unicast socket, at one of the setting PORTS, which is returned. `interface` must live as long as the
 * socket. Errors: IO, IN_USE, NO_RESOURCE; nothing is open then. */
tutti_status tt_doctor_socket_open(struct tt_doctor_socket *doctor, const struct tt_settings *settings,
                                   const struct tt_interface *interface, uint16_t *port);

/* Joins a multicast group of the settings GROUP_RANGE and PORTS that follows from the key. */
tutti_status tt_doctor_socket_join(struct tt_doctor_socket *doctor, const struct tt_settings *settings);

void tt_doctor_socket_close(struct tt_doctor_socket *doctor);

/* The next datagram of this job and step at one of the two descriptors; false once the deadline has passed. */
bool tt_doctor_next(struct tt_doctor_socket *doctor, int fd, uint64_t deadline_ns, struct tt_doctor_datagram *datagram);

/* Sends one datagram of `payload_bytes`, 0: the header only. Key, step and sender are filled in. False: refused. */
bool tt_doctor_send(struct tt_doctor_socket *doctor, const struct sockaddr_in *to,
                    const struct tt_doctor_header *header, uint32_t payload_bytes);

/* Sends `count` equal datagrams in one go; they must fit the buffer. Returns how many were accepted. */
uint32_t tt_doctor_send_many(struct tt_doctor_socket *doctor, const struct sockaddr_in *to,
                             const struct tt_doctor_header *header, uint32_t payload_bytes, uint32_t count);

#endif
