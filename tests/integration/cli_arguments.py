#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The program's command lines, help, manual, info and doctor, as a user meets them.

    cli_arguments.py PROGRAM
"""
import json
import os
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the source tree stays clean
from cli_support import TUTTI, Skip, carrier, contains, environment, equal, free_ports, isolated, main, tutti

COMMANDS = ("bench", "run", "info", "cast", "catch", "doctor")
ROOT = os.environ.get("MESON_SOURCE_ROOT", os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))

# A command line, and the words of it that the one line on standard error must hold.
REFUSED = [
    ("", "no command given"),
    ("frobnicate", "unknown command 'frobnicate'"),
    ("--frobnicate", "unknown option '--frobnicate'"),
    ("--version now", "unexpected argument 'now'"),
    ("bench", "no collective given"),
    ("bench alltoall", "unknown collective 'alltoall'"),
    ("bench allgather broadcast", "unexpected argument 'broadcast'"),
    ("bench allgather --bogus", "unknown option '--bogus'"),
    ("bench allgather -Z", "unknown option '-Z'"),
    ("bench allgather -n", "option '-n' needs a value"),
    ("bench allgather -n two", "-n 'two'"),
    ("bench allgather -n 18446744073709551616", "-n '18446744073709551616': too large"),
    ("bench allgather -b 16777216T", "-b '16777216T': too large (64 bits cannot hold it)"),
    ("bench allgather -b 12Q", "-b '12Q'"),
    ("bench allgather -b 2M -e 1M", "-b '2M'"),
    ("bench allgather -e 16T", "17592186044416"),
    ("bench allgather --loss 101", "--loss '101'"),
    ("bench allgather --algorithm fast", "--algorithm 'fast'"),
    ("bench allgather --timeout soon", "--timeout 'soon'"),
    ("bench broadcast -n 2 --root 2", "--root '2'"),
    ("bench allgather --root 1", "--root '1'"),
    ("bench barrier -b 8", "--min-bytes '8': a barrier has no data"),
    ("bench gather --type fp32", "--type 'fp32': a gather reduces nothing"),
    ("bench allreduce --type fp12", "--type 'fp12'"),
    ("bench allreduce --operation mean", "--operation 'mean'"),
    ("bench allreduce --operation or", "or: not defined for fp32"),
    ("bench allreduce --type opaque", "sum: not defined for opaque elements"),
    ("bench allreduce --operation user", "--operation 'user': only with --type opaque"),
    ("bench --tune --type fp32", "--type 'fp32': not with --tune"),
    ("bench barrier --tune", "unexpected argument 'barrier': --tune measures what has sizes"),
    ("bench --tune --algorithm tree", "--algorithm 'tree': not with --tune"),
    ("bench --tune --root 1", "--root '1': not with --tune"),
    ("bench broadcast --write x", "--write 'x': only with --tune"),
    ("info -c -t", "-c, -d and -t"),
    ("info -d -c", "-c, -d and -t"),
    ("run", "no number of ranks"),
    ("run -n 2", "no program given"),
    ("run -n zero true", "-n 'zero'"),
    ("run -n 0 true", "-n '0'"),
    ("run -n 99999999999999999999999 true", "-n '99999999999999999999999': too large"),
    ("run --bogus true", "unknown option '--bogus'"),
    ("info everything", "unexpected argument 'everything'"),
    ("info -x", "unknown option '-x'"),
    ("cast", "no file given"),
    ("cast a b --root h:1 --size 2", "unexpected argument 'b'"),
    ("cast a --by pigeon", "--by 'pigeon'"),
    ("cast a --segment 4095", "--segment '4095'"),
    ("cast a --segment 257M", "--segment '257M'"),
    ("cast a --segment much", "--segment 'much'"),
    ("cast a --segment 99999999999T", "--segment '99999999999T': too large (64 bits cannot hold it)"),
    ("cast a --wait 99999999999s", "--wait '99999999999s': too large (64 bits cannot hold it)"),
    ("cast a --root h:1", "--root 'h:1': without --size"),
    ("cast a --size 3", "--size '3': without --root"),
    ("cast a --root h:1 --size 1", "--size '1'"),
    ("catch", "no -o"),
    ("catch -o x y", "unexpected argument 'y'"),
    ("catch -f -o -", "--force: not with -o -"),
    ("catch -o - --no-sync", "--no-sync: not with -o -"),
    ("catch -o x --wait soon", "--wait 'soon'"),
    ("catch -o x --timeout soon", "--timeout 'soon'"),
    ("catch -o x --root host --size 2", "--root 'host': not host:port"),
    ("doctor -n 0", "-n '0'"),
    ("doctor please", "unexpected argument 'please'"),
    ("doctor --pairs", "--pairs: only with --job"),
    ("doctor --limit 5", "--limit: only with --job"),
    ("doctor --job --limit 0", "--limit '0'"),
    ("doctor --job", "--job: no launcher has started this process"),
]


def bad_command_lines_are_one_line_and_exit_status_2():
    for line, words in REFUSED:
        result = tutti(*line.split())
        equal(result.returncode, 2, f"exit status of `tutti {line}`")
        equal(result.stdout, "", f"standard output of `tutti {line}`")
        equal(result.stderr.count("\n"), 1, f"lines of `tutti {line}`: {result.stderr!r}")
        contains(result.stderr, words)


def bad_value_in_the_environment_is_one_line_and_exit_status_2():
    for command in ("bench allgather", "run -n 2 true", "info", "doctor"):
        result = tutti(*command.split(), TUTTI_CHUNK="12Q")
        equal(result.returncode, 2, command)
        equal(result.stderr.count("\n"), 1, f"{command}: {result.stderr!r}")
        contains(result.stderr, "TUTTI_CHUNK=12Q")


def unknown_name_in_the_environment_is_one_line_and_exit_status_2():
    for command in ("bench allgather", "run -n 2 true", "info", "doctor"):
        result = tutti(*command.split(), TUTTI_CHUNKS="1")
        equal(result.returncode, 2, command)
        equal(result.stderr.count("\n"), 1, f"{command}: {result.stderr!r}")
        contains(result.stderr, "TUTTI_CHUNKS: no such setting; did you mean TUTTI_CHUNK?")


def nothing_is_started_by_a_bad_command_line():
    marker = "/proc/self/fd/2"
    result = tutti("run", "-n", "2x", "sh", "-c", f"echo started >{marker}")
    equal("started" in result.stderr, False)


def help_and_version_go_to_standard_output():
    result = tutti("--help")
    equal((result.returncode, result.stderr), (0, ""))
    for command in COMMANDS:
        contains(result.stdout, f"  {command} ")
        own = tutti(command, "--help")
        equal((own.returncode, own.stderr), (0, ""), command)
        contains(own.stdout, f"Usage: tutti {command}")
        equal(tutti(command, "-h").stdout, own.stdout, command)
    version = tutti("--version")
    equal(version.returncode, 0)
    equal(bool(re.fullmatch(r"tutti \d+\.\d+\.\d+\n", version.stdout)), True, version.stdout)


def manual_and_help_list_the_same_options():
    for command in COMMANDS:
        text = tutti(command, "--help").stdout.split("Options:\n")[1]
        in_help = set(re.findall(r"^  (-\w)\b", text, re.M)) | set(re.findall(r"(--[\w-]+)", "\n".join(
            line[:28] for line in text.splitlines())))
        with open(os.path.join(ROOT, "docs", "man", f"tutti-{command}.1"), encoding="utf-8") as file:
            # Sections below the command's own options are of kinds that have options of their own.
            own = file.read().split("\n.Ss ")[0]
        items = [line for line in own.splitlines() if line.startswith(".It Fl ")]
        in_manual = set()
        for line in items:
            for word in re.findall(r"(?:Fl|,) (-?[\w-]+)", line):
                in_manual.add("-" + word)
        equal(in_manual, in_help, f"options of {command}")


def names_in(value):
    """Of all members of JSON; those of counters are the header's."""
    if isinstance(value, list):
        return set().union(*map(names_in, value))
    if not isinstance(value, dict):
        return set()
    return set(value).union(*(names_in(member) for name, member in value.items() if name != "counters"))


def manual_has_the_names_of_json():
    for command in ("info", "info -c", "info -d", "info -t", "doctor", "doctor --job -n 2",
                    f"doctor --listen --wait 1ms --port {free_ports()}",
                    "bench allreduce -e 64", "bench --tune -e 1", "sim trigger -c reduce -s 256 -n 2"):
        result = tutti(*command.split(), "--json")
        name = command.split()[0]
        with open(os.path.join(ROOT, "docs", "man", f"tutti-{name}.1"), encoding="utf-8") as file:
            in_manual = {word.lstrip("-") for word in re.findall(r"[\w-]+", file.read())}
        found = set().union(*(names_in(json.loads(line)) for line in result.stdout.splitlines()))
        equal(found - in_manual, set(), f"what the manual does not have of tutti {command} --json")
        equal(bool(found), name != "info" or result.returncode == 0, f"names of tutti {command} --json")


def info_says_what_this_build_is():
    text = tutti("info")
    equal((text.returncode, text.stderr), (0, ""))
    contains(text.stdout, "127.0.0.1/8")
    found = json.loads(tutti("info", "--json").stdout)
    equal(found["version"] in tutti("--version").stdout, True)
    equal({provider["name"] for provider in found["providers"]}, {"udp", "tcp", "ucx", "verbs", "pmix"})
    loopback = [interface for interface in found["interfaces"] if interface["name"] == "lo"]
    equal([(lo["up"], lo["loopback"], lo["address"]) for lo in loopback][0], (True, True, "127.0.0.1/8"))
    equal({provider["name"]: provider["contract"] for provider in found["providers"]}["verbs"],
          "multicast and point to point", "what an RDMA device is used for")
    ucx = [provider["version"] for provider in found["providers"] if provider["name"] == "ucx"][0]
    equal(bool(re.match(r"UCX \d+\.\d+|not in this build$", ucx)), True, f"whether {ucx!r} is a version of UCX, or none")


def info_shows_settings_as_they_are_now():
    found = json.loads(tutti("info", "-c", "--json", TUTTI_CHUNK="4K", TUTTI_LOSS="0.5").stdout)["settings"]
    settings = {setting["name"]: setting for setting in found}
    equal((settings["CHUNK"]["value"], settings["CHUNK"]["default"]), ("4K", "auto"))
    equal(settings["LOSS"]["value"], "0.5")
    equal(settings["WORKERS"]["value"], settings["WORKERS"]["default"])
    text = tutti("info", "-c", TUTTI_CHUNK="4K").stdout
    contains(text, "TUTTI_CHUNK=4K\n")
    for setting in found:
        contains(text, setting["help"])
        contains(text, f"TUTTI_{setting['name']}=")


def doctor_finds_loopback_well():
    result = tutti("doctor", "--json")
    found = json.loads(result.stdout)
    equal(result.returncode, 0, result.stdout)
    checks = {check["check"]: check for check in found["checks"]}
    equal(checks["multicast"]["verdict"], "ok")
    equal(checks["multicast"]["interface"], "lo (127.0.0.1)")
    equal(checks["MTU"]["verdict"], "ok")
    equal((checks["loopback"]["verdict"], checks["loopback"]["found"]), ("ok", "has 127.0.0.1"))
    # As much as a subgroup's socket asks for unless told otherwise (man tutti, TUTTI_RECEIVE_BUFFER).
    contains(checks["receive buffer"]["found"], f" of {16 << 20} bytes")
    for name in ("receive buffer", "send buffer", "memlock limit", "file descriptors", "multicast memberships", "cores"):
        contains(checks, name)
    text = tutti("doctor")
    equal(text.returncode, 0)
    contains(text.stdout, "verdict: " + found["verdict"])


def doctor_fails_where_something_cannot_work():
    result = tutti("doctor", TUTTI_INTERFACE="nosuch0")
    equal(result.returncode, 1)
    contains(result.stdout, "fail")
    contains(result.stdout, "nosuch0")
    limited = subprocess.run(["bash", "-c", f"ulimit -n 40; exec '{TUTTI}' doctor -n 4 --json"], env=environment(),
                             capture_output=True, text=True, timeout=120, check=False)
    equal(limited.returncode, 1)
    checks = {check["check"]: check for check in json.loads(limited.stdout)["checks"]}
    equal(checks["file descriptors"]["verdict"], "fail")
    contains(checks["file descriptors"]["advice"], "ulimit -n")


def doctor_looks_at_what_the_settings_name():
    with tempfile.TemporaryDirectory() as directory:
        table = os.path.join(directory, "table")
        with open(table, "w", encoding="utf-8") as file:
            file.write("tutti-table 1\nbroadcast multicast 2 0 eager\n")
        missing = os.path.join(directory, "missing")
        for check, words, status, variables in (
                ("table", f"TUTTI_TABLE={table} is a table", 0, {"TUTTI_TABLE": table}),
                ("table", f"TUTTI_TABLE={missing}: No such file or directory", 1, {"TUTTI_TABLE": missing}),
                ("RDMA device", "TUTTI_DEVICE=nosuch0: ", 1, {"TUTTI_DEVICE": "nosuch0"}),
                ("RDMA device", "TUTTI_", 1, {"TUTTI_MCAST": "verbs", "TUTTI_DEVICE": "nosuch0:2"}),
                ("RDMA device", "TUTTI_", 1, {"TUTTI_P2P": "verbs", "TUTTI_DEVICE": "nosuch0:2"})):
            result = tutti("doctor", "--json", **variables)
            equal(result.returncode, status, f"exit status with {variables}: {result.stdout!r}")
            found = [finding for finding in json.loads(result.stdout)["checks"] if finding["check"] == check]
            equal([finding["verdict"] for finding in found], ["fail" if status else "ok"], f"verdict with {variables}")
            contains(found[0]["found"], words)
            equal(found[0]["advice"] != "", bool(status), "advice")


def a_device_is_wanted_where_verbs_is_asked_for():
    if json.loads(tutti("info", "-d", "--json").stdout or '{"devices": [0]}')["devices"]:
        raise Skip("there is an RDMA device, or a build without libibverbs")
    for name in ("MCAST", "P2P"):
        result = tutti("doctor", "--json", **{f"TUTTI_{name}": "verbs"})
        equal(result.returncode, 1)
        found = [finding for finding in json.loads(result.stdout)["checks"] if finding["check"] == "RDMA device"]
        equal([finding["verdict"] for finding in found], ["fail"])
        contains(found[0]["found"], f"TUTTI_{name}=verbs: no RDMA device is active")
        result = tutti("bench", "broadcast", "-n", 1, **{f"TUTTI_{name}": "verbs"})
        equal(result.returncode, 1)
        contains(result.stderr, f"TUTTI_{name}=verbs: no RDMA device is active")


def doctor_looks_at_every_interface_and_knows_when_there_is_none():
    result = isolated('"$TUTTI" doctor --json')
    equal(result.returncode, 1, result.stderr)
    contains(result.stdout, "none is up")
    result = isolated('ip link set lo up; ip link add veth1 type veth peer name veth2; ip link set veth1 mtu 1000 up; '
                      'ip addr add 10.9.0.1/24 dev veth1; ip link set veth2 up\n' + carrier("veth1") +
                      'exec "$TUTTI" doctor --json')
    equal(result.returncode, 0, result.stdout + result.stderr)
    checks = {(check["check"], check["interface"]): check["verdict"] for check in json.loads(result.stdout)["checks"]}
    equal(checks["multicast", "lo (127.0.0.1)"], "ok")
    equal(checks["multicast", "veth1 (10.9.0.1)"], "ok")
    equal(checks["MTU", "veth1 (10.9.0.1)"], "warn")
    result = isolated('ip link add veth1 type veth peer name veth2; ip link set veth1 up; ip link set veth2 up; '
                      'ip addr add 10.9.0.1/24 dev veth1\n' + carrier("veth1") + 'exec "$TUTTI" doctor --json')
    found = [check for check in json.loads(result.stdout)["checks"] if check["check"] == "loopback"]
    equal([check["verdict"] for check in found], ["warn"], result.stdout)
    contains(found[0]["advice"], "ip link set lo up: jobs on one host need lo")
    result = isolated('ip link set lo up; echo 0 >/proc/sys/net/ipv4/igmp_max_memberships; exec "$TUTTI" doctor')
    equal(result.returncode, 1)
    contains(result.stdout, "sysctl -w net.ipv4.igmp_max_memberships=")
    contains(result.stdout, "works on no interface")


def doctor_warns_where_only_loopback_has_an_address():
    up = 'ip link add veth1 type veth peer name veth2; ip link set veth1 up; ip link set veth2 up\n' + carrier("veth1")
    result = isolated("ip link set lo up; " + up + 'exec "$TUTTI" doctor --json')
    equal(result.returncode, 0, result.stdout + result.stderr)
    report = json.loads(result.stdout)
    found = [check for check in report["checks"] if check["check"] == "interfaces"]
    equal((report["verdict"], [check["verdict"] for check in found]), ("warn", ["warn"]), result.stdout)
    contains(found[0]["found"], "veth1")
    contains(found[0]["found"], "only jobs on this one host will work")
    if os.path.exists("/proc/sys/net/ipv6"):
        up += "ip -6 addr add fd00::1/64 dev veth1 nodad\n"
        result = isolated("ip link set lo up; " + up + 'exec "$TUTTI" doctor --json')
        equal(result.returncode, 0, result.stdout + result.stderr)
        found = {(check["check"], check["interface"]): check["found"] for check in json.loads(result.stdout)["checks"]}
        equal([check for check, _ in found if check == "interfaces"], [], "what is said of addresses")
        equal(found["multicast", "veth1 (fd00::1)"], "there is none over IPv6")
        equal([interface for check, interface in found if check == "multicast"], ["lo (127.0.0.1)", "veth1 (fd00::1)"])
        result = isolated("ip link set lo up; " + up + 'exec "$TUTTI" info --json')
        interfaces = {one["address"]: one for one in json.loads(result.stdout)["interfaces"]}
        equal((interfaces["fd00::1/64"]["name"], interfaces["fd00::1/64"]["multicast"]), ("veth1", False))
        result = isolated("ip link set lo up; " + up + 'export TUTTI_INTERFACE=veth1; exec "$TUTTI" doctor')
        equal(result.returncode, 1, result.stdout + result.stderr)
        contains(result.stdout, "an IPv4 address for veth1, on all hosts; without, jobs run over slower")
        up += "ip -6 addr del fd00::1/64 dev veth1\n"
    result = isolated("ip link set lo up; ip addr del 127.0.0.1/8 dev lo; " + up + 'exec "$TUTTI" doctor --json')
    equal(result.returncode, 1, result.stdout + result.stderr)
    advice = {check["check"]: check["advice"] for check in json.loads(result.stdout)["checks"]}
    contains(advice["loopback"], "ip addr add 127.0.0.1/8 dev lo: jobs on one host need lo")
    contains(advice["interfaces"], "ip addr add 127.0.0.1/8 dev lo, or an IPv4 address for ")


def output_that_cannot_be_written_is_a_failure():
    for arguments in (["info"], ["info", "-c"], ["doctor"], ["--help"], ["bench", "--help"]):
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([TUTTI, *arguments], env=environment(), stdout=full, stderr=subprocess.PIPE, text=True,
                                    timeout=120, check=False)
        equal(result.returncode, 1, arguments)
        contains(result.stderr, "standard output: write error")


def run_starts_every_rank_once_and_passes_arguments_on():
    result = tutti("run", "-n", 3, "--", "sh", "-c", 'echo "$TUTTI_RANK/$TUTTI_SIZE $1"', "-", "-n 7 --json")
    equal(result.returncode, 0, result.stderr)
    equal(sorted(result.stdout.splitlines()), [f"{rank}/3 -n 7 --json" for rank in range(3)])


def run_ends_with_the_status_of_the_rank_that_failed():
    result = tutti("run", "-n", 3, "sh", "-c", '[ "$TUTTI_RANK" != 1 ] || exit 7')
    equal(result.returncode, 7)
    killed = tutti("run", "-n", 3, "sh", "-c", '[ "$TUTTI_RANK" != 2 ] || kill -9 $$')
    equal(killed.returncode, 128 + 9)
    contains(killed.stderr, "rank 2")


def run_of_a_program_that_is_not_there_fails():
    result = tutti("run", "-n", 2, "/no/such/program")
    equal(result.returncode == 0, False)
    contains(result.stderr, "/no/such/program")


def run_within_a_job_is_refused():
    result = tutti("run", "-n", 2, "true", TUTTI_SIZE="2", TUTTI_RANK="0")
    equal(result.returncode, 2)
    contains(result.stderr, "TUTTI_SIZE=2")


main([
    bad_command_lines_are_one_line_and_exit_status_2,
    bad_value_in_the_environment_is_one_line_and_exit_status_2,
    unknown_name_in_the_environment_is_one_line_and_exit_status_2,
    nothing_is_started_by_a_bad_command_line,
    help_and_version_go_to_standard_output,
    manual_and_help_list_the_same_options,
    manual_has_the_names_of_json,
    info_says_what_this_build_is,
    info_shows_settings_as_they_are_now,
    doctor_finds_loopback_well,
    doctor_fails_where_something_cannot_work,
    doctor_looks_at_what_the_settings_name,
    a_device_is_wanted_where_verbs_is_asked_for,
    doctor_looks_at_every_interface_and_knows_when_there_is_none,
    doctor_warns_where_only_loopback_has_an_address,
    output_that_cannot_be_written_is_a_failure,
    run_starts_every_rank_once_and_passes_arguments_on,
    run_ends_with_the_status_of_the_rank_that_failed,
    run_of_a_program_that_is_not_there_fails,
    run_within_a_job_is_refused,
])
