#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Whole jobs whose ranks have few descriptors, or little memory: they work, or name what they lack, and never abort.

    cli_shortage.py PROGRAM
"""
import json
import re
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TUTTI, contains, equal, main, tutti, within

RANKS = 4
AT_ONCE_S = 15  # far below the time-outs of a start and of a collective, also beside other tests
DESCRIPTORS = (*range(4, 42), *range(44, 65, 4))
ENOUGH_DESCRIPTORS = 32
MEBIBYTES = (6, 8, 12, *range(16, 48, 4), 64, 128, 256)
ENOUGH_MEBIBYTES = 64
# The library's own: its status, and what there was no room for.
NO_DESCRIPTOR = re.compile("Too many open files|no descriptor")
NO_MEMORY = re.compile(r"^tutti bench: rank \d: out of (memory|a system resource) \([^)]+\): (no memory for|a buffer of \d+ bytes"
                       r"|no [a-z ]+: (Cannot allocate memory|Resource temporarily unavailable))", re.MULTILINE)
NOT_LOADED = re.compile("error while loading shared libraries")  # the loader's: there is no process that could say anything
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


def sweep(command, values, unit, words):
    """The first of the values under which the job works, as it does under all that follow; and those that come before,
    under which it says `words`. Under the very least the program may not even be loaded."""
    works, loaded = [], []
    for value in values:
        said = run_limited(f"{command} {value * unit}")
        if said is None:
            works.append(value)
        elif words.search(said):
            loaded.append(value)
        elif loaded or not NOT_LOADED.search(said):
            raise AssertionError(f"under {command} {value * unit} it says {said!r}")
    equal(works, [value for value in values if works and value >= works[0]], f"where it works under {command}")
    return works[0] if works else None, loaded


def few_descriptors_are_enough_or_named():
    first, named = sweep("ulimit -n", DESCRIPTORS, 1, NO_DESCRIPTOR)
    within(first or DESCRIPTORS[-1] + 1, DESCRIPTORS[0] + 1, ENOUGH_DESCRIPTORS, "descriptors from which on it works")
    equal(named, list(range(DESCRIPTORS[0], first)), "numbers under which it names what it lacks")


def a_low_soft_limit_of_descriptors_is_raised():
    said = run_limited(f"ulimit -S -n {DESCRIPTORS[0] + 4}")  # under the hard limit it is named, see above
    equal(said, None, "what it says under a low soft limit")


def little_memory_is_enough_or_named():
    first, named = sweep("ulimit -v", MEBIBYTES, 1024, NO_MEMORY)
    within(first or MEBIBYTES[-1] + 1, MEBIBYTES[0], ENOUGH_MEBIBYTES, "MiB from which on it works")
    equal(named != [], True, f"whether it names what it lacks below {first} MiB")


def descriptors_that_doctor_asks_for_are_enough():
    ranks = 100  # rank 0 of a gather holds each of them three times
    checks = json.loads(tutti("doctor", "-n", ranks, "--json").stdout)["checks"]
    found = [check["found"] for check in checks if check["check"] == "file descriptors"]
    need = re.search(r"a rank needs about (\d+)", found[0]).group(1)
    result = tutti("run", "-n", ranks, "--", "sh", "-c", f'ulimit -n {need}; exec "$@"', "-", TUTTI,
                   "bench", "gather", "-b", "64K", "-e", "64K", "-i", "1", "-w", "0")
    equal(result.returncode, 0, f"exit status with {need} descriptors, and {result.stderr[-500:]!r}")


if __name__ == "__main__":
    main([few_descriptors_are_enough_or_named, a_low_soft_limit_of_descriptors_is_raised,
          descriptors_that_doctor_asks_for_are_enough, little_memory_is_enough_or_named])
