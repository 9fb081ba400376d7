"""Requests to virt-api: starts at a steady pace, memory per VMI, and the start of the client program."""

import concurrent.futures
import os
import statistics
import subprocess
import threading
import time

from api_wire import PATIENCE
from cluster_place import HOME, tiny, vm
from report import percent, spread
from watched import MIB

# Number of VMs that are started, each once, and starts per second.
STARTS, STARTS_SMALL, PACE = 500, 50, 50
# Maximum number of concurrent requests: enough that none waits for another here.
AT_ONCE = 32
# VMIs that are made as long as there is time, and before any is counted: virt-api has seen all kinds of requests then.
KNOWN, KNOWN_SMALL, FEW, LONGEST = 10_000, 300, 300, 80
# Tolerated difference of memory between two moments.
NOISE = 2 * MIB
PROGRAM_RUNS = 30


class Pool:
    """Threads with one connection each."""

    def __init__(self, server):
        self.server, self.mine, self.open = server, threading.local(), []
        self.threads = concurrent.futures.ThreadPoolExecutor(AT_ONCE, initializer=self.connect)

    def connect(self):
        self.mine.connection = self.server.connection().__enter__()
        self.open.append(self.mine.connection)

    def __enter__(self):
        # Every thread has its connection before anything is measured.
        gate = threading.Barrier(AT_ONCE)
        list(self.threads.map(lambda _: gate.wait(PATIENCE), range(AT_ONCE)))
        return self

    def __exit__(self, *_):
        self.threads.shutdown(cancel_futures=True)
        for connection in self.open:
            connection.__exit__()

    def ask(self, *request):
        return self.threads.submit(lambda: self.mine.connection.ask(*request))

    def all(self, requests):
        return [asked.result() for asked in [self.ask(*request) for request in requests]]

    def paced(self, requests):
        """Seconds of each request; PACE of them begin in a second."""
        begin, asked = time.monotonic(), []
        for number, request in enumerate(requests):
            time.sleep(max(0, begin + number / PACE - time.monotonic()))
            asked.append(self.ask(*request))
        return [one.result() for one in asked]


def starts(scene, rounds):
    """Time from a request to its answer, compared with a change of the same VMs by the API server alone."""
    count = (STARTS_SMALL if scene.small else STARTS) // rounds
    space = "starts"
    # Left for the cluster's end: the removal of so many takes longer than all of this.
    scene.at.kubectl("create", "namespace", space)
    objects = f"/apis/kubevirt.io/v1/namespaces/{space}/virtualmachines"
    actions = f"/apis/subresources.kubevirt.io/v1/namespaces/{space}/virtualmachines"
    names = [f"vm-{number}" for number in range(count * rounds)]
    ours, plain = [], []
    note = {"metadata": {"annotations": {"bench": "noted"}}}
    with Pool(scene.server) as pool:
        pool.all([("POST", objects, halted(name)) for name in names])
        for number in range(rounds):
            some = names[number * count:][:count]
            plain += pool.paced([("PATCH", f"{objects}/{name}", note, "application/merge-patch+json") for name in some])
            ours += pool.paced([("PUT", f"{actions}/{name}/start", {}) for name in some])
    last, beside = (percent(times, 99) * 1000 for times in (ours, plain))
    yield (
        f"api: start: request to answer, {PACE} a second, of {len(names)} VMs",
        f"p99 **{last:.1f} ms**, median {statistics.median(ours) * 1000:.1f} ms",
        f"PATCH of the same VMs' annotations: p99 {beside:.1f} ms, median {statistics.median(plain) * 1000:.1f} ms",
        "p99 ≤ 50 ms", last <= 50,
    )


def halted(name):
    """A VM that is off; no node suits it when it is started."""
    made = vm(tiny(name, nodeSelector={"nowhere": "at-all"}))
    made["spec"]["runStrategy"] = "Manual"
    return made


def binary(scene, _rounds):
    """Time from the start of the program to its first byte of output."""
    virtctl = scene.at.tool("info", "virtctl").strip()
    ours, theirs = [], []
    for _ in range(PROGRAM_RUNS):
        ours.append(first_byte([scene.at.coracle, "virt"]))
        theirs.append(first_byte([virtctl]))
    factor = statistics.median(theirs) / statistics.median(ours)
    ours, theirs = ([seconds * 1000 for seconds in side] for side in (ours, theirs))
    sizes = [os.stat(path).st_size / MIB for path in (scene.at.coracle, virtctl)]
    yield (
        f"api: binary: `coracle virt version --client` until its first byte ({sizes[0]:.0f} MiB)",
        f"{spread(ours)} ms", f"virtctl ({sizes[1]:.0f} MiB): {spread(theirs)} ms", f"5 ×: {factor:.1f} ×", factor >= 5,
    )


def first_byte(command):
    began = time.monotonic()
    child = subprocess.Popen([*command, "version", "--client"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with child:
        if not os.read(child.stdout.fileno(), 1):
            raise SystemExit(f"bench: {command} says nothing")
        took = time.monotonic() - began
        child.stdout.read()
    return took


def known(scene, _rounds):
    """The memory of virt-api before and after many VMIs were made. virt-controller is off: it would make their pods."""
    at, space, most = scene.at, "known", KNOWN_SMALL if scene.small else KNOWN
    at.kubectl("-n", HOME, "scale", "deployment/virt-controller", "--replicas=0")
    at.kubectl("create", "namespace", space)
    path = f"/apis/kubevirt.io/v1/namespaces/{space}/virtualmachineinstances"

    def make(pool, begin, end):
        pool.all([("POST", path, tiny(f"vmi-{number}")) for number in range(begin, end)])

    with Pool(scene.server) as pool:
        make(pool, 0, FEW)
        time.sleep(5)
        before, made, end = at.held("virt-api"), FEW, time.monotonic() + LONGEST
        while made < most + FEW and time.monotonic() < end:
            make(pool, made, made + 100)
            made += 100
        time.sleep(5)
        after = at.held("virt-api")
    yield (
        f"api: VMIs known: RSS of virt-api with {made:,} VMIs", f"**{after / MIB:.1f} MiB**",
        f"with {FEW}: {before / MIB:.1f} MiB", "≤ 100 MiB, no growth (within 2 MiB)",
        after <= 100 * MIB and after - before <= NOISE,
    )
