#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest, with three devices on a bridge: collectives of three ranks, each on a device of its own, whose
# reliable side is reliable connected queue pairs; alone, as the repair of multicast that loses, chosen by itself, and
# with a rank that is killed. Each check prints `ok:` or `failed:`; the last line counts.
#
#     rc_collectives.sh TUTTI
TUTTI=$1
passed=0 failed=0

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

RELIABLE='TUTTI_MCAST=udp TUTTI_P2P=verbs TUTTI_DEVICE=rxe$TUTTI_RANK'
BOTH='TUTTI_MCAST=verbs TUTTI_DEVICE=rxe$TUTTI_RANK'

all_is_right() {
    [ "$(value wrong)" = 0 ] && grep -q '"p2p_provider": "verbs"' /tmp/out
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
        grep -q '"mcast_provider": "verbs"' /tmp/out && [ "$(value chunks_repaired)" -gt 0 ]
    result=$?
    network_loss 0
    return $result
}

# Neither TUTTI_P2P nor TUTTI_MCAST is set, and no device.
providers_are_found_by_the_interface() {
    ranks 'TUTTI_INTERFACE=v$TUTTI_RANK' allgather --algorithm ring -b 4K -e 4K -i 3 -w 0 && all_is_right
}

different_wishes_are_told() {
    ranks "$BOTH; [ \$TUTTI_RANK -ne 1 ] || export TUTTI_P2P=ucx" broadcast -b 64 -e 64 -i 1 -w 0 && return 1
    grep -q 'TUTTI_P2P (or TUTTI_UCX_TLS) is .* on rank' /tmp/out
}

# The others are told who is gone, in time, though one of them moves no data over that connection.
killed_rank_is_named_to_the_others() {
    ranks "$1 TUTTI_TIMEOUT=30s" broadcast --algorithm "$2" -b 2M -e 2M -i 1000 -w 0 &
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

check "ring and chain get through" ring_and_chain_get_through
check "a pipeline of puts gets through" pipeline_gets_through
check "a tree gets through" tree_gets_through
check "reads repair what multicast loses" reads_repair_what_multicast_loses
check "providers are found by the interface" providers_are_found_by_the_interface
check "different wishes are told" different_wishes_are_told
check "a killed rank is named, over the chain" killed_rank_is_named_to_the_others "$RELIABLE" chain
check "a killed rank is named, over multicast" killed_rank_is_named_to_the_others "$BOTH" multicast

echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
