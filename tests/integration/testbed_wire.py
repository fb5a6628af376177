#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""testbed/wire: that it reckons right what links must carry and what launches say, with a program in tutti's place that
says what it is told to; and once with tutti itself. Speed is not looked at."""
import importlib
import json
import os
import pwd
import runpy
import shutil
import subprocess
import sys
import tempfile

from cli_support import TUTTI, Skip, contains, equal, main
from testbed_support import PYTHON, STATUS_SKIP, WIRE, clean_environment, new_name, remains

# In tutti's place: every rank notes who it is, where, and with what link; rank 0 prints the row. A user without privilege
# must be able to run it.
FAKE = """#!/bin/sh
sleep {patience_s}
cd {directory}
tc -j qdisc show dev tb0 >link-$TUTTI_RANK
{{ id -u; uname -n; echo "$TUTTI_RECEIVE_BUFFER"; echo "$*"; }} >rank-$TUTTI_RANK
[ "$TUTTI_RANK" = 0 ] || exit 0
printf x >>launches
launch=$(wc -c <launches)
echo '{{"ranks": '$TUTTI_SIZE', "size_bytes": '$4', "wrong": {wrong}, "iterations": 3, "time_us": {{"slowest": 600}},' \\
    '"chunks_multicast": 290, "chunks_repaired": 10, "first_us": '${{launch}}000',' \\
    '"iteration_us": ['${{launch}}000', 500, 600, 700], "iteration_repaired": ['$((25 * launch))', 0, 7, 3]}}'
"""


def wire(*arguments, limit_s=280):
    name = new_name()
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "wire.json")
        result = subprocess.run([PYTHON, WIRE, "--name", name, "--json", path, *map(str, arguments)],
                                env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                timeout=limit_s, check=False)
        if result.returncode == STATUS_SKIP:
            raise Skip(result.stderr.strip())
        equal(remains(name), [], "what is left")
        found = None
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
    return result, found


def succeed(*arguments):
    result, found = wire(*arguments)
    equal(result.returncode, 0, f"status, with {result.stderr!r}")
    return result.stdout, found


class Fake:
    """The program, and what its ranks have noted."""

    def __init__(self, patience_s=0, wrong=0):
        self.directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.directory.name, "tutti")
        os.chmod(self.directory.name, 0o777)  # whoever the ranks are
        with open(self.path, "w", encoding="ascii") as file:
            file.write(FAKE.format(directory=self.directory.name, patience_s=patience_s, wrong=wrong))
        os.chmod(self.path, 0o755)

    def rank(self, rank):
        """Its user, host, receive buffer, and arguments in one string."""
        with open(os.path.join(self.directory.name, f"rank-{rank}"), encoding="ascii") as file:
            return file.read().split("\n")[:4]

    def link_bps(self, rank):
        with open(os.path.join(self.directory.name, f"link-{rank}"), encoding="ascii") as file:
            return json.load(file)[0]["options"]["rate"] * 8


def wire_us(found):
    return [(case["hosts"], case["ranks_per_host"], case["collective"], case["size_bytes"], round(case["wire_us"], 3))
            for case in found["cases"]]


def links_must_carry_what_other_hosts_send():
    fake = Fake()
    _, found = succeed("--tutti", fake.path, "--case", "2x1@80mbit", "3x2@8mbit", "--sizes", "1000,64K", "--launches", 1)
    equal(wire_us(found), [(2, 1, "broadcast", 1000, 100.0), (2, 1, "broadcast", 65536, 6553.6),
                           (2, 1, "allgather", 1000, 100.0), (2, 1, "allgather", 65536, 6553.6),
                           (3, 2, "broadcast", 1000, 1000.0), (3, 2, "broadcast", 65536, 65536.0),
                           (3, 2, "allgather", 1000, 4000.0), (3, 2, "allgather", 65536, 262144.0)])
    equal([fake.rank(rank)[1] for rank in range(6)], ["h0", "h1", "h2", "h0", "h1", "h2"], "hosts of ranks")


def reductions_are_held_against_what_the_fullest_link_receives():
    fake = Fake()
    found = []
    for collective in ("allreduce", "reduce-scatter"):
        found += wire_us(succeed("--tutti", fake.path, "--case", "2x1@80mbit", "3x1@8mbit", "--collective", collective,
                                 "--sizes", "1200,64K", "--launches", 1)[1])
    equal(found, [(2, 1, "allreduce", 1200, 120.0), (2, 1, "allreduce", 65536, 6553.6),
                  (3, 1, "allreduce", 1200, 1600.0), (3, 1, "allreduce", 65536, 87381.333),
                  (2, 1, "reduce-scatter", 1200, 60.0), (2, 1, "reduce-scatter", 65536, 3276.8),
                  (3, 1, "reduce-scatter", 1200, 800.0), (3, 1, "reduce-scatter", 65532, 43688.0)])
    result, _ = wire("--tutti", fake.path, "--case", "2x2@80mbit", "--collective", "allreduce")
    equal(result.returncode, 2, "status")
    contains(result.stderr, "--collective allreduce: 2 ranks a host; what their link must carry is known of one")


def figures_are_medians_and_worst_of_launches():
    fake = Fake()
    output, found = succeed("--tutti", fake.path, "--hosts", "2", "--ranks-per-host", "1", "--rate", "80mbit",
                            "--collective", "broadcast", "--sizes", 1000, "--launches", 3, "--iterations", 3,
                            "--warmup", 1, "--", "--seed", 7)
    summary = found["cases"][0]["summary"]
    # The wire takes 100 us; first collectives took 1000, 2000 and 3000, and lost 25, 50 and 75 of 100 chunks.
    expected = {"ratio": 6, "ratio_worst": 6, "first": 20, "first_worst": 30, "last": 7, "last_worst": 7, "first_lost": 0.5,
                "first_lost_worst": 0.75, "tenth_lost": None, "last_lost": 0.03, "slowest": 30, "tcp_least_bps": None}
    equal({name: figure and round(figure, 6) for name, figure in summary.items()}, expected, "summary")
    equal(output.splitlines()[-1].split()[:14], ["broadcast", "2x1", "80M", "1000", "100", "3", "6.00", "6.00", "20.00",
                                            "30.00", "7.00", "50.0", "-", "3.0"])
    equal(len(found["cases"][0]["rows"]), 3, "rows")
    idle, stolen = (found["cases"][0]["processors"][name] for name in ("idle", "stolen"))
    equal(output.splitlines()[-1].split()[14:], [f"{idle * 100:.0f}", f"{stolen * 100:.0f}"], "processors")
    equal(fake.rank(1), [str(os.getuid()), "h1", "", "bench broadcast -b 1000 -e 1000 -i 3 -w 1 --json --seed 7"],
          "who ran it, where, with what buffer, and arguments")


def what_processors_did_is_told_by_the_kernel():
    processors = runpy.run_path(os.path.join(os.path.dirname(WIRE), "processors.py"))
    with tempfile.NamedTemporaryFile("w+", encoding="ascii") as file:
        def times(line):
            file.seek(0)
            file.truncate()
            file.write(line + "\ncpu0 1 1 1 1 1 1 1 1 1 1\n")
            file.flush()
            return processors["read_times"](file.name)

        before = times("cpu  1000 10 500 7000 20 5 30 400 0 0")
        after = times("cpu  1040 10 520 7015 25 5 35 415 3 0")
        spent, none = processors["spent_between"](before, after), processors["spent_between"](before, before)
        equal(processors["shares"](spent), {"idle": 0.2, "stolen": 0.15}, "of 100")
        equal(processors["shares"](none), {"idle": None, "stolen": None}, "of no time")
        equal(processors["sum_of"]([spent, none, spent]), {name: 2 * time for name, time in spent.items()}, "of three times")
        equal(processors["shares"](processors["sum_of"]([])), {"idle": None, "stolen": None}, "of no times")
    now = processors["read_times"]()
    equal(sorted(now), sorted(before), "names of this machine's")


def slow_links_and_later_rates_are_those_of_the_network():
    fake = Fake()
    _, found = succeed("--tutti", fake.path, "--case", "3x1@80mbit", "--sizes", 1000, "--launches", 1,
                       "--collective", "allgather", "--slow", "h2=16mbit")
    equal(wire_us(found), [(3, 1, "allgather", 1000, 1000.0)], "with the slow link")
    equal([fake.link_bps(rank) for rank in range(3)], [80e6, 80e6, 16e6], "rates of the links")
    fake = Fake(patience_s=4)
    _, found = succeed("--tutti", fake.path, "--case", "2x1@80mbit", "--sizes", 1000, "--launches", 1,
                       "--collective", "broadcast", "--change", "0.1=40mbit")
    equal([fake.link_bps(rank) for rank in range(2)], [40e6, 40e6], "rates of the links after the change")
    summary = found["cases"][0]["summary"]
    equal((summary["ratio"], summary["last"]), (6, 3.5), "against the first rate, and against the last")


def a_flow_of_tcp_goes_beside_each_launch():
    if shutil.which("iperf3") is None:
        raise Skip("iperf3 is not installed")
    fake = Fake(patience_s=4)
    output, found = succeed("--tutti", fake.path, "--case", "3x1@80mbit", "--sizes", 1000, "--launches", 2, "--collective",
                            "allgather", "--tcp", "h2=h0,reno")
    case = found["cases"][0]
    for row in case["rows"]:
        # At least one period of two seconds lies within a launch of four.
        if not row["tcp_bps"] or not all(0 < bps < 100e6 for bps in row["tcp_bps"]):
            raise AssertionError(f"not what a link of 80 Mbit/s lets through: {row['tcp_bps']}")
    least = min(bps for row in case["rows"] for bps in row["tcp_bps"])
    equal((found["tcp"], case["summary"]["tcp_least_bps"], case["summary"]["slowest"]), (["h2", "h0", "reno"], least, 10), "of all")
    equal(output.splitlines()[-1].split(), ["beside", "TCP:", "it", "had", f"{least / 1e6:.0f}", "Mbit/s",
                                            f"({least / 80e6:.2f})", "at", "least;", "the", "slowest", "collective", "took",
                                            "10.00"])
    contains(output, "# TCP: a flow from h2 to h0 in each launch, congestion control: reno\n")
    result, found = wire("--tutti", fake.path, "--case", "2x1@80mbit", "--launches", 1, "--tcp", "h1=h0,nosuch")
    equal(result.returncode, 1, "status with a congestion control that is not there")
    contains(result.stderr, "iperf3 from h1 to h0: ")
    result, found = wire("--tutti", fake.path, "--case", "2x1@80mbit", "--launches", 1, "--tcp", "h1=h7")
    equal(result.returncode, 1, "status with a host that is not there")
    contains(result.stderr, "'h7'")


def launches_that_others_slow_down_are_made_again():
    sys.path.append(os.path.dirname(WIRE))
    case, network = importlib.import_module("wire_case"), importlib.import_module("network")

    def launches(wanted, *outcomes):
        """Rows that count are even numbers; None is a launch that fails."""
        waiting = list(outcomes)

        def launch():
            row = waiting.pop(0)
            if row is None:
                raise network.Failure("no")
            return row
        return (*case.launches_that_count(wanted, launch, lambda row: row % 2 == 0), waiting)

    equal(launches(3, 0, 2, 4), ([0, 2, 4], 0, []), "calm ones")
    equal(launches(2, 1, 0, 3, 5, 2), ([0, 2], 3, []), "three that did not count")
    equal(launches(2, None, 1, 2), ([2], 1, []), "one that failed, which is not made again")
    equal(launches(1, 1, 3, 5, 7, 9), ([], 4, [9]), "none that counts: an end of trying")
    processors = importlib.import_module("processors")
    spent = {"user": 50, "nice": 0, "system": 29, "idle": 20, "iowait": 0, "irq": 0, "softirq": 0, "steal": 1}
    for limit, calm in ((1, True), (0.01, True), (0.0099, False), (0, False)):
        equal(processors.is_calm(spent, limit), calm, f"one of 100, with a limit of {limit}")
    equal(processors.is_calm(dict.fromkeys(spent, 0), 0), True, "no time at all")
    fake = Fake()
    output, found = succeed("--tutti", fake.path, "--case", "2x1@80mbit", "--sizes", 1000, "--launches", 2, "--collective",
                            "broadcast", "--stolen", "100%")
    equal((found["stolen"], found["cases"][0]["again"], output.splitlines()[-1].split()[5]), (1, 0, "2"), "all count")


def ranks_may_be_without_privilege():
    try:
        nobody = str(pwd.getpwnam("nobody").pw_uid)
    except KeyError:
        raise Skip("there is no user 'nobody' here") from None
    fake = Fake()
    succeed("--tutti", fake.path, "--case", "2x1@80mbit", "--sizes", 1000, "--launches", 1, "--collective", "broadcast",
            "--user")
    equal([fake.rank(rank)[:3] for rank in range(2)], [[nobody, "h0", "212992"], [nobody, "h1", "212992"]])


def launches_that_fail_are_reported():
    with tempfile.TemporaryDirectory() as directory:
        program = os.path.join(directory, "tutti")
        for script, said, limit in (("echo broken >&2; exit 3", "broken", 60), ("sleep 600", "no end after 1 s", 1),
                                    ("exit 0", "0 rows", 60)):
            with open(program, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\n{script}\n")
            os.chmod(program, 0o755)
            result, found = wire("--tutti", program, "--case", "2x1@80mbit", "--collective", "broadcast", "--launches", 1,
                                 "--limit", limit)
            equal((result.returncode, found["failures"]), (1, 1), f"status and failures where tutti says {script!r}")
            contains(result.stderr, said)
    fake = Fake(wrong=5)
    result, found = wire("--tutti", fake.path, "--case", "2x1@80mbit", "--collective", "broadcast", "--launches", 1)
    equal((result.returncode, found["cases"][0]["rows"]), (1, []), "status and rows with wrong bytes")


def tutti_itself_is_measured():
    output, found = succeed("--tutti", TUTTI, "--case", "2x2@100mbit", "--sizes", "64K", "--launches", 1, "--iterations", 2,
                            "--warmup", 1)
    equal([line.split()[:4] for line in output.splitlines()[-2:]], [["broadcast", "2x2", "100M", "65536"],
                                                                    ["allgather", "2x2", "100M", "65536"]])
    for case in found["cases"]:
        if not 0.5 < case["summary"]["ratio"] < 10000:
            raise AssertionError(f"not a ratio: {case['summary']}")


def command_lines_that_make_no_sense_are_refused():
    for arguments, said in ((("--case", "16@500mbit"), "'16@500mbit'"), (("--case", "1x1@500mbit"), "'1x1@500mbit'"),
                            ((), "no --rate"), (("--case", "2x1@1mbit", "--hosts", "3"), "not with --hosts"),
                            (("--rate", "1mbit", "--slow", "h3"), "'h3'"),
                            (("--rate", "1mbit", "--change", "x=1mbit"), "'x=1mbit'"),
                            (("--rate", "1mbit", "--tcp", "h3"), "'h3'"), (("--rate", "1mbit", "--tcp", "h3=h3"), "'h3=h3'"),
                            (("--rate", "1mbit", "--tcp", "h3=h2,"), "'h3=h2,'"),
                            (("--rate", "1mbit", "--stolen", "101"), "'101'"),
                            (("--rate", "1mbit", "--user", "nobody-of-that-name"), "'nobody-of-that-name'")):
        result, _ = wire(*arguments)
        equal(result.returncode, 2, f"status of wire {arguments}")
        contains(result.stderr, said)
    result, _ = wire("--tutti", TUTTI, "--case", "2x1@1mbit", "--slow", "h7=1mbit")
    equal(result.returncode, 1, "status with a slow host that is not there")
    contains(result.stderr, "'h7'")


if __name__ == "__main__":
    main([links_must_carry_what_other_hosts_send,
          reductions_are_held_against_what_the_fullest_link_receives,
          figures_are_medians_and_worst_of_launches,
          what_processors_did_is_told_by_the_kernel,
          slow_links_and_later_rates_are_those_of_the_network,
          a_flow_of_tcp_goes_beside_each_launch,
          launches_that_others_slow_down_are_made_again,
          ranks_may_be_without_privilege,
          launches_that_fail_are_reported,
          tutti_itself_is_measured,
          command_lines_that_make_no_sense_are_refused])
