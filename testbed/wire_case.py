# SPDX-License-Identifier: BSD-3-Clause
"""One case of testbed/wire: what the hosts' links have to carry, and what launches say when they are held against it."""
import argparse
import json
import re
import sys
from statistics import median

from collectives import COLLECTIVES, least_bytes
from command import parse_rate, parse_size
from network import HOST_LIMIT, Failure

RANK_LIMIT = 65535  # of a job
AGAIN_LIMIT = 4  # so many times as many launches as are wanted are made again at most
TENTH = 9  # the iteration whose repairs are shown beside those of the first and the last


def parse_case(text):
    """HxR@RATE: hosts, ranks a host, rate."""
    match = re.fullmatch(r"(\d{1,4})x(\d{1,4})@(.+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}': not HOSTSxRANKS@RATE (16x1@500mbit)")
    hosts, ranks = int(match[1]), int(match[2])
    if not 2 <= hosts <= HOST_LIMIT or not 1 <= ranks <= RANK_LIMIT // hosts:
        raise argparse.ArgumentTypeError(f"'{text}': not 2 to {HOST_LIMIT} hosts and up to {RANK_LIMIT} ranks in all")
    return hosts, ranks, parse_rate(match[3])


def parse_list(parse):
    """One or more of something, with commas."""
    return lambda text: [parse(word) for word in text.split(",")]


def parse_slow(text):
    """HOST=RATE."""
    host, equals, rate = text.partition("=")
    if not host or not equals:
        raise argparse.ArgumentTypeError(f"'{text}': not HOST=RATE (h3=250mbit)")
    return host, parse_rate(rate)


def parse_flow(text):
    """FROM=TO or FROM=TO,ALGORITHM."""
    match = re.fullmatch(r"([^=,]+)=([^=,]+)(?:,([a-z0-9_]+))?", text)
    if not match or match[1] == match[2]:
        raise argparse.ArgumentTypeError(f"'{text}': not FROM=TO, two hosts (h5=h3), or FROM=TO,ALGORITHM (h5=h3,cubic)")
    return match.groups()


def parse_share(text):
    """A share of all, in per cent."""
    match = re.fullmatch(r"(\d{1,3}(?:\.\d{1,6})?)%?", text)
    if not match or float(match[1]) > 100:
        raise argparse.ArgumentTypeError(f"'{text}': not 0 to 100 %")
    return float(match[1]) / 100


def parse_change(text):
    """T=RATE."""
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,6})?)s?=(.+)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}': not SECONDS=RATE (2.5=250mbit)")
    return float(match[1]), parse_rate(match[2])


class Case:
    def __init__(self, hosts, ranks_per_host, rate_bps, collective, size_bytes):
        self.hosts, self.ranks_per_host, self.rate_bps = hosts, ranks_per_host, rate_bps
        whole = least_bytes(collective, hosts, "fp32")  # as the bench rounds
        self.collective, self.size_bytes = collective, size_bytes // whole * whole
        self.ranks = hosts * ranks_per_host
        self.slow = {}  # rates of hosts that have another one, by index
        self.tcp = None  # other traffic: its two hosts, and how it controls congestion

    def wire_s(self, changed_bps=None):
        """What the links need for the data alone, both directions at once, until the last of them is through. The root
        of a Broadcast sends N bytes and every other host takes them, once, however many ranks it has; in an Allgather a
        host sends its ranks' blocks and takes those of all other hosts' ranks. Of reductions, with one rank a host, what
        the fullest link receives."""
        own, others = (self.size_bytes * count for count in self._blocks())
        rates = [changed_bps or self.slow.get(host, self.rate_bps) for host in range(self.hosts)]
        return max(max(own, others) * 8 / rate for rate in rates)

    def _blocks(self):
        """How many N bytes a link carries, from its host and to it."""
        if self.collective == "allgather":
            return self.ranks_per_host, (self.hosts - 1) * self.ranks_per_host
        return (COLLECTIVES[self.collective].link(self.hosts),) * 2

    def describe(self):
        return {"hosts": self.hosts, "ranks_per_host": self.ranks_per_host, "rate_bps": self.rate_bps,
                "slow_bps": {f"h{index}": rate for index, rate in self.slow.items()}, "collective": self.collective,
                "size_bytes": self.size_bytes, "wire_us": self.wire_s() * 1e6}


def bench_row(output, case):
    """The one row that a launch has to print."""
    rows = [line for line in output.splitlines() if line.startswith("{")]
    if len(rows) != 1:
        raise Failure(f"{len(rows)} rows instead of one: {output[:200]!r}")
    try:
        row = json.loads(rows[0])
    except ValueError:
        raise Failure(f"not a row: {rows[0]!r}") from None
    if (row["ranks"], row["size_bytes"], row["wrong"]) != (case.ranks, case.size_bytes, 0):
        raise Failure(f"{row['ranks']} ranks, {row['size_bytes']} bytes, {row['wrong']} of them wrong: "
                      f"expected were {case.ranks} and {case.size_bytes}")
    return row


def launches_that_count(wanted, launch, counts):
    """Rows of so many launches, but for those that fail; and how many were made again since their rows did not count."""
    rows, failures, again = [], 0, 0
    while len(rows) + failures < wanted and again < AGAIN_LIMIT * wanted:
        try:
            row = launch()
        except Failure as failure:
            failures += 1
            print(f"wire: launch {len(rows) + failures} of {wanted}: {failure}", file=sys.stderr)
            continue
        if counts(row):
            rows.append(row)
        else:
            again += 1
    missing = wanted - len(rows) - failures
    if missing:
        print(f"wire: {missing} launches of {wanted} are missing: {again} did not count", file=sys.stderr)
    return rows, again


def shares(row):
    """Of the first, the tenth and the last iteration's chunks: the share that multicast lost. None: not known."""
    lost = row.get("iteration_repaired", [])
    expected = (row["chunks_multicast"] + row["chunks_repaired"]) / row["iterations"]
    picked = [lost[0] if lost else None, lost[TENTH] if len(lost) > TENTH else None, lost[-1] if lost else None]
    return [count / expected if count is not None and expected else None for count in picked]


def middle(figures):
    known = [figure for figure in figures if figure is not None]
    return median(known) if known else None


def worst(figures):
    return max((figure for figure in figures if figure is not None), default=None)


def summarize(case, rows, changed_bps):
    """Of all launches: times over what the wire needs, at the rates that a launch begins with; and of each launch's
    last iteration at the rate that it ends with."""
    wire_us, end_us = case.wire_s() * 1e6, case.wire_s(changed_bps) * 1e6
    times = [row["time_us"]["slowest"] / wire_us for row in rows]
    firsts = [row["first_us"] / wire_us if "first_us" in row else None for row in rows]
    lasts = [row["iteration_us"][-1] / end_us if "iteration_us" in row else None for row in rows]
    lost = list(zip(*map(shares, rows))) or [(), (), ()]
    return {"ratio": middle(times), "ratio_worst": worst(times), "first": middle(firsts), "first_worst": worst(firsts),
            "last": middle(lasts), "last_worst": worst(lasts),
            **{f"{name}_lost": middle(column) for name, column in zip(("first", "tenth", "last"), lost)},
            "first_lost_worst": worst(lost[0]),
            "slowest": worst(time / wire_us for row in rows for time in row.get("iteration_us", [])),
            "tcp_least_bps": min((bps for row in rows for bps in row.get("tcp_bps", [])), default=None)}


# --- A line a case ----------------------------------------------------------------------------------------------------

COLUMNS = ("collective", "hosts", "rate", "size", "wire us", "launches", "ratio", "worst", "first", "worst", "last",
           "lost 1st%", "10th%", "last%", "idle%", "stolen%")
WIDTHS = (14, 7, 9, 10, 10, 8, 7, 7, 7, 7, 7, 9, 7, 7, 6, 7)


def line_of(cells):
    return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, WIDTHS, strict=True))


def row_of(case, launches, again, summary, processors):
    ratios = [summary[name] for name in ("ratio", "ratio_worst", "first", "first_worst", "last")]
    lost = [summary[f"{name}_lost"] for name in ("first", "tenth", "last")]
    return line_of([case.collective, f"{case.hosts}x{case.ranks_per_host}", f"{case.rate_bps / 1e6:g}M", case.size_bytes,
                    f"{case.wire_s() * 1e6:.0f}", f"{launches}+{again}" if again else launches,
                    *("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios),
                    *("-" if share is None else f"{share * 100:.1f}" for share in lost),
                    *("-" if share is None else f"{share * 100:.0f}" for share in (processors["idle"], processors["stolen"]))])


def beside_tcp(case, summary):
    """What a flow of TCP and the collectives left each other, in a line."""
    least = summary["tcp_least_bps"]
    arrived = "told of no period" if least is None else f"{least / 1e6:.0f} Mbit/s ({least / case.rate_bps:.2f}) at least"
    slowest = "-" if summary["slowest"] is None else f"{summary['slowest']:.2f}"
    return f"           beside TCP: it had {arrived}; the slowest collective took {slowest}"
