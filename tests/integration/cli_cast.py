#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""`tutti cast` and `tutti catch` with real processes over loopback: what arrives, what is refused, and what is left when
something dies.

    cli_cast.py PROGRAM
"""
import contextlib
import functools
import json
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import (TUTTI, Skip, contains, environment, equal, free_ports, main, patience, tutti,
                         where_it_is)

LIMIT_S = 120
SURVIVOR_LIMIT_S = 5 * patience()  # from the death of a process to the end of all others
SEGMENT = 64 << 10
WAYS = ("multicast", "pipeline")
HOST = socket.gethostname()
EMPTY_DIGEST = "99aa06d3014798d86001c324468d497f"  # XXH128 of nothing, by its specification


@functools.cache
def content(size):
    """Random bytes, always the same ones of a size: a segment in another's place differs from it."""
    return random.Random(7).randbytes(size)


def write(path, data, mode=0o644):
    with open(path, "wb") as file:
        file.write(data)
    os.chmod(path, mode)
    return path


def read(path):
    with open(path, "rb") as file:
        return file.read()


@contextlib.contextmanager
def workplace():
    with tempfile.TemporaryDirectory() as directory:
        yield directory


class Cast:
    """A sender and receivers, each with its own arguments. They have ranks where `ranked`, else only --root and --size."""

    def __init__(self, receivers, ranked=False, **variables):
        self.root = f"127.0.0.1:{free_ports()}"
        self.size = receivers + 1
        self.ranked = ranked
        self.variables = variables
        self.processes = []  # the sender last

    def start(self, *arguments, rank=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
              stderr=subprocess.PIPE, prepare=None):
        own = dict(self.variables)
        job = ["--root", self.root, "--size", str(self.size)]
        if self.ranked:
            own.update(TUTTI_RANK=str(rank), TUTTI_SIZE=str(self.size), TUTTI_ROOT=self.root)
            job = []
        # pylint: disable=subprocess-popen-preexec-fn # one thread, and nothing but system calls
        process = subprocess.Popen([TUTTI, *map(os.fsencode, map(str, arguments)), *job], env=environment(**own),
                                   stdin=stdin, stdout=stdout, stderr=stderr, preexec_fn=prepare)
        self.processes.append(process)
        return process

    def end(self, limit_s=LIMIT_S):
        """Exit status, output and errors of each, in the order in which they were started."""
        results = []
        deadline = time.monotonic() + limit_s
        try:
            for process in self.processes:
                output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
                results.append((process.returncode, output, (errors or b"").decode(errors="replace")))
        except subprocess.TimeoutExpired as error:
            self.give_up(f"{error}; {len(results)} have ended before")
        finally:
            self.kill()
        return results

    def give_up(self, why):
        """Fails, and shows what keeps each process."""
        places = "\n".join(where_it_is(process) for process in self.processes)
        self.kill()
        raise AssertionError(f"{why}:\n{places}")

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
                process.communicate()


def cast(path, *arguments, receivers, stdin=subprocess.DEVNULL, **variables):
    """Sends to receivers, each a list of arguments; all must succeed. The sender's JSON."""
    job = Cast(len(receivers), **variables)
    for receiver in receivers:
        job.start("catch", *receiver)
    job.start("cast", path, "--json", *arguments, stdin=stdin)
    results = job.end()
    for status, _, errors in results:
        equal((status, errors), (0, ""), "status and errors")
    return json.loads(results[-1][1])


def verdicts(result):
    return sorted((host["ok"], host["reason"]) for host in json.loads(result[1])["hosts"])


# --- What arrives -----------------------------------------------------------------------------------------------------

def every_size_arrives_by_both_ways():
    with workplace() as place:
        for size in (0, 1, SEGMENT - 1, SEGMENT, SEGMENT + 1, 2 * SEGMENT, 9 * SEGMENT + 5):
            for way in WAYS:
                data = content(size)
                path = write(f"{place}/data", data)
                found = cast(path, "--by", way, "--segment", SEGMENT,
                             receivers=[("-o", f"{place}/{way}{size}.{number}") for number in range(2)])
                equal((found["by"], found["bytes"], found["ok"]), (way, size, True))
                equal([(host["ok"], host["digest_ok"], host["bytes"], host["host"]) for host in found["hosts"]],
                      [(True, True, size, HOST)] * 2)
                equal(sorted(host["rank"] for host in found["hosts"]), [1, 2])
                for number in range(2):
                    equal(read(f"{place}/{way}{size}.{number}") == data, True, f"{size} bytes by {way}")
                if size == 0:
                    equal(found["xxh128"], EMPTY_DIGEST)
        equal([name for name in os.listdir(place) if name.startswith(".")], [], "temporary files")


def loss_is_repaired():
    with workplace() as place:
        data = content(20 << 20)
        path = write(f"{place}/data", data)
        for way in WAYS:
            found = cast(path, "--by", way, "--segment", "2M", TUTTI_LOSS="1",
                         receivers=[("-o", f"{place}/{way}{number}", "--no-sync") for number in range(3)])
            equal(found["bytes"], len(data))
            for number in range(3):
                equal(read(f"{place}/{way}{number}") == data, True, f"data by {way}")


def standard_input_and_output_are_files_too():
    with workplace() as place:
        for size in (0, 5, 3 * SEGMENT, 4 * SEGMENT + 1):
            data = content(size)
            for way in WAYS:
                job = Cast(2)
                output = job.start("catch", "-o", "-")
                job.start("catch", "-o", f"{place}/{way}{size}")
                sender = job.start("cast", "-", "--by", way, "--segment", SEGMENT, "--json", stdin=subprocess.PIPE)
                sender.stdin.write(data)
                sender.stdin.close()
                sender.stdin = None
                results = job.end()
                equal([result[0] for result in results], [0, 0, 0], f"statuses: {results}")
                equal(results[job.processes.index(output)][1] == data, True, "standard output")
                equal(read(f"{place}/{way}{size}") == data, True, "the file")
                equal(json.loads(results[2][1])["bytes"], size)


def streams_that_do_not_block_are_waited_for():
    data = content(1 << 20)
    for way in WAYS:
        job = Cast(1)
        job.start("catch", "-o", "-", prepare=lambda: os.set_blocking(1, False))
        sender = job.start("cast", "-", "--by", way, "--segment", SEGMENT, stdin=subprocess.PIPE,
                           prepare=lambda: os.set_blocking(0, False))
        writer = threading.Thread(target=lambda stream: (stream.write(data), stream.close()), args=(sender.stdin,))
        writer.start()
        sender.stdin = None
        time.sleep(0.5)  # until the pipe behind the receiver is full
        results = job.end()
        writer.join()
        equal([(status, errors) for status, _, errors in results], [(0, ""), (0, "")])
        equal(results[0][1] == data, True, f"data by {way}")


def source_that_pauses_gets_through_in_pieces():
    for way in WAYS:
        job = Cast(1)
        receiver = job.start("catch", "-o", "-")
        sender = job.start("cast", "-", "--by", way, stdin=subprocess.PIPE)
        for piece in (b"first", b"second"):
            sender.stdin.write(piece)
            sender.stdin.flush()
            equal(receiver.stdout.read(len(piece)), piece, "what has come through an open pipe")
        sender.stdin.close()
        sender.stdin = None
        equal([result[0] for result in job.end()], [0, 0], "statuses")


def source_that_is_slow_gets_through_before_a_segment_is_full():
    for way in WAYS:
        job = Cast(1)
        receiver = job.start("catch", "-o", "-")
        sender = job.start("cast", "-", "--by", way, stdin=subprocess.PIPE)
        shown = threading.Thread(target=receiver.stdout.read, args=(1,))
        shown.start()
        deadline = time.monotonic() + LIMIT_S
        while shown.is_alive() and time.monotonic() < deadline:  # never silent for as long as a pause takes
            sender.stdin.write(b"x")
            sender.stdin.flush()
            time.sleep(0.05)
        if shown.is_alive():
            job.give_up(f"no byte has come by {way} in {LIMIT_S} s")
        sender.stdin.close()
        sender.stdin = None
        equal([result[0] for result in job.end()], [0, 0], "statuses")


def directory_gets_the_sender_s_name_and_mode():
    names = ["plain", "a b;$(x)'\"", "new\nline", "-o", "..data", "ü", os.fsdecode(b"\xff\xfe"), "n" * 255]
    with workplace() as place:
        os.mkdir(f"{place}/out")
        for number, name in enumerate(names):
            path = write(os.path.join(place, name), b"x" * number, mode=0o640 if number % 2 else 0o755)
            cast(path, receivers=[("-o", f"{place}/out")])
            target = os.path.join(place, "out", name)
            equal(read(target), b"x" * number)
            equal(os.stat(target).st_mode & 0o7777, 0o640 if number % 2 else 0o755, f"mode of {name!r}")
        equal(sorted(os.listdir(f"{place}/out")), sorted(names))


def set_user_id_is_not_passed_on():
    with workplace() as place:
        path = write(f"{place}/data", b"x", mode=0o4755)
        cast(path, receivers=[("-o", f"{place}/copy")])
        equal(os.stat(f"{place}/copy").st_mode & 0o7777, 0o755)


def file_that_nobody_may_read_stays_so():
    if os.geteuid() != 0:
        raise Skip("only root can send it")
    with workplace() as place:
        path = write(f"{place}/data", b"x", mode=0)
        cast(path, receivers=[("-o", f"{place}/copy")])
        equal(os.stat(f"{place}/copy").st_mode & 0o7777, 0)


def job_comes_from_the_environment_too():
    with workplace() as place:
        path = write(f"{place}/data", b"data")
        result = tutti("run", "-n", 3, "sh", "-c", f'[ "$TUTTI_RANK" = 0 ] && exec {TUTTI} cast {path} --json; '
                       f"exec {TUTTI} catch -o {place}/copy.$TUTTI_RANK")
        equal((result.returncode, result.stderr), (0, ""))
        equal([host["rank"] for host in json.loads(result.stdout)["hosts"]], [1, 2])
        equal((read(f"{place}/copy.1"), read(f"{place}/copy.2")), (b"data", b"data"))


def table_and_progress_are_for_people():
    with workplace() as place:
        job = Cast(1)
        job.start("catch", "-o", f"{place}/copy", "--progress")
        job.start("cast", write(f"{place}/data", b"x" * 100000), "--progress")
        results = job.end()
        equal([result[0] for result in results], [0, 0])
        for _, _, errors in results:
            contains(errors, "[====================] 100 %  97.7 KiB of 97.7 KiB")
        lines = results[1][1].decode().splitlines()
        contains(lines[0], f"# {place}/data: 100000 bytes by multicast to 1 host in ")
        equal(lines[3].split()[:5], [HOST, "1", "ok", "right", "100000"])
        equal(results[0][1], b"", "output of the receiver")


# --- What a receiver refuses, while the others get theirs -------------------------------------------------------------

def refused(place, bad, reason, *arguments, path=None, good=1):
    """One receiver with `bad` arguments fails for the reason; the others succeed. The sender's exit status is 1."""
    job = Cast(good + 1)
    prepare = bad[0] if callable(bad[0]) else None
    job.start("catch", *(bad[1:] if prepare else bad), prepare=prepare)
    for number in range(good):
        job.start("catch", "-f", "-o", f"{place}/good{number}")
    job.start("cast", path or f"{place}/data", "--json", *arguments)
    results = job.end()
    equal([result[0] for result in results], [1] + [0] * good + [1], f"statuses: {results}")
    contains(results[0][2], reason)
    equal(results[0][2].startswith("tutti catch: ") and results[0][2].count("\n") == 1, True, f"line {results[0][2]!r}")
    equal([ok for ok, _ in verdicts(results[-1])], [False] + [True] * good)
    contains(verdicts(results[-1])[0][1], reason)
    return results


def existing_file_is_kept_without_force_and_replaced_with_it():
    with workplace() as place:
        write(f"{place}/data", b"new")
        write(f"{place}/old", b"old")
        refused(place, ("-o", f"{place}/old"), "there already (--force replaces it)")
        equal((read(f"{place}/old"), read(f"{place}/good0")), (b"old", b"new"))
        cast(f"{place}/data", receivers=[("-f", "-o", f"{place}/old")])
        equal(read(f"{place}/old"), b"new")
        refused(place, ("-o", place), f"{place}/data: there already (--force replaces it)")
        refused(place, ("-f", "-o", "/dev/null"), "no regular file", good=0)
        refused(place, ("-o", f"{place}/missing/x"), "No such file or directory", good=0)
        refused(place, ("-o", place), "has no name", path="-", good=0)
        equal(sorted(os.listdir(place)), ["data", "good0", "old"])


def closed_standard_output_is_no_other_file():
    with workplace() as place:
        write(f"{place}/data", content(SEGMENT))
        refused(place, (lambda: os.close(1), "-o", "-"), "cannot write standard output: Bad file descriptor")


def full_disk_is_that_receiver_s_own_trouble():
    def little_room():
        resource.setrlimit(resource.RLIMIT_FSIZE, (SEGMENT, SEGMENT))

    with workplace() as place:
        data = content(40 * SEGMENT)
        write(f"{place}/data", data)
        for way in WAYS:
            refused(place, (little_room, "-o", f"{place}/bad"), f"cannot write {place}/bad: File too large", "--by", way,
                    "--segment", SEGMENT)
            equal(sorted(os.listdir(place)), ["data", "good0"])
            equal(read(f"{place}/good0") == data, True)
        job = Cast(1)
        with open("/dev/full", "wb") as full:
            job.start("catch", "-o", "-", stdout=full)
        job.start("cast", f"{place}/data", "--json")
        results = job.end()
        equal([result[0] for result in results], [1, 1])
        contains(verdicts(results[1])[0][1], "cannot write standard output: No space left on device")
        found = json.loads(results[1][1])
        equal((found["ok"], found["seconds"], found["xxh128"]), (False, 0, ""), "of a cast that nobody has in the end")


# --- What the sender cannot do ----------------------------------------------------------------------------------------

def what_cannot_be_read_is_said():
    with workplace() as place:
        for path, reason in ((f"{place}/missing", "No such file or directory"), (place, "Is a directory")):
            result = tutti("cast", path, "--root", f"127.0.0.1:{free_ports()}", "--size", 2)
            equal((result.returncode, result.stderr), (1, f"tutti cast: {path}: {reason}\n"))
        # A file that is there, but gives an error when it is read.
        job = Cast(1)
        job.start("catch", "-o", f"{place}/copy")
        job.start("cast", "/proc/self/mem", "--json")
        results = job.end()
        equal([result[0] for result in results], [1, 1])
        contains(results[0][2], "the sender failed: /proc/self/mem: Input/output error")
        equal(json.loads(results[1][1])["reason"], "/proc/self/mem: Input/output error")
        # Its name may be long.
        os.makedirs(f"{place}/{'long' * 50}")
        os.symlink("/proc/self/mem", f"{place}/{'long' * 50}/memory")
        job = Cast(1)
        job.start("catch", "-o", f"{place}/copy")
        job.start("cast", f"{place}/{'long' * 50}/memory", "--json")
        contains(json.loads(job.end()[1][1])["reason"], ": Input/output error")
        shutil.rmtree(f"{place}/{'long' * 50}")
        job = Cast(1)
        job.start("catch", "-o", f"{place}/copy")
        job.start("cast", "-", prepare=lambda: os.close(0))
        results = job.end()
        equal([result[0] for result in results], [1, 1])
        equal(results[1][1].decode().splitlines()[:2],
              ["# standard input: 0 bytes by multicast to 1 host", "# FAILED: standard input: Bad file descriptor"])
        equal(os.listdir(place), [])


def who_does_not_come_is_named():
    with workplace() as place:
        path = write(f"{place}/data", b"data")
        job = Cast(2)
        job.start("catch", "-o", f"{place}/copy", "--wait", "30s")
        job.start("cast", path, "--wait", "3s")
        results = job.end()
        equal([result[0] for result in results], [1, 1])
        for result in results:
            contains(result[2], "timed out (coming together): rank 0 waited 3 s: 1 of 2 others did not come or did not stay; here "
                     "are 127.0.0.1")
        root = f"127.0.0.1:{free_ports()}"
        result = tutti("catch", "-o", f"{place}/copy", "--root", root, "--size", 2, "--wait", "300ms")
        equal(result.returncode, 1)
        contains(result.stderr, f"a process without a rank cannot reach rank 0 at {root} in 300 ms: Connection refused")
        equal(os.listdir(place), ["data"])


def another_size_is_refused():
    job = Cast(1)
    job.start("cast", "/dev/null", "--wait", "3s")
    job.size = 3
    job.start("catch", "-o", "-", "--wait", "30s")
    results = job.end()
    equal([result[0] for result in results], [1, 1])
    contains(results[1][2], "a process without a rank was started for 3 in all (--size or TUTTI_SIZE), but rank 0 for 2")
    contains(results[0][2], "rank 0 waited 3 s: rank 1 never came; 127.0.0.1 was turned away: a process without a rank was started")


def sender_that_comes_late_is_waited_for():
    with workplace() as place:
        job = Cast(1)
        job.start("catch", "-o", f"{place}/copy", "--wait", "30s")
        time.sleep(0.5)
        job.start("cast", write(f"{place}/data", b"data"))
        equal([result[0] for result in job.end()], [0, 0])
        equal(read(f"{place}/copy"), b"data")


def roles_follow_the_ranks():
    job = {"TUTTI_SIZE": "2", "TUTTI_ROOT": "127.0.0.1:1"}
    for rank, arguments in (("1", ("cast", "/dev/null")), ("0", ("catch", "-o", "-"))):
        result = tutti(*arguments, TUTTI_RANK=rank, **job)
        equal(result.returncode, 2)
        contains(result.stderr, f"this is rank {rank} of the job: rank 0 casts, and the others catch")
    result = tutti("cast", "/dev/null")
    equal(result.returncode, 2)
    contains(result.stderr, "no job")
    result = tutti("cast", "/dev/null", TUTTI_SIZE="1")
    equal(result.returncode, 2)
    contains(result.stderr, "a job of one")


# --- Deaths -----------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def in_full_swing(place, way, *arguments):
    """A cast from a pipe that stays open, of which rank 1 has shown the first bytes."""
    job = Cast(3, ranked=True)
    shown = job.start("catch", "-o", "-", *arguments, rank=1)
    for rank in (2, 3):
        job.start("catch", "-o", f"{place}/copy{rank}", *arguments, rank=rank)
    sender = job.start("cast", "-", "--by", way, "--json", *arguments, rank=0, stdin=subprocess.PIPE)
    try:
        try:
            sender.stdin.write(content(1 << 20))
            sender.stdin.flush()
        except BrokenPipeError:
            raise AssertionError(f"the sender ended: {sender.stderr.read()!r}") from None
        equal(len(shown.stdout.read(1000)), 1000, "bytes shown")
        yield job, {0: sender, **{rank: job.processes[rank - 1] for rank in (1, 2, 3)}}
    finally:
        with contextlib.suppress(BrokenPipeError):
            sender.stdin.close()
        sender.stdin = None
        for process in job.processes:
            process.kill()
            process.communicate()


def survivors_name_the_dead(number, ways=WAYS):
    for way in ways:
        for victim in (0, 2):
            with workplace() as place, in_full_swing(place, way) as (_, ranks):
                ranks[victim].send_signal(number)
                deadline = time.monotonic() + SURVIVOR_LIMIT_S
                for rank, process in ranks.items():
                    try:
                        process.wait(timeout=max(0.1, deadline - time.monotonic()))
                    except subprocess.TimeoutExpired:
                        process.send_signal(signal.SIGABRT)
                        raise AssertionError(f"rank {rank} is still there {SURVIVOR_LIMIT_S} s after the end of rank "
                                             f"{victim}, and said {process.communicate()[1]!r}") from None
                    if rank == victim:
                        equal(process.returncode, -number)
                        continue
                    equal(process.returncode, 1, f"status of rank {rank}")
                    contains(process.stderr.read().decode(), f"a peer failed: rank {victim} on {HOST} (")
                if victim != 0:
                    hosts = json.loads(ranks[0].stdout.read())["hosts"]
                    equal([(host["rank"], host["ok"], host["digest_ok"], host["reason"]) for host in hosts],
                          [(1, False, False, "given up"), (2, False, False, "lost"), (3, False, False, "given up")])
                equal(os.listdir(place), [], "what is left")


def killed_process_is_named_by_all_others_and_leaves_nothing():
    survivors_name_the_dead(signal.SIGKILL)


def interrupted_process_is_named_by_all_others_and_leaves_nothing():
    survivors_name_the_dead(signal.SIGINT, WAYS[:1])


if __name__ == "__main__":
    CASES = [
        every_size_arrives_by_both_ways,
        loss_is_repaired,
        standard_input_and_output_are_files_too,
        streams_that_do_not_block_are_waited_for,
        source_that_pauses_gets_through_in_pieces,
        source_that_is_slow_gets_through_before_a_segment_is_full,
        directory_gets_the_sender_s_name_and_mode,
        set_user_id_is_not_passed_on,
        file_that_nobody_may_read_stays_so,
        job_comes_from_the_environment_too,
        table_and_progress_are_for_people,
        existing_file_is_kept_without_force_and_replaced_with_it,
        closed_standard_output_is_no_other_file,
        full_disk_is_that_receiver_s_own_trouble,
        what_cannot_be_read_is_said,
        who_does_not_come_is_named,
        another_size_is_refused,
        sender_that_comes_late_is_waited_for,
        roles_follow_the_ranks,
        killed_process_is_named_by_all_others_and_leaves_nothing,
        interrupted_process_is_named_by_all_others_and_leaves_nothing,
    ]
    main([case for case in CASES if not sys.argv[2:] or case.__name__ in sys.argv[2:]])
