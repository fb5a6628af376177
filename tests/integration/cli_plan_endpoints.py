#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti plan endpoints` as a user meets it. What it computes has its own tests (tests/unit/test_endpoint_plan.c).

    cli_plan_endpoints.py PROGRAM
"""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TUTTI, contains, environment, equal, main, tutti

ROOT = os.environ.get("MESON_SOURCE_ROOT", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
CATEGORIES = ("mpi-everywhere", "2xdynamic", "dynamic", "shared-dynamic", "static", "mpi+threads")


def rows(*arguments):
    result = tutti("plan", "endpoints", *arguments, "--json")
    equal((result.returncode, result.stderr), (0, ""), arguments)
    return [json.loads(line) for line in result.stdout.splitlines()]


def sixteen_threads_take_the_papers_share_of_uuars():
    found = rows("--threads", 16, "--driver", "legacy")
    equal([row["uuars_allocated"] for row in found], [256, 80, 48, 32, 16, 16])
    equal([row["uuars_percent"] for row in found], [100, 31.25, 18.75, 12.5, 6.25, 6.25])
    equal([row["sharing_level"] for row in found], [1, 1, 1, 2, 3, 4])


def ranks_and_queue_pairs_reach_the_plan():
    found = rows("--threads", 4, "--ranks", 4, "--queue-pairs-per-thread", 2, "--driver", "legacy")
    equal([row["category"] for row in found], list(CATEGORIES))
    equal([row["uar_pages"] for row in found], [128, 96, 64, 48, 32, 32])
    equal([row["queue_pairs"] for row in found], [32, 64, 32, 32, 32, 8])


def one_category_is_one_row_and_the_driver_of_today_is_the_default():
    for category in CATEGORIES:
        found = rows("--threads", 7, "--category", category)
        equal([(row["category"], row["driver"]) for row in found], [(category, "current")])


def table_holds_the_same_figures_as_json():
    table = tutti("plan", "endpoints", "--threads", 16, "--driver", "legacy")
    equal((table.returncode, table.stderr), (0, ""))
    lines = {line.split()[0]: line.split() for line in table.stdout.splitlines() if line}
    for row in rows("--threads", 16, "--driver", "legacy"):
        equal([int(cell) for cell in lines[row["category"]][1:13]],
              [row[name] for name in ("contexts", "protection_domains", "memory_regions", "queue_pairs",
                                      "completion_queues", "thread_domains", "idle_domains", "uar_pages",
                                      "uuars_allocated", "uuars_used", "uuars_wasted", "bytes")], row["category"])


def what_is_too_much_is_named():
    output = tutti("plan", "endpoints", "-t", 1100, "-d", "legacy").stdout
    contains(output, "mpi-everywhere: 8800 pages; the paper's NIC (ConnectX-4) has 8192\n")
    contains(output, "dynamic: 1100 pages for thread domains in a context; this driver gives 512\n")
    found = {row["category"]: row for row in rows("-t", 1100, "-d", "legacy")}
    equal((found["dynamic"]["fits_context"], found["dynamic"]["fits_nic"]), (False, True))
    equal((found["mpi-everywhere"]["fits_context"], found["mpi-everywhere"]["fits_nic"]), (True, False))


def assignment_is_the_papers_policy_queue_by_queue():
    found = rows("--threads", 16, "--driver", "legacy", "--assignment")
    equal([row["uuar"] for row in found], [12, 13, 14, 15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 1])
    equal([row["queue_pair"] for row in found], list(range(16)))
    equal((found[4]["uuar"], found[15]["uuar"], found[15]["queue_pairs_there"], found[15]["shares"]),
          (1, 1, 2, "uUAR"))
    equal([row["locked"] for row in found], [False] * 4 + [True] * 12)
    text = tutti("plan", "endpoints", "--threads", 16, "--driver", "legacy", "--assignment").stdout
    equal(len(text.splitlines()), 16 + 3)


def assignment_follows_the_drivers_settings():
    found = rows("-t", 7, "-d", "legacy", "--assignment", "--total-uuars", 6, "--low-latency-uuars", 2)
    equal([row["uuar"] for row in found], [4, 5, 1, 2, 3, 1, 2])  # figure 16
    found = rows("-t", 18, "-d", "legacy", "--assignment", "--low-latency-uuars", 15)
    equal([row["uuar"] for row in found], [*range(1, 16), 0, 0, 0])
    equal(found[17]["class"], "high-latency")


def assignment_of_the_current_driver_takes_pages_one_by_one():
    found = rows("-t", 17, "--assignment")
    equal([row["page"] for row in found], [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 3])
    equal({row["class"] for row in found[:4]}, {"dedicated"})
    equal({row["class"] for row in found[4:]}, {"shared"})


def assignment_shows_idle_queue_pairs_and_those_of_all():
    found = rows("-t", 2, "--assignment", "--category", "2xdynamic")
    equal([row["idle"] for row in found], [False, True, False, True])
    equal(len({row["page"] for row in found}), 4)
    found = rows("-t", 2, "--assignment", "--category", "mpi+threads")
    equal([(row["thread"], row["shares"]) for row in found], [(None, "queue pair")])


# A command line, and the words of it that the one line on standard error must hold.
REFUSED = [
    ("", "no number of threads given"),
    ("--threads 0", "--threads '0'"),
    ("--threads 4097", "--threads '4097'"),
    ("--threads sixteen", "--threads 'sixteen'"),
    ("--threads -1", "--threads '-1'"),
    ("--threads", "option '--threads' needs a value"),
    ("-t 4 --category statical", "--category 'statical'"),
    ("-t 4 --category Static", "--category 'Static'"),
    ("-t 4 --driver mlx4", "--driver 'mlx4'"),
    ("-t 4 --ranks 0", "--ranks '0'"),
    ("-t 4 --ranks 65537", "--ranks '65537'"),
    ("-t 4 --queue-pairs-per-thread 0", "--queue-pairs-per-thread '0'"),
    ("-t 4 --queue-pairs-per-thread 65", "--queue-pairs-per-thread '65'"),
    ("-t 4 --total-uuars 0", "--total-uuars '0'"),
    ("-t 4 --total-uuars 15", "--total-uuars '15': must be even"),
    ("-t 4 --total-uuars 514", "--total-uuars '514'"),
    ("-t 4 --low-latency-uuars 16", "--low-latency-uuars '16'"),
    ("-t 4 --low-latency-uuars 512", "--low-latency-uuars '512'"),
    ("-t 4 --total-uuars 4", "--low-latency-uuars '4'"),
    ("-t 4 --assignment --ranks 2", "--ranks '2': not with --assignment"),
    ("-t 4 --json=yes", "'--json=yes': takes no value"),
    ("-t 4 --bogus", "unknown option '--bogus'"),
    ("-t 4 dynamic", "unexpected argument 'dynamic'"),
]


def bad_command_lines_are_one_line_and_exit_status_2():
    for line, words in REFUSED:
        result = tutti("plan", "endpoints", *line.split())
        equal((result.returncode, result.stdout), (2, ""), f"`tutti plan endpoints {line}`")
        equal(result.stderr.count("\n"), 1, f"lines of `{line}`: {result.stderr!r}")
        contains(result.stderr, words)
        contains(result.stderr, "tutti plan endpoints: ")


def help_goes_to_standard_output_and_is_listed_by_plan():
    own = tutti("plan", "endpoints", "--help")
    equal((own.returncode, own.stderr), (0, ""))
    contains(own.stdout, "Usage: tutti plan endpoints")
    contains(tutti("plan", "--help").stdout, "  endpoints ")


def manual_and_help_list_the_same_options():
    text = tutti("plan", "endpoints", "--help").stdout.split("Options:\n")[1]
    in_help = set(re.findall(r"^ *(-\w),", text, re.M)) | set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.M))
    with open(os.path.join(ROOT, "docs", "man", "tutti-plan.1"), encoding="utf-8") as file:
        section = file.read().split(".Ss The kind endpoints\n")[1]
    section = re.split(r"^\.S[hs] ", section, flags=re.M)[0]
    in_manual = {"-" + word for line in re.findall(r"^\.It (Fl .*)$", section, re.M)
                 for word in re.findall(r"(?:Fl|,) (-?[\w-]+)", line)}
    equal(in_manual, in_help)


def output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "w", encoding="ascii") as full:
        result = subprocess.run([TUTTI, "plan", "endpoints", "-t", "4"], env=environment(), stdout=full,
                                stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    equal(result.returncode, 1)
    contains(result.stderr, "standard output: write error")


def bad_value_in_the_environment_is_refused():
    result = tutti("plan", "endpoints", "-t", 4, TUTTI_CHUNK="12Q")
    equal((result.returncode, result.stdout), (2, ""))
    contains(result.stderr, "TUTTI_CHUNK=12Q")


main([
    sixteen_threads_take_the_papers_share_of_uuars,
    ranks_and_queue_pairs_reach_the_plan,
    one_category_is_one_row_and_the_driver_of_today_is_the_default,
    table_holds_the_same_figures_as_json,
    what_is_too_much_is_named,
    assignment_is_the_papers_policy_queue_by_queue,
    assignment_follows_the_drivers_settings,
    assignment_of_the_current_driver_takes_pages_one_by_one,
    assignment_shows_idle_queue_pairs_and_those_of_all,
    bad_command_lines_are_one_line_and_exit_status_2,
    help_goes_to_standard_output_and_is_listed_by_plan,
    manual_and_help_list_the_same_options,
    output_that_cannot_be_written_is_a_failure,
    bad_value_in_the_environment_is_refused,
])
