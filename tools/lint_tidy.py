#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs clang-tidy over the project's sources, several at a time, and only over what has changed.

    lint_tidy.py [--jobs N] BUILD-DIRECTORY [SOURCE...]

The analyzer looks at a third of the paths that it would look at by itself (ANALYZER): a function that has more takes most
of the time, and its last paths say little that the first ones do not. Long sources come first, so that none is left alone.

A source that was clean is not looked at again while its text, the project headers that it reaches, the configuration,
its compile command and clang-tidy itself stay the same; BUILD-DIRECTORY/tidy remembers this. Exit status 1 on a
finding.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import re
import shlex
import subprocess
import sys

import includes as inc

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
DIRECTORIES = ("src", "tests", "fuzz", "examples")
ANALYZER = ["-Xclang", "-analyzer-config", "-Xclang", "max-nodes=75000"]


def compile_commands(build):
    """Source relative to the root: its command. A source that is built several times is looked at once."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = json.load(file)
    found = {}
    for entry in entries:
        path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), ROOT)
        if path.split("/")[0] in DIRECTORIES and path.endswith(".c"):
            found.setdefault(path, entry["command"])
    return found


def arguments_for_clang(command):
    """What clang needs of gcc's command: where headers are and what is defined."""
    return [word for word in shlex.split(command) if re.match(r"-(I|D|isystem|std=|pthread)", word)] + ANALYZER


def digest(path, arguments, version):
    sha = hashlib.sha256()
    for text in [version, " ".join(arguments), *(inc.read(ROOT, file) for file in inc.reachable(ROOT, path))]:
        sha.update(text.encode() + b"\0")
    directory = path
    while directory:
        directory = os.path.dirname(directory)
        configuration = os.path.join(directory, ".clang-tidy")
        if os.path.exists(os.path.join(ROOT, configuration)):
            sha.update(inc.read(ROOT, configuration).encode())
    return sha.hexdigest()


def tidy(path, arguments, build):
    command = ["clang-tidy", "--quiet", "--warnings-as-errors=*", os.path.join(ROOT, path), "--", *arguments]
    result = subprocess.run(command, cwd=build, capture_output=True, text=True, check=False)
    noise = re.compile(r"^\d+ warnings? .*generated|^Suppressed|^Use -header-filter|warnings? treated as errors?$")
    output = "\n".join(line for line in (result.stdout + result.stderr).splitlines() if not noise.search(line))
    return result.returncode, output.replace(ROOT + os.sep, "")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("build")
    parser.add_argument("sources", nargs="*")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    cache = os.path.join(build, "tidy")
    os.makedirs(cache, exist_ok=True)
    version = subprocess.run(["clang-tidy", "--version"], check=True, capture_output=True, text=True).stdout
    todo = []
    for path, command in sorted(compile_commands(build).items()):
        if options.sources and path not in options.sources:
            continue
        arguments = arguments_for_clang(command)
        stamp = os.path.join(cache, digest(path, arguments, version))
        if not os.path.exists(stamp):
            todo.append((path, arguments, stamp))
    todo.sort(key=lambda work: -os.path.getsize(os.path.join(ROOT, work[0])))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        runs = {pool.submit(tidy, path, arguments, build): (path, stamp) for path, arguments, stamp in todo}
        for run in concurrent.futures.as_completed(runs):
            path, stamp = runs[run]
            status, output = run.result()
            if status == 0:
                open(stamp, "w", encoding="utf-8").close()
            else:
                failed += 1
                print(output or f"{path}: clang-tidy ended with status {status}", flush=True)
    print(f"clang-tidy: {len(todo)} sources looked at, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
