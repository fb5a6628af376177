# SPDX-License-Identifier: BSD-3-Clause
"""One file copied to several hosts, one after the other, each over a TCP connection of its own: what scp does, without the
cost of its encryption.

    copies.py receive ADDRESS PORT FILE      one connection, and all that comes from it
    copies.py send FILE PORT ADDRESS...      to each in turn; done when each has said that it has written everything
"""
import os
import socket
import sys
import time

CHUNK = 1 << 20
PATIENCE_S = 10


def receive(address, port, path):
    with socket.create_server((address, int(port))) as listener:
        connection, _ = listener.accept()
        with connection, open(path, "wb", buffering=0) as file:
            while data := connection.recv(CHUNK):
                file.write(data)
            connection.send(b"y")


def connect(address, port):
    """The receiver may listen a moment later."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return socket.create_connection((address, int(port)))
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


def send(path, port, *addresses):
    for address in addresses:
        with open(path, "rb") as file, connect(address, port) as connection:
            offset, size = 0, os.fstat(file.fileno()).st_size
            while offset < size:
                offset += os.sendfile(connection.fileno(), file.fileno(), offset, size - offset)
            connection.shutdown(socket.SHUT_WR)
            if connection.recv(1) != b"y":
                raise ConnectionError(f"{address} has not taken the file")


if __name__ == "__main__":
    {"receive": receive, "send": send}[sys.argv[1]](*sys.argv[2:])
