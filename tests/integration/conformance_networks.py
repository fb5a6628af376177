#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The contract of the point to point transports on a network that loses packets, of its own and without a rate: what
they promise holds there, too.

    conformance_networks.py PROGRAM CONFORMANCE_P2P
"""
import os
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import isolated, main

CONFORMANCE = os.path.abspath(sys.argv[2])
CHAIN = "add table inet x; add chain inet x i { type filter hook input priority 0; }; add rule inet x i"
NETWORK = """
ip link set lo up
nft "$CHAIN $RULE counter drop"
"$CONFORMANCE" $PROVIDER
nft list ruleset"""
CONNECTIONS = "tcp flags & (syn | ack) == syn"


def conformance(rule, provider=""):
    """Runs it where packets of the rule are lost, and is content only if some were."""
    result = isolated(NETWORK, "nft", CHAIN=CHAIN, RULE=rule, CONFORMANCE=CONFORMANCE, PROVIDER=provider)
    if result.returncode != 0:
        failures = [line for line in result.stderr.splitlines() if "OK ]" not in line and "RUN  " not in line]
        raise AssertionError(f"status {result.returncode}:\n" + "\n".join(failures[-60:]))
    lost = re.search(r"counter packets (\d+)", result.stdout)
    if lost is None or int(lost[1]) == 0:
        raise AssertionError(f"nothing was lost: {result.stdout}")


def all_providers_keep_their_promises_where_one_packet_in_a_hundred_is_lost():
    conformance("numgen random mod 100 == 0")


def tcp_keeps_its_promises_where_one_packet_in_ten_is_lost():
    for provider in ("tcp", "tcp_ipv6"):
        conformance("numgen random mod 10 == 0", provider)


def tcp_keeps_its_promises_where_every_third_connection_gets_no_answer_at_first():
    for provider in ("tcp", "tcp_ipv6"):
        conformance(f"{CONNECTIONS} numgen random mod 3 == 0", provider)


if __name__ == "__main__":
    main([
        all_providers_keep_their_promises_where_one_packet_in_a_hundred_is_lost,
        tcp_keeps_its_promises_where_one_packet_in_ten_is_lost,
        tcp_keeps_its_promises_where_every_third_connection_gets_no_answer_at_first,
    ])
