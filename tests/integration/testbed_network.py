#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""What a testbed's network does to traffic: it counts, holds rates, makes senders wait, buffers, and loses what it is told
to lose. Nothing of tutti runs here.
"""
import json
import math

from cli_support import equal, main, within
from testbed_support import address_of, counters, end, floods, network, received, receiver, sender, succeed

HEADERS = 42  # Ethernet, IP, UDP
GROUP = "239.192.7.7"


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


def bucket(name, host):
    """The token bucket of a host's link, as the kernel describes and counts it."""
    queues = json.loads(succeed("exec", "--name", name, host, "--", "tc", "-s", "-j", "qdisc", "show", "dev", "tb0"))
    return next(queue for queue in queues if queue["kind"] == "tbf")


def rate_is_held_and_a_sender_waits_for_it():
    """As fast as its socket lets it: nothing is dropped on the way, as the socket's buffer is what is full. A busy machine
    makes traffic slower, never faster, so times have one bound only; that the rate is not held back further is what the
    bucket says of itself."""
    rate, datagrams, length, held_back = 100e6, 1200, 8192, 1 << 20
    with network("--hosts", 2, "--rate", "100mbit") as name:
        process = receiver(name, "h1", 5000)
        sent = json.loads(end(sender(name, "h0", address_of(1), 5000, datagrams, length)))
        equal(sent["refused"], 0, "refused sends")
        result = received(process)
        equal(result["datagrams"], datagrams, "received datagrams")
        ratio = (datagrams - 1) * (length + HEADERS) * 8 / result["seconds"] / rate
        within(ratio, 0, 1.03, "rate over what was asked for")
        # All but what the socket's buffer and the queue hold has left when the last send returns.
        within(sent["seconds"], (datagrams * length - held_back) * 8 / rate, math.inf, "seconds in which the sender sent")
        found = bucket(name, "h0")
        equal(found["options"]["rate"] * 8, rate, "rate of the bucket")
        within(found["overlimits"], 100, math.inf, "times that the bucket held something back")
        total = counters(name)["total"]
        equal((total["queue_drops"], total["host_drops"]), (0, 0), "drops at the port and at the host")


def port_that_all_others_feed_within_its_rate_loses_nothing():
    hosts, datagrams, length = 8, 400, 8192
    with network("--hosts", hosts, "--rate", "500mbit") as name:
        process = receiver(name, "h0", 5000, senders=hosts - 1)
        share = 0.96 * 500e6 / (hosts - 1) * length / (length + HEADERS)
        for running in [sender(name, f"h{i}", address_of(0), 5000, datagrams, length, share) for i in range(1, hosts)]:
            end(running)
        equal(received(process)["datagrams"], (hosts - 1) * datagrams, "received datagrams")
        equal(counters(name)["total"]["queue_drops"], 0, "drops")


def port_that_gets_more_than_its_buffer_holds_drops_and_counts_it():
    """Two senders at the link's rate each for one receiver: half of it does not fit while both send. What the kernel was
    given leaves for about a second, in which the other one begins too; unless the machine is very busy, so try again."""
    datagrams, length = 1600, 8192
    with network("--hosts", 3, "--rate", "100mbit", "--buffer", "128K") as name:
        shares = []
        while len(shares) < 5 and (not shares or shares[-1] < 0.25):
            succeed("counters", "--name", name, "--reset")
            process = receiver(name, "h0", 5000, senders=2)
            floods(name, ("h1", "h2"), address_of(0), 5000, datagrams, length)
            result = received(process)
            total = counters(name)["total"]
            within(result["datagrams"] + result["marks"] + total["queue_drops"], 2 * datagrams + 6, 2 * datagrams + 16,
                   "datagrams and end marks that arrived or were dropped, and what hosts say by themselves")
            equal(total["host_drops"], 0, "drops at the hosts")
            shares.append(counters(name)["ports"]["h0"]["queue_drops"] / (2 * datagrams))
            within(shares[-1], 0, 0.55, "share of the datagrams that was dropped")
        within(shares[-1], 0.25, 0.55, f"last of the shares {shares} of the datagrams that were dropped")


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


def switch_without_multicast_drops_it_and_nothing_else():
    with network("--hosts", 3, "--no-multicast") as name:
        process = receiver(name, "h1", 5000)
        succeed("counters", "--name", name, "--reset")
        for address in (GROUP, address_of(1)):
            end(sender(name, "h0", address, 5000, 1000, 5000))
        equal(received(process)["datagrams"], 1000, "datagrams to the host's own address")
        sent, ports = 1000 * (5000 + HEADERS), counters(name)["ports"]
        within(ports["h0"]["in_bytes"], 2 * sent, 2.01 * sent, "bytes into the switch")
        within(ports["h1"]["out_bytes"], sent, 1.01 * sent, "bytes to the host with the address")
        within(ports["h2"]["out_bytes"], 0, 0.01 * sent, "bytes to the other")


if __name__ == "__main__":
    main([counters_count_what_was_sent,
          rate_is_held_and_a_sender_waits_for_it,
          port_that_all_others_feed_within_its_rate_loses_nothing,
          port_that_gets_more_than_its_buffer_holds_drops_and_counts_it,
          loss_is_as_asked_for_single_frames_and_each_receiver_its_own,
          switch_without_multicast_drops_it_and_nothing_else])
