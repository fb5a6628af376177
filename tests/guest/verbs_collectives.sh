#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest, with three devices on a bridge: broadcast and allgather of three ranks, each on a device of its own,
# over multicast of unreliable-datagram queue pairs; without loss and with it, with worker threads, with the provider
# chosen by itself, and with a rank that is killed. Each check prints `ok:` or `failed:`; the last line counts.
#
#     verbs_collectives.sh TUTTI
TUTTI=$1
passed=0 failed=0
export TUTTI_UCX_TLS=tcp

# check NAME COMMAND...: the command's output is shown if it fails.
check() {
    name=$1
    shift
    if "$@" >/tmp/check 2>&1; then
        passed=$((passed + 1))
        echo "ok: $name"
    else
        failed=$((failed + 1))
        echo "failed: $name"
        head -c 4000 /tmp/check
        head -c 4000 /tmp/out
    fi
}

# ranks ENVIRONMENT ARGUMENT...: three ranks of `tutti bench` with this environment, in which \$TUTTI_RANK is the rank;
# what they print is in /tmp/out.
ranks() {
    environment=$1
    shift
    timeout 60 "$TUTTI" run -n 3 -- sh -c "export $environment; exec $TUTTI bench $* --json" >/tmp/out 2>&1
}

# value KEY: the number behind it in every line of /tmp/out, added up; nothing if there is none.
value() {
    sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" /tmp/out | awk '{ sum += $1; lines++ } END { if (lines) print sum }'
}

DEVICE='TUTTI_MCAST=verbs TUTTI_DEVICE=rxe$TUTTI_RANK'

all_is_right() {
    [ "$(value wrong)" = 0 ] && grep -q '"mcast_provider": "verbs"' /tmp/out && grep -q '"multicast": true' /tmp/out
}

devices_are_listed() {
    TUTTI_ENDPOINTS=mpi-everywhere "$TUTTI" info -d >/tmp/out || return 1
    for i in 0 1 2; do
        grep -Eq "^rxe$i +1 +active +RoCE v2 +4096 +1 +::ffff:10.84.8.$((i + 1)) +v$i +software +mpi-everywhere" /tmp/out || return 1
    done
    "$TUTTI" info -d --json | grep -q '"device": "rxe2", "port": 1, "state": "active", "transport": "RoCE v2", "mtu_bytes": 4096'
}

broadcast_gets_through() {
    ranks "$DEVICE" broadcast --algorithm multicast -b 1 -e 1M -f 32 -i 3 -w 1 && all_is_right &&
        [ "$(value chunks_multicast)" -gt 700 ]
}

# The own datagrams that the fabric brings back are told from the others'.
allgather_gets_through() {
    ranks "$DEVICE" allgather --algorithm multicast -b 1000 -e 250000 -f 250 -i 3 -w 1 && all_is_right &&
        [ "$(value chunks_multicast)" -gt 200 ] && [ "$(value drops_own)" -gt 100 ] && [ "$(value drops_key)" = 0 ]
}

eager_collectives_get_through() {
    ranks "$DEVICE" allgather --algorithm eager -b 8 -e 800 -f 100 -i 10 -w 1 && all_is_right
}

workers_and_subgroups_get_through() {
    ranks "$DEVICE" allgather --algorithm multicast -b 200000 -e 200000 -i 3 -w 1 --workers 2 --subgroups 2 &&
        all_is_right && [ "$(value subgroups)" = 2 ]
}

what_the_network_loses_is_repaired() {
    network_loss 3% || return 1
    ranks "$DEVICE" broadcast --algorithm multicast -b 1M -e 1M -i 3 -w 0 && all_is_right &&
        [ "$(value chunks_repaired)" -gt 0 ] &&
        ranks "$DEVICE" allgather --algorithm multicast -b 256K -e 256K -i 3 -w 0 && all_is_right &&
        [ "$(value chunks_repaired)" -gt 0 ]
    result=$?
    network_loss 0
    return $result
}

# Without TUTTI_MCAST and TUTTI_DEVICE: the interface says which device it is.
devices_are_found_by_the_interface() {
    ranks 'TUTTI_INTERFACE=v$TUTTI_RANK' broadcast --algorithm multicast -b 64K -e 64K -i 2 -w 0 && all_is_right
}

# One group for both subgroups, and no join through librdmacm; then a GID that is none.
a_given_group_serves() {
    ranks "$DEVICE TUTTI_MGID=::ffff:239.84.9.1" allgather --algorithm multicast -b 50000 -e 50000 -i 2 -w 0 \
        --workers 2 --subgroups 2 && all_is_right && [ "$(value chunks_multicast)" -gt 100 ] || return 1
    ranks "$DEVICE TUTTI_MGID=fe80::1" broadcast -b 64 -e 64 -i 1 -w 0 && return 1
    grep -q 'TUTTI_MGID=fe80::1: not a multicast GID' /tmp/out
}

wrong_device_is_named() {
    ranks 'TUTTI_MCAST=verbs TUTTI_DEVICE=rxe7' broadcast -b 64 -e 64 -i 1 -w 0 && return 1
    grep -q 'TUTTI_DEVICE=rxe7: no such RDMA device (there are: rxe0, rxe1, rxe2)' /tmp/out
}

# The others are told who is gone; queue pairs and memberships go with the processes, which run_suite.py compares.
killed_rank_is_named_to_the_others() {
    ranks "$DEVICE TUTTI_TIMEOUT=30s" broadcast --algorithm multicast -b 2M -e 2M -i 1000 -w 0 &
    job=$!
    sleep 4
    victim=$(for process in /proc/[0-9]*; do
        tr '\0' '\n' <"$process/environ" 2>/dev/null | grep -qx TUTTI_DEVICE=rxe2 && echo "${process#/proc/}"
    done | head -n 1)
    [ -n "$victim" ] || return 1
    begun=$(cut -d. -f1 /proc/uptime)
    kill -9 "$victim"
    wait $job
    status=$?
    took=$(($(cut -d. -f1 /proc/uptime) - begun))
    echo "status $status after $took s"
    [ "$status" -ne 0 ] && [ "$took" -le 5 ] && grep -q 'rank 2' /tmp/out
}

check "devices are listed with what a group would use" devices_are_listed
check "a broadcast gets through" broadcast_gets_through
check "an allgather gets through, own datagrams are told apart" allgather_gets_through
check "eager collectives get through" eager_collectives_get_through
check "workers and subgroups get through" workers_and_subgroups_get_through
check "what the network loses is repaired" what_the_network_loses_is_repaired
check "devices are found by the interface" devices_are_found_by_the_interface
check "a given multicast group serves, and what is none is named" a_given_group_serves
check "a wrong device is named" wrong_device_is_named
check "a killed rank is named to the others" killed_rank_is_named_to_the_others

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
