//! The kinds: what they are called, what is shown of them, what is written beside them.

use crate::crd::{Column, CustomResource, Subresources};
use crate::datavolume::DataVolume;
use crate::kubevirt::KubeVirt;
use crate::replicaset::VirtualMachineInstanceReplicaSet;
use crate::vm::VirtualMachine;
use crate::vmi::VirtualMachineInstance;
use crate::wire::Wire;

/// All kinds.
pub const KINDS: &[CustomResource] = &[
    CustomResource {
        group: "kubevirt.io",
        kind: "VirtualMachine",
        plural: "virtualmachines",
        singular: "virtualmachine",
        short: &["vm", "vms"],
        label: "kubevirt.io",
        version: "v1",
        old_version: Some("v1alpha3"),
        subresources: Subresources::Status,
        columns: &[
            AGE,
            Column {
                description: "Summary of the VM's state in one word",
                ..text("Status", ".status.printableStatus")
            },
            text("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        ],
        schema: VirtualMachine::schema,
    },
    CustomResource {
        group: "kubevirt.io",
        kind: "VirtualMachineInstance",
        plural: "virtualmachineinstances",
        singular: "virtualmachineinstance",
        short: &["vmi", "vmis"],
        label: "kubevirt.io",
        version: "v1",
        old_version: Some("v1alpha3"),
        subresources: Subresources::None,
        columns: &[
            AGE,
            text("Phase", ".status.phase"),
            text("IP", ".status.interfaces[0].ipAddress"),
            text("NodeName", ".status.nodeName"),
            text("Ready", ".status.conditions[?(@.type=='Ready')].status"),
            wide("Live-Migratable", ".status.conditions[?(@.type=='LiveMigratable')].status"),
            wide("Paused", ".status.conditions[?(@.type=='Paused')].status"),
        ],
        schema: VirtualMachineInstance::schema,
    },
    CustomResource {
        group: "kubevirt.io",
        kind: "VirtualMachineInstanceReplicaSet",
        plural: "virtualmachineinstancereplicasets",
        singular: "virtualmachineinstancereplicaset",
        short: &["vmirs", "vmirss"],
        label: "kubevirt.io",
        version: "v1",
        old_version: Some("v1alpha3"),
        subresources: Subresources::StatusAndScale,
        columns: &[
            number("Desired", ".spec.replicas", "Number of VMIs to keep running"),
            number("Current", ".status.replicas", "Number of VMIs that have not ended"),
            number("Ready", ".status.readyReplicas", "Number of VMIs that are ready"),
            AGE,
        ],
        schema: VirtualMachineInstanceReplicaSet::schema,
    },
    CustomResource {
        group: "kubevirt.io",
        kind: "KubeVirt",
        plural: "kubevirts",
        singular: "kubevirt",
        short: &["kv", "kvs"],
        // Not the others' label: whoever deletes the definitions by it must not take the installation away with them.
        label: "operator.kubevirt.io",
        version: "v1",
        old_version: Some("v1alpha3"),
        subresources: Subresources::Status,
        columns: &[AGE, text("Phase", ".status.phase")],
        schema: KubeVirt::schema,
    },
    CustomResource {
        group: "cdi.kubevirt.io",
        kind: "DataVolume",
        plural: "datavolumes",
        singular: "datavolume",
        short: &["dv", "dvs"],
        label: "cdi.kubevirt.io",
        version: "v1beta1",
        old_version: None,
        subresources: Subresources::Status,
        columns: &[
            Column { description: "Phase of the import, clone or upload", ..text("Phase", ".status.phase") },
            Column {
                description: "Progress of the transfer in percent",
                ..text("Progress", ".status.progress")
            },
            number("Restarts", ".status.restartCount", "Number of restarts of the transfer"),
            AGE,
        ],
        schema: DataVolume::schema,
    },
];

const AGE: Column = Column { form: "date", ..text("Age", ".metadata.creationTimestamp") };

const fn text(name: &'static str, path: &'static str) -> Column {
    Column { name, form: "string", path, wide: false, description: "" }
}

const fn wide(name: &'static str, path: &'static str) -> Column {
    Column { wide: true, ..text(name, path) }
}

const fn number(name: &'static str, path: &'static str, description: &'static str) -> Column {
    Column { form: "integer", description, ..text(name, path) }
}
