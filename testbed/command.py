# SPDX-License-Identifier: BSD-3-Clause
"""What the programs of the testbed share: values on their command lines, what they need, and how they end.

Exit status: 0; 1 what could not be done, 2 a command line that makes no sense, 77 the privilege or a program is missing;
128 and the signal's number after a signal, when all that was begun has been taken apart.
"""
import argparse
import contextlib
import pwd
import re
import shutil
import signal
import sys

import namespaces
import network

STATUS_FAILED, STATUS_SKIP = 1, 77
SIGNALS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
RATE_UNITS = {"": 1, "k": 10 ** 3, "m": 10 ** 6, "g": 10 ** 9}
SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class Interrupted(BaseException):
    """A signal that asks for the end."""

    def __init__(self, number):
        super().__init__(number)
        self.number = number


def parse_rate(text):
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)([kmg]?)bit", text.lower())
    rate = int(float(match[1]) * RATE_UNITS[match[2]]) if match else 0
    if rate < 8000:
        raise argparse.ArgumentTypeError(f"'{text}': not a rate of at least 8kbit (500mbit, 2.5gbit)")
    return rate


def parse_size(text):
    match = re.fullmatch(r"(\d{1,12})([kmg]?)(?:i?b)?", text.lower())
    if not match or int(match[1]) == 0:
        raise argparse.ArgumentTypeError(f"'{text}': not a number of bytes above 0 (64K, 1M)")
    return int(match[1]) * SIZE_UNITS[match[2]]


def parse_loss(text):
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)%?", text)
    ppm = round(float(match[1]) * 10000) if match else -1
    if not 0 <= ppm <= 1000000:
        raise argparse.ArgumentTypeError(f"'{text}': not a loss of 0% to 100%")
    return ppm


def parse_count(low, high):
    def parse(text):
        if not re.fullmatch(r"\d{1,9}", text) or not low <= int(text) <= high:
            raise argparse.ArgumentTypeError(f"'{text}': not a number from {low} to {high}")
        return int(text)
    return parse


def parse_name(text):
    if not network.ID.fullmatch(text):
        raise argparse.ArgumentTypeError(f"'{text}': not a name of 1 to 16 letters a-z and digits")
    return text


def parse_user(text):
    try:
        return pwd.getpwnam(text)
    except KeyError:
        raise argparse.ArgumentTypeError(f"'{text}': there is no such user") from None


def add_network_options(parser):
    """How a testbed is to be, for those who build one."""
    parser.add_argument("--rate", type=parse_rate, default=0, help="of every link, each way (no limit)")
    parser.add_argument("--mtu", type=parse_count(576, 65535), default=9000, help="(9000)")
    parser.add_argument("--loss", type=parse_loss, default=0, help="share of frames each receiver loses (0%%)")
    parser.add_argument("--buffer", type=parse_size, default=1 << 20, help="of a switch port, with --rate (1M)")
    parser.add_argument("--burst", type=parse_size, help="bucket of a link, with --rate (2 frames or 250 us)")
    parser.add_argument("--no-multicast", action="store_true", help="the switch drops multicast, as clouds' networks do")


def bucket_bytes(mtu, rate_bps):
    """The default bucket is two frames, or what passes in a quarter of a millisecond: a timer that is late by that
    costs no rate. It is also what a link gives away at the start of a transfer, so no more."""
    return max(2 * (mtu + 14), rate_bps // 8 // 4000)


def network_options(arguments):
    """As Testbed wants them."""
    frame = arguments.mtu + 14
    for name, value in (("burst", arguments.burst), ("buffer", arguments.buffer)):
        if value is not None and value < frame:
            raise network.Failure(f"--{name} {value}: less than a frame of {frame} bytes, so none would pass")
    return {"hosts": arguments.hosts, "mtu": arguments.mtu, "rate_bps": arguments.rate, "loss_ppm": arguments.loss,
            "buffer_bytes": arguments.buffer, "multicast": not arguments.no_multicast,
            "burst_bytes": arguments.burst or bucket_bytes(arguments.mtu, arguments.rate)}


def require(programs):
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        print(f"testbed: not installed: {', '.join(missing)}", file=sys.stderr)
        sys.exit(STATUS_SKIP)
    reason = namespaces.lacks_privilege()
    if reason:
        print(f"testbed: no privilege to make network namespaces: {reason}", file=sys.stderr)
        sys.exit(STATUS_SKIP)


def require_network(arguments):
    require(network.PROGRAMS + (network.PROGRAMS_FOR_LOSS if arguments.loss else ()))


def build(name, arguments):
    """A testbed that is up; when it fails, or is interrupted, nothing is left of it."""
    testbed = network.Testbed(name, network_options(arguments))
    network.claim(name)
    try:
        testbed.build()
    except BaseException:
        take_apart(name)
        raise
    return testbed


@contextlib.contextmanager
def signals_wait():
    """What has begun is finished."""
    signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)


def take_apart(name):
    with signals_wait():
        network.destroy(name)


def interrupt(number, _frame):
    raise Interrupted(number)


def run(name, function, arguments):
    """Calls the function; its result, or that of its end, is the exit status."""
    for number in SIGNALS:
        signal.signal(number, interrupt)
    try:
        return function(arguments)
    except (network.Failure, OSError) as failure:
        print(f"{name}: {failure}", file=sys.stderr)
        return STATUS_FAILED
    except Interrupted as interrupted:
        return 128 + interrupted.number
