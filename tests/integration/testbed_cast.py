#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""testbed/compare_cast: everybody delivers the file, what fails is reported, and nothing is left."""
import json
import os
import shutil
import subprocess
import tempfile

from cli_support import TUTTI, Skip, contains, equal, main
from testbed_support import PYTHON, ROOT, STATUS_SKIP, clean_environment, new_name, remains

COMPARE_CAST = os.path.join(ROOT, "compare_cast")


def compare_cast(place, *arguments, limit_s=240):
    name = new_name()
    result = subprocess.run([PYTHON, COMPARE_CAST, "--name", name, "--tutti", TUTTI, "--place", place, *map(str, arguments)],
                            env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                            timeout=limit_s, check=False)
    if result.returncode == STATUS_SKIP:
        raise Skip(result.stderr.strip())
    equal(remains(name), [], "what is left of the testbed")
    return result


def everybody_delivers_the_file():
    names = ["multicast", "pipeline", "copies"]
    names += [name for name, program in (("udpcast", "udp-sender"), ("uftp", "uftpd")) if shutil.which(program)]
    with tempfile.TemporaryDirectory() as place:
        path = os.path.join(place, "rows")
        result = compare_cast(place, "--size", "1M", "--hosts", 3, "--rate", "200mbit", "--with", ",".join(names), "--json",
                              path, "--limit", 100)
        equal(result.returncode, 0, f"status, with {result.stderr!r}")
        with open(path, encoding="utf-8") as file:
            rows = json.load(file)
        equal(os.listdir(place), ["rows"], "files that are left")
    equal([row["contender"] for row in rows], names)
    for row in rows:
        if not row["seconds"] > (1 << 20) * 8 / 200e6 * 0.8 or not row["switch_bytes"] >= 3 << 20:
            raise AssertionError(f"less than the wire needs: {row}")
        contains(result.stdout, row["contender"])


def what_delivers_another_file_or_hangs_is_reported():
    with tempfile.TemporaryDirectory() as place:
        program = os.path.join(place, "tutti")
        for script, said, limit in (('[ "$1" = cast ] || echo wrong >"$4/data"', "the file of h1 is another one", 60),
                                    ("exec sleep 600", "have not ended after 1 s", 1), ("echo broken; exit 3", "broken", 60)):
            with open(program, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(program, 0o755)
            result = compare_cast(place, "--tutti", program, "--size", "1K", "--hosts", 2, "--with", "multicast", "--limit",
                                  limit)
            equal(result.returncode, 1, f"status of {script!r}")
            contains(result.stderr, said)
        equal(os.listdir(place), ["tutti"], "files that are left")


if __name__ == "__main__":
    main([everybody_delivers_the_file, what_delivers_another_file_or_hangs_is_reported])
