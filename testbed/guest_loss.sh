#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# In the guest: network_loss PERCENT makes every receiver lose this share of what comes, independently of the others,
# from now on; 0 ends that. network_loss 2% delay 2ms reorder 25%: what follows are further words for netem.
#
# With one device only what is multicast goes through the network, and all its receivers lose the same.
usage="usage: network_loss PERCENT [NETEM WORDS...]"
percent=${1%\%}
shift
case $percent in
'' | *[!0-9.]*) echo "$usage" >&2 && exit 2 ;;
esac
for device in /sys/class/net/p* /sys/class/net/v0; do
    device=${device##*/}
    case $device in
    v0) [ ! -e /sys/class/net/br0 ] || continue ;;
    p\*) continue ;;
    esac
    tc qdisc del dev "$device" root 2>/dev/null
    if [ "$percent" != 0 ] || [ $# -gt 0 ]; then
        tc qdisc add dev "$device" root netem limit 10000 loss "$percent%" "$@" || exit 1
    fi
done
