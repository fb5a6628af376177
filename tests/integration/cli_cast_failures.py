#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti cast` and `tutti catch` where what is outside does not do its part: a reader that stops, a writer that does
not come, a terminal that is narrow; and what a program that reads the result is told.

    cli_cast_failures.py PROGRAM
"""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import threading
import time

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_cast import HOST, LIMIT_S, SEGMENT, SURVIVOR_LIMIT_S, WAYS, Cast, content, in_full_swing, workplace, write
from cli_support import contains, equal, free_ports, main, tutti

TIMEOUT = ("--timeout", "2s")
PIPE_BYTES = 64 << 10
# In segments: what all of a receiver's memory holds, so that the transfer ends and the writing does not; and more.
AMOUNTS = (6, 64)


def ends(job, limit_s):
    """Waits for all without reading what they write; then as Cast.end()."""
    deadline = time.monotonic() + limit_s
    try:
        for process in job.processes:
            process.wait(timeout=max(0.1, deadline - time.monotonic()))
    finally:
        for process in job.processes:
            process.kill()
    return job.end()


def stalled(place, way, segments, *arguments):
    """A cast to a receiver whose standard output nobody reads; and that receiver."""
    path = write(f"{place}/data", content(segments * SEGMENT)[:segments * SEGMENT])
    job = Cast(1)
    receiver = job.start("catch", "-o", "-", *arguments)
    job.start("cast", path, "--by", way, "--segment", SEGMENT, "--json", *arguments)
    return job, receiver


def reader_that_stops_ends_it_after_the_timeout():
    for way in WAYS:
        for segments in AMOUNTS:
            with workplace() as place:
                job, _ = stalled(place, way, segments, *TIMEOUT)
                results = ends(job, LIMIT_S)
                equal([result[0] for result in results], [1, 1], f"statuses by {way}: {results}")
                contains(results[0][2], "nobody takes what is written to standard output")
                equal(json.loads(results[1][1])["ok"], False, "what the sender says")


def reads_slowly(segments, slow):
    """Each of the first ones takes a part of the timeout; then it is fast."""
    for way in WAYS:
        with workplace() as place:
            job, receiver = stalled(place, way, segments, "--timeout", "1.8s")
            received = b""
            while True:
                if not select.select([receiver.stdout], [], [], LIMIT_S)[0]:
                    job.give_up(f"nothing more by {way} after {len(received)} bytes")
                piece = os.read(receiver.stdout.fileno(), SEGMENT)
                if not piece:
                    break
                received += piece
                if len(received) < slow * SEGMENT:
                    time.sleep(0.4 * len(piece) / SEGMENT)
            results = job.end()
            equal([result[0] for result in results], [0, 0], f"statuses by {way}: {results}")
            equal(received == content(segments * SEGMENT)[:segments * SEGMENT], True, f"the data by {way}")


def reader_that_is_slow_holds_up_nobody_for_longer_than_each_segment_takes():
    """That is less than the timeout; what all take that are in progress at once is more."""
    reads_slowly(44, 24)


def reader_that_is_slow_to_the_end_is_waited_for_as_long_as_it_reads():
    """When all has come it has more before it than the timeout."""
    reads_slowly(18, 18)


def sender_that_dies_ends_a_receiver_whose_reader_has_stopped():
    for way in WAYS:
        for segments in AMOUNTS:
            with workplace() as place:
                job, receiver = stalled(place, way, segments)
                deadline = time.monotonic() + LIMIT_S
                waiting = 0
                while waiting < PIPE_BYTES and time.monotonic() < deadline:
                    waiting = struct.unpack("i", fcntl.ioctl(receiver.stdout, termios.FIONREAD, bytes(4)))[0]
                    time.sleep(0.02)
                time.sleep(0.5)  # until its memory is full, too; if it is not yet, it fails all the same
                job.processes[1].kill()
                results = ends(job, SURVIVOR_LIMIT_S)
                equal([result[0] for result in results], [1, -signal.SIGKILL], f"statuses by {way}")
                contains(results[0][2], f"a peer failed: rank 0 on {HOST}")


def receiver_that_stands_still_is_named_with_what_it_did_not_do():
    """Of a source that pauses, no segment is full."""
    with workplace() as place, in_full_swing(place, "multicast", *TIMEOUT) as (_, ranks):
        equal(len(ranks[1].stdout.read((1 << 20) - 1000)), (1 << 20) - 1000, "bytes, so that rank 1 waits for nobody")
        ranks[2].send_signal(signal.SIGSTOP)
        status = ranks[0].wait(timeout=LIMIT_S)
        line = ranks[0].stderr.read().decode()
        equal(status, 1, f"status with {line!r}")
        said = rf"tutti cast: timed out: rank 2 on {re.escape(HOST)} \(sending\): .+\n"
        equal(re.fullmatch(said, line) is not None, True, f"what the sender says: {line!r}")


def fifo_that_nobody_writes_to_does_not_hold_up_the_start():
    with workplace() as place:
        os.mkfifo(f"{place}/fifo")
        result = tutti("cast", f"{place}/fifo", "--root", f"127.0.0.1:{free_ports()}", "--size", 2, "--wait", "1s")
        equal(result.returncode, 1)
        contains(result.stderr, "rank 0 waited 1 s: rank 1 never came")


def fifo_is_sent_when_its_writer_comes():
    with workplace() as place:
        os.mkfifo(f"{place}/fifo")
        data = content(3 * SEGMENT + 1)[:3 * SEGMENT + 1]
        for way in WAYS:
            job = Cast(1)
            receiver = job.start("catch", "-o", "-")
            job.start("cast", f"{place}/fifo", "--by", way, "--segment", SEGMENT, "--json")
            time.sleep(0.5)  # it may have begun to read by then; if it has not, there is a writer from the beginning
            writer = threading.Thread(target=write, args=(f"{place}/fifo", data))
            writer.start()
            results = job.end()
            writer.join()
            equal([(status, errors) for status, _, errors in results], [(0, ""), (0, "")], f"by {way}")
            equal(results[job.processes.index(receiver)][1] == data, True, f"data by {way}")


def json_says_why_nothing_was_sent():
    with workplace() as place:
        root = ("--root", f"127.0.0.1:{free_ports()}", "--size", 2)
        path = write(f"{place}/data", b"data")
        for name, reason in ((f"{place}/missing", f"{place}/missing: No such file or directory"),
                             (place, f"{place}: Is a directory"),
                             (path, "timed out (coming together): rank 0 waited 500 ms: rank 1 never came"),
                             ("-", "timed out (coming together): rank 0 waited 500 ms: rank 1 never came")):
            result = tutti("cast", name, *root, "--wait", "500ms", "--json")
            equal(result.returncode, 1, f"status for {name}")
            found = json.loads(result.stdout)
            equal((found["ok"], found["bytes"], found["xxh128"], found["hosts"]), (False, 0, "", []), name)
            equal(found["file"], "standard input" if name == "-" else name)
            contains(found["reason"], reason)
            contains(result.stderr, reason)


def setting_of_another_host_is_not_a_wrong_command_line_here():
    with workplace() as place:
        for ranked in (False, True):
            job = Cast(1, ranked=ranked)
            job.variables["TUTTI_INTERFACE"] = "nosuch"
            job.start("catch", "-o", f"{place}/got", rank=1)
            del job.variables["TUTTI_INTERFACE"]
            job.start("cast", write(f"{place}/data", b"data"), "--json", rank=0)
            results = job.end()
            equal([result[0] for result in results], [1, 1], f"statuses: {results}")
            found = json.loads(results[1][1])
            equal(found["ok"], False)
            contains(found["reason"], "rank 1 could not create the group: invalid argument")


def result_of_what_nobody_could_take_has_no_rate():
    with workplace() as place:
        for arguments in ((), ("--json",)):
            job = Cast(1)
            job.start("catch", "-o", write(f"{place}/old", b"old"))
            job.start("cast", write(f"{place}/data", b"x" * 100000), *arguments)
            results = job.end()
            equal([result[0] for result in results], [1, 1])
            output = results[1][1].decode()
            if arguments:
                found = json.loads(output)
                equal((found["bytes"], found["xxh128"]), (0, ""))
            else:
                equal(output.splitlines()[0], f"# {place}/data: 0 bytes by multicast to 1 host")
                contains(output, "old: there already")
                equal("XXH128" in output, False, output)


def shown_on_a_terminal(columns, term):
    """What a receiver with a terminal of so many columns has shown of its progress."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with workplace() as place:
        job = Cast(1, TERM=term)
        job.start("catch", "-o", f"{place}/copy", stderr=slave)
        os.close(slave)
        job.start("cast", write(f"{place}/data", b"x" * 100000))
        shown = b""
        with contextlib.suppress(OSError):  # EIO: nobody has the other end any more
            while piece := os.read(master, 4096):
                shown += piece
        os.close(master)
        equal([result[0] for result in job.end()], [0, 0])
    return shown.decode()


def progress_fits_the_terminal():
    shown = shown_on_a_terminal(29, "xterm")
    for part in shown.replace("\r\n", "").split("\r"):
        equal(len(part.replace("\x1b[K", "")) < 29, True, f"a line of less than 29 in {shown!r}")
    contains(shown, "\r[====================] 100 %\x1b[K\r\n")
    contains(shown_on_a_terminal(200, "xterm"), " MB/s  0:00 left\x1b[K\r\n")


def terminal_that_knows_no_escapes_gets_none():
    for term in ("dumb", ""):
        shown = shown_on_a_terminal(200, term)
        contains(shown, "[====================] 100 %  97.7 KiB of 97.7 KiB")
        equal("\x1b" in shown, False, shown)


if __name__ == "__main__":
    CASES = [
        reader_that_stops_ends_it_after_the_timeout,
        reader_that_is_slow_holds_up_nobody_for_longer_than_each_segment_takes,
        reader_that_is_slow_to_the_end_is_waited_for_as_long_as_it_reads,
        sender_that_dies_ends_a_receiver_whose_reader_has_stopped,
        receiver_that_stands_still_is_named_with_what_it_did_not_do,
        fifo_that_nobody_writes_to_does_not_hold_up_the_start,
        fifo_is_sent_when_its_writer_comes,
        json_says_why_nothing_was_sent,
        setting_of_another_host_is_not_a_wrong_command_line_here,
        result_of_what_nobody_could_take_has_no_rate,
        progress_fits_the_terminal,
        terminal_that_knows_no_escapes_gets_none,
    ]
    main([case for case in CASES if not sys.argv[2:] or case.__name__ in sys.argv[2:]])
