#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""testbed/compare: what it reports of tutti and of MPI, and that nothing is left however it ends."""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

from cli_support import TUTTI, Skip, bench, contains, equal, main
from testbed_support import COMPARE, PYTHON, STATUS_SKIP, clean_environment, new_name, remains

BENCH = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(TUTTI))), "bench")


def compare(*arguments, limit_s=240):
    name = new_name()
    result = subprocess.run([PYTHON, COMPARE, "--name", name, "--tutti", TUTTI, *map(str, arguments)], env=clean_environment(),
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False)
    if result.returncode == STATUS_SKIP:
        raise Skip(result.stderr.strip())
    equal(remains(name), [], "what is left")
    return result


def require_figures():
    """Comparisons need two figures that a `tutti bench` may not have."""
    row = bench("broadcast", "-b", 8, "-e", 8, "-i", 1)[0]
    if "slowest" not in row["time_us"] or "cpu_s" not in row:
        raise Skip("this tutti bench does not report time_us.slowest and cpu_s")


def compare_with_patience(*arguments):
    """As compare; once more if a launch of an MPI came to nothing, which MPICH's launcher does one time in hundreds."""
    result = compare(*arguments)
    if result.returncode != 0 and any(f"compare: {name}: " in result.stderr for name in ("openmpi", "mpich")):
        print(f"once more, since a launch failed: {result.stderr!r}")
        result = compare(*arguments)
    return result


def every_contender_is_measured_and_reported():
    require_figures()
    names = ["tutti"]
    for name, program, launcher in (("openmpi", "mpi_bench_openmpi", "mpirun.openmpi"),
                                    ("mpich", "mpi_bench_mpich", "mpirun.mpich")):
        if os.path.exists(os.path.join(BENCH, program)) and shutil.which(launcher):
            names.append(name)
    with tempfile.TemporaryDirectory() as directory:
        stem = os.path.join(directory, "plot")
        plots = ("--plot", stem) if shutil.which("gnuplot") else ()
        result = compare_with_patience("--hosts", 3, "--rate", "200mbit", "--sizes", "64K:128K", "--rounds", 1,
                                       "--iterations", 5, "--with", ",".join(names), "--json", stem + ".json", *plots)
        equal(result.returncode, 0, f"status, with {result.stderr!r}")
        with open(stem + ".json", encoding="utf-8") as file:
            found = json.load(file)
        for suffix, magic in (("svg", b"<?xml"), ("png", b"\x89PNG")) if plots else ():
            for collective in ("broadcast", "allgather"):
                with open(f"{stem}-{collective}.{suffix}", "rb") as file:
                    equal(file.read(len(magic)), magic, f"beginning of the {suffix} of the {collective}")
    equal(list(found["contenders"]), names, "contenders")
    equal(len(found["rows"]), 2 * 2 * len(names), "rows: collectives, sizes, contenders")
    for row in found["summary"]:
        size = row["size_bytes"]
        wire_us = size * 8 / 200 * (1 if row["collective"] == "broadcast" else 2)
        if not 0.8 * wire_us < row["slowest_us"] < 1000 * wire_us:
            raise AssertionError(f"{row}: the wire takes {wire_us} us")
        if row["contender"] == "tutti" and len(names) > 1 and not 0 < row["over_best_mpi"] < 1000:
            raise AssertionError(f"no ratio to MPI: {row}")
        if size >= 128 << 10 and not 1 <= row["switch_ratio"] < 5:
            raise AssertionError(f"bytes at the switch: {row}")
        if not row["cpu_s_per_GB"] > 0:
            raise AssertionError(f"no processor time: {row}")
    contains(result.stdout, "tutti/best MPI")
    if len(names) < 3:
        raise Skip(f"only {' and '.join(names)} were there to be compared; what they reported is right")


def reductions_and_barrier_are_measured():
    require_figures()
    names = ["tutti"]
    if os.path.exists(os.path.join(BENCH, "mpi_bench_openmpi")) and shutil.which("mpirun.openmpi"):
        names.append("openmpi")
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "found.json")
        result = compare_with_patience("--collective", "all", "--type", "int32", "--operation", "max", "--hosts", 3, "--rate",
                                       "200mbit", "--sizes", "4:128K", "--rounds", 1, "--iterations", 2, "--with",
                                       ",".join(names), "--json", path)
        equal(result.returncode, 0, f"status, with {result.stderr!r}")
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    kinds = {(row["collective"], row["contender"]) for row in found["rows"]}
    equal(len(kinds), 8 * len(names), "collectives of contenders")
    for row in found["rows"]:
        if "reduce" in row["collective"]:
            equal((row["type"], row["operation"]), ("int32", "max"), f"what {row['contender']} has reduced")
    sizes = {collective: sorted({row["size_bytes"] for row in found["summary"] if row["collective"] == collective})
             for collective, _ in kinds}
    equal(sizes["barrier"], [0], "sizes of a barrier")
    equal(sizes["reduce-scatter"][0], 16, "smallest reduce-scatter, of 12 bytes for three ranks")
    # The largest is alone in its launch; small ones may fit the links' buckets.
    links = {"allreduce": 4 / 3, "reduce": 1, "reduce-scatter": 2 / 3, "gather": 2, "scatter": 2 / 3}
    for row in found["summary"]:
        share = links.get(row["collective"]) if row["size_bytes"] == 128 << 10 else None
        if share and not 0.5 * share * row["size_bytes"] * 8 / 200 < row["slowest_us"]:
            raise AssertionError(f"faster than the wire: {row}")
        if share and not 0.9 <= row["switch_ratio"] < 20:
            raise AssertionError(f"bytes at the switch: {row}")


def contender_that_fails_or_hangs_is_reported_and_ended():
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, "tutti")
        for script, said, limit in (("echo broken >&2; exit 3", "broken", 60), ("sleep 600", "no end after 1 s", 1)):
            with open(program, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(program, 0o755)
            result = compare("--tutti", program, "--with", "tutti", "--hosts", 2, "--collective", "broadcast", "--sizes", "1K",
                             "--rounds", 1, "--limit", limit)
            equal(result.returncode, 1, f"status where tutti says {script!r}")
            contains(result.stderr, said)


def comparison_that_is_interrupted_leaves_nothing():
    with tempfile.TemporaryDirectory() as directory:
        program, mark = os.path.join(directory, "tutti"), os.path.join(directory, "mark")
        with open(program, "w", encoding="ascii") as file:
            file.write(f"#!/bin/sh\ntouch {mark}\nexec sleep 600\n")
        os.chmod(program, 0o755)
        name = new_name()
        process = subprocess.Popen([PYTHON, COMPARE, "--name", name, "--tutti", program, "--with", "tutti", "--hosts", "2"],
                                   env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not os.path.exists(mark) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=120)
        if process.returncode == STATUS_SKIP:
            raise Skip(errors.strip())
        equal(process.returncode, 128 + signal.SIGINT, f"status: {errors!r}")
        equal(remains(name), [], "what is left")


def command_lines_that_make_no_sense_are_refused():
    for arguments, said in ((("--sizes", "3:8"), "'3:8'"), (("--with", "tutti,smoke"), "'tutti,smoke'"),
                            (("--rounds", "0"), "'0'"), (("--collective", "scan"), "'scan'"),
                            (("--collective", "reduce,reduce"), "'reduce,reduce'"), (("--type", "fp16"), "'fp16'"),
                            (("--operation", "average"), "'average'"),
                            (("--collective", "reduce-scatter", "--sizes", "4:16"), "none that leaves each of 8 ranks")):
        result = compare(*arguments)
        equal(result.returncode, 2, f"status of compare {arguments}")
        contains(result.stderr, said)


if __name__ == "__main__":
    main([every_contender_is_measured_and_reported,
          reductions_and_barrier_are_measured,
          contender_that_fails_or_hangs_is_reported_and_ended,
          comparison_that_is_interrupted_leaves_nothing,
          command_lines_that_make_no_sense_are_refused])
