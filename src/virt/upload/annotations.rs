//! Annotations and labels of DataVolumes and PVCs about an upload. Those that our control plane uses too are
//! in `api`, the others here are upstream's alone.

pub(super) use api::cdi::annotations::{
    APPLY_PROFILE, BIND_AT_ONCE, CONTENT_TYPE, POD_PHASE, POD_READY, RUNNING_MESSAGE, RUNNING_REASON, TARGET,
};
use serde_json::Value;

/// Marks a DataVolume whose PVC is filled through another PVC (a populator).
pub(super) const USES_POPULATOR: &str = "cdi.kubevirt.io/storage.usePopulator";
/// Name of that other PVC.
pub(super) const PRIME: &str = "cdi.kubevirt.io/storage.populator.pvcPrime";
/// Marks a DataVolume that is deleted once its PVC is filled.
pub(super) const DELETED_AFTERWARDS: &str = "cdi.kubevirt.io/storage.deleteAfterCompletion";

/// The value of an annotation, if set.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][name].as_str()
}

/// The value of an annotation that is set and not empty.
pub(super) fn annotation_text<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    annotation(object, name).filter(|text| !text.is_empty())
}
