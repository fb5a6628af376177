# SPDX-License-Identifier: BSD-3-Clause
"""What the guest sees as its files: an initramfs that is made anew for every boot, which takes a tenth of a second.

A file of this machine is in the guest at its own path, symbolic links included, with the libraries that it is linked
with and those that they open at run time. The archive is a cpio of the "newc" kind, as the kernel reads it.
"""
import glob
import os
import re
import shutil
import stat
import subprocess

from guest_kernel import Unavailable
from network import Failure

BUSYBOX = "/opt/busybox/busybox"
LOADER = "/lib64/ld-linux-x86-64.so.2"  # the guest is an x86_64
INIT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "guest_init.sh")
NEEDED = ("busybox", "ip", "tc", "rdma")
TOOLS = ("bridge", "ss", "ibv_devices", "ibv_devinfo", "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong",
         "ibv_srq_pingpong", "mckey", "rping", "udaddy", "rdma_client", "rdma_server",
         "env", "nice", "nohup", "setsid", "taskset", "timeout", "xargs")  # busybox's would run its own ip and tc
# A library of this name opens these at run time; * in the pattern, and {} is the directory of the library.
OPENED = (("libibverbs.so", ("{}/libibverbs/librxe-rdmav*.so", "/etc/libibverbs.d/rxe.driver")),
          ("libucp.so", ("{}/ucx/*.so*",)),
          ("libc.so", ("{}/libgcc_s.so.1", "{}/libnss_files.so.2", "{}/libucp.so.0", "{}/libibverbs.so.1",
                      "{}/librdmacm.so.1")))
TEXTS = {
    "/etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "/etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost guest\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
DIRECTORIES = ("/dev", "/proc", "/sys", "/run", "/root", "/var/tmp", "/tmp", "/bin", "/sbin")


class Image:
    """Entries by their path without links on the way; content is bytes, the path of a file here, or a link's target."""

    def __init__(self):
        self.entries = {}
        self.examined = set()

    def add_base(self, kernel):
        missing = [program for program in NEEDED if shutil.which(program) is None]
        missing += [path for path in ("/etc/libibverbs.d/rxe.driver",) if not os.path.exists(path)]
        if missing:
            raise Unavailable(f"not installed: {', '.join(missing)}")
        for path in DIRECTORIES:
            self.add_directory(path)
        for path, text in TEXTS.items():
            self.add_content(path, text.encode())
        self.add_content("/init", ("file", INIT), 0o755)
        busybox = os.path.realpath(shutil.which("busybox"))
        self.add_content(BUSYBOX, ("file", busybox), 0o755)
        self.add_libraries([busybox])
        for module in kernel.modules:
            self.add_content(f"/guest/modules/{os.path.basename(module)}", ("file", module))
        self.add_files(["/bin/sh", *filter(None, map(shutil.which, (*NEEDED[1:], *TOOLS)))])

    def add_files(self, paths):
        """Files at their own paths, whole directories too, and what the programs among them need."""
        programs = []
        for path in map(os.path.abspath, paths):
            if not os.path.exists(path):
                raise Failure(f"'{path}' is not there, so it cannot be in the guest")
            for file in every_file(path):
                programs += self._add_file(file)
        self.add_libraries(programs)

    def add_libraries(self, programs):
        new = [path for path in dict.fromkeys(programs) if path not in self.examined]
        if not new:
            return
        self.examined.update(new)
        found = []
        for path in [*new, *libraries_of(new)]:  # one may itself be opened by another
            found += self._add_file(path)
            for name, patterns in OPENED:
                if os.path.basename(path).startswith(name):
                    for pattern in patterns:
                        for opened in sorted(glob.glob(pattern.format(os.path.dirname(path)))):
                            found += self._add_file(opened)
        self.add_libraries(found)

    def add_content(self, path, content, mode=0o644):
        path = self._resolve(path)
        self.entries[path] = (stat.S_IFREG | mode, content)

    def add_directory(self, path):
        path = self._resolve(path)
        self.entries.setdefault(path, (stat.S_IFDIR | (0o1777 if path.endswith("tmp") else 0o755), b""))

    def _add_file(self, path):
        """Returns the files to be searched for libraries: this one, if it is a program, or its interpreter."""
        path = self._resolve(path)
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode):
            self.add_directory(path)
            return []
        if path in self.entries or not stat.S_ISREG(mode):
            return []
        self.entries[path] = (stat.S_IFREG | stat.S_IMODE(mode), ("file", path))
        with open(path, "rb") as file:
            beginning = file.read(256)
        if beginning.startswith(b"\x7fELF"):
            return [path]
        interpreter = re.match(rb"#! *(/\S+)", beginning)
        if interpreter and os.path.exists(interpreter[1]):
            return self._add_file(interpreter[1].decode())
        return []

    def _resolve(self, path):
        """Adds the links and directories on the way, as they are here; returns the path that they lead to."""
        done, rest = "", [part for part in path.split("/") if part]
        while rest:
            part = rest.pop(0)
            if part == "..":
                done = os.path.dirname(done)
                continue
            here = f"{done}/{part}"
            if os.path.islink(here) and not here.startswith(("/proc/", "/dev/")):
                target = os.readlink(here)
                self.entries.setdefault(here, (stat.S_IFLNK | 0o777, target.encode()))
                rest = [part for part in target.split("/") if part not in ("", ".")] + rest
                done = "" if target.startswith("/") else done
                continue
            if rest:
                self.entries.setdefault(here, (stat.S_IFDIR | 0o755, b""))
            done = here
        return done

    def write(self, file):
        """Directories come before what is in them, because the kernel makes none by itself."""
        for number, path in enumerate(sorted(self.entries), 1):
            mode, content = self.entries[path]
            if isinstance(content, tuple):
                with open(content[1], "rb") as source:
                    content = source.read()
            write_entry(file, number, path[1:], mode, content)
        write_entry(file, 0, "TRAILER!!!", 0, b"")


def write_entry(file, number, name, mode, content):
    name = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    file.write(header + bytes(-len(header) % 4) + content + bytes(-len(content) % 4))


def every_file(path):
    if not os.path.isdir(path):
        return [path]
    return [path] + [os.path.join(directory, name)
                     for directory, subdirectories, names in os.walk(path) for name in [*subdirectories, *names]]


def libraries_of(programs):
    """The paths of the libraries that these are linked with, loader included. As ldd does it, a script that takes three
    times as long."""
    paths = []
    for program in programs:
        if ask_loader("--verify", program).returncode not in (0, 2):
            continue  # statically linked
        for line in ask_loader(program, LD_TRACE_LOADED_OBJECTS="1").stdout.splitlines():
            if "=> not found" in line:
                raise Failure(f"{program} needs {line.split()[0]}, which is not found")
            match = re.search(r"(?:^|=> )(/\S+) \(0x", line.strip())
            if match and match[1] not in paths:
                paths.append(match[1])
    return paths


def ask_loader(*arguments, **variables):
    return subprocess.run([LOADER, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
                          env={**os.environ, "LC_ALL": "C", **variables})
