#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest, with three devices on a bridge: broadcast and allgather of three ranks, each on a device of its own,
# over multicast of unreliable-datagram queue pairs; without loss and with it, with worker threads, and with a rank that
# is killed. The reliable side is TCP (UCX), or where that makes no difference queue pairs, which are sooner there.
# Staging is smaller than by default but in one check: an emulated processor needs long to register it.
#
#     verbs_collectives.sh CHECKS TUTTI
# shellcheck disable=SC2016 # a rank's number is put in by its own shell
. "$1"
TUTTI=$2

DEVICE='TUTTI_MCAST=verbs TUTTI_DEVICE=rxe$TUTTI_RANK'
TCP="$DEVICE TUTTI_UCX_TLS=tcp TUTTI_RECEIVE_BUFFER=1M"
BOTH="$DEVICE TUTTI_RECEIVE_BUFFER=1M"

all_is_right() {
    [ "$(value wrong)" = 0 ] && says '"mcast_provider": "verbs"' '"multicast": true'
}

devices_are_listed() {
    TUTTI_ENDPOINTS=mpi-everywhere "$TUTTI" info -d >/tmp/out || return 1
    for i in 0 1 2; do
        grep -Eq "^rxe$i +1 +active +RoCE v2 +4096 +1 +::ffff:10.84.8.$((i + 1)) +v$i +software +mpi-everywhere" /tmp/out || return 1
    done
    "$TUTTI" info -d --json >/tmp/out &&
        says '"device": "rxe2", "port": 1, "state": "active", "transport": "RoCE v2", "mtu_bytes": 4096'
}

broadcast_gets_through() {
    ranks "$DEVICE TUTTI_UCX_TLS=tcp" broadcast --algorithm multicast -b 1 -e 1M -f 32 -i 3 -w 1 && all_is_right &&
        [ "$(value chunks_multicast)" -gt 700 ]
}

# The own datagrams that the fabric brings back are told from the others'.
allgather_gets_through() {
    ranks "$TCP" allgather --algorithm multicast -b 1000 -e 250000 -f 250 -i 3 -w 1 && all_is_right &&
        [ "$(value chunks_multicast)" -gt 200 ] && [ "$(value drops_own)" -gt 100 ] && [ "$(value drops_key)" = 0 ]
}

eager_collectives_get_through() {
    ranks "$BOTH" allgather --algorithm eager -b 8 -e 800 -f 100 -i 10 -w 1 && all_is_right
}

workers_and_subgroups_get_through() {
    ranks "$BOTH" allgather --algorithm multicast -b 200000 -e 200000 -i 3 -w 1 --workers 2 --subgroups 2 &&
        all_is_right && [ "$(value subgroups)" = 2 ]
}

# That of an allgather is in rc_collectives.sh.
what_the_network_loses_is_repaired() {
    network_loss 3% || return 1
    ranks "$TCP" broadcast --algorithm multicast -b 1M -e 1M -i 3 -w 0 && all_is_right &&
        [ "$(value chunks_repaired)" -gt 0 ]
    result=$?
    network_loss 0
    return $result
}

# One group for both subgroups, and no join through librdmacm; then a GID that is none.
a_given_group_serves() {
    ranks "$BOTH TUTTI_MGID=::ffff:239.84.9.1" allgather --algorithm multicast -b 50000 -e 50000 -i 4 -w 0 \
        --workers 2 --subgroups 2 && all_is_right && [ "$(value chunks_multicast)" -gt 100 ] || return 1
    RANKS=1 ranks "$BOTH TUTTI_MGID=fe80::1" broadcast -b 64 -e 64 -i 1 -w 0 && return 1
    says 'TUTTI_MGID=fe80::1: not a multicast GID'
}

wrong_device_is_named() {
    RANKS=1 ranks 'TUTTI_MCAST=verbs TUTTI_DEVICE=rxe7' broadcast -b 64 -e 64 -i 1 -w 0 && return 1
    says 'TUTTI_DEVICE=rxe7: no such RDMA device (there are: rxe0, rxe1, rxe2)'
}

check "devices are listed with what a group would use" devices_are_listed
check "a broadcast gets through" broadcast_gets_through
check "an allgather gets through, own datagrams are told apart" allgather_gets_through
check "eager collectives get through" eager_collectives_get_through
check "workers and subgroups get through" workers_and_subgroups_get_through
check "what the network loses is repaired" what_the_network_loses_is_repaired
check "a given multicast group serves, and what is none is named" a_given_group_serves
check "a wrong device is named" wrong_device_is_named
check "a killed rank is named to the others" killed_rank_is_named_to_the_others "$TCP" multicast
finish
