#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti doctor --listen` and `--peer` on two hosts of testbeds between which something is wrong: the sentences that a person
reads there; and on loopback, who else connects.

    cli_doctor_pair.py PROGRAM
"""
import contextlib
import json
import socket
import subprocess
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TIME_LIMIT_S, TUTTI, contains, environment, equal, free_ports, main, tutti, within
from testbed_support import inside, network, start, testbed

LISTENER = "10.84.7.1"
H0, H1 = f"h0 ({LISTENER})", "h1 (10.84.7.2)"
FIRST = "tcp flags & (syn | ack) == syn tcp dport"  # packets of connections, not answers to a port that the system chose


def rule(name, host, *rules, hook="input"):
    """Rules of nftables for what comes to a host, or goes from it."""
    inside(name, host, "nft", f"add table ip f; add chain ip f {hook} {{ type filter hook {hook} priority 0; }}; "
           + "; ".join(f"add rule ip f {hook} {text}" for text in rules))


@contextlib.contextmanager
def hosts():
    with network("--hosts", 2) as name:
        yield name


def until_it_listens(process):
    line = process.stderr.readline()
    contains(line, "tutti doctor: waiting ")
    return line


def between(name, *options, status=0):
    """Both sides' output, and their common exit status; the first host listens."""
    listener = start(name, "h0", TUTTI, "doctor", "--listen", *options)
    line = until_it_listens(listener)
    contains(line, f"`tutti doctor --peer {LISTENER}` on the other host")
    peer = testbed("exec", "--name", name, "h1", "--", TUTTI, "doctor", "--peer", LISTENER, *options)
    output, errors = listener.communicate(timeout=TIME_LIMIT_S)
    equal((peer.returncode, listener.returncode), (status, status),
          f"exit status, with {peer.stdout!r} {peer.stderr!r} and {output!r} {errors!r}")
    equal(output.splitlines()[4:], peer.stdout.splitlines()[4:], "what both sides say")
    return peer.stdout


def healthy_hosts_are_told_what_works():
    with hosts() as name:
        output = between(name)
        contains(output, f"{H0} and {H1}, measured for ")
        contains(output, f"ok: TCP of {H0} to {H1}: connects at ports 47000, 48500 and 49999\n")
        contains(output, f"ok: TCP of {H1} to {H0}: connects at ports 47000, 48500 and 49999\n")
        contains(output, "ok: UDP: gets through both ways, round trip ")
        contains(output, "ok: multicast: each hears the other\n")
        contains(output, "ok: MTU: packets of 9000 bytes pass both ways\n")
        report = json.loads(between(name, "--json"))
        equal(report["verdict"] != "fail", True, "the verdict")
        equal([pair["tcp"][0] for pair in report["pairs"]], 2 * [{"port": 47000, "result": "open"}], "TCP")
        equal([pair["udp"] for pair in report["pairs"]], 2 * ["open"], "UDP")
        equal([pair["multicast_heard"] for pair in report["pairs"]], [True, True], "multicast")
        equal("group_multicast" in report, False, "whether there is a group")


def firewall_that_rejects_tcp_at_one_host_is_named():
    with hosts() as name:
        rule(name, "h0", f"{FIRST} 47000-49999 reject with tcp reset")
        output = between(name)
        contains(output, f"warn: TCP of {H1} to {H0}: port 47000, 48500 and 49999: refused, though {H0} listens there: a firewall, "
                 "likely its own, rejects TCP. The other way TCP works, which is enough for two ranks\n"
                 f"      to do: let TUTTI_PORTS and the port of TUTTI_ROOT in at {H0}, for example `nft add rule inet filter "
                 "input ip saddr 10.84.7.2 tcp dport 47000-49999 accept`\n")
        contains(output, f"ok: TCP of {H0} to {H1}: connects at ports ")


def firewalls_that_drop_tcp_at_both_hosts_are_named():
    with hosts() as name:
        rule(name, "h0", f"{FIRST} 47000-49999 drop")
        rule(name, "h1", f"{FIRST} 48000-49999 drop")
        output = between(name, status=1)
        contains(output, f"fail: TCP of {H1} to {H0}: port 47000, 48500 and 49999: no answer in 3 s: a firewall of {H0} or on the "
                 "way drops TCP\n")
        contains(output, f"fail: TCP of {H0} to {H1}: port 48500 and 49999: no answer in 3 s: a firewall of {H1} or on the way "
                 "drops TCP; connects at 47000\n")
        contains(output, "ok: multicast: each hears the other\n")


def firewall_that_rejects_by_icmp_is_named():
    with hosts() as name:
        rule(name, "h1", f"{FIRST} 47000-49999 reject with icmp type admin-prohibited")
        contains(between(name), f"warn: TCP of {H0} to {H1}: port 47000, 48500 and 49999: turned away by ICMP: a firewall of "
                 f"{H1} or on the way rejects TCP. The other way TCP works")


def firewall_for_udp_is_named_with_its_host():
    with hosts() as name:
        rule(name, "h1", "ip daddr 10.84.7.2 udp dport 47000-49999 reject")
        output = between(name, status=1)
        contains(output, f"fail: reach of {H0} and {H1}: UDP does not get through to {H1}: it is rejected; the other way it does\n"
                 "      to do: a firewall turns it away: let UDP at TUTTI_PORTS in, for example `nft add rule inet filter input "
                 f"udp dport 47000-49999 accept` at {H1}\n")
        contains(output, "ok: multicast: each hears the other\n")
        inside(name, "h1", "nft", "flush ruleset")
        rule(name, "h0", "ip daddr 10.84.7.1 udp dport 47000-49999 drop")
        contains(between(name, status=1), f"fail: reach of {H0} and {H1}: UDP does not get through to {H0}; the other way it does\n"
                 "      to do: a firewall drops it")


def host_that_hears_no_multicast_is_named():
    with hosts() as name:
        rule(name, "h1", "ip daddr 239.0.0.0/8 drop")
        output = between(name, status=1)
        contains(output, f"fail: multicast of {H1}: hears the multicast of none of the others: not of {H0}\n"
                 "      to do: look there for a packet filter")
        contains(output, "ok: UDP: gets through both ways")
        rule(name, "h0", "ip daddr 239.0.0.0/8 drop")
        contains(between(name, status=1), "fail: multicast: no host hears another one's\n"
                 "      to do: look at the switch: IGMP snooping without a querier, a filter for 239.0.0.0/8")


def switch_that_forwards_no_multicast_is_suspected():
    with hosts() as name:
        inside(name, "switch", "sh", "-ec", "nft add table bridge x; nft add chain bridge x f "
               "'{ type filter hook prerouting priority 0; }'; nft add rule bridge x f ip daddr 239.0.0.0/8 drop")
        contains(between(name, status=1), "to do: look at the switch: IGMP snooping without a querier")


def interface_without_multicast_is_named():
    with hosts() as name:
        inside(name, "h1", "ip", "link", "set", "tb0", "multicast", "off")
        output = between(name, status=1)
        contains(output, f"fail: multicast of {H1}: its interface tb0 does not have the flag MULTICAST\n"
                 "      to do: `ip link set tb0 multicast on`, where the network has multicast; without, the library still "
                 "runs, over slower point-to-point algorithms\n")
        contains(output, "ok: UDP: gets through both ways")


def mtu_that_passes_is_said():
    with hosts() as name:
        inside(name, "switch", "ip", "link", "set", "h1", "mtu", "1500")
        for host in ("h0", "h1"):  # else a switch of the kernel passes on what an adapter would have cut
            inside(name, host, "ip", "link", "set", "tb0", "gso_max_segs", "1")
        output = between(name, status=1)
        contains(output, "fail: MTU: packets of at most 1500 bytes pass, less than the interfaces' 9000\n"
                 "      to do: the MTU of the interfaces at every switch port and in every tunnel on the way, or `ip link set tb0 "
                 "mtu 1500` at the hosts: larger packets vanish, those of TCP, too\n")
        contains(output, "connects, but full packets do not arrive: an MTU on the way is too small\n      to do: see MTU\n")


def mtu_that_passes_one_way_is_said_with_the_way():
    with hosts() as name:
        rule(name, "h1", "meta length > 1500 drop")
        output = between(name, status=1)
        contains(output, f"fail: MTU of {H0} to {H1}: packets of at most 1500 bytes pass, less than the interfaces' 9000; the "
                 "other way up to 9000\n      to do: a packet filter that drops long packets this way, or the MTU of a switch port "
                 f"or tunnel; or `ip link set tb0 mtu 1500` at {H1}: larger packets vanish, those of TCP, too\n")


def settings_that_differ_are_named():
    with hosts() as name:
        listener = start(name, "h0", TUTTI, "doctor", "--listen")
        until_it_listens(listener)
        peer = testbed("exec", "--name", name, "h1", "--", "env", "TUTTI_PORTS=20000-20999", TUTTI, "doctor", "--peer", LISTENER)
        listener.communicate(timeout=TIME_LIMIT_S)
        contains(peer.stdout, f"fail: settings of TUTTI_PORTS: 47000-49999 at {H0}, 20000-20999 at {H1}\n")


def listener_that_is_not_there_or_behind_a_firewall_is_told_apart():
    with hosts() as name:
        result = testbed("exec", "--name", name, "h1", "--", TUTTI, "doctor", "--peer", LISTENER)
        equal(result.returncode, 1, "exit status")
        contains(result.stdout, "fail: meeting of 10.84.7.1:29500: 10.84.7.1: Connection refused\n      to do: start `tutti doctor "
                 "--listen` there first; if it runs, a firewall there rejects TCP to this port\n")
        rule(name, "h0", "tcp dport 29500 drop")
        begun = time.monotonic()
        result = testbed("exec", "--name", name, "h1", "--", TUTTI, "doctor", "--peer", LISTENER, "--json")
        finding = json.loads(result.stdout)["checks"][0]
        contains(finding["found"], "10.84.7.1: no answer in 5 s")
        contains(finding["advice"], "its host is not there, or a firewall drops TCP to this port")
        within(time.monotonic() - begun, 5, 15, "seconds")


# --- On loopback: everybody who may come -------------------------------------------------------------------------------

@contextlib.contextmanager
def listening(*options):
    port = free_ports()
    process = subprocess.Popen([TUTTI, "doctor", "--listen", "--port", str(port), *options], env=environment(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        contains(until_it_listens(process), f" --port {port}` on the other host")
        yield process, port
    finally:
        process.kill()
        process.wait(TIME_LIMIT_S)


def nobody_comes_and_it_ends():
    begun = time.monotonic()
    result = tutti("doctor", "--listen", "--port", free_ports(), "--wait", "300ms")
    equal(result.returncode, 1, "exit status")
    contains(result.stdout, ": nobody came in 300 ms\n")
    within(time.monotonic() - begun, 0.3, 10, "seconds")


def strangers_are_sent_away_and_the_waiting_goes_on():
    with listening() as (process, port):
        for noise in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", bytes(16), b"\xff" * 4096, b"tutti-dr" + b"\xff" * 8, b"tutti"):
            with socket.create_connection(("127.0.0.1", port), TIME_LIMIT_S) as stranger, contextlib.suppress(OSError):
                stranger.sendall(noise)
                stranger.shutdown(socket.SHUT_WR)
                while stranger.recv(4096):
                    pass
        result = tutti("doctor", "--peer", "127.0.0.1", "--port", port)
        equal(result.returncode, 0, f"exit status, with {result.stdout!r} {result.stderr!r}")
        output, errors = process.communicate(timeout=TIME_LIMIT_S)
        equal(process.returncode, 0, f"exit status of the listener, with {output!r}")
        contains(errors, "127.0.0.1 connected, but is no `tutti doctor --peer`")
        contains(errors, "127.0.0.1 has another version of tutti")
        contains(errors, "127.0.0.1 connected and did not say who it is")


def guest(port):
    """Says hello as a guest of this version does, whose word for that comes from its answer to another version."""
    with socket.create_connection(("127.0.0.1", port), TIME_LIMIT_S) as other:
        other.sendall(b"tutti-dr" + b"\xff" * 8)
        answer = b""
        while len(answer) < 16:
            answer += other.recv(16 - len(answer))
    connection = socket.create_connection(("127.0.0.1", port), TIME_LIMIT_S)
    connection.sendall(answer[:12] + (2).to_bytes(4, sys.byteorder))
    return connection


def guest_that_hangs_up_or_talks_nonsense_ends_it():
    for noise in (b"", b"\xff" * 65536, bytes(65536)):
        with listening() as (process, port):
            with guest(port) as connection, contextlib.suppress(OSError):
                connection.sendall(noise)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(4096):
                    pass
            output, errors = process.communicate(timeout=TIME_LIMIT_S)
            equal((process.returncode, "verdict: ok" in output), (1, False), f"exit status, and whether it praises {errors!r}")
            contains(errors, "tutti doctor: ")


def second_guest_is_told_that_it_is_busy():
    with listening() as (process, port):
        with guest(port) as connection:
            result = tutti("doctor", "--peer", "127.0.0.1", "--port", port)
            equal(result.returncode, 1, "exit status")
            contains(result.stdout, "is busy with another host\n      to do: again, when it is done\n")
            connection.close()
        _, errors = process.communicate(timeout=TIME_LIMIT_S)
        equal(process.returncode, 1, "exit status of the listener")
        contains(errors, "the connection by which both meet ended before all was measured")


def something_else_that_listens_is_told_apart():
    with socket.create_server(("127.0.0.1", 0)) as server:
        process = subprocess.Popen([TUTTI, "doctor", "--peer", "127.0.0.1", "--port", str(server.getsockname()[1])],
                                   env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        with server.accept()[0] as connection:
            connection.sendall(b"SSH-2.0-OpenSSH_9.9 whatever")
            output, _ = process.communicate(timeout=TIME_LIMIT_S)
        equal(process.returncode, 1, "exit status")
        contains(output, "something else than `tutti doctor --listen` answers\n")


def ipv6_is_told_that_the_two_meet_over_ipv4():
    for peer, subject in (("fd00::1", "[fd00::1]:29500"), ("fe80::1%lo", "[fe80::1%lo]:29500"), ("[::1]", "[::1]:29500")):
        result = tutti("doctor", "--peer", peer)
        equal(result.returncode, 1, f"exit status with {peer}")
        contains(result.stdout, f"fail: meeting of {subject}: is an IPv6 address\n      to do: the host's name or IPv4 address: "
                 "the two meet, and measure, over IPv4 only\n")
    finding = json.loads(tutti("doctor", "--peer", "fd00::1", "--port", 4000, "--json").stdout)["checks"][0]
    equal((finding["subject"], finding["found"]), ("[fd00::1]:4000", "is an IPv6 address"), "in JSON")


def options_that_do_not_fit_are_refused():
    for options, sentence in ((("--listen", "--peer", "a"), "only one of --job, --listen and --peer"),
                              (("--port", "1"), "--port: only with --listen or --peer"),
                              (("--peer", "a", "--wait", "1s"), "--wait: only with --listen"),
                              (("--listen", "--wait", "0s"), "must be from 1 ns to 24 hours"),
                              (("--listen", "--port", "65536"), "--port '65536'"),
                              (("--listen", "--limit", "1"), "--limit: only with --job"),
                              (("--listen", "-n", "2"), "-n: not with --listen or --peer"),
                              (("--peer", ""), "--peer '': must not be empty")):
        result = tutti("doctor", *options)
        equal(result.returncode, 2, f"exit status of {options}")
        contains(result.stderr, sentence)


if __name__ == "__main__":
    main([healthy_hosts_are_told_what_works,
          firewall_that_rejects_tcp_at_one_host_is_named,
          firewalls_that_drop_tcp_at_both_hosts_are_named,
          firewall_that_rejects_by_icmp_is_named,
          firewall_for_udp_is_named_with_its_host,
          host_that_hears_no_multicast_is_named,
          switch_that_forwards_no_multicast_is_suspected,
          interface_without_multicast_is_named,
          mtu_that_passes_is_said,
          mtu_that_passes_one_way_is_said_with_the_way,
          settings_that_differ_are_named,
          listener_that_is_not_there_or_behind_a_firewall_is_told_apart,
          nobody_comes_and_it_ends,
          strangers_are_sent_away_and_the_waiting_goes_on,
          guest_that_hangs_up_or_talks_nonsense_ends_it,
          second_guest_is_told_that_it_is_busy,
          something_else_that_listens_is_told_apart,
          ipv6_is_told_that_the_two_meet_over_ipv4,
          options_that_do_not_fit_are_refused])
