#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The files to build for the tests of one suite, as ninja calls them, one a line.

    suite_targets.py BUILD-DIRECTORY SUITE
"""
import json
import os
import subprocess
import sys


def introspect(build, what):
    return json.loads(subprocess.run(["meson", "introspect", build, f"--{what}"], check=True, capture_output=True,
                                     text=True).stdout)


def main(build, suite):
    build = os.path.abspath(build)
    built = {path for target in introspect(build, "targets") for path in target["filename"]}
    words = [word for test in introspect(build, "tests") if suite in [name.split(":")[-1] for name in test["suite"]]
             for word in test["cmd"]]
    wanted = {path for path in (os.path.join(build, word) for word in words) if path in built}
    print("\n".join(sorted(os.path.relpath(path, build) for path in wanted)))
    return 0 if wanted else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
