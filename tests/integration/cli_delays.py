#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Threads are held up at random, at each lock and each system call (delays.c), and whatever is begun ends all the same.

With other orders of events a thread may go to sleep just before what it waits for, or find done what it was about to
wait for, and nothing that comes later wakes it: that is what hangs for ever, and once in a thousand runs otherwise.

    cli_delays.py PROGRAM DELAYS.so [CASE...] [--seed SEED]
"""
import contextlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from cli_support import TUTTI, TIME_LIMIT_S, environment, free_ports, main, where_it_is

DELAYS = os.path.abspath(sys.argv[2])
AT_ONCE = 12
LIMIT_S = 60  # for what takes a few seconds, of which TUTTI_TIMEOUT leaves most
MODES = ["4:100", "20:1000", "100:10000", "100:60000"]  # one in so many calls, and up to so many microseconds


def seed_of_all():
    words = sys.argv[3:]
    return int(words[words.index("--seed") + 1]) if "--seed" in words else random.SystemRandom().randrange(1 << 30)


SEED = seed_of_all()
TAKEN = "another process listens there already"  # another test, since free_ports() looked


def last_words(process):
    """What a process that has ended has said, as far as nobody has read it."""
    if process.poll() is None or process.stderr.closed:
        return ""
    return "\n" + process.stderr.read().decode(errors="replace")


class Job:
    """Processes that all have to end well, each with delays of its own."""

    def __init__(self, number):
        self.draw = random.Random(f"{SEED} {number}")
        self.processes = []

    def start(self, *arguments, stdin=subprocess.DEVNULL, **variables):
        delays = f"{self.draw.randrange(1 << 62)}:{self.draw.choice(MODES)}"
        process = subprocess.Popen([TUTTI, *map(str, arguments)], stdin=stdin, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, start_new_session=True,
                                   env=environment(LD_PRELOAD=DELAYS, DELAYS=delays, **variables))
        self.processes.append(process)
        return process

    def end(self, status=0, sentence=b""):
        """All but those that have been killed end with this status, and say that."""
        deadline = time.monotonic() + LIMIT_S
        for process in self.processes:
            try:
                output, errors = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.fail(f"not over after {LIMIT_S} s")
            if process.returncode == -signal.SIGKILL and status != 0:
                continue
            if process.returncode != status or sentence not in errors or b"ld.so" in errors:  # that cannot preload
                self.fail(f"status {process.returncode}: {(output + errors).decode(errors='replace')[-2000:]}")

    def fail(self, why):
        """Shows where everybody is."""
        places = [where_it_is(process) + last_words(process) for process in self.processes]
        lines = [" ".join(map(os.fsdecode, process.args[1:])) for process in self.processes]
        self.kill()
        raise AssertionError(f"{why}\n{chr(10).join(lines)}\n{chr(10).join(places)}")

    def kill(self):
        for process in self.processes:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def all_end(story, count):
    """Runs a story so many times, several side by side."""
    def run(number, tries=3):
        job = Job(number)
        try:
            story(job)
        except Exception as error:
            if TAKEN in str(error) and tries > 1:
                return run(number, tries - 1)
            raise AssertionError(f"job {number} of seed {SEED} (replay: --seed {SEED}): {error}") from error
        finally:
            job.kill()
        return None
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [pool.submit(run, number) for number in range(count)]:
            done.result(TIME_LIMIT_S)


def cast_slowly(job):
    """From a source that is never silent for long and never fast, up to the first byte that has come."""
    root = ["--root", f"127.0.0.1:{free_ports()}", "--size", 2]
    receiver = job.start("catch", "-o", "-", *root)
    sender = job.start("cast", "-", "--by", job.draw.choice(["multicast", "pipeline", "pipeline"]), *root,
                       stdin=subprocess.PIPE)
    shown = threading.Thread(target=receiver.stdout.read, args=(1,))
    shown.start()
    deadline = time.monotonic() + LIMIT_S
    gap_s = job.draw.choice([0.05, 0.3])
    while shown.is_alive() and time.monotonic() < deadline and sender.poll() is None:
        with contextlib.suppress(BrokenPipeError):  # it has ended, and the loop does
            sender.stdin.write(b"x")
            sender.stdin.flush()
        shown.join(gap_s)
    if shown.is_alive():
        job.fail(f"no byte has come in {LIMIT_S} s, or the sender has given up")
    sender.stdin.close()
    sender.stdin = None
    job.end()


def carry_out(job):
    """A collective of a few small sizes, and right to the byte, as bench checks."""
    draw = job.draw
    kind = draw.choice(["barrier", "broadcast", "reduce", "allreduce", "reduce-scatter", "allgather", "gather",
                        "scatter"])
    sizes = [] if kind == "barrier" else ["-b", draw.choice([8, 4096]), "-e", draw.choice([4096, 300000]), "-f", 16]
    variables = {"TUTTI_P2P": "tcp", "TUTTI_TIMEOUT": f"{LIMIT_S - 20}s", "TUTTI_POLL": draw.choice(["auto", "0"])}
    job.start("bench", kind, "-n", draw.choice([2, 3, 5]), "-i", 5, "-w", 1, *sizes,
              *draw.choice([[], [], ["--workers", 1]]), *draw.choice([[], ["--loss", 2]]), **variables)
    job.end()


def lose_one(job):
    """A rank is killed somewhere in one of many collectives."""
    draw = job.draw
    size = draw.choice([2, 3, 4])
    victim = draw.randrange(size)
    kind = draw.choice(["broadcast", "reduce", "allreduce", "reduce-scatter", "allgather", "gather", "scatter"])
    variables = {"TUTTI_SIZE": str(size), "TUTTI_ROOT": f"127.0.0.1:{free_ports()}", "TUTTI_LOG": "info",
                 "TUTTI_P2P": "tcp"}
    bytes_each = draw.choice([8, 4096, 65536, 1 << 20])
    for rank in range(size):
        job.start("bench", kind, "-b", bytes_each, "-e", bytes_each, "-i", 1000000, TUTTI_RANK=str(rank), **variables)
    witness = job.processes[0]  # who says so
    limit = threading.Timer(LIMIT_S, job.kill)
    limit.daemon = True
    limit.start()
    said = []
    while not said or b"group of" not in said[-1]:
        said.append(witness.stderr.readline())
        if not said[-1]:
            job.fail(f"they have not come together: {b''.join(said).decode(errors='replace')}")
    limit.cancel()
    time.sleep(draw.uniform(0, 0.5))
    job.processes[victim].kill()
    job.end(1, f"rank {victim}".encode())


def casts_from_slow_sources_end():
    all_end(cast_slowly, 72)


def collectives_end():
    all_end(carry_out, 60)


def survivors_hear_who_has_died():
    all_end(lose_one, 36)


if __name__ == "__main__":
    CASES = [casts_from_slow_sources_end, collectives_end, survivors_hear_who_has_died]
    main([case for case in CASES if not set(sys.argv[3:]) & {each.__name__ for each in CASES} or
          case.__name__ in sys.argv[3:]])
