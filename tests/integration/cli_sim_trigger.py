#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti sim trigger`: simulated times are those of the model, repeat themselves, and lose no byte.

    cli_sim_trigger.py PROGRAM
"""
import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TUTTI, contains, environment, equal, main, tutti, within

ROOT = os.environ.get("MESON_SOURCE_ROOT", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
COSTS = ["net-ns", "jitter-ns", "io-ns", "cpu-ns", "poll-ns", "unit-ns", "net-rate", "io-rate", "unit-rate",
         "host-rate", "copy-rate", "cores"]


def simulate(*arguments):
    result = tutti("sim", "trigger", *arguments, "--json")
    equal((result.returncode, result.stderr), (0, ""), " ".join(map(str, arguments)))
    equal(result.stdout.count("\n"), 1)
    return json.loads(result.stdout)


def children(vertex, ranks):
    """Of a binomial tree, in the order in which they are sent to: the largest subtree first."""
    found, bit = [], 1
    while bit < ranks and not vertex & bit:
        if vertex + bit < ranks:
            found.append(vertex + bit)
        bit *= 2
    return found[::-1]


def broadcast_ns(ranks, costs, offloaded):
    """When the last rank ends, by the model alone: one element down a binomial tree of which nobody waits for a unit."""
    net, io, cpu, poll, unit = (costs[name] for name in ("net-ns", "io-ns", "cpu-ns", "poll-ns", "unit-ns"))
    each = 2 * (unit if offloaded else cpu)  # descriptors of the announcement and of the data
    first = unit if offloaded else 0
    way = (2 * io + net) + (io + 1 + net + io)  # announced, then sent
    back = 1 + net + (0 if offloaded else 2 * io)
    ends = []

    def arrive(vertex, time_ns):
        ready = time_ns + first + (poll if vertex and not offloaded else 0)
        below = children(vertex, ranks)
        answers = []
        for i, child in enumerate(below):
            arrived = ready + (i + 1) * each + way
            answers.append(arrived + first + (0 if offloaded else poll) + back + first)
            arrive(child, arrived)
        ends.append(max(answers, default=ready + first) + (io if offloaded else 0))

    arrive(0, cpu + io if offloaded else 0)
    return max(ends)


def broadcast_of_one_element_takes_what_the_model_says():
    rates = [f"--{name}" for name in COSTS if name.endswith("-rate")]
    rates = [word for name in rates for word in (name, 1000000)]
    for ranks in (1, 2, 3, 4, 8, 13, 16, 32):
        found = simulate("-c", "broadcast", "-a", "binomial", "-s", 8, "-n", ranks, "--lanes", 1, *rates)
        run = found["runs"][0]
        for model in ("host", "offload"):
            expected = broadcast_ns(ranks, found["costs"], model == "offload")
            equal(run[model]["time_ns"], expected, f"{ranks} ranks, {model}")
        equal(run["offload"]["data_bytes"], 8 * (ranks - 1))


def bytes_are_those_of_the_algorithm():
    size, jobs = 1 << 16, 4
    for collective, factor in (("broadcast", 31), ("allgather", 31), ("reduce", 2 * 31), ("allreduce", 2 * 31)):
        runs = simulate("-c", collective, "-s", size, "-j", jobs)["runs"]
        for model in ("host", "offload"):
            run = runs[0][model]
            equal(run["sent_bytes"], run["received_bytes"], collective)
            equal(run["sent_bytes"], run["data_bytes"] + 24 * run["packets"], collective)
            if collective != "reduce":
                equal(run["data_bytes"], jobs * size * factor, collective)
    # Halving: each rank sends 31 of 32 parts. Then the parts go up a tree: 5 times half of them is sent.
    equal(simulate("-c", "reduce", "-s", size)["runs"][0]["host"]["data_bytes"], size * 31 + size * 5 // 2)


def nothing_is_faster_than_a_port():
    for collective in ("broadcast", "reduce", "allreduce"):
        found = simulate("-c", collective, "-s", "64K,1M", "-j", "1,4", "--net-rate", 1000)
        for run in found["runs"]:
            least_ns = run["size"] * run["jobs"] / 1000 * 1000 * 31 / 32
            for model in ("host", "offload"):
                within(run[model]["time_ns"], least_ns, 20 * least_ns + 300000, f"{collective} {run['size']} {model}")
            within(run["offload"]["use_mean_percent"], 0, run["offload"]["use_most_percent"], collective)
            within(run["offload"]["use_most_percent"], 0, 115, collective)


def runs_repeat_themselves_and_seeds_differ():
    line = "-c allreduce -s 256-64K -j 1,8 -n 16 --skew 5000 --jitter-ns 2000 --seed".split()
    first = simulate(*line, 7)
    equal(simulate(*line, 7), first)
    if simulate(*line, 8)["runs"] == first["runs"]:
        raise AssertionError("the seed changes nothing")


def json_has_lists_in_order_and_models_as_asked():
    found = simulate("-c", "broadcast", "-s", "0,64,1K-4K", "-j", "2,1", "-n", 4)
    equal([(run["jobs"], run["size"]) for run in found["runs"]],
          [(jobs, size) for jobs in (2, 1) for size in (0, 64, 1024, 2048, 4096)])
    equal(list(found), ["collective", "algorithm", "root", "nodes", "units", "buffer", "packet", "lanes", "credits",
                        "skew_ns", "seed", "polls_always", "costs", "runs"])
    equal(list(found["costs"]), COSTS)
    equal(found["algorithm"], "double-tree")
    for model, other in (("host", "offload"), ("offload", "host")):
        run = simulate("-c", "barrier", "-n", 4, "--model", model)["runs"][0]
        equal((model in run, other in run, "speedup" in run), (True, False, False), model)
    run = simulate("-c", "reduce", "-s", "64K", "-n", 8)["runs"][0]
    equal(run["speedup"], round(run["host"]["time_ns"] / run["offload"]["time_ns"], 14))
    run = simulate("-c", "broadcast", "-n", 1)["runs"][0]
    equal((run["host"]["time_ns"], run["speedup"]), (0, None), "a node alone")


def barrier_is_one_and_has_no_data():
    found = simulate("-c", "barrier", "-n", 32)
    equal((found["algorithm"], len(found["runs"])), ("dissemination", 1))
    run = found["runs"][0]
    equal((run["size"], run["host"]["pulses"], run["offload"]["pulses"]), (0, 1, 1))
    equal(run["offload"]["packets"], 32 * 5)


def table_holds_the_same_as_json():
    line = ["-c", "reduce", "-s", "256,64K", "-j", "1,3"]
    text = tutti("sim", "trigger", *line)
    equal((text.returncode, text.stderr), (0, ""))
    contains(text.stdout, "# reduce by rabenseifner\n# nodes 32, units 8, buffer 524288 B, ")
    rows = [row.split() for row in text.stdout.splitlines() if not row.startswith("#")]
    runs = simulate(*line)["runs"]
    equal([row[:2] + row[7:] for row in rows],
          [[str(value) for value in (run["jobs"], run["size"], run["offload"]["suspended"], run["offload"]["refused"],
                                     run["offload"]["kept_apart"])] for run in runs])
    for row, run in zip(rows, runs, strict=True):
        within(float(row[2]), run["host"]["time_ns"] / 1000.5, run["host"]["time_ns"] / 999.5, "host")
        within(float(row[4]), run["speedup"] - 0.001, run["speedup"] + 0.001, "speed-up")


def small_buffers_refuse_and_results_are_right():
    run = simulate("-c", "reduce", "-s", "256K", "-j", 8, "-n", 16, "--units", 1, "--buffer", "64K")["runs"][0]
    within(run["offload"]["refused"], 1, 1e9, "refused")
    within(run["offload"]["sent_bytes"], run["offload"]["data_bytes"] + 1, 1e12, "sent")


def parameters_do_what_they_say():
    def times(*more):
        run = simulate("-c", "broadcast", "-s", "4K", "-n", 8, *more)["runs"][0]
        return run["host"]["time_ns"], run["offload"]["time_ns"]

    host, offload = times()
    for option, more_host, more_offload in (("--poll-ns", True, False), ("--net-ns", True, True),
                                            ("--io-ns", True, True), ("--unit-ns", False, True)):
        found = times(option, 50000)
        equal((found[0] > host, found[1] > offload), (more_host, more_offload), option)
    barrier = simulate("-c", "barrier")["runs"][0]["host"]["time_ns"]
    within(simulate("-c", "barrier", "--poll-always")["runs"][0]["host"]["time_ns"], barrier + 4000, 1e9, "polls")


def papers_tables_are_printed_with_its_numbers():
    # One node and large packets, as what is looked at here is what is printed.
    line = ["--paper", "--packet", "128K", "--nodes", 1]
    text = tutti("sim", "trigger", *line)
    equal((text.returncode, text.stderr), (0, ""))
    found = simulate(*line)
    equal([figure["name"] for figure in found["figures"]], ["figure 5", "figure 6", "allreduce"])
    equal([len(figure["runs"]) for figure in found["figures"]], [39, 39, 39])
    equal(found["figures"][0]["paper"], [{"size": 256, "jobs": 1, "speedup": 2.11},
                                         {"size": 1 << 20, "jobs": 32, "speedup": 1.3}])
    equal([row["paper_percent"] for row in found["table1"]][-3:], [93.69, 101.24, 103.47])
    equal(len(re.findall(r"^ +\d+ ", text.stdout, re.M)), 4 * 13)
    verdicts = re.findall(r"^(holds|in part|does not) .*$", text.stdout, re.M)
    equal(verdicts, ["holds" if trend["holds"] == trend["of"] else "in part" if trend["holds"] else "does not"
                     for trend in found["trends"]])
    equal(len(verdicts), 14)


REFUSED = [
    ("", "no collective given"),
    ("-c bcast", "--collective 'bcast'"),
    ("-c reduce -a ring", "--algorithm 'ring': there is no reduce by it"),
    ("-c reduce -a quick", "--algorithm 'quick'"),
    ("-c reduce -s 10", "--size '10': 10 is no multiple"),
    ("-c reduce -s 1K,,2K", "--size '1K,,2K': a number is missing"),
    ("-c reduce -s 256-1M,", "--size '256-1M,': a number is missing"),
    ("-c reduce -j 8-", "--jobs '8-': a number is missing"),
    ("-c reduce -s 1K-99999999999T", "--size '99999999999T': too large (64 bits cannot hold it)"),
    ("-c reduce -s 4K-1K", "--size '4K-1K': a range"),
    ("-c reduce -s 0-8", "--size '0-8': a range"),
    ("-c reduce -s 2G", "--size '2G': must be"),
    ("-c reduce -s 1G -j 256", "--size '1G': too much for 256 jobs on 32 nodes"),
    ("-c barrier -s 64", "--size '64': a barrier has no data"),
    ("-c barrier -s 0", "--size '0': a barrier has no data"),
    ("-c reduce -j 256 -n 256", "--size '1M': too much for 256 jobs on 256 nodes"),
    ("-c reduce -j 0", "--jobs '0': must be from 1 to 256"),
    ("-c reduce -j 200-300,257", "--jobs '200-300,257': must be from 1 to 256"),
    ("-c reduce -j many", "--jobs 'many': not a count"),
    ("-c reduce -j 1,99999999999999999999", "--jobs '99999999999999999999': too large (64 bits cannot hold it)"),
    ("-c reduce -n 0", "--nodes '0'"),
    ("-c reduce -n 257", "--nodes '257'"),
    ("-c reduce --root 32", "--root '32': there are nodes 0 to 31"),
    ("-c allreduce --root 0", "--root '0': allreduce has none"),
    ("-c reduce --units 9", "--units '9'"),
    ("-c reduce --lanes 0", "--lanes '0'"),
    ("-c reduce --credits 4 -j 8", "--credits '4': too few for 8 jobs"),
    ("-c reduce --buffer 4K", "--buffer '4096': no room for a packet of 16384 bytes"),
    ("-c reduce --packet 12", "--packet '12': must be a multiple of 8"),
    ("-c reduce --model nic", "--model 'nic': not one of host, offload or both"),
    ("-c reduce --cores 0", "--cores '0': must be from 1"),
    ("-c reduce --net-rate 0", "--net-rate '0': must be from 1"),
    ("-c reduce --poll-ns fast", "--poll-ns 'fast': not a number"),
    ("--paper --credits 31", "--credits '31': too few for 32 jobs"),
    ("--paper -j 8", "--jobs '8': not with --paper"),
    ("--paper -c reduce", "--collective 'reduce': not with --paper"),
    ("-c reduce now", "unexpected argument 'now'"),
    ("-c reduce --bogus", "unknown option '--bogus'"),
]


def bad_command_lines_are_one_line_and_exit_status_2():
    for line, words in REFUSED:
        result = tutti("sim", "trigger", *line.split())
        equal((result.returncode, result.stdout), (2, ""), f"`tutti sim trigger {line}`")
        equal(result.stderr.count("\n"), 1, f"lines of `{line}`: {result.stderr!r}")
        contains(result.stderr, words)
        contains(result.stderr, "tutti sim trigger: ")
    for line, words in (("", "no kind"), ("weather", "unknown kind 'weather'"), ("--fast", "unknown option '--fast'")):
        result = tutti("sim", *line.split())
        equal((result.returncode, result.stdout), (2, ""), f"`tutti sim {line}`")
        contains(result.stderr, words)


def manual_and_help_list_the_same_options():
    own = tutti("sim", "trigger", "--help")
    equal((own.returncode, own.stderr), (0, ""))
    contains(tutti("sim", "--help").stdout, "  trigger ")
    contains(tutti("--help").stdout, "  sim ")
    text = own.stdout.split("Options:\n")[1]
    in_help = set(re.findall(r"^ *(-\w),", text, re.M)) | set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", text, re.M))
    with open(os.path.join(ROOT, "docs", "man", "tutti-sim.1"), encoding="utf-8") as file:
        section = file.read().split(".Ss The kind trigger\n")[1].split(".Sh ")[0]
    in_manual = {"-" + word for line in re.findall(r"^\.It (Fl .*)$", section, re.M)
                 for word in re.findall(r"(?:Fl|,) (-?[\w-]+)", line)}
    equal(in_manual, in_help)


def tables_in_the_documentation_are_what_is_simulated():
    # 1 and 8 jobs of up to 64 KB, of which runs are short; --paper prints all.
    with open(os.path.join(ROOT, "docs", "trigger-costs.md"), encoding="utf-8") as file:
        figures = re.findall(r"^# [\w ]+: (\w+) by [^\n]*\n#[^\n]*\n#[^\n]*\n((?: +\d[^\n]*\n)+)", file.read(), re.M)
    equal([collective for collective, _ in figures], ["broadcast", "reduce", "allreduce"])
    for collective, text in figures:
        rows = [row.split() for row in text.splitlines()]
        runs = simulate("-c", collective, "-s", "256,4K,8K,16K,32K,48K,64K", "-j", "1,8")["runs"]
        for i, run in enumerate(runs):
            row = rows[i % 7]
            found = row[1:3] if run["jobs"] == 1 else row[5:7]
            equal(int(row[0]), run["size"])
            for model, us in zip(("host", "offload"), found, strict=True):
                within(float(us), run[model]["time_ns"] / 1000.5, run[model]["time_ns"] / 999.5,
                       f"{collective}, {run['jobs']} jobs, {run['size']} bytes, {model}")


def values_of_the_cost_model_are_documented():
    with open(os.path.join(ROOT, "docs", "trigger-costs.md"), encoding="utf-8") as file:
        rows = dict(re.findall(r"^\| `--([\w-]+)` \| (\d+)", file.read(), re.M))
    equal(rows, {name: str(value) for name, value in simulate("-c", "barrier", "-n", 2)["costs"].items()})


def output_that_cannot_be_written_is_a_failure():
    with open("/dev/full", "w", encoding="ascii") as full:
        result = subprocess.run([TUTTI, *"sim trigger -c barrier -n 4".split()], env=environment(), stdout=full,
                                stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    equal(result.returncode, 1)
    contains(result.stderr, "standard output: write error")


main([
    broadcast_of_one_element_takes_what_the_model_says,
    bytes_are_those_of_the_algorithm,
    nothing_is_faster_than_a_port,
    runs_repeat_themselves_and_seeds_differ,
    json_has_lists_in_order_and_models_as_asked,
    barrier_is_one_and_has_no_data,
    table_holds_the_same_as_json,
    small_buffers_refuse_and_results_are_right,
    parameters_do_what_they_say,
    papers_tables_are_printed_with_its_numbers,
    bad_command_lines_are_one_line_and_exit_status_2,
    manual_and_help_list_the_same_options,
    tables_in_the_documentation_are_what_is_simulated,
    values_of_the_cost_model_are_documented,
    output_that_cannot_be_written_is_a_failure,
])
