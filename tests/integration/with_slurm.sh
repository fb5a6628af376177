#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# with_slurm.sh DIRECTORY COMMAND...: runs the command beside a Slurm of one node, in namespaces of its own, so that
# nothing of it is seen from outside or stays. DIRECTORY is empty and gets its files. Exit status: that of the command;
# 77 if Slurm did not come up.
set -euo pipefail
directory=$(readlink -f "$1")
shift
if [ "${WITH_SLURM_INSIDE:-}" != yes ]; then
    WITH_SLURM_INSIDE=yes exec unshare --net --uts --mount --pid --fork --mount-proc --kill-child \
        "$0" "$directory" "$@"
fi
cd "$directory"
mkdir spool state tmp
# Slurm wants an address that is not loopback's, and a name for it.
ip link set lo up
ip link add node0 type veth peer name node1
ip link set node0 up
ip link set node1 up
ip addr add 10.255.7.1/24 dev node0
hostname node
printf '127.0.0.1 localhost\n10.255.7.1 node\n' >hosts
mount --bind hosts /etc/hosts
cat >slurm.conf <<END
ClusterName=alone
SlurmctldHost=node(10.255.7.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CryptoType=crypto/munge
AuthInfo=socket=$directory/munge.socket
StateSaveLocation=$directory/state
SlurmdSpoolDir=$directory/spool
TmpFS=$directory/tmp
SlurmctldPidFile=$directory/slurmctld.pid
SlurmdPidFile=$directory/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
NodeName=node NodeAddr=10.255.7.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=node Default=YES State=UP
END
export SLURM_CONF=$directory/slurm.conf
head -c 128 /dev/urandom >munge.key
chmod 400 munge.key
munged --foreground --force --key-file="$directory/munge.key" --socket="$directory/munge.socket" \
    --pid-file="$directory/munge.pid" --log-file="$directory/munge.log" --seed-file="$directory/munge.seed" \
    >munged.out 2>&1 &
for _ in {1..100}; do
    [ ! -S munge.socket ] || break
    sleep 0.1
done
slurmctld -D >slurmctld.out 2>&1 &
slurmd -D -N node >slurmd.out 2>&1 &
# The namespace's first process takes all others with it when it ends.
for _ in {1..100}; do
    if sinfo -h -o %T 2>/dev/null | grep -q idle; then
        status=0
        "$@" || status=$?
        exit "$status"
    fi
    sleep 0.1
done
tail -n 3 munged.out slurmctld.out slurmd.out >&2
exit 77
