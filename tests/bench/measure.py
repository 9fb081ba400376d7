"""One line of the table: runs both sides in turn, and records seconds, memory and written bytes."""

import contextlib
import dataclasses
import mmap
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing

# Timeout, longer than any run here.
TOO_LONG = 900


@dataclasses.dataclass
class Side:
    """A way to do the task: its name, and a shell command that ends with the bytes on the disk."""

    name: str
    command: str
    # Output file, to be compared with the disk; None if there is none.
    output: typing.Optional[pathlib.Path] = None
    # For an image: makes `output` of the command's result, and prints the size to be compared. Not measured.
    proof: str = ""
    # Removes results of the command besides `output`. Not measured.
    after: str = ""
    # File with the number of bytes that the command's processes have written to storage.
    written: typing.Optional[pathlib.Path] = None


@dataclasses.dataclass
class Line:
    """A line of the table."""

    name: str
    ours: Side
    # Other tools for the same task; the quickest in a trial is measured. Empty: only ours is measured.
    others: list
    # Goal of the line in words, and the function that checks a result.
    goal: str = "–"
    reached: typing.Optional[typing.Callable] = None
    # Seconds that ours are compared with, unless it is the other's median.
    against: typing.Optional[typing.Callable] = None
    # Files to have in the page cache.
    warm: tuple = ()
    # A shell command that prepares the first run.
    ready: str = ""
    # Measured in the same rounds, since the goal refers to it.
    beside: tuple = ()
    # One round suffices where time is not measured.
    once: bool = False


@dataclasses.dataclass
class Runs:
    side: Side
    seconds: list = dataclasses.field(default_factory=list)
    rss: int = 0
    size: int = 0
    written: int = 0

    @property
    def median(self):
        return statistics.median(self.seconds)


@dataclasses.dataclass
class Result:
    line: Line
    ours: Runs
    other: typing.Optional[Runs]
    beside: list
    met: typing.Optional[bool]


@contextlib.contextmanager
def workplace(folder):
    work = pathlib.Path(tempfile.mkdtemp(prefix="work.", dir=folder))
    try:
        yield work
    finally:
        at_hand.let_go()
        # Mounts of an interrupted buildah still exist; the innermost is removed first.
        mounts = [entry.split()[1] for entry in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
        for mount in sorted((mount for mount in mounts if mount.startswith(f"{work}/")), reverse=True):
            subprocess.run(["umount", mount])
        shutil.rmtree(work, ignore_errors=True)


# If the rounds of a line have taken so many seconds, so many rounds suffice.
LONG, ENOUGH = 30, 3
# A program that is slower than the best by this factor is not tried again.
NEAR = 1.3


def line(line, rounds, disk):
    shell(line.ready)
    ours, beside = Runs(line.ours), [Runs(side) for side in line.beside]
    other = Runs(best(line.others, line.warm)) if line.others else None
    measured = [runs for runs in [ours, other, *beside] if runs]
    began = time.monotonic()
    for number in range(1 if line.once else rounds):
        if number >= ENOUGH and time.monotonic() - began > LONG:
            break
        for runs in measured:
            seconds, rss = once(runs.side, line.warm, lambda: look(runs, disk if number == 0 else None))  # noqa: B023
            runs.seconds.append(seconds)
            runs.rss = max(runs.rss, rss)
    result = Result(line, ours, other, beside, None)
    if line.reached:
        result.met = line.reached(result)
    return result


def look(runs, disk):
    """Records the size of a run's result, and compares it with the disk if there is one."""
    side = runs.side
    if side.written:
        runs.written = max(runs.written, int(side.written.read_text()))
    if not side.output:
        return
    if not side.proof:
        runs.size = side.output.stat().st_size
    elif disk:
        runs.size = int(shell(side.proof))
    if disk:
        same(side.output, disk)


def best(sides, warm):
    """The quickest of several ways in a trial. Those that come close to it have a second one; of long ones, one tells
    enough."""
    if len(sides) == 1:
        return sides[0]
    trials = [once(side, warm)[0] for side in sides]
    near = min(trials) * NEAR
    if min(trials) < 20:
        trials = [min(first, once(side, warm)[0]) if first < near else first for first, side in zip(trials, sides)]
    for seconds, side in zip(trials, sides):
        print(f"bench:   trial {seconds:.2f} s  {side.name}", file=sys.stderr, flush=True)
    return sides[trials.index(min(trials))]


def make_ready(warm):
    """The same conditions for every run: no pending writes, the input in the page cache, and free memory."""
    # Pending writes of other programs would slow down the run.
    os.sync()
    for path in warm:
        with open(path, "rb") as file:
            while file.read(1 << 24):
                pass
    at_hand.hold()


class AtHand:
    """Memory for the next run. A VM may hand idle memory back to its host, and the process that touches it first
    then waits for the host, for seconds: so this program holds the memory of a run, and lets it go as that run begins."""

    # More bytes than any run here writes.
    SIZE = 5 << 29

    def __init__(self):
        self.memory = None

    def hold(self):
        if self.memory:
            return
        zeros = bytes(1 << 24)
        self.memory = mmap.mmap(-1, self.SIZE)
        for at in range(0, self.SIZE, len(zeros)):
            self.memory[at : at + len(zeros)] = zeros

    def let_go(self):
        if self.memory:
            self.memory.close()
        self.memory = None


at_hand = AtHand()


def once(side, warm, look=None):
    """Seconds and peak memory (bytes) of one run. The memory is that of the largest process."""
    try:
        measured = timed(side, warm)
        if look:
            look()
        return measured
    finally:
        shell(side.after)
        # Released at once, before this VM hands back the memory of the run.
        if side.output:
            side.output.unlink(missing_ok=True)
        at_hand.hold()


def timed(side, warm):
    make_ready(warm)
    with tempfile.TemporaryFile() as said, tempfile.NamedTemporaryFile("r") as told:
        # `time` tells the memory: what the kernel says of our own child counts this interpreter too.
        command = ["timeout", str(TOO_LONG), "time", "--quiet", "-f", "%M", "-o", told.name]
        at_hand.let_go()
        start = time.perf_counter()
        run = subprocess.Popen(
            [*command, "bash", "-euo", "pipefail", "-c", side.command],
            stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )
        try:
            code = run.wait()
        except BaseException:
            # `timeout` passes it on to everything it started; killed, it could not.
            run.terminate()
            run.wait()
            raise
        seconds = time.perf_counter() - start
        if code:
            said.seek(0)
            sys.exit(f"bench: exit code {code} of: {side.command}\n{said.read().decode(errors='replace')}")
        return seconds, int(told.read()) * 1024


def shell(command):
    """Runs a command that is not measured, and yields its output."""
    if not command:
        return b""
    run = subprocess.run(["bash", "-euo", "pipefail", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    if run.returncode:
        sys.exit(f"bench: exit code {run.returncode} of: {command}")
    return run.stdout


def same(output, disk):
    given = "qcow2" if output.suffix == ".qcow2" else "raw"
    compared = subprocess.run(
        ["qemu-img", "compare", "-q", "-f", given, "-F", "raw", output, disk], stdout=subprocess.PIPE
    )
    if compared.returncode:
        sys.exit(f"bench: {output} is not the disk it was made from")
