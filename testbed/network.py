# SPDX-License-Identifier: BSD-3-Clause
"""One testbed: hosts on a switch, built, found again, and taken apart.

Everything that exists of a testbed carries its id: the network namespaces tutti-ID-switch and tutti-ID-hN, and the
directory DIRECTORY/ID with a description and the host's other namespaces. Links are made inside these namespaces, so
none ever appears outside.
"""
import json
import os
import re
import shutil
import subprocess
import time

import namespaces

DIRECTORY = "/run/tutti-testbed"
ID = re.compile(r"[a-z0-9]{1,16}")
INTERFACE = "tb0"  # of a host; a name that no interface of the machine has
PREFIX = "10.84.7"
HOST_LIMIT = 250
HOST_QUEUE_BYTES = 64 << 20  # a host never drops its own: its sockets have to wait instead
PROGRAMS = ("ip", "bridge", "tc")
PROGRAMS_FOR_LOSS = ("nft", "ethtool")


class Failure(Exception):
    """Something that was asked for and cannot be done, said in one sentence."""


def tool(*command, text=None):
    """Runs a tool of the system to its end; a failure is what it says itself. Not in our process group, so that a
    terminal's interrupt does not hit it while a testbed is taken apart."""
    try:
        result = subprocess.run(command, input=text, stdin=subprocess.DEVNULL if text is None else None,
                                capture_output=True, text=True, process_group=0, timeout=60, check=False)
    except subprocess.TimeoutExpired:
        raise Failure(f"{' '.join(command)}: no end after 60 s") from None
    if result.returncode != 0:
        said = " ".join((result.stderr or result.stdout).split())
        raise Failure(f"{' '.join(command)}: {said or f'status {result.returncode}'}")
    return result.stdout


def batch(program, namespace, lines):
    """Many commands of ip or tc in one namespace; None: in ours, for those that name theirs."""
    inside = ["-n", namespace] if namespace else []
    try:
        tool(program, *inside, "-batch", "-", text="".join(line + "\n" for line in lines))
    except Failure as failure:
        match = re.search(r"Command failed -:(\d+)", str(failure))
        command = f" ({lines[int(match[1]) - 1]})" if match and int(match[1]) <= len(lines) else ""
        raise Failure(f"{failure}{command}") from None


class Host:
    def __init__(self, testbed, index):
        self.index = index
        self.name = f"h{index}"
        self.address = f"{PREFIX}.{index + 1}"
        self.netns = f"tutti-{testbed}-{self.name}"
        self.hosts_path = f"{DIRECTORY}/{testbed}/hosts"
        self.uts_path = f"{DIRECTORY}/{testbed}/{self.name}.uts"
        self.ipc_path = f"{DIRECTORY}/{testbed}/{self.name}.ipc"

    def enter(self):
        namespaces.enter(self.netns, self.uts_path, self.ipc_path, self.hosts_path)


class Testbed:
    """What is described in its directory; the options are those of `up`."""

    def __init__(self, testbed, options, is_up=False):
        self.id = testbed
        self.options = options
        self.is_up = is_up
        self.switch = f"tutti-{testbed}-switch"
        self.hosts = [Host(testbed, index) for index in range(options["hosts"])]

    def describe(self):
        return {"id": self.id, "up": self.is_up, **self.options, "interface": INTERFACE, "switch": self.switch,
                "host_list": [{"name": host.name, "address": host.address, "namespace": host.netns}
                              for host in self.hosts]}

    def find_host(self, text):
        """By name (h3), index (3) or address."""
        for host in self.hosts:
            if text in (host.name, str(host.index), host.address):
                return host
        raise Failure(f"'{text}': testbed {self.id} has the hosts h0 to h{len(self.hosts) - 1}")

    # --- Building -----------------------------------------------------------------------------------------------------

    def build(self):
        """The caller takes apart what there is when this fails."""
        self._write_description()
        with open(f"{DIRECTORY}/{self.id}/hosts", "w", encoding="ascii") as file:
            file.write("127.0.0.1 localhost\n" + "".join(f"{host.address} {host.name}\n" for host in self.hosts))
        batch("ip", None, [f"netns add {name}" for name in (self.switch, *(host.netns for host in self.hosts))])
        for host in self.hosts:
            namespaces.keep_host(host.name, host.uts_path, host.ipc_path)
        for name in (self.switch, *(host.netns for host in self.hosts)):
            namespaces.run_inside(name, quieten)
        self._build_links()
        self._build_rates()
        self._build_loss()
        self._await_ports()
        self.is_up = True
        self._write_description()

    def _build_links(self):
        mtu = self.options["mtu"]
        lines = [f"link add br0 mtu {mtu} type bridge mcast_snooping 0 stp_state 0 forward_delay 0",
                 "link set lo up", "link set br0 up"]
        for host in self.hosts:
            lines += [f"link add {host.name} mtu {mtu} type veth peer name {INTERFACE} mtu {mtu} netns {host.netns}",
                      f"link set {host.name} master br0 up"]
        batch("ip", self.switch, lines)
        if not self.options["multicast"]:
            batch("bridge", self.switch, [f"link set dev {host.name} mcast_flood off" for host in self.hosts])
        for host in self.hosts:
            batch("ip", host.netns, ["link set lo up", f"addr add {host.address}/24 dev {INTERFACE}",
                                     f"link set {INTERFACE} up", f"route add 224.0.0.0/4 dev {INTERFACE}"])
        if self.options["loss_ppm"]:
            # What the bridge drops is a frame, never a train of frames that shares one header.
            for host in self.hosts:
                namespaces.run_inside(host.netns, lambda: tool(
                    "ethtool", "-K", INTERFACE, "tx-udp-segmentation", "off", "tso", "off"))

    def _build_rates(self):
        if self.options["rate_bps"]:
            self._set_rates("add", self.options["rate_bps"], self.options["burst_bytes"], self.hosts)

    def change_rates(self, rate_bps, burst_bytes, hosts=None):
        """Another rate for the links of these hosts (all), each way; what is queued stays. They have one already."""
        self._set_rates("change", rate_bps, burst_bytes, hosts or self.hosts)

    def _set_rates(self, verb, rate_bps, burst_bytes, hosts):
        bucket = f"root tbf rate {rate_bps}bit burst {burst_bytes}b"
        for host in hosts:
            batch("tc", host.netns, [f"qdisc {verb} dev {INTERFACE} {bucket} limit {HOST_QUEUE_BYTES}b"])
        batch("tc", self.switch, [f"qdisc {verb} dev {host.name} {bucket} limit {self.options['buffer_bytes']}b"
                                  for host in hosts])

    def _build_loss(self):
        if not self.options["loss_ppm"]:
            return
        rules = "".join(f"oifname {host.name} numgen random mod 1000000 < {self.options['loss_ppm']} "
                        f'counter drop comment "{host.name}"\n' for host in self.hosts)
        namespaces.run_inside(self.switch, lambda: tool(
            "nft", "-f", "-", text="table bridge testbed { chain forward {\n"
            f"type filter hook forward priority 0; policy accept;\n{rules}}}\n}}\n"))

    def _await_ports(self):
        """A port forwards as soon as the kernel has seen its carrier, which is work done later."""
        deadline = time.monotonic() + 10
        while True:
            ports = json.loads(tool("bridge", "-n", self.switch, "-j", "link"))
            waiting = [port["ifname"] for port in ports if port.get("state") != "forwarding"]
            if len(ports) == len(self.hosts) and not waiting:
                return
            if time.monotonic() > deadline:
                raise Failure(f"ports of the switch do not forward after 10 s: {waiting or ports}")
            time.sleep(0.01)

    def _write_description(self):
        path = f"{DIRECTORY}/{self.id}/testbed.json"
        with open(path + ".new", "w", encoding="ascii") as file:
            json.dump(self.describe(), file)
        os.rename(path + ".new", path)


def quieten():
    """No IPv6, whose hosts talk by themselves: the switch's counters are to show what was sent on purpose."""
    for name in ("all", "default"):
        try:
            with open(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6", "w", encoding="ascii") as file:
                file.write("1")
        except FileNotFoundError:
            pass  # a kernel without it


def netns_names(testbed):
    try:
        names = os.listdir(namespaces.NETNS)
    except FileNotFoundError:
        return []
    return sorted(name for name in names if re.fullmatch(rf"tutti-{testbed}-(switch|h\d+)", name))


def destroy(testbed):
    """Ends what runs inside and removes all that carries this id, whatever there is of it."""
    directory = f"{DIRECTORY}/{testbed}"
    names = netns_names(testbed)
    kept = sorted(f"{directory}/{name}" for name in os.listdir(directory) if name.endswith((".uts", ".ipc")))
    namespaces.end_processes([f"{namespaces.NETNS}/{name}" for name in names] + kept)
    for name in names:
        tool("ip", "netns", "delete", name)
    for path in kept:
        namespaces.release(path)
    shutil.rmtree(directory)
    try:
        os.rmdir(DIRECTORY)
    except OSError:
        pass  # others live there


def claim(testbed):
    """The directory of a new testbed, which is what makes its id taken."""
    for _ in range(100):
        os.makedirs(DIRECTORY, mode=0o755, exist_ok=True)
        try:
            os.mkdir(f"{DIRECTORY}/{testbed}")
            return
        except FileExistsError:
            raise Failure(f"there is a testbed '{testbed}' already") from None
        except FileNotFoundError:
            time.sleep(0.01)  # another one, the last, was just taken away with the directory around it
    raise Failure(f"{DIRECTORY} disappears all the time")


def names():
    try:
        return sorted(name for name in os.listdir(DIRECTORY) if ID.fullmatch(name))
    except FileNotFoundError:
        return []


def load(testbed):
    try:
        with open(f"{DIRECTORY}/{testbed}/testbed.json", encoding="ascii") as file:
            description = json.load(file)
    except (FileNotFoundError, NotADirectoryError):
        raise Failure(f"there is no testbed '{testbed}'") from None
    options = {name: description[name] for name in
               ("hosts", "mtu", "rate_bps", "burst_bytes", "buffer_bytes", "loss_ppm", "multicast")}
    return Testbed(testbed, options, description["up"])


def find_name(name):
    """The one that is given; the environment's TESTBED_NAME; or the only one there is."""
    name = name or os.environ.get("TESTBED_NAME")
    if name is None:
        there = names()
        if len(there) != 1:
            raise Failure("there is no testbed: begin with `testbed up`" if not there else
                          f"there are several testbeds: --name {' | '.join(there)}")
        name = there[0]
    return name


def find(name):
    testbed = load(find_name(name))
    if not testbed.is_up:
        raise Failure(f"testbed '{testbed.id}' is not complete: `testbed down --name {testbed.id}` takes it apart")
    return testbed
