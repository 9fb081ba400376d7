"""Benchmarks of imports in a cluster: the time to the first byte, many imports at once, an upload through the proxy,
and an image that the node has.

 ours    DataVolume ──► virt-controller ──► PVC, pod ──► scheduler, kubelet ──► cdi-worker ──► the first request
 beside  the scheduler and the kubelet alone; the same pods without virt-controller; the same bytes through TLS; what one does
         on the node by hand

All of it happens in the cluster of cluster_place.py; the server of small disks is in this process, on the address of
the host that pods reach.
"""

import contextlib
import http.server
import json
import statistics
import sys
import threading
import time

import cluster_load
import cluster_watch
import imports
import measure as measured
from cluster_audit import CONTROLLER, SCHEDULER, USER
from report import spread
from vms import Row

# Number of disks of each kind, blank and from a server, at once.
MANY = 100
# Pause between two DataVolumes.
STEPS = (
    ("API server", "its DataVolume is stored"), ("ours", "its PVC is made"), ("ours", "its pod is made"),
    ("scheduler", "the pod has a node"), ("kubelet, ours", "the first byte is asked for"), ("ours", "its status says so"),
)
# The names that --only matches.
NAMES = (
    "import: DataVolume to its first byte", "import: blank and small ones at once", "import: upload through the proxy",
    "import: containerDisk by node pull",
)


def is_about(word):
    """True if --only with this word selects a line about imports."""
    return word.startswith("import")


def measure(at, rounds, only, small, have):
    """Rows whose name contains one of these words; all rows without any."""
    ways = zip(NAMES, (first_byte, at_once, upload, node_pull))
    chosen = [way for name, way in ways if not only or any(word in name for word in only)]
    rows = []
    at.small, at.have = small, have
    with small_disks(at.tool("info", "gateway").strip()) as server:
        at.server = server
        # The first pod of an image is not measured.
        with at.space("import-warm") as space:
            begun(at, space, "warm")
        for way in chosen:
            for row in way(at, rounds):
                print(f"bench: {row}", file=sys.stderr, flush=True)
                rows.append(row)
    return rows


def first_byte(at, rounds):
    """From `kubectl create` of a DataVolume to the first request that its pod makes."""
    with at.space("import-first") as space:
        steps = [begun(at, space, f"disk-{number}") for number in range(rounds)]
    whole = [one[4] for one in steps]
    medians = [statistics.median(one[number] for one in steps) for number in range(len(STEPS))]
    line = "; ".join(f"{what} {seconds:.2f}" for (_, what), seconds in zip(STEPS, medians))
    yield Row(
        f"{NAMES[0]}, the image on the node", f"{spread(whole)} s", f"seconds until {line}",
        "≤ 2 s", statistics.median(whole) <= 2,
    )


def begun(at, space, name):
    """Seconds from the request that makes a DataVolume to the end of each step."""
    mark = at.audit.mark()
    with volumes(at, space) as watch:
        path = f"/{space}-{name}.img"
        at.kubectl("-n", space, "create", "-f", "-", stdin=json.dumps(volume(name, {"http": {"url": at.server.url(path)}})))
        told, _ = watch.until(lambda one: is_of(one, name) and phase(one) in ("ImportInProgress", "Succeeded"), f"{name} begins")
        watch.until(lambda one: is_of(one, name) and phase(one) == "Succeeded", f"{name} is filled")
    # Late lines of the log.
    time.sleep(1)
    writes = at.audit.since(mark, space)
    made = next(write for write in writes if write.who == USER and write.what == "datavolumes")

    def done(who, what, verb="create"):
        found = [write.done for write in writes if (write.who, write.verb, write.what) == (who, verb, what)]
        return (found[0] if found else made.done) - made.received

    return (
        made.done - made.received, done(CONTROLLER, "persistentvolumeclaims"), done(CONTROLLER, "pods"),
        done(SCHEDULER, "pods/binding"), at.server.first(path) - made.received, told - made.received,
    )


def at_once(at, _rounds):
    """Blank disks and small imports at once, compared with the same pods and PVCs without a controller."""
    count = 5 if at.small else MANY
    with at.space("import-many") as space, volumes(at, space) as watch, cluster_watch.pods(at, space) as pods:
        names = [f"{kind}-{number}" for number in range(count) for kind in ("blank", "small")]
        sources = {"blank": {"blank": {}}, "small": {"http": {"url": at.server.url("/small.img")}}}
        manifests = [volume(name, sources[name.split("-")[0]]) for name in names]
        seconds = made(at, space, manifests, watch, lambda one: phase(one) == "Succeeded", names)
        first = {}
        for _, pod in pods.seen:
            first.setdefault(pod["metadata"]["name"], pod)
        claims = at.get("-n", space, "pvc")["items"]
    cluster_load.controllers(at, 0)
    try:
        with at.space("import-plain") as space, cluster_watch.pods(at, space) as pods:
            # Not counted, though virt-controller had to make them.
            at.kubectl("-n", space, "create", "-f", "-", stdin=listed(map(plain, claims)))
            bare = [plain(pod) for pod in first.values()]
            ended = lambda pod: phase(pod) == "Succeeded"  # noqa: E731
            alone = made(at, space, bare, pods, ended, [pod["metadata"]["name"] for pod in bare])
    finally:
        # The next measurement in this cluster must find it unchanged.
        cluster_load.controllers(at, 2)
    part = max(0, seconds - alone) / seconds
    yield Row(
        f"import: {count} blank and {count} small ones at once, until all are filled", f"{seconds:.1f} s",
        f"{len(bare)} such pods on such PVCs without virt-controller: {alone:.1f} s", f"ours ≤ 10 %: {100 * part:.0f} %", part <= 0.1,
    )


def upload(at, rounds):
    """`coracle virt image-upload` of a qcow2, beside the same bytes through TLS on loopback."""
    path = at.have["zlib.qcow2"]
    size = f"{at.have.disk.stat().st_size * 11 // 10}"
    addresses = "jsonpath={.items[*].endpoints[?(@.conditions.ready==true)].addresses[0]}"
    label = ("endpointslices", "-l", "kubernetes.io/service-name=cdi-uploadproxy")
    proxy = at.kubectl("-n", "kubevirt", "get", *label, "-o", addresses).split()[0]
    ours, other = [], []
    with at.space("import-upload") as space, measured.workplace(at.have.folder) as work:
        scratch, folder = work / "scratch", work / "upload"
        measured.shell(imports.certificates(folder))
        for number in range(rounds):
            name = f"disk-{number}"
            wanted = volume(name, {"upload": {}}, size)
            at.apply(space, [wanted])
            at.kubectl("-n", space, "wait", "--for=jsonpath={.status.phase}=UploadReady", f"dv/{name}", "--timeout=300s")
            began = time.monotonic()
            at.run([
                at.coracle, "virt", "image-upload", "-n", space, "dv", name, "--no-create", f"--image-path={path}", "--insecure",
                f"--uploadproxy-url=https://{proxy}:8443",
            ])
            ours.append(time.monotonic() - began)
            at.kubectl("-n", space, "delete", f"dv/{name}", "--timeout=300s")
            began = time.monotonic()
            measured.shell(imports.copied(path, folder, scratch))
            other.append(time.monotonic() - began)
            scratch.unlink()
    factor = statistics.median(ours) / statistics.median(other)
    yield Row(
        "import: upload of qcow2 zlib through cdi-uploadproxy and pod, until the disk is whole", f"{spread(ours)} s",
        f"the same bytes by socat through TLS: {spread(other)} s", f"≤ 1.5 ×: {factor:.2f} ×", factor <= 1.5,
    )


def node_pull(at, rounds):
    """A containerDisk that the node has pulled, from `kubectl create` of a DataVolume to its whole disk; beside, by hand on the node,
    the same image mounted by containerd and converted."""
    image, registry = "registry:5000/bench:1", at.tool("info", "registry").strip()
    settings = at.state / "bench-registries.toml"
    settings.write_text(f'[host."{registry}"]\nplain-http = true\n')
    tag = f"docker://{registry}/bench:1"
    at.run([at.coracle, "build", "--quiet", "--registries", settings, "--format", "keep", "-t", tag, at.have["zlib.qcow2"]])
    source = {"registry": {"url": f"docker://{image}", "pullMethod": "node"}}
    size = f"{at.have.disk.stat().st_size * 11 // 10}"
    ours, other = [], []
    with at.space("import-node") as space, volumes(at, space) as watch:
        # The first one brings the image to the node, and is not measured.
        for number in range(rounds + 1):
            name = f"disk-{number}"
            ours.append(made(at, space, [volume(name, source, size)], watch, lambda one: phase(one) == "Succeeded", [name]))
            at.kubectl("-n", space, "delete", f"dv/{name}", "--timeout=300s")
            other.append(by_hand(at, image))
    ours, other = ours[1:], other[1:]
    factor = statistics.median(other) / statistics.median(ours)
    yield Row(
        f"{NAMES[3]}, qcow2 zlib, the image on the node", f"{spread(ours)} s",
        f"`ctr images mount`, then `qemu-img convert` on the node: {spread(other)} s", f"≥ 5 ×: {factor:.1f} ×", factor >= 5,
    )


def by_hand(at, image):
    """Seconds on the node for an image of its own store to become a raw disk, where the disks of PVCs lie."""
    out, folder = at.state / "volumes/bench-by-hand.raw", "/tmp/bench-image"
    steps = (
        f"mkdir -p {folder}; ctr -n k8s.io images mount {image} {folder} >/dev/null;"
        f" qemu-img convert -W -m 8 -t writeback -T writeback -O raw {folder}/disk/* {out}; sync --data {out}"
    )
    began = time.monotonic()
    at.tool("node-exec", "1", "bash", "-euc", steps)
    seconds = time.monotonic() - began
    at.tool("node-exec", "1", "bash", "-euc", f"ctr -n k8s.io images unmount --rm {folder} >/dev/null; rm {out}")
    return seconds


# ── Objects ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def volume(name, source, size="16Mi"):
    """A DataVolume whose volume is bound and filled at once."""
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume",
        "metadata": {"name": name, "annotations": {"cdi.kubevirt.io/storage.bind.immediate.requested": ""}},
        "spec": {"source": source, "storage": {"resources": {"requests": {"storage": size}}}},
    }


def plain(thing):
    """A copy of an object for another namespace, without its owner."""
    kept = {key: thing["metadata"][key] for key in ("name", "labels") if key in thing["metadata"]}
    spec = {key: value for key, value in thing["spec"].items() if key not in ("nodeName", "volumeName")}
    kind = "Pod" if "containers" in spec else "PersistentVolumeClaim"
    return {"apiVersion": "v1", "kind": kind, "metadata": kept, "spec": spec}


def listed(things):
    return json.dumps({"apiVersion": "v1", "kind": "List", "items": list(things)})


def made(at, space, manifests, watch, so, names):
    """Seconds from the first request until each condition holds."""
    began, left = time.time(), set(names)

    def last(one):
        if so(one):
            left.discard(one["metadata"]["name"])
        return not left

    at.kubectl("-n", space, "create", "-f", "-", stdin=listed(manifests))
    came, _ = watch.until(last, f"all of {len(names)} are done", 1800)
    return came - began


def volumes(at, space):
    return cluster_watch.Watch(at, f"/apis/cdi.kubevirt.io/v1beta1/namespaces/{space}/datavolumes")


def is_of(thing, name):
    return thing["metadata"]["name"] == name


def phase(thing):
    return thing.get("status", {}).get("phase")


# ── A server ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Small:
    """A server that gives the same small disk under every path, and records the time of each first request."""

    DISK = bytes(range(256)) * 4096

    def __init__(self, address):
        self.asked, small = {}, self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                small.asked.setdefault(self.path, time.time())
                self.send_response(200)
                self.send_header("Content-Length", str(len(small.DISK)))
                self.end_headers()
                with contextlib.suppress(OSError):
                    self.wfile.write(small.DISK)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((address, 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def url(self, path):
        host, port = self.server.server_address
        return f"http://{host}:{port}{path}"

    def first(self, path):
        return self.asked[path]


@contextlib.contextmanager
def small_disks(address):
    small = Small(address)
    try:
        yield small
    finally:
        small.server.shutdown()
