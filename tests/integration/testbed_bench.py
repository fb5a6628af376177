#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti bench` across the hosts of a testbed, and what its switch counts meanwhile."""
import json
import os
import tempfile

from cli_support import TUTTI, contains, equal, main, within
from testbed_support import counters, inside, network, succeed


def bytes_moved(name, collective, blocks):
    """What passed the switch's ports over what has to. A rank that waits for the processor has others repair what they
    believe to be lost, which then comes twice: in at one port and out at another. That is taken off."""
    succeed("counters", "--name", name, "--reset")
    size, rounds = 1 << 20, 12
    row = json.loads(succeed("run", "--name", name, "--limit", 150, "--", TUTTI, "bench", collective, "-b", size, "-e", size,
                             "-i", rounds - 2, "-w", 2, "--json"))
    equal(len(row["iteration_repaired"]), rounds, "iterations that say what was repaired")
    total = counters(name)["total"]
    repaired = 2 * sum(row["iteration_repaired"]) * row["chunk_bytes"]
    return (total["in_bytes"] + total["out_bytes"] - repaired) / (blocks * size * rounds)


def tutti_across_four_hosts_puts_every_byte_on_each_link_once():
    with network("--hosts", 4, "--rate", "500mbit") as name:
        for collective, blocks in (("broadcast", 4), ("allgather", 16)):
            rows = [json.loads(line) for line in succeed(
                "run", "--name", name, "--limit", 150, "--", TUTTI, "bench", collective, "-b", "1", "-e", "1M", "-f", "1024",
                "-i", "5", "--json").splitlines()]
            equal([(row["size_bytes"], row["ranks"], row["local_ranks"], row["wrong"], row["multicast"]) for row in rows],
                  [(size, 4, 1, 0, True) for size in (1, 1024, 1048576)], f"rows of the {collective}")
            contains(rows[0]["interface"], "tb0")
            for _ in range(2):
                within(bytes_moved(name, collective, blocks), 1.0, 1.1,
                       f"bytes at the switch's ports over those of the {collective}")


def row_of(name, collective, size):
    return json.loads(succeed("run", "--name", name, "--limit", 150, "--", TUTTI, "bench", collective, "-b", size, "-e", size,
                              "-i", 10, "-w", 0, "--json"))


def frames_that_may_be_lost_are_followed_by_probes_and_not_by_many():
    """What a rank says before it waits for 192 KiB, 31 ms on such a link, is followed by a probe, in each Broadcast. So
    much is on its way at once: nobody says anything more, which would take a probe's place."""
    with network("--hosts", 4, "--rate", "50mbit", "--loss", "1%") as name:
        row = row_of(name, "broadcast", "192K")
        equal(row["wrong"], 0, "wrong bytes")
        # Reads, and what is said while connections are made, are no frames, but followed by probes as well.
        most = 2 * (row["counters"]["p2p_frames_sent"] + 2 * row["chunks_repaired"] + 10 * 4 * 3)
        within(row["counters"]["p2p_probes_sent"], 10 * 3, most, "probes of all ranks in ten broadcasts")


def logs_of(name, algorithm):
    """What each rank's fabric says in twenty Broadcasts of 1 MiB."""
    with tempfile.TemporaryDirectory() as place:
        succeed("run", "--name", name, "--limit", 150, "--", "env", "TUTTI_LOG=none,fabric:debug",
                f"TUTTI_LOG_FILE={place}/%p", TUTTI, "bench", "broadcast", "--algorithm", algorithm, "-b", "1M", "-e", "1M",
                "-i", 20, "-w", 0)
        said = []
        for file in os.listdir(place):
            with open(f"{place}/{file}", encoding="utf-8") as log:
                said.append(log.read())
        return said


def losses_are_noticed():
    with network("--hosts", 4, "--rate", "500mbit", "--loss", "5%") as name:
        contains("".join(logs_of(name, "chain")), "was lost: probes go out sooner")


def losses_of_multicast_are_noticed():
    """TCP loses nothing here: whoever has noticed one of its own says nothing of multicast for ten seconds."""
    with network("--hosts", 4, "--rate", "500mbit") as name:
        for rule in ("add table bridge losses", "add chain bridge losses forward { type filter hook forward priority 0; }",
                     "add rule bridge losses forward ip protocol udp numgen random mod 100 < 5 drop"):
            inside(name, "switch", "nft", rule)
        said = logs_of(name, "multicast")
        contains("".join(said), "multicast loses datagrams: probes go out sooner")
        for rank in said:  # also the root's, which receives no chunks
            contains(rank, "probes go out sooner")


if __name__ == "__main__":
    main([tutti_across_four_hosts_puts_every_byte_on_each_link_once,
          frames_that_may_be_lost_are_followed_by_probes_and_not_by_many,
          losses_are_noticed,
          losses_of_multicast_are_noticed])
