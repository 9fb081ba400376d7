//! Annotations and labels of DataVolumes and PVCs about an upload. Those that our control plane uses too are
//! in `api`, the others here are upstream's alone.

pub(super) use api::cdi::annotations::{
    APPLY_PROFILE, BIND_AT_ONCE, CONTENT_TYPE, POD_PHASE, POD_READY, PRIME, RUNNING_MESSAGE, RUNNING_REASON,
    TARGET,
};

/// Marks a DataVolume whose PVC is filled through another PVC (a populator).
pub(super) const USES_POPULATOR: &str = "cdi.kubevirt.io/storage.usePopulator";
/// Marks a DataVolume that is deleted once its PVC is filled.
pub(super) const DELETED_AFTERWARDS: &str = "cdi.kubevirt.io/storage.deleteAfterCompletion";
