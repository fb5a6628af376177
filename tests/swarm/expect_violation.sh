#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Runs a program that was built with a fault, and passes only if it says that it saw a violation: it ends with
# status 1 and a closing line that counts at least one failure. A crash, a timeout or a run that saw nothing fails.
# An argument `@` is the first seed: it is run with 1, 21, 41, ... 181 in its place until one run sees a violation.
set -u
for first in $(seq 1 20 181); do
    output=$("${@/#@/$first}" 2>&1)
    status=$?
    closing=$(grep -E '^[0-9]+ passed, [0-9]+ failed' <<<"$output" | tail -n 1)
    failed=$(sed -E 's/.*, ([0-9]+) failed.*/\1/' <<<"$closing")
    if [ "$status" -eq 1 ] && [ "${failed:-0}" -gt 0 ]; then
        echo "the fault was seen: $closing"
        echo "1 passed, 0 failed, 0 skipped"
        exit 0
    fi
    [ "$status" -eq 0 ] && [[ " $* " == *" @ "* ]] || break
done
tail -n 20 <<<"$output"
echo "expected a violation and exit status 1, got status $status and the closing line '${closing}': $*"
echo "0 passed, 1 failed, 0 skipped"
exit 1
