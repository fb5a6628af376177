/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * RDMA devices, for whoever chooses providers: needs no header of libibverbs. In a build without that library
 * everything here returns TUTTI_ERR_NOT_SUPPORTED.
 */
#ifndef TT_FABRIC_VERBS_VERBS_H
#define TT_FABRIC_VERBS_VERBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti/status.h"

enum { TT_VERBS_NAME_BYTES = 64, TT_VERBS_GID_TEXT_BYTES = 48 };

struct tt_verbs_device; /* an open port of a device, with what its threads make queue pairs on; fabric/verbs/device.h */

struct tt_verbs_device_options {
    const char *name;         /* "auto", "rxe0", or with a port "mlx5_0:2" */
    uint64_t gid_index;       /* TT_AUTO: the one to be preferred */
    const char *pkey;         /* "0x8001"; NULL or "auto": the first of the port's */
    uint8_t traffic_class;    /* of all that goes by a global route, as all does over RoCE; 0 where nobody asks */
    uint8_t service_level;    /* below 16; 0 where nobody asks */
    uint32_t interface_index; /* the network interface whose address must be reachable; 0: none in particular */
    uint32_t address_be;      /* its IPv4 address; 0: none in particular, or it has none */
    const char *endpoints;    /* the category of endpoints, or "auto", which NULL is too */
    uint32_t threads;         /* that use queues of the device; 0 is 1 */
    const char *asked_by;     /* what errors begin with: "TUTTI_MCAST=verbs: "; NULL: nothing */
};

/*
 * Opens the port that serves the network interface: the one whose GID (RoCE) or IPoIB address (InfiniBand) is the
 * interface's, or, where none is given, the first one that is active. RoCE v2 with an IPv4 address is preferred; the
 * system makes that GID some time after the address, which is waited for. For its threads it makes the endpoints of the
 * category (src/endpoint), where thread domains are needed and there are none those of `static`. Errors, with a text
 * that names device and setting: INVALID_ARGUMENT (no such device, port, GID, P_Key or category), NOT_SUPPORTED (no
 * device for the interface, or not active), NO_RESOURCE (which also says what there is no more of), IO.
 */
tutti_status tt_verbs_device_open(const struct tt_verbs_device_options *options, struct tt_verbs_device **device);

/* The category of endpoints that the device's threads effectively have: "static". Static storage. */
const char *tt_verbs_device_endpoints(const struct tt_verbs_device *device);

/* Each user of a device has a reference; the last close frees it. One thread at a time. */
void tt_verbs_device_hold(struct tt_verbs_device *device);
void tt_verbs_device_close(struct tt_verbs_device *device); /* NULL is allowed */

struct tt_verbs_found {
    char device[TT_VERBS_NAME_BYTES];
    bool is_known; /* of a kind that the providers have been tried on */
};

/* Whether there is a port that open would take, and of what device, unless `found` is NULL; says nothing to the log. */
bool tt_verbs_device_exists(const struct tt_verbs_device_options *options, struct tt_verbs_found *found);

/* A port of a device as `tutti info -d` shows it: with the GID that open would choose there. */
struct tt_verbs_port {
    char device[TT_VERBS_NAME_BYTES];
    char driver[TT_VERBS_NAME_BYTES]; /* of the kernel: "mlx5_core"; "software" for one without hardware */
    char interface[TT_VERBS_NAME_BYTES];
    uint32_t port;
    bool active;
    const char *state;     /* "active", "down"; static storage */
    const char *transport; /* "InfiniBand", "RoCE v2", "RoCE v1"; "-" where no GID was found; static storage */
    bool usable;           /* gid and gid_index are set */
    uint32_t gid_index, pkey_index;
    char gid[TT_VERBS_GID_TEXT_BYTES];
    const char *endpoints; /* as tt_verbs_device_endpoints() */
    uint32_t mtu_bytes;    /* the largest payload of a datagram */
};

/* The port that open would take, with the same errors. */
tutti_status tt_verbs_find(const struct tt_verbs_device_options *options, struct tt_verbs_port *port);

/* Lists up to `capacity` ports; *count is how many there are, which may be more. Of `options`, which may be NULL, only
 * endpoints and threads count. Errors: NOT_SUPPORTED (a build without libibverbs, or its library is not there). */
tutti_status tt_verbs_list(const struct tt_verbs_device_options *options, struct tt_verbs_port *ports, size_t capacity,
                           size_t *count);

#endif
