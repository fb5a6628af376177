# SPDX-License-Identifier: BSD-3-Clause
"""The kernel of the guest: Debian's, downloaded as a package, never installed, and kept in a cache.

What is kept is what a boot needs: the kernel unpacked (qemu starts it directly, which saves seconds of emulated
decompression) and the modules in the order of loading. A directory appears in the cache complete, or not at all; what a
killed run left half-done goes with the next one.
"""
import contextlib
import fcntl
import hashlib
import lzma
import os
import re
import shutil
import subprocess
import tempfile

from network import Failure

# Newer series run rxe's receive work later and lose multicast by themselves.
PACKAGE = re.compile(r"linux-image-6\.1\.0-(\d+)-amd64")
MODULES = ("virtio_pci", "virtio_console", "crc32_generic", "dummy", "veth", "bridge", "rdma_rxe", "rdma_ucm",
           "sch_netem", "sch_tbf", "act_gact", "cls_matchall", "sch_ingress")
RECIPE = hashlib.sha256(repr(("1", MODULES)).encode()).hexdigest()[:8]  # the number changes with the code below
PROGRAMS = ("apt-get", "apt-cache", "dpkg-deb", "depmod", "modprobe")
DOWNLOAD_LIMIT_S = 300


class Unavailable(Exception):
    """The guest cannot be on this machine, for the reason that it carries."""


class Kernel:
    def __init__(self, directory):
        self.name = os.path.basename(directory).rsplit("+", 1)[0]
        self.image = os.path.join(directory, "vmlinux")
        modules = os.path.join(directory, "modules")
        self.modules = [os.path.join(modules, name) for name in sorted(os.listdir(modules))]


def cache_directory():
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tutti-guest")


def find_in(cache):
    """The newest kernel of the cache, or None."""
    found = []
    with contextlib.suppress(FileNotFoundError):
        for name in os.listdir(cache):
            package, _, recipe = name.rpartition("+")
            match = PACKAGE.fullmatch(package)
            if match and recipe == RECIPE:
                found.append((int(match[1]), os.path.join(cache, name)))
    return Kernel(max(found)[1]) if found else None


def get(say):
    """The kernel from the cache, which is filled first where it has none; `say` is told what takes long."""
    cache = cache_directory()
    kernel = find_in(cache)
    if kernel:
        return kernel
    missing = [program for program in PROGRAMS if shutil.which(program) is None]
    if missing:
        raise Unavailable(f"to make a kernel for the guest, these are not installed: {', '.join(missing)}")
    os.makedirs(cache, exist_ok=True)
    with open(os.path.join(cache, "lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        kernel = find_in(cache)  # somebody else's work, while we waited
        if kernel:
            return kernel
        for name in os.listdir(cache):
            if name.startswith("new-"):
                shutil.rmtree(os.path.join(cache, name), ignore_errors=True)
        return make(cache, say)


def make(cache, say):
    with tempfile.TemporaryDirectory(prefix="new-", dir=cache) as work:
        package, archive = download(work, say)
        tree = os.path.join(work, "tree")
        tool("dpkg-deb", "-x", archive, tree)
        release = package.removeprefix("linux-image-")
        ready = os.path.join(work, "ready")
        os.makedirs(os.path.join(ready, "modules"))
        unpack_image(os.path.join(tree, "boot", f"vmlinuz-{release}"), os.path.join(ready, "vmlinux"))
        for index, path in enumerate(modules_in_order(tree, release)):
            shutil.copyfile(path, os.path.join(ready, "modules", f"{index:02d}-{os.path.basename(path)}"))
        final = os.path.join(cache, f"{package}+{RECIPE}")
        os.rename(ready, final)
        return Kernel(final)


def download(work, say):
    """The newest package there is, as a file; its name and the file's path. The lists of packages may be missing, or be
    older than what the archive still has: then they are updated, which only root can do."""
    for updated in (False, True):
        packages = candidates()
        try:
            if not packages:
                raise Unavailable(f"apt knows no package {PACKAGE.pattern} (Debian 12's), which has the guest's kernel")
            say(f"downloading {packages[0]} (70 MB), once")
            tool("apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", packages[0], limit_s=DOWNLOAD_LIMIT_S,
                 cwd=work, unavailable=True)
            break
        except Unavailable:
            if updated or os.geteuid() != 0:
                raise
            say("updating the lists of packages")
            tool("apt-get", "update", "-q", limit_s=DOWNLOAD_LIMIT_S, unavailable=True)
    archives = [name for name in os.listdir(work) if name.endswith(".deb")]
    if len(archives) != 1:
        raise Failure(f"apt-get download {packages[0]} left {archives}, not one package")
    return packages[0], os.path.join(work, archives[0])


def candidates():
    """Packages that apt could download, the newest first."""
    names = filter(PACKAGE.fullmatch, tool("apt-cache", "pkgnames", "linux-image-6.1.0-").split())
    names = sorted(names, key=lambda name: int(PACKAGE.fullmatch(name)[1]), reverse=True)
    for index, name in enumerate(names):
        if re.search(r"^ +Candidate: (?!\(none\))", tool("apt-cache", "policy", name), re.MULTILINE):
            return names[index:]
    return []


def unpack_image(source, target):
    """The ELF file inside of a bzImage, which is packed by xz; its place is found by the packer's magic number."""
    with open(source, "rb") as file:
        packed = file.read()
    start = packed.find(b"\xfd7zXZ\0")
    if start < 0:
        raise Failure(f"{os.path.basename(source)} has no part that is packed by xz")
    kernel = lzma.LZMADecompressor().decompress(packed[start:])
    if not kernel.startswith(b"\x7fELF"):
        raise Failure(f"what {os.path.basename(source)} has packed is no ELF file")
    with open(target, "wb") as file:
        file.write(kernel)


def modules_in_order(tree, release):
    tool("depmod", "-b", tree, release)
    paths = []
    for module in MODULES:
        for line in tool("modprobe", "-d", tree, "-S", release, "--show-depends", module).splitlines():
            words = line.split()
            if words[0] == "insmod" and words[1] not in paths:
                paths.append(words[1])
    return paths


def tool(*command, limit_s=120, cwd=None, unavailable=False):
    """Runs a tool to its end, and returns what it says. A failure says that this machine cannot have the guest, where
    `unavailable`; it is an error otherwise."""
    kind = Unavailable if unavailable else Failure
    try:
        result = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                text=True, cwd=cwd, timeout=limit_s, check=False, env={**os.environ, "LC_ALL": "C"})
    except subprocess.TimeoutExpired:
        raise kind(f"{' '.join(command)} has not ended after {limit_s} s") from None
    if result.returncode != 0:
        lines = result.stderr.strip().splitlines() or [f"exit status {result.returncode}"]
        raise kind(f"{' '.join(command)}: {lines[-1]}")
    return result.stdout
