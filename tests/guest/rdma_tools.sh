#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest, with three devices: that its RDMA stack does what tutti's tests there rest on, shown with the tools
# of rdma-core and without tutti.
#
#     rdma_tools.sh CHECKS
. "$1"

PINGPONG_PORT=18515 # of TCP, by which the two find each other

devices_are_active_with_their_mtu_and_address() {
    [ "$(ibv_devices | grep -c rxe)" = 3 ] || return 1
    for i in 0 1 2; do
        ibv_devinfo -v -d "rxe$i" >/tmp/info || return 1
        cat /tmp/info
        grep -q 'PORT_ACTIVE' /tmp/info || return 1
        grep -q 'active_mtu:.*4096' /tmp/info || return 1
        grep -q "GID\[ *1\]:.*10.84.8.$((i + 1))" /tmp/info || return 1
    done
}

# ping_pong: rxe0 and rxe1, which both compare every byte (-c); $server and $client are their statuses.
ping_pong() {
    timeout 30 ibv_rc_pingpong -d rxe0 -g 1 -n 50 -s 20000 -m 4096 -c >/tmp/server 2>&1 &
    wait_until listens $PINGPONG_PORT
    timeout 30 ibv_rc_pingpong -d rxe1 -g 1 -n 50 -s 20000 -m 4096 -c localhost
    client=$?
    wait $!
    server=$?
    cat /tmp/server
}
reliable_connection_carries_messages_between_devices() {
    ping_pong
    [ "$client $server" = "0 0" ]
}

# Both devices' count of responses and requests that came out of sequence, or not in time.
repeats() {
    cat /sys/class/infiniband/rxe[01]/ports/1/hw_counters/out_of_seq_request \
        /sys/class/infiniband/rxe[01]/ports/1/hw_counters/completer_retry_err \
        /sys/class/infiniband/rxe[01]/ports/1/hw_counters/rcvd_seq_err \
        /sys/class/infiniband/rxe[01]/ports/1/hw_counters/duplicate_request | awk '{ sum += $1 } END { print sum }'
}

# Who has seen the end leaves; if its last acknowledgement is lost, the other one repeats in vain and fails. But each
# message is an answer to the one before, so one that has all proves that all came through.
reliable_connection_repeats_what_the_network_loses() {
    before=$(repeats)
    network_loss 5%
    ping_pong
    network_loss 0
    after=$(repeats)
    echo "repeats: $before before, $after after"
    { [ $client = 0 ] || [ $server = 0 ]; } && [ "$after" -gt "$before" ]
}

datagrams_reach_another_device() {
    timeout 20 ibv_ud_pingpong -d rxe1 -g 1 -n 50 -s 2048 >/tmp/server 2>&1 &
    server=$!
    wait_until listens $PINGPONG_PORT
    timeout 20 ibv_ud_pingpong -d rxe2 -g 1 -n 50 -s 2048 localhost && wait $server && cat /tmp/server
}

# Of interfaces v1 and v2.
both_have_joined() {
    [ "$(grep -c '^[[:space:]]*0108 *54EF' /proc/net/igmp)" = 2 ]
}

# multicast: rxe0 sends 20 datagrams, for which rxe1 and rxe2 wait, in the processes $receivers. mckey itself waits for
# three seconds before it sends.
multicast() {
    receivers=
    for i in 2 3; do
        timeout 40 mckey -m 239.84.8.1 -b "10.84.8.$i" -C 20 -S 1024 >"/tmp/receiver.$i" 2>&1 &
        receivers="$receivers $!"
    done
    wait_until both_have_joined && timeout 20 mckey -s -m 239.84.8.1 -b 10.84.8.1 -C 20 -S 1024
}
multicast_reaches_every_device_that_joined() {
    multicast || return 1
    for receiver in $receivers; do
        wait "$receiver" || return 1
    done
}
multicast_does_not_arrive_where_the_network_loses_all() {
    network_loss 100%
    multicast
    status=$?
    network_loss 0
    sleep 1 # an end would take less
    cat /tmp/receiver.*
    for receiver in $receivers; do
        kill "$receiver" || status=1 # it has ended, so it has received
        wait "$receiver"
    done
    return $status
}

for name in devices_are_active_with_their_mtu_and_address reliable_connection_carries_messages_between_devices \
    reliable_connection_repeats_what_the_network_loses datagrams_reach_another_device \
    multicast_reaches_every_device_that_joined multicast_does_not_arrive_where_the_network_loses_all; do
    check $name $name
done
finish
