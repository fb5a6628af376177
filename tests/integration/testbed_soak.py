#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""A short form of the long run: random collectives on a testbed that loses frames, by ranks that are stopped at random,
with and without workers; faults that are planted there must be found. Arguments: tutti, and the program soak.
"""
import json
import os
import re
import subprocess
import sys

from cli_support import Skip, contains, equal, main
from testbed_support import PYTHON, ROOT, STATUS_SKIP, clean_environment, remains

SOAK = os.path.join(ROOT, "soak")
PROGRAM = os.path.abspath(sys.argv[2])
LIMIT_S = 280


def soak(seed, *arguments, program=()):
    """The run's status, output, and errors; nothing may be left of it."""
    words = [PYTHON, SOAK, "--seed", seed, "--program", PROGRAM, "--limit", LIMIT_S - 20, *arguments, "--", *program]
    result = subprocess.run([str(word) for word in words], env=clean_environment(), stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if result.returncode == STATUS_SKIP:
        raise Skip(result.stderr.strip())
    name = re.search(r"testbed ([0-9a-f]{6})", result.stdout)
    if not name:
        raise AssertionError(f"no testbed: {result.stdout!r} {result.stderr!r}")
    equal(remains(name[1]), [], "what is left of the testbed")
    return result


def samples(result):
    """The lines that are samples, of a run that found nothing wrong and in which ranks were stopped."""
    equal(result.returncode, 0, f"status of {result.stdout!r} {result.stderr!r}")
    stalls = re.search(r"(\d+) stalls", result.stdout)
    if not stalls or int(stalls[1]) == 0:
        raise AssertionError(f"no rank was stopped: {result.stdout!r}")
    return [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]


def five_hundred_collectives_end_well_though_frames_are_lost_and_ranks_are_stopped():
    rows = samples(soak(1, "--count", 500, "--stall-every", 0.2,
                        program=("--from", 100, "--every", 100, "--seconds", 20, "--json")))
    if len(rows) < 2:
        raise AssertionError(f"too few samples: {rows}")
    counters = rows[-1]["counters"]
    for name in ("chunks_multicast", "chunks_repaired", "chunks_fetched"):
        if counters[name] == 0:
            raise AssertionError(f"{name} is 0: the run exercised less than it should")
    if rows[-1]["reductions"] < 100:
        raise AssertionError(f"too few reductions: {rows[-1]}")
    if rows[-1]["groups_created"] < 4:
        raise AssertionError(f"groups did not come and go: {rows[-1]}")


def workers_carry_them_too():
    rows = samples(soak(2, "--count", 100000, "--hosts", 3, "--workers", 2, "--stall-every", 0.1, "--stall", 0.1,
                        program=("--from", 100, "--every", 100, "--seconds", 3, "--json")))
    equal(rows[-1]["most"]["threads"], rows[0]["most"]["threads"], "threads")


def planted(what):
    result = soak(3, "--count", 300, "--hosts", 2, "--stall-every", 0,
                  program=("--from", 100, "--every", 100, "--plant", what))
    equal(result.returncode, 1, f"status with a planted {what}: {result.stdout!r}")
    return result.stderr


def a_planted_byte_is_found_and_described():
    errors = planted("byte")
    contains(errors, "seed 3, collective 99")
    contains(errors, "1 wrong bytes in")


def planted_leaks_are_found():
    contains(planted("descriptor"), "descriptors grew")
    result = subprocess.run([os.path.abspath(sys.argv[1]), "info"], capture_output=True, text=True, check=True)
    if "sanitize=none" not in result.stdout:
        raise Skip("descriptors are; memory says nothing where a sanitizer keeps what was freed")
    contains(planted("memory"), "heap_bytes grew")


if __name__ == "__main__":
    main([five_hundred_collectives_end_well_though_frames_are_lost_and_ranks_are_stopped,
          workers_carry_them_too,
          a_planted_byte_is_found_and_described,
          planted_leaks_are_found])
