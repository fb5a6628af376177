#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks that the pure layers' objects call nothing of the system: no clock, socket, thread, allocator or stdio.

    lint_symbols.py BUILD-DIRECTORY

Every undefined symbol of libtt_{wire,plan,proto,offload}.a must be one that any freestanding C needs, or be defined by
the same layer or one below it. Exit status 1 on a violation, and if there is no archive to look at.
"""
import glob
import os
import re
import subprocess
import sys

ARCHIVES = {
    "wire": ("wire", "base"),
    "plan": ("plan", "base"),
    "proto": ("proto", "plan", "wire", "base"),
    "offload": ("offload", "plan", "wire", "base"),
}
FREESTANDING = re.compile(r"^(mem(cpy|move|set|cmp|chr)|str(n?len|n?cmp|chr)"
                          r"|__(memcpy|memmove|memset)_chk|__assert_fail|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_"
                          r"|__(a|t|ub)san_\w+|__gcov_\w+|__popcount\w+|__(ctz|clz|u?div|u?mod|u?muldi|udivmod)\w*)$")


def archive(build, layer):
    found = glob.glob(os.path.join(build, "src", "**", f"libtt_{layer}.a"), recursive=True)
    return found[0] if found else None


def symbols(path, is_defined):
    """(member, symbol) pairs of global symbols. Not by nm: where objects are for link-time optimisation as well, its
    plugin leaves out what the compiler knows by itself, which is malloc and printf."""
    output = subprocess.run(["readelf", "--syms", "--wide", path], check=True, capture_output=True, text=True).stdout
    member, found = path, []
    for line in output.splitlines():
        header = re.match(r"^File: .*\((.*)\)$", line)
        words = line.split()
        if header:
            member = header.group(1)
        elif len(words) == 8 and words[4] in ("GLOBAL", "WEAK") and (words[6] != "UND") == is_defined:
            found.append((member, words[7]))
    return found


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    build, violations, looked_at = arguments[0], 0, 0
    for layer, below in ARCHIVES.items():
        path = archive(build, layer)
        if path is None:
            continue
        looked_at += 1
        defined = {name for other in below if archive(build, other)
                   for _, name in symbols(archive(build, other), True)}
        for member, name in symbols(path, False):
            if name not in defined and not FREESTANDING.match(name):
                print(f"{path}: {member}: the pure layer {layer} needs the symbol {name}")
                violations += 1
    if looked_at == 0:
        print(f"{build}: no archive of a pure layer is built there")
        return 1
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
