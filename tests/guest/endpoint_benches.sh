#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Runs in the guest: the benchmarks of endpoints on a real driver. Every row must be there with right results, what the
# driver lacks must have been made do with, and what was made must be what `tutti plan endpoints` says of it.
#
#     endpoint_benches.sh CHECKS TUTTI
. "$1"
TUTTI=$2

# bench ROWS ARGUMENT...: so many rows without a wrong result, in /tmp/out.
bench() {
    rows=$1
    shift
    timeout 60 "$TUTTI" bench "$@" --json >/tmp/out 2>&1 || return 1
    awk -v rows="$rows" '/"wrong": 0,/ { right++ } END { exit NR != rows || right != rows }' /tmp/out
}

# values KEY [FILE]: of every row, in one line.
values() {
    awk -v key="\"$1\": " '{ n = split($0, part, key)
        if (n > 1) { text = part[n]; sub(/^"/, "", text); sub(/[,"}].*/, "", text); printf "%s ", text } }' "${2:-/tmp/out}"
}

# resources FILE: what each row says that it takes from the NIC.
resources() {
    sed -n 's/.*\("contexts": .*"bytes": [0-9]*\).*/\1/p' "$1"
}

RXE='mpi-everywhere static static static static mpi+threads '

all_categories_write() {
    bench 6 msgrate --threads 4 --messages 100 && [ "$(values effective_category)" = "$RXE" ] &&
        [ "$(values messages)" = "400 400 400 400 400 400 " ] && [ "$(values device)" != "" ]
}

# Of the rows of the check before.
resources_are_those_of_the_plan() {
    "$TUTTI" plan endpoints --threads 4 --json | sed -n '1p; 5 { p; p; p; p; }; 6p' >/tmp/plan
    [ "$(values category /tmp/plan)" = "$RXE" ] || return 1
    resources /tmp/plan >/tmp/planned
    resources /tmp/out >/tmp/made
    [ "$(wc -l </tmp/planned)" = 6 ] && diff /tmp/planned /tmp/made
}

features_can_be_left_out() {
    bench 1 msgrate -t 2 -n 50 -c static --postlist 1 --unsignalled 1 --inline --size 64 &&
        bench 1 msgrate -t 2 -n 50 -c mpi+threads --postlist 16 --unsignalled 1 --size 4K --device rxe2
}

# share OBJECT KEY COUNT: so many there are of it if both of two threads use one.
share() {
    bench 1 msgrate --threads 2 --messages 70 --share "$1" --ways 2 && [ "$(values "$2")" = "$3 " ]
}

objects_are_shared() {
    share buf contexts 2 && share ctx contexts 1 && share pd protection_domains 1 && share mr memory_regions 1 &&
        share cq completion_queues 1 && share qp queue_pairs 1
}

a_time_can_be_given() {
    bench 1 msgrate -t 2 -c static --seconds 1 && [ "$(values messages)" -ge 256 ]
}

matrices_are_multiplied() {
    bench 6 globalarray --threads 4 --order 64 --tile 16 && [ "$(values effective_category)" = "$RXE" ] &&
        [ "$(values memory_regions)" = "12 12 12 12 12 12 " ] && [ "$(values messages)" = "144 144 144 144 144 144 " ]
}

stencils_are_computed() {
    bench 12 stencil --threads 2 --grid 32 --iterations 3 &&
        [ "$(values ranks)" = "2 2 2 2 2 2 1 1 1 1 1 1 " ] &&
        [ "$(values queue_pairs)" = "4 4 4 4 4 4 4 4 4 4 4 2 " ] && bench 1 stencil -t 4 -r 2 -c mpi+threads -n 32 --iterations 3
}

a_device_that_is_not_there_is_named() {
    "$TUTTI" bench msgrate --device rxe9 >/tmp/out 2>&1
    [ $? = 1 ] && grep -q 'rxe9: no such RDMA device (there are: rxe0, rxe1, rxe2)' /tmp/out
}

check "all categories write, and what is missing is made do with" all_categories_write
check "what they take is what is planned" resources_are_those_of_the_plan
check "lists, unsignalled and inline writes can be chosen" features_can_be_left_out
check "each object can be shared by threads" objects_are_shared
check "a time instead of a number" a_time_can_be_given
check "matrices elsewhere are multiplied" matrices_are_multiplied
check "stencils over ranks and threads are computed" stencils_are_computed
check "a device that is not there is named" a_device_that_is_not_there_is_named
finish
