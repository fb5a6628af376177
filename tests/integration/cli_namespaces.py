#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti bench` in network namespaces of its own: bytes counted by the kernel, networks that drop or refuse multicast, and
several hosts on a bridge. Needs the privilege to make namespaces; without, every case is skipped visibly.
"""
import json
import os

from cli_support import Skip, carrier, equal, isolated, main

DROP_MULTICAST = """
nft add table inet t
nft add chain inet t in '{ type filter hook input priority 0; }'
"""


def succeed(script, *tools, **options):
    """Runs a shell script in a network of its own with loopback up; returns the result."""
    result = isolated("ip link set lo up\n" + script, *tools, **options)
    equal(result.returncode, 0, f"status of the script, which said {result.stderr!r}")
    return result


def rows_of(result):
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    for row in rows:
        equal(row["wrong"], 0, "wrong bytes")
    return rows


def bytes_of(line):
    """Received and sent bytes in a line of /proc/net/dev."""
    fields = line.split(":")[1].split()
    return int(fields[0]), int(fields[8])


def allgather_puts_every_byte_on_the_wire_once():
    for ranks in (2, 4, 8):
        size, iterations = 4 << 20, 10
        result = succeed(f"""
            grep lo: /proc/net/dev
            "$TUTTI" bench allgather -n {ranks} -b {size} -e {size} -i {iterations} -w 0 --json
            grep lo: /proc/net/dev
        """, TUTTI_ALPHA="30s")
        equal(rows_of(result)[0]["chunks_repaired"], 0, "repaired chunks")
        before, after = [bytes_of(line)[1] for line in result.stdout.splitlines() if "lo:" in line]
        # Everything: the program's own barriers and statistics, the start, and all headers down to IP's.
        limit = 1.02 * ranks * size * iterations
        if not ranks * size * iterations < after - before <= limit:
            raise AssertionError(f"{ranks} ranks put {after - before} bytes on loopback, not at most {limit:.0f}")


def triggered_messages_serve_where_multicast_does_not_get_through():
    result = succeed(DROP_MULTICAST + """
        nft add rule inet t in ip daddr 239.0.0.0/8 drop
        "$TUTTI" bench allgather -n 5 -b 100000 -e 100000 -i 3 --json
        "$TUTTI" bench broadcast -n 5 -b 100000 -e 100000 -i 3 --json
        TUTTI_LOG=none "$TUTTI" bench broadcast -n 5 -b 100000 -e 100000 -i 3 --json
    """, "nft")
    equal([row["algorithm"] for row in rows_of(result)], ["triggered-ring", "double-tree", "double-tree"], "algorithms")
    lines = [line for line in result.stderr.splitlines() if "does not get through" in line]
    equal(len(lines), 2, f"one line a job says so, but where nothing is to be logged: {result.stderr!r}")


def two_ranks_send_datagrams_where_multicast_does_not_get_through():
    for workers in (0, 2):
        result = succeed(DROP_MULTICAST + """
            nft add rule inet t in ip daddr 239.0.0.0/8 drop
            "$TUTTI" bench allgather -n 2 -b 1M -e 1M -i 20 --json
            "$TUTTI" bench broadcast -n 2 -b 1M -e 1M -i 20 --json
        """, "nft", TUTTI_ALGORITHM="multicast", TUTTI_WORKERS=str(workers), TUTTI_LOG="warn")
        equal([row["algorithm"] for row in rows_of(result)], ["multicast", "multicast"], "algorithms")
        equal(result.stderr, "", "what it said")


def multicast_that_is_asked_for_and_does_not_get_through_is_an_error():
    result = succeed(DROP_MULTICAST + """
        nft add rule inet t in ip daddr 239.0.0.0/8 drop
        "$TUTTI" bench allgather -n 3 -b 1000 -e 1000 --algorithm multicast || echo "status $?"
    """, "nft")
    equal(result.stdout.strip(), "status 1", f"what it said: {result.stderr!r}")
    equal(result.stderr.count("does not get through"), 3, f"each rank once, how often it says so: {result.stderr!r}")


def datagrams_that_the_kernel_drops_are_repaired():
    result = succeed(DROP_MULTICAST + """
        nft add rule inet t in ip daddr 239.0.0.0/8 numgen random mod 100 '<' 10 drop
        "$TUTTI" bench allgather -n 4 -b 1M -e 1M -i 20 --json
        "$TUTTI" bench broadcast -n 4 -b 1M -e 1M -i 20 --json
    """, "nft")
    rows = rows_of(result)
    equal(len(rows), 2, "rows")
    for row in rows:
        equal(row["algorithm"], "multicast", "the algorithm of an " + row["collective"])
        if row["chunks_repaired"] == 0:
            raise AssertionError("nothing was repaired")


def three_hosts(addresses, root, *benches, interface="auto", **variables):
    """Three namespaces with a veth each on a bridge in a fourth, where every rank is a host of its own: `addresses` are those
    of each, as `ip` takes them. Runs `tutti bench` with each of the arguments, rank 0 at `root`; returns the script's result, in which
    a status is said where it is not 0."""
    jobs = "".join(f"""
        rank=0 ranks=
        for host in $hosts; do
            TUTTI_RANK=$rank TUTTI_SIZE=3 TUTTI_ROOT={root}:{7777 + number} TUTTI_INTERFACE={interface} nsenter -t $host -n \\
                "$TUTTI" bench {arguments} --json &
            ranks="$ranks $!"
            rank=$((rank + 1))
        done
        status=0
        for pid in $ranks; do wait $pid || status=$?; done
        test $status = 0 || echo "status $status"
    """ for number, arguments in enumerate(benches))
    hosts = "".join(f"""
        unshare -n sleep 200 &
        host=$!
        hosts="$hosts $host"
        while [ "$(readlink /proc/$host/ns/net)" = "$(readlink /proc/self/ns/net)" ]; do sleep 0.01; done
        ip link add v{index} type veth peer name eth0 netns $host
        ip link set v{index} master br0 up
        nsenter -t $host -n sh -ec "ip link set lo up; ip link set eth0 up"
    """ + "".join(f"nsenter -t $host -n ip addr add {one} dev eth0\n" for one in some)
                    for index, some in enumerate(addresses))
    return succeed("""
        trap 'kill $hosts' EXIT
        ip link add br0 type bridge mcast_snooping 0
        ip link set br0 up
        """ + hosts + """
        for host in $hosts; do
            """ + carrier("eth0", "nsenter -t $host -n") + """
        done
    """ + jobs, "nsenter", TUTTI_ALPHA="30s",  # or else a rank that waits for the processor is thought to have lost something
                   **variables)


def ranks_on_three_hosts_find_one_another():
    result = three_hosts([[f"10.99.0.1{index}/24"] for index in range(3)], "10.99.0.10",
                         "allgather -b 300000 -e 300000 -i 5")
    row = rows_of(result)[0]
    equal((row["ranks"], row["algorithm"], row["chunks_repaired"]), (3, "multicast", 0), "the row")


IPV6 = [[f"fd00:99::1{index}/64 nodad"] for index in range(3)]


def want_ipv6():
    if not os.path.exists("/proc/sys/net/ipv6"):
        raise Skip("this system has no IPv6")


def ranks_on_hosts_that_have_ipv6_only_go_point_to_point():
    want_ipv6()
    collectives = ("broadcast", "allgather", "allreduce", "reduce-scatter", "gather", "scatter")
    for interface in ("auto", "eth0"):
        result = three_hosts(IPV6, "[fd00:99::10]", *(f"{kind} -b 4 -e 400000 -f 100 -i 3" for kind in collectives),
                             interface=interface, TUTTI_LOG="warn")
        equal(result.stdout.count("status"), 0, result.stderr)
        equal(sorted({row["collective"] for row in rows_of(result)}), sorted(collectives), "collectives")
        equal({row["algorithm"] for row in rows_of(result)} & {"multicast", "eager", "gather"}, set(), "multicast")
        equal(result.stderr.count("group of 3: there is no multicast over IPv6, by which rank 0 on "), len(collectives),
              result.stderr)


def host_that_has_ipv6_only_has_the_others_take_ipv6_too():
    want_ipv6()
    both = [[f"10.99.0.1{index}/24", *IPV6[index]] for index in range(3)]
    result = three_hosts([both[0], IPV6[1], both[2]], "[fd00:99::10]", "allgather -b 30000 -e 30000 -i 3")
    equal([row["algorithm"] for row in rows_of(result)], ["triggered-ring"], result.stderr)
    result = three_hosts(both, "[fd00:99::10]", "allgather -b 300000 -e 300000 -i 3")
    equal([row["algorithm"] for row in rows_of(result)], ["multicast"], result.stderr)


def loopback_of_ipv6_serves_who_names_it():
    want_ipv6()
    result = succeed("""
        export TUTTI_INTERFACE=::1
        "$TUTTI" bench allreduce -n 3 -b 4 -e 400000 -f 100 -i 3 --json
        "$TUTTI" bench broadcast -n 2 -b 4 -e 400000 -f 100 -i 3 --json
        "$TUTTI" doctor --job -n 2 || echo "status $?"
    """)
    equal(len(rows_of(result)), 6, "rows")
    equal({row["algorithm"] for row in rows_of(result)} & {"multicast", "eager", "gather"}, set(), "multicast")
    equal(result.stdout.count("status 1"), 1, result.stdout)
    equal(result.stderr.count("interface lo (::1): paths are measured over IPv4 only"), 2, result.stderr)


def multicast_that_is_asked_for_over_ipv6_is_an_error_that_says_so():
    want_ipv6()
    result = three_hosts(IPV6, "[fd00:99::10]", "allgather -b 1000 -e 1000 --algorithm multicast")
    equal(result.stdout.strip(), "status 1", result.stderr)
    equal(result.stderr.count("TUTTI_ALGORITHM=multicast: there is no multicast over IPv6, by which rank 0"), 3,
          f"each rank once, how often it says so: {result.stderr!r}")


if __name__ == "__main__":
    main([allgather_puts_every_byte_on_the_wire_once,
          triggered_messages_serve_where_multicast_does_not_get_through,
          two_ranks_send_datagrams_where_multicast_does_not_get_through,
          multicast_that_is_asked_for_and_does_not_get_through_is_an_error,
          datagrams_that_the_kernel_drops_are_repaired,
          ranks_on_three_hosts_find_one_another,
          ranks_on_hosts_that_have_ipv6_only_go_point_to_point,
          host_that_has_ipv6_only_has_the_others_take_ipv6_too,
          loopback_of_ipv6_serves_who_names_it,
          multicast_that_is_asked_for_over_ipv6_is_an_error_that_says_so])
