"""One start in the cluster, taken apart: from `kubectl apply` of a VM to running vCPUs.

Every moment comes from its own program: the API server's audit log (requests, to the microsecond), containerd's log (the
sandbox, the container), the state that the launcher keeps (when it was handed its VM, when the vCPUs ran),
libvirt's log (when it began with QEMU, to the millisecond) and the kernel (when QEMU's process began, to 10 ms). All
of them read the same clock, for a node is a part of this host. No request goes to the cluster meanwhile.
"""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import time

import cluster_watch
from cluster_audit import CONTROLLER, HANDLER, KUBELET, SCHEDULER, USER, seconds
from cluster_place import is_qemu, tiny, vm

OURS = "ours"
# Steps in order: the program of each step, and its work.
STEPS = (
    ("kubectl", "kubectl sends the VM"),
    ("API server", "it stores the VM"),
    (OURS, "virt-controller creates the VMI"),
    ("API server", "it stores the VMI"),
    (OURS, "virt-controller creates the pod"),
    ("API server", "it stores the pod"),
    ("scheduler", "it finds a node"),
    ("kubelet, containerd", "the pod's volumes and sandbox"),
    ("kubelet, containerd", "the launcher's container"),
    ("kubelet", "it reports that the pod runs"),
    (OURS, "virt-controller hands the VMI to the node"),
    ("API server", "it stores the change"),
    (OURS, "virt-handler: disks, network, to the launcher"),
    (OURS, "virt-launcher: seeds and overlays, the domain"),
    ("libvirt", "until QEMU's process begins"),
    ("libvirt, QEMU", "until the vCPUs run"),
)


@dataclasses.dataclass
class Start:
    # Seconds of each step, of them all, of waiting for virt-api inside the API server's, and until it is told.
    steps: list
    whole: float
    admission: float
    told: float
    # Bytes (PSS) of the pod's processes but QEMU, by name; and of the runtime's process for it.
    beside: dict
    shim: int

    @property
    def ours(self):
        return self.admission + sum(length for (whose, _), length in zip(STEPS, self.steps) if whose == OURS)


def once(at, space, name):
    """Starts a VM, measures the steps, and deletes it."""
    mark, waited = at.audit.mark(), at.admission()
    with cluster_watch.vmis(at, space) as watch:
        began = time.time()
        at.apply(space, [vm(tiny(name))])
        watch.until(cluster_watch.serves, f"{name} runs")
    pod = at.get("-n", space, "pods", "-l", f"vm.kubevirt.io/name={name}")["items"][0]
    uid = pod["metadata"]["uid"]
    inside = at.in_pod(uid)
    qemu = next(process for process in inside if is_qemu(process))
    state = told_by_launcher(at, uid)
    admission = at.admission() - waited
    writes = at.audit.since(mark, space)
    moments = [began, *moments_of(at, uid, writes, state, qemu)]
    by_agent = [w.done for w in writes if w.who == HANDLER and w.what == "virtualmachineinstances"]
    told = next(done for done in by_agent if done > moments[-1])
    # By then the memory of the start is released, or never.
    time.sleep(5)
    beside = {p.name: p.memory()["Pss"] for p in inside if not is_qemu(p)}
    shim = sum(process.memory()["Pss"] for process in at.shims(inside))
    at.kubectl("-n", space, "delete", "vm", name, "--timeout=120s")
    at.until(lambda: not at.get("-n", space, "pods")["items"], f"the pod of {name} is gone")
    # Some things go on side by side; what is done earlier than what it follows took no time.
    for number in range(1, len(moments)):
        moments[number] = max(moments[number], moments[number - 1])
    steps = [after - before for before, after in zip(moments, moments[1:])]
    return Start(steps, moments[-1] - began, admission, told - moments[-1], beside, shim)


def moments_of(at, uid, writes, state, qemu):
    """Time of the end of each step."""
    phases = dict(reversed(state["phases"]))
    preparing, running = seconds(phases["Preparing"]), seconds(phases["Running"])

    def one(who, verb, what, before=float("inf")):
        found = [w for w in writes if (w.who, w.verb, w.what) == (who, verb, what) and w.received <= before]
        if not found:
            sys.exit(f"bench: the audit log knows of no {verb} {what} by {who}; of {', '.join(map(str, writes))}")
        return found[0] if before == float("inf") else found[-1]

    taken = one(USER, "create", "virtualmachines")
    vmi = one(CONTROLLER, "create", "virtualmachineinstances")
    pod = one(CONTROLLER, "create", "pods")
    bound = one(SCHEDULER, "create", "pods/binding")
    # The last before: with it came the hand-over, and before that the news that the pod runs.
    handed = one(CONTROLLER, "patch", "virtualmachineinstances", preparing)
    runs = one(KUBELET, "patch", "pods/status", handed.received)
    sandbox, container = told_by_runtime(at, uid)
    return [
        taken.received, taken.done, vmi.received, vmi.done, pod.received, pod.done, bound.done,
        sandbox, container, runs.done, handed.received, handed.done,
        preparing, told_by_libvirt(at, uid), told_by_kernel(qemu), running,
    ]


def told_by_launcher(at, uid):
    # The path is too long for a socket.
    done = subprocess.run(
        ["curl", "-sS", "--unix-socket", "launcher-sock", "http://launcher/v1/state"],
        cwd=at.of_kubelet(uid) / "sockets", capture_output=True, text=True,
    )
    if done.returncode:
        sys.exit(f"bench: the launcher does not tell its state: {done.stderr}")
    return json.loads(done.stdout)


def told_by_runtime(at, uid):
    """Times at which containerd had the sandbox of a pod, and at which its container `compute` ran."""
    log = (at.state / "node1/logs/containerd.log").read_text(errors="replace").replace('\\"', '"')

    def one(what):
        found = re.search(rf'time="([^"]*)"[^\n]*{what}', log)
        if not found:
            sys.exit(f"bench: containerd's log has no {what}")
        return found

    sandbox = one(rf'RunPodSandbox for [^\n]*{uid}[^\n]* returns sandbox id "(\w+)"')
    made = one(rf'within sandbox "{sandbox[2]}" for [^\n]*compute[^\n]* returns container id "(\w+)"')
    started = one(rf'StartContainer for "{made[2]}" returns successfully')
    return seconds(sandbox[1]), seconds(started[1])


def told_by_libvirt(at, uid):
    """Time at which libvirt began to start QEMU."""
    folder = at.of_kubelet(uid) / "private/root"
    for log in folder.rglob("*.log"):
        found = re.search(r"^(\S+ \S+)\+0000: starting up libvirt", log.read_text(errors="replace"), re.M)
        if found:
            return seconds(found[1])
    sys.exit(f"bench: libvirt's log of the domain is not in {folder}")


def told_by_kernel(process):
    """Start time of a process, in seconds since 1970."""
    ticks = int(pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[19])
    since_boot = ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + since_boot
