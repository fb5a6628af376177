#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti doctor --job`: ranks on loopback, and hosts of testbeds in which something is wrong, which must be found and named.

    cli_doctor.py PROGRAM
"""
import contextlib
import json
import signal
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TIME_LIMIT_S, TUTTI, Job, contains, equal, main, tutti, within
from testbed_support import inside, network, testbed

RATE_MBIT = 100


def doctor(name, *options, status=0):
    """Runs it on the hosts of a testbed, which exists only where there is privilege; its JSON."""
    result = testbed("run", "--name", name, "--", TUTTI, "doctor", "--job", "--json", *options)
    equal(result.returncode, status, f"exit status, with {result.stdout!r} {result.stderr!r}")
    return json.loads(result.stdout)


@contextlib.contextmanager
def hosts(count, *options):
    with network("--hosts", count, "--rate", f"{RATE_MBIT}mbit", *options) as name:
        yield name


def only(report, check):
    """The one finding of a check."""
    found = [finding for finding in report["checks"] if finding["check"] == check]
    equal(len(found), 1, f"findings of {check} in {report['checks']}")
    return found[0]


def all_measured(report):
    """Every host has its figures, and none is faster than its link, on which a busy machine has no influence."""
    for host in report["hosts"]:
        for figure in ("rate_out_mbit_per_s", "rate_in_mbit_per_s"):
            within(host[figure], 1, RATE_MBIT * 1.1, f"{figure} of {host['host']}")
        within(host["round_trip_us"], 0.1, 1e6, f"round trip of {host['host']}")


def ranks_on_this_machine_measure_each_other():
    result = tutti("doctor", "--job", "-n", 2, "--json")
    equal(result.returncode, 0, f"exit status, with {result.stdout!r} and {result.stderr!r}")
    report = json.loads(result.stdout)
    equal((report["verdict"] != "fail", report["ranks"], len(report["hosts"]), len(report["pairs"])), (True, 2, 2, 2),
          "verdict, ranks, hosts, pairs")
    for host in report["hosts"]:
        equal((host["interface"], host["payload_bytes"], host["multicast_heard"], host["multicast_not_heard"]),
              ("lo", 65507, 1, []), "a host")
        within(host["rate_in_mbit_per_s"], 1, 1e6, "rate")


def table_has_a_line_a_rank_and_the_pairs():
    result = tutti("doctor", "--job", "-n", 3, "--pairs")
    equal(result.returncode, 0, f"exit status, with {result.stdout!r} and {result.stderr!r}")
    lines = result.stdout.splitlines()
    equal(sum("127.0.0.1" in line for line in lines), 3, f"lines of hosts in {result.stdout!r}")
    contains(result.stdout, "3 ranks on 1 host,")
    contains(result.stdout, "rate in Mbit/s\nfrom \\ to")
    contains(result.stdout, "loss in ppm\nfrom \\ to")
    contains(lines[-1], "verdict: ")


def rank_that_stops_is_named():
    job = Job(3, "doctor", "--job", "-n", "3", TUTTI_BOOTSTRAP_TIMEOUT="5s")  # it may be stopped before there is a group
    job.signal(2, signal.SIGSTOP)
    status, errors, _ = job.end(TIME_LIMIT_S)
    equal(status, 1, "exit status")
    said = [line for line in errors.splitlines() if line.startswith("tutti doctor: rank 0: ")]
    equal(len(said), 1, f"lines of rank 0 in {errors!r}")
    contains(said[0], "rank 2")


def request_to_end_is_the_exit_status():
    job = Job(3, "doctor", "--job", "-n", "3")
    job.process.send_signal(signal.SIGTERM)
    status, errors, _ = job.end(TIME_LIMIT_S)
    equal(status, 128 + signal.SIGTERM, f"exit status, with {errors!r}")


def what_a_rank_that_stands_still_has_not_sent_is_not_lost():
    job = Job(3, "doctor", "--job", "-n", "3", "--json")
    until = time.monotonic() + TIME_LIMIT_S
    while job.process.poll() is None and time.monotonic() < until:
        for number, pause_s in ((signal.SIGSTOP, 0.25), (signal.SIGCONT, 0.2)):  # longer than a train's silence
            with contextlib.suppress(ProcessLookupError):
                job.signal(1, number)
            time.sleep(pause_s)
    _, errors, _ = job.end(TIME_LIMIT_S)
    equal([finding for finding in json.loads(job.output)["checks"] if finding["check"] == "loss"], [], f"losses; {errors!r}")


def healthy_hosts_are_ok():
    with hosts(4) as name:
        report = doctor(name, "--pairs")
        all_measured(report)
        equal([finding for finding in report["checks"] if finding["verdict"] == "fail"], [], "what fails")
        for host in report["hosts"]:
            equal((host["payload_bytes"], host["mtu_bytes"], host["multicast_heard"], host["multicast_not_heard"]),
                  (8972, 9000, 3, []), host["host"])
        equal(sum(pair["rate_mbit_per_s"] is not None for pair in report["pairs"]), 12, "pairs with a rate")


def slow_host_is_named():
    with hosts(4) as name:
        slow = ("root", "tbf", "rate", "10mbit", "burst", "18kb", "limit", "64mb")
        inside(name, "h2", "tc", "qdisc", "change", "dev", "tb0", *slow)
        inside(name, "switch", "tc", "qdisc", "change", "dev", "h2", *slow)
        report = doctor(name)
        all_measured(report)
        within(report["hosts"][2]["rate_out_mbit_per_s"], 1, 12, "the slow host's rate out")
        within(report["hosts"][2]["rate_in_mbit_per_s"], 1, 12, "the slow host's rate in")
        contains([finding["subject"] for finding in report["checks"] if finding["check"] == "rate"], "h2 (rank 2)")


def lossy_host_is_named_and_so_is_a_lossy_network():
    with hosts(4) as name:
        inside(name, "switch", "sh", "-ec", "nft add table bridge x; nft add chain bridge x f "
               "'{ type filter hook forward priority 0; }'; nft add rule bridge x f oifname h1 ip protocol udp "
               "numgen random mod 100 '<' 5 drop")
        report = doctor(name, "--pairs")
        within(report["hosts"][1]["loss_in_ppm"], 20000, 100000, "loss of what is sent to h1")
        contains([finding["subject"] for finding in report["checks"] if finding["check"] == "loss"], "h1 (rank 1)")
    with hosts(3, "--loss", "3%", "--mtu", 1500) as name:
        report = doctor(name, "--pairs")
        finding = only(report, "loss")
        equal(finding["subject"], "", "who is lossy")
        contains(finding["found"], "3 of 3 hosts")


def small_mtu_is_named_at_the_host_and_at_its_port():
    with hosts(3) as name:
        inside(name, "h1", "ip", "link", "set", "tb0", "mtu", "1500")
        report = doctor(name)
        equal((only(report, "MTU")["subject"], only(report, "MTU")["verdict"]), ("h1 (rank 1)", "warn"), "the MTU")
        equal([host["payload_bytes"] for host in report["hosts"]], [8972, 1472, 8972], "payloads")
        inside(name, "h1", "ip", "link", "set", "tb0", "mtu", "9000")
        inside(name, "switch", "ip", "link", "set", "h1", "mtu", "1500")
        report = doctor(name, status=1)
        equal((only(report, "MTU")["subject"], only(report, "MTU")["verdict"]), ("h1 (rank 1)", "fail"), "the MTU")
        contains(only(report, "MTU")["found"], "at most 1500 bytes")


def filter_for_long_packets_one_way_is_said_with_the_way():
    for count in (3, 2):
        with hosts(count) as name:
            inside(name, "h1", "sh", "-ec", "nft add table inet x; nft add chain inet x i "
                   "'{ type filter hook input priority 0; }'; nft add rule inet x i meta length '>' 1500 drop")
            finding = only(doctor(name, status=1), "MTU")
            if count == 3:
                equal(finding["subject"], "h1 (rank 1)", "the host")
                contains(finding["found"], "to it packets of at most 1500 bytes pass, from it up to 9000")
            else:
                equal(finding["subject"], "h0 (rank 0) to h1 (rank 1)", "the pair")
                contains(finding["found"], "at most 1500 bytes pass, less than the interfaces' 9000; the other way up to 9000")
            contains(finding["advice"], "a packet filter that drops long packets this way")
            contains(finding["advice"], "`ip link set tb0 mtu 1500` at h1 (rank 1)")


def missing_multicast_is_named():
    with hosts(3) as name:
        inside(name, "h1", "sh", "-ec", "nft add table inet x; nft add chain inet x i "
               "'{ type filter hook input priority 0; }'; nft add rule inet x i ip daddr 239.0.0.0/8 drop")
        report = doctor(name, status=1)
        finding = only(report, "multicast")
        equal((finding["subject"], finding["verdict"]), ("h1 (rank 1)", "fail"), "the finding")
        equal([host["multicast_not_heard"] for host in report["hosts"]], [[], [0, 2], []], "who does not hear whom")
        equal(report["group_multicast"], False, "the group's multicast")


def short_limit_ends_it_early_and_says_so():
    with hosts(4) as name:
        # A host to which no datagram of the doctor gets costs a second in each step.
        inside(name, "h3", "sh", "-ec", "nft add table inet x; nft add chain inet x i "
               "'{ type filter hook input priority 0; }'; nft add rule inet x i udp dport 47000-49999 drop")
        report = doctor(name, "--limit", 1, status=1)
        equal(report["stopped"], True, "stopped")
        contains(only(report, "time")["found"], "before all was measured")


def ranks_that_share_a_host_do_not_measure_twice():
    with hosts(2) as name:
        result = testbed("run", "--name", name, "-n", 4, "--", TUTTI, "doctor", "--job", "--json")
        equal(result.returncode, 0, f"exit status, with {result.stderr!r}")
        report = json.loads(result.stdout)
        equal([(host["rank"], host["ranks"]) for host in report["hosts"]], [(0, 2), (1, 2)], "hosts")
        all_measured(report)


if __name__ == "__main__":
    main([ranks_on_this_machine_measure_each_other,
          table_has_a_line_a_rank_and_the_pairs,
          rank_that_stops_is_named,
          request_to_end_is_the_exit_status,
          what_a_rank_that_stands_still_has_not_sent_is_not_lost,
          healthy_hosts_are_ok,
          slow_host_is_named,
          lossy_host_is_named_and_so_is_a_lossy_network,
          small_mtu_is_named_at_the_host_and_at_its_port,
          filter_for_long_packets_one_way_is_said_with_the_way,
          missing_multicast_is_named,
          short_limit_ends_it_early_and_says_so,
          ranks_that_share_a_host_do_not_measure_twice])
