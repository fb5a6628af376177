#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Plain UDP traffic for the tests of the testbed, run inside its hosts.

    testbed_traffic.py send ADDRESS PORT DATAGRAMS BYTES [BITS_PER_S [SEGMENT]]
        as fast as the socket takes them, or paced; with SEGMENT, BYTES are cut into datagrams of this size by the kernel
    testbed_traffic.py receive PORT GROUP IDLE_S
        until nothing has come for IDLE_S after a sender's end mark; GROUP 0.0.0.0 for unicast; says "ready" when it
        listens, then what came as JSON
"""
import json
import socket
import struct
import sys
import time

INTERFACE = "tb0"
UDP_SEGMENT = 103
SO_RCVBUFFORCE = 33
END = b"end"


def send(address, port, count, length, bits_per_s=0.0, segment=0):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, INTERFACE.encode())
    sock.connect((address, port))
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


def receive(port, group, idle_s):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
    sock.bind((group, port))
    if group != "0.0.0.0":
        member = struct.pack("4s4si", socket.inet_aton(group), bytes(4), socket.if_nametoindex(INTERFACE))
        sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
    print("ready", flush=True)
    sock.settimeout(30)
    total = count = 0
    first = last = 0.0
    buffer = bytearray(65536)
    ended = False
    while True:
        try:
            length = sock.recv_into(buffer)
        except TimeoutError:
            break
        if length == len(END):
            ended = True
            sock.settimeout(idle_s)
            continue
        last = time.monotonic()
        first = first or last
        total += length
        count += 1
        sock.settimeout(idle_s if ended else 30)
    print(json.dumps({"bytes": total, "datagrams": count, "seconds": last - first}))


if __name__ == "__main__":
    words = sys.argv[2:]
    if sys.argv[1] == "send":
        send(words[0], int(words[1]), int(words[2]), int(words[3]), *map(float, words[4:5]), *map(int, words[5:6]))
    else:
        receive(int(words[0]), words[1], float(words[2]))
