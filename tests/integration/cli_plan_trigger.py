#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti plan trigger`: the printed descriptors of all ranks, carried out here, do what the collective means.

    cli_plan_trigger.py PROGRAM
"""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TUTTI, contains, environment, equal, main, tutti

ROOT = os.environ.get("MESON_SOURCE_ROOT", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
PAIRS = {
    "barrier": ["dissemination"],
    "broadcast": ["binomial", "double-tree"],
    "reduce": ["binomial", "rabenseifner"],
    "allreduce": ["recursive-doubling", "rabenseifner", "ring"],
    "reduce-scatter": ["ring", "recursive-halving", "direct"],
    "allgather": ["ring", "recursive-doubling"],
    "gather": ["binomial", "direct"],
    "scatter": ["binomial", "direct"],
}
ALGORITHMS = sorted({algorithm for algorithms in PAIRS.values() for algorithm in algorithms})
ROOTED = ("broadcast", "reduce", "gather", "scatter")


def plan(collective, algorithm, ranks, rank, *more):
    result = tutti("plan", "trigger", "-c", collective, "-a", algorithm, "-n", ranks, "-r", rank, "--json", *more)
    equal((result.returncode, result.stderr), (0, ""), f"{collective}, {algorithm}, {ranks} ranks, rank {rank}")
    return json.loads(result.stdout)


def fire(rank, state, packets):
    """One descriptor of a rank, if its packets are there. Knows the fields, and no algorithm."""
    descriptor = state["descriptors"][state["at"]]
    keys = [(rank, source, (state["read"] + i) % 32) for i, source in enumerate(descriptor["sources"])]
    if not all(packets.get(key) for key in keys):
        return False
    first, length = descriptor["address"], descriptor["length"]
    for key in keys:
        data, ends = packets[key].pop(0)
        own = state["data"][first:first + length]
        if descriptor["ReduceFlag"]:
            data = [a + b for a, b in zip(own, data, strict=True)]
        if descriptor["ReduceFlag"] or descriptor["SwapLocalData"]:
            state["data"][first:first + length] = data
        state["read"] += 1
        done = descriptor["CT"] and not descriptor["CP"] and key == keys[-1]
        equal(ends, done, f"CollEndFlag of a packet to rank {rank}")
    equal(descriptor["CPCount"], state["read"] % 64)
    if descriptor["CP"]:
        key = (descriptor["DestID"], rank, descriptor["SeqID"])
        packets.setdefault(key, []).append((state["data"][first:first + length], descriptor["CollEndFlag"]))
    state["at"] += 1
    return True


def carry_out(sequences, data):
    """The ranks' data when all descriptors have fired."""
    states = [{"descriptors": sequence, "at": 0, "read": 0, "data": list(own)} for sequence, own in zip(sequences, data)]
    packets, moved = {}, True
    while moved:
        moved = False
        for rank, state in enumerate(states):
            while state["at"] < len(state["descriptors"]) and fire(rank, state, packets):
                moved = True
    equal([state["at"] for state in states], [len(state["descriptors"]) for state in states], "descriptors that fired")
    equal([key for key, waiting in packets.items() if waiting], [], "packets that nobody reads")
    return [state["data"] for state in states]


def block(size, ranks, rank):
    each, longer = divmod(size, ranks)
    first = rank * each + min(rank, longer)
    return slice(first, first + each + (rank < longer))


def check_results(collective, ranks, root, size, before, after):
    sums = [sum(column) for column in zip(*before)]
    for rank in range(ranks):
        own = block(size, ranks, rank)
        if collective in ("allreduce",) or (collective == "reduce" and rank == root):
            equal(after[rank], sums)
        elif collective == "broadcast":
            equal(after[rank], before[root])
        elif collective == "reduce-scatter":
            equal(after[rank][own], sums[own])
        elif collective == "scatter":
            equal(after[rank][own], before[root][own])
        elif collective == "allgather" or (collective == "gather" and rank == root):
            for other in range(ranks):
                equal(after[rank][block(size, ranks, other)], before[other][block(size, ranks, other)])


def descriptors_of_all_ranks_do_what_the_collective_means():
    runs = 0
    for collective, algorithms in PAIRS.items():
        for algorithm in algorithms:
            for ranks in (1, 2, 3, 4, 6, 7, 8):
                for size in (0, 2, 3 * ranks + 1):
                    root = ranks - 1 if collective in ROOTED else 0
                    more = ["--bytes", size] if collective != "barrier" else []
                    more += ["--root", root] if collective in ROOTED else []
                    sequences = [plan(collective, algorithm, ranks, rank, *more)["descriptors"]
                                 for rank in range(ranks)]
                    for rank, sequence in enumerate(sequences):
                        equal([row["CH"] for row in sequence], [True] + [False] * (len(sequence) - 1), f"rank {rank}")
                        equal([row["CT"] for row in sequence], [False] * (len(sequence) - 1) + [True], f"rank {rank}")
                    before = [[1000 * rank + i * i for i in range(size)] for rank in range(ranks)]
                    check_results(collective, ranks, root, size, before, carry_out(sequences, before))
                    runs += 1
    equal(runs, 17 * 7 * 3)


def a_sequence_that_is_changed_does_not_pass():
    sequences = [plan("allreduce", "recursive-doubling", 4, rank, "--bytes", 4)["descriptors"] for rank in range(4)]
    equal(plan("allreduce", "recursive-doubling", 4, 0, "--bytes", "2K"),
          plan("allreduce", "recursive-doubling", 4, 0, "--bytes", 2048))
    before = [[rank] * 4 for rank in range(4)]
    equal(carry_out(sequences, before), [[6] * 4] * 4)
    sequences[2][1]["SeqID"] += 1
    try:
        carry_out(sequences, before)
    except AssertionError:
        return
    raise AssertionError("a wrong SeqID went unnoticed")


def table_holds_the_same_fields_as_json():
    for collective, algorithm, ranks, rank in (("allreduce", "rabenseifner", 6, 3), ("reduce", "binomial", 12, 8),
                                               ("allgather", "ring", 20, 19)):
        text = tutti("plan", "trigger", "-c", collective, "-a", algorithm, "-n", ranks, "-r", rank)
        equal((text.returncode, text.stderr), (0, ""))
        lines = [line.split() for line in text.stdout.splitlines() if not line.startswith("#")]
        found = plan(collective, algorithm, ranks, rank)
        expected = [[str(int(row[name])) for name in
                     ("C", "CH", "CT", "CP", "CPCount", "SwapLocalData", "SwapLocalVP", "SwapRemoteData",
                      "SwapRemoteAddr", "ReduceFlag", "CollEndFlag")]
                    + ([str(row["SeqID"]), str(row["DestID"])] if row["CP"] else ["-", "-"])
                    + [str(row["address"]), str(row["length"]), ",".join(map(str, row["sources"])) or "-"]
                    for row in found["descriptors"]]
        equal(lines, expected, collective)
        contains(text.stdout, f"# {collective} by {algorithm}: ranks {ranks}, rank {rank}, ")
        contains(text.stdout, f"descriptors {len(expected)}\n")


def few_ranks_are_drawn():
    text = tutti("plan", "trigger", "-c", "allreduce", "-a", "recursive-doubling", "-n", 4, "-r", 0).stdout
    drawn = [line.split() for line in text.splitlines() if re.match(r"#\s+\d", line)]
    equal(drawn, [["#", "0", ">1", "+1", ">2", "+2"], ["#", "1", ">0", "+0", ">3", "+3"],
                  ["#", "2", ">3", "+3", ">0", "+0"], ["#", "3", ">2", "+2", ">1", "+1"]])
    text = tutti("plan", "trigger", "-c", "barrier", "-a", "dissemination", "-n", 3, "-r", 0).stdout
    contains(text, "#      0  >1 *2  >2 *1\n")
    contains(text, "# barrier by dissemination: ranks 3, rank 0, bytes 0, descriptors ")
    text = tutti("plan", "trigger", "-c", "broadcast", "-a", "binomial", "-n", 4, "-r", 0).stdout
    contains(text, "#      0  >2  >1\n")
    for ranks, expected in ((1, False), (2, True), (16, True), (17, False)):
        text = tutti("plan", "trigger", "-c", "barrier", "-a", "dissemination", "-n", ranks, "-r", 0).stdout
        equal("at each step" in text, expected, f"{ranks} ranks")
    text = tutti("plan", "trigger", "-c", "allreduce", "-a", "ring", "-n", 16, "-r", 0).stdout
    equal("at each step" in text, False, "30 steps of a ring")


def long_sequences_number_packets_modulo_32():
    rows = plan("allreduce", "ring", 40, 7)["descriptors"]
    equal([row["SeqID"] for row in rows if row["CP"]], [i % 32 for i in range(78)])
    equal(rows[-1]["CPCount"], 78 % 64)


# A command line, and the words of it that the one line on standard error must hold.
REFUSED = [
    ("", "no collective given"),
    ("-c barrier", "no algorithm given"),
    ("-c barrier -a dissemination", "no number of ranks given"),
    ("-c barrier -a dissemination -n 4", "no rank given"),
    ("-c barriers -a dissemination -n 4 -r 0", "--collective 'barriers': not one of barrier, broadcast"),
    ("-c barrier -a dissolution -n 4 -r 0", "--algorithm 'dissolution': not one of dissemination"),
    ("-c barrier -a ring -n 4 -r 0", "--algorithm 'ring': there is no barrier by it"),
    ("-c barrier -a dissemination -n 0 -r 0", "-n '0': must be from 1 to 65536"),
    ("-c barrier -a dissemination -n 65537 -r 0", "-n '65537'"),
    ("-c barrier -a dissemination -n 4 -r 4", "--rank '4': there are ranks 0 to 3"),
    ("-c barrier -a dissemination -n 4 -r -1", "--rank '-1'"),
    ("-c barrier -a dissemination -n 4 -r 0 --root 0", "--root '0': barrier has none"),
    ("-c reduce -a binomial -n 4 -r 0 --root 4", "--root '4': there are ranks 0 to 3"),
    ("-c reduce -a binomial -n 4 -r 0 --bytes 3G", "--bytes '3G': must be from 0 to 2G"),
    ("-c reduce -a binomial -n 4 -r 0 --bytes 3Q", "--bytes '3Q': not a size"),
    ("-c barrier -a dissemination -n 4 -r 0 --bytes 8", "--bytes '8': a barrier has no data"),
    ("-c reduce -a binomial -n 4 -r", "option '-r' needs a value"),
    ("-c reduce -a binomial -n 4 -r 0 now", "unexpected argument 'now'"),
    ("-c reduce -a binomial -n 4 -r 0 --bogus", "unknown option '--bogus'"),
]


def bad_command_lines_are_one_line_and_exit_status_2():
    for line, words in REFUSED:
        result = tutti("plan", "trigger", *line.split())
        equal((result.returncode, result.stdout), (2, ""), f"`tutti plan trigger {line}`")
        equal(result.stderr.count("\n"), 1, f"lines of `{line}`: {result.stderr!r}")
        contains(result.stderr, words)
        contains(result.stderr, "tutti plan trigger: ")


def pairs_that_there_are_not_are_refused():
    for collective, algorithms in PAIRS.items():
        for algorithm in ALGORITHMS:
            result = tutti("plan", "trigger", "-c", collective, "-a", algorithm, "-n", 4, "-r", 0)
            equal(result.returncode, 0 if algorithm in algorithms else 2, f"{collective} by {algorithm}")


def manual_and_help_list_the_same_options():
    own = tutti("plan", "trigger", "--help")
    equal((own.returncode, own.stderr), (0, ""))
    contains(tutti("plan", "--help").stdout, "  trigger ")
    text = own.stdout.split("Options:\n")[1]
    in_help = set(re.findall(r"^ *(-\w),", text, re.M)) | set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.M))
    with open(os.path.join(ROOT, "docs", "man", "tutti-plan.1"), encoding="utf-8") as file:
        section = file.read().split(".Ss The kind trigger\n")[1].split(".Sh ")[0]
    in_manual = {"-" + word for line in re.findall(r"^\.It (Fl .*)$", section, re.M)
                 for word in re.findall(r"(?:Fl|,) (-?[\w-]+)", line)}
    equal(in_manual, in_help)
    # Each collective with its algorithms, and no other.
    listed = section.split(".It Fl c ,")[1].split(".El\n")[0].split(".It Cm ")[1:]
    equal({part.split("\n")[0]: re.findall(r"^\.Cm ([\w-]+)", part, re.M) for part in listed}, PAIRS)
    one_of = section.split(".It Fl a ,")[1].split(".It ")[0]
    equal(sorted(re.findall(r"^\.Cm ([\w-]+)", one_of, re.M)), ALGORITHMS)


def output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "w", encoding="ascii") as full:
        result = subprocess.run([TUTTI, *"plan trigger -c barrier -a dissemination -n 4 -r 0".split()],
                                env=environment(), stdout=full, stderr=subprocess.PIPE, text=True, timeout=120,
                                check=False)
    equal(result.returncode, 1)
    contains(result.stderr, "standard output: write error")


main([
    descriptors_of_all_ranks_do_what_the_collective_means,
    a_sequence_that_is_changed_does_not_pass,
    table_holds_the_same_fields_as_json,
    few_ranks_are_drawn,
    long_sequences_number_packets_modulo_32,
    bad_command_lines_are_one_line_and_exit_status_2,
    pairs_that_there_are_not_are_refused,
    manual_and_help_list_the_same_options,
    output_that_cannot_be_written_is_a_failure,
])
