"""A cluster of the benchmark's own with the product in it, and measurements of its processes from outside."""

import collections
import contextlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time

from cluster_audit import Audit
from watched import TOO_LONG, processes

# Name of the cluster, which is ended before and after.
NAME = "bench"
# Namespace of the installation.
HOME = "kubevirt"
# Longer than the first start takes, which builds Kubernetes.
BUILT = 2400
PROGRAMS = ("virt-controller", "virt-api", "virt-handler")


@contextlib.contextmanager
def place(root, coracle, images, nodes=1):
    at = Cluster(root, coracle, NAME, nodes)
    at.tool("down")
    try:
        at.tool("up")
        at.tool("install", coracle, *images)
        at.tool("guests", coracle)
        # KVM differs from host to host; emulation is the same on all.
        settings = {"spec": {"configuration": {"developerConfiguration": {"useEmulation": True}}}}
        at.kubectl("-n", HOME, "patch", "kubevirt/kubevirt", "--type", "merge", "-p", json.dumps(settings))
        yield at.found()
    finally:
        at.tool("down")


@contextlib.contextmanager
def existing(root, coracle, name):
    """A cluster that runs, with the product and its guests in it. It is kept."""
    yield Cluster(root, coracle, name).found()


def why_not(root):
    """Reason why no cluster can run here; None if one can."""
    done = subprocess.run([root / "tests/cluster/possible"], capture_output=True, text=True)
    return "; ".join(done.stdout.splitlines()) if done.returncode else ""


class Cluster:
    def __init__(self, root, coracle, name, nodes=1):
        self.root, self.coracle, self.kubelets = root, coracle, {}
        self.env = {**os.environ, "CLUSTER": name, "AUDIT": "1", "NODES": str(nodes)}

    def found(self):
        self.env["KUBECONFIG"] = self.tool("info", "kubeconfig").strip()
        self.state = pathlib.Path(self.tool("info", "state").strip())
        self.audit = Audit(self.state / "logs/audit.log")
        return self

    # ── Requests ────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, command, stdin=None):
        done = subprocess.run(
            list(map(str, command)), env=self.env, input=stdin, capture_output=True, text=True, timeout=BUILT
        )
        if done.returncode:
            sys.exit(f"bench: {' '.join(map(str, command))}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def command(self, name, *args):
        return [str(self.root / "tests/cluster" / name), *map(str, args)]

    def tool(self, name, *args):
        return self.run(self.command(name, *args))

    def kubectl(self, *args, stdin=None):
        return self.run(self.command("kubectl", *args), stdin)

    def get(self, *args):
        return json.loads(self.kubectl("get", "-o", "json", *args))

    def apply(self, space, manifests):
        """Objects, as JSON texts one after another."""
        self.kubectl("-n", space, "apply", "-f", "-", stdin="\n---\n".join(map(json.dumps, manifests)))

    @contextlib.contextmanager
    def space(self, name):
        """A namespace. It stays after a failed round, and is removed with the cluster."""
        self.kubectl("create", "namespace", name)
        yield name
        self.kubectl("delete", "namespace", name, f"--timeout={TOO_LONG}s")

    def until(self, so, what, longest=TOO_LONG):
        end = time.monotonic() + longest
        while not so():
            if time.monotonic() > end:
                sys.exit(f"bench: in {longest} s not so: {what}")
            time.sleep(0.1)

    def admission(self):
        """Seconds that the API server has waited for virt-api until now."""
        lines = self.kubectl("get", "--raw", "/metrics").splitlines()
        ours = [line for line in lines if line.startswith("apiserver_admission_webhook_admission_duration_seconds_sum{")]
        return sum(float(line.rsplit(" ", 1)[1]) for line in ours if re.search(r'name="[^"]*\.kubevirt\.io"', line))

    # ── Measurements ────────────────────────────────────────────────────────────────────────────────────────────

    def in_pod(self, uid):
        """The processes of a pod, by its cgroup."""
        found, names = [], (uid, uid.replace("-", "_"))
        for process in processes():
            with contextlib.suppress(OSError):
                groups = pathlib.Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()
                mine = [group for group in groups if any(name in group for name in names)]
                if mine:
                    process.container = mine[0].rsplit("/", 1)[1]
                    found.append(process)
        return found

    def program(self, name):
        """The processes of a program of ours."""
        pods = self.get("-n", HOME, "pods", "-l", f"kubevirt.io={name}")["items"]
        inside = [process for pod in pods for process in self.in_pod(pod["metadata"]["uid"])]
        return [process for process in inside if process.name == name]

    def held(self, name):
        """The largest RSS of a program's processes."""
        found = self.program(name)
        if not found:
            sys.exit(f"bench: no {name} runs in the cluster")
        return max(process.memory()["Rss"] for process in found)

    def work(self):
        """CPU seconds until now, by name: the cluster's own processes, and our programs."""
        mark, used = f"CLUSTER_OF={self.state}\0".encode(), collections.Counter()

        def is_part(process):
            with contextlib.suppress(OSError):
                return mark in pathlib.Path(f"/proc/{process.pid}/environ").read_bytes()
            return False

        parts = [process for process in processes() if is_part(process)]
        for process in parts + [one for name in PROGRAMS for one in self.program(name)]:
            with contextlib.suppress(OSError):
                used[process.name] += process.cpu()
        return used

    def shims(self, inside):
        """Processes of the container runtime for a pod with these processes."""
        sandboxes = {process.container for process in inside}
        return [
            process for process in processes()
            if process.name.startswith("containerd-shim") and sandboxes & set(process.args)
        ]

    def of_kubelet(self, uid, node="node1"):
        """The folder of a pod's own volumes, as the node sees it: it may be on a mount of the node."""
        if node not in self.kubelets:
            self.kubelets[node] = self.tool("part", "pid", f"{node}/kubelet").strip()
        return pathlib.Path(f"/proc/{self.kubelets[node]}/root/var/lib/kubelet/pods/{uid}/volumes/kubernetes.io~empty-dir")


def is_qemu(process):
    return process.name.startswith("qemu-system")


def tiny(name, memory="256Mi", cpu=None, image="registry:5000/tiny:1", **spec):
    """A VMI of the smallest guest: kernel from an image, all of it in memory."""
    kernel = {"image": image, "kernelPath": "/boot/vmlinux", "initrdPath": "/boot/initrd"}
    return {
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "domain": {
                "resources": {"requests": {"memory": memory, **({"cpu": cpu} if cpu else {})}},
                "firmware": {"kernelBoot": {"container": kernel, "kernelArgs": "console=ttyS0"}},
                "devices": {"interfaces": [{"name": "default", "masquerade": {}}]},
            },
            "networks": [{"name": "default", "pod": {}}],
            **spec,
        },
    }


def vm(vmi):
    """A VM with this VMI as its template."""
    return {
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachine", "metadata": vmi["metadata"],
        "spec": {"runStrategy": "Always", "template": {"spec": vmi["spec"]}},
    }
