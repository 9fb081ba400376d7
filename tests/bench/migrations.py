"""Benchmarks of live migration, in a cluster of two nodes on this host.

 ours    VirtualMachineInstanceMigration ──► a second pod ──► launcher ── virt-handler ═ TLS ═ virt-handler ── launcher
 other   virsh migrate --p2p ──► libvirtd ═ TCP ═ libvirtd, of our image and with the same domain

Each hop of ours is followed by one of the other, with both guests running. See migrations_ours.py, migrations_peer.py and
migrations_guest.py for each part.
"""

import collections
import concurrent.futures
import contextlib
import dataclasses
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import typing

import cluster_watch
import libvirtd
import migrations_guest
import migrations_peer
from cluster_audit import CONTROLLER, HANDLER, seconds
from cluster_place import vm
from migrations_ours import PHASES, Ours, Watches, Wire, claim, guest, is_of, phase, policy
from report import spread
from vms import Row
from watched import MIB

# Hops of the idle guest on each side.
HOPS = 10
# Milliseconds of downtime that libvirt permits by itself; ours permits 900, as upstream does.
DOWNTIME = 300
# The disk that moves along, and the data in it.
DISK, DATA = 1024 * MIB, 307 * MIB
# Guests on the node that is drained, and migrations at once.
DRAINED, AT_ONCE = 10, 2
# MiB in each second, and seconds for each GB, for a guest that writes more.
SLOW, LIMIT = 4, 60
# Bytes in each second of the migration whose progress is counted, and its interval in seconds.
CRAWL, TOLD = "2Mi", 10
# The names that --only matches.
NAMES = (
    "migration: idle guest", "migration: local disk", "migration: busy guest", "migration: drain", "migration: writes",
)


def is_about(word):
    """True if --only with this word selects one of our lines."""
    return word.startswith("migration")


def measure(at, rounds, only, small):
    """Rows whose name contains one of these words (all without any), and the lists below them."""
    ways = zip(NAMES, (idle, local_disk, busy, drain, writes))
    chosen = [way for name, way in ways if not only or any(word in name for word in only)]
    rows, below = [], []
    at.small = small
    with place(at) as at.others:
        for way in chosen:
            for row in way(at, rounds, below):
                print(f"bench: {row}", file=sys.stderr, flush=True)
                rows.append(row)
    return rows, below


@contextlib.contextmanager
def place(at):
    """The other side's hosts. Its folder has a short path, since it holds sockets."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp"))
    # QEMU and the launchers are other users.
    folder.chmod(0o755)
    try:
        tiny = pathlib.Path(at.run([at.root / "images/guests/tiny/build"]).strip())
        for name in ("vmlinux", "initrd"):
            shutil.copyfile(tiny / name, folder / name)
        files = image(at, folder)
        commands = (["/usr/sbin/libvirtd", "--version"], ["/usr/bin/qemu-system-x86_64", "--version"])
        at.image = "; ".join(at.run(["chroot", files, *command]).split("\n")[0].split(" (Debian")[0] for command in commands)
        with migrations_peer.Peer(folder, files) as peer:
            yield peer
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def image(at, folder):
    """The files of the launcher's image, which a pod of it names."""
    with at.space("bench-image") as space:
        at.apply(space, [guest("image")])
        with cluster_watch.pods(at, space) as pods:
            _, pod = pods.until(lambda one: phase(one) == "Running", "a launcher runs")
    name = next(part["image"] for part in pod["spec"]["containers"] if part["name"] == "compute").split("/", 1)[1]
    registry = at.tool("info", "registry").strip()
    libvirtd.shell(f"""cd {folder}; skopeo copy -q --src-tls-verify=false docker://{registry}/{name} dir:image; mkdir files
        for layer in $(jq -r '.layers[].digest[7:]' image/manifest.json); do tar -C files -xf image/$layer; done; rm -r image""")
    return folder / "files"


@dataclasses.dataclass
class Other:
    """A guest on the other side."""

    peer: migrations_peer.Peer
    name: str
    xml: str
    # Index of its host.
    here: int = 0
    counted: typing.Optional[migrations_guest.Counted] = None

    @property
    def host(self):
        return self.peer.hosts[self.here]

    def start(self, look=migrations_guest.LOOK):
        (self.peer.folder / f"{self.name}.xml").write_text(self.xml)
        self.host.virsh("create", self.peer.folder / f"{self.name}.xml")
        self.counted = migrations_guest.Counted(lambda: [self.log(host) for host in self.peer.hosts], look)
        self.counted.counts(longest=900)

    def end(self):
        if self.counted:
            self.counted.__exit__()
            self.host.virsh("destroy", self.name)

    def log(self, host):
        """Each host has its own one at the same path."""
        return host.local / f"{self.name}.log"

    def migrate(self, *options):
        """Seconds of the command, and the bytes on the wire."""
        source, target = self.host, self.peer.hosts[1 - self.here]
        # Lines of an earlier stay are not those of this one.
        self.log(target).unlink(missing_ok=True)
        self.counted.files.pop(self.log(target), None)
        before, began = source.sent(), time.monotonic()
        command = source.begin_migration(self.name, target, *options)
        said = command.communicate()[0]
        took = time.monotonic() - began
        if command.returncode:
            sys.exit(f"bench: virsh migrate {' '.join(options)}: {said}")
        self.here = 1 - self.here
        return took, source.sent() - before

    def pause(self):
        """Seconds for which the guest stood still in its last migration."""
        now, before = self.log(self.host), self.log(self.peer.hosts[1 - self.here])
        self.counted.counts(now)
        return self.counted.pause(before, now)


@contextlib.contextmanager
def other(at, ours, disks=None):
    """A guest of the other side that is like one of ours, which runs."""
    guest = like(at, ours, disks or {})
    try:
        guest.start()
        yield guest
    finally:
        guest.end()


def like(at, ours, disks):
    """Such a guest, before its start. `disks`: files by the names of the guest's disks, but for the last one, the seed."""
    folder, pod, xml = at.others.folder, ours.launcher(), ours.xml()
    root = at.of_kubelet(pod["metadata"]["uid"], pod["spec"]["nodeName"]) / "private/root"
    last, seed = f"vd{'ab'[len(disks)]}", folder / f"{ours.name}-seed"
    shutil.copyfile(root / migrations_peer.file_of(xml, last).partition("-private/root/")[2], seed)
    log = f"{migrations_peer.LOCAL}/{ours.name}.log"
    files = {**disks, last: seed}
    return Other(at.others, ours.name, migrations_peer.domain(xml, ours.name, log, folder / "vmlinux", folder / "initrd", files))


def pause(ours, hop):
    """Seconds for which the guest of ours stood still. The hop gets the end of its job: `endTimestamp` may have whole seconds alone."""
    source, target = (migrations_guest.console(ours.at, pod) for pod in (hop.source, hop.target))
    ours.counted.counts(target)
    hop.job = ours.counted.files[target].numbers[0][1] - seconds(hop.state["startTimestamp"])
    return ours.counted.pause(source, target)


def idle(at, _rounds, below):
    """A guest with a shared disk goes to and fro. Each second hop of ours has libvirt's own limit of the downtime."""
    hops = 2 if at.small else HOPS
    shared = at.others.folder / "shared.raw"
    with at.space("hop-idle") as space, Ours(at, space, "idle") as ours:
        ours.start(guest("idle", claim="data"), [claim("data", "64Mi", "ReadWriteMany")])
        with open(shared, "wb") as file:
            file.truncate(64 * MIB)
        made, theirs, stood, limited, wires = [], [], ([], []), [], []
        with other(at, ours, {"vda": shared}) as beside:
            # The first hop of each side is not measured: caches of libvirt and QEMU.
            ours.migrate("warm")
            beside.migrate()
            for number in range(hops):
                with Wire(at, ours.launcher()["spec"]["nodeName"]) as wire:
                    made.append(ours.migrate(f"hop-{number}"))
                    wires.append(wire.sent())
                stood[0].append(pause(ours, made[-1]))
                theirs.append(beside.migrate())
                stood[1].append(beside.pause())
                with policy(at, space, maxDowntimeMs=DOWNTIME):
                    limited.append(pause(ours, ours.migrate(f"limited-{number}")))
    at.memory = statistics.median(wires)
    jobs, whole = [hop.job for hop in made], [hop.whole for hop in made]
    alone = [took for took, _ in theirs]
    factor = statistics.median(jobs) / statistics.median(alone)
    sent = statistics.median(sent for _, sent in theirs)
    yield Row(
        f"migration: idle guest of 256 MiB, shared disk: the job, {hops} hops",
        f"{spread(jobs)} s, {at.memory / MIB:.0f} MiB on the wire",
        f"`virsh migrate --p2p`: {spread(alone)} s, {sent / MIB:.0f} MiB",
        f"≤ 1.3 ×: {factor:.2f} ×", factor <= 1.3,
    )
    more = statistics.median(hop.whole - hop.job for hop in made)
    yield Row(
        "migration: idle guest: from the request to Succeeded", f"{spread(whole)} s", "the time line below",
        f"≤ the job + 3 s: + {more:.2f} s", more <= 3,
    )
    them = statistics.median(stood[1])
    beside = f"`virsh migrate --p2p`: {spread([1000 * one for one in stood[1]])} ms"
    most = 1000 * (1.2 * them + 0.03)
    for name, times in (("", stood[0]), (f" with `maxDowntimeMs: {DOWNTIME}`", limited)):
        mine = 1000 * statistics.median(times)
        yield Row(
            f"migration: idle guest: downtime, from one number of the guest to the next{name}, {hops} hops",
            f"{spread([1000 * one for one in times])} ms", beside,
            f"≤ 1.2 × + 30 ms ({most:.0f} ms), ≤ 300 ms: {mine / 1000 / them:.2f} ×", mine <= min(most, 300),
        )
    below += ["", "The time line of a migration, medians of the seconds since the request:", "", "| seen | s |", "|---|---|"]
    for name in PHASES:
        came = [hop.phases[name] for hop in made if name in hop.phases]
        if came:
            below.append(f"| {name} | {statistics.median(came):.2f} |")
    runs = statistics.median(hop.job + seconds(hop.state["startTimestamp"]) - hop.began for hop in made)
    below.append(f"| the guest's first number at the target | {runs:.2f} |")


def local_disk(at, rounds, _below):
    """A guest with a disk that one node can use, which is copied."""
    disk, data = (DISK // 8, DATA // 8) if at.small else (DISK, DATA)
    master, made, theirs, mine, stood = at.others.folder / "master.raw", [], [], [], ([], [])
    with open(master, "wb") as file:
        for _ in range(data // MIB):
            file.write(os.urandom(MIB))
        file.truncate(disk)
    with at.space("hop-disk") as space, Ours(at, space, "disk") as ours:
        at.apply(space, [claim("data", f"{disk // MIB}Mi", "ReadWriteOnce", "immediate")])
        volume = lambda name: at.get("-n", space, "pvc", name)["spec"].get("volumeName", "")  # noqa: E731
        at.until(lambda: volume("data"), "the PVC is bound")

        def file_of(name):
            return at.state / "volumes" / volume(name) / "disk.img"

        fill(master, file_of("data"))
        os.chown(file_of("data"), 107, 107)
        ours.start(guest("disk", claim="data"))
        for host in at.others.hosts:
            fill(master if host is at.others.hosts[0] else None, host.local / "disk.raw", disk)
        with other(at, ours, {"vda": pathlib.Path(migrations_peer.LOCAL) / "disk.raw"}) as beside:
            for number in range(rounds):
                with Wire(at, ours.launcher()["spec"]["nodeName"]) as wire:
                    made.append(ours.migrate(f"disk-{number}"))
                    mine.append(wire.sent())
                stood[0].append(pause(ours, made[-1]))
                # As a disk that is not there yet.
                fill(None, at.others.hosts[1 - beside.here].local / "disk.raw", disk)
                theirs.append(beside.migrate("--copy-storage-all", "--migrate-disks", "vda"))
                stood[1].append(beside.pause())
            same(beside.host.local / "disk.raw", master)
        name = next(v for v in at.get("-n", space, "vmi", "disk")["spec"]["volumes"] if v["name"] == "data")
        moved = file_of(name["persistentVolumeClaim"]["claimName"])
        same(moved, master)
        allocated = moved.stat().st_blocks * 512
    jobs, alone = [hop.job for hop in made], [took for took, _ in theirs]
    factor = statistics.median(jobs) / statistics.median(alone)
    yield Row(
        f"migration: local disk of {disk // MIB} MiB with {data // MIB} MiB of data: the job",
        f"{spread(jobs)} s (from the request: {spread([hop.whole for hop in made])} s; downtime"
        f" {1000 * statistics.median(stood[0]):.0f} ms)",
        f"`virsh migrate --p2p --copy-storage-all`: {spread(alone)} s (downtime {1000 * statistics.median(stood[1]):.0f} ms)",
        f"≤ 1.3 ×: {factor:.2f} ×", factor <= 1.3,
    )
    memory = getattr(at, "memory", 0)
    sent, them, used = statistics.median(mine), statistics.median(sent for _, sent in theirs), data + memory
    goal = f"≤ 1.1 × of the data and of the idle guest's memory ({used / MIB:.0f} MiB): {sent / used:.2f} ×"
    yield Row(
        "migration: local disk: bytes on the wire, and allocated at the target",
        f"**{sent / MIB:.0f}** and {allocated / MIB:.0f} MiB", f"`virsh`: {them / MIB:.0f} MiB on the wire",
        goal if memory else "–", sent <= 1.1 * used if memory else None,
    )


def fill(master, path, size=0):
    """A sparse file with the content of another one, or an empty one. The same file: it may be in use."""
    path.parent.mkdir(exist_ok=True)
    if master:
        subprocess.run(["cp", "--sparse=always", master, path], check=True)
    else:
        with open(path, "wb") as file:
            file.truncate(size)


def same(path, master):
    if subprocess.run(["cmp", "-s", path, master]).returncode:
        sys.exit(f"bench: {path} is not the disk that was migrated")


def busy(at, _rounds, _below):
    """A guest that writes memory faster than the link carries it."""
    bound = f"at {SLOW} MiB/s, a guest that writes {migrations_guest.BUSY} MiB over and over"
    with at.space("hop-busy") as space, Ours(at, space, "busy") as ours:
        ours.start(guest("busy", migrations_guest.WRITES))
        with other(at, ours) as beside:
            slow = ("--bandwidth", str(SLOW))
            limits = {"bandwidthPerMigration": f"{SLOW}Mi"}
            with policy(at, space, **limits, completionTimeoutPerGiB=5 * LIMIT, allowAutoConverge=True):
                hop = ours.migrate("slower", longest=900)
            still = pause(ours, hop)
            took, _ = beside.migrate(*slow, "--auto-converge")
            yield Row(
                f"migration: busy guest: auto-converge, {bound}",
                f"Succeeded after {hop.job:.1f} s ({state_mode(hop)}), downtime {1000 * still:.0f} ms",
                f"`virsh … --auto-converge`: {took:.1f} s, downtime {1000 * beside.pause():.0f} ms",
                f"ends within its timeout ({5 * LIMIT} s)", hop.job <= 5 * LIMIT,
            )
            with policy(at, space, **limits, completionTimeoutPerGiB=LIMIT, allowPostCopy=True):
                hop = ours.migrate("paused", longest=900)
            still = pause(ours, hop)
            took, _ = beside.migrate(*slow, "--timeout", str(LIMIT), "--timeout-suspend")
            yield Row(
                f"migration: busy guest: `allowPostCopy`, which pauses it after {LIMIT} s",
                f"Succeeded after {hop.job:.1f} s ({state_mode(hop)}), downtime {1000 * still:.0f} ms",
                f"`virsh … --timeout-suspend`: {took:.1f} s, downtime {1000 * beside.pause():.0f} ms",
                f"ends within 2 × {LIMIT} s", hop.job <= 2 * LIMIT,
            )
            with policy(at, space, **limits, completionTimeoutPerGiB=LIMIT, allowAutoConverge=False):
                hop = ours.migrate("refused", "Failed", 900)
                hop.job = seconds(hop.state["endTimestamp"]) - seconds(hop.state["startTimestamp"])
            ours.counted.counts(ours.log())
            why = hop.state.get("failureReason", "")
            yield Row(
                f"migration: busy guest: neither, {LIMIT} s allowed",
                f"Failed after {hop.job:.1f} s: “{why}”; the guest runs on", "–",
                f"a reason within {LIMIT} s (+ 5 s)", bool(why) and hop.job <= LIMIT + 5,
            )


def state_mode(hop):
    return hop.state.get("mode", "")


def drain(at, _rounds, below):
    """A node with many VMs is emptied. One of them cannot migrate."""
    count = 3 if at.small else DRAINED
    names, away = [f"vm-{number}" for number in range(count)], "node2"
    is_away = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [away]}]}
    prefers = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": is_away}]}
    spec = {"affinity": {"nodeAffinity": prefers}, "evictionStrategy": "LiveMigrate"}
    stays = guest("stays", memory="128Mi", **spec)
    stays["spec"]["domain"]["devices"]["interfaces"] = [{"name": "default", "bridge": {}}]
    with at.space("hop-drain") as space, contextlib.ExitStack() as opened:
        watches = Watches(at, space)
        opened.callback(watches.end)
        vmis = watches.vmis
        at.apply(space, [vm(stays)])
        guests = {name: opened.enter_context(Ours(at, space, name, watches, look=0.1)) for name in names}
        # One after another: of many kernels that boot at once on a few processors some take one that is late for lost.
        for name, one in guests.items():
            at.apply(space, [vm(guest(name, memory="128Mi", **spec))])
            is_there = lambda vmi, name=name: is_of(vmi, name) and on(vmi) == away and cluster_watch.serves(vmi)  # noqa: E731
            vmis.until(is_there, f"{name} is on {away}", 900)
            one.counted.counts(longest=900)
        others = [like(at, one, {}) for one in guests.values()]
        vmis.until(lambda vmi: is_of(vmi, "stays") and cluster_watch.serves(vmi), "the one that stays runs", 900)
        uids = {name: at.get("-n", space, "vmi", name)["metadata"]["uid"] for name in names}
        began = time.time()
        command = ("drain", away, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=900s")
        said = at.others.folder / "drain"
        with open(said, "w") as file:
            draining = subprocess.Popen(at.command("kubectl", *command), env=at.env, stdout=file, stderr=file)
        try:
            has_left = lambda vmi, name: is_of(vmi, name) and on(vmi) not in ("", away)  # noqa: E731
            came = [vmis.until(lambda vmi, name=name: has_left(vmi, name), f"{name} has left", 900)[0] for name in names]
            for one in guests.values():
                one.counted.counts(migrations_guest.console(at, one.launcher()))
        finally:
            draining.terminate()
            draining.wait()
            at.kubectl("uncordon", away)
        took = max(came) - began
        now = {name: at.get("-n", space, "vmi", name)["metadata"]["uid"] for name in names}
        logs = [one.counted.files[path].text for one in guests.values() for path in [one.log()]]
        restarted = sum(now[name] != uids[name] for name in names) + sum(b"tiny ready" in text for text in logs)
        with watches.moves.news:
            most, done = at_once(watches.moves.seen)
        left = at.get("-n", space, "vmi", "stays")
        why = cluster_watch.conditions(left).get("LiveMigratable", {})
        refused = [line for line in said.read_text().splitlines() if "stays" in line and "rror" in line]
    alone = by_hand(others)
    says = f"`{refused[-1].strip()[:300]}`" if refused else "nothing"
    below += ["", f"Of the VM that cannot migrate, `kubectl drain` says: {says}"]
    yield Row(
        f"migration: drain of a node with {count} VMs, and one that cannot migrate, until they have left",
        f"{took:.1f} s in {done} migrations, {most} at once; restarted: {restarted}; the one stays: {why.get('reason')}",
        f"{count} × `virsh migrate --p2p`, {AT_ONCE} at once: {alone:.1f} s",
        "all moved, no restart, a reason", restarted == 0 and on(left) == away and why.get("status") == "False",
    )


def by_hand(others):
    """Seconds of the same migrations on the other side."""
    try:
        for one in others:
            one.start(look=0.1)
        began = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda one: one.migrate(), others))
        took = time.monotonic() - began
        for one in others:
            one.pause()
        return took
    finally:
        for one in others:
            one.end()


def on(vmi):
    return vmi.get("status", {}).get("nodeName", "")


def at_once(seen):
    """The most migrations that ran at the same time, and how many there were."""
    running, most, all_of = set(), 0, set()
    for _, move in seen:
        name = move["metadata"]["name"]
        all_of.add(name)
        running.discard(name)
        if phase(move) in PHASES[1:-1]:
            running.add(name)
        most = max(most, len(running))
    return most, len(all_of)


def writes(at, _rounds, below):
    """The writes of one migration, and those that tell the progress of a slow one."""
    if not at.audit.path.exists():
        print("bench: the writes of a migration are left out: the cluster has no audit log (AUDIT=1)", file=sys.stderr)
        return
    with at.space("hop-writes") as space, Ours(at, space, "writes") as ours:
        ours.start(guest("writes"))
        counts = []
        for name, limits in (("plain", {}), ("slow", {"bandwidthPerMigration": CRAWL, "completionTimeoutPerGiB": 900})):
            with policy(at, space, **limits):
                ours.launcher()
                # Late writes about the VMI's start are not counted.
                time.sleep(10)
                mark = at.audit.mark()
                hop = ours.migrate(name, longest=900)
                pause(ours, hop)
                ours.launcher()
                time.sleep(10)
                made = [write for write in at.audit.since(mark, space) if write.who in (CONTROLLER, HANDLER)]
            objects = collections.Counter(str(write) for write in made if write.what != "events")
            counts.append((hop, objects, len(made) - sum(objects.values())))
    (plain, objects, events), (slow, more, more_events) = counts
    count = sum(objects.values())
    yield Row(
        f"migration: writes of the control plane for one migration (of {plain.whole:.0f} s)",
        f"**{count}**: " + ", ".join(f"{number} × {kind}" for kind, number in sorted(objects.items())),
        f"events: {events}", "≤ 20", count <= 20,
    )
    progress, allowed = sum(more.values()) - count, math.ceil(slow.job / TOLD)
    yield Row(
        f"migration: writes of one that takes {slow.job:.0f} s, besides those", f"**{progress}**", f"events: {more_events}",
        f"≤ one each {TOLD} s: {allowed}", progress <= allowed,
    )
