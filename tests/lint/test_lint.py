#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plants violations in a small copy of the project's shape and expects the lint scripts to name each of them.
The scripts that count are given what has known counts.

    test_lint.py SOURCE-ROOT

Every case has a twin that is clean (the tree as planted, before the violation), so that a script which complains about
everything fails as well. The last line counts.
"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(sys.argv[1])
LICENCE = "/* SPDX-License-Identifier: BSD-3-Clause */\n"

CLEAN = {
    "include/tutti/export.h": "#define TUTTI_EXPORT\n",
    "include/tutti/status.h": '#include "tutti/export.h"\n',
    "include/tutti/tutti.h": '#include <stdint.h>\n#include "tutti/status.h"\nTUTTI_EXPORT int tutti_one(void);\n',
    "src/libtutti.map": "TUTTI_0 {\nglobal:\n    tutti_one;\nlocal:\n    *;\n};\n",
    "src/base/settings.h": "#define T(X) \\\n    X(rank, RANK, COUNT)\n",
    "src/base/clock.h": "#include <time.h>\n",
    "src/base/random.h": "#include <stdint.h>\n",
    "src/wire/chunk.h": "#include <stdint.h>\nenum { TT_CHUNK_VERSION = 12 };\n",
    "src/plan/ring.h": "#include <stdint.h>\n",
    "src/endpoint/plan.h": "#include <stdint.h>\n",
    "src/endpoint/create.c": '#include <infiniband/verbs.h>\n#include "endpoint/plan.h"\n',
    "src/fabric/mcast.h": '#include "tutti/status.h"\n#include "wire/chunk.h"\n',
    "src/fabric/udp/udp.c": '#include <sys/socket.h>\n#include "fabric/mcast.h"\n#include "udp.h"\n',
    "src/fabric/udp/udp.h": "#include <stdint.h>\n",
    "src/fabric/ucx/ucx.c": '#include <ucp/api/ucp.h>\n#include "fabric/mcast.h"\n',
    "src/proto/receive.c": '/* #include <stdio.h> in words only */\n#include <string.h>\n'
                           '#include "base/random.h"\n#include "plan/ring.h"\n#include "wire/chunk.h"\n',
    "src/engine/engine.c": '#include <pthread.h>\n#include "fabric/mcast.h"\n#include "tutti/tutti.h"\n',
    "src/cli/main.c": '#include "cli/made.h"\n',
    "src/cli/meson.build": "# SPDX-License-Identifier: BSD-3-Clause\nconfigure_file(output: 'made.h')\n",
    "docs/settings.md": "`TUTTI_RANK` is the rank. Version, 12 (`TT_CHUNK_VERSION`).\n",
    "docs/ARCHITECTURE.md": "| elsewhere | `gone.c` | `gone` |\n\n## Where is ...\n\n| where is | file | function |\n"
                            "|---|---|---|\n| the ring? | `src/fabric/udp/udp.c`, `udp.h` | `socket`; `stdint` |\n",
}

# (name, script, path, what is appended to it, what the script must say)
PLANTED = [
    ("include_of_a_higher_layer", "layers", "src/base/random.h", '#include "wire/chunk.h"\n', "must not include layer wire"),
    ("include_of_fabric_by_proto", "layers", "src/proto/receive.c", '#include "fabric/mcast.h"\n',
     "must not include layer fabric"),
    ("socket_header_in_proto", "layers", "src/proto/receive.c", "#include <sys/socket.h>\n", "reaches <sys/socket.h>"),
    ("spaced_include_in_proto", "layers", "src/proto/receive.c", " #  include <stdlib.h>\n", "reaches <stdlib.h>"),
    ("clock_reached_through_base", "layers", "src/proto/receive.c", '#include "base/clock.h"\n', "reaches <time.h>"),
    ("stdio_in_plan_header", "layers", "src/plan/ring.h", "#include <stdio.h>\n", "reaches <stdio.h>"),
    ("verbs_where_endpoints_are_planned", "layers", "src/endpoint/plan.h", "#include <infiniband/verbs.h>\n",
     "pure file src/endpoint/plan.h reaches <infiniband/verbs.h>"),
    ("verbs_outside_of_its_directories", "layers", "src/engine/engine.c", "#include <infiniband/verbs.h>\n",
     "<infiniband/verbs.h> may be included"),
    ("ucx_outside_of_its_directory", "layers", "src/fabric/udp/udp.c", "#include <ucp/api/ucp.h>\n",
     "<ucp/api/ucp.h> may be included"),
    ("provider_that_knows_another", "layers", "src/fabric/ucx/ucx.c", '#include "fabric/udp/udp.h"\n',
     "must not include provider udp"),
    ("public_header_with_internals", "layers", "include/tutti/tutti.h", '#include "wire/chunk.h"\n', "which is not public"),
    ("public_interface_below_engine", "layers", "src/fabric/mcast.h", '#include "tutti/tutti.h"\n', "below engine"),
    ("directory_that_is_no_layer", "layers", "src/misc/new.c", "int x;\n", "know no layer 'misc'"),
    ("include_that_is_not_there", "layers", "src/engine/engine.c", '#include "engine/gone.h"\n', "is not found"),
    ("made_header_of_another_layer", "layers", "src/engine/engine.c", '#include "cli/made.h"\n', "is not found"),
    ("setting_without_documentation", "docs", "src/base/settings.h", "    X(size, SIZE, COUNT)\n",
     "TUTTI_SIZE is documented nowhere"),
    ("documented_setting_that_is_gone", "docs", "docs/settings.md", "`TUTTI_GONE`\n", "TUTTI_GONE is no setting"),
    ("version_that_was", "docs", "docs/settings.md", "| version, 2 (`TT_CHUNK_VERSION`) |\n",
     "settings.md: TT_CHUNK_VERSION is 12, not 2"),
    ("version_of_nothing", "docs", "docs/settings.md", "12 (`TT_GONE_VERSION`)\n", "TT_GONE_VERSION is nowhere, not 12"),
    ("export_without_map_entry", "docs", "include/tutti/tutti.h", "TUTTI_EXPORT int *\ntutti_two(void);\n",
     "tutti_two is exported by a public header and not here"),
    ("map_entry_without_export", "docs", "src/libtutti.map", "tutti_three;\n", "tutti_three is in no public header"),
    ("place_in_a_file_that_is_gone", "docs", "docs/ARCHITECTURE.md", "| this? | `src/base/gone.c` | |\n",
     "ARCHITECTURE.md:8: there is no file src/base/gone.c"),
    ("place_beside_a_file_that_is_there", "docs", "docs/ARCHITECTURE.md",
     "| this? | `src/base/clock.h`, `gone.h` | |\n", "there is no file src/base/gone.h"),
    ("place_of_a_word_that_is_gone", "docs", "docs/ARCHITECTURE.md", "| this? | `src/base/clock.h` | `tim` |\n",
     "tim is not in src/base/clock.h"),
    ("place_that_is_no_row", "docs", "docs/ARCHITECTURE.md", "| this? | `src/base/clock.h` | `time` | |\n",
     "a row of 4 cells"),
    ("places_without_a_row", "docs", "docs/ARCHITECTURE.md", None, "no row of places was found"),
    ("path_of_a_machine", "docs", "docs/settings.md", "see /work" + "/main\n", "names a directory of one machine"),
    ("source_without_licence", "docs", "src/base/new.c", None, "does not begin with"),
]

# Records of a meson test log, and what must come out of them.
COUNTED = [
    ("cmocka_cases_are_counted", {"result": "FAIL", "returncode": 1,
                                  "stdout": "[==========] Running 4 test(s).\n[ RUN      ] a\nskipped: no net\n"
                                            "[  SKIPPED ] a\n[  FAILED  ] b\n",
                                  "stderr": "[  PASSED  ] 2 test(s).\n[  SKIPPED ] 1 test(s), listed below:\n"
                                            "[  SKIPPED ] a\n[  FAILED  ] 1 test(s), listed below:\n[  FAILED  ] b\n"},
     ["2 passed, 1 failed, 1 skipped", "SKIPPED t: a: no net", "FAILED  t: b"]),
    ("failed_case_says_why", {"result": "FAIL", "returncode": 2,
                              "stdout": "[==========] Running 3 test(s).\n[ RUN      ] a\n[       OK ] a\n[ RUN      ] b\n"
                                        "[  ERROR   ] --- 1 != 2\n[   LINE   ] --- ../tests/unit/x.c:96: error: Failure!\n"
                                        "[  FAILED  ] b\n[ RUN      ] c\n[  ERROR   ] --- [   LINE   ] --- y.c:7: error: "
                                        "Failure!\n[  FAILED  ] c\n",
                              "stderr": "rank 1, z.c:5: not so: n == 3\n[  PASSED  ] 1 test(s).\n"
                                        "[  FAILED  ] 2 test(s), listed below:\n[  FAILED  ] b\n[  FAILED  ] c\n"},
     ["1 passed, 2 failed", "FAILED  t: b: x.c:96: 1 != 2; rank 1, z.c:5: not so: n == 3",
      "FAILED  t: c: y.c:7; rank 1"]),
    ("crash_counts_as_failure", {"result": "FAIL", "returncode": -11, "stdout": "[==========] Running 4 test(s).\n"},
     ["0 passed, 1 failed", "exit status -11"]),
    ("leak_at_exit_counts_as_failure", {"result": "FAIL", "returncode": 23, "stdout": "[==========] x\n",
                                        "stderr": "[  PASSED  ] 3 test(s).\n"}, ["3 passed, 1 failed"]),
    ("silence_counts_as_failure", {"result": "OK", "returncode": 0, "stdout": "hello\n"}, ["0 passed, 1 failed"]),
    ("timeout_counts_as_failure", {"result": "TIMEOUT", "returncode": 1, "stdout": ""}, ["0 passed, 1 failed"]),
    ("script_says_its_counts", {"result": "OK", "returncode": 0, "stdout": "skipped: no rxe\n7 passed, 0 failed, 1 skipped\n"},
     ["7 passed, 0 failed, 1 skipped", "SKIPPED t: no rxe"]),
    ("script_that_ends_badly_after_its_counts", {"result": "FAIL", "returncode": 1, "stdout": "7 passed, 0 failed\n"},
     ["7 passed, 1 failed"]),
]

# Lines of a file of allowed skips, and what must come out of the first record of COUNTED with them.
ALLOWED = [
    ("skip_that_is_allowed_is_a_skip", "# why\n\nt: \\w: no net\n",
     ["2 passed, 1 failed, 1 skipped", "SKIPPED t: a: no net"]),
    ("skip_that_is_not_allowed_is_a_failure", "t: b: no net\n",
     ["2 passed, 2 failed", "FAILED  t: a: no net (this skip"]),
    ("skip_is_allowed_as_a_whole", "t: a: no\n", ["2 passed, 2 failed", "FAILED  t: a: no net (this skip"]),
]

# A tree with a few of everything that structure.py counts, beside what it must not count, and its figures.
STRUCTURE = {
    "src/proto/collective.h": "struct tt_collective_config {\n    bool other;\n};\n"
                              "struct tt_collective { /* bool not_this; */\n    bool a, b;\n"
                              "    uint32_t sizes[2], count;\n    struct {\n        bool inner;\n    } nested;\n"
                              "    bool *pointer;\n};\n"
                              "static inline bool tt_collective_is_tree(int m)\n{\n"
                              "    return m == TT_METHOD_TREE;\n}\n",
    "src/proto/method_tree.c": "int tree(int m)\n{\n    return m == TT_METHOD_TREE;\n}\n",
    "src/proto/receive.c": "bool tt_collective_is_tree(int m); /* m == TT_METHOD_RING */\n"
                           "struct row row = {.method = TT_METHOD_RING};\n_Static_assert(1, \"assert(\");\n"
                           "int tt_row_check(int m)\n{\n    assert(m);\n    switch (m) {\n    case TT_METHOD_RING:\n"
                           "        return tt_collective_is_tree(m) ? TT_METHOD_TREE : TT_METHOD_RING;\n    }\n"
                           "    log(\"== TT_BROADCAST\");\n"
                           "    return m != TT_METHOD_TREE && TT_ALLGATHER ==\n           m && m << TT_BROADCAST;\n}\n",
    "src/engine/one.c": "int tt_two(void);\nint tt_one(void)\n{\n    return tt_two();\n}\n",
    "src/engine/two.c": "int tt_one(void);\nint tt_two(void)\n{\n    return tt_one();\n}\n",
    "src/engine/over.c": "int tt_one(void);\nint tt_over(void)\n{\n    return tt_one() + tt_row_check(1);\n}\n",
    "src/fabric/away.c": "int tt_away(void)\n{\n    return TT_METHOD_RING == 1;\n}\n",
    "tests/unit/test_one.c": "int x;\n",
}
FIGURES = {
    "method tests": 4,
    "largest circle in engine": 2,
    "fields of struct tt_collective": 6,
    "of these, bools": 2,
    "checks a function in proto": round(2 / 3, 2),
    "checks a function in engine": round(1 / 3, 2),
    "lines of proto and engine": 16 + 5 + 15 + 3 * 6,
    "lines of their tests": 2,
}


def write_tree(root, changes):
    write_files(root, {**CLEAN, **changes})


def write_files(root, files):
    for path, text in files.items():
        path = os.path.join(root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        licence = LICENCE if path.endswith((".c", ".h")) and not path.endswith("base/new.c") else ""
        with open(path, "w", encoding="utf-8") as file:
            file.write(licence + (text or "int y;\n"))


def run(script, *arguments):
    result = subprocess.run([sys.executable, os.path.join(ROOT, "tools", script), *arguments],
                            capture_output=True, text=True, check=False)
    return result.returncode, result.stdout + result.stderr


def planted_case(script, path, text, expected):
    """None, or what is wrong."""
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, {})
        status, output = run(f"lint_{script}.py", root)
        if status != 0:
            return f"the clean tree is not clean: {output}"
        write_tree(root, {path: CLEAN.get(path, "") + text if text else None})
        status, output = run(f"lint_{script}.py", root)
        if status != 1 or expected not in output:
            return f"expected '{expected}' and status 1, got status {status}: {output}"
    return None


def counted_case(record, expected):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write(json.dumps({"name": "t", **record}) + "\n")
        file.flush()
        status, output = run("count_tests.py", file.name)
    should_fail = ", 0 failed" not in expected[0]
    missing = [text for text in expected if text not in output]
    if missing or (status != 0) != should_fail or not output.rstrip().endswith(expected[0]):
        return f"expected {expected}, got status {status}: {output}"
    return None


def allowed_case(lines, expected, record=COUNTED[0][1]):
    with tempfile.NamedTemporaryFile("w", suffix=".json") as log, tempfile.NamedTemporaryFile("w") as allowed:
        log.write(json.dumps({"name": "t", **record}) + "\n")
        log.flush()
        allowed.write(lines)
        allowed.flush()
        status, output = run("count_tests.py", "--allowed", allowed.name, log.name)
    missing = [text for text in expected if text not in output]
    if missing or status != 1 or not output.rstrip().endswith(expected[0]):
        return f"expected {expected}, got status {status}: {output}"
    return None


def symbols_case(source, expected):
    """Builds one object into the archive of a pure layer, as the build does: also for link-time optimisation."""
    with tempfile.TemporaryDirectory() as root:
        os.makedirs(os.path.join(root, "src"))
        c_file, object_file = os.path.join(root, "a.c"), os.path.join(root, "a.o")
        with open(c_file, "w", encoding="utf-8") as file:
            file.write(source)
        subprocess.run(["gcc", "-flto", "-ffat-lto-objects", "-c", c_file, "-o", object_file], check=True)
        subprocess.run(["ar", "rc", os.path.join(root, "src", "libtt_proto.a"), object_file], check=True)
        status, output = run("lint_symbols.py", root)
    if (expected is None and status != 0) or (expected is not None and (status != 1 or expected not in output)):
        return f"expected {expected or 'nothing'}, got status {status}: {output}"
    return None


def structure_case(built, expected):
    """Compiles these sources of the tree as meson would; expected are the figures, or what is said instead."""
    with tempfile.TemporaryDirectory() as root:
        write_files(root, STRUCTURE)
        build = os.path.join(root, "build")
        objects = os.path.join(build, "src", "libtt_engine.a.p")
        os.makedirs(objects)
        for name in built:
            subprocess.run(["gcc", "-c", "-w", os.path.join(root, "src", "engine", name), "-o",
                            os.path.join(objects, f"engine_{name}.o")], check=True)
        status, output = run("structure.py", "--build", build, "--json", root)
    if isinstance(expected, str):
        return None if status == 1 and expected in output else f"expected '{expected}', got status {status}: {output}"
    return None if status == 0 and json.loads(output) == expected else f"expected {expected}, got {status}: {output}"


def main():
    cases = [(name, planted_case, arguments) for name, *arguments in PLANTED]
    cases += [(name, counted_case, arguments) for name, *arguments in COUNTED]
    cases += [(name, allowed_case, arguments) for name, *arguments in ALLOWED]
    cases += [
        ("skip_without_a_name_is_a_failure", allowed_case,
         [".*\n", ["7 passed, 1 failed", "FAILED  t: 1 skipped without a name"],
          {"result": "OK", "returncode": 0, "stdout": "7 passed, 0 failed, 1 skipped\n"}]),
        ("memcpy_in_proto_is_allowed", symbols_case,
         ["#include <string.h>\nvoid tt_a(char *a, char *b, unsigned n) { memcpy(a, b, n); }\n", None]),
        ("malloc_in_proto_is_found", symbols_case,
         ["void *malloc(unsigned long);\nvoid *tt_a(void) { return malloc(7); }\n", "needs the symbol malloc"]),
        ("clock_in_proto_is_found", symbols_case,
         ["int clock_gettime(int, void *);\nint tt_a(void *t) { return clock_gettime(1, t); }\n", "clock_gettime"]),
        ("structure_is_counted", structure_case, [["one.c", "two.c", "over.c"], FIGURES]),
        ("files_without_a_circle_are_no_circle", structure_case,
         [["one.c", "over.c"], {**FIGURES, "largest circle in engine": 1}]),
        ("structure_that_is_not_built_is_not_counted", structure_case, [[], "no object of src/engine is built"]),
    ]
    failed = 0
    for name, body, arguments in cases:
        problem = body(*arguments)
        failed += problem is not None
        print(f"failed: {name}: {problem}" if problem else f"ok: {name}")
    print(f"{len(cases) - failed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
