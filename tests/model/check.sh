#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Has Spin look at all orders in which things may happen in triggered.pml: with each of these sizes there must be no
# fault, and with each of these rules taken away there must be one. `check.sh MODEL`; without Spin it is skipped.
set -u
model=$(readlink -f "$1")
compiler=${CC:-cc}
if ! command -v spin >/dev/null || ! command -v "$compiler" >/dev/null; then
    echo "skipped: spin is not installed"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
cd "$directory" || exit 1
passed=0
failed=0

# Prints what the search says; fails if it did not come to its end. The search takes a second: compiling it better takes
# longer.
search() {
    rm -f pan pan.* ./*.trail
    # shellcheck disable=SC2086 # a list of definitions
    spin $1 -a "$model" && "$compiler" -O0 -w -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m10000 -w20
}

# expect ERRORS DEFINITIONS
expect() {
    local output
    if output=$(search "$2" 2>&1) && grep -Eq "errors: $1\b" <<<"$output" && ! grep -q "not completed" <<<"$output"; then
        passed=$((passed + 1))
        echo "passed: $2: $(grep -E 'states, stored' <<<"$output" | xargs)"
    elif [ "$1" -eq 1 ] && grep -Eq "errors: 1\b" <<<"$output"; then
        passed=$((passed + 1))
        echo "passed: $2: $(grep -E '^pan:1' <<<"$output")"
    else
        failed=$((failed + 1))
        echo "failed: $2, expected $1 errors"
        tail -n 20 <<<"$output"
    fi
}

for room in 0 1 2; do
    expect 0 "-DRANKS=3 -DJOBS=1 -DSTEPS=2 -DTIMES=2 -DROOM=$room"
done
for room in 0 1; do
    expect 0 "-DRANKS=2 -DJOBS=2 -DSTEPS=2 -DTIMES=2 -DROOM=$room"
    expect 0 "-DRANKS=3 -DJOBS=2 -DSTEPS=2 -DTIMES=1 -DROOM=$room"
done
for room in 0 1; do
    expect 0 "-DRANKS=3 -DJOBS=1 -DSTEPS=2 -DTIMES=2 -DROOM=$room -DREMOTE"
    expect 0 "-DRANKS=2 -DJOBS=2 -DSTEPS=2 -DTIMES=2 -DROOM=$room -DREMOTE"
done
expect 1 "-DJOBS=1 -DROOM=0 -DREMOTE -DEARLY_ACCEPT"
expect 1 "-DJOBS=1 -DROOM=1 -DREMOTE -DTWO_FIRST"
expect 1 "-DJOBS=1 -DROOM=0 -DNO_OWN_PLACE"
expect 1 "-DJOBS=1 -DROOM=0 -DOVERWRITES"
expect 1 "-DJOBS=1 -DROOM=0 -DTWO_FIRST"
expect 1 "-DJOBS=1 -DROOM=2 -DSAME_KEY"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
