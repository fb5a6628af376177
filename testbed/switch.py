# SPDX-License-Identifier: BSD-3-Clause
"""The switch's counters: what came in and went out at each port, and what was dropped where.

`in` is what a host has sent, `out` what was sent to it; bytes with Ethernet headers, as the ports count them. A frame
is counted as it passes: without a rate, a train of segments that travels as one counts as one frame, its headers once.
"""
import json
import os

import namespaces
from network import DIRECTORY, INTERFACE, tool

COLUMNS = ("in_bytes", "in_frames", "out_bytes", "out_frames", "queue_drops", "lost", "host_drops")
# queue_drops: the port's buffer was full; lost: dropped by --loss; host_drops: by the host's own queue or interface.


def read_devices():
    """Bytes, packets and drops, received and sent, by device of the network namespace this process is in."""
    devices = {}
    with open("/proc/thread-self/net/dev", encoding="ascii") as file:
        for line in file.readlines()[2:]:
            name, fields = line.split(":")
            words = [int(word) for word in fields.split()]
            devices[name.strip()] = {"rx_bytes": words[0], "rx_packets": words[1], "rx_drops": words[3],
                                     "tx_bytes": words[8], "tx_packets": words[9], "tx_drops": words[11]}
    return devices


def read_queue_drops(namespace):
    """Drops of the token buckets, by device."""
    queues = json.loads(tool("tc", "-n", namespace, "-s", "-j", "qdisc", "show"))
    return {queue["dev"]: queue["drops"] for queue in queues if queue["kind"] == "tbf"}


def read_lost(testbed):
    """Frames that --loss has dropped, by port."""
    if not testbed.options["loss_ppm"]:
        return {}
    listing = json.loads(namespaces.run_inside(testbed.switch, lambda: tool(
        "nft", "-j", "list", "chain", "bridge", "testbed", "forward")))
    lost = {}
    for entry in listing["nftables"]:
        rule = entry.get("rule", {})
        counters = [part["counter"]["packets"] for part in rule.get("expr", []) if "counter" in part]
        if counters:
            lost[rule["comment"]] = counters[0]
    return lost


def read_absolute(testbed):
    """The counters of every port since `up`."""
    devices = namespaces.run_inside(testbed.switch, read_devices)
    queue_drops = read_queue_drops(testbed.switch) if testbed.options["rate_bps"] else {}
    lost = read_lost(testbed)
    ports = {}
    for host in testbed.hosts:
        device = devices[host.name]
        own = namespaces.run_inside(host.netns, read_devices)[INTERFACE]
        own_queue = read_queue_drops(host.netns).get(INTERFACE, 0) if testbed.options["rate_bps"] else 0
        # A peer's device counts as dropped what the other end's backlog could not take: the next host's side, here ours.
        ports[host.name] = {"in_bytes": device["rx_bytes"], "in_frames": device["rx_packets"],
                            "out_bytes": device["tx_bytes"], "out_frames": device["tx_packets"],
                            "queue_drops": queue_drops.get(host.name, 0) + device["tx_drops"],
                            "lost": lost.get(host.name, 0),
                            "host_drops": own_queue + own["tx_drops"] + own["rx_drops"]}
    return ports


def base_path(testbed):
    return f"{DIRECTORY}/{testbed.id}/counters.json"


def read(testbed):
    """The counters of every port since the last reset, or since `up`."""
    ports = read_absolute(testbed)
    try:
        with open(base_path(testbed), encoding="ascii") as file:
            base = json.load(file)
    except FileNotFoundError:
        return ports
    return difference(base, ports)


def difference(before, after):
    return {name: {column: after[name][column] - before[name][column] for column in COLUMNS} for name in after}


def total(ports):
    return {column: sum(port[column] for port in ports.values()) for column in COLUMNS}


def reset(testbed):
    path = base_path(testbed)
    with open(path + ".new", "w", encoding="ascii") as file:
        json.dump(read_absolute(testbed), file)
    os.rename(path + ".new", path)


def table(ports):
    lines = [f"{'port':>5} " + " ".join(f"{column:>14}" for column in COLUMNS)]
    for name, port in [*ports.items(), ("all", total(ports))]:
        lines.append(f"{name:>5} " + " ".join(f"{port[column]:>14}" for column in COLUMNS))
    return "\n".join(lines)
