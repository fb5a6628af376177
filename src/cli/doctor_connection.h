/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection by which two hosts of `tutti doctor --listen` and `--peer` meet. */
#ifndef TT_CLI_DOCTOR_CONNECTION_H
#define TT_CLI_DOCTOR_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/doctor_hello.h"

/* Without delay from now on. */
void tt_doctor_hurry(int fd);

/* Sends the first bytes. */
void tt_doctor_say(int fd, enum tt_doctor_hello hello);

/* Waits for events of poll(2); false: the deadline has passed. */
bool tt_doctor_wait(int fd, short events, uint64_t deadline_ns);

/* All of so many bytes. False with errno: 0, the other has hung up; ETIMEDOUT; or the system's. */
bool tt_doctor_receive(int fd, void *bytes, size_t length_bytes, uint64_t deadline_ns);

#endif
