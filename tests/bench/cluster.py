"""Benchmarks of the cluster: the cost of the control plane in a real one, in time, memory and writes.

 ours    kubectl apply ──► API server ──► virt-controller ──► pod ──► virt-handler ──► virt-launcher ──► QEMU
 beside  what the API server, the scheduler, the kubelet, containerd, libvirt and QEMU take of it; or the same writes by
         a program that only writes

All of it happens in the cluster of cluster_place.py, which is ended before and after.
"""

import collections
import json
import pathlib
import shutil
import statistics
import sys
import tempfile
import time

import cluster_load
import cluster_reasons
import cluster_start
import cluster_watch
from cluster_audit import CONTROLLER, HANDLER
from cluster_place import is_qemu, tiny
from report import spread
from vms import Row
from watched import MIB

# VMIs on one node, and the CPU request of each: two cores have room for less than twenty with the default.
MANY, SMALL = 20, "20m"
# The names that --only matches.
NAMES = (
    "cluster: apply to QEMU", "cluster: object writes of one VMI", "cluster: reasons", "cluster: virt-handler",
    "cluster: 1,000 VMIs",
)


def is_about(word):
    """True if --only with this word selects one of our lines."""
    return any(word in name for name in NAMES)


def measure(at, rounds, only, small):
    """Rows whose name contains one of these words (all without any), and the lists below them."""
    ways = zip(NAMES, (start, writes, reasons, agent, thousand))
    chosen = [way for name, way in ways if not only or any(word in name for word in only)]
    rows, below = [], []
    at.small = small
    # The first start of each program is not measured.
    with at.space("warm") as space:
        cluster_start.once(at, space, "warm")
    for way in chosen:
        for row in way(at, rounds, below):
            print(f"bench: {row}", file=sys.stderr, flush=True)
            rows.append(row)
    return rows, below


def start(at, rounds, below):
    """From `kubectl apply` to running vCPUs, step by step; and the processes beside QEMU then."""
    with at.space("start") as space:
        starts = [cluster_start.once(at, space, f"start-{number}") for number in range(rounds)]
    whole, ours = [one.whole for one in starts], [one.ours for one in starts]
    admission = statistics.median(one.admission for one in starts)
    told = statistics.median(one.told for one in starts)
    yield Row(
        "cluster: apply to QEMU: a VM by `kubectl apply`, its image on the node, until its vCPUs run",
        f"{spread(whole)} s, of which ours {spread(ours)} s; told {told:.2f} s later", "the time line below",
        "≤ 3 s, ours ≤ 0.3 s", statistics.median(whole) <= 3 and statistics.median(ours) <= 0.3,
    )
    below += ["", "The time line of a start, medians:", "", "| until | whose | s |", "|---|---|---|"]
    for number, (whose, what) in enumerate(cluster_start.STEPS):
        seconds = statistics.median(one.steps[number] for one in starts)
        below.append(f"| {what} | {whose} | {seconds:.3f} |")
    below.append(f"| (of what the API server took: waiting for virt-api) | ours | {admission:.3f} |")
    beside = [sum(one.beside.values()) / MIB for one in starts]
    names = ", ".join(f"{name} {size / MIB:.1f}" for name, size in sorted(starts[-1].beside.items()))
    shim = statistics.median(one.shim for one in starts) / MIB
    yield Row(
        "cluster: memory of one launcher pod beside QEMU (PSS of all its processes)",
        f"{spread(beside)} MiB ({names})", f"containerd's shim: {shim:.1f} MiB", "≤ 35 MiB",
        statistics.median(beside) <= 35,
    )


def writes(at, _rounds, _below):
    """The writes of one VMI until it is ready."""
    mark = at.audit.mark()
    with at.space("writes") as space:
        with cluster_watch.vmis(at, space) as watch:
            at.apply(space, [tiny("one")])
            watch.until(cluster_watch.serves, "the VMI runs")
        # Late writes are counted, too.
        time.sleep(5)
        made = [write for write in at.audit.since(mark, space) if write.who in (CONTROLLER, HANDLER)]
    objects = collections.Counter(str(write) for write in made if write.what != "events")
    events = sum(write.what == "events" for write in made)
    count = sum(objects.values())
    yield Row(
        "cluster: object writes of one VMI, from its creation until its status is complete",
        f"**{count}**: " + ", ".join(f"{number} × {kind}" for kind, number in sorted(objects.items())),
        f"events: {events}", "≤ 8", count <= 8,
    )


def reasons(at, rounds, _below):
    """Delay from the pod's status, or an event of it, to the VMI's condition."""
    for name, way in (
        ("an image that is missing", cluster_reasons.missing_image),
        ("no node that fits", cluster_reasons.unschedulable),
    ):
        with at.space("reasons") as space:
            told = [way(at, space, f"waits-{number}") for number in range(rounds)]
        conditions, events = ([one[which] for one in told] for which in (0, 1))
        each = [seconds for one in told for seconds in one[2]]
        yield Row(
            f"cluster: reasons: {name}, from the pod or its event to a condition / an event of the VMI",
            f"{spread(conditions)} / {spread(events)} s", f"each of {len(each)} that were repeated: {spread(each)} s",
            "≤ 1 s, each of them", max(conditions + events + each) <= 1,
        )


def agent(at, _rounds, _below):
    """The memory of virt-handler, without VMIs and with many."""
    time.sleep(5)
    idle = at.held("virt-handler")
    with at.space("agent") as space:
        names = [f"many-{number}" for number in range(MANY)]
        with cluster_watch.vmis(at, space) as watch:
            at.apply(space, [tiny(name, memory="128Mi", cpu=SMALL) for name in names])
            for name in names:
                watch.until(lambda thing, name=name: cluster_watch.serves(thing) and thing["metadata"]["name"] == name,
                            f"{name} runs", 900)
        time.sleep(5)
        many = at.held("virt-handler")
        beside = []
        for pod in at.get("-n", space, "pods")["items"]:
            inside = at.in_pod(pod["metadata"]["uid"])
            beside.append(sum(process.memory()["Pss"] for process in inside if not is_qemu(process)))
    yield Row(
        f"cluster: virt-handler: RSS, idle / with {MANY} VMIs", f"**{idle / MIB:.1f}** / **{many / MIB:.1f} MiB**",
        f"each pod's memory beside QEMU, of {MANY}: {spread([size / MIB for size in beside])} MiB (PSS)",
        "≤ 30 / ≤ 50 MiB", idle <= 30 * MIB and many <= 50 * MIB,
    )


def thousand(at, rounds, below):
    """A thousand VMIs at once on nodes of kwok."""
    program = at.coracle.parent / "examples/load"
    if not program.exists():
        # `make bench` builds it; a run of the benchmark alone may lack it.
        return
    if at.small:
        cluster_load.COUNT = 100
    cluster_load.make_nodes(at)
    work = pathlib.Path(tempfile.mkdtemp(prefix="bench-", dir="/var/tmp"))
    try:
        # A thousand are many enough for one round, which takes minutes; more where more than usual are asked for.
        done = [cluster_load.once(at, program, work) for _ in range(max(1, rounds // 5))]
    finally:
        shutil.rmtree(work)
    ours = [one.ours["seconds"] for one in done]
    plain, own = ([one.plain[what] for one in done] for what in ("all", "own"))
    factor = statistics.median(ours) / statistics.median(plain)
    count = cluster_load.COUNT
    yield Row(
        f"cluster: {count:,} VMIs at once, until every pod runs and every status is complete",
        f"{spread(ours)} s ({statistics.median(one.ours['made'] for one in done):.1f} s to make them)",
        f"the same {done[-1].plain['writes']:,} writes without virt-controller: {spread(plain)} s until every pod runs,"
        f" {spread(own)} s until the last write", f"≤ 1.7 ×: {factor:.2f} ×", factor <= 1.7,
    )
    held = {name: max(one.held[name] for one in done) for name in cluster_load.PROGRAMS}
    yield Row(
        f"cluster: {count:,} VMIs: RSS of " + " / ".join(held),
        " / ".join(f"**{size / MIB:.1f}**" for size in held.values()) + " MiB", "–", "≤ 100 MiB each",
        max(held.values()) <= 100 * MIB,
    )
    last = done[-1]
    work = sorted(((seconds, name) for name, seconds in last.work.items() if seconds >= 0.1), reverse=True)
    below += [
        "", f"Of {count:,} VMIs at once, the last round:", "",
        "- writes: " + ", ".join(f"{number:,} × {kind}" for kind, number in sorted(last.kinds.items())),
        f"- CPU seconds, in {last.ours['seconds']:.1f} s on the host's cores: "
        + ", ".join(f"{name} {seconds:.1f}" for seconds, name in work),
    ]
    print(f"bench: {json.dumps(last.kinds)}", file=sys.stderr, flush=True)
