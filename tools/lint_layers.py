#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Checks the layer rules of docs/STYLE.md from #include lines alone.

    lint_layers.py ROOT

Includes point down or sideways, never up; a fabric provider does not know another; the pure layers reach no system
header beyond those that give types, limits and string functions, not even through another header; libibverbs and UCX
are each named in one place; a public header includes public headers only. Long files are warned about. Exit status 1
on a violation.
"""
import functools
import os
import re
import sys

import includes as inc

# What each layer may include besides itself and the public headers. A layer that is not here is a violation.
BELOW = {
    "base": set(),
    "wire": {"base"},
    "plan": {"base"},
    "endpoint": {"base"},
    "proto": {"plan", "wire", "base"},
    "offload": {"plan", "wire", "base"},
    "fabric": {"endpoint", "wire", "base"},
    "engine": {"proto", "offload", "fabric", "endpoint", "plan", "wire", "base"},
}
BELOW["api"] = BELOW["engine"] | {"engine"}
BELOW["cli"] = BELOW["api"] | {"api"}

PURE = {"proto", "plan", "wire", "offload"}
# In a layer that is not pure as a whole: planning endpoints is, making them is not.
PURE_FILES = {f"src/endpoint/{name}.{ending}" for name in ("assignment", "category", "plan", "registers")
              for ending in "ch"}
PURE_SYSTEM_HEADERS = {"stdint.h", "stddef.h", "stdbool.h", "string.h", "limits.h", "stdatomic.h", "assert.h",
                       "inttypes.h", "stdalign.h", "stdnoreturn.h"}
# Public headers that every layer may use; the rest of the public interface belongs to those who implement or call it.
PUBLIC_FOR_ALL = {"include/tutti/status.h", "include/tutti/export.h"}
PUBLIC_USERS = {"engine", "api", "cli"}

# A library's headers: where alone they may be named.
ONLY_IN = {
    "infiniband/": ("src/fabric/verbs/", "src/endpoint/"),
    "rdma/": ("src/fabric/verbs/", "src/endpoint/"),
    "ucp/": ("src/fabric/ucx/",),
    "uct/": ("src/fabric/ucx/",),
    "ucs/": ("src/fabric/ucx/",),
    "pmix": ("src/engine/pmix.c",),
}
LONG_FILE_LINES = 500


def layer_of(path):
    parts = path.split("/")
    return parts[1] if len(parts) > 2 and parts[0] == "src" else None


def provider_of(path):
    parts = path.split("/")
    return parts[2] if len(parts) > 3 and parts[:2] == ["src", "fabric"] else None


@functools.lru_cache(maxsize=None)
def generated(root):
    """Headers that the build makes in a layer's directory, by the name under which they are included."""
    return {f"{layer_of(path)}/{name}" for path in inc.project_files(root)
            if layer_of(path) and os.path.basename(path) == "meson.build"
            for name in re.findall(r"output: '([^'@]+\.h)'", inc.read(root, path))}


def check_public(name, is_system, resolved):
    if not is_system and (resolved is None or not resolved.startswith("include/tutti/")):
        return f'public header includes "{name}", which is not public'
    if is_system and (resolved or "/" in name):
        return f"public header includes <{name}>, which users need not have"
    return None


def check_layer(path, layer, name, resolved):
    """What is wrong with an include of one project file by another, or None."""
    if resolved.startswith("include/"):
        if resolved not in PUBLIC_FOR_ALL and layer not in PUBLIC_USERS:
            return f'layer {layer} includes "{name}": below engine only tutti/status.h is needed'
        return None
    target = layer_of(resolved)
    if target is None:
        return f'"{name}" is in no layer'
    if target != layer and target not in BELOW[layer]:
        return f'layer {layer} must not include layer {target} ("{name}")'
    if layer == "fabric" and provider_of(path) and provider_of(resolved) not in (None, "session", provider_of(path)):
        return f'provider {provider_of(path)} must not include provider {provider_of(resolved)} ("{name}")'
    return None


def check_pure(root, path):
    """System headers that a pure file reaches and must not, with the way there."""
    what = f"file {path}" if path in PURE_FILES else f"layer {layer_of(path)}"
    for file in inc.reachable(root, path):
        for line, is_system, name, resolved in inc.includes(root, file):
            if resolved is None and is_system and name not in PURE_SYSTEM_HEADERS:
                through = "" if file == path else f" through {file}:{line}"
                yield (line if file == path else 1), f"pure {what} reaches <{name}>{through}"


def check_file(root, path):
    """Yields (line, text) for each violation in a file."""
    layer = layer_of(path)
    if path.startswith("src/") and layer not in BELOW:
        yield 1, f"the layer rules know no layer '{layer or path}'"
        return
    for line, is_system, name, resolved in inc.includes(root, path):
        for prefix, places in ONLY_IN.items():
            if name.startswith(prefix) and not path.startswith(places):
                yield line, f"<{name}> may be included in {' and '.join(places)} only"
        if path.startswith("include/"):
            problem = check_public(name, is_system, resolved)
        elif resolved is None:
            known = is_system or name in generated(root) and name.split("/")[0] == layer
            problem = None if known else f'"{name}" is not found'
        else:
            problem = check_layer(path, layer, name, resolved)
        if problem:
            yield line, problem
    if layer in PURE or path in PURE_FILES:
        yield from check_pure(root, path)


def main(arguments):
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    root, violations = arguments[0], 0
    for path in inc.c_files(root, "src", "include"):
        for line, text in check_file(root, path):
            print(f"{path}:{line}: {text}")
            violations += 1
    for path in inc.c_files(root, "src", "include", "tests", "fuzz", "examples"):
        lines = inc.read(root, path).count("\n")
        if lines > LONG_FILE_LINES:
            print(f"{path}:{lines}: warning: {lines} lines; "
                  f"beyond {LONG_FILE_LINES} a file usually hides a second thing")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
