# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the program share: cases that are functions, and running `tutti` without surprises.

A case is a function whose name is a sentence; it fails by an exception. Every run of the program has a time limit, the
loopback interface as its network, and no TUTTI_ variable that is not the case's own.
"""
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import traceback

TUTTI = os.path.abspath(sys.argv[1])
TIME_LIMIT_S = 200  # of whatever must end, however busy the machine is


class Skip(Exception):
    """Raised by a case that cannot run here, with the reason."""


def environment(**variables):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
    clean["TUTTI_INTERFACE"] = "lo"
    clean.update(variables)
    return clean


def tutti(*arguments, limit_s=TIME_LIMIT_S, **variables):
    """Runs the program to its end. The result has returncode, stdout and stderr (text)."""
    return subprocess.run([TUTTI, *map(str, arguments)], env=environment(**variables), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=limit_s, check=False)


def isolated(script, *tools, limit_s=TIME_LIMIT_S, **variables):
    """Runs a shell script, up to what fails first, in a network of its own, where no interface is up and $TUTTI is the
    program; `tools`: that it needs."""
    if subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("no privilege to make a network namespace")
    for tool in ("ip", *tools):
        if shutil.which(tool) is None:
            raise Skip(f"{tool} is not installed")
    return subprocess.run(["unshare", "-n", "sh", "-ec", script],
                          env=environment(TUTTI=TUTTI, TUTTI_INTERFACE="auto", **variables),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False)


def patience():
    """How many times longer than in a plain build things may take; see patience.h."""
    return 1 if "sanitize=none" in tutti("info").stdout else 5


def carrier(name, inside=""):
    """A line for a shell that waits until an interface that is up has its carrier, which the system notes a little after;
    `inside` is a command that enters the interface's network."""
    return f"for try in $(seq 1000); do {inside} ip -o link show dev {name} | grep -q LOWER_UP && break; sleep 0.01; done\n"


GIVEN_PORTS = set()


def free_ports(distances=(0,)):
    """A port at which, and at these distances from which, nobody listens. It is below those that the system gives to
    connections: one of those may be taken by any connection between this look and its use. None is given twice."""
    for _ in range(1000):
        first = random.randrange(20000, 30000)
        if GIVEN_PORTS.intersection(first + distance for distance in distances):
            continue
        GIVEN_PORTS.update(first + distance for distance in distances)
        try:
            for port in (first + distance for distance in distances):
                with socket.socket(socket.AF_INET6) as probe:
                    probe.bind(("::", port))
            return first
        except OSError:
            continue
    raise Skip("no free ports")


def equal(found, expected, what=""):
    if found != expected:
        raise AssertionError(f"{what}: found {found!r}, expected {expected!r}")


def contains(text, part):
    if part not in text:
        raise AssertionError(f"{part!r} is not in {text!r}")


def within(found, least, most, what):
    if not least <= found <= most:
        raise AssertionError(f"{what}: {found:g}, expected {least:g} to {most:g}")


def bench(*arguments, **variables):
    """Runs `tutti bench ... --json`, which must succeed without a wrong byte; returns its rows."""
    result = tutti("bench", *arguments, "--json", **variables)
    equal(result.returncode, 0, f"exit status of {arguments}, which said {result.stderr!r}")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    for row in rows:
        equal(row["wrong"], 0, f"wrong bytes of {arguments} at {row['size_bytes']}")
    return rows


class Job:
    """A `tutti bench` in progress, and its ranks."""

    def __init__(self, rank_count, *arguments, **variables):
        self.process = subprocess.Popen([TUTTI, *map(str, arguments)], env=environment(**variables),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        self.output = ""  # once it has ended
        self.pids = self._find_ranks(rank_count)

    def _find_ranks(self, rank_count):
        """Process ids by rank, as soon as all are there."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            ranks = {}
            for pid in children(self.process.pid):
                rank = variable_of(pid, "TUTTI_RANK")
                if rank is not None:
                    ranks[int(rank)] = pid
            if len(ranks) == rank_count:
                return ranks
            time.sleep(0.02)
        self.process.kill()
        raise AssertionError(f"no {rank_count} ranks after 60 s: {self.process.communicate()}")

    def wait_for_first_row(self):
        """Returns when the first size has been measured: the job is in full swing."""
        line = self.process.stdout.readline()
        if not line.startswith("{"):
            raise AssertionError(f"no row but {line!r} and {self.process.communicate()}")

    def signal(self, rank, number):
        os.kill(self.pids[rank], number)

    def end(self, limit_s, dying_s=0):
        """Waits for the end; returns exit status, standard error, seconds it took. No rank may be left, unless the
        launcher was killed: then the kernel ends the ranks, which may take `dying_s`."""
        begun = time.monotonic()
        try:
            self.output, errors = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            for pid in self.pids.values():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            self.process.kill()
            raise AssertionError(f"no end after {limit_s} s: {self.process.communicate()[1]}") from None
        seconds = time.monotonic() - begun
        left = self.ranks_alive()
        while left and time.monotonic() - begun < seconds + dying_s:
            time.sleep(0.02)
            left = self.ranks_alive()
        equal(left, [], "ranks that are still there")
        return self.process.returncode, errors, seconds

    def ranks_alive(self):
        return [pid for pid in self.pids.values() if is_alive(pid)]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def variable_of(pid, name):
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            for variable in file.read().split(b"\0"):
                if variable.startswith(name.encode() + b"="):
                    return variable.split(b"=", 1)[1].decode()
    except OSError:
        pass
    return None


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def where_it_is(process):
    """What each thread of a process that should have ended is doing, and of those that it has started, for whoever has to
    find out why it has not."""
    line = f"process {process.pid}: {' '.join(map(os.fsdecode, process.args))}"
    if process.poll() is not None:
        return line + f": ended with status {process.returncode}"
    return "\n".join([line, *threads_of(process.pid), *(text for child in children(process.pid)
                                                        for text in [f"its process {child}:", *threads_of(child)])])


def threads_of(pid):
    lines = []
    directory = f"/proc/{pid}/task"
    with contextlib.suppress(FileNotFoundError):  # it has ended meanwhile
        for thread in sorted(os.listdir(directory), key=int):
            facts = []
            for name in ("comm", "wchan", "syscall", "stack"):
                try:
                    with open(f"{directory}/{thread}/{name}", encoding="ascii", errors="replace") as file:
                        facts.append(" | ".join(file.read().splitlines()))
                except OSError as error:
                    facts.append(f"({name}: {error.strerror})")
            lines.append(f"  thread {thread}: " + "; ".join(facts))
    if lines and shutil.which("gdb"):
        found = subprocess.run(["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all backtrace"],
                               stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        lines.append(found.stdout)
    return lines


def main(cases):
    """Runs the cases, prints one line a case and the closing line of counts. Who is ended takes along what a case has
    made, as where a case fails."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in cases:
        begun = time.monotonic()
        try:
            case()
            outcome, note = "passed", ""
        except Skip as reason:
            outcome, note = "skipped", f": {reason}"
        except Exception:  # pylint: disable=broad-except
            outcome, note = "failed", "\n" + traceback.format_exc()
        counts[outcome] += 1
        print(f"{outcome}: {case.__name__} ({time.monotonic() - begun:.1f} s){note}", flush=True)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    sys.exit(1 if counts["failed"] else 0)
