//! Annotations and labels of DataVolumes and PVCs by which a client and CDI speak about an upload.

use serde_json::Value;

/// Makes a PVC the target of an upload.
pub(super) const TARGET: &str = "cdi.kubevirt.io/storage.upload.target";
/// Content of a PVC: `kubevirt` or `archive`.
pub(super) const CONTENT_TYPE: &str = "cdi.kubevirt.io/storage.contentType";
/// Asks for a volume that is bound before a pod uses it.
pub(super) const BIND_AT_ONCE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";
/// Phase of the worker pod.
pub(super) const POD_PHASE: &str = "cdi.kubevirt.io/storage.pod.phase";
/// Whether the upload pod takes an upload.
pub(super) const POD_READY: &str = "cdi.kubevirt.io/storage.pod.ready";
/// What the worker pod does or waits for.
pub(super) const RUNNING_REASON: &str = "cdi.kubevirt.io/storage.condition.running.reason";
pub(super) const RUNNING_MESSAGE: &str = "cdi.kubevirt.io/storage.condition.running.message";
/// A DataVolume whose PVC is filled through another one.
pub(super) const USES_POPULATOR: &str = "cdi.kubevirt.io/storage.usePopulator";
/// The name of that other one.
pub(super) const PRIME: &str = "cdi.kubevirt.io/storage.populator.pvcPrime";
/// Says that the DataVolume is deleted when its PVC is filled.
pub(super) const DELETED_AFTERWARDS: &str = "cdi.kubevirt.io/storage.deleteAfterCompletion";
/// Asks CDI to fill in the fields of a PVC from the StorageProfile.
pub(super) const APPLY_PROFILE: &str = "cdi.kubevirt.io/applyStorageProfile";

/// The value of an annotation; nothing where there is none.
pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"][name].as_str()
}

/// An annotation with a value that says something.
pub(super) fn words<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    annotation(object, name).filter(|text| !text.is_empty())
}
