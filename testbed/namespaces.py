# SPDX-License-Identifier: BSD-3-Clause
"""Namespaces: what a host of the testbed consists of, how a process gets into it, and which processes are inside.

A host is a network namespace (made by `ip netns`, so that its tools find it), and a UTS and an IPC namespace kept alive
by a bind mount: a host name of its own, and no shared memory that would go around the network.
"""
import ctypes
import os
import signal
import time

CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWNET = 0x00020000, 0x04000000, 0x08000000, 0x40000000
MS_BIND, MS_REC, MS_SLAVE = 0x1000, 0x4000, 0x80000
MNT_DETACH = 2
PR_SET_PDEATHSIG = 1
CAP_NET_ADMIN, CAP_SYS_ADMIN = 12, 21
NETNS = "/run/netns"

libc = ctypes.CDLL(None, use_errno=True)


def call(name, *arguments):
    """A function of the C library that says -1 on an error; text is given as str, NULL as None."""
    encoded = [argument.encode() if isinstance(argument, str) else argument for argument in arguments]
    if getattr(libc, name)(*encoded) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}{arguments}: {os.strerror(number)}")


def lacks_privilege():
    """Why this process cannot make namespaces, or None if it can."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        effective = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))
    for name, bit in (("CAP_SYS_ADMIN", CAP_SYS_ADMIN), ("CAP_NET_ADMIN", CAP_NET_ADMIN)):
        if not effective >> bit & 1:
            return f"{name} is missing (run it as root)"
    pid = os.fork()
    if pid == 0:
        try:
            call("unshare", CLONE_NEWNET | CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 1)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return None if status == 0 else f"the kernel refuses a network namespace: {os.strerror(abs(status))}"


def keep_host(host_name, uts_path, ipc_path):
    """Makes a UTS and an IPC namespace and keeps them at two files. They are the caller's to release."""
    go_read, go_write = os.pipe()
    ready_read, ready_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(go_write)
            call("prctl", PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            call("unshare", CLONE_NEWUTS | CLONE_NEWIPC)
            call("sethostname", host_name, len(host_name))
            os.write(ready_write, b"y")
            os.read(go_read, 1)
            status = 0
        finally:
            os._exit(status)
    os.close(ready_write)
    os.close(go_read)
    try:
        if os.read(ready_read, 1) != b"y":
            raise OSError(f"{host_name}: no UTS and IPC namespace")
        for kind, path in (("uts", uts_path), ("ipc", ipc_path)):
            with open(path, "w", encoding="ascii"):
                pass
            call("mount", f"/proc/{pid}/ns/{kind}", path, None, MS_BIND, None)
    finally:
        os.close(ready_read)
        os.close(go_write)
        os.waitpid(pid, 0)


def release(path):
    """The opposite, for one file; one that is not there, or not mounted, is no error."""
    try:
        call("umount2", path, MNT_DETACH)
    except OSError:
        pass
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def join(path, kind):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        call("setns", fd, kind)
    finally:
        os.close(fd)


def enter(netns, uts_path, ipc_path, hosts_path):
    """Moves this process, which has one thread, into a host for good, with the host's /sys and /etc/hosts."""
    join(f"{NETNS}/{netns}", CLONE_NEWNET)
    join(uts_path, CLONE_NEWUTS)
    join(ipc_path, CLONE_NEWIPC)
    call("unshare", CLONE_NEWNS)
    call("mount", "none", "/", None, MS_SLAVE | MS_REC, None)  # what is unmounted outside goes here too
    try:
        call("umount2", "/sys", MNT_DETACH)
    except OSError:
        pass  # nothing was mounted there
    call("mount", "sysfs", "/sys", "sysfs", 0, None)
    call("mount", hosts_path, "/etc/hosts", None, MS_BIND, None)


def run_inside(netns, function):
    """Calls a function in a network namespace and returns its result; this process is back home then."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        join(f"{NETNS}/{netns}", CLONE_NEWNET)
        try:
            return function()
        finally:
            call("setns", home, CLONE_NEWNET)
    finally:
        os.close(home)


def processes_inside(paths):
    """Pids of all processes of which a namespace is one of those that these files keep."""
    wanted = set()
    for path in paths:
        try:
            status = os.stat(path)
        except FileNotFoundError:
            continue
        wanted.add((status.st_dev, status.st_ino))
    pids = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) == os.getpid():
            continue
        for kind in ("net", "uts", "ipc"):
            try:
                status = os.stat(f"/proc/{name}/ns/{kind}")
            except OSError:
                continue
            if (status.st_dev, status.st_ino) in wanted:
                pids.append(int(name))
                break
    return pids


def end_processes(paths, patience_s=2.0, limit_s=10.0):
    """Ends every process inside: asks, then kills; also those that start while it does. Raises if one survives."""
    begun = time.monotonic()
    while pids := processes_inside(paths):
        elapsed = time.monotonic() - begun
        if elapsed > limit_s:
            raise TimeoutError(f"processes {pids} are still inside after {limit_s:.0f} s")
        for pid in pids:
            try:
                os.kill(pid, signal.SIGTERM if elapsed < patience_s else signal.SIGKILL)
                os.kill(pid, signal.SIGCONT)  # a stopped one does not see the other
            except ProcessLookupError:
                pass
        time.sleep(0.02 if elapsed < 0.1 else 0.1)
