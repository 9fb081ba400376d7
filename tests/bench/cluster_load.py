"""A thousand VMIs at once, on nodes that exist in the API alone.

 ours    load product ──► API server ─► virt-api, virt-controller ─► pods ─► scheduler, kwok    agents: in `load`
 other   load plain   ──► API server ─► virt-api                   ─► pods ─► scheduler, kwok    virt-controller is off

`load` is controller/virt-controller/examples/load. What virt-controller and the agents wrote in the one round is counted from the audit
log, and made again in the other: as many creates, patches and events, by the same accounts, so that the same webhooks are
asked. Both rounds end when every pod runs; only in ours does one thing have to wait for another.
"""

import collections
import dataclasses
import json
import time

from cluster_audit import CONTROLLER, HANDLER, USER
from cluster_place import HOME

COUNT, NODES = 1000, 10
# Before each round: every program has seen such objects then.
FEW = 20
PROGRAMS = ("virt-controller", "virt-api")


@dataclasses.dataclass
class Round:
    # Seconds, as `load` printed them.
    ours: dict
    plain: dict
    # Numbers of writes of each kind; CPU seconds of ours, by process.
    kinds: dict
    work: dict
    # Bytes (RSS) by program, at the end.
    held: dict


def make_nodes(at):
    """Nodes of kwok with the labels and devices of the real one, so that VMIs are scheduled to them."""
    at.tool("fake-nodes", NODES)
    real = at.get("node", "node1")
    labels = {key: value for key, value in real["metadata"]["labels"].items() if "kubevirt.io" in key}
    info = {key: real["status"]["nodeInfo"][key] for key in ("kubeletVersion", "containerRuntimeVersion")}
    room = {"devices.kubevirt.io/tun": "1000", "ephemeral-storage": "1Ti"}
    status = {"nodeInfo": info, "capacity": room, "allocatable": room}
    for number in range(NODES):
        change = ("patch", "node", f"fake{number:03}", "--type", "merge", "-p")
        at.kubectl(*change, json.dumps({"status": status}), "--subresource", "status")
        at.kubectl(*change, json.dumps({"metadata": {"labels": labels}}))


def once(at, program, work):
    """Both sides once. `work` is a folder."""
    sample = work / "sample.json"
    controllers(at, 2)
    load(at, program, "product", "few", FEW, sample)
    mark, before = at.audit.mark(), at.work()
    ours = load(at, program, "product", "many", COUNT, sample)
    used = {name: seconds - before.get(name, 0) for name, seconds in at.work().items()}
    # Late writes are counted, too.
    time.sleep(3)
    held = {name: at.held(name) for name in PROGRAMS}
    kinds = kinds_of(at.audit.since(mark, "many"))
    controllers(at, 0)
    for space in ("few", "many"):
        clear(at, program, space)
    # Started in the same way as ours.
    load(at, program, "plain", "few", FEW, sample, json.dumps({kind: n * FEW // COUNT for kind, n in kinds.items()}))
    plain = load(at, program, "plain", "many", COUNT, sample, json.dumps(kinds))
    for space in ("few", "many"):
        clear(at, program, space)
    # The next measurement in this cluster must find it unchanged.
    controllers(at, 2)
    return Round(ours, plain, kinds, used, held)


def load(at, program, how, space, *args):
    if how != "clear":
        at.kubectl("create", "namespace", space)
    said = at.run([program, how, space, *args])
    return json.loads(said) if said.strip() else {}


def clear(at, program, space):
    load(at, program, "clear", space)
    at.kubectl("delete", "namespace", space, "--timeout=300s")


def controllers(at, count):
    """Scales virt-controller to so many replicas, one of which acts."""
    at.kubectl("-n", HOME, "scale", "deployment/virt-controller", f"--replicas={count}")
    label = ("-n", HOME, "pods", "-l", "kubevirt.io=virt-controller")
    if not count:
        return at.until(lambda: not at.get(*label)["items"], "virt-controller has ended")
    at.kubectl("-n", HOME, "rollout", "status", "deployment/virt-controller", "--timeout=120s")

    def acts():
        names = [pod["metadata"]["name"] for pod in at.get(*label)["items"]]
        return at.get("-n", HOME, "lease", "virt-controller")["spec"].get("holderIdentity") in names

    return at.until(acts, "one of virt-controller's replicas acts")


def kinds_of(writes):
    """Number of writes of each kind by users, virt-controller and the agents."""
    def counts(write):
        return write.who in (CONTROLLER, HANDLER) or str(write) == f"{USER} create virtualmachineinstances"

    return dict(collections.Counter(str(write) for write in writes if counts(write)))
