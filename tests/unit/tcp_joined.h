/* SPDX-License-Identifier: BSD-3-Clause */
/* Two connections of an instance of the tcp provider to the test: what breaks one must leave the other alone. */
#ifndef TT_TESTS_TCP_JOINED_H
#define TT_TESTS_TCP_JOINED_H

#include "tcp_raw.h"

extern int frames, other; /* sockets of the connection in question, which has an owner, and of one beside it */

int join_both(void **state); /* a setup; the test dials */

void expect_going_on(int fd);
/* The connection in question is down, and says so with these words; the other one goes on. */
void expect_broken(const char *part);

/* A get of the instance's, and the id that it asks with. */
void get(uint8_t *to, uint64_t length_bytes);
uint64_t take_read(uint64_t length_bytes);

#endif
