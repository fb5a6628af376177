# SPDX-License-Identifier: BSD-3-Clause
"""What the tests of the testbed share: testbeds of their own that are gone afterwards, and how to look for remains."""
import atexit
import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys

from cli_support import Skip, environment, equal

ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "..", "testbed")
TESTBED = os.path.join(ROOT, "testbed")
COMPARE = os.path.join(ROOT, "compare")
WIRE = os.path.join(ROOT, "wire")
TRAFFIC = os.path.join(os.path.dirname(os.path.realpath(__file__)), "testbed_traffic.py")
PYTHON = sys.executable
TIME_LIMIT_S = 180  # of whatever must end, however busy the machine is
STATUS_SKIP = 77


def clean_environment(**variables):
    """Without TUTTI_ and TESTBED_NAME; the interface is what a host has."""
    variables = {**environment(**variables)}
    for name in ("TUTTI_INTERFACE", "TESTBED_NAME"):
        variables.pop(name, None)
    return variables


def testbed(*arguments, limit_s=TIME_LIMIT_S, **variables):
    """Runs the program to its end; skips the case where it says that it cannot run here."""
    result = subprocess.run([PYTHON, TESTBED, *map(str, arguments)], env=clean_environment(**variables),
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit_s, check=False)
    if result.returncode == STATUS_SKIP:
        raise Skip(result.stderr.strip())
    return result


def succeed(*arguments, **options):
    """The same, and it must succeed; returns its output."""
    result = testbed(*arguments, **options)
    equal(result.returncode, 0, f"status of testbed {' '.join(map(str, arguments))}: {result.stderr!r}")
    return result.stdout


def new_name():
    """For a testbed, which goes with this process at the latest: also if a case fails before it takes it down."""
    name = f"test{secrets.token_hex(4)}"
    atexit.register(lambda: remains(name) and testbed("down", "--name", name))
    return name


@contextlib.contextmanager
def network(*arguments):
    """A testbed with these options; its name."""
    name = new_name()
    succeed("up", "--name", name, *arguments)
    try:
        yield name
    finally:
        succeed("down", "--name", name)
        equal(remains(name), [], "what is left of a testbed")


def inside(name, host, *command):
    """What a tool of the system says in the network of a host, or of the switch."""
    if shutil.which(command[0]) is None:
        raise Skip(f"{command[0]} is not installed")
    return subprocess.run(["ip", "netns", "exec", f"tutti-{name}-{host}", *command], check=True, timeout=TIME_LIMIT_S,
                          capture_output=True, text=True).stdout


def start(name, host, *command, stdin=subprocess.DEVNULL):
    """A command in a host, in the background, with its output as text."""
    return subprocess.Popen([PYTHON, TESTBED, "exec", "--name", name, host, "--", *map(str, command)],
                            env=clean_environment(), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def start_ready(name, host, *command, **options):
    """The same, when it has said "ready"."""
    process = start(name, host, *command, **options)
    line = process.stdout.readline()
    if line.strip() != "ready":
        process.kill()
        raise AssertionError(f"{command} of {host} is not ready: {process.communicate()}")
    return process


def end(process, limit_s=TIME_LIMIT_S):
    """Waits for one of these; it must succeed. Its output."""
    try:
        output, errors = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        raise AssertionError(f"no end after {limit_s} s: {process.args} {process.communicate()}") from None
    equal(process.returncode, 0, f"status of {process.args}: {errors!r}")
    return output


def links():
    """Names of the interfaces where this test runs."""
    return sorted(os.listdir("/sys/class/net"))


def remains(name):
    """Everything on this machine that carries a testbed's name."""
    found = []
    for directory in ("/run/netns", "/run/tutti-testbed"):
        with contextlib.suppress(FileNotFoundError):
            found += [f"{directory}/{entry}" for entry in os.listdir(directory) if name in entry]
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        found += [line.split()[4] for line in file if name in line]
    found += [link for link in links() if name in link]
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if f"TESTBED_NAME={name}".encode() in file.read().split(b"\0"):
                found.append(f"process {pid}")
    return sorted(set(found))


def counters(name):
    return json.loads(succeed("counters", "--name", name, "--json"))


def receiver(name, host, port, group="0.0.0.0", senders=1):
    """A receiver that listens already."""
    return start_ready(name, host, PYTHON, TRAFFIC, "receive", port, group, senders)


def received(process):
    return json.loads(end(process))


def sender(name, host, address, port, *how):
    return start(name, host, PYTHON, TRAFFIC, "send", address, port, *how)


def floods(name, hosts, address, port, datagrams, length):
    """Senders that are all ready before the first begins; returns when they have handed over everything."""
    processes = [start_ready(name, host, PYTHON, TRAFFIC, "flood", address, port, datagrams, length, stdin=subprocess.PIPE)
                 for host in hosts]
    for process in processes:
        process.stdin.close()
        process.stdin = None
    for process in processes:
        end(process)


def address_of(host_index):
    return f"10.84.7.{host_index + 1}"
