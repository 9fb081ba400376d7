//! Desired state of a VM.

use crate::data_volume;
use crate::meta::{Empty, ObjectMeta};
use crate::vmi;
use crate::{object, string_enum};

object! {
    /// Desired state of a VirtualMachine: run strategy, VMI template and DataVolume templates.
    pub struct Spec {
        /// Deprecated, use `runStrategy`: true means `Always`, false means `Halted`. Excludes `runStrategy`.
        pub running: Option<bool> = "running",
        /// Run strategy: `Always` keeps a VMI running, `RerunOnFailure` restarts a failed one, `Once` starts
        /// one only, `Manual` obeys start and stop requests, `Halted` keeps the VM stopped. Required unless
        /// `running` is set.
        pub run_strategy: Option<RunStrategy> = "runStrategy",
        /// Instance type that sets CPU, memory and further sizes of the VMI. Unset: none.
        pub instancetype: Option<InstancetypeMatcher> = "instancetype",
        /// Preference that supplies values for unset fields of the VMI template. Unset: none.
        pub preference: Option<PreferenceMatcher> = "preference",
        /// Template of the VMIs of this VM. A change takes effect at the next start.
        pub template: Option<Template> = "template",
        /// Templates of DataVolumes, which are created with the VM and deleted with the VM.
        pub data_volume_templates: Vec<DataVolumeTemplate> = "dataVolumeTemplates",
        /// Strategy for changed volumes: `Migration` copies the data of the running VMI, `Replacement`
        /// replaces the volume at the next start. Default: `Replacement`.
        pub update_volumes_strategy: Option<UpdateVolumesStrategy> = "updateVolumesStrategy",
    }
}

object! {
    /// Reference to the instance type of a VM.
    pub struct InstancetypeMatcher {
        /// Name of the instance type. Required unless `inferFromVolume` is set.
        pub name: Option<String> = "name",
        /// Kind of the instance type: `VirtualMachineInstancetype` or `VirtualMachineClusterInstancetype`.
        /// Default: the latter.
        pub kind: Option<String> = "kind",
        /// Name of the ControllerRevision with the instance type in use. Unset: recorded by the control
        /// plane.
        pub revision_name: Option<String> = "revisionName",
        /// Name of the volume whose labels name the default instance type.
        pub infer_from_volume: Option<String> = "inferFromVolume",
        /// Reaction if the volume names no instance type. Default: `Reject`.
        pub infer_from_volume_failure_policy: Option<InferFailurePolicy> = "inferFromVolumeFailurePolicy",
    }
}

object! {
    /// Reference to the preference of a VM.
    pub struct PreferenceMatcher {
        /// Name of the preference. Required unless `inferFromVolume` is set.
        pub name: Option<String> = "name",
        /// Kind of the preference: `VirtualMachinePreference` or `VirtualMachineClusterPreference`. Default:
        /// the latter.
        pub kind: Option<String> = "kind",
        /// Name of the ControllerRevision with the preference in use. Unset: recorded by the control plane.
        pub revision_name: Option<String> = "revisionName",
        /// Name of the volume whose labels name the default preference.
        pub infer_from_volume: Option<String> = "inferFromVolume",
        /// Reaction if the volume names no preference. Default: `Reject`.
        pub infer_from_volume_failure_policy: Option<InferFailurePolicy> = "inferFromVolumeFailurePolicy",
    }
}

object! {
    /// Template of a VirtualMachineInstance.
    pub struct Template {
        /// Labels and annotations of the VMI.
        pub metadata: Option<ObjectMeta> = "metadata",
        /// Desired state of the VMI: virtual hardware, volumes, networks and placement.
        pub spec: vmi::Spec = "spec",
    }
}

object! {
    /// Template of a DataVolume that is created with the VM.
    pub struct DataVolumeTemplate {
        /// Metadata of the DataVolume. The name is required and used as it stands.
        pub metadata: Option<ObjectMeta> = "metadata",
        /// Desired state of the DataVolume: source, size and storage.
        pub spec: data_volume::Spec = "spec",
        /// Status of the template, always empty.
        pub status: Option<Empty> = "status",
    }
}

string_enum! {
    /// Run strategy of a VM.
    pub enum RunStrategy {
        Always = "Always",
        Halted = "Halted",
        Manual = "Manual",
        RerunOnFailure = "RerunOnFailure",
        Once = "Once",
        WaitAsReceiver = "WaitAsReceiver",
    }
}

/// Refusal to change the volumes of a VM while they are migrated, as upstream has it.
pub const ONLY_REVERTED: &str = "The volume can only be reverted to the previous version during the update";

string_enum! {
    /// Strategy for changed volumes of a VM.
    pub enum UpdateVolumesStrategy {
        Migration = "Migration",
        Replacement = "Replacement",
    }
}

string_enum! {
    /// Reaction if the instance type or preference cannot be inferred from a volume.
    pub enum InferFailurePolicy {
        Reject = "Reject",
        Ignore = "Ignore",
    }
}
