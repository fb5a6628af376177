# SPDX-License-Identifier: BSD-3-Clause
"""Other traffic: one TCP flow (iperf3) from a host of a testbed to another one, and what of it arrived."""
import json
import signal
import subprocess
import time

import namespaces
from network import Failure

PROGRAM = "iperf3"
PERIOD_S = 2  # what arrives is told of periods of so many seconds
LONGEST_S = 86400
PATIENCE_S = 10.0
LEAD_S = 1.0  # so long before the first collective: it is as fast then as it will get


class Stream:
    """A flow for as long as the block under `with` runs; `periods_bps` of it are known afterwards."""

    def __init__(self, source, target, congestion=None):
        self.source, self.target = source, target
        self.control = ["--congestion", congestion] if congestion else []
        self.processes = []
        self.periods_bps = []

    def _start(self, host, *arguments):
        # In the host's network only: what ends the ranks of a launch ends whatever is in their hosts.
        process = subprocess.Popen(["ip", "netns", "exec", host.netns, PROGRAM, *arguments], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                   preexec_fn=lambda: namespaces.call("prctl", namespaces.PR_SET_PDEATHSIG, signal.SIGKILL,
                                                                      0, 0, 0))
        self.processes.append(process)
        return process

    def __enter__(self):
        try:
            server = self._start(self.target, "--server", "--one-off", "--json", "--interval", str(PERIOD_S))
            until = time.monotonic() + PATIENCE_S
            while True:
                client = self._start(self.source, "--client", self.target.address, "--time", str(LONGEST_S),
                                     "--interval", "0", *self.control)
                time.sleep(LEAD_S)
                if client.poll() is None:
                    return self
                said = client.communicate()[0].strip()
                if server.poll() is not None or time.monotonic() > until:  # it does not listen yet, or never will
                    raise Failure(f"{PROGRAM} from {self.source.name} to {self.target.name}: {said}")
        except BaseException:
            self._kill()
            raise

    def __exit__(self, kind, *_):
        server, client = self.processes[0], self.processes[-1]
        try:
            if kind is None:
                if client.poll() is not None:
                    raise Failure(f"{PROGRAM} from {self.source.name} to {self.target.name} ended early: "
                                  f"{client.communicate()[0].strip()}")
                client.terminate()
                self.periods_bps = periods_of(server.communicate(timeout=PATIENCE_S)[0])
        except subprocess.TimeoutExpired:
            raise Failure(f"{PROGRAM} on {self.target.name}: no end after {PATIENCE_S:g} s") from None
        finally:
            self._kill()

    def _kill(self):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()


def periods_of(report):
    """What arrived in each whole period, in bits a second, as the receiving iperf3 tells it."""
    try:
        sums = [interval["sum"] for interval in json.loads(report)["intervals"]]
    except (ValueError, KeyError, TypeError):
        raise Failure(f"{PROGRAM}: not a report: {report[:200]!r}") from None
    # The last one that it had told when the flow was ended is there twice.
    whole = {period["start"]: period["bits_per_second"] for period in sums if period["seconds"] > PERIOD_S / 2}
    return list(whole.values())
