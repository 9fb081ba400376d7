"""The guest that migrates, and its output with the host's times.

The guest counts on its serial console, each 10 ms. Its own clock stands still while it is paused, so the time of each line is
taken on the host, from the log of the console, which QEMU writes itself: on both sides the same way. A counter that is read over
the network would also measure when its neighbours learn of the guest's new place, and behind masquerade the address is another one.
"""

import pathlib
import re
import threading
import time

from watched import TOO_LONG

# `read` waits without a process of its own. Each line is an exit out of the guest for each letter, so it is short.
COUNTS = "mkfifo /run/wait; exec 3<>/run/wait; i=0\nwhile :; do i=$((i+1)); echo \"at $i.\"; read -r -t 0.01 -u 3 none; done\n"
# MiB that the guest writes over again and again. Not zeroes, which a migration sends as a few bytes.
BUSY = 32
WRITES = (
    f"dd if=/dev/urandom of=/run/one bs=1M count={BUSY} 2>/dev/null\n"
    "while :; do dd if=/run/one of=/run/two bs=1M conv=notrunc 2>/dev/null; done &\n"
)
LINE = re.compile(rb"at (\d+)\.\r?\n")
# Intervals of looking for output, and for new logs.
LOOK, LOGS = 0.002, 0.2


class Counted(threading.Thread):
    """Numbers of a guest, by the log that has them. `logs` yields the logs that exist by now."""

    def __init__(self, logs, look=LOOK):
        super().__init__(daemon=True)
        self.logs, self.look, self.files, self.ends = logs, look, {}, threading.Event()
        self.failed = None
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ends.set()
        self.join()
        for log in self.files.values():
            log.file.close()

    def run(self):
        try:
            self.follow()
        except BaseException as why:  # noqa: B902  a thread's sys.exit is told by nobody
            self.failed = why

    def follow(self):
        looked = 0
        while not self.ends.wait(self.look):
            now = time.time()
            if now > looked + LOGS:
                looked = now
                for path in self.logs():
                    if path not in self.files and path.exists():
                        # Also the log of a file that is removed is read to its end.
                        self.files[path] = Log(open(path, "rb"))
            for log in list(self.files.values()):
                log.look()

    def counts(self, path=None, longest=TOO_LONG):
        """Waits until the guest has written further numbers, to this log or any one."""
        def last():
            return max((log.numbers[-1][0] for at, log in self.files.items() if log.numbers and path in (None, at)), default=0)

        end, before = time.monotonic() + longest, last()
        while last() < before + 20:
            if self.failed:
                raise self.failed
            if time.monotonic() > end:
                raise SystemExit(f"bench: the guest does not count: {before}, {[log.pending for log in self.files.values()]}")
            time.sleep(0.05)

    def pause(self, source, target):
        """Seconds between the last number in one log and the first one in the other, less the guest's usual interval."""
        before, after = (self.files[path].numbers for path in (source, target))
        (last, left), (first, came) = before[-1], after[0]
        # A line that is divided between the logs is in none of them.
        if not last < first <= last + 2:
            raise SystemExit(f"bench: a number of the guest is missing or doubled: {last} before, {first} after the migration")
        steps = sorted(two[1] - one[1] for one, two in zip(before[-200:], before[-199:]))
        return came - left - (first - last) * steps[len(steps) // 2]


class Log:
    def __init__(self, file):
        self.file, self.pending, self.numbers, self.text = file, b"", [], b""

    def look(self):
        new = self.file.read()
        if not new:
            return
        now = time.time()
        self.pending += new
        for found in LINE.finditer(self.pending):
            self.numbers.append((int(found[1]), now))
        # What came before the numbers is kept, to see whether a guest has booted.
        if not self.numbers:
            self.text += new
        self.pending = self.pending[-64:].rpartition(b"\n")[2]


def script(*parts):
    """User data for the guest's seed disk."""
    return "\n".join(["#!/bin/sh", *parts, COUNTS])


def console(at, pod):
    """The log of the console in a launcher pod, on this host."""
    node = pod["spec"]["nodeName"]
    return pathlib.Path(at.of_kubelet(pod["metadata"]["uid"], node) / "private/root/log/serial.log")
