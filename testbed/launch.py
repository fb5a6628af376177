# SPDX-License-Identifier: BSD-3-Clause
"""Processes in the hosts of a testbed: one, one a host, or the ranks of a job; none outlives its launcher."""
import os
import selectors
import signal
import socket
import subprocess
import sys
import time

import namespaces
from network import Failure

GRACE_S = 2.0  # from the first failure until the others are asked to end: they may be about to say why
PATIENCE_S = 2.0  # from asking a process to end until it is killed


def environment_of(testbed, **variables):
    return {**os.environ, "TESTBED_NAME": testbed.id, **variables}


def replace(testbed, host, command):
    """Becomes the command, inside the host. Returns only by an error."""
    host.enter()
    try:
        os.execvpe(command[0], command, environment_of(testbed))
    except OSError as error:
        raise Failure(f"cannot run '{command[0]}': {error.strerror}") from None


class Crowd:
    """Processes that run side by side. Their output comes line by line, with a label before it, but for those that have
    ours; `output` is where their standard output goes."""

    def __init__(self, testbed, output):
        self.testbed = testbed
        self.output = output
        self.processes = []
        self.selector = selectors.DefaultSelector()
        self.first_failed = 0
        self.ended = {}  # when, by process, once wait() has seen it

    def start(self, host, label, command, variables=None, own_output=False, kept_fds=(), user=None):
        def prepare():
            try:
                namespaces.call("prctl", namespaces.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
                host.enter()
                if user:
                    become(user)
            except OSError as error:
                os.write(2, f"testbed: {host.name}: {error}\n".encode())
                os._exit(127)

        pipe = None if own_output else subprocess.PIPE
        try:
            # pylint: disable=subprocess-popen-preexec-fn # one thread, and nothing but system calls
            process = subprocess.Popen(command, env=environment_of(self.testbed, **(variables or {})),
                                       stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, preexec_fn=prepare,
                                       pass_fds=kept_fds)
        except OSError as error:
            raise Failure(f"cannot run '{command[0]}': {error.strerror}") from None
        self.processes.append(process)
        try:  # so that its end is seen at once, not at the next look
            self.selector.register(os.pidfd_open(process.pid), selectors.EVENT_READ)
        except OSError:
            pass
        if not own_output:
            for source, sink in ((process.stdout, self.output), (process.stderr, sys.stderr)):
                os.set_blocking(source.fileno(), False)
                self.selector.register(source, selectors.EVENT_READ, [label, sink.buffer, b""])
        return process

    def wait(self, end_all_at_failure, limit_s=None):
        """Until all have ended; returns the status of the first that failed, or 0."""
        grace_over = None
        deadline = None if limit_s is None else time.monotonic() + limit_s
        waiting = list(self.processes)
        while waiting or self.selector.get_map():
            self._read(0.02 if waiting else 0)
            for process in [process for process in waiting if process.poll() is not None]:
                waiting.remove(process)
                self.ended[process] = time.monotonic()
                if process.returncode != 0 and self.first_failed == 0:
                    self.first_failed = shell_status(process.returncode)
                    grace_over = time.monotonic() + GRACE_S if end_all_at_failure else None
            if grace_over is not None and time.monotonic() > grace_over:
                self.end()
                grace_over = None
                continue
            if deadline is not None and grace_over is None and waiting and time.monotonic() > deadline:
                self.end()
                raise Failure(f"{len(waiting)} of {len(self.processes)} processes have not ended after {limit_s:g} s")
            if not waiting:
                self._drain()
                break
        return self.first_failed

    def end(self):
        """Ends all: asks, then kills."""
        for number, patience_s in ((signal.SIGTERM, PATIENCE_S), (signal.SIGKILL, None)):
            for process in self.processes:
                if process.poll() is None:
                    process.send_signal(number)
                    process.send_signal(signal.SIGCONT)
            deadline = None if patience_s is None else time.monotonic() + patience_s
            for process in self.processes:
                try:
                    process.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
                except subprocess.TimeoutExpired:
                    pass

    def _read(self, patience_s):
        if not self.selector.get_map():
            time.sleep(patience_s)
            return
        for key, _ in self.selector.select(patience_s):
            self._read_one(key)

    def _read_one(self, key):
        if key.data is None:
            self.selector.unregister(key.fd)
            os.close(key.fd)
            return
        label, sink, rest = key.data
        data = key.fileobj.read(65536)
        if data is None:
            return
        *lines, rest = (rest + data).split(b"\n")
        if not data and rest:
            lines, rest = [rest], b""
        key.data[2] = rest
        sink.write(b"".join(label.encode() + b": " + line + b"\n" for line in lines))
        sink.flush()
        if not data:
            self.selector.unregister(key.fileobj)

    def _drain(self):
        """What is in the pipes of processes that have ended. A grandchild may hold a pipe open: not waited for."""
        deadline = time.monotonic() + 0.5
        while self.selector.get_map() and time.monotonic() < deadline:
            self._read(0.05)


def become(user):
    """Gives up all privilege for good: entering a host needs it, what runs there may have to do without."""
    os.setgroups([])
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    # The kernel forgot at this change that we are to die with our parent.
    namespaces.call("prctl", namespaces.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def shell_status(returncode):
    return 128 - returncode if returncode < 0 else returncode


def everywhere(testbed, command):
    """The command on every host at once; the status of the first that failed, or 0."""
    crowd = Crowd(testbed, sys.stdout)
    try:
        for host in testbed.hosts:
            crowd.start(host, host.name, command)
        return crowd.wait(end_all_at_failure=False)
    finally:
        crowd.end()


def listen(host):
    """A socket that listens in the host, for rank 0 to inherit: no other program can take its port."""
    def make():
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind((host.address, 0))
        listener.listen(1024)
        return listener

    return namespaces.run_inside(host.netns, make)


def run_ranks(testbed, rank_count, command, limit_s=None, started=None, user=None):
    """Ranks of one job, rank r on host r modulo the number of hosts. Rank 0 has our output, what others say is prefixed
    and on standard error. The first that fails ends all, a moment later; its status is the result. `started` is called
    once with the processes, in the order of ranks. `user`, an entry of the password database, is whose processes they are
    (ours)."""
    crowd = Crowd(testbed, sys.stderr)
    root = testbed.hosts[0]
    with listen(root) as listener:
        port = listener.getsockname()[1]
        job = {"TUTTI_SIZE": str(rank_count), "TUTTI_ROOT": f"{root.address}:{port}"}
        try:
            for rank in range(rank_count):
                host = testbed.hosts[rank % len(testbed.hosts)]
                own = {**job, "TUTTI_RANK": str(rank)}
                if rank == 0:
                    own["TUTTI_ROOT_FD"] = str(listener.fileno())
                crowd.start(host, f"rank {rank} ({host.name})", command, own, rank == 0,
                            (listener.fileno(),) if rank == 0 else (), user)
            listener.close()
            if started:
                started(crowd.processes)
            return crowd.wait(end_all_at_failure=True, limit_s=limit_s)
        finally:
            crowd.end()
