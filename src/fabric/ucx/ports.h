/* SPDX-License-Identifier: BSD-3-Clause */
/* The RDMA ports behind a network interface. */
#ifndef TT_FABRIC_UCX_PORTS_H
#define TT_FABRIC_UCX_PORTS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The InfiniBand or RoCE ports behind an Ethernet or IPoIB interface, as UCX calls them, with commas between them
 * ("mlx5_0:1,mlx5_1:1"). Of an interface that is made of others (a bond, a VLAN, a bridge) those of these. `net` is
 * where the kernel describes interfaces: /sys/class/net. False: there are none, or not all names fit in; then the text
 * is empty.
 */
bool tt_ucx_find_ports(const char *net, const char *interface, char *text, size_t text_bytes);

#endif
