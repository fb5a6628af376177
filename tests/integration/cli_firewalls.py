#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks on hosts of a testbed with firewalls between them: what works all the same, and the sentence that a person reads
where nothing can.

    cli_firewalls.py PROGRAM
"""
import re
import shutil
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TIME_LIMIT_S, TUTTI, Skip, contains, equal, main, within
from testbed_support import network, testbed

PORTS = "20000-20999"  # below those that the system chooses from, of which rank 0 listens at one at the start
WHERE = re.compile(r"connect to 10\.84\.7\.[123]:20\d\d\d: ")


def firewall(name, chains, verdict):
    """On host h2, for the first packets of connections to ranks' ports; `chains`: of which direction."""
    if shutil.which("nft") is None:
        raise Skip("nft is not installed")
    rules = "add table ip f; " + "; ".join(
        f"add chain ip f {chain} {{ type filter hook {chain} priority 0; }}; "
        f"add rule ip f {chain} tcp flags & (syn | ack) == syn tcp dport {PORTS} {verdict}" for chain in chains)
    subprocess.run(["ip", "netns", "exec", f"tutti-{name}-h2", "nft", rules], check=True, timeout=TIME_LIMIT_S,
                   capture_output=True)


def bench(name):
    """A Broadcast by connections alone: the result, and the seconds that it took."""
    begun = time.monotonic()
    result = testbed("run", "--name", name, "-n", 3, "--", "env", f"TUTTI_PORTS={PORTS}", TUTTI, "bench", "broadcast", "--algorithm", "tree",
                     "-b", 8, "-e", 8, "-i", 3)
    return result, time.monotonic() - begun


def with_firewall(chains, verdict):
    with network("--hosts", 3) as name:
        firewall(name, chains, verdict)
        return bench(name)


def host_that_rejects_connections_connects_itself():
    for verdict in ("reject with tcp reset", "reject with icmp type admin-prohibited"):
        result, _ = with_firewall(["input"], verdict)
        equal(result.returncode, 0, f"{verdict}: exit status, with {result.stderr!r}")


def host_that_drops_connections_connects_itself():
    result, _ = with_firewall(["input"], "drop")
    equal(result.returncode, 0, f"exit status, with {result.stderr!r}")


def host_that_rejects_both_ways_is_named_with_its_address_and_the_cause():
    result, seconds = with_firewall(["input", "output"], "reject with tcp reset")
    equal(result.returncode, 1, f"exit status, with {result.stderr!r}")
    contains(result.stderr, "a peer failed (creating the group): ")
    equal(WHERE.search(result.stderr) is not None, True, f"an address in {result.stderr!r}")
    equal(re.search(r"rank (\d) on h\1 cannot reach rank (\d) on h\2: connect to 10\.84\.7\.\d:20\d\d\d: Connection refused \(its "
                    r"process has ended, or a firewall rejects TCP to it\)", result.stderr) is not None, True,
          f"who cannot reach whom in {result.stderr!r}")
    contains(result.stderr, "Connection refused (its process has ended, or a firewall rejects TCP to it)")
    for rank in range(3):
        equal(f"cannot reach rank {rank}" in "".join(line for line in result.stderr.splitlines() if f"tutti bench: rank {rank}: " in line),
              False, f"whether rank {rank} accuses itself in {result.stderr!r}")
    within(seconds, 0, 5, "seconds")


def host_that_drops_both_ways_is_named_within_seconds():
    result, seconds = with_firewall(["input", "output"], "drop")
    equal(result.returncode, 1, f"exit status, with {result.stderr!r}")
    equal(WHERE.search(result.stderr) is not None, True, f"an address in {result.stderr!r}")
    contains(result.stderr, "(its host is not there, or a firewall drops TCP to it)")
    within(seconds, 5, 15, "seconds")


if __name__ == "__main__":
    main([host_that_rejects_connections_connects_itself,
          host_that_drops_connections_connects_itself,
          host_that_rejects_both_ways_is_named_with_its_address_and_the_cause,
          host_that_drops_both_ways_is_named_within_seconds])
