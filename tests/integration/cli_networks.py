#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Jobs on networks that are not as they should be: what works all the same, and the sentence that a person reads.

    cli_networks.py PROGRAM
"""
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TIME_LIMIT_S, TUTTI, contains, equal, main, patience, within
from testbed_support import PYTHON, TESTBED, clean_environment, inside, network, start, testbed


def bench(name, *arguments, **variables):
    settings = [f"TUTTI_{key}={value}" for key, value in {"LOG": "warn", **variables}.items()]
    return testbed("run", "--name", name, "--", "env", *settings, TUTTI, "bench", *arguments, "-i", 3, "--json")


def rows(result):
    equal(result.returncode, 0, f"exit status, with {result.stderr!r}")
    found = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    equal([row["wrong"] for row in found], [0] * len(found), "wrong bytes")
    return found


def interface_without_the_flag_multicast_serves_point_to_point():
    with network("--hosts", 3) as name:
        inside(name, "h1", "ip", "link", "set", "tb0", "multicast", "off")
        result = bench(name, "allgather", "-b", 100000, "-e", 100000)
        equal([row["algorithm"] for row in rows(result)], ["triggered-ring"], "algorithm")
        contains(result.stderr, "group of 3: the network interface of rank 1 on h1 has no flag MULTICAST: going point to "
                 "point over tcp")
        for algorithm, name_of_row in (("ring", "chain"), ("tree", "tree")):
            result = bench(name, "broadcast", "--algorithm", algorithm, "-b", 1000, "-e", 1000)
            equal([row["algorithm"] for row in rows(result)], [name_of_row], "algorithm")
            equal("MULTICAST" in result.stderr, False, "whether it speaks of what nobody asked for")
        result = bench(name, "broadcast", "--algorithm", "multicast", "-b", 1000, "-e", 1000)
        equal(result.returncode, 1, "exit status")
        contains(result.stderr, "TUTTI_ALGORITHM=multicast: the network interface of rank 1 on h1 has no flag MULTICAST")


def cast_to_two(name, place, number, *arguments):
    """One file from h0 to h1 and h2; the sender's status, verdict and errors, and what has arrived."""
    job = ["--root", "10.84.7.1:29500", "--size", 3]
    copies = [os.path.join(place, f"{number}.{host}") for host in ("h1", "h2")]
    processes = [start(name, host, TUTTI, "catch", *job, "-o", copy) for host, copy in zip(("h1", "h2"), copies)]
    processes.append(start(name, "h0", TUTTI, "cast", *job, "--json", *arguments, os.path.join(place, "data")))
    output, errors = [process.communicate(timeout=TIME_LIMIT_S) for process in processes][-1]
    found = [open(copy, "rb").read() if os.path.exists(copy) else None for copy in copies]  # pylint: disable=consider-using-with
    return processes[-1].returncode, json.loads(output), errors, found


def interface_without_the_flag_multicast_serves_a_cast_by_pipeline():
    data = secrets.token_bytes(3000001)
    with network("--hosts", 3) as name, tempfile.TemporaryDirectory() as place:
        inside(name, "h1", "ip", "link", "set", "tb0", "multicast", "off")
        with open(os.path.join(place, "data"), "wb") as file:
            file.write(data)
        for number, ways in enumerate((["--by", "pipeline"], [])):
            status, verdict, errors, found = cast_to_two(name, place, number, *ways)
            equal(status, 0, f"exit status of a cast {ways}, with {errors!r}")
            equal(verdict["by"], "pipeline", f"way of a cast {ways}")
            equal(found == [data, data], True, f"whether both hosts have what a cast {ways} sent")
        status, _, errors, found = cast_to_two(name, place, 2, "--by", "multicast")
        equal((status, found), (1, [None, None]), "exit status of a cast by multicast, and what has arrived")
        contains(errors, "multicast does not get through to every host; --by pipeline does without")


def switch_port_with_a_small_mtu_is_suspected():
    limit_s, start_s = 3, 2 * patience()  # whatever is promised is kept within half a second; before that the ranks come together
    with network("--hosts", 3) as name:
        inside(name, "switch", "ip", "link", "set", "h1", "mtu", "1500")
        for host in ("h0", "h1", "h2"):  # else a switch of the kernel passes on what an adapter would have cut
            inside(name, host, "ip", "link", "set", "tb0", "gso_max_segs", "1")
        begun = time.monotonic()
        result = bench(name, "broadcast", "-b", 100000, "-e", 100000, TIMEOUT=f"{limit_s}s")
        within(time.monotonic() - begun, limit_s, limit_s + start_s, "seconds until the job ends")
        equal(result.returncode, 1, "exit status")
        sentence = ("; short messages do get through: packets as long as the MTU of tb0, 9000 bytes, may vanish on the way (`tutti doctor "
                    "--peer` says which pass)")
        contains(result.stderr, "`tutti doctor --job` looks for the cause" + sentence)
        contains(result.stderr, "timed out: all ranks are there, but the collective did not end in time" + sentence)
        contains(result.stderr, "missing ranks 0, 2: nobody answers rank 1 on h1, whose own network may be at fault" + sentence)
    with network("--hosts", 3, "--mtu", 1500) as name:
        inside(name, "h1", *DEAF)
        equal("short messages" in bench(name, "broadcast", "-b", 1000, "-e", 1000).stderr, False, "whether it suspects 1500 bytes")


DEAF = ("sh", "-ec", "nft add table inet x; nft add chain inet x i '{ type filter hook input priority 0; }'; "
        "nft add rule inet x i ip daddr 239.0.0.0/8 drop")
MUTE = ("sh", "-ec", "nft add table inet x; nft add chain inet x o '{ type filter hook output priority 0; }'; "
        "nft add rule inet x o ip daddr 239.0.0.0/8 udp dport 47000-49999 drop")


def host_without_multicast_is_named_at_the_start():
    with network("--hosts", 4) as name:
        inside(name, "h2", *DEAF)
        result = bench(name, "broadcast", "-b", 1000, "-e", 1000)
        equal([row["algorithm"] for row in rows(result)], ["tree"], "algorithm")
        contains(result.stderr, "group of 4: multicast on tb0 (10.84.7.1) does not get through to rank 2 on h2, which does not hear "
                 "rank 0 on h0: going point to point over tcp; `tutti doctor --job` looks for the cause")
        result = bench(name, "broadcast", "--algorithm", "multicast", "-b", 1000, "-e", 1000)
        equal(result.returncode, 1, "exit status")
        contains(result.stderr, "TUTTI_ALGORITHM=multicast: multicast does not get through to rank 2 on h2, which does not hear "
                 "rank 0 on h0")
    with network("--hosts", 4) as name:
        inside(name, "h3", *MUTE)
        contains(bench(name, "broadcast", "-b", 1000, "-e", 1000).stderr, "does not get through from rank 3 on h3: going ")


def counted(name, host, rule_text):
    """Packets that a rule of nftables on a host has seen since it was made."""
    rules = json.loads(inside(name, host, "nft", "-j", "list", "ruleset"))["nftables"]
    for rule in rules:
        if "rule" in rule and rule["rule"].get("comment") == rule_text:
            return sum(part["counter"]["packets"] for part in rule["rule"]["expr"] if "counter" in part)
    raise AssertionError(f"no rule {rule_text!r} in {rules}")


def of_a_job(name, collective, sizes, between, iterations=50):
    """The errors that a job says which does a size after the other, right, with something done between each two."""
    command = [PYTHON, TESTBED, "run", "--name", name, "--", "env", "TUTTI_LOG=warn", TUTTI, "bench", collective, "--algorithm",
               "multicast", "-b", sizes[0], "-e", sizes[1], "-f", "2", "-i", str(iterations), "-w", "0", "--json"]
    process = subprocess.Popen(command, env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    lines = []
    for action in between:
        lines.append(process.stdout.readline())
        action()
    output, errors = process.communicate(timeout=TIME_LIMIT_S)
    found = [json.loads(line) for line in lines + output.splitlines() if line.startswith("{")]
    equal((process.returncode, [row["wrong"] for row in found]), (0, [0] * (len(between) + 1)),
          f"exit status and wrong bytes, with {errors!r}")
    return errors


def host_that_hears_no_multicast_any_more_says_so_and_when_it_does_again():
    with network("--hosts", 3, "--rate", "10mbit") as name:  # so that what is done meanwhile comes in time
        errors = of_a_job(name, "broadcast", ("16K", "64K"), [
            lambda: inside(name, "h1", *DEAF), lambda: inside(name, "h1", "nft", "delete", "table", "inet", "x")])
        contains(errors, "group of 3: multicast on tb0 (10.84.7.2) does not get through to rank 1 on h1 any more: all of the last 2 "
                 "collectives was repaired over tcp, and what follows is read over that at once; snooping without a querier, or a "
                 "firewall")
        contains(errors, "multicast on tb0 (10.84.7.2) gets through to rank 1 on h1 again")
        equal("rank 0" in errors or "rank 2" in errors, False, f"whether others are culprit in {errors!r}")


def where_no_host_hears_any_multicast_next_to_none_is_sent():
    with network("--hosts", 3, "--rate", "50mbit") as name:
        dropped = []

        def cut():
            inside(name, "switch", "nft", "add table bridge x; add chain bridge x f { type filter hook forward priority 0; }; "
                   'add rule bridge x f ip daddr 239.0.0.0/8 counter drop comment "cut"')

        def mend():
            dropped.append(counted(name, "switch", "cut"))
            inside(name, "switch", "nft", "delete", "table", "bridge", "x")

        errors = of_a_job(name, "allgather", ("64K", "256K"), [cut, mend])
        for rank in range(3):
            contains(errors, f"does not get through to rank {rank} on h{rank} any more")
            contains(errors, f"gets through to rank {rank} on h{rank} again")
        # Of 50 Allgathers of 128 KiB, of 43 or more datagrams each: two, and then a release and three chunks each.
        equal(0 < dropped[0] < 900, True, f"whether there were few datagrams: {dropped}")


def switch_that_forgets_who_listens_is_told_again():
    with network("--hosts", 3, "--rate", "10mbit") as name:
        # One that knows of a querier forwards to listeners only; this is it itself, and it does not ask again.
        bridge = ("ip", "link", "set", "br0", "type", "bridge")
        inside(name, "switch", *bridge, "mcast_query_response_interval", "1", "mcast_query_interval", "100000",
               "mcast_startup_query_count", "0", "mcast_igmp_version", "3")
        inside(name, "switch", *bridge, "mcast_snooping", "1", "mcast_querier", "1")

        def listeners():
            tables = json.loads(inside(name, "switch", "bridge", "-j", "mdb", "show"))
            return [entry["grp"] for table in tables for entry in table["mdb"]
                    if entry["port"] == "h1" and entry["grp"].startswith("239.")]

        def forget():
            groups = listeners()
            equal(len(groups) > 0, True, "whether the switch knows that h1 listens")
            for group in groups:
                inside(name, "switch", "bridge", "mdb", "del", "dev", "br0", "port", "h1", "grp", group)
            equal(listeners(), [], "groups that h1 listens to")

        # When it forgets, hosts have said twice that they listen, as they do within a second or two of joining.
        errors = of_a_job(name, "broadcast", ("128K", "256K"), [forget], iterations=30)
        contains(errors, "does not get through to rank 1 on h1 any more")
        contains(errors, "gets through to rank 1 on h1 again")


def ttl_and_traffic_class_are_on_what_is_sent():
    rules = {"chunks": "ip protocol udp ip daddr 239.0.0.0/8 ip ttl 7 ip dscp 26",
             "other chunks": "ip protocol udp ip daddr 239.0.0.0/8 ip ttl != 7",
             "unmarked chunks": "ip protocol udp ip daddr 239.0.0.0/8 ip dscp != 26",
             "frames": "tcp dport 47000-49999 ip dscp 26",
             "answers": "tcp sport 47000-49999 ip dscp 26"}
    with network("--hosts", 3) as name:
        inside(name, "h1", "nft", "add table ip f; add chain ip f input { type filter hook input priority 0; }; " + "; ".join(
            f'add rule ip f input {text} counter comment "{comment}"' for comment, text in rules.items()))
        rows(bench(name, "broadcast", "-b", 1000000, "-e", 1000000, TTL=7, TRAFFIC_CLASS=104))
        seen = {comment: counted(name, "h1", comment) for comment in rules}
        equal((seen["other chunks"], seen["unmarked chunks"]), (0, 0), f"packets as they should not be, of {seen}")
        equal(seen["chunks"] > 100 and seen["frames"] + seen["answers"] > 0, True, f"whether there are some, of {seen}")


if __name__ == "__main__":
    main([interface_without_the_flag_multicast_serves_point_to_point,
          interface_without_the_flag_multicast_serves_a_cast_by_pipeline,
          switch_port_with_a_small_mtu_is_suspected,
          host_without_multicast_is_named_at_the_start,
          host_that_hears_no_multicast_any_more_says_so_and_when_it_does_again,
          where_no_host_hears_any_multicast_next_to_none_is_sent,
          switch_that_forgets_who_listens_is_told_again,
          ttl_and_traffic_class_are_on_what_is_sent])
