//! What is wanted of a machine.

use crate::datavolume;
use crate::meta::{Empty, ObjectMeta};
use crate::vmi;
use crate::{object, words};

object! {
    /// What is wanted of a machine.
    pub struct Spec {
        /// Deprecated: `Always` or `Halted`.
        pub running: Option<bool> = "running",
        /// When it runs.
        pub run_strategy: Option<RunStrategy> = "runStrategy",
        /// What gives it its size.
        pub instancetype: Option<InstancetypeMatcher> = "instancetype",
        /// What fills in what it leaves open.
        pub preference: Option<PreferenceMatcher> = "preference",
        /// What its instance looks like.
        pub template: Option<Template> = "template",
        /// DataVolumes that are made with it.
        pub data_volume_templates: Vec<DataVolumeTemplate> = "dataVolumeTemplates",
        /// What happens to the bytes when volumes change.
        pub update_volumes_strategy: Option<UpdateVolumesStrategy> = "updateVolumesStrategy",
    }
}

object! {
    /// Which instance type gives a machine its size.
    pub struct InstancetypeMatcher {
        /// Its name.
        pub name: Option<String> = "name",
        /// `VirtualMachineInstancetype` or `VirtualMachineClusterInstancetype`; not said is the latter.
        pub kind: Option<String> = "kind",
        /// The copy of it that is used: the name of a ControllerRevision.
        pub revision_name: Option<String> = "revisionName",
        /// The volume whose labels name it.
        pub infer_from_volume: Option<String> = "inferFromVolume",
        /// What happens when they do not; not said is `Reject`.
        pub infer_from_volume_failure_policy: Option<InferFailurePolicy> = "inferFromVolumeFailurePolicy",
    }
}

object! {
    /// Which preference fills in what a machine leaves open.
    pub struct PreferenceMatcher {
        /// Its name.
        pub name: Option<String> = "name",
        /// `VirtualMachinePreference` or `VirtualMachineClusterPreference`; not said is the latter.
        pub kind: Option<String> = "kind",
        /// The copy of it that is used: the name of a ControllerRevision.
        pub revision_name: Option<String> = "revisionName",
        /// The volume whose labels name it.
        pub infer_from_volume: Option<String> = "inferFromVolume",
        /// What happens when they do not; not said is `Reject`.
        pub infer_from_volume_failure_policy: Option<InferFailurePolicy> = "inferFromVolumeFailurePolicy",
    }
}

object! {
    /// What the machine's instance looks like.
    pub struct Template {
        /// Labels and annotations of the instance.
        pub metadata: Option<ObjectMeta> = "metadata",
        /// What is wanted of the instance.
        pub spec: vmi::Spec = "spec",
    }
}

object! {
    /// A DataVolume that is made with the machine.
    pub struct DataVolumeTemplate {
        /// Its name is the DataVolume's.
        pub metadata: Option<ObjectMeta> = "metadata",
        /// What fills it.
        pub spec: datavolume::Spec = "spec",
        /// Never filled.
        pub status: Option<Empty> = "status",
    }
}

words! {
    /// When a machine runs.
    #[allow(missing_docs)]
    pub enum RunStrategy {
        Always = "Always",
        Halted = "Halted",
        Manual = "Manual",
        RerunOnFailure = "RerunOnFailure",
        Once = "Once",
        WaitAsReceiver = "WaitAsReceiver",
    }
}

words! {
    /// What happens to the bytes when volumes change.
    #[allow(missing_docs)]
    pub enum UpdateVolumesStrategy {
        Migration = "Migration",
        Replacement = "Replacement",
    }
}

words! {
    /// What happens when a volume does not say what was to be inferred from it.
    #[allow(missing_docs)]
    pub enum InferFailurePolicy {
        Reject = "Reject",
        Ignore = "Ignore",
    }
}
