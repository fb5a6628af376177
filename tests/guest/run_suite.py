#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs programs one after the other in one boot of the guest (testbed/guest), and counts their cases.

    run_suite.py --test NAME [--loss 1%] [--limit SECONDS] COMMAND... [--test NAME ...]

Every program runs with three RDMA devices, in a session of its own, under a time limit (60 s), after which what it left
running is killed. It must leave nothing in the kernel: queue pairs, registrations, multicast memberships are compared
with those before; what is still there after five seconds is a failure. A program counts as under `./dev test`: cmocka's
summary or a last line `N passed, N failed, N skipped`; one that does neither fails.
"""
import argparse
import os
import re
import secrets
import shlex
import subprocess
import sys

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..")
GUEST = os.path.join(ROOT, "testbed", "guest")
DEVICES = 3
STATUS_SKIP = 77
TIME_LIMIT_S = 480  # of the guest; a boot that fails is tried twice

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(ROOT, "tools"))
import count_tests  # pylint: disable=wrong-import-position

PRELUDE = """
export CMOCKA_MESSAGE_OUTPUT=stdout
in_kernel() { rdma resource show; ip -4 maddr show; }
seconds() { read -r uptime _ </proc/uptime; echo "${uptime%.*}"; }
# What is left of a session, which is the sixth field of a process's status; its name, the second, ends with a bracket.
kill_session() {
    for process in /proc/[0-9]*; do
        read -r line 2>/dev/null <"$process/stat" || continue
        set -- ${line##*) }
        [ "$4" != "$session" ] || kill -9 "${process#/proc/}"
    done
}
# one INDEX LOSS LIMIT COMMAND...
one() {
    index=$1 loss=$2 limit=$3
    shift 3
    in_kernel >/tmp/before
    [ "$loss" = 0 ] || network_loss "$loss"
    begun=$(seconds)
    setsid sh -c 'echo $$ >/tmp/session; exec "$@"' sh timeout -k 5 "$limit" "$@" >/tmp/stdout 2>/tmp/stderr
    status=$?
    took=$(($(seconds) - begun))
    read -r session </tmp/session
    kill_session
    [ "$loss" = 0 ] || network_loss 0
    for try in 1 2 3 4 5 6 7 8 9 10; do
        in_kernel >/tmp/after
        cmp -s /tmp/before /tmp/after && break
        sleep 0.5
    done
    diff -U0 /tmp/before /tmp/after | grep '^[-+][^-+]' >/tmp/left
    echo "$mark result $index $status $took"
    for part in stdout stderr left; do
        echo "$mark $part"
        cat "/tmp/$part"
        echo
    done
    echo "$mark end"
}
"""


class Program:
    def __init__(self, words):
        parser = argparse.ArgumentParser(prog="--test", allow_abbrev=False)
        parser.add_argument("--loss", default="0")
        parser.add_argument("--limit", type=int, default=60, metavar="SECONDS")
        parser.add_argument("command", nargs=argparse.REMAINDER)
        arguments = parser.parse_args(words[1:])
        self.name, self.loss, self.limit_s = words[0], arguments.loss, arguments.limit
        self.command = [os.path.abspath(word) if "/" in word and os.path.exists(word) else word
                        for word in arguments.command]
        if not self.command:
            parser.error(f"{self.name}: no command")
        self.status = None
        self.seconds = 0
        self.parts = {"stdout": "", "stderr": "", "left": ""}

    def files(self):
        return [word for word in self.command if word.startswith("/") and os.path.exists(word)]

    def line(self, index):
        return shlex.join(["one", str(index), self.loss, str(self.limit_s), *self.command])

    def count(self):
        """The counts, and notes on what was skipped or failed."""
        if self.status is None:
            return count_tests.Counts(failed=1), [f"FAILED  {self.name}: the guest ended before this program did"]
        late = self.status in (124, 137) and self.seconds >= self.limit_s
        result = {0: "OK", STATUS_SKIP: "SKIP"}.get(self.status, f"TIMEOUT of {self.limit_s} s" if late else "FAIL")
        counts, notes = count_tests.count_record({"name": self.name, "result": result, "returncode": self.status,
                                                  "stdout": self.parts["stdout"], "stderr": self.parts["stderr"]})
        left = self.parts["left"].strip()
        if left:
            counts.failed += 1
            notes.append(f"FAILED  {self.name}: left behind in the kernel: {' | '.join(left.splitlines())}")
        return counts, notes

    def output(self):
        """Indented, so that no line looks like one of the suite's own."""
        text = "\n".join(self.parts[part].strip("\n") for part in ("stdout", "stderr"))
        return "\n".join(f"    {line}" for line in text.replace("[==========]", "[====]").splitlines())


def parse_programs(argv):
    starts = [index for index, word in enumerate(argv) if word == "--test"] + [len(argv)]
    if starts[0] != 0 or len(argv) == 0:
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    return [Program(argv[start + 1:end]) for start, end in zip(starts, starts[1:])]


def parse_output(programs, text, mark):
    """Fills in what the guest says of the programs; one whose end is missing has not ended."""
    program, part, status = None, None, None
    for line in text.split("\n"):
        if not line.startswith(mark):
            if program and part:
                program.parts[part] += line + "\n"
            continue
        words = line.split()[1:]
        if words[0] == "result":
            program, status = programs[int(words[1])], int(words[2])
            program.seconds = int(words[3])
        elif words[0] == "end":
            program.status = status
            program = None
        else:
            part = words[0]


def main(argv):
    programs = parse_programs(argv)
    mark = f"@{secrets.token_hex(8)}"
    script = f"mark={mark}\n{PRELUDE}\n" + "\n".join(program.line(index) for index, program in enumerate(programs))
    command = [sys.executable, GUEST, "run", "--devices", str(DEVICES), "--timeout", str(TIME_LIMIT_S)]
    for path in dict.fromkeys(path for program in programs for path in program.files()):
        command += ["--file", path]
    result = subprocess.run([*command, "--", "sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, check=False)
    said = result.stderr.decode(errors="replace").strip()
    if result.returncode == STATUS_SKIP and said:
        reason = re.sub(r"^guest: ", "", said.splitlines()[-1])
        for program in programs:
            print(f"skipped: {program.name}: {reason}")
        print(f"0 passed, 0 failed, {len(programs)} skipped")
        return 0
    parse_output(programs, result.stdout.decode(errors="replace"), mark)
    return report(programs, said)


def report(programs, said):
    """One paragraph a program, then the notes in the form that ./dev test repeats, and the sum."""
    total, all_notes = count_tests.Counts(), []
    if said:
        print("\n".join(f"    {line}" for line in said.splitlines()))
    for program in programs:
        counts, notes = program.count()
        print(f"{program.name}: {counts.line()} ({program.seconds} s)")
        if counts.failed:
            print(program.output())
        total.add(counts)
        all_notes += notes
    for note in all_notes:
        kind, text = note.split(None, 1)
        print(f"{kind.lower()}: {text}")
    print(f"{total.passed} passed, {total.failed} failed, {total.skipped} skipped")
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
