//! The table of kinds: names, columns of `kubectl get`, and subresources.

use crate::cdi::{
    CDI, CDIConfig, DataImportCron, DataSource, GROUP, ObjectTransfer, StorageProfile, VERSION,
    VolumeCloneSource, VolumeImportSource, VolumeUploadSource,
};
use crate::crd::{Column, CustomResource, Subresources};
use crate::data_volume::DataVolume;
use crate::instancetype::{
    self, VirtualMachineClusterInstancetype, VirtualMachineClusterPreference, VirtualMachineInstancetype,
    VirtualMachinePreference,
};
use crate::kubevirt::KubeVirt;
use crate::migration::VirtualMachineInstanceMigration;
use crate::migration_policy::{self, MigrationPolicy};
use crate::pool::{self, VirtualMachinePool};
use crate::preset::{self, VirtualMachineInstancePreset};
use crate::replica_set::VirtualMachineInstanceReplicaSet;
use crate::vm::VirtualMachine;
use crate::vmi::VirtualMachineInstance;
use crate::wire::Wire;

/// Every kind that has a CustomResourceDefinition.
pub const KINDS: &[CustomResource] = &[
    CustomResource {
        group: "kubevirt.io",
        kind: "VirtualMachine",
        is_of_cluster: false,
        is_in_all: true,
        plural: "virtualmachines",
        singular: "virtualmachine",
        short: &["vm", "vms"],
        label: "kubevirt.io",
        version: "v1",
        old_version: Some("v1alpha3"),
        deprecated: None,
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
        is_of_cluster: false,
        is_in_all: true,
        plural: "virtualmachineinstances",
        singular: "virtualmachineinstance",
        short: &["vmi", "vmis"],
        label: "kubevirt.io",
        version: "v1",
        old_version: Some("v1alpha3"),
        deprecated: None,
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
        is_of_cluster: false,
        is_in_all: true,
        plural: "virtualmachineinstancereplicasets",
        singular: "virtualmachineinstancereplicaset",
        short: &["vmirs", "vmirss"],
        label: "kubevirt.io",
        version: "v1",
        old_version: Some("v1alpha3"),
        deprecated: None,
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
        kind: "VirtualMachineInstanceMigration",
        is_in_all: true,
        plural: "virtualmachineinstancemigrations",
        singular: "virtualmachineinstancemigration",
        short: &["vmim", "vmims"],
        label: "kubevirt.io",
        version: "v1",
        old_version: Some("v1alpha3"),
        subresources: Subresources::Status,
        columns: &[
            Column {
                description: "Phase of the migration, from Pending to Succeeded or Failed",
                ..text("Phase", ".status.phase")
            },
            Column { description: "Name of the VMI to migrate", ..text("VMI", ".spec.vmiName") },
        ],
        schema: VirtualMachineInstanceMigration::schema,
        ..OF_CDI
    },
    // No short names, no category and no column but the age, as upstream.
    CustomResource {
        group: migration_policy::GROUP,
        kind: "MigrationPolicy",
        is_of_cluster: true,
        plural: "migrationpolicies",
        singular: "migrationpolicy",
        label: "kubevirt.io",
        version: migration_policy::VERSION,
        subresources: Subresources::Status,
        schema: MigrationPolicy::schema,
        ..OF_CDI
    },
    CustomResource {
        group: "kubevirt.io",
        kind: "VirtualMachineInstancePreset",
        is_in_all: true,
        plural: "virtualmachineinstancepresets",
        singular: "virtualmachineinstancepreset",
        short: &["vmipreset", "vmipresets"],
        label: "kubevirt.io",
        version: "v1",
        old_version: Some("v1alpha3"),
        deprecated: Some(preset::DEPRECATED),
        schema: VirtualMachineInstancePreset::schema,
        ..OF_CDI
    },
    CustomResource {
        group: pool::GROUP,
        kind: "VirtualMachinePool",
        is_in_all: true,
        plural: "virtualmachinepools",
        singular: "virtualmachinepool",
        short: &["vmpool", "vmpools"],
        label: "kubevirt.io",
        version: pool::VERSION,
        old_version: Some(pool::OLD_VERSION),
        subresources: Subresources::StatusAndScale,
        columns: &[
            number("Desired", ".spec.replicas", "Number of VMs to keep"),
            number("Current", ".status.replicas", "Number of VMs in the pool"),
            number("Ready", ".status.readyReplicas", "Number of VMs that are ready"),
            AGE,
        ],
        schema: VirtualMachinePool::schema,
        ..OF_CDI
    },
    CustomResource {
        group: "kubevirt.io",
        kind: "KubeVirt",
        is_of_cluster: false,
        is_in_all: true,
        plural: "kubevirts",
        singular: "kubevirt",
        short: &["kv", "kvs"],
        // Not the label of the other definitions: deleting the definitions by that label must not delete the
        // installation.
        label: "operator.kubevirt.io",
        version: "v1",
        old_version: Some("v1alpha3"),
        deprecated: None,
        subresources: Subresources::Status,
        columns: &[AGE, text("Phase", ".status.phase")],
        schema: KubeVirt::schema,
    },
    CustomResource {
        kind: "DataVolume",
        is_in_all: true,
        plural: "datavolumes",
        singular: "datavolume",
        short: &["dv", "dvs"],
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
        ..OF_CDI
    },
    CustomResource {
        kind: "DataSource",
        is_in_all: true,
        plural: "datasources",
        singular: "datasource",
        short: &["das"],
        columns: &[
            AGE,
            text("Ready", ".status.conditions[?(@.type=='Ready')].status"),
            wide("PVC", ".status.source.pvc.name"),
        ],
        schema: DataSource::schema,
        ..OF_CDI
    },
    CustomResource {
        kind: "DataImportCron",
        is_in_all: true,
        plural: "dataimportcrons",
        singular: "dataimportcron",
        short: &["dic", "dics"],
        columns: &[
            Column {
                description: "Format of the kept images: PVC or VolumeSnapshot",
                ..text("Format", ".status.sourceFormat")
            },
            text("UpToDate", ".status.conditions[?(@.type=='UpToDate')].status"),
            text("DataSource", ".spec.managedDataSource"),
            AGE,
            wide("Progressing", ".status.conditions[?(@.type=='Progressing')].status"),
        ],
        schema: DataImportCron::schema,
        ..OF_CDI
    },
    CustomResource {
        kind: "VolumeImportSource",
        plural: "volumeimportsources",
        singular: "volumeimportsource",
        schema: VolumeImportSource::schema,
        ..OF_CDI
    },
    CustomResource {
        kind: "VolumeUploadSource",
        plural: "volumeuploadsources",
        singular: "volumeuploadsource",
        schema: VolumeUploadSource::schema,
        ..OF_CDI
    },
    CustomResource {
        kind: "VolumeCloneSource",
        plural: "volumeclonesources",
        singular: "volumeclonesource",
        schema: VolumeCloneSource::schema,
        ..OF_CDI
    },
    CustomResource {
        kind: "StorageProfile",
        is_of_cluster: true,
        plural: "storageprofiles",
        singular: "storageprofile",
        subresources: Subresources::Status,
        schema: StorageProfile::schema,
        ..OF_CDI
    },
    CustomResource {
        kind: "CDIConfig",
        is_of_cluster: true,
        plural: "cdiconfigs",
        singular: "cdiconfig",
        schema: CDIConfig::schema,
        ..OF_CDI
    },
    CustomResource {
        kind: "CDI",
        is_of_cluster: true,
        plural: "cdis",
        singular: "cdi",
        short: &["cdi", "cdis"],
        // As with the KubeVirt object: deleting the definitions by their label must keep the installation.
        label: "operator.cdi.kubevirt.io",
        columns: &[AGE, text("Phase", ".status.phase")],
        schema: CDI::schema,
        ..OF_CDI
    },
    CustomResource {
        kind: "ObjectTransfer",
        is_of_cluster: true,
        plural: "objecttransfers",
        singular: "objecttransfer",
        short: &["ot", "ots"],
        subresources: Subresources::Status,
        columns: &[AGE, Column { description: "Phase of the transfer", ..text("Phase", ".status.phase") }],
        schema: ObjectTransfer::schema,
        ..OF_CDI
    },
    CustomResource {
        kind: "VirtualMachineInstancetype",
        plural: "virtualmachineinstancetypes",
        singular: "virtualmachineinstancetype",
        short: &["vminstancetype", "vminstancetypes", "vmf", "vmfs"],
        schema: VirtualMachineInstancetype::schema,
        ..OF_SIZES
    },
    CustomResource {
        kind: "VirtualMachineClusterInstancetype",
        is_of_cluster: true,
        plural: "virtualmachineclusterinstancetypes",
        singular: "virtualmachineclusterinstancetype",
        short: &["vmclusterinstancetype", "vmclusterinstancetypes", "vmcf", "vmcfs"],
        schema: VirtualMachineClusterInstancetype::schema,
        ..OF_SIZES
    },
    CustomResource {
        kind: "VirtualMachinePreference",
        plural: "virtualmachinepreferences",
        singular: "virtualmachinepreference",
        short: &["vmpref", "vmprefs", "vmp", "vmps"],
        schema: VirtualMachinePreference::schema,
        ..OF_SIZES
    },
    CustomResource {
        kind: "VirtualMachineClusterPreference",
        is_of_cluster: true,
        plural: "virtualmachineclusterpreferences",
        singular: "virtualmachineclusterpreference",
        short: &["vmcp", "vmcps"],
        schema: VirtualMachineClusterPreference::schema,
        ..OF_SIZES
    },
];

/// Common part of instance types and preferences. They have no status, and no category: `kubectl get all`
/// would list the common sets of a cluster.
const OF_SIZES: CustomResource = CustomResource {
    group: instancetype::GROUP,
    label: "kubevirt.io",
    version: instancetype::VERSION,
    old_version: Some(instancetype::OLD_VERSIONS[0]),
    schema: VirtualMachineInstancetype::schema,
    ..OF_CDI
};

/// Common part of most kinds of CDI. Subresources are those of upstream, so that programs that write a whole
/// DataSource with its status get the same answer. Columns are those of upstream, followed by the readiness
/// of the object.
const OF_CDI: CustomResource = CustomResource {
    group: GROUP,
    kind: "",
    is_of_cluster: false,
    is_in_all: false,
    plural: "",
    singular: "",
    short: &[],
    label: GROUP,
    version: VERSION,
    old_version: None,
    deprecated: None,
    subresources: Subresources::None,
    columns: &[AGE],
    schema: DataVolume::schema,
};

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
