#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts what a change of the structure of src/proto, src/engine and src/api is meant to change.

    structure.py [--build DIR] [--rows GLOB]... [--list | --json] [ROOT]

Prints one line a figure; run it before and after, and compare. ROOT is the source tree (.), DIR a directory where it is
built (build), which must be up to date; --list prints the places of each figure as well. Comments and strings count
nowhere.

method tests       In src/proto, src/engine and src/api: names of a method or a kind of collective (TT_METHOD_*,
                   TT_BROADCAST, TT_ALLGATHER) that are compared (== != < > <= >=) or stand in a `case`, and calls of
                   the predicates that PREDICATE names; those of what a rank hears are of a state, and not among them.
                   Not counted: what is inside of these predicates, files that match --rows (those of the methods
                   themselves), and a name that is a value: assigned, returned, passed, in an initialiser, computed
                   with, or what `?:` results in.
largest circle     In src/engine: how many .c files reach one another by symbols, in the largest such set; 1 if there is
                   no circle. A file reaches the one that defines a global symbol which its object has undefined; what
                   a header defines static inline is in no file, what that calls belongs to who includes it.
fields, bools      The declarators of struct tt_collective; `a, b` are two, a nested struct is one, whatever is in it.
checks a function  assert, _Static_assert and calls of tt_*_check, whatever it checks, for each function that is defined
                   in the .c and .h files of the layer.
lines              All lines of src/proto and src/engine, and of the tests in TESTS.

Exit status 1 if something was not there to be counted.
"""
import argparse
import fnmatch
import glob
import json
import os
import re
import subprocess
import sys

import includes as inc

TESTS = ("tests/unit", "tests/scenario", "tests/swarm", "tests/support")
STRUCT_FILE, STRUCT = "src/proto/collective.h", "tt_collective"

NO_CODE = re.compile(r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'""", re.DOTALL)
NAME = r"\b(?:TT_METHOD_\w+|TT_(?:BROADCAST|ALLGATHER|REDUCE|ALLREDUCE|REDUCE_SCATTER|GATHER|SCATTER))\b"
COMPARES = r"(?:[=!<>]=|(?<![<>-])[<>](?![<>]))"
TEST = rf"(?:\bcase\s+|\.\.\.\s*|{COMPARES}\s*){NAME}|{NAME}(?=\s*{COMPARES})"
PREDICATE = r"\btt_(?:method_(?:is|keeps)_\w+|collective_(?:is_(?!deaf|silent)\w+|multicasts|gathers|needs_credit))\("
PREDICATE_BODY = re.compile(rf"^[^\s#;{{}}][^;{{}}]*?{PREDICATE}[^;{{}}]*\)[ \t]*\n\{{\n.*?^\}}",
                            re.MULTILINE | re.DOTALL)
ASSERTION = r"\b(?:assert|_Static_assert|static_assert)\("
CHECK = r"\btt_\w+_check\("
FUNCTION = re.compile(r"\)[ \t]*\n\{\n")
NESTED = re.compile(r"\{[^{}]*\}|\((?!\*)[^()]*\)|\[[^\[\]]*\]")  # not (*name) of a pointer to a function
BOOL = re.compile(r"(?:(?:const|volatile|_Atomic)\s+)*(?:bool|_Bool|atomic_bool)\b[^*(]*$")


class Missing(Exception):
    pass


class Figure:
    def __init__(self, name, value, places, remark=""):
        self.name, self.value, self.places, self.remark = name, value, places, remark


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def code(root, path):
    return NO_CODE.sub(lambda match: blank(match.group()), inc.read(root, path))


def files_in(root, *directories):
    prefixes = tuple(directory + "/" for directory in directories)
    return [path for path in inc.c_files(root, "src", "tests") if path.startswith(prefixes)]


def places_of(root, path, text, names, calls):
    """Where names stand, and where functions are called: a line that begins in column 0 declares or defines them."""
    called = (match for match in re.finditer(calls, text) if text[text.rfind("\n", 0, match.start()) + 1].isspace())
    ends = sorted(match.end() - 1 for match in [*re.finditer(names, text), *called])
    written = inc.read(root, path).splitlines()
    return [f"{path}:{line}: {written[line - 1].strip()}" for line in (inc.line_number(text, end) for end in ends)]


def method_tests(root, rows):
    places = []
    for path in files_in(root, "src/proto", "src/engine", "src/api"):
        if not any(fnmatch.fnmatch(path, row) for row in rows):
            text = PREDICATE_BODY.sub(lambda match: blank(match.group()), code(root, path))
            places += places_of(root, path, text, TEST, PREDICATE)
    return Figure("method tests", len(places), places)


def symbols(objects):
    """Of each object the global symbols that it defines, and those that it needs."""
    defined, needed = {path: set() for path in objects}, {path: set() for path in objects}
    output = subprocess.run(["nm", "--format=posix", "--extern-only", "--print-file-name", *objects], check=True,
                            capture_output=True, text=True).stdout
    for line in output.splitlines():
        path, symbol = line.split(": ", 1)
        name, kind = symbol.split()[:2]
        (needed if kind in "Uwv" else defined)[path].add(name)
    return defined, needed


def uses_in(root, build, directory):
    """{source: {source that it uses: symbols}} of those that are built, and the names of the others."""
    sources = [path for path in files_in(root, directory) if path.endswith(".c")]
    names = {path[len("src/"):].replace("/", "_") + ".o": path for path in sources}
    objects = {path: names[os.path.basename(path)]
               for path in sorted(glob.glob(os.path.join(build, "src", "**", "*.o"), recursive=True))
               if os.path.basename(path) in names}
    if not objects:
        raise Missing(f"no object of {directory} is built in {build}")
    defined, needed = symbols(list(objects))
    uses = {source: {other: sorted(needed[user] & defined[used]) for used, other in objects.items()
                     if other != source and needed[user] & defined[used]} for user, source in objects.items()}
    return uses, [os.path.basename(source) for source in sources if source not in uses]


def reached(uses, start):
    seen, todo = set(), [start]
    while todo:
        more = uses[todo.pop()].keys() - seen
        seen |= more
        todo += more
    return seen


def circle(root, build):
    uses, not_built = uses_in(root, build, "src/engine")
    reach = {source: reached(uses, source) | {source} for source in uses}
    circles = [[other for other in sorted(reach[source]) if source in reach[other]] for source in sorted(uses)]
    largest = max(circles, key=len)
    places = [f"{source} uses {other}: {', '.join(uses[source][other])}"
              for source in largest for other in sorted(uses[source]) if other in largest]
    return Figure("largest circle in engine", len(largest), places or largest,
                  f"not built: {', '.join(not_built)}" if not_built else "")


def struct_fields(root):
    text = code(root, STRUCT_FILE)
    start = re.search(rf"^struct {STRUCT} \{{(.*?)^\}}", text, re.MULTILINE | re.DOTALL)
    if start is None:
        raise Missing(f"{STRUCT_FILE} has no struct {STRUCT}")
    body, nested = start.group(1), 1
    while nested:  # the innermost first
        body, nested = NESTED.subn(lambda match: blank(match.group()), body)
    fields, bools = [], []
    for declaration in re.finditer(r"[^\s;][^;]*(?=;)", body):
        line = inc.line_number(text, start.start(1) + declaration.start())
        places = [f"{STRUCT_FILE}:{line}: {' '.join(part.split())}" for part in declaration.group().split(",")]
        fields += places
        bools += places if BOOL.match(declaration.group()) else []
    return [Figure(f"fields of struct {STRUCT}", len(fields), fields), Figure("of these, bools", len(bools), bools)]


def checks(root, layer):
    places, functions = [], 0
    for path in files_in(root, f"src/{layer}"):
        text = code(root, path)
        functions += len(FUNCTION.findall(text))
        places += places_of(root, path, text, ASSERTION, CHECK)
    if functions == 0:
        raise Missing(f"src/{layer} defines no function")
    return Figure(f"checks a function in {layer}", round(len(places) / functions, 2), places,
                  f"{len(places)} checks, {functions} functions")


def lines(root, name, *directories):
    counts = {path: inc.read(root, path).count("\n") for path in files_in(root, *directories)}
    return Figure(name, sum(counts.values()), [f"{path}: {count}" for path, count in counts.items()],
                  f"{len(counts)} files")


def print_figures(figures, with_places):
    width = max(len(figure.name) for figure in figures)
    for figure in figures:
        value = f"{figure.value:.2f}" if isinstance(figure.value, float) else str(figure.value)
        print(f"{figure.name:<{width}}  {value:>7}  {figure.remark}".rstrip())
        if with_places:
            print("".join(f"    {text}\n" for text in figure.places), end="")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rows", action="append")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--list", action="store_true")
    output.add_argument("--json", action="store_true")
    parser.add_argument("root", nargs="?", default=".")
    options = parser.parse_args()
    root = options.root
    try:
        figures = [
            method_tests(root, options.rows or ["src/proto/method*.[ch]"]),
            circle(root, options.build),
            *struct_fields(root),
            checks(root, "proto"),
            checks(root, "engine"),
            lines(root, "lines of proto and engine", "src/proto", "src/engine"),
            lines(root, "lines of their tests", *TESTS),
        ]
    except (Missing, OSError, subprocess.CalledProcessError) as error:
        print(f"structure: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({figure.name: figure.value for figure in figures}, indent=2))
    else:
        print_figures(figures, options.list)
    return 0


if __name__ == "__main__":
    sys.exit(main())
