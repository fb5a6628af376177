/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti doctor --peer` looks for the host that listens. */
#ifndef TT_CLI_DOCTOR_GUEST_H
#define TT_CLI_DOCTOR_GUEST_H

#include <stdint.h>

#include "cli/doctor_checks.h"

/* Returns the connection to the host that listens, once that has welcomed this one, and its address in *there_be; or
 * -1. With a finding for each address of its name that was tried and is not where it listens, which says what to do;
 * that another one is tried is said on stderr. */
int tt_doctor_guest_call(const char *peer, uint16_t port, struct tt_findings *findings, uint32_t *there_be);

#endif
