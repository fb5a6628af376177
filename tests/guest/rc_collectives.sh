#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest, with three devices on a bridge: collectives of three ranks, each on a device of its own, whose
# reliable side is reliable connected queue pairs; alone, as the repair of multicast that loses, chosen by itself, and
# with a rank that is killed.
#
#     rc_collectives.sh CHECKS TUTTI
# shellcheck disable=SC2016 # a rank's number is put in by its own shell
. "$1"
TUTTI=$2

RELIABLE='TUTTI_MCAST=udp TUTTI_P2P=verbs TUTTI_DEVICE=rxe$TUTTI_RANK'
BOTH='TUTTI_MCAST=verbs TUTTI_RECEIVE_BUFFER=1M TUTTI_DEVICE=rxe$TUTTI_RANK'

all_is_right() {
    [ "$(value wrong)" = 0 ] && says '"p2p_provider": "verbs"'
}

ring_and_chain_get_through() {
    ranks "$RELIABLE" allgather --algorithm ring -b 1 -e 256K -f 64 -i 3 -w 1 && all_is_right &&
        ranks "$RELIABLE" broadcast --algorithm chain -b 1 -e 1M -f 64 -i 3 -w 1 && all_is_right
}

pipeline_gets_through() {
    ranks "$RELIABLE" broadcast --algorithm binomial-pipeline -b 1 -e 1M -f 1024 -i 3 -w 1 && all_is_right
}

tree_gets_through() {
    ranks "$RELIABLE" broadcast --algorithm tree -b 1 -e 64 -f 8 -i 20 -w 1 && all_is_right
}

reads_repair_what_multicast_loses() {
    network_loss 2% || return 1
    ranks "$BOTH" allgather --algorithm multicast -b 256K -e 256K -i 3 -w 0 && all_is_right &&
        says '"mcast_provider": "verbs"' && [ "$(value chunks_repaired)" -gt 0 ]
    result=$?
    network_loss 0
    return $result
}

# Neither TUTTI_P2P nor TUTTI_MCAST is set, and no device: the interface says which device it is, and soft-RoCE is taken.
providers_are_found_by_the_interface() {
    ranks 'TUTTI_INTERFACE=v$TUTTI_RANK' allgather --algorithm multicast -b 4K -e 64K -f 16 -i 2 -w 0 && all_is_right &&
        says '"mcast_provider": "verbs"' '"multicast": true'
}

different_wishes_are_told() {
    ranks "$BOTH; [ \$TUTTI_RANK -ne 1 ] || export TUTTI_P2P=ucx" broadcast -b 64 -e 64 -i 1 -w 0 && return 1
    says 'TUTTI_P2P (or TUTTI_UCX_TLS) is ' ' on rank'
}

check "ring and chain get through" ring_and_chain_get_through
check "a pipeline of puts gets through" pipeline_gets_through
check "a tree gets through" tree_gets_through
check "reads repair what multicast loses" reads_repair_what_multicast_loses
check "providers are found by the interface" providers_are_found_by_the_interface
check "different wishes are told" different_wishes_are_told
# Over the chain one of the others moves no data over that connection.
check "a killed rank is named, over the chain" killed_rank_is_named_to_the_others "$RELIABLE" chain
check "a killed rank is named, over multicast" killed_rank_is_named_to_the_others "$BOTH" multicast
finish
