/* SPDX-License-Identifier: BSD-3-Clause */
/* Bare sockets beside a group take its network. */
#ifndef TT_BENCH_GROUP_ADDRESS_H
#define TT_BENCH_GROUP_ADDRESS_H

#include <netinet/in.h>

#include "tutti/tutti.h"

/* The address of the interface that the group uses. 0, or -1 after a line on standard error, which begins with the
 * program's name. */
int group_address(const tutti_group *group, const char *program, struct in_addr *address);

#endif
