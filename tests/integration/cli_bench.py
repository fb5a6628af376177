#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti bench` with real processes over loopback: every byte right with and without loss, and nobody left waiting for
a rank that died or was stopped.

    cli_bench.py PROGRAM
"""
import json
import os
import signal
import stat
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TUTTI, Job, Skip, bench, contains, equal, main, patience, tutti, within

SIZES = (0, 1, 1471, 1472, 1473, 65537, 1000003)
EAGER_MOST_BYTES = 32 << 10  # all blocks together
EAGER_ALLGATHER_MOST_BYTES = 2 * EAGER_MOST_BYTES
TREE_MOST_BYTES = 64 << 10
SURVIVOR_LIMIT_S = 5 * patience()  # from the death of a rank to the end of all others
STOPPED_LIMIT_S = 60 * patience()  # the launcher gives the others 10 s, then ends who is left


def at_least(found, least, what):
    if found < least:
        raise AssertionError(f"{what}: {found}, expected at least {least}")


def sizes(collective, *arguments):
    return [bench(collective, *arguments, "-b", size, "-e", size)[0] for size in SIZES]


def allgather_of_4_ranks_repairs_one_percent_of_loss():
    row = bench("allgather", "-n", 4, "-b", "1M", "-e", "1M", "-i", 20, "--loss", 1)[0]
    equal((row["collective"], row["algorithm"], row["ranks"]), ("allgather", "multicast", 4))
    equal((row["size_bytes"], row["iterations"]), (1 << 20, 20))
    at_least(row["chunks_repaired"], 1, "repaired chunks")
    # 4 ranks receive 3 MiB each, 20 times; one in a hundred chunks is dropped on purpose.
    chunks = row["chunks_multicast"] + row["chunks_repaired"]
    expected = 4 * 20 * 3 * -(-(1 << 20) // row["chunk_bytes"])
    equal(chunks, expected, "chunks by multicast and by repair")
    at_least(row["counters"]["drops_injected"], expected // 200, "chunks dropped on purpose")
    at_least(expected // 50, row["counters"]["drops_injected"], "twice the chunks that should be dropped on purpose")


def allgather_of_4_ranks_repairs_twenty_percent_of_loss():
    row = bench("allgather", "-n", 4, "-b", "1M", "-e", "1M", "-i", 20, "--loss", 20)[0]
    at_least(row["chunks_repaired"], row["chunks_multicast"] // 10, "repaired chunks")


def every_iteration_is_shown_the_first_one_apart():
    row = bench("allgather", "-n", 4, "-b", "1M", "-e", "1M", "-i", 5, "-w", 2, "--loss", 5)[0]
    times, repaired = row["iteration_us"], row["iteration_repaired"]
    equal((len(times), len(repaired)), (7, 7), "iterations, those to warm up too")
    equal((row["first_us"], row["first_repaired"], row["last_repaired"]), (times[0], repaired[0], repaired[-1]))
    equal(sorted(times[2:])[2], row["time_us"]["slowest"], "median of the slowest rank's timed iterations")
    equal(max(times[2:]), row["time_us"]["max"], "the longest timed iteration")
    equal(sum(repaired[2:]), row["chunks_repaired"], "chunks repaired in timed iterations")
    equal(row["chunks_expected"], 4 * 3 * 128, "chunks of an iteration")
    at_least(min(repaired), 1, "chunks repaired in the iteration that lost least")


def broadcast_of_4_ranks_repairs_loss():
    for loss in (1, 20):
        row = bench("broadcast", "-n", 4, "-b", "1M", "-e", "1M", "-i", 10, "--loss", loss, "--root", 2)[0]
        equal(row["root"], 2)
        at_least(row["chunks_repaired"], 1, "repaired chunks")


def chunks_are_as_large_as_the_setting_says():
    for value, expected in (("auto", 8192), ("frame", 8956), (1000, 1000)):  # loopback carries more
        row = bench("broadcast", "-n", 3, "-b", 300001, "-e", 300001, "-i", 2, TUTTI_CHUNK=str(value))[0]
        equal(row["chunk_bytes"], expected, f"chunk with TUTTI_CHUNK={value}")


def sixteen_ranks_repair_loss():
    for loss in (1, 20):
        row = bench("allgather", "-n", 16, "-b", "64K", "-e", "64K", "-i", 3, "-w", 1, "--loss", loss)[0]
        equal(row["ranks"], 16)
        at_least(row["chunks_repaired"], 1, "repaired chunks")


def chosen(collective, size, ranks):
    """What the built-in table says, read as tutti(1) explains it."""
    kind = collective if size > 0 else "allgather"  # nothing is a barrier, whatever it is called
    rows = [row for row in table_of("")["table"] if (row["collective"], row["network"]) == (kind, "multicast")]
    section = max(row["ranks"] for row in rows if row["ranks"] <= ranks)
    algorithm = [row["algorithm"] for row in rows if row["ranks"] == section and row["from_bytes"] <= size][-1]
    total = size * (ranks if kind == "allgather" else 1)
    most = {"eager": EAGER_ALLGATHER_MOST_BYTES if kind == "allgather" else EAGER_MOST_BYTES, "gather": EAGER_MOST_BYTES}
    return "multicast" if total > most.get(algorithm, total) else algorithm


def sizes_beside_every_boundary_are_right():
    for collective in ("allgather", "broadcast"):
        for row in sizes(collective, "-n", 4, "-i", 3, "-w", 1):
            equal(row["algorithm"], chosen(collective, row["size_bytes"], 4), f"{collective} of {row['size_bytes']}")


def sizes_beside_every_boundary_are_right_with_loss():
    for collective in ("allgather", "broadcast"):
        sizes(collective, "-n", 4, "-i", 3, "-w", 1, "--loss", 20)


def point_to_point_algorithms_are_used_when_asked_for():
    for collective, name in (("allgather", "ring"), ("broadcast", "chain")):
        row = bench(collective, "-n", 4, "-b", "1000003", "-e", "1000003", "-i", 3, "--algorithm", name)[0]
        equal(row["algorithm"], name)
        equal(row["counters"]["mcast_datagrams_sent"], 0)


def tree_and_eager_serve_up_to_their_limits():
    for collective, name, most in (("broadcast", "tree", TREE_MOST_BYTES), ("broadcast", "eager", EAGER_MOST_BYTES),
                                   ("allgather", "eager", EAGER_ALLGATHER_MOST_BYTES // 4),
                                   ("allgather", "gather", EAGER_MOST_BYTES // 4)):
        for size in (1, 943, 944, 945, 992, 993, most):
            row = bench(collective, "-n", 4, "-b", size, "-e", size, "-i", 5, "--algorithm", name)[0]
            equal((row["algorithm"], row["wrong"]), (name, 0), f"{collective} of {size}")
            equal(row["counters"]["mcast_datagrams_sent"] == 0, name == "tree", "whether datagrams were sent")
        result = tutti("bench", collective, "-n", 4, "-b", most + 1, "-e", most + 1, "--algorithm", name)
        equal(result.returncode, 1, f"exit status of {name} for one byte too many")
        contains(result.stderr, f"algorithm {name}: {most + 1} bytes")
    result = tutti("bench", "allgather", "-n", 2, "-b", 8, "-e", 8, "--algorithm", "tree")
    equal(result.returncode, 1, "exit status of an allgather by tree")
    contains(result.stderr, "algorithm tree does not serve allgather")
    result = tutti("bench", "broadcast", "-n", 2, "-b", 8, "-e", 8, "--algorithm", "gather")
    equal(result.returncode, 1, "exit status of a broadcast by gather")
    contains(result.stderr, "algorithm gather does not serve broadcast")
    result = tutti("bench", "allreduce", "-n", 2, "-b", 8, "-e", 8, "--algorithm", "chain")
    equal(result.returncode, 1, "exit status of an allreduce by chain")
    contains(result.stderr, "algorithm ring or chain does not serve allreduce")
    contains(result.stdout, "multicast none, point to point ")  # as nothing needs it


def table_of(path):
    return json.loads(tutti("info", "-t", "--json", TUTTI_TABLE=path).stdout)


def tune_writes_a_table_that_loads_and_is_obeyed():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "table")
        result = tutti("bench", "--tune", "-n", 3, "-e", "64K", "-f", 16, "-i", 3, "-w", 1, "--write", path)
        equal((result.returncode, result.stderr), (0, ""))
        equal(os.listdir(directory), ["table"])
        with open(path, encoding="utf-8") as file:
            text = file.read()
        # The same but for the date of the minute in which it was written.
        equal([line for line in text.splitlines() if not line.startswith("measured ")],
              [line for line in result.stdout.splitlines() if not line.startswith("measured ")])
        table = table_of(path)
        equal(table["file"], path)
        contains(table["measured"], ", 3 ranks (3 a host), ")
        equal(len({(row["collective"], row["network"]) for row in table["table"]}), 14, "collectives and networks")
        equal({row["ranks"] for row in table["table"]}, {3})
        contains(tutti("info", "-t", TUTTI_TABLE=path).stdout, f"table: TUTTI_TABLE={path}\n")
        # One that nobody would choose, so that it is seen to count; that of rank 0, wherever the others have theirs.
        with open(path, "w", encoding="utf-8") as file:
            file.write("tutti-table 1\nbroadcast multicast 2 0 eager\nbroadcast multicast 2 100 tree\n"
                       "broadcast multicast 2 4K chain\n")
        rows = bench("broadcast", "-n", 3, "-b", 64, "-e", "64K", "-f", 32, "-i", 3, TUTTI_TABLE=path)
        equal([(row["size_bytes"], row["algorithm"]) for row in rows], [(64, "eager"), (2048, "tree"), (65536, "chain")])
        script = f'[ "$TUTTI_RANK" = 0 ] && export TUTTI_TABLE={path}; exec {TUTTI} bench broadcast -b 2K -e 2K --json'
        result = tutti("run", "-n", 3, "sh", "-c", script)
        equal((result.returncode, json.loads(result.stdout)["algorithm"]), (0, "tree"), "with a table at rank 0 only")
        script = script.replace("= 0 ]", "= 1 ]")
        result = tutti("run", "-n", 3, "sh", "-c", script)
        equal((result.returncode, json.loads(result.stdout)["algorithm"]), (0, "eager"), "with a table at rank 1 only")


def tune_replaces_only_a_regular_file():
    tune = ("bench", "--tune", "-n", 2, "-b", 8, "-e", 8, "-i", 1, "-w", 1, "--write")
    with tempfile.TemporaryDirectory() as directory:
        table, link, dangling, fifo = (os.path.join(directory, name) for name in ("table", "link", "dangling", "fifo"))
        for path in (table, table + ".new"):
            with open(path, "w", encoding="utf-8") as file:
                file.write("theirs")
        os.chmod(table, 0o604)
        os.symlink("table", link)
        os.symlink("nowhere", dangling)
        os.mkfifo(fifo)
        before = sorted(os.listdir(directory))
        for path, reason in ((fifo, "a FIFO, not a regular file"), (dangling, "a dangling symbolic link")):
            result = tutti(*tune, path)
            equal((result.returncode, result.stdout), (1, ""), f"status and standard output with {path}")
            contains(result.stderr, f"tutti bench: --write: {path}: {reason}\n")
        result = tutti(*tune, link)
        equal((result.returncode, result.stderr), (0, ""), "with a link to a file")
        equal(os.readlink(link), "table", "where the link leads")
        equal(stat.S_IMODE(os.stat(table).st_mode), 0o604, "mode of the file that was there")
        equal(table_of(table)["file"], table)
        with open(table + ".new", encoding="utf-8") as file:
            equal(file.read(), "theirs", "what has a similar name")
        equal(stat.S_ISFIFO(os.stat(fifo).st_mode), True, "that the FIFO is one")
        equal(sorted(os.listdir(directory)), before, "what is left")


def tune_says_the_same_in_json():
    result = tutti("bench", "--tune", "-n", 2, "-b", 64, "-e", 64, "-i", 3, "-w", 1, "--json")
    equal((result.returncode, result.stderr), (0, ""))
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    measured = {line["collective"]: line["slowest_us"] for line in lines[:-1]}
    equal({name: set(times) for name, times in measured.items()},
          {"broadcast": {"chain", "multicast", "eager", "tree", "binomial-pipeline", "binomial", "double-tree"},
           "allgather": {"ring", "multicast", "eager", "gather", "recursive-doubling", "triggered-ring"},
           "reduce": {"gather", "binomial", "rabenseifner"},
           "allreduce": {"eager", "gather", "recursive-doubling", "rabenseifner", "triggered-ring", "parts", "eager-parts"},
           "reduce-scatter": {"eager", "gather", "recursive-halving", "rabenseifner", "triggered-ring", "direct"},
           "gather": {"binomial", "direct"}, "scatter": {"binomial", "direct"}}, "what has taken turns")
    for collective, times in measured.items():
        chosen = [row["algorithm"] for row in lines[-1]["table"]
                  if (row["collective"], row["network"]) == (collective, "multicast")]
        equal(chosen, [min(times, key=times.get)], f"the row of the only size of {collective}")


def tune_of_one_collective_has_its_rows_only():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "table")
        result = tutti("bench", "allreduce", "--tune", "-n", 3, "-b", 2, "-e", 512, "-f", 16, "-i", 3, "-w", 1, "--write", path,
                       TUTTI_DETERMINISTIC="strict")
        equal((result.returncode, result.stderr), (0, ""))
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
        # Two bytes are less than an element. Along one tree, as was asked for.
        samples = [line.split() for line in lines if line.startswith("# allreduce")]
        equal([(line[2], set(line[3::2])) for line in samples],
              [(size, {"eager", "gather", "recursive-doubling", "rabenseifner"}) for size in ("32", "512")])
        equal({line.split()[0] for line in lines if line[0] not in "#tm"}, {"allreduce"}, "rows in the file")
        # Nothing to be measured is no table, and leaves the one that is there.
        result = tutti("bench", "reduce-scatter", "--tune", "-n", 3, "-b", 1, "-e", 8, "-i", 1, "--write", path)
        equal(result.returncode, 1)
        contains(result.stderr, "--max-bytes 8: less than an element of each rank: there is no table\n")
        # What is not measured is as it is built in.
        built_in = [row for row in table_of("")["table"] if row["collective"] != "allreduce"]
        equal([row for row in table_of(path)["table"] if row["collective"] != "allreduce"], built_in)


def tables_that_are_none_are_refused_with_file_line_and_word():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "table")
        for text, words in (("tutti-table 1\nbroadcast multicast 2 0 fast\n", f"TUTTI_TABLE={path}: line 2: 'fast': "),
                            ("tutti-table 7\n", f"TUTTI_TABLE={path}: line 1: '7': "),
                            ("\x1b[31m\n", f"TUTTI_TABLE={path}: line 1: '?[31m': "),
                            ("x" * 70000, f"TUTTI_TABLE={path}: more than 65536 bytes")):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            for arguments in (("info", "-t"), ("bench", "broadcast", "-n", 2, "-b", 8, "-e", 8)):
                result = tutti(*arguments, TUTTI_TABLE=path)
                equal(result.returncode, 1, f"exit status of tutti {arguments[0]} with a table that is none")
                contains(result.stderr, words)
        missing = os.path.join(directory, "missing")
        contains(tutti("info", "-t", TUTTI_TABLE=missing).stderr, f"TUTTI_TABLE={missing}: No such file or directory")
        result = tutti("bench", "--tune", "-n", 2, "-b", 8, "-e", 8, "-i", 1, "--write", os.path.join(missing, "table"))
        equal(result.returncode, 1, "exit status where the table cannot be written")
        contains(result.stderr, f"--write: {missing}/table: No such file or directory\n")
        equal(result.stdout, "", "standard output where nothing was measured")
        result = tutti("bench", "--tune", "-n", 2, "-b", 0, "-e", 0)
        equal(result.returncode, 2, "exit status where nothing is to be tuned")
        contains(result.stderr, "--max-bytes '0': --tune measures from one byte on")
        result = tutti("bench", "--tune", "-n", 2, "-b", 8, "-e", 8, "-i", 1, "--write", directory)
        contains(result.stderr, f"--write: {directory}: a directory, not a regular file\n")
        equal((result.returncode, result.stdout), (1, ""), "status and standard output where the table is a directory")
        equal(os.listdir(directory), ["table"], "what is left")


def what_ucx_logs_is_no_part_of_the_result():
    arguments = ("bench", "broadcast", "-n", 2, "-b", 8, "-e", 8, "-i", 1, "--json")
    result = tutti(*arguments, TUTTI_P2P="ucx", UCX_LOG_LEVEL="debug")
    if "ucx: its library cannot be loaded" in result.stderr or "ucx: this build has no UCX" in result.stderr:
        raise Skip("there is no UCX")
    equal((result.returncode, len(result.stdout.splitlines())), (0, 1), "exit status, and lines of the result")
    equal(json.loads(result.stdout)["size_bytes"], 8)
    contains(result.stderr, "UCX  DEBUG")


# What the other collectives are asked for besides their name: those with a root, and those that reduce.
ROOTED = ("broadcast", "reduce", "gather", "scatter")
REDUCING = ("reduce", "allreduce", "reduce-scatter")
REDUCTIONS = (("fp32", "sum"), ("int32", "product"), ("uint8", "xor"), ("bf16", "average"), ("fp16", "max"),
              ("fp8-e4m3", "premultiplied-sum"), ("fp64", "product"), ("opaque", "user"))
INTEGERS = {f"{sign}int{bits}": bits // 8 for sign in ("", "u") for bits in (8, 16, 32, 64)}
FLOATS = {"fp8-e4m3": 1, "fp8-e5m2": 1, "fp16": 2, "bf16": 2, "fp32": 4, "fp64": 8}
ELEMENT_BYTES = {**INTEGERS, **FLOATS, "opaque": 16}
OF_NUMBERS = ("sum", "product", "min", "max", "average", "premultiplied-sum")
OF_BITS = ("and", "or", "xor")
SMALL = ("-n", 3, "-b", 1, "-e", "64K", "-f", 16, "-i", 3, "-w", 1)


def barrier_has_a_time_and_no_size():
    rows = bench("barrier", "-n", 3, "-i", 5, "-w", 1)
    equal(len(rows), 1, "rows of a barrier")
    row = rows[0]
    equal((row["collective"], row["size_bytes"], row["algbw_GBps"], row["busbw_GBps"]), ("barrier", 0, 0, 0))
    equal(len(row["iteration_us"]), 6, "iterations, those to warm up too")
    at_least(row["time_us"]["median"], 0.001, "us that a barrier takes")
    result = tutti("bench", "barrier", "-n", 3, "-i", 5)
    equal((result.returncode, result.stderr), (0, ""))
    rows = [line.split() for line in result.stdout.splitlines() if not line.startswith("#")]
    equal([row[0] for row in rows], ["-"], "size of a barrier")


def rooted_collectives_are_right_from_every_root_in_and_out_of_place():
    for collective in ROOTED:
        for root in range(3):
            for place in ((), ("--in-place",)):
                rows = bench(collective, *SMALL, "--root", root, *place)
                equal({(row["collective"], row["root"]) for row in rows}, {(collective, root)})
                equal({row["in_place"] for row in rows}, {bool(place) or collective == "broadcast"})


def reduced(collective, kind, operation, sizes, *arguments):
    """Such a reduction of three ranks is right, and of whole elements."""
    rows = bench(collective, *arguments, "--type", kind, "--operation", operation)
    equal({(row["type"], row["operation"]) for row in rows}, {(kind, operation)}, collective)
    unit = ELEMENT_BYTES[kind] * (3 if collective == "reduce-scatter" else 1)
    equal([row["size_bytes"] for row in rows], [size - size % unit for size in sizes], f"{collective} of {kind}")


def types_and_operations_are_right_in_every_collective_that_reduces():
    for collective in REDUCING:
        for kind, operation in REDUCTIONS:
            for place in ((), ("--in-place",)):
                reduced(collective, kind, operation, (1, 16, 256, 4096, 65536), *SMALL, *place)


def every_operation_is_right_on_every_type_in_every_collective_that_reduces():
    pairs = 0
    for t, kind in enumerate((*INTEGERS, *FLOATS)):
        for o, operation in enumerate(OF_NUMBERS + (OF_BITS if kind in INTEGERS else ())):
            for c, collective in enumerate(REDUCING):
                place = ("--in-place",) if (t + o + c) % 3 == 0 else ()
                reduced(collective, kind, operation, (1000, 32000), "-n", 3, "-b", 1000, "-e", 32000, "-f", 32, "-i", 2, "-w", 0,
                        *place)
            pairs += 1
    equal(pairs, 8 * 9 + 6 * 6, "types and operations that go with each other")


def algorithms_of_reductions_are_used_when_asked_for():
    for collective, names in (("allreduce", ("recursive-doubling", "rabenseifner", "triggered-ring")),
                              ("reduce", ("binomial", "rabenseifner")),
                              ("reduce-scatter", ("recursive-halving", "triggered-ring", "direct")),
                              ("allgather", ("recursive-doubling", "triggered-ring")),
                              ("broadcast", ("binomial", "double-tree")),
                              ("gather", ("binomial", "direct")), ("scatter", ("binomial", "direct"))):
        for name in names:
            rows = bench(collective, "-n", 4, "-b", 1, "-e", "64K", "-f", 256, "-i", 3, "-w", 1, "--algorithm", name)
            equal({row["algorithm"] for row in rows}, {name}, collective)


def bandwidths_follow_nccl_tests():
    for collective, size_factor, bus_factor in (("reduce", 1, 1), ("allreduce", 1, 1.5), ("reduce-scatter", 1, 0.75),
                                                ("gather", 4, 0.75), ("scatter", 1, 0.75), ("allgather", 4, 0.75)):
        row = bench(collective, "-n", 4, "-b", "64K", "-e", "64K", "-i", 3, "-w", 1)[0]
        within(row["algbw_GBps"] * row["time_us"]["median"] * 1000 / 65536, size_factor * 0.999, size_factor * 1.001,
               f"algbw of {collective}")
        within(row["busbw_GBps"] / row["algbw_GBps"], bus_factor * 0.999, bus_factor * 1.001, f"busbw of {collective}")


def one_rank_alone_works():
    for collective in ("allgather", "broadcast"):
        rows = bench(collective, "-n", 1, "-b", 0, "-e", 4, "-i", 2, "-w", 0)
        equal([row["size_bytes"] for row in rows], [0, 1, 2, 4])


def options_reach_the_library():
    row = bench("allgather", "-n", 4, "-b", "256K", "-e", "256K", "-i", 3, "--chains", 2, "--subgroups", 2, "--workers", 1)[0]
    equal((row["chains"], row["subgroups"], row["workers"]), (2, 2, 1))


def multicast_sends_every_byte_once():
    row = bench("allgather", "-n", 4, "-b", "1M", "-e", "1M", "-i", 10)[0]
    payload = 4 * 10 * (1 << 20)
    sent = row["counters"]["mcast_bytes_sent"]
    at_least(sent, payload, "bytes sent by multicast")
    at_least(payload * 105 // 100, sent, "1.05 times the payload against bytes sent by multicast")


def job_on_one_host_loads_no_library_that_it_does_not_use():
    result = tutti("bench", "broadcast", "-n", 2, "-b", 8, "-e", 8, LD_DEBUG="libs", TUTTI_INTERFACE="auto")
    equal(result.returncode, 0)
    contains(result.stderr, "find library=libc.so")  # this is where the others would be
    for library in ("libibverbs", "librdmacm", "libucp", "libpmix"):
        if library in result.stderr:
            raise AssertionError(f"{library} was loaded")


def table_is_for_people():
    result = tutti("bench", "broadcast", "-n", 2, "-b", "64K", "-e", "128K", "-i", 3)
    equal((result.returncode, result.stderr), (0, ""))
    rows = [line.split() for line in result.stdout.splitlines() if not line.startswith("#")]
    equal([row[0] for row in rows], ["65536", "131072"])
    titles = next(line for line in result.stdout.splitlines() if line.startswith("#") and " size " in line).split()[1:]
    equal(titles[3:8], ["min", "median", "slowest", "max", "first"], "columns of times")
    for row in rows:
        equal(len(row), len(titles), "columns")
        at_least(float(row[titles.index("first")]), 1, "us that the first iteration took")
    contains(result.stdout, "# wrong bytes: 0")


def started(rank_count, *arguments):
    job = Job(rank_count, "bench", "allgather", "-n", rank_count, "-b", "16K", "-e", "64M", "-f", 4, "-i", 200, "-w", 1,
              "--json", *arguments)
    job.wait_for_first_row()
    time.sleep(0.1)
    return job


def killed_rank_is_named_by_every_survivor():
    for victim in range(4):
        job = started(4)
        job.signal(victim, signal.SIGKILL)
        status, errors, seconds = job.end(SURVIVOR_LIMIT_S + 15)
        equal(status, 1, f"exit status after rank {victim} was killed")
        for survivor in set(range(4)) - {victim}:
            contains(errors, f"tutti bench: rank {survivor}: a peer failed: rank {victim}")
        at_least(SURVIVOR_LIMIT_S, seconds, "seconds allowed, against seconds until all had ended")


def stopped_rank_is_named_when_the_timeout_passes():
    jobs = {}
    for victim in (0, 2):
        jobs[victim] = started(4, "--timeout", "2s")
        jobs[victim].signal(victim, signal.SIGSTOP)
    for victim, job in jobs.items():
        status, errors, _ = job.end(STOPPED_LIMIT_S)
        equal(status, 1, f"exit status after rank {victim} was stopped")
        for survivor in set(range(4)) - {victim}:
            line = [line for line in errors.splitlines() if line.startswith(f"tutti bench: rank {survivor}: ")]
            equal(len(line), 1, f"lines of rank {survivor} in {errors!r}")
            contains(line[0], f"timed out: rank {victim}")


def killed_launcher_leaves_no_rank_behind():
    job = started(4)
    job.process.kill()
    status, _, _ = job.end(30, dying_s=30)
    equal(status, -signal.SIGKILL)


def request_to_end_ends_all_ranks_and_is_the_exit_status():
    for request in (signal.SIGINT, signal.SIGTERM):
        job = started(4)
        job.process.send_signal(request)
        status, errors, _ = job.end(60)
        equal(status, 128 + request, f"exit status after {request.name}, with {errors!r}")


if __name__ == "__main__":
    CASES = [
        allgather_of_4_ranks_repairs_one_percent_of_loss,
        allgather_of_4_ranks_repairs_twenty_percent_of_loss,
        every_iteration_is_shown_the_first_one_apart,
        broadcast_of_4_ranks_repairs_loss,
        chunks_are_as_large_as_the_setting_says,
        sixteen_ranks_repair_loss,
        sizes_beside_every_boundary_are_right,
        sizes_beside_every_boundary_are_right_with_loss,
        point_to_point_algorithms_are_used_when_asked_for,
        tree_and_eager_serve_up_to_their_limits,
        tune_writes_a_table_that_loads_and_is_obeyed,
        tune_replaces_only_a_regular_file,
        tune_says_the_same_in_json,
        tune_of_one_collective_has_its_rows_only,
        what_ucx_logs_is_no_part_of_the_result,
        tables_that_are_none_are_refused_with_file_line_and_word,
        barrier_has_a_time_and_no_size,
        rooted_collectives_are_right_from_every_root_in_and_out_of_place,
        types_and_operations_are_right_in_every_collective_that_reduces,
        every_operation_is_right_on_every_type_in_every_collective_that_reduces,
        algorithms_of_reductions_are_used_when_asked_for,
        bandwidths_follow_nccl_tests,
        one_rank_alone_works,
        options_reach_the_library,
        multicast_sends_every_byte_once,
        job_on_one_host_loads_no_library_that_it_does_not_use,
        table_is_for_people,
        killed_rank_is_named_by_every_survivor,
        stopped_rank_is_named_when_the_timeout_passes,
        killed_launcher_leaves_no_rank_behind,
        request_to_end_ends_all_ranks_and_is_the_exit_status,
    ]
    main([case for case in CASES if not sys.argv[2:] or case.__name__ in sys.argv[2:]])
