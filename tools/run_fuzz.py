#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs libFuzzer targets, two at a time, and says how to replay what they find.

    run_fuzz.py --build DIRECTORY [--seconds N] [TARGET...]

A target is DIRECTORY/fuzz/fuzz_NAME; fuzz/corpus/NAME holds its seeds, if there are any. What it learns is kept in
DIRECTORY/corpus/NAME, so that the next run goes on from there, and what breaks it in DIRECTORY/artifacts/NAME. Each
target counts as one test in the last line; exit status 1 if one failed.
"""
import argparse
import concurrent.futures
import glob
import os
import re
import subprocess
import sys

SLOW_INPUT_SECONDS = 10
MEMORY_LIMIT_MB = 2048


def fuzz(build, name, seconds):
    """Runs one target; returns (exit status, its output)."""
    program = os.path.join(build, "fuzz", "fuzz_" + name)
    corpus = os.path.join(build, "corpus", name)
    artifacts = os.path.join(build, "artifacts", name)
    os.makedirs(corpus, exist_ok=True)
    os.makedirs(artifacts, exist_ok=True)
    command = [program, f"-max_total_time={seconds}", f"-timeout={SLOW_INPUT_SECONDS}",
               f"-rss_limit_mb={MEMORY_LIMIT_MB}", "-print_final_stats=1", "-use_value_profile=1",
               f"-artifact_prefix={artifacts}/", corpus]
    seeds = os.path.join("fuzz", "corpus", name)
    if os.path.isdir(seeds):
        command.append(seeds)
    # What a parser says about each bad input would bury what the fuzzer says.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    environment["TUTTI_LOG"] = "none"
    result = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace", check=False)
    return result.returncode, result.stdout


def figure(output, name):
    match = re.search(rf"stat::{name}:\s*(\d+)", output)
    return match.group(1) if match else "?"


def report(build, name, status, output):
    """Prints what a target did; returns whether it passed."""
    if status == 0:
        coverage = re.findall(r"cov: (\d+)", output)
        print(f"ok      fuzz_{name}: {figure(output, 'number_of_executed_units')} inputs, "
              f"{coverage[-1] if coverage else '?'} places covered", flush=True)
        return True
    print(output[-8000:])
    print(f"FAILED  fuzz_{name}: exit status {status}")
    for artifact in re.findall(r"Test unit written to (\S+)", output):
        print(f"replay: {os.path.join(build, 'fuzz', 'fuzz_' + name)} {artifact}", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    there = sorted(os.path.basename(path)[len("fuzz_"):]
                   for path in glob.glob(os.path.join(options.build, "fuzz", "fuzz_*")) if os.access(path, os.X_OK)
                   and os.path.isfile(path))
    wanted = [name[len("fuzz_"):] if name.startswith("fuzz_") else name for name in options.targets] or there
    unknown = [name for name in wanted if name not in there]
    if unknown or not wanted:
        print(f"run_fuzz: no such target: {', '.join(unknown) or '(none is built)'}; there are: {', '.join(there)}",
              file=sys.stderr)
        print("0 passed, 1 failed")
        return 2 if unknown else 1
    passed = failed = 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        runs = {pool.submit(fuzz, options.build, name, options.seconds): name for name in wanted}
        for run in concurrent.futures.as_completed(runs):
            if report(options.build, runs[run], *run.result()):
                passed += 1
            else:
                failed += 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
