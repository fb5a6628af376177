# SPDX-License-Identifier: BSD-3-Clause
"""A boot of the guest: qemu without hardware virtualisation, and the channels between it and us.

The guest's four channels are pipes: its console (kept, and shown where the guest fails), the command's standard output
and standard error (copied to ours), and control, on which init says `booted` and at last `status N`. qemu holds back what
a pipe has no room for, channel by channel, so the status can come before the end of the output: each output ends with a
mark of its own, and a guest that has said its status waits until it is ended. The initramfs is a file without a name, so
that nothing is left on a disk; the kernel kills qemu when we end, however that happens.
"""
import contextlib
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time

import namespaces
from command import SIGNALS, signals_wait
from guest_kernel import Unavailable
from network import Failure

QEMU = "qemu-system-x86_64"
MEMORY_MIB = 2048  # only what the guest uses is taken from this machine
CONSOLE_BYTES = 64 * 1024
COMMAND_LINE = "console=ttyS0 quiet panic=-1 oops=panic mitigations=off nokaslr tsc=reliable random.trust_cpu=on"
OUTPUTS = ("stdout", "stderr")
TROUBLE = (b"Kernel panic", b"BUG:", b"Oops", b"WARNING: CPU", b"Out of memory")


class NoBoot(Failure):
    """The guest did not come as far as init's `booted`."""


class Channel:
    """A pipe out of qemu. `data` is what came and was not used yet."""

    def __init__(self):
        self.reader, self.writer = os.pipe()
        os.set_blocking(self.reader, False)
        self.data = b""
        self.has_ended = False

    def close_writer(self):
        if self.writer >= 0:
            os.close(self.writer)
        self.writer = -1

    def close(self):
        self.close_writer()
        os.close(self.reader)


class Machine:
    """`end_mark` is what init writes behind the command's output, on either channel."""

    def __init__(self, kernel, image, end_mark):
        self.end_mark = end_mark
        self.channels = {name: Channel() for name in ("console", "stdout", "stderr", "control")}
        self.selector = selectors.DefaultSelector()
        self.booted = False
        self.status = None
        self.process = None
        self.initramfs = os.memfd_create("tutti-guest")
        with open(self.initramfs, "wb", closefd=False) as file:
            image.write(file)
        self.kernel = kernel

    def __enter__(self):
        try:
            with signals_wait():
                self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_):
        self._end()

    def _start(self):
        if shutil.which(QEMU) is None:
            raise Unavailable(f"{QEMU} is not installed")
        command = [QEMU, "-accel", "tcg,thread=multi", "-cpu", "max", "-M", "q35", "-smp", "2", "-m", str(MEMORY_MIB),
                   "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-kernel", self.kernel.image,
                   "-initrd", f"/dev/fd/{self.initramfs}", "-append", COMMAND_LINE, "-device", "virtio-serial-pci"]
        for name, channel in self.channels.items():
            command += ["-chardev", f"file,id={name},path=/dev/fd/{channel.writer}"]
            command += (["-serial", f"chardev:{name}"] if name == "console" else
                        ["-device", f"virtserialport,chardev={name},name={name}"])
        kept = [self.initramfs, *(channel.writer for channel in self.channels.values())]
        parent = os.getpid()

        def prepare():
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            namespaces.call("prctl", namespaces.PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)  # ended before we asked

        # pylint: disable=subprocess-popen-preexec-fn # one thread, and nothing but system calls
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=kept, preexec_fn=prepare,
                                        stdout=subprocess.DEVNULL, stderr=self.channels["console"].writer)
        for name, channel in self.channels.items():
            channel.close_writer()
            self.selector.register(channel.reader, selectors.EVENT_READ, name)

    def run(self, boot_limit_s, limit_s):
        """Until the guest has said its status, which is returned, and all its output; the limits count from now."""
        begun = time.monotonic()
        outputs = [self.channels[name] for name in OUTPUTS]
        while self.status is None or not all(output.has_ended for output in outputs):
            passed_s = time.monotonic() - begun
            if not self.booted and passed_s > boot_limit_s:
                raise NoBoot(f"the guest has not booted after {boot_limit_s:g} s{self._last_words()}")
            if passed_s > limit_s:
                raise Failure(f"the guest has not ended after {limit_s:g} s and was ended{self._last_words()}")
            if not self._read(0.2):
                kind = Failure if self.booted else NoBoot
                what = "without a status" if self.status is None else "before all its output had come"
                raise kind(f"the guest ended {what}{self._last_words()}")
        return self.status

    def _read(self, patience_s):
        """Passes on what there is; False when the guest has closed everything."""
        for key, _ in self.selector.select(patience_s):
            try:
                data = os.read(key.fd, 65536)
            except BlockingIOError:
                continue
            if data:
                self._take(key.data, data)
            else:
                self.selector.unregister(key.fd)
        return bool(self.selector.get_map())

    def _take(self, name, data):
        channel = self.channels[name]
        if name in OUTPUTS:
            self._pass_on(name, channel.data + data)
        elif name == "console":
            channel.data = (channel.data + data)[-CONSOLE_BYTES:]
        else:
            *lines, channel.data = (channel.data + data).split(b"\n")
            for line in lines:
                word, _, value = line.partition(b" ")
                if word == b"booted":
                    self.booted = True
                elif word == b"status" and value.isdigit():
                    self.status = int(value)

    def _pass_on(self, name, data):
        """Everything but the mark, and but a last part that may be the beginning of the mark."""
        channel = self.channels[name]
        data, mark, _ = data.partition(self.end_mark)
        channel.has_ended = bool(mark)
        held = 0
        if not channel.has_ended:
            held = max(count for count in range(len(self.end_mark)) if data.endswith(self.end_mark[:count]))
        kept = len(data) - held
        sink = getattr(sys, name).buffer
        sink.write(data[:kept])
        sink.flush()
        channel.data = data[kept:]

    def console(self):
        return self.channels["console"].data.decode(errors="replace").replace("\r", "")

    def trouble(self):
        """The lines of the console with which the kernel says that something is wrong with itself."""
        return [line.decode(errors="replace").strip() for line in self.channels["console"].data.split(b"\n")
                if any(word in line for word in TROUBLE)]

    def _last_words(self):
        lines = self.console().strip().splitlines()[-20:]
        return "; its console:\n  " + "\n  ".join(lines) if lines else "; its console is empty"

    def _end(self):
        """Leaves nothing; what the guest had said before is passed on first."""
        if self.process:
            self.process.kill()
            self.process.wait()
        with contextlib.suppress(OSError):
            while self.selector.get_map() and self._read(0):
                pass
            for name in OUTPUTS:
                getattr(sys, name).buffer.write(self.channels[name].data)
        self.selector.close()
        for channel in self.channels.values():
            channel.close()
        os.close(self.initramfs)
