"""Migration by coracle: migrations in a cluster of two nodes, by what a watch and the VMI's status say of each."""

import contextlib
import dataclasses
import json
import re
import sys
import time

import cluster_watch
import migrations_guest
from cluster_place import tiny
from watched import TOO_LONG

# Each node needs memory for two of them.
CPU = "20m"
PHASES = ("Pending", "Scheduling", "Scheduled", "PreparingTarget", "TargetReady", "Running", "Succeeded")


@dataclasses.dataclass
class Hop:
    # Time of the request, and seconds from it to the last phase.
    began: float
    whole: float
    # Moment at which each phase was seen, counted from the request.
    phases: dict
    # The VMI's `status.migrationState` at the end.
    state: dict
    # Launcher pods.
    source: dict
    target: dict
    # Seconds from the order to the source's launcher to the guest's first number at the target.
    job: float = 0


class Watches:
    """All that is looked at in a namespace."""

    def __init__(self, at, space):
        self.vmis, self.pods = cluster_watch.vmis(at, space), cluster_watch.pods(at, space)
        path = f"/apis/kubevirt.io/v1/namespaces/{space}/virtualmachineinstancemigrations"
        self.moves = cluster_watch.Watch(at, path)

    def end(self):
        for watch in (self.vmis, self.moves, self.pods):
            watch.__exit__()


class Ours:
    """A VMI in a namespace, and its migrations. `watches`: those of the namespace, if there are some."""

    def __init__(self, at, space, name, watches=None, look=migrations_guest.LOOK):
        self.at, self.space, self.name = at, space, name
        self.own = None if watches else Watches(at, space)
        watches = watches or self.own
        self.vmis, self.moves, self.pods = watches.vmis, watches.moves, watches.pods
        self.counted = migrations_guest.Counted(self.logs, look)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.counted.__exit__()
        if self.own:
            self.own.end()

    def start(self, vmi, objects=()):
        self.at.apply(self.space, [*objects, vmi])
        self.vmis.until(lambda one: is_of(one, self.name) and can_migrate(one), f"{self.name} can migrate")
        self.counted.counts()

    def launchers(self):
        """The launcher pods, by their names, as they were seen last."""
        with self.pods.news:
            seen = [pod for _, pod in self.pods.seen]
        ours = [pod for pod in seen if pod["metadata"]["labels"].get("vm.kubevirt.io/name") == self.name]
        return {pod["metadata"]["name"]: pod for pod in ours}

    def logs(self):
        return [migrations_guest.console(self.at, pod) for pod in self.launchers().values() if pod["spec"].get("nodeName")]

    def launcher(self):
        """The pod of the guest, once it is the only one."""
        def running():
            return [pod for pod in self.launchers().values() if pod["status"]["phase"] in ("Pending", "Running")
                    and "deletionTimestamp" not in pod["metadata"]]

        self.at.until(lambda: len(running()) == 1, f"{self.name} has one launcher")
        return running()[0]

    def log(self):
        return migrations_guest.console(self.at, self.launcher())

    def xml(self):
        pod = self.launcher()["metadata"]["name"]
        run = ("-n", self.space, "exec", pod, "-c", "compute", "--", "virsh")
        return self.at.kubectl(*run, "dumpxml", self.at.kubectl(*run, "-q", "list", "--name").strip())

    def migrate(self, name, expected="Succeeded", longest=TOO_LONG):
        source = self.launcher()
        began = time.time()
        self.at.kubectl("-n", self.space, "create", "-f", "-", stdin=json.dumps(migration(name, self.name)))
        ended, move = self.moves.until(
            lambda one: is_of(one, name) and phase(one) in ("Succeeded", "Failed"), f"the migration {name} ends", longest
        )
        uid = move["metadata"]["uid"]
        is_whole = lambda one: state(one).get("migrationUid") == uid and "endTimestamp" in state(one)  # noqa: E731
        _, vmi = self.vmis.until(is_whole, f"the VMI has the end of {name}")
        with self.vmis.news:
            last = [one for _, one in self.vmis.seen if is_whole(one)][-1]
        told = state(last)
        if phase(move) != expected:
            sys.exit(f"bench: the migration {name} is {phase(move)}: {json.dumps(told)}")
        with self.moves.news:
            phases = {}
            for came, one in self.moves.seen:
                if is_of(one, name):
                    phases.setdefault(phase(one), came - began)
        target = self.launchers().get(told.get("targetPod"))
        return Hop(began, ended - began, phases, told, source, target)


class Wire:
    """Bytes that a node has sent to other nodes: all that leaves it, but for what goes to this host."""

    def __init__(self, at, node):
        self.at, self.number = at, node.removeprefix("node")
        self.gateway = at.tool("info", "gateway").strip()

    def __enter__(self):
        chain = "inet bench sent"
        rules = (
            f"add table inet bench; add chain {chain} {{ type filter hook postrouting priority 300; }};"
            f" add rule {chain} oifname eth0 ip daddr != {self.gateway} counter"
        )
        self.at.tool("node-exec", self.number, "nft", rules)
        return self

    def __exit__(self, *_):
        self.at.tool("node-exec", self.number, "nft", "delete table inet bench")

    def sent(self):
        return int(re.search(r"bytes (\d+)", self.at.tool("node-exec", self.number, "nft", "list chain inet bench sent"))[1])


@contextlib.contextmanager
def policy(at, space, **limits):
    """A MigrationPolicy for the VMIs of a namespace."""
    selectors = {"namespaceSelector": {"kubernetes.io/metadata.name": space}}
    thing = {
        "apiVersion": "migrations.kubevirt.io/v1alpha1", "kind": "MigrationPolicy", "metadata": {"name": f"bench-{space}"},
        "spec": {"selectors": selectors, **limits},
    }
    at.kubectl("apply", "-f", "-", stdin=json.dumps(thing))
    try:
        yield
    finally:
        at.kubectl("delete", "migrationpolicy", f"bench-{space}")


def migration(name, vmi):
    return {
        "apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstanceMigration", "metadata": {"name": name},
        "spec": {"vmiName": vmi},
    }


def guest(name, *parts, memory="256Mi", claim=None, **spec):
    """A VMI whose guest counts, after these parts of a script. `claim`: the PVC of its disk."""
    vmi = tiny(name, memory=memory, cpu=CPU, **spec)
    volumes = {"seed": {"cloudInitNoCloud": {"userData": migrations_guest.script(*parts)}}}
    if claim:
        volumes = {"data": {"persistentVolumeClaim": {"claimName": claim}}, **volumes}
    vmi["spec"]["volumes"] = [{"name": volume, **source} for volume, source in volumes.items()]
    vmi["spec"]["domain"]["devices"]["disks"] = [{"name": volume, "disk": {"bus": "virtio"}} for volume in volumes]
    return vmi


def claim(name, size, mode, storage="standard"):
    return {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {"accessModes": [mode], "storageClassName": storage, "resources": {"requests": {"storage": size}}},
    }


def is_of(thing, name):
    return thing["metadata"]["name"] == name


def phase(thing):
    return thing.get("status", {}).get("phase", "")


def state(vmi):
    return vmi.get("status", {}).get("migrationState") or {}


def can_migrate(vmi):
    return cluster_watch.serves(vmi) and cluster_watch.conditions(vmi).get("LiveMigratable", {}).get("status") == "True"
