"""Delay until a VMI has the reason of its wait, once its pod or an event of the kubelet has it.

 kubelet, scheduler ──► pod, event ──► virt-controller ──► a condition of the VMI
                          └ a watch: when it came            └ a watch: when it came

Both times are those at which the news reached a watch of ours, so that the time of the API server is on both sides.
"""

import contextlib
import sys
import time

import cluster_watch
from cluster_place import tiny

# Reasons of a pod that is starting: not a fault.
ON_ITS_WAY = ("ContainerCreating", "PodInitializing")
# Seconds in which further reasons after the first one are collected.
LISTEN = 4


def missing_image(at, space, name):
    return told(at, space, tiny(name, image="registry:5000/nothing:1"))


def unschedulable(at, space, name):
    return told(at, space, tiny(name, nodeSelector={"disk": "quick"}))


def told(at, space, vmi):
    """Seconds from the first sign of trouble to the first word of it on the VMI, and to an event about the VMI;
    and from pod to VMI for each reason that is on both."""
    with contextlib.ExitStack() as stack:
        watches = [stack.enter_context(watch(at, space)) for watch in
                   (cluster_watch.pods, cluster_watch.events, cluster_watch.vmis)]
        mine = vmi["metadata"]["name"]
        at.apply(space, [vmi])
        watches[2].until(lambda thing: mine == thing["metadata"]["name"] and list(of_vmi(thing)), f"{mine} says why")
        time.sleep(LISTEN)
    pods, events, vmis = (watch.seen for watch in watches)
    shown, said, told_by_event = {}, {}, []
    for came, thing in sorted(pods + events, key=lambda seen: seen[0]):
        about = thing.get("involvedObject") or thing["metadata"]
        if about.get("kind") == "VirtualMachineInstance" and about["name"] == mine and thing["type"] == "Warning":
            told_by_event.append(came)
        elif mine in about["name"]:
            for why in of_pod(thing):
                shown.setdefault(why, came)
    for came, thing in vmis:
        if thing["metadata"]["name"] == mine:
            for why in of_vmi(thing):
                said.setdefault(why, came)
    at.kubectl("-n", space, "delete", "vmi", mine, "--timeout=120s")
    each = [said[why] - shown[why] for why in said if why in shown]
    if not told_by_event:
        sys.exit(f"bench: no event tells why {mine} waits")
    began = min(shown.values())
    return min(said.values()) - began, min(told_by_event) - began, each


def of_pod(thing):
    """The reasons, with their messages, of a pod or an event."""
    if "involvedObject" in thing:
        # The scheduler's are in the pod.
        if thing.get("type") == "Warning" and thing.get("reason") != "FailedScheduling":
            yield thing["reason"], thing["message"]
        return
    scheduled = cluster_watch.conditions(thing).get("PodScheduled", {})
    if scheduled.get("status") == "False":
        yield scheduled.get("reason"), scheduled.get("message")
    status = thing.get("status", {})
    for container in status.get("initContainerStatuses", []) + status.get("containerStatuses", []):
        waiting = container.get("state", {}).get("waiting", {})
        if waiting.get("reason") and waiting["reason"] not in ON_ITS_WAY:
            yield waiting["reason"], waiting.get("message")


def of_vmi(thing):
    for kind in ("PodScheduled", "Synchronized"):
        condition = cluster_watch.conditions(thing).get(kind, {})
        if condition.get("status") == "False":
            yield condition.get("reason"), condition.get("message")
