#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# The first process of the guest: mounts, loads the modules, makes the RDMA devices, runs the command, says its status.
# What it prints itself goes to the console, which is shown where the guest fails; a step that fails ends the guest.
# shellcheck disable=SC3045,SC1091,SC2154 # Debian's sh has these limits; settings.sh is made for each boot
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/busybox
export PATH HOME=/root TERM=dumb LC_ALL=C.UTF-8
/opt/busybox/busybox --install -s /opt/busybox

end() {
    echo "guest: ends with status $1"
    echo "status $1" >&9
    sleep 600 # the host ends the guest when it has everything; a poweroff would discard what qemu holds
    poweroff -f
}
fail() {
    echo "guest: $*"
    exec 9>&-
    poweroff -f
}
try() { "$@" || fail "failed with status $?: $*"; }

# wait_for WHAT COMMAND...: until the command succeeds, up to a minute (an emulated processor may be starved).
wait_for() {
    what=$1 tries=0
    shift
    until "$@"; do
        tries=$((tries + 1))
        [ $tries -lt 600 ] || fail "waited in vain for $what"
        sleep 0.1
    done
}

make_files() {
    try mount -t proc proc /proc
    try mount -t sysfs sys /sys
    try mount -t devtmpfs dev /dev
    mkdir -p /dev/pts /dev/shm
    try mount -t devpts devpts /dev/pts
    try mount -t tmpfs -o mode=1777 shm /dev/shm
    ln -s /proc/self/fd /dev/fd
    ln -s /proc/self/fd/0 /dev/stdin
    ln -s /proc/self/fd/1 /dev/stdout
    ln -s /proc/self/fd/2 /dev/stderr
    hostname guest
    ulimit -l unlimited
    ulimit -c 0
}

# The kernel learns the names of the channels a moment after the device.
find_channels() {
    for port in /sys/class/virtio-ports/*; do
        name=$(cat "$port/name" 2>/dev/null)
        [ -z "$name" ] || ln -sf "/dev/${port##*/}" "/guest/$name"
    done
    [ -e /guest/control ] && [ -e /guest/stdout ] && [ -e /guest/stderr ]
}

# Interfaces answer for their own address only: they share one network namespace, and a neighbour table that maps all
# addresses to one interface stalls connections for seconds. RDMA takes its MTU of 4096 from 4200 at creation.
make_network() {
    for setting in arp_ignore=1 arp_announce=2 rp_filter=0 accept_local=1; do
        for scope in all default; do
            echo "${setting#*=}" >"/proc/sys/net/ipv4/conf/$scope/${setting%=*}"
        done
    done
    echo 0 >/proc/sys/net/ipv6/conf/default/accept_dad # no address is tentative
    echo "67108864" >/proc/sys/net/core/rmem_max
    echo "67108864" >/proc/sys/net/core/wmem_max
    try ip link set lo up
    if [ "$devices" = 1 ]; then
        try ip link add v0 mtu 4200 type dummy
    else
        try ip link add br0 mtu 4200 type bridge mcast_snooping 0 stp_state 0 forward_delay 0
        try ip link set br0 up
        for i in $(seq 0 $((devices - 1))); do
            try ip link add "p$i" mtu 4200 type veth peer name "v$i" mtu 4200
            try ip link set "p$i" master br0 up
        done
    fi
    for i in $(seq 0 $((devices - 1))); do
        try ip addr add "10.84.8.$((i + 1))/24" dev "v$i"
        try ip link set "v$i" up multicast on
        try rdma link add "rxe$i" type rxe netdev "v$i"
    done
    try ip route add 224.0.0.0/4 dev v0
    for i in $(seq 0 $((devices - 1))); do
        wait_for "the IPv4 address of rxe$i in its table" \
            grep -q "ffff:0a54:080$((i + 1))" "/sys/class/infiniband/rxe$i/ports/1/gids/1"
        wait_for "rxe$i to be active" grep -q ACTIVE "/sys/class/infiniband/rxe$i/ports/1/state"
    done
    [ "$devices" = 1 ] || wait_for "the bridge's ports" ports_forward
}

ports_forward() {
    for port in /sys/class/net/br0/brif/*; do
        [ "$(cat "$port/state")" = 3 ] || return 1
    done
}

# The command's output goes through pipes, which can be opened again (/dev/stderr), as the channels cannot. The host
# knows that it has all of a channel by the mark.
run_command() {
    mkfifo /run/stdout /run/stderr
    exec 7>/guest/stdout 8>/guest/stderr
    cat /run/stdout >&7 &
    copiers=$!
    cat /run/stderr >&8 &
    copiers="$copiers $!"
    sh /guest/command.sh </dev/null >/run/stdout 2>/run/stderr 7>&- 8>&- 9>&-
    status=$?
    # What it left running may hold the pipes open; it has had its time.
    # shellcheck disable=SC2086 # two numbers
    { sleep 3; kill $copiers; } 2>/dev/null &
    for copier in $copiers; do wait "$copier"; done
    printf %s "$end_mark" >&7
    printf %s "$end_mark" >&8
}

make_files
for module in /guest/modules/*; do
    try insmod "$module"
done
wait_for "the channels" find_channels
exec 9>/guest/control
. /guest/settings.sh
make_network
[ -z "$loss" ] || try network_loss "$loss"
echo booted >&9
run_command
end "$status"
