//! The webhooks of virt-api: resources, paths, and the conditions under which the API server skips them.
//!
//! ```text
//!  WEBHOOKS ─┬─► virt-api: the rules of a path
//!            └─► virt-controller: the webhook configurations ([`configuration`])
//! ```
//!
//! The webhooks about kinds of CDI have configurations of their own: in a cluster with another CDI operator
//! they are deleted, and their age tells since when virt-api has seen all new DataVolumes ([`has_webhook`]).

use api::crd::KINDS;
use serde_json::Value;

mod configuration;

pub use configuration::{WebhookTarget, configuration, has_webhook};

/// A webhook of virt-api.
pub struct Webhook {
    /// The check or change that virt-api makes.
    pub question: Question,
    /// Name in the error message of a refused request.
    pub name: &'static str,
    /// Path below the segment of [`webhook_paths`](crate::webhook_paths).
    pub path: &'static str,
    /// The webhook may change the object.
    pub mutates: bool,
    /// virt-api may write to another object before it answers. It writes nothing for a dry run.
    pub writes: bool,
    /// API group of the resources; empty for the core group.
    group: &'static str,
    /// The resources, with the subresource if any, as in a path of the API server.
    resources: &'static [&'static str],
    operations: &'static [&'static str],
    /// Conditions under which it is skipped.
    unless: &'static [SkipCondition],
    /// `failurePolicy: Fail`: requests are refused while the webhook does not answer.
    strict: bool,
    /// The check needs to know whether workloads of the installation are left.
    pub counts: bool,
}

/// Check or change that virt-api makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Defaults of a VM.
    FillVm,
    /// Defaults of a VMI.
    FillVmi,
    /// Validity of a VM.
    Vm,
    /// Validity of a new VMI.
    NewVmi,
    /// Validity of a change of a VMI.
    ChangedVmi,
    /// Label and finalizer of a VirtualMachineInstanceMigration.
    FillMigration,
    /// Validity of a new VirtualMachineInstanceMigration.
    NewMigration,
    /// Validity of a change of a VirtualMachineInstanceMigration.
    ChangedMigration,
    /// Validity of a MigrationPolicy.
    MigrationPolicy,
    /// Validity of a VirtualMachineInstanceReplicaSet.
    ReplicaSet,
    /// Validity of a VirtualMachineInstancePreset.
    Preset,
    /// Validity of a VirtualMachinePool.
    Pool,
    /// Validity of an instance type.
    Instancetype,
    /// Validity of a preference.
    Preference,
    /// Validity of a KubeVirt object.
    KubeVirt,
    /// Deletion of a KubeVirt object.
    KubeVirtRemoval,
    /// Eviction of a launcher pod.
    Eviction,
    /// Permission of a DataVolume to clone its source, and the token that proves it.
    FillDataVolume,
    /// Defaults of a PVC that requests them by its label.
    FillClaim,
    /// Validity of a PVC that requests an export.
    Claim,
    /// Validity of a DataVolume.
    DataVolume,
    /// Validity of a DataImportCron.
    DataImportCron,
    /// Validity of a VolumeImportSource, a VolumeUploadSource or a VolumeCloneSource.
    Populator,
    /// Validity of an ObjectTransfer.
    ObjectTransfer,
    /// Settings of a CDI object or a CDIConfig that have no effect.
    CdiSettings,
    /// Deletion of a CDI object.
    CdiRemoval,
}

/// Condition under which a webhook is skipped. virt-controller validates its own changes of existing objects.
/// So VMIs keep running while no virt-api is there, and only writes by users have to wait for it.
#[derive(Clone, Copy)]
enum SkipCondition {
    /// Changes of existing objects by virt-controller.
    Controller,
    /// All writes by virt-controller.
    ControllerAlways,
    /// All writes by virt-handler.
    Handler,
    /// Writes by virt-handler to VMIs on its own node, as its token proves.
    HandlerAtHome,
    /// Changes of a few fields that virt-api makes for a user. Filling in more would be refused: the policies
    /// of the installation restrict virt-api's account to those fields.
    Api,
    /// The object is being deleted and its spec does not change. Without the second condition, a user who
    /// holds an object by a finalizer could write anything into it.
    Leaving,
    /// The PVC requests no export.
    NoExport,
    /// The pod's name is not that of a launcher pod. Evictions of other pods must not depend on virt-api.
    OtherPod,
}

/// API group of all kinds of KubeVirt.
const KUBEVIRT: &str = "kubevirt.io";
/// API group of all kinds of CDI.
const CDI: &str = api::cdi::GROUP;
/// API group of instance types and preferences.
const SIZES: &str = api::instancetype::GROUP;
const VMS: &str = "virtualmachines";
const VMIS: &str = "virtualmachineinstances";
const MIGRATIONS: &str = "virtualmachineinstancemigrations";
const SETS: &str = "virtualmachineinstancereplicasets";
/// API group of migration policies.
const POLICIES: &str = api::migration_policy::GROUP;
/// API group of pools.
const POOLS: &str = api::pool::GROUP;
const INSTALLATIONS: &str = "kubevirts";
const EVICTIONS: &str = "pods/eviction";
const CREATE: &[&str] = &["CREATE"];
const UPDATE: &[&str] = &["UPDATE"];
const BOTH: &[&str] = &["CREATE", "UPDATE"];

pub const WEBHOOKS: &[Webhook] = &[
    Webhook {
        question: Question::FillVm,
        name: "virtualmachines-mutator.kubevirt.io",
        path: "/virtualmachines-mutate",
        mutates: true,
        writes: false,
        group: KUBEVIRT,
        resources: &[VMS],
        operations: BOTH,
        unless: &[SkipCondition::Controller, SkipCondition::Api, SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::FillVmi,
        name: "virtualmachineinstances-mutator.kubevirt.io",
        path: "/virtualmachineinstances-mutate",
        mutates: true,
        writes: false,
        group: KUBEVIRT,
        resources: &[VMIS],
        operations: BOTH,
        unless: &[SkipCondition::Controller, SkipCondition::Handler, SkipCondition::Api],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::Vm,
        name: "virtualmachine-validator.kubevirt.io",
        path: "/virtualmachines-validate",
        mutates: false,
        writes: false,
        group: KUBEVIRT,
        resources: &[VMS],
        operations: BOTH,
        unless: &[SkipCondition::Controller, SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::NewVmi,
        name: "virtualmachineinstances-create-validator.kubevirt.io",
        path: "/virtualmachineinstances-validate-create",
        mutates: false,
        writes: false,
        group: KUBEVIRT,
        resources: &[VMIS],
        operations: CREATE,
        unless: &[],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::ChangedVmi,
        name: "virtualmachineinstances-update-validator.kubevirt.io",
        path: "/virtualmachineinstances-validate-update",
        mutates: false,
        writes: false,
        group: KUBEVIRT,
        resources: &[VMIS],
        operations: UPDATE,
        unless: &[SkipCondition::Controller, SkipCondition::HandlerAtHome],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::FillMigration,
        name: "migrations-mutator.kubevirt.io",
        path: "/migration-mutate-create",
        mutates: true,
        writes: false,
        group: KUBEVIRT,
        resources: &[MIGRATIONS],
        operations: CREATE,
        unless: &[SkipCondition::Api],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::NewMigration,
        name: "migration-create-validator.kubevirt.io",
        path: "/migration-validate-create",
        mutates: false,
        writes: false,
        group: KUBEVIRT,
        resources: &[MIGRATIONS],
        operations: CREATE,
        unless: &[],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::ChangedMigration,
        name: "migration-update-validator.kubevirt.io",
        path: "/migration-validate-update",
        mutates: false,
        writes: false,
        group: KUBEVIRT,
        resources: &[MIGRATIONS],
        operations: UPDATE,
        unless: &[SkipCondition::Controller, SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::MigrationPolicy,
        name: "migration-policy-validator.kubevirt.io",
        path: "/migration-policy-validate-create",
        mutates: false,
        writes: false,
        group: POLICIES,
        resources: &["migrationpolicies"],
        operations: BOTH,
        unless: &[SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::ReplicaSet,
        name: "virtualmachinereplicaset-validator.kubevirt.io",
        path: "/virtualmachinereplicaset-validate",
        mutates: false,
        writes: false,
        group: KUBEVIRT,
        resources: &[SETS],
        operations: BOTH,
        unless: &[SkipCondition::Controller, SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::Preset,
        name: "virtualmachinepreset-validator.kubevirt.io",
        path: "/vmipreset-validate",
        mutates: false,
        writes: false,
        group: KUBEVIRT,
        resources: &["virtualmachineinstancepresets"],
        operations: BOTH,
        unless: &[SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::Pool,
        name: "virtualmachinepool-validator.kubevirt.io",
        path: "/virtualmachinepool-validate",
        mutates: false,
        writes: false,
        group: POOLS,
        resources: &["virtualmachinepools"],
        operations: BOTH,
        unless: &[SkipCondition::Controller, SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::Instancetype,
        name: "virtualmachineinstancetype-validator.instancetype.kubevirt.io",
        path: "/virtualmachineinstancetypes-validate",
        mutates: false,
        writes: false,
        group: SIZES,
        resources: &["virtualmachineinstancetypes"],
        operations: BOTH,
        unless: &[SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::Instancetype,
        name: "virtualmachineclusterinstancetype-validator.instancetype.kubevirt.io",
        path: "/virtualmachineclusterinstancetypes-validate",
        mutates: false,
        writes: false,
        group: SIZES,
        resources: &["virtualmachineclusterinstancetypes"],
        operations: BOTH,
        unless: &[SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::Preference,
        name: "virtualmachinepreference-validator.instancetype.kubevirt.io",
        path: "/virtualmachinepreferences-validate",
        mutates: false,
        writes: false,
        group: SIZES,
        resources: &["virtualmachinepreferences"],
        operations: BOTH,
        unless: &[SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::Preference,
        name: "virtualmachineclusterpreference-validator.instancetype.kubevirt.io",
        path: "/virtualmachineclusterpreferences-validate",
        mutates: false,
        writes: false,
        group: SIZES,
        resources: &["virtualmachineclusterpreferences"],
        operations: BOTH,
        unless: &[SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::KubeVirt,
        name: "kubevirt-create-validator.kubevirt.io",
        path: "/kubevirt-validate-create",
        mutates: false,
        writes: false,
        group: KUBEVIRT,
        resources: &[INSTALLATIONS],
        operations: CREATE,
        unless: &[SkipCondition::ControllerAlways],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::KubeVirt,
        name: "kubevirt-update-validator.kubevirt.io",
        path: "/kubevirt-validate-update",
        mutates: false,
        writes: false,
        group: KUBEVIRT,
        resources: &[INSTALLATIONS],
        operations: UPDATE,
        unless: &[SkipCondition::ControllerAlways, SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::KubeVirtRemoval,
        name: "kubevirt-validator.kubevirt.io",
        path: "/kubevirt-validate-delete",
        mutates: false,
        writes: false,
        group: KUBEVIRT,
        resources: &[INSTALLATIONS],
        operations: &["DELETE"],
        unless: &[],
        // An installation whose virt-api is gone must be removable. Its finalizer makes the same check again.
        strict: false,
        counts: true,
    },
    Webhook {
        question: Question::Eviction,
        name: "virt-launcher-eviction-interceptor.kubevirt.io",
        path: "/pod-eviction-validate",
        mutates: false,
        writes: true,
        group: "",
        resources: &[EVICTIONS],
        operations: CREATE,
        unless: &[SkipCondition::OtherPod],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::FillDataVolume,
        name: "datavolume-mutate.cdi.kubevirt.io",
        path: "/datavolume-mutate",
        mutates: true,
        writes: false,
        group: CDI,
        resources: &["datavolumes"],
        operations: CREATE,
        // virt-controller creates the DataVolumes of VMs: for them, the VM's service account is checked.
        unless: &[SkipCondition::Api],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::FillClaim,
        name: "pvc-mutate.cdi.kubevirt.io",
        path: "/pvc-mutate",
        mutates: true,
        writes: false,
        group: "",
        resources: &["persistentvolumeclaims"],
        operations: CREATE,
        unless: &[SkipCondition::Api],
        // Other PVCs are not affected, and without virt-api the API server reports missing fields itself.
        strict: false,
        counts: false,
    },
    Webhook {
        question: Question::Claim,
        name: "pvc-validate.cdi.kubevirt.io",
        path: "/pvc-validate",
        mutates: false,
        writes: false,
        group: "",
        resources: &["persistentvolumeclaims"],
        operations: BOTH,
        unless: &[SkipCondition::Controller, SkipCondition::Leaving, SkipCondition::NoExport],
        // PVCs do not wait for virt-api: virt-controller refuses an unchecked one later, with a reason.
        strict: false,
        counts: false,
    },
    Webhook {
        question: Question::DataVolume,
        name: "datavolume-validate.cdi.kubevirt.io",
        path: "/datavolume-validate",
        mutates: false,
        writes: false,
        group: CDI,
        resources: &["datavolumes"],
        operations: BOTH,
        unless: &[SkipCondition::Controller, SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::DataImportCron,
        name: "dataimportcron-validate.cdi.kubevirt.io",
        path: "/dataimportcron-validate",
        mutates: false,
        writes: false,
        group: CDI,
        resources: &["dataimportcrons"],
        operations: BOTH,
        unless: &[SkipCondition::Controller, SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::Populator,
        name: "populator-validate.cdi.kubevirt.io",
        path: "/populator-validate",
        mutates: false,
        writes: false,
        group: CDI,
        resources: &["volumeimportsources", "volumeuploadsources", "volumeclonesources"],
        operations: BOTH,
        unless: &[SkipCondition::Controller, SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::ObjectTransfer,
        name: "objecttransfer-validate.cdi.kubevirt.io",
        path: "/objecttransfer-validate",
        mutates: false,
        writes: false,
        group: CDI,
        resources: &["objecttransfers"],
        operations: BOTH,
        unless: &[SkipCondition::Controller, SkipCondition::Leaving],
        strict: true,
        counts: false,
    },
    Webhook {
        question: Question::CdiSettings,
        name: "cdi-settings.cdi.kubevirt.io",
        path: "/cdi-settings",
        mutates: false,
        writes: false,
        group: CDI,
        resources: &["cdis", "cdiconfigs"],
        operations: BOTH,
        unless: &[SkipCondition::ControllerAlways, SkipCondition::Leaving],
        // The webhook warns and refuses nothing: virt-controller reports the same on the CDI object.
        strict: false,
        counts: false,
    },
    Webhook {
        question: Question::CdiRemoval,
        name: "cdi-validate.cdi.kubevirt.io",
        path: "/cdi-validate",
        mutates: false,
        writes: false,
        group: CDI,
        resources: &["cdis"],
        operations: &["DELETE"],
        unless: &[],
        // As for the KubeVirt object.
        strict: false,
        counts: true,
    },
];

impl Webhook {
    /// The webhook at a path.
    pub fn find_by_path(path: &str) -> Option<&'static Webhook> {
        WEBHOOKS.iter().find(|webhook| webhook.path == path)
    }

    /// True if the API server calls the webhook when this object is created.
    pub fn is_about_new(&self, object: &Value) -> bool {
        let api_version = object["apiVersion"].as_str().unwrap_or_default();
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        let plural = KINDS
            .iter()
            .find(|kind| kind.group == group && object["kind"] == kind.kind)
            .map(|kind| kind.plural);
        self.group == group
            && self.operations.contains(&"CREATE")
            && plural.is_some_and(|plural| self.resources.contains(&plural))
    }
}

#[cfg(test)]
mod tests;
