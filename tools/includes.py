# SPDX-License-Identifier: BSD-3-Clause
"""What the lint scripts share: finding the project's C files and following their #include lines."""
import functools
import os
import re
import subprocess

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
SEARCH = ("include", "src", "tests")


def project_files(root):
    """The project's files, as paths relative to root: what git knows or would add, or all where there is no git."""
    try:
        listed = subprocess.run(["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard"],
                                check=True, capture_output=True, text=True).stdout.split("\n")
        return sorted(path for path in set(listed) if path and os.path.isfile(os.path.join(root, path)))
    except (OSError, subprocess.CalledProcessError):
        found = []
        for directory, subdirectories, names in os.walk(root):
            subdirectories[:] = [name for name in subdirectories if not name.startswith((".", "build"))]
            found += [os.path.relpath(os.path.join(directory, name), root) for name in names]
        return sorted(found)


def c_files(root, *directories):
    return [path for path in project_files(root)
            if path.endswith((".c", ".h")) and path.split("/")[0] in directories]


@functools.lru_cache(maxsize=None)
def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def line_number(text, offset):
    return text.count("\n", 0, offset) + 1


@functools.lru_cache(maxsize=None)
def includes(root, path):
    """(line, is_system, name, resolved path or None) of every #include in a file that is not in a comment."""
    text = COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), read(root, path))
    found = []
    for match in INCLUDE.finditer(text):
        is_system, name = match.group(1) == "<", match.group(2)
        candidates = [] if is_system else [os.path.join(os.path.dirname(path), name)]
        candidates += [os.path.join(directory, name) for directory in SEARCH]
        resolved = next((os.path.normpath(candidate) for candidate in candidates
                         if os.path.isfile(os.path.join(root, candidate))), None)
        found.append((line_number(text, match.start(2)), is_system, name, resolved))
    return tuple(found)


def reachable(root, path):
    """The project's files that a file includes, directly or not, with the file itself."""
    seen, todo = set(), [path]
    while todo:
        current = todo.pop()
        if current not in seen:
            seen.add(current)
            todo += [resolved for _, _, _, resolved in includes(root, current) if resolved]
    return sorted(seen)
