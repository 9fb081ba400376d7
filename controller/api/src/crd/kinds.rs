//! The kinds: what they are called, what is shown of them, what is written beside them.

use crate::crd::{Column, Kind, Subresources};
use crate::datavolume::DataVolume;
use crate::kubevirt::KubeVirt;
use crate::replicaset::VirtualMachineInstanceReplicaSet;
use crate::vm::VirtualMachine;
use crate::vmi::VirtualMachineInstance;
use crate::wire::Wire;

/// All kinds.
pub const KINDS: &[Kind] = &[
    Kind {
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
            Column { description: "How it is, in a word", ..text("Status", ".status.printableStatus") },
            text("Ready", ".status.conditions[?(@.type=='Ready')].status"),
        ],
        schema: VirtualMachine::schema,
    },
    Kind {
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
    Kind {
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
            number("Desired", ".spec.replicas", "How many instances there are to be"),
            number("Current", ".status.replicas", "How many there are, without those that have ended"),
            number("Ready", ".status.readyReplicas", "How many of them are ready"),
            AGE,
        ],
        schema: VirtualMachineInstanceReplicaSet::schema,
    },
    Kind {
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
    Kind {
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
            Column { description: "Where it stands", ..text("Phase", ".status.phase") },
            Column { description: "How much of it is there", ..text("Progress", ".status.progress") },
            number("Restarts", ".status.restartCount", "How often the transfer was begun anew"),
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
