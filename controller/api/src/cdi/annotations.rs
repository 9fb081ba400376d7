//! Annotations of DataVolumes and PVCs by which clients and the control plane speak about the filling of a PVC.

/// Makes a PVC the target of an upload.
pub const TARGET: &str = "cdi.kubevirt.io/storage.upload.target";
/// Content of a PVC: `kubevirt` or `archive`.
pub const CONTENT_TYPE: &str = "cdi.kubevirt.io/storage.contentType";
/// Asks for a volume that is made at once, whoever uses it first. Any value says so.
pub const BIND_AT_ONCE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";
/// Name of the upload pod.
pub const POD_NAME: &str = "cdi.kubevirt.io/storage.uploadPodName";
/// Phase of the worker pod.
pub const POD_PHASE: &str = "cdi.kubevirt.io/storage.pod.phase";
/// Whether the upload pod takes an upload now.
pub const POD_READY: &str = "cdi.kubevirt.io/storage.pod.ready";
/// How often the worker pod was made anew.
pub const POD_RESTARTS: &str = "cdi.kubevirt.io/storage.pod.restarts";
/// Whether the worker pod runs.
pub const RUNNING: &str = "cdi.kubevirt.io/storage.condition.running";
/// Why it does not, in one word.
pub const RUNNING_REASON: &str = "cdi.kubevirt.io/storage.condition.running.reason";
/// What the worker pod does or waits for, in a sentence.
pub const RUNNING_MESSAGE: &str = "cdi.kubevirt.io/storage.condition.running.message";
/// Label of the DataVolumes and of the DataSource of a DataImportCron: its name.
pub const IMPORT_CRON: &str = "cdi.kubevirt.io/dataImportCron";
/// Digest of the image that a DataImportCron saw last.
pub const DESIRED_DIGEST: &str = "cdi.kubevirt.io/storage.import.sourceDesiredDigest";
/// Asks for the fields of a PVC to be filled in from the StorageProfile.
pub const APPLY_PROFILE: &str = "cdi.kubevirt.io/applyStorageProfile";
