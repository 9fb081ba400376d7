"""Benchmarks of VMs: the cost of a launcher beside its QEMU, compared with that QEMU alone.

 ours    coracle run -d ──► virt-launcher ──► QEMU ──► the guest's serial console, in a log
 other   the same QEMU by the same arguments, which are read from the process of ours; or skopeo, tar and virsh with a
         libvirtd that runs; or socat

All of it happens in the folder of this run, and whatever is started here is ended here.
"""

import concurrent.futures
import dataclasses
import statistics
import sys
import time
import typing

import guests
import relays
from report import spread
from watched import MIB

# Number of VMs that are started at once, and the size of each.
MANY, SMALL = 20, ("--cpus", "1", "--memory", "128MiB")
# The names that --only matches.
NAMES = (
    "VM: idle", "VM: first line, warm", "VM: first line, cold store", f"VM: {MANY} at once",
    "VM: console",
)


@dataclasses.dataclass
class Row:
    """A line of the table; cells are text, since lines compare different things."""

    name: str
    ours: str
    other: str
    goal: str
    met: typing.Optional[bool]

    def __str__(self):
        met = {True: "yes", False: "**no**", None: ""}[self.met]
        return f"| {self.name} | {self.ours} | {self.other} | {self.goal} | {met} |"


def is_about(word):
    """True if --only with this word selects one of our lines."""
    return any(word in name for name in NAMES)


def measure(root, coracle, rounds, only):
    """Rows whose name contains one of these words; all rows without any."""
    ways = zip(NAMES, (idle, warm, cold, many, lambda at, rounds: relays.rows(at, rounds, Row)))
    chosen = [way for name, way in ways if not only or any(word in name for word in only)]
    rows = []
    with guests.place(root, coracle) as at:
        for way in chosen:
            for row in way(at, rounds):
                print(f"bench: {row}", file=sys.stderr, flush=True)
                rows.append(row)
    return rows


def idle(at, rounds):
    """Memory of the launcher while the guest is idle, and of the processes beside it."""
    rss, dirty, beside = [], [], set()
    for _ in range(min(rounds, 3)):
        with at.run("idle", "tiny:1") as vm:
            vm.wait_for("tiny ready")
            # By then the memory of the start is released, or never.
            time.sleep(5)
            launcher = vm.launcher()
            rss.append(launcher["Rss"] / MIB)
            dirty.append(launcher["Private_Dirty"] / MIB)
            beside |= {process.name for process in vm.processes()} - {"virt-launcher"}
            qemu = vm.qemu()
    theirs = at.libvirtd.memory()
    yield Row(
        "VM: idle: the launcher's RSS / private dirty",
        f"**{statistics.median(rss):.1f}** / **{statistics.median(dirty):.1f} MiB**; beside it only {', '.join(sorted(beside))}"
        f" ({qemu['Rss'] / MIB:.0f} MiB)",
        f"libvirtd: {theirs['Rss'] / MIB:.1f} / {theirs['Private_Dirty'] / MIB:.1f} MiB",
        "≤ 30 / ≤ 10 MiB, no other process than QEMU",
        statistics.median(rss) <= 30 and statistics.median(dirty) <= 10
        and all(name.startswith("qemu-system") for name in beside) and len(beside) == 1,
    )


def warm(at, rounds):
    """Time from the command to the guest's first line, in turn with QEMU alone."""
    with at.run("warm", "tiny:1") as vm:
        vm.wait_for("tiny: Linux")
        bare = vm.bare()
    ours, told, alone, work, alone_work = [], [], [], [], []
    for _ in range(rounds):
        with at.run("warm", "tiny:1") as vm:
            told.append(vm.told)
            ours.append(vm.wait_for("tiny: Linux"))
            work.append(vm.cpu())
        with bare.run() as qemu:
            alone.append(qemu.wait_for("tiny: Linux"))
            alone_work.append(qemu.cpu())
    more = statistics.median(ours) - statistics.median(alone)
    yield Row(
        "VM: first line, warm: `coracle run -d` to the guest's first serial line",
        f"{spread(ours)} s (the command itself: {statistics.median(told):.2f} s;"
        f" CPU time of all: {statistics.median(work):.2f} s)",
        f"QEMU alone: {spread(alone)} s (CPU time: {statistics.median(alone_work):.2f} s)",
        f"≤ 0.5 s more: {more:+.2f} s", more <= 0.5,
    )


def cold(at, rounds):
    """The image is in a registry, and no file of it here; caches that a node keeps between VMs are warm on both sides."""
    image = at.publish("tiny:1")
    # Neither side measures its first start.
    with at.run("cold", image) as vm:
        vm.wait_for("tiny: Linux")
        bare = vm.bare()
    with at.libvirtd.by_hand(image) as vm:
        vm.wait_for("tiny: Linux")
    ours, theirs, alone, brought = [], [], [], []
    for _ in range(rounds):
        at.forget_images()
        with at.run("cold", image) as vm:
            ours.append(vm.wait_for("tiny: Linux"))
        with at.libvirtd.by_hand(image) as vm:
            theirs.append(vm.wait_for("tiny: Linux"))
            brought.append(vm.brought)
        with bare.run() as qemu:
            alone.append(qemu.wait_for("tiny: Linux"))
    # For the lines after this one.
    at.build()
    factor = statistics.median(theirs) / statistics.median(ours)
    guest = statistics.median(alone)
    own = [statistics.median(side) - guest for side in (ours, theirs)]
    # The part that no tool can shorten.
    boot = guest / statistics.median(ours)
    yield Row(
        "VM: first line, cold store, from a registry on this host",
        f"{spread(ours)} s, without QEMU and the guest {own[0]:.2f} s",
        f"`skopeo copy; tar; virsh create`: {spread(theirs)} s, without QEMU and the guest {own[1]:.2f} s"
        f" (bringing: {statistics.median(brought):.2f} s); QEMU alone: {spread(alone)} s",
        f"2 ×, or the boot is the limit: {factor:.2f} ×, the boot is {boot:.0%} of it", factor >= 2 or boot >= 0.8,
    )


def many(at, _rounds):
    """All at once, until each guest is ready."""
    with at.run("first", "tiny:1", *SMALL) as vm:
        vm.wait_for("tiny ready")
        bare = vm.bare()
    with all_of(lambda i: at.run(f"many-{i}", "tiny:1", *SMALL)) as (vms, seconds):
        ours, up = seconds, len(vms)
        memory = sum(process.memory()["Pss"] for vm in vms for process in vm.processes())
        launchers = sum(vm.launcher()["Pss"] for vm in vms)
        listed = [listing(at, len(vms)) for _ in range(21)]
    with all_of(lambda i: bare.run(str(i))) as (vms, seconds):
        alone = seconds
        alone_memory = sum(vm.memory()["Pss"] for vm in vms)
    yield Row(
        f"VM: {MANY} at once: until all are ready; all processes (PSS)",
        f"{ours:.1f} s, {memory / MIB:.0f} MiB, of which launchers {launchers / MIB:.0f} MiB",
        f"QEMU alone: {alone:.1f} s, {alone_memory / MIB:.0f} MiB", f"all up: {up} of {MANY}", up == MANY,
    )
    yield Row(
        f"VM: {MANY} at once: `coracle ps`, while their guests are idle",
        f"{spread([seconds * 1000 for seconds in listed])} ms", "–", "≤ 100 ms", statistics.median(listed) <= 0.1,
    )


def listing(at, count):
    """Seconds that `coracle ps` takes for a list of so many VMs."""
    begin = time.monotonic()
    said = at.tell("ps")
    seconds = time.monotonic() - begin
    if len(said.splitlines()) != count + 1:
        raise SystemExit(f"bench: coracle ps lists other VMs than the {count} that run: {said.decode()}")
    return seconds


class all_of:  # noqa: N801 (used as a word in `with`)
    """Many VMs, started at once; yields them and the seconds until the last was ready."""

    def __init__(self, start):
        self.start, self.vms = start, []

    def __enter__(self):
        begin = time.monotonic()
        try:
            with concurrent.futures.ThreadPoolExecutor(MANY) as pool:
                starts = [pool.submit(lambda i=i: self.start(i).__enter__()) for i in range(MANY)]
                failed = None
                for start in starts:
                    try:
                        self.vms.append(start.result())
                    except Exception as e:  # noqa: BLE001 (told below, when all that came up can be ended)
                        failed = e
                if failed:
                    raise failed
            for vm in self.vms:
                vm.wait_for("tiny ready", 900)
        except BaseException:
            self.__exit__()
            raise
        return self.vms, time.monotonic() - begin

    def __exit__(self, *_):
        for vm in self.vms:
            vm.__exit__()
