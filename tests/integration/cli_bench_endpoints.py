#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti bench msgrate`, `globalarray` and `stencil` as a user meets them where there is no RDMA device.

    cli_bench_endpoints.py PROGRAM

What they measure is tested over a provider in memory (tests/unit/test_bench_rdma.c) and in the guest.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TUTTI, contains, environment, equal, main, tutti

ROOT = os.environ.get("MESON_SOURCE_ROOT", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
KINDS = ("msgrate", "globalarray", "stencil")

# A command line, and the words of it that the one line on standard error must hold.
REFUSED = [
    ("msgrate -t 0", "--threads '0': must be from 1 to 4096"),
    ("msgrate -t many", "--threads 'many'"),
    ("msgrate -c fast", "--category 'fast': not one of mpi-everywhere,"),
    ("msgrate --driver old", "--driver 'old'"),
    ("msgrate now", "unexpected argument 'now'"),
    ("msgrate --tile 4", "unknown option '--tile'"),
    ("msgrate --device", "option '--device' needs a value"),
    ("msgrate --postlist 0", "--postlist '0'"),
    ("msgrate --postlist 6 --unsignalled 4", "--postlist '6', --unsignalled '4': one must divide the other"),
    ("msgrate --size 0", "--size '0'"),
    ("msgrate --size 2M", "--size '2M': must be from 1 to 1M"),
    ("msgrate --size 12Q", "--size '12Q'"),
    ("msgrate --size 2K --inline", "--size '2048': at most 1024 with --inline"),
    ("msgrate --share all", "--share 'all': not one of buf, ctx, pd, mr, cq, qp"),
    ("msgrate --share qp -c static", "--share 'qp': not with --category"),
    ("msgrate --ways 2", "--ways '2': only with --share"),
    ("msgrate -t 4 --share cq --ways 3", "--ways '3': does not divide the 4 threads"),
    ("msgrate --messages 10 --seconds 1", "--seconds '1': not with --messages"),
    ("globalarray --order 100 --tile 32", "--tile '32': does not divide the order 100"),
    ("globalarray --order 0", "--order '0'"),
    ("stencil -t 4 --ranks 3", "--ranks '3': does not divide the 4 threads"),
    ("stencil -t 3 --grid 512", "--grid '512': not a multiple of the 3 threads"),
    ("stencil --iterations 0", "--iterations '0'"),
]


def bad_command_lines_are_one_line_and_exit_status_2():
    for line, words in REFUSED:
        result = tutti("bench", *line.split())
        equal((result.returncode, result.stdout), (2, ""), f"`tutti bench {line}`: {result.stderr!r}")
        equal(result.stderr.count("\n"), 1, f"lines of `tutti bench {line}`: {result.stderr!r}")
        contains(result.stderr, words)
        contains(result.stderr, f"(see tutti bench {line.split()[0]} --help)")


def bad_settings_are_one_line_and_exit_status_2():
    for kind in KINDS:
        result = tutti("bench", kind, TUTTI_GID="first")
        equal((result.returncode, result.stderr.count("\n")), (2, 1), result.stderr)
        contains(result.stderr, "TUTTI_GID=first")


def without_its_device_each_says_what_makes_one_and_fails():
    for kind in KINDS:
        result = tutti("bench", kind, "--threads", 2, "--device", "none7")
        equal((result.returncode, result.stdout), (1, ""), kind)
        equal(result.stderr.count("\n"), 1, result.stderr)
        contains(result.stderr, f"tutti bench {kind}: ")
        if "no libibverbs" not in result.stderr and "cannot be loaded" not in result.stderr:
            contains(result.stderr, "none7: no such RDMA device")
            contains(result.stderr, "rdma_rxe")


def help_goes_to_standard_output():
    for kind in KINDS:
        result = tutti("bench", kind, "--help")
        equal((result.returncode, result.stderr), (0, ""), kind)
        contains(result.stdout, f"Usage: tutti bench {kind} [OPTION]...\n")
        contains(tutti("bench", "--help").stdout, kind)


def manual_and_help_list_the_same_options():
    with open(os.path.join(ROOT, "docs", "man", "tutti-bench.1"), encoding="utf-8") as file:
        section = file.read().split(".Ss Endpoints of an RDMA device\n")[1].split("\n.Sh ")[0]
    parts = dict(zip(("all", *KINDS), re.findall(r"^Options of all three:$.*?^\.El$|^Of\n.*?^\.El$", section, re.M | re.S)))
    equal(len(parts), 4)
    for kind in KINDS:
        text = tutti("bench", kind, "--help").stdout.split("Options:\n")[1]
        in_help = set(re.findall(r"^  (?:-\w, |    )--([\w-]+)", text, re.M))
        in_manual = set(re.findall(r"^\.It Fl (?:\w , )?-([\w-]+)", parts["all"] + parts[kind], re.M))
        equal(in_manual, in_help, f"options of {kind}")


def output_that_cannot_be_written_is_an_error():
    with open("/dev/full", "wb") as full:
        result = subprocess.run([TUTTI, "bench", "stencil", "--help"], env=environment(), stdout=full,
                                stderr=subprocess.PIPE, timeout=120, check=False)
    equal(result.returncode, 1)


main([
    bad_command_lines_are_one_line_and_exit_status_2,
    bad_settings_are_one_line_and_exit_status_2,
    without_its_device_each_says_what_makes_one_and_fails,
    help_goes_to_standard_output,
    manual_and_help_list_the_same_options,
    output_that_cannot_be_written_is_an_error,
])
