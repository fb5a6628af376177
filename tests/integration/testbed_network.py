#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a testbed's network does to traffic: it counts, holds rates, makes senders wait, buffers, and loses what it is told
to lose. And `tutti bench` across its hosts.
"""
import json
import math

from cli_support import TUTTI, contains, equal, main
from testbed_support import address_of, counters, end, network, received, receiver, sender, succeed

HEADERS = 42  # Ethernet, IP, UDP
GROUP = "239.192.7.7"


def within(found, low, high, what):
    if not low <= found <= high:
        raise AssertionError(f"{what}: {found:g}, not within {low:g} and {high:g}")


def counters_count_what_was_sent():
    with network("--hosts", 3) as name:
        processes = [receiver(name, host, 5000, GROUP) for host in ("h1", "h2")]
        succeed("counters", "--name", name, "--reset")
        end(sender(name, "h0", GROUP, 5000, 2000, 5000))
        for process in processes:
            equal(received(process)["datagrams"], 2000, "received datagrams")
        found = counters(name)
        sent = 2000 * (5000 + HEADERS)
        ports = found["ports"]
        for port, column in (("h0", "in_bytes"), ("h1", "out_bytes"), ("h2", "out_bytes")):
            within(ports[port][column], sent, 1.01 * sent, f"{column} of {port}")
        for port, column in (("h0", "out_bytes"), ("h1", "in_bytes"), ("h2", "in_bytes")):
            within(ports[port][column], 0, 0.01 * sent, f"{column} of {port}")
        within(found["total"]["in_frames"], 2000, 2050, "frames into the switch")
        equal([found["total"][column] for column in ("queue_drops", "lost", "host_drops")], [0, 0, 0], "drops")


def rate_is_held_and_a_sender_waits_for_it():
    """As fast as its socket lets it: nothing is dropped on the way, as the socket's buffer is what is full."""
    rate, datagrams, length = 100e6, 1200, 8192
    with network("--hosts", 2, "--rate", "100mbit") as name:
        ratios = []
        for _ in range(3):  # a machine that is busy with something else at times makes it slower, never faster
            process = receiver(name, "h1", 5000)
            equal(json.loads(end(sender(name, "h0", address_of(1), 5000, datagrams, length)))["refused"], 0, "refused sends")
            result = received(process)
            equal(result["datagrams"], datagrams, "received datagrams")
            ratios.append((datagrams - 1) * (length + HEADERS) * 8 / result["seconds"] / rate)
            if 0.97 <= ratios[-1] <= 1.03:
                break
        within(max(ratios), 0.97, 1.03, f"best of the rates {ratios} over what was asked for")
        total = counters(name)["total"]
        equal((total["queue_drops"], total["host_drops"]), (0, 0), "drops at the port and at the host")


def port_that_all_others_feed_within_its_rate_loses_nothing():
    hosts, datagrams, length = 8, 400, 8192
    with network("--hosts", hosts, "--rate", "500mbit") as name:
        process = receiver(name, "h0", 5000)
        share = 0.96 * 500e6 / (hosts - 1) * length / (length + HEADERS)
        for running in [sender(name, f"h{i}", address_of(0), 5000, datagrams, length, share) for i in range(1, hosts)]:
            end(running)
        equal(received(process)["datagrams"], (hosts - 1) * datagrams, "received datagrams")
        equal(counters(name)["total"]["queue_drops"], 0, "drops")


def port_that_gets_more_than_its_buffer_holds_drops_and_counts_it():
    """Two senders at the link's rate each for one receiver: half of it does not fit."""
    with network("--hosts", 3, "--rate", "100mbit", "--buffer", "128K") as name:
        process = receiver(name, "h0", 5000)
        for running in [sender(name, f"h{i}", address_of(0), 5000, 400, 8192) for i in (1, 2)]:
            end(running)
        arrived = received(process)["datagrams"]
        drops = counters(name)["ports"]["h0"]["queue_drops"]
        within(drops, 200, 500, "drops at the port, of 800 datagrams")
        within(arrived + drops, 800, 806, "datagrams and end marks that arrived or were dropped")


def loss_is_as_asked_for_single_frames_and_each_receiver_its_own():
    datagrams, segment, share = 16000, 500, 0.02
    with network("--hosts", 5, "--loss", "2%") as name:
        receivers = {host: receiver(name, host, 5000, GROUP) for host in ("h1", "h2", "h3", "h4")}
        before = counters(name)["ports"]
        # In trains of 8, which the host cuts into frames.
        end(sender(name, "h0", GROUP, 5000, datagrams // 8, 8 * segment, 0, segment))
        arrived = {host: received(process)["datagrams"] for host, process in receivers.items()}
        after = counters(name)["ports"]
        within(after["h0"]["in_frames"] - before["h0"]["in_frames"], datagrams, datagrams + 50, "frames into the switch")
        deviation = math.sqrt(datagrams * share * (1 - share))
        for host, count in arrived.items():
            within(datagrams - count, datagrams * share - 6 * deviation, datagrams * share + 6 * deviation,
                   f"datagrams that {host} lost")
            # Frames of IGMP and ARP, and end marks, are lost like any other.
            within(after[host]["lost"] - before[host]["lost"] - (datagrams - count), 0, 6, f"frames counted as lost at {host}")
        if len(set(arrived.values())) == 1:
            raise AssertionError(f"all have lost the same number: {arrived}")


def tutti_across_four_hosts_puts_every_byte_on_each_link_once():
    with network("--hosts", 4, "--rate", "500mbit") as name:
        for collective, blocks in (("broadcast", 4), ("allgather", 16)):
            rows = [json.loads(line) for line in succeed(
                "run", "--name", name, "--limit", 50, "--", TUTTI, "bench", collective, "-b", "1", "-e", "1M", "-f", "1024",
                "-i", "5", "--json").splitlines()]
            equal([(row["size_bytes"], row["ranks"], row["local_ranks"], row["wrong"], row["multicast"]) for row in rows],
                  [(size, 4, 1, 0, True) for size in (1, 1024, 1048576)], f"rows of the {collective}")
            contains(rows[0]["interface"], "tb0")
            succeed("counters", "--name", name, "--reset")
            size, rounds = 1 << 20, 12
            succeed("run", "--name", name, "--limit", 50, "--", TUTTI, "bench", collective, "-b", size, "-e", size,
                    "-i", rounds - 2, "-w", 2, "--json")
            total = counters(name)["total"]
            moved = (total["in_bytes"] + total["out_bytes"]) / (blocks * size * rounds)
            within(moved, 1.0, 1.1, f"bytes at the switch's ports over those of the {collective}")


if __name__ == "__main__":
    main([counters_count_what_was_sent,
          rate_is_held_and_a_sender_waits_for_it,
          port_that_all_others_feed_within_its_rate_loses_nothing,
          port_that_gets_more_than_its_buffer_holds_drops_and_counts_it,
          loss_is_as_asked_for_single_frames_and_each_receiver_its_own,
          tutti_across_four_hosts_puts_every_byte_on_each_link_once])
