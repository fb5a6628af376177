#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A violation is found in the same schedule every time, and the command that is printed with it repeats it: replay.sh
# PROGRAM SCENARIO, with a program that was built with a fault which the scenario shows.
set -u
passed=0
failed=0

check() {
    local name=$1
    shift
    if "$@"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        echo "failed: $name"
    fi
}

first=$("$1" --test "$2" 2>&1)
check "a violation is found in the same schedule every time" [ "$("$1" --test "$2" 2>&1)" = "$first" ]
read -ra command <<<"$(sed -n 's/^replay: //p' <<<"$first")"
violation=$(sed -n "s/^$2: schedule .* preemptions: //p" <<<"$first")
check "the violation and its schedule are printed" [ -n "$violation" -a "${#command[@]}" -eq 5 ]
replayed=$("${command[@]}" 2>&1)
check "the replay ends with status 1" [ $? -eq 1 ]
check "the replay ends in the same violation" grep -qxF "$2: $violation" <<<"$replayed"
check "the replay prints its steps" grep -qE '^ +1 +[0-9]+ ' <<<"$replayed"
[ "$failed" -eq 0 ] || printf '%s\n%s\n' "$first" "$replayed"
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
