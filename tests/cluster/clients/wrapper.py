#!/usr/bin/env python3
"""A VM, from its creation to its end, by openshift-python-wrapper and by kubernetes, unmodified, as test suites of others
use them. One line for each step that did what it should; the first that did not ends the program with the code 1.

    wrapper.py NAMESPACE <VM.yaml      with KUBECONFIG; the VM is halted, and its guest says `login:` on its console
"""

import os
import sys
import time
import warnings

import kubernetes
import yaml
from kubernetes.dynamic.exceptions import ApiException, DynamicApiError, NotFoundError
from ocp_resources.resource import get_client
from ocp_resources.virtual_machine import VirtualMachine
from ocp_resources.virtual_machine_instance import VirtualMachineInstance

# Of one wait. Longer than any takes, by far.
PATIENCE = 300
GROUP, VERSION = "kubevirt.io", "v1"


def main():
    # The wrapper uses itself in ways that it advises against.
    warnings.simplefilter("ignore", DeprecationWarning)
    namespace = sys.argv[1]
    manifest = yaml.safe_load(sys.stdin)
    name = manifest["metadata"]["name"]
    client = get_client(config_file=os.environ["KUBECONFIG"])
    with VirtualMachine(client=client, name=name, namespace=namespace, body=manifest, delete_timeout=PATIENCE) as vm:
        created(vm)
        watched(client, vm)
        started(vm)
        looked_at(client, vm)
        paused(vm)
        restarted(vm)
        stopped(vm)
    wants("the VM is gone", not vm.exists)
    say("delete: no VM")


def created(vm):
    until("the VM is stopped", lambda: vm.printable_status == VirtualMachine.Status.STOPPED)
    wants("a stopped VM is not ready", vm.ready is None)
    wants("there is no VMI", not vm.vmi.exists)
    names = [each.name for each in VirtualMachine.get(client=vm.client, namespace=vm.namespace)]
    wants("it is listed", names == [vm.name])
    say("create: Stopped, listed")


def watched(client, vm):
    """A change that another client makes is seen by a watch."""
    objects = kubernetes.client.CustomObjectsApi(client.client)
    where = (GROUP, VERSION, vm.namespace, "virtualmachines")
    before = objects.list_namespaced_custom_object(*where)["metadata"]["resourceVersion"]
    objects.patch_namespaced_custom_object(*where, vm.name, {"metadata": {"labels": {"made-by": "python"}}})
    stream = kubernetes.watch.Watch().stream(
        objects.list_namespaced_custom_object, *where, resource_version=before, timeout_seconds=PATIENCE
    )
    seen = next((event for event in stream if event["object"]["metadata"]["labels"].get("made-by")), None)
    wants("the change is seen", seen and seen["type"] == "MODIFIED")
    say("watch: MODIFIED")


def started(vm):
    vm.start(wait=True, timeout=PATIENCE)
    vm.vmi.wait_until_running(timeout=PATIENCE)
    wants("the VM is ready", vm.ready is True)
    wants("the VM runs", vm.printable_status == VirtualMachine.Status.RUNNING)
    try:
        vm.start()
        wants("a second start is refused", False)
    except (ApiException, DynamicApiError) as refused:
        wants(f"a second start is a conflict: {refused}", refused.status == 409)
    say("start: Running, ready; a second start is a conflict")


def looked_at(client, vm):
    vmi = vm.vmi
    node = vmi.get_node()
    wants("its node is there", node.exists and node.name == vmi.instance.status.nodeName)
    pod = vmi.get_virt_launcher_pod()
    wants("its pod runs", pod.status == pod.Status.RUNNING and pod.node.name == node.name)
    wants("virt-handler is found", vmi.get_virt_handler_pod().exists)
    wants("its pod is not root", not vmi.is_pod_root(pod))
    interface = vmi.interfaces[0]
    wants("it has the address of its pod", interface.ipAddress == pod.instance.status.podIP)
    vmi.wait_for_condition(condition="Ready", status="True", timeout=PATIENCE)
    kind = client.resources.get(api_version=f"{GROUP}/{VERSION}", kind="VirtualMachineInstance")
    wants("it is found by discovery", kind.get(name=vm.name, namespace=vm.namespace).metadata.uid == uid(vm))
    try:
        vmi.guest_os_info
        wants("without an agent there is no answer", False)
    except (ApiException, DynamicApiError) as refused:
        wants(f"the agent is missed: {refused}", "guest agent" in str(refused))
    say("status: node, pod, virt-handler, address, condition; no guest agent")


def paused(vm):
    vm.vmi.pause(wait=True, timeout=PATIENCE)
    until("the VM is paused", lambda: vm.printable_status == VirtualMachine.Status.PAUSED)
    vm.vmi.unpause(wait=True, timeout=PATIENCE)
    until("the VM runs again", lambda: vm.printable_status == VirtualMachine.Status.RUNNING)
    say("pause: Paused, Running")


def restarted(vm):
    before = uid(vm)
    vm.restart(wait=True, timeout=PATIENCE)
    wants("it is another VMI", uid(vm) not in (None, before))
    vm.wait_for_ready_status(status=True, timeout=PATIENCE)
    say("restart: another VMI, Running")


def stopped(vm):
    vm.stop(wait=True, timeout=PATIENCE, vmi_delete_timeout=PATIENCE)
    until("the VM is stopped", lambda: vm.printable_status == VirtualMachine.Status.STOPPED)
    wants("there is no VMI", not vm.vmi.exists)
    say("stop: Stopped, no VMI")


def uid(vm):
    """The VMI's, where there is one."""
    try:
        vmi = VirtualMachineInstance(client=vm.client, name=vm.name, namespace=vm.namespace)
        return vmi.instance.metadata.uid
    except NotFoundError:
        return None


def until(what, so):
    end = time.monotonic() + PATIENCE
    while not so():
        wants(f"within {PATIENCE} s: {what}", time.monotonic() < end)
        time.sleep(0.2)


def wants(what, is_so):
    if not is_so:
        sys.exit(f"wrapper.py: not so: {what}")


def say(line):
    print(line, flush=True)


if __name__ == "__main__":
    main()
