#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Counts test cases, not test programs.

    count_tests.py [--allowed FILE]... TESTLOG.json
                                    what a `meson test` run did: skipped and failed cases by name, then the counts
    count_tests.py --add FILE...    adds up all lines of counts in these files

A cmocka program's counts are those of its closing summary. Any other test's are its last line
`N passed, N failed[, N skipped]`. A test that ended badly without saying that a case failed (a crash, a timeout, a
leak at exit) counts as one failure, and so does one that counted nothing at all: silence is no success.

With --allowed a skip fails unless what is printed behind SKIPPED matches a line of a FILE as a whole; each line is a
regular expression, or empty, or a comment (#). So does a skip without a name.

The last line of the output is `N passed, N failed`, with `, N skipped` when some were. Exit status 1 if any failed.
"""
import json
import re
import sys

COUNTS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.MULTILINE)
CMOCKA = {
    "passed": re.compile(r"\[  PASSED  \] (\d+) test\(s\)\."),
    "failed": re.compile(r"\[  FAILED  \] (\d+) test\(s\), listed below:"),
    "skipped": re.compile(r"\[  SKIPPED \] (\d+) test\(s\), listed below:"),
}
CMOCKA_SKIP = re.compile(r"^.*\[  SKIPPED \] (?!\d+ test\(s\))(\S+)", re.MULTILINE)
CMOCKA_FAIL = re.compile(r"^.*\[  FAILED  \] (?!\d+ test\(s\))(\S+)", re.MULTILINE)
CMOCKA_CAUSE = re.compile(r"\[  ERROR   \] --- (.*?)\s*\[   LINE   \] --- (?:\S*/)?(\S+:\d+): ", re.DOTALL)
CMOCKA_END = re.compile(r"^.*\[  (?:     OK|FAILED  |SKIPPED ) ?\] (?!\d+ test\(s\))(\S+)", re.MULTILINE)
RANK_CAUSE = re.compile(r"^rank \d+, .*: not so: .*$", re.MULTILINE)  # tests/unit/rank_check.h
REASON = re.compile(r"skipped: (.*)")


class Counts:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def total(self):
        return self.passed + self.failed + self.skipped

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def counts_of_lines(text):
    """The sum of every line of counts in a text."""
    total = Counts()
    for match in COUNTS.finditer(text):
        total.add(Counts(*(int(group or 0) for group in match.groups())))
    return total


def cmocka_counts(stdout, stderr):
    """The summaries (one a group of tests), or None if this is no cmocka output. They are on standard error, which is
    not buffered: what a forked child repeats of standard output does not count twice."""
    if "[==========]" not in stdout + stderr:
        return None
    text = stderr if CMOCKA["passed"].search(stderr) else stdout
    return Counts(*(sum(int(n) for n in CMOCKA[kind].findall(text)) for kind in ("passed", "failed", "skipped")))


def skip_reasons(stdout):
    """Pairs of a skipped case and the `skipped: ...` line that stands before it."""
    reasons, last = [], "no reason given"
    for line in stdout.splitlines():
        reason = REASON.search(line)
        skipped = CMOCKA_SKIP.match(line)
        if skipped:
            if (skipped.group(1), last) not in reasons:
                reasons.append((skipped.group(1), last))
            last = "no reason given"
        elif reason:
            last = reason.group(1)
    return reasons


def failures(stdout, stderr):
    """The failed cases, each with its first error, where it was, and what one of its ranks said, so far as known."""
    cases, begin = {}, 0
    for end in CMOCKA_END.finditer(stdout):
        cause = CMOCKA_CAUSE.search(stdout, begin, end.start())
        if CMOCKA_FAIL.match(end.group(0)) and cause:
            what, where = " ".join(cause.group(1).split()), cause.group(2)
            cases.setdefault(end.group(1), f"{where}: {what}" if what else where)
        begin = end.end()
    rank = RANK_CAUSE.search(stderr) or RANK_CAUSE.search(stdout)
    for case in dict.fromkeys(CMOCKA_FAIL.findall(stdout + "\n" + stderr)):
        yield "; ".join([f"{case}: {cases[case]}" if case in cases else case] + ([rank.group(0)] if rank else []))


def count_record(record):
    """Counts of one meson test, and lines about what was skipped or failed in it."""
    name, result = record["name"], record["result"]
    stdout, stderr = record.get("stdout") or "", record.get("stderr") or ""
    notes = []
    if result == "SKIP":
        reason = REASON.search(stdout + stderr)
        return Counts(skipped=1), [f"SKIPPED {name}: {reason.group(1) if reason else 'no reason given'}"]
    counts = cmocka_counts(stdout, stderr)
    if counts is not None:
        notes += [f"SKIPPED {name}: {case}: {reason}" for case, reason in skip_reasons(stdout)]
        notes += [f"FAILED  {name}: {failure}" for failure in failures(stdout, stderr)]
    else:
        lines = list(COUNTS.finditer(stdout)) or list(COUNTS.finditer(stderr))
        counts = Counts(*(int(group or 0) for group in lines[-1].groups())) if lines else Counts()
        notes += [f"SKIPPED {name}: {line.split(':', 1)[1].strip()}"
                  for line in stdout.splitlines() if line.startswith("skipped:")]
        notes += [f"FAILED  {name}: {line.split(':', 1)[1].strip()}"
                  for line in stdout.splitlines() if line.startswith("failed:")]
    if result not in ("OK", "EXPECTEDFAIL") and counts.failed == 0:
        counts.failed += 1
        notes.append(f"FAILED  {name}: the program ended with {result}, exit status {record.get('returncode')}")
    if counts.total() == 0:
        counts.failed += 1
        notes.append(f"FAILED  {name}: it counted no test at all")
    return counts, notes


def read_allowed(path):
    with open(path, encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    return [re.compile(line) for line in lines if line.strip() and not line.startswith("#")]


def forbid(name, counts, notes, allowed):
    """Makes failures of the skips that are not allowed; the notes as they are then."""
    skips = [note for note in notes if note.startswith("SKIPPED ")]
    others = [note for note in notes if not note.startswith("SKIPPED ")]
    forbidden = [note for note in skips
                 if not any(pattern.fullmatch(note.removeprefix("SKIPPED ")) for pattern in allowed)]
    unnamed = max(counts.skipped - len(skips), 0)
    counts.skipped -= min(len(forbidden) + unnamed, counts.skipped)
    counts.failed += len(forbidden) + unnamed
    others += [f"FAILED  {note.removeprefix('SKIPPED ')} (this skip is not allowed)" for note in forbidden]
    if unnamed:
        others.append(f"FAILED  {name}: {unnamed} skipped without a name")
    return [note for note in skips if note not in forbidden] + others


def count_log(path, allowed=None):
    """`allowed`: the patterns of skips that are no failures; None: all are allowed."""
    total, notes = Counts(), []
    try:
        with open(path, encoding="utf-8", errors="replace") as log:
            for line in log:
                record = json.loads(line)
                counts, more = count_record(record)
                if allowed is not None:
                    more = forbid(record["name"], counts, more, allowed)
                total.add(counts)
                notes += more
    except OSError as error:
        total.failed += 1
        notes.append(f"FAILED  no test ran: {error}")
    for note in sorted(notes, key=lambda text: text.startswith("FAILED")):
        print(note)
    return total


def main(arguments):
    allowed = None
    while len(arguments) >= 2 and arguments[0] == "--allowed":
        allowed = (allowed or []) + read_allowed(arguments[1])
        arguments = arguments[2:]
    if len(arguments) >= 2 and arguments[0] == "--add":
        total = Counts()
        for path in arguments[1:]:
            with open(path, encoding="utf-8", errors="replace") as file:
                total.add(counts_of_lines(file.read()))
    elif len(arguments) == 1:
        total = count_log(arguments[0], allowed)
    else:
        print(__doc__, file=sys.stderr)
        return 2
    print(total.line())
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
