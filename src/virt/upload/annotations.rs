//! Annotations and labels of DataVolumes and PVCs by which a client and CDI speak about an upload: those that
//! ours has too are of `api`, the rest is upstream's alone.

pub(super) use api::cdi::annotations::{
    APPLY_PROFILE, BIND_AT_ONCE, CONTENT_TYPE, POD_PHASE, POD_READY, RUNNING_MESSAGE, RUNNING_REASON, TARGET,
};
use serde_json::Value;

/// A DataVolume whose PVC is filled through another one.
pub(super) const USES_POPULATOR: &str = "cdi.kubevirt.io/storage.usePopulator";
/// The name of that other one.
pub(super) const PRIME: &str = "cdi.kubevirt.io/storage.populator.pvcPrime";
/// Says that the DataVolume is deleted when its PVC is filled.
pub(super) const DELETED_AFTERWARDS: &str = "cdi.kubevirt.io/storage.deleteAfterCompletion";

/// The value of an annotation; nothing where there is none.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][name].as_str()
}

/// An annotation with a value that says something.
pub(super) fn words<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    annotation(object, name).filter(|text| !text.is_empty())
}
