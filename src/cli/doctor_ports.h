/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Whether TCP gets through between two hosts at some of the ports of TUTTI_PORTS, and what becomes of UDP that does
 * not: for `tutti doctor --listen` and `--peer`. What is said of a path goes from the one who tries to the one who
 * listens.
 */
#ifndef TT_CLI_DOCTOR_PORTS_H
#define TT_CLI_DOCTOR_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/settings.h"
#include "cli/doctor_paths.h"
#include "fabric/udp/interface.h"
#include "tutti/status.h"

#define TT_DOCTOR_KNOCK_NS (3 * TT_NS_PER_S) /* for all ports of a host together; one SYN may be lost */

struct tt_doctor_ports {
    uint16_t port[TT_DOCTOR_PORTS]; /* 0: there is none */
    int fd[TT_DOCTOR_PORTS];        /* -1: closed */
};

/* Listens at up to three of TUTTI_PORTS, at the interface's address. Errors: IN_USE if none is free, NO_RESOURCE, IO.
 */
tutti_status tt_doctor_ports_open(struct tt_doctor_ports *ports, const struct tt_settings *settings,
                                  const struct tt_interface *interface);
void tt_doctor_ports_close(struct tt_doctor_ports *ports);

/* Takes connections whose first word is the key, until `until_fd` is readable or the deadline has passed. */
void tt_doctor_ports_serve(const struct tt_doctor_ports *ports, uint32_t key, int until_fd, uint64_t deadline_ns);

/* Tries the other's ports from the interface's address, all at once. */
void tt_doctor_ports_try(const uint16_t port[TT_DOCTOR_PORTS], const struct tt_interface *interface,
                         uint32_t address_be, uint32_t key, uint8_t knocks[TT_DOCTOR_PORTS]);

/* Whether a UDP port that somebody has open is said to be closed, or nothing is said: REFUSED, REJECTED or SILENT. */
enum tt_knock tt_doctor_knock_udp(const struct tt_interface *interface, uint32_t address_be, uint16_t port);

#endif
