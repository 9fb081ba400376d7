//! Test cases for the rules: situations of a VM, each with the expected finding.

#![allow(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

use super::event::Event;
use super::fetch::volumes;
use super::{Facts, Volume};
use serde_json::{Value, json};

mod ends;
mod migrations;
mod offline;
mod volumes;

pub(super) use ends::of_ends;
pub(super) use migrations::of_migrations;
pub(super) use offline::of_offline;
pub(super) use volumes::of_volumes;

const BEFORE: &str = "2026-09-01T10:05:00Z";

pub(super) fn facts() -> Facts {
    Facts { name: "web".to_owned(), namespace: "blue".to_owned(), ..Facts::default() }
}

pub(super) fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": BEFORE})
}

pub(super) fn vm(strategy: &str, status: Value) -> Option<Value> {
    let volumes = json!([{"name": "root", "dataVolume": {"name": "disk"}}]);
    Some(json!({
        "metadata": {"name": "web", "creationTimestamp": BEFORE},
        "spec": {"runStrategy": strategy, "template": {"spec": {"volumes": volumes}}}, "status": status,
    }))
}

fn running() -> Option<Value> {
    vm("Always", json!({"printableStatus": "Starting", "created": true}))
}

pub(super) fn vmi(phase: &str, conditions: &[Value]) -> Option<Value> {
    Some(json!({
        "metadata": {"name": "web", "uid": "u1", "creationTimestamp": BEFORE},
        "spec": {"volumes": [{"name": "root", "dataVolume": {"name": "disk"}}]},
        "status": {
            "phase": phase, "conditions": conditions,
            "phaseTransitionTimestamps": [{"phase": phase, "phaseTransitionTimestamp": BEFORE}],
        },
    }))
}

fn on_node(mut vmi: Option<Value>) -> Option<Value> {
    vmi.as_mut().unwrap()["status"]["nodeName"] = json!("n1");
    vmi
}

pub(super) fn pod(node: Option<&str>, phase: &str, more: Value) -> Vec<Value> {
    let mut pod = json!({
        "metadata": {"name": "virt-launcher-web-x", "uid": "p1", "creationTimestamp": BEFORE},
        "spec": {}, "status": {"phase": phase, "conditions": []},
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = json!(node);
        pod["status"]["conditions"] = json!([condition("PodScheduled", "True", "", "")]);
    }
    for (key, value) in more.as_object().unwrap() {
        pod["status"][key] = value.clone();
    }
    vec![pod]
}

fn compute(state: Value) -> Value {
    json!({"containerStatuses": [{"name": "compute", "image": "reg/launcher:1", "state": state}]})
}

fn up() -> Vec<Value> {
    pod(Some("n1"), "Running", compute(json!({"running": {}})))
}

pub(super) fn event(kind: &str, name: &str, reason: &str, message: &str) -> Event {
    let object = json!({
        "type": "Warning", "reason": reason, "message": message, "lastTimestamp": BEFORE,
        "involvedObject": {"kind": kind, "name": name}, "source": {"component": "csi-provisioner"},
    });
    Event::from_object(&object).unwrap()
}

/// The volume of the VM, with a PVC in this phase and this DataVolume.
fn disk(pvc: Option<&str>, data_volume: Option<Value>) -> Vec<Volume> {
    let mut volumes = volumes(vm("Always", json!({})).as_ref(), None);
    volumes[0].is_known = true;
    volumes[0].pvc =
        pvc.map(|phase| json!({"status": {"phase": phase}, "spec": {"storageClassName": "fast"}}));
    volumes[0].data_volume = data_volume;
    volumes
}

pub(super) fn filled() -> Vec<Volume> {
    disk(Some("Bound"), Some(json!({"status": {"phase": "Succeeded"}})))
}

/// Name, facts, beginning of the finding, quoted messages (joined by ` | `), and a part of the advice.
pub(super) type Situation = (&'static str, Facts, &'static str, &'static str, &'static str);

pub(super) fn of_vms() -> Vec<Situation> {
    let failing = json!({
        "printableStatus": "CrashLoopBackOff",
        "startFailure": {"consecutiveFailCount": 3, "retryAfterTimestamp": "2026-09-01T10:11:30Z"},
    });
    let mut deleted = vm("Always", json!({"printableStatus": "Terminating"})).unwrap();
    deleted["metadata"]["deletionTimestamp"] = json!(BEFORE);
    deleted["metadata"]["finalizers"] = json!(["example.com/hold"]);
    let mut templates = running().unwrap();
    templates["spec"]["dataVolumeTemplates"] = json!([{"metadata": {"name": "disk"}}]);
    vec![
        (
            "halted",
            Facts { vm: vm("Halted", json!({"printableStatus": "Stopped"})), ..facts() },
            "VM web is off: its run strategy is Halted",
            "",
            "$virt start web",
        ),
        (
            "ran once",
            Facts { vm: vm("Once", json!({"printableStatus": "Stopped"})), ..facts() },
            "VM web is off: its run strategy is Once",
            "",
            "spec.runStrategy",
        ),
        (
            "start asked for",
            Facts {
                vm: vm("Manual", json!({"stateChangeRequests": [{"action": "Start"}]})),
                volumes: filled(),
                ..facts()
            },
            "VM web waits for virt-controller to create its VMI",
            "",
            "virt-controller runs",
        ),
        (
            "never looked at",
            Facts { vm: vm("Always", json!({})), ..facts() },
            "VM web waits for virt-controller, which has not looked at it yet",
            "",
            "virt-controller runs",
        ),
        (
            "fails again and again",
            Facts {
                vm: vm("Always", failing),
                events: vec![
                    event("Pod", "virt-launcher-web-y", "BackOff", "Back-off restarting"),
                    event("VirtualMachineInstance", "web", "SyncFailed", "no such machine type"),
                ],
                ..facts()
            },
            "VM web has failed to start 3 times in a row; the next try comes in 90s",
            "csi-provisioner, event SyncFailed of VMI web: no such machine type | \
             csi-provisioner, event BackOff of Pod virt-launcher-web-y: Back-off restarting",
            "$virt stop web",
        ),
        (
            "no VMI because of a quota",
            Facts {
                vm: vm(
                    "Always",
                    json!({"printableStatus": "Starting", "conditions": [condition("Failure", "True", "FailedCreate", "exceeded quota: vms")]}),
                ),
                volumes: filled(),
                ..facts()
            },
            "VM web cannot be started",
            "virt-controller, condition Failure, FailedCreate of VM web: exceeded quota: vms",
            "",
        ),
        (
            "no ControllerRevision",
            Facts {
                vm: vm(
                    "Always",
                    json!({
                        "conditions": [condition(
                            "Failure", "True", "FailedCreate", "ControllerRevision.apps \"web-large\" not found",
                        )],
                        "instancetypeRef": {"controllerRevisionRef": {"name": "web-large"}},
                    }),
                ),
                volumes: filled(),
                ..facts()
            },
            "VM web cannot be started",
            "virt-controller, condition Failure, FailedCreate of VM web: ControllerRevision.apps \"web-large\" not found",
            "name another one in spec.instancetype.name, or restore the ControllerRevision",
        ),
        (
            "import goes on",
            Facts {
                vm: running(),
                volumes: disk(
                    Some("Bound"),
                    Some(json!({
                        "metadata": {"creationTimestamp": BEFORE},
                        "status": {"phase": "ImportInProgress", "progress": "42.10%"},
                    })),
                ),
                ..facts()
            },
            "VM web waits for DataVolume disk, which is being filled (ImportInProgress, 42.10%)",
            "",
            "kubectl get datavolume disk -n blue -w",
        ),
        (
            "import failed",
            Facts {
                vm: running(),
                volumes: disk(
                    Some("Bound"),
                    Some(json!({"status": {"phase": "Failed", "conditions": [
                        condition("Running", "False", "Error", "404: no such image"),
                    ]}})),
                ),
                ..facts()
            },
            "VM web waits for DataVolume disk, which has failed",
            "condition Running, Error of DataVolume disk: 404: no such image",
            "delete datavolume disk",
        ),
        (
            "upload awaited",
            Facts {
                vm: running(),
                volumes: disk(Some("Bound"), Some(json!({"status": {"phase": "UploadReady"}}))),
                ..facts()
            },
            "VM web waits for DataVolume disk, which waits for an upload",
            "",
            "image-upload dv disk -n blue",
        ),
        (
            "no such DataVolume",
            Facts { vm: running(), volumes: disk(None, None), ..facts() },
            "VM web waits for DataVolume disk, which does not exist",
            "",
            "create it in namespace blue",
        ),
        (
            "no CDI for its templates",
            Facts {
                vm: Some(templates),
                volumes: disk(None, None),
                events: vec![event("VirtualMachine", "web", "FailedDataVolumeCreate", "no matches for kind")],
                ..facts()
            },
            "VM web waits for virt-controller to create DataVolume disk",
            "csi-provisioner, event FailedDataVolumeCreate of VM web: no matches for kind",
            "CDI is installed",
        ),
        (
            "no storage",
            Facts {
                vm: running(),
                volumes: disk(Some("Pending"), None),
                events: vec![event("PersistentVolumeClaim", "disk", "ProvisioningFailed", "no class fast")],
                ..facts()
            },
            "VM web waits for PVC disk of storage class fast, which is not bound",
            "csi-provisioner, event ProvisioningFailed of PVC disk: no class fast",
            "get storageclass",
        ),
        (
            "deleted, and held",
            Facts { vm: Some(deleted), ..facts() },
            "VM web is being deleted, and waits for: example.com/hold",
            "",
            "virt-controller runs",
        ),
    ]
}

pub(super) fn of_pods() -> Vec<Situation> {
    let unschedulable = "0/3 nodes are available: 3 Insufficient memory.";
    let waiting =
        |reason: &str, message: &str| compute(json!({"waiting": {"reason": reason, "message": message}}));
    let scheduling = || Facts { vm: running(), vmi: vmi("Scheduling", &[]), volumes: filled(), ..facts() };
    vec![
        (
            "no pod because of a quota",
            Facts {
                vmi: vmi(
                    "Pending",
                    &[condition(
                        "Synchronized",
                        "False",
                        "FailedCreate",
                        "pods is forbidden: exceeded quota: small",
                    )],
                ),
                ..scheduling()
            },
            "VM web waits for virt-controller to create its launcher pod, which has failed",
            "virt-controller, condition Synchronized, FailedCreate of VMI web: pods is forbidden: exceeded quota: small",
            "describe resourcequota",
        ),
        (
            "no node",
            Facts {
                pods: pod(
                    None,
                    "Pending",
                    json!({"conditions": [condition("PodScheduled", "False", "Unschedulable", unschedulable)]}),
                ),
                events: vec![event("Pod", "virt-launcher-web-x", "FailedScheduling", unschedulable)],
                ..scheduling()
            },
            "VM web waits for a node: no node can take its launcher pod",
            "the scheduler, condition PodScheduled, Unschedulable of Pod virt-launcher-web-x: 0/3 nodes are available: 3 Insufficient memory.",
            "less memory",
        ),
        (
            "no KVM",
            Facts {
                pods: pod(
                    None,
                    "Pending",
                    json!({"conditions": [
                        condition("PodScheduled", "False", "Unschedulable", "3 Insufficient devices.kubevirt.io/kvm"),
                    ]}),
                ),
                ..scheduling()
            },
            "VM web waits for a node",
            "the scheduler, condition PodScheduled, Unschedulable of Pod virt-launcher-web-x: 3 Insufficient devices.kubevirt.io/kvm",
            "useEmulation",
        ),
        (
            "no scheduler",
            Facts { pods: pod(None, "Pending", json!({})), ..scheduling() },
            "VM web waits for the scheduler",
            "",
            "whether a scheduler runs",
        ),
        (
            "no image",
            Facts {
                pods: pod(Some("n1"), "Pending", waiting("ImagePullBackOff", "Back-off pulling image")),
                ..scheduling()
            },
            "VM web waits for image reg/launcher:1, which cannot be pulled",
            "the kubelet, container compute of Pod virt-launcher-web-x, ImagePullBackOff: Back-off pulling image",
            "pull secret",
        ),
        (
            "no image of a volume",
            Facts {
                pods: pod(
                    Some("n1"),
                    "Pending",
                    waiting("ErrImagePull", "cannot resolve image \"reg/disk:1\": not found"),
                ),
                ..scheduling()
            },
            "VM web waits for image reg/disk:1, which cannot be pulled",
            "the kubelet, container compute of Pod virt-launcher-web-x, ErrImagePull: \
             cannot resolve image \"reg/disk:1\": not found",
            "pull secret",
        ),
        (
            "no volume on the node",
            Facts {
                pods: pod(Some("n1"), "Pending", waiting("ContainerCreating", "")),
                events: vec![event(
                    "Pod",
                    "virt-launcher-web-x",
                    "FailedMount",
                    "timed out waiting for disk",
                )],
                ..scheduling()
            },
            "VM web waits for the kubelet of node n1 to start its launcher pod virt-launcher-web-x",
            "csi-provisioner, event FailedMount of Pod virt-launcher-web-x: timed out waiting for disk",
            "describe pvc",
        ),
        (
            "no ConfigMap of a sidecar",
            Facts {
                pods: pod(Some("n1"), "Pending", waiting("ContainerCreating", "")),
                events: vec![event(
                    "Pod",
                    "virt-launcher-web-x",
                    "FailedMount",
                    "MountVolume.SetUp failed: configmap \"hook\" not found",
                )],
                ..scheduling()
            },
            "VM web waits for the kubelet of node n1 to start its launcher pod virt-launcher-web-x",
            "csi-provisioner, event FailedMount of Pod virt-launcher-web-x: MountVolume.SetUp failed: configmap \"hook\" not found",
            "create the ConfigMap hook in namespace blue",
        ),
        (
            "no node for real-time CPUs",
            Facts {
                pods: {
                    let lacking =
                        "2 node(s) didn't match Pod's node affinity/selector, 1 Insufficient hugepages-2Mi";
                    let said = [condition("PodScheduled", "False", "Unschedulable", lacking)];
                    let mut pods = pod(None, "Pending", json!({"conditions": said}));
                    pods[0]["spec"]["nodeSelector"] =
                        json!({"cpumanager": "true", "kubevirt.io/realtime": ""});
                    pods
                },
                ..scheduling()
            },
            "VM web waits for a node",
            "the scheduler, condition PodScheduled, Unschedulable of Pod virt-launcher-web-x: \
             2 node(s) didn't match Pod's node affinity/selector, 1 Insufficient hugepages-2Mi",
            ".status.allocatable.hugepages-2Mi; the VM has dedicated CPUs",
        ),
        (
            "launcher ended",
            Facts {
                pods: pod(
                    Some("n1"),
                    "Failed",
                    compute(json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}})),
                ),
                ..scheduling()
            },
            "The launcher pod virt-launcher-web-x of VM web has ended",
            "container compute of Pod virt-launcher-web-x, OOMKilled: ended with exit code 137",
            "kubectl logs",
        ),
        (
            "handed over",
            Facts { vmi: on_node(vmi("Scheduled", &[])), pods: up(), ..scheduling() },
            "VM web waits for virt-handler on node n1 to start the guest",
            "",
            "spec.nodeName=n1",
        ),
        (
            "virt-handler fails",
            Facts {
                vmi: on_node(vmi(
                    "Scheduled",
                    &[condition("Synchronized", "False", "Synchronizing with the Domain failed.", "no OVMF")],
                )),
                pods: up(),
                events: vec![event("VirtualMachineInstance", "web", "SyncFailed", "no OVMF")],
                ..scheduling()
            },
            "VM web waits for virt-handler to start the guest, which has failed",
            "virt-handler, condition Synchronized, Synchronizing with the Domain failed. of VMI web: no OVMF",
            "tried again",
        ),
    ]
}

/// Node of the VMI, with this status of its condition Ready.
fn node(status: &str) -> Option<Value> {
    let ready = condition("Ready", status, "Kubelet", "kubelet says so");
    Some(json!({"metadata": {"name": "n1"}, "status": {"conditions": [ready]}}))
}

fn with_guest(conditions: &[Value]) -> Facts {
    Facts {
        vm: vm("Always", json!({"printableStatus": "Running"})),
        vmi: on_node(vmi("Running", conditions)),
        pods: up(),
        node: node("True"),
        ..facts()
    }
}

pub(super) fn of_guests() -> Vec<Situation> {
    vec![
        (
            "runs",
            with_guest(&[condition("Ready", "True", "", "")]),
            "VM web runs on node n1, and waits for nothing",
            "",
            "",
        ),
        (
            "a change waits for a restart",
            Facts {
                vm: vm(
                    "Always",
                    json!({"printableStatus": "Running", "conditions": [condition("RestartRequired", "True", "", "cpu changed")]}),
                ),
                ..with_guest(&[])
            },
            "VM web runs on node n1, and changes of it wait for a restart",
            "virt-controller, condition RestartRequired of VM web: cpu changed",
            "$virt restart web",
        ),
        (
            "not ready",
            with_guest(&[condition(
                "Ready",
                "False",
                "GuestNotRunning",
                "Guest VM is not reported as running",
            )]),
            "VM web is running but not Ready",
            "condition Ready, GuestNotRunning of VMI web: Guest VM is not reported as running",
            "readinessProbe",
        ),
        (
            "paused by a full disk",
            with_guest(&[condition(
                "Paused",
                "True",
                "PausedIOError",
                "VMI was paused, low-level IO error detected",
            )]),
            "VM web is paused",
            "virt-handler, condition Paused, PausedIOError of VMI web: VMI was paused, low-level IO error detected",
            "is a volume full",
        ),
        (
            "paused by a node whose disk fills",
            with_guest(&[condition(
                "Paused",
                "True",
                "PausedByDiskPressure",
                "VMI was paused: the disk of node n1 is nearly full",
            )]),
            "VM web is paused",
            "virt-handler, condition Paused, PausedByDiskPressure of VMI web: VMI was paused: the disk of node n1 is nearly full",
            "make room on the disk of node n1",
        ),
        (
            "node not ready",
            Facts { node: node("Unknown"), ..with_guest(&[]) },
            "VM web was running on node n1 at the last report",
            "condition Ready of Node n1: kubelet says so",
            "virt-handler runs there",
        ),
        (
            "node unheard of",
            Facts {
                node: node("Unknown"),
                ..with_guest(&[condition("Synchronized", "False", "NodeUnresponsive", "no heartbeat")])
            },
            "VM web waits for node n1, which is unresponsive",
            "virt-controller, condition Synchronized, NodeUnresponsive of VMI web: no heartbeat | condition Ready of Node n1: kubelet says so",
            "bring node n1 back",
        ),
    ]
}
