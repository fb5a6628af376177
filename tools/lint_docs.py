#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks what is written against what is there.

    lint_docs.py ROOT

Every setting of src/base/settings.h is in the manual (docs/), and every TUTTI_ variable that the documentation names
exists; a version that it gives with the constant's name is that of the code; every exported function is in
src/libtutti.map and the other way round; every file that the table of places in docs/ARCHITECTURE.md names exists and
has what the row says is there; no file of the project names a directory of the
machine it was written on; every source begins with its licence. Exit status 1 on a violation.
"""
import posixpath
import re
import sys

import includes as inc

SETTING = re.compile(r"^[ \t]*X\([a-z0-9_]+, ([A-Z0-9_]+),", re.MULTILINE)
NAME = re.compile(r"\bTUTTI_([A-Z][A-Z0-9_]*)\b")
EXPORT = re.compile(r"\bTUTTI_EXPORT\b[^;{]*?\b(tutti_\w+)\s*\(", re.DOTALL)
MAPPED = re.compile(r"^\s*(tutti_\w+);", re.MULTILINE)
STATED = re.compile(r"(\d+) \(`(\w*VERSION)`\)")
DEFINED = re.compile(r"\b(\w*VERSION) = (\d+)\b")
MACHINE = re.compile("(?<![\\w.])/" + "work/")  # in two parts, so that this file does not name it
LICENCE = "SPDX-License-Identifier: BSD-3-Clause"
PLACES, PLACES_HEADING = "docs/ARCHITECTURE.md", "## Where is"
CODE = re.compile(r"`([^`]+)`")
LICENSED = (".c", ".h", ".py", ".sh", "meson.build", "meson_options.txt")


def is_documentation(path):
    return path.startswith("docs/") or path == "README.md"


def public_names(root):
    """All TUTTI_ words that a public header defines: statuses, macros, enumerators."""
    return {name for path in inc.c_files(root, "include") for name in NAME.findall(inc.read(root, path))}


def check_settings(root, files):
    settings = set(SETTING.findall(inc.read(root, "src/base/settings.h")))
    if not settings:
        yield "src/base/settings.h:1: no setting was found in the table"
    documented = {}
    for path in filter(is_documentation, files):
        for name in NAME.findall(inc.read(root, path)):
            documented.setdefault(name, path)
    for name in sorted(settings - documented.keys()):
        yield f"docs: the setting TUTTI_{name} is documented nowhere"
    known = settings | public_names(root)
    for name in sorted(documented.keys() - known):
        yield f"{documented[name]}: TUTTI_{name} is no setting and in no public header"


def check_versions(root, files):
    defined = {name: number for path in inc.c_files(root, "src") for name, number in DEFINED.findall(inc.read(root, path))}
    for path in filter(is_documentation, files):
        for number, name in STATED.findall(inc.read(root, path)):
            if defined.get(name) != number:
                yield f"{path}: {name} is {defined.get(name, 'nowhere')}, not {number}"


def check_map(root):
    exported = {name for path in inc.c_files(root, "include") for name in EXPORT.findall(inc.read(root, path))}
    mapped = set(MAPPED.findall(inc.read(root, "src/libtutti.map")))
    for name in sorted(exported - mapped):
        yield f"src/libtutti.map: {name} is exported by a public header and not here"
    for name in sorted(mapped - exported):
        yield f"src/libtutti.map: {name} is in no public header"


def check_row(root, files, where, what):
    """A bare file name is in the directory of the one before it; each word is in one of the files."""
    directory, texts = "", []
    for name in where:
        path = name if "/" in name else posixpath.join(directory, name)
        directory = posixpath.dirname(path)
        if path in files:
            texts.append(inc.read(root, path))
        else:
            yield f"there is no file {path}"
    for word in what:
        if not any(re.search(rf"\b{re.escape(word)}\b", text) for text in texts):
            yield f"{word} is not in {', '.join(where)}"


def check_places(root, files):
    rows, in_table, known = 0, False, set(files)
    for number, line in enumerate(inc.read(root, PLACES).split("\n"), 1):
        if line.startswith("## "):
            in_table = line.startswith(PLACES_HEADING)
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if in_table and cells and len(cells) != 3:
            yield f"{PLACES}:{number}: a row of {len(cells)} cells, not of three"
        if not in_table or len(cells) != 3 or not CODE.search(cells[1]):
            continue
        rows += 1
        for problem in check_row(root, known, CODE.findall(cells[1]), CODE.findall(cells[2])):
            yield f"{PLACES}:{number}: {problem}"
    if rows == 0:
        yield f"{PLACES}:1: no row of places was found behind '{PLACES_HEADING}'"


def check_text(root, files):
    for path in files:
        text = inc.read(root, path)
        for match in MACHINE.finditer(text):
            yield f"{path}:{inc.line_number(text, match.start())}: names a directory of one machine"
        if path.endswith(LICENSED) and LICENCE not in "\n".join(text.split("\n")[:3]):
            yield f"{path}:1: does not begin with '{LICENCE}'"


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    root = arguments[0]
    files = inc.project_files(root)
    problems = [*check_settings(root, files), *check_versions(root, files), *check_map(root), *check_places(root, files),
                *check_text(root, files)]
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
