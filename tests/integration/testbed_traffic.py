#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plain UDP traffic for the tests of the testbed, run inside its hosts.

    testbed_traffic.py send ADDRESS PORT DATAGRAMS BYTES [BITS_PER_S [SEGMENT]]
        as fast as the socket takes them, or paced; with SEGMENT, BYTES are cut into datagrams of this size by the kernel
    testbed_traffic.py flood ADDRESS PORT DATAGRAMS BYTES
        says "ready", waits for the end of its standard input, then hands all to the kernel at once: the socket holds
        them, so that they leave as fast as the link lets them whether or not this process gets the processor
    testbed_traffic.py receive PORT GROUP SENDERS
        until the end marks of so many senders have come; GROUP 0.0.0.0 for unicast; says "ready" when it listens, then
        what came as JSON, with the seconds from the first to the last by the kernel's clock, not that of this process
"""
import json
import socket
import struct
import sys
import time

INTERFACE = "tb0"
UDP_SEGMENT = 103
SO_SNDBUFFORCE, SO_RCVBUFFORCE = 32, 33
SO_TIMESTAMPNS = 35
TIMESPEC = struct.Struct("qq")
IDLE_S = 0.5  # once every sender has ended: further end marks
SILENT_S = 30  # all end marks of a sender may be lost
END = b"end"


def connect(address, port):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, INTERFACE.encode())
    sock.connect((address, port))
    return sock


def send(address, port, count, length, bits_per_s=0.0, segment=0):
    sock = connect(address, port)
    if segment:
        sock.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, segment)
    payload = bytes(length)
    begun = due = time.monotonic()
    refused = 0
    for _ in range(count):
        if bits_per_s:
            while (left := due - time.monotonic()) > 0:
                time.sleep(left)
            due = time.monotonic() + length * 8 / bits_per_s  # who is late does not catch up
        try:
            sock.send(payload)
        except OSError:
            refused += 1
    seconds = time.monotonic() - begun
    for _ in range(3):
        sock.send(END)
    print(json.dumps({"seconds": seconds, "refused": refused}))


def flood(address, port, count, length):
    sock = connect(address, port)
    sock.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 64 << 20)
    payload = bytes(length)
    print("ready", flush=True)
    sys.stdin.read()
    for _ in range(count):
        sock.send(payload)
    for _ in range(3):
        sock.send(END)


def kernel_time(ancillary):
    """When the kernel got the datagram, in ns: a receiver that waited for the processor does not change it."""
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
            seconds, nanoseconds = TIMESPEC.unpack(data[:TIMESPEC.size])
            return seconds * 10 ** 9 + nanoseconds
    raise RuntimeError("the kernel gives no time")


def receive(port, group, senders):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    sock.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    sock.bind((group, port))
    if group != "0.0.0.0":
        member = struct.pack("4s4si", socket.inet_aton(group), bytes(4), socket.if_nametoindex(INTERFACE))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    print("ready", flush=True)
    total = count = marks = first = last = 0
    buffer = bytearray(65536)
    ended = set()
    while True:
        sock.settimeout(IDLE_S if len(ended) >= senders else SILENT_S)
        try:
            length, ancillary, _, source = sock.recvmsg_into([buffer], 256)
        except TimeoutError:
            break
        if length == len(END):
            ended.add(source)
            marks += 1
            continue
        last = kernel_time(ancillary)
        first = first or last
        total += length
        count += 1
    print(json.dumps({"bytes": total, "datagrams": count, "marks": marks, "seconds": (last - first) / 1e9}))


if __name__ == "__main__":
    words = sys.argv[2:]
    if sys.argv[1] == "send":
        send(words[0], int(words[1]), int(words[2]), int(words[3]), *map(float, words[4:5]), *map(int, words[5:6]))
    elif sys.argv[1] == "flood":
        flood(words[0], *map(int, words[1:]))
    else:
        receive(int(words[0]), words[1], int(words[2]))
