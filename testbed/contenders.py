# SPDX-License-Identifier: BSD-3-Clause
"""Who is compared, and how each is started at its best over the hosts of a testbed.

A contender is a command that measures one collective over a range of sizes and prints one JSON object a line, with the
names that `tutti bench --json` uses. It runs in a process group of its own, under a time limit, and nothing of it is
left when `measure` returns.
"""
import json
import os
import shutil
import signal
import subprocess
import sys

import namespaces
import switch
from network import INTERFACE, Failure

HERE = os.path.dirname(os.path.realpath(__file__))
TESTBED = os.path.join(HERE, "testbed")
AGENT = os.path.join(HERE, "agent")
KNOWN = ("tutti", "openmpi", "mpich", "mpich-polls")


class Launch:
    """One start of a contender: a collective, sizes from `low` to `high` by powers of two; of a barrier both are 0.
    `reduction` is the type and the operation, where it has them."""

    def __init__(self, collective, low, high, iterations, warmup, reduction=None):
        self.collective, self.low, self.high = collective, low, high
        self.iterations, self.warmup = iterations, warmup
        self.reduction = reduction

    def sizes(self):
        count = self.high.bit_length() - self.low.bit_length() + 1
        return [self.low << index for index in range(count)]

    def bench_arguments(self):
        sizes = ["-b", str(self.low), "-e", str(self.high)] if self.high else []
        reduction = ["--type", self.reduction[0], "--operation", self.reduction[1]] if self.reduction else []
        return [self.collective, *sizes, *reduction, "-i", str(self.iterations), "-w", str(self.warmup)]


class Contender:
    def __init__(self, name, testbed, programs):
        self.name = name
        self.testbed = testbed
        self.programs = programs
        self.outnumbers = len(testbed.hosts) > (os.cpu_count() or 1)

    def missing(self):
        """What is not there that this contender needs, or None."""
        needed = {"tutti": (self.programs["tutti"],), "openmpi": ("mpirun.openmpi", self.programs["openmpi"]),
                  "mpich": ("mpirun.mpich", self.programs["mpich"], self.programs["mpich_wait"]),
                  "mpich-polls": ("mpirun.mpich", self.programs["mpich"])}[self.name]
        absent = [program for program in needed if shutil.which(program) is None and not os.path.exists(program)]
        return ", ".join(absent) or None

    def how(self):
        """What has been done for it, for the head of the table."""
        if self.name == "openmpi":
            return "btl tcp, mpi_yield_when_idle" if self.outnumbers else "btl tcp, polls"
        if self.name == "mpich":
            return "UCX over tcp, waits instead of polling (mpich_wait)" if self.outnumbers else "UCX over tcp, polls"
        if self.name == "mpich-polls":
            return "UCX over tcp, polls: as Debian's package is"
        return "TUTTI_ variables: " + (" ".join(f"{name}={value}" for name, value in sorted(os.environ.items())
                                                if name.startswith("TUTTI_")) or "none")

    def command(self, launch):
        hosts = [host.name for host in self.testbed.hosts]
        inside = [sys.executable, TESTBED, "exec", "--name", self.testbed.id, hosts[0], "--"]
        count = str(len(hosts))
        if self.name == "tutti":
            return [sys.executable, TESTBED, "run", "--name", self.testbed.id, "--", self.programs["tutti"], "bench",
                    *launch.bench_arguments(), "--json"]
        if self.name == "openmpi":
            parameters = {"plm_rsh_agent": AGENT, "pml": "ob1", "btl": "tcp,self", "btl_tcp_if_include": INTERFACE,
                          "oob_tcp_if_include": INTERFACE, "mpi_yield_when_idle": str(int(self.outnumbers))}
            return [*inside, "mpirun.openmpi", "--allow-run-as-root", "--leave-session-attached", "--oversubscribe",
                    "--bind-to", "none",
                    *(word for name, value in parameters.items() for word in ("--mca", name, value)),
                    "--host", ",".join(hosts), "-n", count, self.programs["openmpi"], *launch.bench_arguments()]
        waits = [f"LD_PRELOAD={self.programs['mpich_wait']}"] if self.name == "mpich" and self.outnumbers else []
        return [*inside, "mpirun.mpich", "-launcher", "ssh", "-launcher-exec", AGENT, "-iface", INTERFACE,
                "-hosts", ",".join(hosts), "-n", count, "-ppn", "1",
                "env", "UCX_TLS=tcp,self", f"UCX_NET_DEVICES={INTERFACE}", *waits,
                self.programs["mpich"], *launch.bench_arguments()]

    def measure(self, launch, limit_s, scratch):
        """Rows by size, as it was asked for: reductions round it down to whole elements. Each with what passed the
        switch's ports meanwhile if it is the launch's only one."""
        before = switch.read_absolute(self.testbed)
        output = output_of(self.testbed, self.name, self.command(launch), limit_s, scratch)
        passed = switch.total(switch.difference(before, switch.read_absolute(self.testbed)))
        rows = []
        for line in output.splitlines():
            row = json.loads(line) if line.startswith("{") else None
            if row is None:
                continue
            if "slowest" not in row["time_us"] or "cpu_s" not in row:
                raise Failure(f"{self.name}: its benchmark does not report time_us.slowest and cpu_s: it is too old")
            if row["wrong"]:
                raise Failure(f"{self.name}: {row['wrong']} wrong bytes at size {row['size_bytes']}")
            if launch.low == launch.high:
                row["switch"] = passed
            rows.append(row)
        sizes = launch.sizes()
        if len(rows) != len(sizes):
            raise Failure(f"{self.name}: {len(rows)} sizes instead of {len(sizes)}")
        return dict(zip(sizes, rows, strict=True))


def output_of(testbed, who, command, limit_s, scratch):
    """The command's standard output. What it has started is gone then, in the hosts too."""
    with open(os.path.join(scratch, "errors"), "w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors, text=True,
                                   process_group=0, env={**os.environ, "TMPDIR": scratch})
        try:
            output, _ = process.communicate(timeout=limit_s)
            why = None if process.returncode == 0 else f"exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            why = f"no end after {limit_s} s"
        finally:
            end(testbed, process)
        if why is None:
            return output
        errors.seek(0)
        said = errors.read().strip().splitlines()[-6:]
    raise Failure(f"{who}: {' '.join(command[2:])}: {why}" + "".join(f"\n    {line}" for line in said))


def end(testbed, process):
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=3)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    namespaces.end_processes([host.ipc_path for host in testbed.hosts])
