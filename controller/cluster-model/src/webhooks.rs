//! The webhooks of virt-api: what each is asked about, where, and when it is not asked.
//!
//! ```text
//!  WEBHOOKS ─┬─► virt-api: by the path, who judges
//!            └─► virt-controller: by the kind, the webhook configuration ([`configuration`])
//! ```
//!
//! The webhooks about kinds of CDI have configurations of their own: in a cluster where another CDI operator works they are deleted, and
//! their age says since when DataVolumes have been shown to virt-api ([`asks`]).

use api::crd::KINDS;
use serde_json::Value;

mod configuration;

pub use configuration::{WebhookTarget, asks, configuration};

/// One webhook.
pub struct Webhook {
    /// What virt-api has to answer.
    pub question: Question,
    /// Its name, which people see when it says no.
    pub name: &'static str,
    /// Where it answers, below the segment of [`webhook_paths`](crate::webhook_paths).
    pub path: &'static str,
    /// It may change what it is asked about.
    pub mutates: bool,
    /// virt-api may write to another object before it answers; it writes nothing for a dry run.
    pub writes: bool,
    /// The group of the resources; empty for the core group.
    group: &'static str,
    /// The resources, and the subresource where it is one, as a path of the API server has them.
    resources: &'static [&'static str],
    operations: &'static [&'static str],
    /// When it is not asked.
    unless: &'static [Unless],
    /// Without an answer of ours, nothing is done; else it is done without one.
    strict: bool,
    /// It must know whether anything is left that the installation is there for.
    pub counts: bool,
}

/// What virt-api has to answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// What a VM lacks.
    FillVm,
    /// What a VMI lacks.
    FillVmi,
    /// Whether a VM may be written.
    Vm,
    /// Whether a VMI may be made.
    NewVmi,
    /// Whether a VMI may be changed.
    ChangedVmi,
    /// Whether a VirtualMachineInstanceReplicaSet may be written.
    ReplicaSet,
    /// Whether a VirtualMachineInstancePreset may be written.
    Preset,
    /// Whether a VirtualMachinePool may be written.
    Pool,
    /// Whether an instance type may be written.
    Instancetype,
    /// Whether a preference may be written.
    Preference,
    /// Whether a KubeVirt object may be written.
    KubeVirt,
    /// Whether a KubeVirt object may be deleted.
    KubeVirtRemoval,
    /// Whether a launcher pod may be evicted.
    Eviction,
    /// Whether a DataVolume may clone its source, and the token that says so.
    FillDataVolume,
    /// What a PVC lacks that asks for it.
    FillClaim,
    /// Whether a PVC may be written that asks for an export.
    Claim,
    /// Whether a DataVolume may be written.
    DataVolume,
    /// Whether a DataImportCron may be written.
    DataImportCron,
    /// Whether a VolumeImportSource, a VolumeUploadSource or a VolumeCloneSource may be written.
    Populator,
    /// Whether an ObjectTransfer may be written.
    ObjectTransfer,
    /// Which settings of a CDI object or of a CDIConfig have no effect.
    CdiSettings,
    /// Whether a CDI object may be deleted.
    CdiRemoval,
}

/// When a webhook is not asked. What virt-controller writes of objects that are there, it has judged; so VMIs run on
/// when no virt-api is there, and only what people write has to wait for it.
#[derive(Clone, Copy)]
enum Unless {
    /// virt-controller changes something that is there.
    Controller,
    /// virt-controller writes it, whatever it is.
    ControllerAlways,
    /// virt-handler writes it.
    Handler,
    /// virt-handler writes of a VMI on its own node, as its token says.
    HandlerAtHome,
    /// virt-api itself changes a few fields for a user. To fill in more would be refused: the policies of the installation
    /// hold virt-api's account to those fields.
    Api,
    /// The object is being deleted, and its spec stays as it is. Whoever holds one by a finalizer of his own could write anything into it
    /// otherwise.
    Leaving,
    /// The PVC asks for no export.
    NoExport,
    /// By its name the pod is none of a launcher: whether virt-api answers is nothing to it.
    OtherPod,
}

/// The group of all kinds of KubeVirt.
const KUBEVIRT: &str = "kubevirt.io";
/// The group of all kinds of CDI.
const CDI: &str = api::cdi::GROUP;
/// The group of instance types and preferences.
const SIZES: &str = api::instancetype::GROUP;
const VMS: &str = "virtualmachines";
const VMIS: &str = "virtualmachineinstances";
const SETS: &str = "virtualmachineinstancereplicasets";
/// The group of pools.
const POOLS: &str = api::pool::GROUP;
const INSTALLATIONS: &str = "kubevirts";
const EVICTIONS: &str = "pods/eviction";
const CREATE: &[&str] = &["CREATE"];
const UPDATE: &[&str] = &["UPDATE"];
const BOTH: &[&str] = &["CREATE", "UPDATE"];

/// All of them.
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
        unless: &[Unless::Controller, Unless::Api, Unless::Leaving],
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
        unless: &[Unless::Controller, Unless::Handler, Unless::Api],
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
        unless: &[Unless::Controller, Unless::Leaving],
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
        unless: &[Unless::Controller, Unless::HandlerAtHome],
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
        unless: &[Unless::Controller, Unless::Leaving],
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
        unless: &[Unless::Leaving],
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
        unless: &[Unless::Controller, Unless::Leaving],
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
        unless: &[Unless::Leaving],
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
        unless: &[Unless::Leaving],
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
        unless: &[Unless::Leaving],
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
        unless: &[Unless::Leaving],
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
        unless: &[Unless::ControllerAlways],
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
        unless: &[Unless::ControllerAlways, Unless::Leaving],
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
        // An installation whose virt-api is gone must be able to go too; its finalizer looks once more.
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
        unless: &[Unless::OtherPod],
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
        // virt-controller makes those of VMs: for them the VM's service account is asked about.
        unless: &[Unless::Api],
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
        unless: &[Unless::Api],
        // Other PVCs are none of its business; and where no virt-api answers, the API server says what is missing.
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
        unless: &[Unless::Controller, Unless::Leaving, Unless::NoExport],
        // PVCs do not wait for virt-api: what it was not asked about, virt-controller refuses by a reason.
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
        unless: &[Unless::Controller, Unless::Leaving],
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
        unless: &[Unless::Controller, Unless::Leaving],
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
        unless: &[Unless::Controller, Unless::Leaving],
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
        unless: &[Unless::Controller, Unless::Leaving],
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
        unless: &[Unless::ControllerAlways, Unless::Leaving],
        // It warns, and refuses nothing: virt-controller says the same on the CDI object.
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
        // As with the KubeVirt object.
        strict: false,
        counts: true,
    },
];

impl Webhook {
    /// The one that answers at a path.
    pub fn at(path: &str) -> Option<&'static Webhook> {
        WEBHOOKS.iter().find(|webhook| webhook.path == path)
    }

    /// It is asked when this object is made.
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
