#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Testbeds come, live side by side, and go without a trace: also those that fail half-built or are interrupted, and those
in which something still runs.
"""
import json
import os
import pwd
import shutil
import signal
import stat
import subprocess
import tempfile
import time

from cli_support import TUTTI, Skip, contains, equal, is_alive, main
from testbed_support import (PYTHON, STATUS_SKIP, TESTBED, clean_environment, counters, end, links, network, new_name,
                             received, receiver, remains, sender, start, succeed, testbed)


def up_and_down_leave_nothing_behind():
    before = links()
    name = new_name()
    description = json.loads(succeed("up", "--name", name, "--hosts", 3, "--rate", "100mbit", "--loss", "0.5%", "--json"))
    equal((description["id"], description["hosts"], description["up"]), (name, 3, True), "description")
    equal(len([entry for entry in remains(name) if entry.startswith("/run/netns/")]), 4, "3 hosts and a switch")
    equal(links(), before, "interfaces outside of the testbed")
    succeed("down", "--name", name)
    equal(remains(name), [], "what is left")
    equal(links(), before, "interfaces outside of the testbed")
    equal(testbed("down", "--name", name).returncode, 1, "status of the second down")


def hosts_have_names_addresses_and_interfaces_of_their_own():
    with network("--hosts", 3) as name:
        output = succeed("exec", "--name", name, "--", "sh", "-c", "hostname; ls /sys/class/net; getent hosts h2")
        equal(sorted(output.split("\n")),
              sorted(["", *(f"h{i}: {line}" for i in range(3) for line in (f"h{i}", "lo", "tb0", "10.84.7.3       h2"))]),
              "host names, interfaces, and the address of h2")
        for host in ("h1", "1", "10.84.7.2"):
            equal(succeed("exec", "--name", name, host, "--", "hostname"), "h1\n", f"the host called {host}")
        result = testbed("exec", "--name", name, "h3", "--", "hostname")
        equal(result.returncode, 1, "status for a host that is not there")
        contains(result.stderr, "'h3'")


def exec_returns_the_status_of_the_first_that_failed():
    with network("--hosts", 2) as name:
        equal(testbed("exec", "--name", name, "h1", "--", "sh", "-c", "exit 5").returncode, 5, "status of one")
        script = 'if [ "$(hostname)" = h1 ]; then exit 7; fi; sleep 2; exit 8'
        equal(testbed("exec", "--name", name, "--", "sh", "-c", script).returncode, 7, "status of all")
        result = testbed("exec", "--name", name, "h0", "--", "/nonexistent")
        equal(result.returncode, 1, "status for a program that is not there")
        contains(result.stderr, "'/nonexistent'")


def two_testbeds_live_side_by_side():
    with network("--hosts", 2) as one, network("--hosts", 2) as other:
        process = receiver(one, "h1", 5000)
        end(sender(one, "h0", "10.84.7.2", 5000, 100, 1000))
        equal(received(process)["datagrams"], 100, "datagrams in the one")
        if not counters(one)["total"]["out_bytes"] > 100000 > counters(other)["total"]["out_bytes"]:
            raise AssertionError("what was sent in one testbed was not counted there only")
        equal(sorted(line.split(":")[0] for line in succeed("list").splitlines() if one in line or other in line),
              sorted([one, other]), "the list")


def down_ends_what_runs_inside():
    name = new_name()
    succeed("up", "--name", name, "--hosts", 2)
    processes = [start(name, "h0", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"),
                 start(name, "h1", "sh", "-c", "echo ready; sleep 600")]
    for process in processes:
        equal(process.stdout.readline(), "ready\n", "what it says")
    processes[1].send_signal(signal.SIGSTOP)
    succeed("down", "--name", name)
    for process in processes:
        equal(process.wait(timeout=60) < 0, True, "it was ended by a signal")
        process.communicate()
    equal(remains(name), [], "what is left")


def half_built_testbed_is_taken_apart():
    before = links()
    for options, said in ((("--rate", "10mbit", "--burst", "100"), "--burst 100"),
                          (("--rate", "10mbit", "--buffer", "5000G"), "tc ")):
        name = new_name()
        result = testbed("up", "--name", name, "--hosts", 3, *options)
        equal(result.returncode, 1, f"status of up with {options}: {result.stderr!r}")
        contains(result.stderr, said)
        equal((remains(name), links()), ([], before), f"what is left after up with {options}")


def testbed_that_fails_at_any_tool_is_taken_apart():
    """A tool that stands before the real one fails at its n-th call."""
    for tool, call in (("ip", 1), ("ip", 2), ("ip", 4), ("bridge", 1), ("tc", 2), ("tc", 3), ("ethtool", 2), ("nft", 1)):
        real = shutil.which(tool, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
        if real is None:
            raise Skip(f"{tool} is not installed")
        with tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, tool)
            with open(path, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\necho >>{directory}/calls\n"
                           f"[ $(wc -l <{directory}/calls) -ne {call} ] || {{ echo planted >&2; exit 1; }}\n"
                           f'exec {real} "$@"\n')
            os.chmod(path, stat.S_IRWXU)
            name = new_name()
            result = testbed("up", "--name", name, "--hosts", 3, "--rate", "100mbit", "--loss", "1%",
                             PATH=f"{directory}:{os.environ['PATH']}")
            equal(result.returncode, 1, f"status of up where {tool} fails")
            contains(result.stderr, "planted")
            equal(remains(name), [], f"what is left where call {call} of {tool} fails")


def interrupted_testbed_is_taken_apart():
    for number, delay_s in ((signal.SIGINT, 0.0), (signal.SIGTERM, 0.03), (signal.SIGHUP, 0.1), (signal.SIGINT, 0.2)):
        name = new_name()
        process = subprocess.Popen([PYTHON, TESTBED, "up", "--name", name, "--hosts", "60", "--rate", "100mbit"],
                                   env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 60
        while not remains(name) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.005)
        time.sleep(delay_s)
        process.send_signal(number)
        _, errors = process.communicate(timeout=180)
        if process.returncode == STATUS_SKIP:
            raise Skip(errors.strip())
        equal(process.returncode, 128 + number, f"status after signal {number}: {errors!r}")
        equal(remains(name), [], f"what is left after signal {number}, {delay_s} s after the beginning")


LONG_CASE = """
import time
from cli_support import main
from testbed_support import network

def case():
    with network("--hosts", "3") as name:
        print("made", name, flush=True)
        time.sleep(600)

main([case])
"""


def test_that_is_ended_takes_its_testbed_along():
    process = subprocess.Popen([PYTHON, "-c", LONG_CASE, TUTTI], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, "PYTHONPATH": os.path.dirname(os.path.abspath(__file__))})
    word, _, name = process.stdout.readline().strip().partition(" ")
    process.terminate()
    rest, _ = process.communicate(timeout=180)
    if word == "skipped:":
        raise Skip(name)
    equal((word, process.returncode), ("made", 128 + signal.SIGTERM), rest)
    equal(remains(name), [], "what is left of the testbed of a test that was ended")


def testbed_whose_builder_was_killed_is_listed_and_can_be_taken_down():
    name = new_name()
    process = subprocess.Popen([PYTHON, TESTBED, "up", "--name", name, "--hosts", "60"], env=clean_environment(),
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not any("/run/netns" in entry for entry in remains(name)) and time.monotonic() < deadline:
        if process.poll() == STATUS_SKIP:
            raise Skip(process.communicate()[1].strip())
        time.sleep(0.005)
    process.kill()
    process.communicate()
    contains(succeed("list"), f"{name}: 60 hosts, not complete")
    result = testbed("exec", "--name", name, "h0", "--", "true")
    equal(result.returncode, 1, "status of exec")
    contains(result.stderr, "not complete")
    succeed("down", "--name", name)
    equal(remains(name), [], "what is left")


def rank_that_fails_ends_the_job():
    with network("--hosts", 3) as name:
        begun = time.monotonic()
        script = 'echo "$TUTTI_RANK of $TUTTI_SIZE"; [ $TUTTI_RANK != 1 ] || { sleep 1; exit 9; }; exec sleep 600'
        result = testbed("run", "--name", name, "--", "sh", "-c", script)
        equal(result.returncode, 9, "status")
        equal(result.stdout, "0 of 3\n", "output of rank 0")
        contains(result.stderr, "rank 1 (h1): 1 of 3\n")
        script = '[ $TUTTI_RANK != 1 ] || exit 9; sleep 0.5; [ $TUTTI_RANK != 2 ] || echo why; exec sleep 600'
        result = testbed("run", "--name", name, "--", "sh", "-c", script)
        equal(result.returncode, 9, "status")
        contains(result.stderr, "rank 2 (h2): why\n")
        result = testbed("run", "--name", name, "-n", 2, "--limit", 1, "--", "sleep", "600")
        equal(result.returncode, 1, "status after the time limit")
        contains(result.stderr, "2 of 2 processes have not ended after 1 s")
        if time.monotonic() - begun > 120:
            raise AssertionError("ranks were waited for")


def ranks_end_with(name, *options):
    """Starts ranks that wait, kills their launcher, and waits for them; their user."""
    process = subprocess.Popen([PYTHON, TESTBED, "run", "--name", name, *options, "--", "sh", "-c",
                                "echo $$ $(id -u); exec sleep 600"],
                               env=clean_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    ranks = [process.stdout.readline().split(), process.stderr.readline().split(": ")[1].split()]
    process.kill()
    process.wait()
    pids = [int(pid) for pid, _ in ranks]
    deadline = time.monotonic() + 60
    while any(map(is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.01)
    left = [pid for pid in pids if is_alive(pid)]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    process.communicate()
    equal(left, [], "ranks that are still there")
    return {int(user) for _, user in ranks}


def ranks_end_with_their_launcher():
    with network("--hosts", 2) as name:
        equal(ranks_end_with(name), {os.getuid()}, "user")


def ranks_of_another_user_end_with_their_launcher():
    try:
        nobody = pwd.getpwnam("nobody").pw_uid
    except KeyError:
        raise Skip("there is no user 'nobody' here") from None
    with network("--hosts", 2) as name:
        equal(ranks_end_with(name, "--user", "nobody"), {nobody}, "user")


def without_the_privilege_it_says_so():
    if shutil.which("setpriv") is None:
        raise Skip("setpriv is not installed")
    name = new_name()
    command = [PYTHON, TESTBED, "up", "--name", name, "--hosts", "2"]
    if os.geteuid() == 0:
        command = ["setpriv", "--bounding-set=-sys_admin,-net_admin", "--inh-caps=-all", *command]
    result = subprocess.run(command, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False)
    equal(result.returncode, STATUS_SKIP, f"status: {result.stderr!r}")
    contains(result.stderr, "no privilege")
    equal(remains(name), [], "what is left")


def command_lines_that_make_no_sense_are_refused():
    for arguments, said in ((("up", "--hosts", "1"), "'1'"), (("up", "--hosts", "3", "--rate", "fast"), "'fast'"),
                            (("up", "--hosts", "3", "--loss", "101%"), "'101%'"), (("up", "--hosts", "3", "--mtu", "9"), "'9'"),
                            (("up", "--hosts", "3", "--name", "A/b"), "'A/b'"), (("exec", "h0"), "no command"),
                            (("list", "--", "x"), "-- x"), (("fly",), "'fly'")):
        result = testbed(*arguments)
        equal(result.returncode, 2, f"status of testbed {arguments}")
        contains(result.stderr, said)


if __name__ == "__main__":
    main([up_and_down_leave_nothing_behind,
          hosts_have_names_addresses_and_interfaces_of_their_own,
          exec_returns_the_status_of_the_first_that_failed,
          two_testbeds_live_side_by_side,
          down_ends_what_runs_inside,
          half_built_testbed_is_taken_apart,
          testbed_that_fails_at_any_tool_is_taken_apart,
          interrupted_testbed_is_taken_apart,
          test_that_is_ended_takes_its_testbed_along,
          testbed_whose_builder_was_killed_is_listed_and_can_be_taken_down,
          rank_that_fails_ends_the_job,
          ranks_end_with_their_launcher,
          ranks_of_another_user_end_with_their_launcher,
          without_the_privilege_it_says_so,
          command_lines_that_make_no_sense_are_refused])
