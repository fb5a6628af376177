#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti plan`: what it prints, judged from outside, and what it refuses.

    cli_plan.py PROGRAM
"""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TUTTI, contains, environment, equal, main, tutti

ROOT = os.environ.get("MESON_SOURCE_ROOT", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

RDMC_REFUSED = [
    ("plan", "no kind of plan given"),
    ("plan --json", "unknown option '--json'"),
    ("plan --help me", "unexpected argument 'me'"),
    ("plan dinner", "unknown kind 'dinner'"),
    ("plan rdmc", "no number of members given (-n)"),
    ("plan rdmc -n 4", "no number of blocks given (-k)"),
    ("plan rdmc -n 0 -k 1", "-n '0': must be from 1 to 1048576"),
    ("plan rdmc -n 1048577 -k 1", "-n '1048577'"),
    ("plan rdmc -n four -k 1", "-n 'four': not a number"),
    ("plan rdmc -n -4 -k 1", "-n '-4': not a number"),
    ("plan rdmc -n 4 -k 0", "-k '0': must be from 1 to 4294967296"),
    ("plan rdmc -n 4 -k 4294967297", "-k '4294967297'"),
    ("plan rdmc -n 4 -k 99999999999999999999", "-k '99999999999999999999'"),
    ("plan rdmc -n 4 -k", "option '-k' needs a value"),
    ("plan rdmc -n 4 -k 1 --algorithm tree", "--algorithm 'tree': not an algorithm (sequential, chain"),
    ("plan rdmc -n 4 -k 1 --algorithm hybrid", "needs the sizes of the racks (--racks)"),
    ("plan rdmc -n 4 -k 1 --racks 2,2", "--racks '2,2': only with --algorithm hybrid, not binomial-pipeline"),
    ("plan rdmc -n 4 -k 1 --algorithm hybrid --racks 2,x", "--racks '2,x': 'x' is not a number of members"),
    ("plan rdmc -n 4 -k 1 --algorithm hybrid --racks 2,0,2", "'0' is not a number of members"),
    ("plan rdmc -n 4 -k 1 --algorithm hybrid --racks 2,,2", "'' is not a number of members"),
    ("plan rdmc -n 4 -k 1 --algorithm hybrid --racks 2,2,", "--racks '2,2,': '' is not"),
    ("plan rdmc -n 4 -k 1 --algorithm hybrid --racks 2,3", "--racks '2,3': 5 members in all, but -n is '4'"),
    ("plan rdmc -n 4 -k 1 --algorithm hybrid --racks 1,1", "--racks '1,1': 2 members in all, but -n is '4'"),
    ("plan rdmc -n 4 -k 1 --algorithm hybrid --racks 1,1,1,1,1,1", "6 members in all, but -n is '4'"),
    ("plan rdmc -n 4 -k 1 --algorithm hybrid --racks 4294967300", "'4294967300' is not a number of members"),
    ("plan rdmc -n 4 -k 1 now", "unexpected argument 'now'"),
    ("plan rdmc -n 4 -k 1 --bogus", "unknown option '--bogus'"),
]

RDMC_ALGORITHMS = ("sequential", "chain", "binomial-tree", "binomial-pipeline", "hybrid")


def log2_up(count):
    return (count - 1).bit_length()


def rdmc_json(algorithm, members, blocks, racks=None):
    more = ["--racks", ",".join(map(str, racks))] if racks else []
    result = tutti("plan", "rdmc", "--algorithm", algorithm, "-n", members, "-k", blocks, "--json", *more)
    equal((result.returncode, result.stderr), (0, ""))
    return json.loads(result.stdout)


def check_schedule(plan, most_sends):
    """Carries a schedule out; every member must hold every block at the end, and no rule be broken on the way."""
    members, blocks = plan["members"], plan["blocks"]
    held = {(0, block): -1 for block in range(blocks)}  # and since which step
    sends, receives = {}, set()
    last = (0, 0)
    for move in plan["transfers"]:
        step, sender, target, block = (move[key] for key in ("step", "from", "to", "block"))
        equal((step, sender) >= last, True, f"order of {move}")
        last = (step, sender)
        equal(step < plan["steps"] and held.get((sender, block), step) < step, True, f"what the sender has: {move}")
        equal((target, block) in held, False, f"block again: {move}")
        equal((step, target) in receives, False, f"second block in a step: {move}")
        receives.add((step, target))
        sends[step, sender] = sends.get((step, sender), 0) + 1
        held[target, block] = step
    equal(len(held), members * blocks)
    equal(max(sends.values(), default=0) <= most_sends, True, "sends in a step")
    equal(plan["transfer_count"], len(plan["transfers"]))


def wrong_command_lines_of_rdmc_are_one_line_and_exit_status_2():
    for line, words in RDMC_REFUSED:
        result = tutti(*line.split())
        equal(result.returncode, 2, f"exit status of `tutti {line}`")
        equal(result.stdout, "", f"standard output of `tutti {line}`")
        equal(result.stderr.count("\n"), 1, f"lines of `tutti {line}`: {result.stderr!r}")
        contains(result.stderr, words)
    result = tutti("plan", "rdmc", "-n", "4", "-k", "1", TUTTI_CHUNKS="1")
    equal(result.returncode, 2)
    contains(result.stderr, "TUTTI_CHUNKS: no such setting")


def schedules_of_rdmc_reach_everybody_in_as_many_steps_as_the_paper_says():
    for members in (1, 2, 3, 7, 8, 13, 33):
        for blocks in (1, 2, 6):
            steps = {"sequential": blocks * (members - 1), "chain": blocks + members - 2,
                     "binomial-tree": blocks * log2_up(members), "binomial-pipeline": blocks + log2_up(members) - 1}
            for algorithm, count in steps.items():
                plan = rdmc_json(algorithm, members, blocks)
                equal((plan["algorithm"], plan["members"], plan["blocks"], plan["racks"]),
                      (algorithm, members, blocks, []))
                equal(plan["steps"], count if members > 1 else 0, f"steps of {algorithm}, {members}, {blocks}")
                check_schedule(plan, 1)


def hybrid_crosses_between_racks_once_a_block():
    for racks, largest in (([4, 4, 8], 8), ([1, 3], 3), ([5, 2, 6, 1, 4], 6)):
        plan = rdmc_json("hybrid", sum(racks), 9, racks)
        equal(plan["racks"], racks)
        equal(plan["steps"], 9 + log2_up(len(racks)) + log2_up(largest))
        check_schedule(plan, 2)
        rack_of = [rack for rack, size in enumerate(racks) for _ in range(size)]
        crossing = [move for move in plan["transfers"] if rack_of[move["from"]] != rack_of[move["to"]]]
        equal(len(crossing), 9 * (len(racks) - 1))


def table_says_the_same_as_json():
    for algorithm in RDMC_ALGORITHMS:
        racks = ["--racks", "3,5,2"] if algorithm == "hybrid" else []
        text = tutti("plan", "rdmc", "--algorithm", algorithm, "-n", 10, "-k", 4, *racks)
        equal((text.returncode, text.stderr), (0, ""))
        rows = [tuple(map(int, line.split())) for line in text.stdout.splitlines() if not line.startswith("#")]
        plan = rdmc_json(algorithm, 10, 4, [3, 5, 2] if racks else None)
        equal(rows, [tuple(move.values()) for move in plan["transfers"]])
        contains(text.stdout, f"# {algorithm}: members 10, blocks 4, ")
        contains(text.stdout, f"steps {plan['steps']}, transfers 36\n")


def small_plans_are_drawn_as_they_are():
    text = tutti("plan", "rdmc", "-n", 7, "-k", 5).stdout
    drawn = set()
    for line in text.splitlines():
        found = re.match(r"# +(\d+)((?: +(?:\.|\d+<\d+))+)$", line)
        if found:
            for step, cell in enumerate(found[2].split()):
                if cell != ".":
                    block, sender = cell.split("<")
                    drawn.add((step, int(sender), int(found[1]), int(block)))
    equal(drawn, {tuple(move.values()) for move in rdmc_json("binomial-pipeline", 7, 5)["transfers"]})
    contains(text, "#   step    0    1    2    3    4    5    6\n")
    contains(text, "#      0    .    .    .    .    .    .    .\n")


def drawings_need_room():
    def is_drawn(*arguments):
        text = tutti("plan", "rdmc", *arguments).stdout
        equal(max(map(len, text.splitlines())) <= 120, True, "width")
        return "What each member receives" in text
    equal(is_drawn("-n", 16, "-k", 8), True)
    equal(is_drawn("-n", 17, "-k", 1), False)
    equal(is_drawn("-n", 16, "-k", 100), False)
    equal(is_drawn("-n", 8, "-k", 40, "--algorithm", "sequential"), False)
    equal(is_drawn("-n", 1, "-k", 4), False)


def large_plans_stream():
    line = f"'{TUTTI}' plan rdmc -n 65537 -k 4294967296 | head -1000 | tail -1"
    result = subprocess.run(["bash", "-c", line], env=environment(), capture_output=True, text=True, timeout=120, check=False)
    equal(result.stderr, "")
    step, sender, target, block = map(int, result.stdout.split())
    equal((0 < step < 20, sender < 65537, target < 65537, block < 20), (True, True, True, True), result.stdout)
    with open("/dev/full", "w", encoding="ascii") as full:
        result = subprocess.run([TUTTI, "plan", "rdmc", "-n", "65536", "-k", "4294967296", "--json"], env=environment(),
                                stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    equal(result.returncode, 1)
    contains(result.stderr, "standard output: write error")


def help_of_plan_and_rdmc_goes_to_standard_output():
    result = tutti("plan", "--help")
    equal((result.returncode, result.stderr), (0, ""))
    contains(result.stdout, "Usage: tutti plan KIND")
    contains(result.stdout, "\n  rdmc ")
    own = tutti("plan", "rdmc", "--help")
    equal((own.returncode, own.stderr), (0, ""))
    contains(own.stdout, "Usage: tutti plan rdmc")
    equal(tutti("plan", "rdmc", "-h").stdout, own.stdout)
    contains(tutti("--help").stdout, "\n  plan ")


def options_in_manual(kind):
    """Of the part of the manual that is about this kind of plan."""
    with open(os.path.join(ROOT, "docs", "man", "tutti-plan.1"), encoding="utf-8") as file:
        part = re.split(r"^\.Ss ", file.read().split(".Sh DESCRIPTION")[1].split(".Sh EXIT STATUS")[0], flags=re.M)
    lines = next(section for section in part if section.startswith(f"The kind {kind}\n")).splitlines()
    return {"-" + word for line in lines if line.startswith(".It Fl ")
            for word in re.findall(r"(?:Fl|,) (-?[\w-]+)", line)}


def options_in_help(kind):
    text = tutti("plan", kind, "--help").stdout.split("Options:\n")[1]
    return set(re.findall(r"^  (-\w)\b", text, re.M)) | set(
        re.findall(r"(--[\w-]+)", "\n".join(line[:28] for line in text.splitlines())))


def manual_and_help_of_rdmc_list_the_same_options():
    equal(options_in_manual("rdmc"), options_in_help("rdmc"))


main([
    wrong_command_lines_of_rdmc_are_one_line_and_exit_status_2,
    schedules_of_rdmc_reach_everybody_in_as_many_steps_as_the_paper_says,
    hybrid_crosses_between_racks_once_a_block,
    table_says_the_same_as_json,
    small_plans_are_drawn_as_they_are,
    drawings_need_room,
    large_plans_stream,
    help_of_plan_and_rdmc_goes_to_standard_output,
    manual_and_help_of_rdmc_list_the_same_options,
])
