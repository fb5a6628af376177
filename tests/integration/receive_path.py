#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The receive path: the benchmark `receive` and its instruction counts, and groups whose receive buffers are as small as
a system gives them by default to somebody without privileges.

    receive_path.py PROGRAM RECEIVE COUNTER
"""
import json
import os
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TUTTI, Skip, contains, environment, equal, main, within

RECEIVE, COUNTER = (os.path.abspath(path) for path in sys.argv[2:4])
DEFAULT_RMEM_MAX = 212992  # net.core.rmem_max where nobody has changed it
NOBODY = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps=-all"]


def run(*command, limit_s=200, **variables):
    return subprocess.run([str(word) for word in command], env=environment(**variables), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=limit_s, check=False)


def rows_of(*command, **variables):
    result = run(*command, **variables)
    equal(result.returncode, 0, f"exit status of {command}, which said {result.stderr!r}")
    return [json.loads(line) for line in result.stdout.splitlines()]


def benchmark_receives_every_block_in_both_modes_and_at_every_size():
    for chunk, block, *options in (("8K", "1M"), (1452, 1000003), (65491, "1M"), (1, 5000), ("8K", "1M", "--plain"),
                                   ("8K", "1M", "--buffer", "100K")):
        rows = rows_of(RECEIVE, "--json", "--chunk", chunk, "--block", block, "--blocks", 5, *options)
        equal([row["mode"] for row in rows], ["stream", "turns"], "modes")
        for row in rows:
            for figure in ("bytes_per_second", "chunks_per_second", "cpu_ns_per_chunk", "poll_ns_per_chunk",
                           "place_ns_per_chunk", "chunks_per_poll"):
                within(row[figure], 1e-3, 1e12, f"{figure} in mode {row['mode']} with chunks of {chunk}")


def super_packets_make_the_polls_fewer():
    whole, single = (rows_of(RECEIVE, "--json", "--mode", "turns", "--chunk", 1452, "--block", "1M", "--blocks", 5,
                             "--burst", 256, *options)[0] for options in ([], ["--plain"]))
    within(whole["chunks_per_poll"], 50, 256, "chunks a poll with super-packets")
    within(single["chunks_per_poll"], 28, 64, "chunks a poll of single datagrams")


def senseless_arguments_of_the_benchmark_are_refused():
    for arguments in (["--chunk", "0"], ["--chunk", "65492"], ["--blocks", "1001"], ["--mode", "turn"], ["--wrong"],
                      ["--provider", "tcp"], ["--provider", "verbs", "--plain"], ["operand"]):
        result = run(RECEIVE, *arguments)
        equal(result.returncode, 2, f"exit status of {arguments}")
        contains(result.stderr, "usage: receive")


def need_valgrind():
    if shutil.which("valgrind") is None:
        raise Skip("valgrind is not installed")
    with open(RECEIVE, "rb") as program:
        if any(name in program.read() for name in (b"__asan_init", b"__tsan_init")):
            raise Skip("valgrind does not run what a sanitizer has instrumented")


def instruction_counts_are_the_same_on_every_run():
    need_valgrind()
    first, second = (rows_of(COUNTER, "--json", "--chunk", "8K", RECEIVE) for _ in range(2))
    equal(first, second, "two counts")
    parts = first[0]["parts"]
    equal(set(parts), {"copy", "decode and judge", "check and mark", "split", "poll", "repost"}, "parts")
    within(first[0]["instructions_per_chunk"] - parts["copy"], 50, 400, "instructions a chunk without the copy")
    within(parts["repost"], 0.01, 5, "instructions a chunk to repost")


def instruction_counts_over_verbs_are_the_same_on_every_run():
    need_valgrind()
    rows = []
    for _ in range(2):
        result = run(COUNTER, "--provider", "verbs", "--json", "--chunk", "4K", RECEIVE, limit_s=400,
                     TUTTI_INTERFACE="auto")
        if result.returncode == 77:
            raise Skip(result.stderr.strip())
        equal(result.returncode, 0, f"exit status, with {result.stderr!r}")
        rows.append(json.loads(result.stdout))
    equal(rows[0], rows[1], "two counts")
    parts = rows[0]["parts"]
    equal(set(parts), {"copy", "find the source and judge", "check and mark", "poll", "poll: the device's library",
                       "repost", "repost: the device's library"}, "parts")
    within(rows[0]["instructions_per_chunk"] - parts["copy"], 50, 600, "instructions a chunk without the copy")
    within(parts["copy"], 4096 / 64, 4096, "instructions a chunk to copy")


def small_buffers(collective, ranks):
    """One run without privileges, and with the buffer that those get by default."""
    nobody = NOBODY if os.geteuid() == 0 else []
    if nobody:
        if shutil.which("setpriv") is None:
            raise Skip("setpriv is not installed")
        if run(*nobody, TUTTI, "--version").returncode != 0:
            raise Skip("somebody without privileges may not run the program in this directory")
    shares = []
    for _ in range(2):  # windows keep below what a buffer holds, whoever gets a processor: docs/performance.md
        row = rows_of(*nobody, TUTTI, "bench", collective, "-n", ranks, "-b", "4M", "-e", "4M", "-i", 5, "-w", 1, "--json",
                      TUTTI_RECEIVE_BUFFER=str(DEFAULT_RMEM_MAX))[0]
        equal(row["wrong"], 0, "wrong bytes")
        equal(row["algorithm"], "multicast", "algorithm")
        within(row["chunks_multicast"], 0, 512 * 5 * ranks * ranks, "chunks by multicast")
        shares.append(row["chunks_repaired"] / (row["chunks_multicast"] + row["chunks_repaired"]))
        if shares[-1] <= 0.02:
            within(row["chunks_multicast"], 512 * 5 * (ranks - 1), 512 * 5 * ranks * ranks, "chunks by multicast")
            return
    raise AssertionError(f"repaired chunks, as shares of all, in two runs: {shares}; one should be at most 0.02")


def broadcast_to_4_ranks_with_default_buffers_loses_next_to_nothing():
    small_buffers("broadcast", 4)


def broadcast_to_8_ranks_with_default_buffers_loses_next_to_nothing():
    small_buffers("broadcast", 8)


def allgather_of_4_ranks_with_default_buffers_loses_next_to_nothing():
    small_buffers("allgather", 4)


def allgather_of_8_ranks_with_default_buffers_loses_next_to_nothing():
    small_buffers("allgather", 8)


if __name__ == "__main__":
    main([
        benchmark_receives_every_block_in_both_modes_and_at_every_size,
        super_packets_make_the_polls_fewer,
        senseless_arguments_of_the_benchmark_are_refused,
        instruction_counts_are_the_same_on_every_run,
        instruction_counts_over_verbs_are_the_same_on_every_run,
        broadcast_to_4_ranks_with_default_buffers_loses_next_to_nothing,
        broadcast_to_8_ranks_with_default_buffers_loses_next_to_nothing,
        allgather_of_4_ranks_with_default_buffers_loses_next_to_nothing,
        allgather_of_8_ranks_with_default_buffers_loses_next_to_nothing,
    ])
