#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Strict sums have the same bits wherever their ranks are, and by whatever algorithm.

    testbed_strict.py PROGRAM STRICT_SUM
"""
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import equal, main, tutti
from testbed_support import network, testbed

STRICT_SUM = sys.argv[2]
RANKS = 12
SUMS = 12  # of two types, and six counts
PRINTED = 2 * (3 * 5 + 4 + 2 * 3)  # by each of them: three counts by five algorithms, one by four, two by three


def sums(result, where):
    """What all ranks have printed, each once."""
    equal(result.returncode, 0, f"exit status {where}, with {result.stderr!r}")
    lines = re.findall(r"(?:fp32|bf16) \d+ [0-9a-f]{16}$", result.stdout + result.stderr, re.MULTILINE)
    equal(len(lines), RANKS * PRINTED, f"sums printed {where}")
    return sorted(set(lines))


def sums_have_the_same_bits_on_any_number_of_hosts_by_any_algorithm():
    expected = sums(tutti("run", "-n", RANKS, "--", STRICT_SUM, TUTTI_DETERMINISTIC="strict"), "on one host")
    equal(len(expected), SUMS, "different sums")
    for hosts in (2, 3, 5, 12):
        with network("--hosts", hosts) as name:
            result = testbed("run", "--name", name, "-n", RANKS, "--", "env", "TUTTI_DETERMINISTIC=strict", STRICT_SUM)
        equal(sums(result, f"on {hosts} hosts"), expected, f"sums on {hosts} hosts")


if __name__ == "__main__":
    main([sums_have_the_same_bits_on_any_number_of_hosts_by_any_algorithm])
