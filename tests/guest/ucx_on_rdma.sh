#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: ucx_on_rdma.sh PROGRAM ARGUMENTS... is the program with its UCX on reliable connections of rxe0, not
# on TCP. UCX 1.13 finds connections by datagrams, whose family of addresses it takes from a field that this driver
# leaves empty, so that it drops all that come by IPv4 without a word: hence GID 0, the IPv6 address. Queues and pools
# are small, because an emulated processor needs long to register memory.
export UCX_TLS=rc_v,ud_v,self UCX_NET_DEVICES=rxe0:1 UCX_IB_GID_INDEX=0 UCX_UD_TIMEOUT=10s
export UCX_RC_VERBS_RX_QUEUE_LEN=64 UCX_UD_VERBS_RX_QUEUE_LEN=64
export UCX_RC_VERBS_TX_BUFS_GROW=64 UCX_UD_VERBS_TX_BUFS_GROW=64 UCX_RC_VERBS_RX_BUFS_GROW=64 UCX_UD_VERBS_RX_BUFS_GROW=64
export UCX_WARN_UNUSED_ENV_VARS=n
exec "$@"
