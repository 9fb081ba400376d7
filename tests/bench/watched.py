"""VMs and processes, observed from outside: the output of a guest, the memory of a process."""

import contextlib
import os
import pathlib
import re
import time

MIB = 1 << 20
# Timeout, longer than any guest here needs on a host that is not overloaded.
TOO_LONG = 300


class Watched:
    """A VM with a log of its serial console; `began` is the start time of its command."""

    def wait_for(self, words, longest=TOO_LONG):
        """Seconds from its start until the guest has written these words."""
        end = time.monotonic() + longest
        while words.encode() not in self.said():
            if time.monotonic() > end:
                raise SystemExit(f"bench: {self.log} did not say {words!r} in {longest} s: {self.said()[-500:]!r}")
            time.sleep(0.002)
        return time.monotonic() - self.began

    def said(self):
        with contextlib.suppress(FileNotFoundError):
            return self.log.read_bytes()
        return b""


class Process:
    def __init__(self, pid):
        self.pid = pid
        at = pathlib.Path(f"/proc/{pid}")
        self.args = at.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        self.name = pathlib.Path(self.args[0]).name if self.args else ""

    def cpu(self):
        """CPU seconds of the process so far."""
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory(self):
        """Bytes by kind, as the kernel tells them."""
        text = pathlib.Path(f"/proc/{self.pid}/smaps_rollup").read_text()
        return {kind: int(size) * 1024 for kind, size in re.findall(r"^(\w+): +(\d+) kB", text, re.M)}


def processes():
    found = []
    for at in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            found.append(Process(int(at.name)))
    return found
