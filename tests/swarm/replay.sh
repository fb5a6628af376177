#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs seeds twice, each time in a process of its own, and passes only if the logs of all events are the same to the
# byte. Then once more twice in one process, which compares what it counted and the digest of all events.
set -u
swarm=$1
seeds=$2
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
failed=0
for run in 1 2; do
    "$swarm" --seeds "$seeds" --log "$directory/log$run" >"$directory/output$run" 2>&1 || failed=1
done
if [ "$failed" -ne 0 ] || [ ! -s "$directory/log1" ] || ! cmp "$directory/log1" "$directory/log2"; then
    tail -n 20 "$directory/output1" "$directory/output2"
    echo "0 passed, 1 failed"
    exit 1
fi
if ! "$swarm" --seeds "$seeds" --twice >"$directory/output" 2>&1; then
    tail -n 20 "$directory/output"
    echo "0 passed, 1 failed"
    exit 1
fi
echo "$(wc -l <"$directory/log1") events of $seeds seeds were the same"
echo "1 passed, 0 failed"
