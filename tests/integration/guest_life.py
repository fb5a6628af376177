#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The guest (testbed/guest): what goes in and what comes out of it, and that nothing is left, whatever ends it.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from cli_support import Skip, children, contains, environment, equal, is_alive, main

GUEST = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "testbed", "guest")
COMMAND = [sys.executable, GUEST]
TIME_LIMIT_S = 300
STATUS_SKIP = 77


def guest(*arguments, **variables):
    """Runs the program to its end; skips the case where it says that there can be no guest here."""
    result = subprocess.run([*COMMAND, *arguments], env=environment(**variables), stdin=subprocess.DEVNULL,
                            capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)
    if result.returncode == STATUS_SKIP:
        raise Skip(result.stderr.strip())
    return result


def start(*arguments):
    """A guest whose qemu runs: this program's process, and qemu's id."""
    process = subprocess.Popen([*COMMAND, "run", *arguments], env=environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if process.poll() == STATUS_SKIP:
            raise Skip(process.communicate()[1].strip())
        for pid in children(process.pid):
            if name_of(pid).startswith("qemu-system"):
                return process, pid
        time.sleep(0.01)
    process.kill()
    raise AssertionError(f"no qemu after 60 s: {process.communicate()}")


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def ends(pid, limit_s=5):
    deadline = time.monotonic() + limit_s
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.01)
    equal(is_alive(pid), False, "qemu is alive")


def command_has_its_files_directory_variables_output_and_status():
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "input"), "w", encoding="ascii") as file:
            file.write("forty-two\n")
        os.symlink("input", os.path.join(directory, "link"))
        script = os.path.join(directory, "script")
        with open(script, "w", encoding="ascii") as file:
            file.write('#!/bin/sh\ncd "$1" && cat link && cat && pwd && echo "$2" && echo $TUTTI_LOG $GUEST_DEVICES\n'
                       "ls /sys/class/infiniband && tc qdisc show dev v0 && head -c 3000000 /dev/zero | tr '\\0' x\n"
                       "echo complaint >&2\nexit 37\n")
        os.chmod(script, 0o755)
        result = guest("run", "--loss", "2%", "--file", directory, "--", script, directory, "a 'quoted'  $word",
                       TUTTI_LOG="warn")
    equal(result.returncode, 37, f"status, with {result.stderr!r}")
    equal(result.stderr, "complaint\n", "standard error")
    *lines, last = result.stdout.split("\n")
    equal(lines[:5], ["forty-two", directory, "a 'quoted'  $word", "warn 1", "rxe0"], "standard output")
    contains(lines[5], "loss 2%")
    equal((len(lines), len(last), set(last)), (6, 3000000, {"x"}), "three million letters")


def output_that_is_read_late_is_there_to_its_end():
    """What qemu holds, as the pipes are full, comes after the status, on a channel of its own."""
    process, _ = start("--", "head", "-c", "400000", "/dev/zero")
    data = process.stdout.buffer.read(1)
    time.sleep(3)
    data += process.stdout.buffer.read()
    equal((process.wait(60), len(data)), (0, 400000), "status and bytes")


def guest_that_ends_without_a_status_says_what_its_console_had():
    result = guest("run", "--devices", "3", "--", "sh", "-c",
                   "echo last words >/dev/console; echo o >/proc/sysrq-trigger; sleep 60")
    equal(result.returncode, 1, f"status: {result.stderr!r}")
    contains(result.stderr, "the guest ended without a status")
    contains(result.stderr, "last words")


def guest_that_does_not_end_is_ended_after_the_timeout():
    begun = time.monotonic()
    result = guest("run", "--timeout", "2", "--", "true")
    equal(result.returncode, 1, f"status: {result.stderr!r}")
    contains(result.stderr, "has not ended after 2 s and was ended")
    if time.monotonic() - begun > 60:
        raise AssertionError("it was waited for")


def qemu_ends_with_a_caller_that_is_killed():
    process, qemu = start("--", "sleep", "1000")
    process.kill()
    process.communicate()
    ends(qemu)


def qemu_ends_with_a_caller_that_is_asked_to_end():
    for number in (signal.SIGTERM, signal.SIGINT):
        process, qemu = start("--", "sleep", "1000")
        process.send_signal(number)
        _, errors = process.communicate(timeout=120)
        equal(process.returncode, 128 + number, f"status after signal {number}: {errors!r}")
        ends(qemu)


def kernel_that_does_not_boot_is_tried_twice_and_leaves_no_file():
    """A cache whose kernel is none."""
    guest("fetch")
    real = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tutti-guest")
    with tempfile.TemporaryDirectory() as directory:
        cache = os.path.join(directory, "tutti-guest")
        shutil.copytree(real, cache, ignore=shutil.ignore_patterns("new-*", "vmlinux"))
        for name in os.listdir(cache):
            if name.startswith("linux-image"):
                with open(os.path.join(cache, name, "vmlinux"), "w", encoding="ascii") as file:
                    file.write("no kernel\n")
        before = every_file(directory)
        result = guest("run", "--", "true", XDG_CACHE_HOME=directory, TMPDIR=directory)
        equal(result.returncode, 1, f"status: {result.stderr!r}")
        equal(result.stderr.count("the guest ended without a status"), 2, f"boots in {result.stderr!r}")
        contains(result.stderr, "once more")
        equal(every_file(directory), before, "files")


def every_file(directory):
    return sorted(os.path.join(path, name) for path, _, names in os.walk(directory) for name in names)


def where_a_program_is_missing_it_says_so():
    """Search paths that have everything but this."""
    guest("fetch")
    with tempfile.TemporaryDirectory() as directory:
        for hidden, said in (("qemu-system-x86_64", "qemu-system-x86_64 is not installed"),
                             ("busybox", "not installed: busybox")):
            path = os.path.join(directory, hidden)
            os.mkdir(path)
            for folder in (os.environ["PATH"] + ":/usr/sbin:/sbin").split(":"):
                for name in os.listdir(folder) if os.path.isdir(folder) else ():
                    program = os.path.join(folder, name)
                    if name != hidden and os.path.isfile(program) and not os.path.lexists(os.path.join(path, name)):
                        os.symlink(program, os.path.join(path, name))
            result = subprocess.run([*COMMAND, "run", "--", "true"], env=environment(PATH=path), capture_output=True,
                                    text=True, timeout=TIME_LIMIT_S, check=False)
            equal(result.returncode, STATUS_SKIP, f"status without {hidden}: {result.stderr!r}")
            contains(result.stderr, said)


def where_the_kernel_cannot_be_downloaded_it_says_so():
    guest("fetch")
    with tempfile.TemporaryDirectory() as directory:
        with open(os.path.join(directory, "apt-get"), "w", encoding="ascii") as file:
            file.write("#!/bin/sh\necho planted >&2\nexit 100\n")
        os.chmod(os.path.join(directory, "apt-get"), 0o755)
        cache = os.path.join(directory, "cache")
        result = subprocess.run([*COMMAND, "run", "--", "true"], capture_output=True, text=True, timeout=TIME_LIMIT_S,
                                env=environment(PATH=f"{directory}:{os.environ['PATH']}", XDG_CACHE_HOME=cache),
                                check=False)
        equal(result.returncode, STATUS_SKIP, f"status: {result.stderr!r}")
        contains(result.stderr, "planted")
        equal(os.listdir(os.path.join(cache, "tutti-guest")), ["lock"], "what is in the cache")


def command_lines_that_make_no_sense_are_refused():
    for arguments, status, said in ((("run",), 2, "no command"), (("run", "--devices", "2", "--", "x"), 2, "2"),
                                    (("run", "--loss", "101%", "--", "x"), 2, "'101%'"),
                                    (("run", "--timeout", "0", "--", "x"), 2, "'0'"),
                                    (("fetch", "--", "x"), 2, "'-- x'"), (("fly",), 2, "'fly'"),
                                    (("run", "--file", "/nonexistent", "--", "x"), 1, "'/nonexistent'")):
        result = guest(*arguments)
        equal(result.returncode, status, f"status of guest {arguments}: {result.stderr!r}")
        contains(result.stderr, said)


if __name__ == "__main__":
    main([command_has_its_files_directory_variables_output_and_status,
          output_that_is_read_late_is_there_to_its_end,
          guest_that_ends_without_a_status_says_what_its_console_had,
          guest_that_does_not_end_is_ended_after_the_timeout,
          qemu_ends_with_a_caller_that_is_killed,
          qemu_ends_with_a_caller_that_is_asked_to_end,
          kernel_that_does_not_boot_is_tried_twice_and_leaves_no_file,
          where_a_program_is_missing_it_says_so,
          where_the_kernel_cannot_be_downloaded_it_says_so,
          command_lines_that_make_no_sense_are_refused])
