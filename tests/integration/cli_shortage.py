#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whole jobs whose ranks have few descriptors, or little memory: they work, or name what they lack, and never abort.

    cli_shortage.py PROGRAM
"""
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TUTTI, contains, equal, main, tutti, within

RANKS = 4
AT_ONCE_S = 15  # far below the time-outs of a start and of a collective, also beside other tests
BENCH = ("bench", "allreduce", "-b", "64K", "-e", "1M", "-f", "16", "-i", "5")


def run_limited(limit):
    """Whether the job works under this limit of a shell; else what it says."""
    begun = time.monotonic()
    result = tutti("run", "-n", RANKS, "--", "sh", "-c", f'{limit}; exec "$@"', "-", TUTTI, *BENCH)
    equal("signal" in result.stderr, False, f"under {limit} a rank was killed: {result.stderr!r}")
    for line in result.stderr.splitlines():
        if "cannot reach this rank" in line:  # it is for want of its own descriptors, which it knows
            contains(line, "no descriptor or memory was left here")
    if result.returncode != 0:
        within(time.monotonic() - begun, 0, AT_ONCE_S, f"seconds under {limit}, with {result.stderr!r}")
    else:
        contains(result.stdout, "wrong bytes: 0")
    return None if result.returncode == 0 else result.stderr


def sweep(command, values, words):
    """The values under which the job works, of which there must be some; in all others it says one of these words."""
    works = []
    for value in values:
        said = run_limited(f"{command} {value}")
        if said is None:
            works.append(value)
        elif not any(word in said for word in words):
            raise AssertionError(f"under {command} {value} it says {said!r}")
    return works


def few_descriptors_are_enough_or_named():
    works = sweep("ulimit -n", range(4, 41), ("Too many open files", "no descriptor"))
    equal(set(range(32, 41)) - set(works), set(), "numbers of descriptors that are not enough")
    equal(4 in works, False, "whether a network needs no descriptor")


def little_memory_is_enough_or_named():
    works = sweep("ulimit -v", [mebibytes * 1024 for mebibytes in (*range(16, 48, 4), 64, 128, 256)],
                  ("memory", "error while loading shared libraries"))
    equal(256 * 1024 in works, True, "whether 256 MiB are enough")


if __name__ == "__main__":
    main([few_descriptors_are_enough_or_named, little_memory_is_enough_or_named])
