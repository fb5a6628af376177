#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Ranks that other launchers start: Open MPI's mpirun (PMIx) on this host and across the hosts of a testbed, torchrun's
variables, Slurm's srun. A launcher that is not installed, or a privilege that is missing, is skipped visibly.
"""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading

from cli_support import TUTTI, Skip, contains, environment, equal, free_ports, main, tutti

SOURCE = os.environ.get("MESON_SOURCE_ROOT", os.getcwd())
TESTBED = os.path.join(SOURCE, "testbed", "testbed")
LIMIT_S = 180
SMALL = ("-b", 1000, "-e", 100000, "-f", 10, "-i", 3, "-w", 1)
# Of the shell or the batch job that runs the tests; they would make their launchers' processes ranks of that.
FOREIGN = ("PMIX_", "PMI_", "OMPI_", "SLURM_", "TORCHELASTIC_")
TORCH = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK", "LOCAL_WORLD_SIZE")


def outside(**variables):
    """The environment of a launcher: that of the other tests, without traces of another launcher."""
    return {name: value for name, value in environment(**variables).items()
            if not name.startswith(FOREIGN) and name not in TORCH or name in variables}


def run(command, **variables):
    return subprocess.run([str(word) for word in command], env=outside(**variables), stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)


def has_pmix():
    build = json.loads(tutti("info", "--json").stdout)
    versions = [provider["version"] for provider in build["providers"] if provider["name"] == "pmix"]
    equal(len(versions), 1, "what info says about PMIx")
    return versions[0].startswith("PMIx ")


def mpirun():
    """Open MPI's, with the options that tests need; the transports of its own are not used by tutti."""
    for name in ("mpirun.openmpi", "mpirun"):
        path = shutil.which(name)
        if path and "Open MPI" in subprocess.run([path, "--version"], capture_output=True, text=True,
                                                 check=False).stdout:
            return [path, "--allow-run-as-root", "--oversubscribe"]
    raise Skip("Open MPI's mpirun is not installed")


def pmix_mpirun():
    command = mpirun()
    if not has_pmix():
        raise Skip("this build has no PMIx")
    return command


def rows_of(result, ranks, count=3):
    """The rows of one job, of which rank 0 alone printed."""
    equal(result.returncode, 0, f"exit status, with {result.stderr!r}")
    rows = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    equal(len(rows), count, f"rows in {result.stdout!r}")
    for row in rows:
        equal((row["ranks"], row["wrong"]), (ranks, 0), "ranks and wrong bytes")
    return rows


class Hosts:
    """A testbed of some hosts, which is gone at the end."""

    def __init__(self, count):
        self.count = count
        self.name = f"lt{os.getpid()}"

    def __enter__(self):
        up = subprocess.run([TESTBED, "up", "--name", self.name, "--hosts", str(self.count)], capture_output=True,
                            text=True, timeout=LIMIT_S, check=False)
        if up.returncode == 77:
            raise Skip(up.stderr.strip())
        equal(up.returncode, 0, f"testbed up, which said {up.stderr!r}")
        return self

    def __exit__(self, *ignored):
        subprocess.run([TESTBED, "down", "--name", self.name], capture_output=True, timeout=LIMIT_S, check=True)

    def names(self):
        return [f"h{i}" for i in range(self.count)]

    def on(self, host, command, **variables):
        return run([TESTBED, "exec", "--name", self.name, host, "--", *command],
                   **{"TUTTI_INTERFACE": "auto", **variables})

    def mpirun(self, hosts, *command, **variables):
        exports = [word for name in variables for word in ("-x", name)]
        return self.on("h0", [*pmix_mpirun(), "--mca", "plm_rsh_agent", os.path.join(SOURCE, "testbed", "agent"),
                              "--mca", "oob_tcp_if_include", "tb0", "--host", ",".join(hosts), *exports, *command],
                       **variables)


# --- mpirun on this host ----------------------------------------------------------------------------------------------

def mpirun_starts_the_ranks_of_a_broadcast():
    rows = rows_of(run([*pmix_mpirun(), "-n", 4, TUTTI, "bench", "broadcast", *SMALL, "--json"]), 4)
    equal({(row["interface"].split()[0], row["local_ranks"]) for row in rows}, {("lo", 4)}, "interface, local ranks")


def mpirun_of_one_is_a_job_of_one():
    rows_of(run([*pmix_mpirun(), "-n", 1, TUTTI, "bench", "broadcast", *SMALL, "--json"]), 1)


def number_of_ranks_that_mpirun_contradicts_is_an_error_with_both():
    result = run([*pmix_mpirun(), "-n", 3, TUTTI, "bench", "allgather", "-n", 5])
    equal(result.returncode, 2, "exit status")
    contains(result.stderr, "-n '5'")
    contains(result.stderr, "PMIx, 3 ranks")
    equal(result.stdout, "", "output")


def ranks_start_no_jobs():
    result = run([*pmix_mpirun(), "-n", 2, TUTTI, "run", "-n", 2, "true"])
    equal(result.returncode, 2, "exit status")
    contains(result.stderr, "a rank of a job already")


def settings_win_over_mpirun():
    script = 'TUTTI_RANK=$OMPI_COMM_WORLD_RANK TUTTI_SIZE=2 TUTTI_ROOT="$1" exec "$2" bench broadcast -b 8 -e 8 --json'
    rows_of(run([*mpirun(), "-n", 2, "sh", "-c", script, "-", f"127.0.0.1:{free_ports()}", TUTTI]), 2, 1)


def without_pmix_an_address_is_enough_and_nothing_is_an_error():
    """PMIX_NAMESPACE is taken away: as in a build without PMIx, or below an mpirun of another kind."""
    command = ["env", "-u", "PMIX_NAMESPACE", TUTTI, "bench", "allgather", *SMALL, "--json"]
    result = run([*mpirun(), "-n", 3, *command])
    equal((result.returncode, result.stdout), (2, ""), "exit status and output")
    contains(result.stderr, "OMPI_COMM_WORLD_SIZE=3")
    contains(result.stderr, "TUTTI_ROOT=host:port")
    root = f"127.0.0.1:{free_ports()}"
    rows_of(run([*mpirun(), "-x", "TUTTI_ROOT", "-n", 3, *command], TUTTI_ROOT=root), 3)


class Program:
    """A C program of this repository, compiled against the shared library; it is gone at the end."""

    def __init__(self, source, compiler, *options):
        self.source, self.options = os.path.join(SOURCE, source), options
        self.compiler = shutil.which(compiler)
        if self.compiler is None:
            raise Skip(f"{compiler} is not installed")
        self.build = os.path.dirname(TUTTI)
        if "sanitize=none" not in tutti("info").stdout:
            raise Skip("the library has a sanitizer, which a program that is compiled without it cannot load")

    def __enter__(self):
        # pylint: disable=consider-using-with
        self.directory = tempfile.TemporaryDirectory()
        binary = os.path.join(self.directory.name, "program")
        made = run([self.compiler, "-std=c11", "-D_GNU_SOURCE", *self.options, "-I", os.path.join(SOURCE, "include"),
                    self.source, "-o", binary, "-L", self.build, "-ltutti", f"-Wl,-rpath,{self.build}"])
        if made.returncode != 0 and "mpi.h" in made.stderr:
            raise Skip("MPI's headers are not installed")
        equal(made.returncode, 0, f"compiling {self.source}, which said {made.stderr!r}")
        return binary

    def __exit__(self, *ignored):
        self.directory.cleanup()


def examples_run_under_mpirun_unchanged():
    for name in ("allgather", "broadcast"):
        with Program(f"examples/{name}.c", "cc") as binary:
            result = run([*pmix_mpirun(), "-n", 3, binary])
            equal(result.returncode, 0, f"exit status of {name}, with {result.stderr!r}")
            # On its own, one rank would say the same three times.
            if result.stdout == 3 * run([binary]).stdout:
                raise AssertionError(f"{name}: three jobs of one: {result.stdout!r}")


def contexts_that_follow_one_another_find_their_job():
    with Program("tests/integration/launched.c", "cc") as binary:
        result = run([*pmix_mpirun(), "-n", 3, binary])
        equal((result.returncode, result.stdout), (0, "3 rounds of 3 ranks\n"), f"what came, with {result.stderr!r}")
        equal(run([binary]).stdout, "3 rounds of 1 ranks\n", "alone")


def programs_that_use_mpi_share_its_launcher():
    with Program("tests/integration/launched.c", "mpicc.openmpi", "-DWITH_MPI") as binary:
        result = run([*pmix_mpirun(), "--mca", "btl", "self,tcp", "-n", 3, binary])
        equal((result.returncode, result.stdout), (0, "3 rounds of 3 ranks\n"), f"what came, with {result.stderr!r}")


# --- mpirun across hosts ----------------------------------------------------------------------------------------------

def mpirun_across_hosts_measures_an_allgather():
    with Hosts(4) as hosts:
        rows = rows_of(hosts.mpirun(hosts.names(), "-n", 4, TUTTI, "bench", "allgather", *SMALL, "--json"), 4)
        for row in rows:
            equal((row["multicast"], row["interface"].split()[0], row["local_ranks"]), (True, "tb0", 1),
                  "multicast, interface and local ranks")


def several_ranks_a_host_count_as_local():
    with Hosts(2) as hosts:
        rows = rows_of(hosts.mpirun(["h0:2", "h1:2"], "-n", 4, TUTTI, "bench", "broadcast", *SMALL, "--json"), 4)
        equal({(row["interface"].split()[0], row["local_ranks"]) for row in rows}, {("tb0", 2)}, "where they are")


def programs_that_use_mpi_share_its_launcher_across_hosts():
    with Program("tests/integration/launched.c", "mpicc.openmpi", "-DWITH_MPI") as binary, Hosts(3) as hosts:
        result = hosts.mpirun(["h0:2", "h1:2", "h2:1"], "--mca", "btl", "self,tcp", "-n", 5, binary)
        equal((result.returncode, result.stdout), (0, "3 rounds of 5 ranks\n"), f"what came, with {result.stderr!r}")


def ranks_that_never_come_are_named():
    absent = f'if [ "$PMIX_RANK" = 2 ]; then exec sleep 12; else exec {TUTTI} bench broadcast -b 8 -e 8; fi'
    with Hosts(3) as hosts:
        result = hosts.mpirun(hosts.names(), "-n", 3, "sh", "-c", absent, TUTTI_BOOTSTRAP_TIMEOUT="4s")
        contains(result.stderr, "rank 0 waited 4 s: rank 2 never came")
        equal(result.returncode != 0, True, "that mpirun failed")


def a_rank_0_that_never_comes_is_named():
    absent = f'if [ "$PMIX_RANK" = 0 ]; then exec sleep 12; else exec {TUTTI} bench broadcast -b 8 -e 8; fi'
    with Hosts(2) as hosts:
        result = hosts.mpirun(hosts.names(), "-n", 2, "sh", "-c", absent, TUTTI_BOOTSTRAP_TIMEOUT="4s")
        contains(result.stderr, "rank 0 has not published its address through PMIx")
        equal(result.returncode != 0, True, "that mpirun failed")


# --- torchrun ---------------------------------------------------------------------------------------------------------

def torch_ranks(size, port, *arguments, **variables):
    """Starts the ranks as torchrun does; returns their results."""
    results = [None] * size

    def start(rank):
        results[rank] = run([TUTTI, "bench", *arguments], RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank),
                            LOCAL_WORLD_SIZE=str(size), MASTER_ADDR="localhost", MASTER_PORT=str(port),
                            TORCHELASTIC_RUN_ID="none", **variables)

    threads = [threading.Thread(target=start, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def torchruns_variables_make_a_job_beside_its_store():
    port = free_ports((0, 1000))
    with socket.socket() as store:  # where torchrun's own store listens
        store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        store.bind(("127.0.0.1", port))
        store.listen()
        results = torch_ranks(4, port, "allgather", *SMALL, "--json")
        rows_of(results[0], 4)
        for result in results[1:]:
            equal((result.returncode, result.stdout), (0, ""), f"another rank, which said {result.stderr!r}")
        store.setblocking(False)
        try:
            store.accept()
            raise AssertionError("somebody came to torchrun's store")
        except BlockingIOError:
            pass


def torchruns_port_that_is_taken_is_named_and_can_be_chosen():
    port = free_ports((0, 1000))
    with socket.socket() as other:
        other.bind(("127.0.0.1", port + 1000))
        other.listen()
        results = torch_ranks(2, port, "broadcast", "-b", 8, "-e", 8, TUTTI_BOOTSTRAP_TIMEOUT="1s")
        equal([result.returncode != 0 for result in results], [True, True], "failures")
        contains(results[0].stderr, f"port {port + 1000}")
        contains(results[0].stderr, "TUTTI_ROOT")
        root = f"127.0.0.1:{free_ports()}"
        rows_of(torch_ranks(2, port, "broadcast", "-b", 8, "-e", 8, "--json", TUTTI_ROOT=root)[0], 2, 1)


def real_torchrun_makes_a_job():
    path = shutil.which("torchrun")
    if path is None:
        raise Skip("torchrun is not installed")
    rows_of(run([path, "--nproc-per-node", 3, "--no-python", TUTTI, "bench", "allgather", *SMALL, "--json"]), 3)


# --- srun -------------------------------------------------------------------------------------------------------------

def srun(*arguments):
    """Runs srun beside a Slurm of one node, made for it."""
    for name in ("srun", "slurmctld", "slurmd", "munged", "ip"):
        if shutil.which(name) is None:
            raise Skip(f"{name} is not installed")
    if subprocess.run(["unshare", "-n", "-u", "-m", "-p", "--fork", "true"], capture_output=True,
                      check=False).returncode != 0:
        raise Skip("no privilege to make namespaces")
    with tempfile.TemporaryDirectory() as directory:
        result = run([os.path.join(SOURCE, "tests", "integration", "with_slurm.sh"), directory, "srun", *arguments],
                     TUTTI_INTERFACE="auto")
    if result.returncode == 77:
        raise Skip(f"Slurm does not start here: {result.stderr.strip()!r}")
    return result


def srun_starts_the_ranks_of_an_allgather():
    if not has_pmix():
        raise Skip("this build has no PMIx")
    rows_of(srun("--mpi=pmix", "--overcommit", "-n", 4, TUTTI, "bench", "allgather", *SMALL, "--json"), 4)


def srun_without_pmix_is_an_error_that_says_what_to_do():
    result = srun("--mpi=none", "--overcommit", "-n", 3, TUTTI, "bench", "allgather", *SMALL)
    equal((result.returncode, result.stdout), (2, ""), f"exit status and output, with {result.stderr!r}")
    contains(result.stderr, "SLURM_STEP_NUM_TASKS=3")
    contains(result.stderr, "srun --mpi=pmix")


if __name__ == "__main__":
    main([mpirun_starts_the_ranks_of_a_broadcast,
          mpirun_of_one_is_a_job_of_one,
          number_of_ranks_that_mpirun_contradicts_is_an_error_with_both,
          ranks_start_no_jobs,
          settings_win_over_mpirun,
          without_pmix_an_address_is_enough_and_nothing_is_an_error,
          examples_run_under_mpirun_unchanged,
          contexts_that_follow_one_another_find_their_job,
          programs_that_use_mpi_share_its_launcher,
          programs_that_use_mpi_share_its_launcher_across_hosts,
          mpirun_across_hosts_measures_an_allgather,
          several_ranks_a_host_count_as_local,
          ranks_that_never_come_are_named,
          a_rank_0_that_never_comes_is_named,
          torchruns_variables_make_a_job_beside_its_store,
          torchruns_port_that_is_taken_is_named_and_can_be_chosen,
          real_torchrun_makes_a_job,
          srun_starts_the_ranks_of_an_allgather,
          srun_without_pmix_is_an_error_that_says_what_to_do])
