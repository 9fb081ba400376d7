"""Benchmarks of the aggregated API: requests through virt-api, compared with other ways to the same target.

 ours    we ──► API server ──► virt-api ──► virt-handler ──► virt-launcher ──► the guest; or a port of the pod
 beside  kubectl exec or port-forward into the same pod (API server ──► kubelet ──► containerd); the launcher's socket on
         the node; the API server's own PATCH; KubeVirt's virtctl

All of it happens in the cluster of cluster_place.py; VMIs are the smallest guest's.
"""

import sys

import api_requests
import api_streams
import cluster_watch
from api_wire import Door, Server, WebSocket
from cluster_place import tiny
from vms import Row

# The names that --only matches.
NAMES = (
    "api: console echo", "api: console throughput", "api: port-forward", "api: 200 consoles", "api: binary",
    "api: start", "api: VMIs known",
)
SPACE = "streams"
# CPU requests of the containers of a launcher pod; the default leaves no room for several on two cores.
CPU = "20m"
# Port of the guest; all others are ports of the pod itself.
GUEST_PORT = 80


def is_about(word):
    """True if --only with this word selects one of our lines."""
    return any(word in name for name in NAMES)


def measure(at, rounds, only, small):
    """Rows whose name contains one of these words; all rows without any."""
    # The last two leave a full cluster, and no virt-controller.
    ways = zip(NAMES, (
        api_streams.echo, api_streams.throughput, api_streams.port_forward, api_streams.consoles,
        api_requests.binary, api_requests.starts, api_requests.known,
    ))
    chosen = [way for name, way in ways if not only or any(word in name for word in only)]
    rows, scene = [], Scene(at, small)
    for way in chosen:
        for cells in way(scene, rounds):
            rows.append(Row(*cells))
            print(f"bench: {rows[-1]}", file=sys.stderr, flush=True)
    return rows


class Scene:
    """VMIs in a namespace, each started on first use, and connections to them."""

    def __init__(self, at, small):
        self.at, self.small, self.server = at, small, Server(at)
        self.vmis = {}

    def guest(self):
        """The VMI that a benchmark is logged in to."""
        if "guest" not in self.vmis:
            with self.some(["guest"])[0].console() as line:
                api_streams.log_in(line)
        return self.vmis["guest"]

    def some(self, names):
        """VMIs of these names; missing ones are started at once."""
        if not self.vmis:
            # Left for the cluster's end: virt-controller, which lets its VMIs go, is off after the last line.
            self.at.kubectl("create", "namespace", SPACE)
        new = [name for name in names if name not in self.vmis]
        with cluster_watch.vmis(self.at, SPACE) as watch:
            self.at.apply(SPACE, [of_guest(name) for name in new])
            for name in new:
                watch.until(lambda vmi, name=name: vmi["metadata"]["name"] == name and cluster_watch.serves(vmi), f"{name} runs")
                self.vmis[name] = Vmi(self, name)
        return [self.vmis[name] for name in names]


def of_guest(name):
    made = tiny(name, memory="128Mi", cpu=CPU)
    (interface,) = made["spec"]["domain"]["devices"]["interfaces"]
    interface["ports"] = [{"port": GUEST_PORT}]
    return made


class Vmi:
    def __init__(self, scene, name):
        self.server, self.name = scene.server, name
        (self.pod,) = scene.at.get("-n", SPACE, "pods", "-l", f"vm.kubevirt.io/name={name}")["items"]
        inside = scene.at.in_pod(self.pod["metadata"]["uid"])
        self.launcher = next(process for process in inside if process.name == "virt-launcher")

    def console(self, mode="take"):
        """Its serial console through the API server and virt-api, by a websocket."""
        path = f"/apis/subresources.kubevirt.io/v1/namespaces/{SPACE}/virtualmachineinstances/{self.name}/console?mode={mode}"
        return WebSocket(self.server, path, "plain.kubevirt.io")

    def exec(self):
        """Its serial console by a program in the pod, as kubectl exec starts it."""
        command = "".join(f"&command={word}" for word in ("virt-launcher", "console", "--take"))
        name = self.pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{SPACE}/pods/{name}/exec?container=compute&stdin=true&stdout=true&tty=true{command}"
        return WebSocket(self.server, path, "v5.channel.k8s.io", channels=True)

    def door(self):
        """Its serial console on the node, by the launcher's socket."""
        return Door(self.launcher, "take")
