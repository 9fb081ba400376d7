//! Annotations of DataVolumes and PVCs about the population of a PVC, set by clients and by the control
//! plane.

/// Makes a PVC the target of an upload.
pub const TARGET: &str = "cdi.kubevirt.io/storage.upload.target";
/// Content of a PVC: `kubevirt` or `archive`.
pub const CONTENT_TYPE: &str = "cdi.kubevirt.io/storage.contentType";
/// Asks for a disk all of whose blocks are allocated: `true`.
pub const PREALLOCATION_REQUESTED: &str = "cdi.kubevirt.io/storage.preallocation.requested";
/// All blocks of the PVC's disk are allocated: `true`.
pub const PREALLOCATION: &str = "cdi.kubevirt.io/storage.preallocation";
/// Asks for a volume that is bound at once, before a pod uses its PVC. Any value has this effect.
pub const BIND_AT_ONCE: &str = "cdi.kubevirt.io/storage.bind.immediate.requested";
/// Name of the upload pod.
pub const POD_NAME: &str = "cdi.kubevirt.io/storage.uploadPodName";
/// Phase of the worker pod.
pub const POD_PHASE: &str = "cdi.kubevirt.io/storage.pod.phase";
/// State of the upload pod: `true` while it accepts an upload, else `false`.
pub const POD_READY: &str = "cdi.kubevirt.io/storage.pod.ready";
/// Number of times that the worker pod was created again.
pub const POD_RESTARTS: &str = "cdi.kubevirt.io/storage.pod.restarts";
/// Condition Running of the worker pod: `true` or `false`.
pub const RUNNING: &str = "cdi.kubevirt.io/storage.condition.running";
/// CamelCase reason of the condition Running.
pub const RUNNING_REASON: &str = "cdi.kubevirt.io/storage.condition.running.reason";
/// Human-readable message of the condition Running.
pub const RUNNING_MESSAGE: &str = "cdi.kubevirt.io/storage.condition.running.message";
/// Annotation of a CDI object: its `spec.config` is the spec of the CDIConfig, whatever is written there.
pub const CONFIG_AUTHORITY: &str = "cdi.kubevirt.io/configAuthority";
/// Label of the DataVolumes and of the DataSource of a DataImportCron: its name.
pub const IMPORT_CRON: &str = "cdi.kubevirt.io/dataImportCron";
/// Digest of the image that a DataImportCron saw last.
pub const DESIRED_DIGEST: &str = "cdi.kubevirt.io/storage.import.sourceDesiredDigest";
/// Permits a DataVolume to adopt an existing PVC of its name, with its content: `true`. On the PVC.
pub const ALLOW_ADOPTION: &str = "cdi.kubevirt.io/allowClaimAdoption";
/// The PVC of a DataVolume comes with its content from elsewhere, for example from a backup. Any value has
/// this effect.
pub const PRE_POPULATED: &str = "cdi.kubevirt.io/storage.prePopulated";
/// Uid of the DataVolume that is adopting a PVC.
pub const ADOPTED_BY: &str = "cdi.kubevirt.io/storage.adoptedBy";
/// Uid of the last DataVolume that was deleted before it had adopted the PVC. A request of its adoption that
/// is still on its way is refused, because this annotation has changed the version of the PVC.
pub const ADOPTION_REFUSED: &str = "cdi.kubevirt.io/storage.adoptionRefused";
/// Name of the DataVolume, or the PVC, that the content of a PVC was written for.
pub const POPULATED_FOR: &str = "cdi.kubevirt.io/storage.populatedFor";
/// The PVC is filled by its `dataSource` or `dataSourceRef`, not by a worker pod of its DataVolume.
pub const EXTERNAL_POPULATION: &str = "cdi.kubevirt.io/externalPopulation";
/// Asks for a PersistentVolume that is reserved for the PVC of a DataVolume, and holds its content. Any value
/// has this effect.
pub const CHECK_STATIC_VOLUME: &str = "cdi.kubevirt.io/storage.checkStaticVolume";
/// Uid of the importer pod for whose image the PVC was enlarged.
pub const GROWN_FOR: &str = "cdi.kubevirt.io/storage.grownFor";
/// Name of the PVC that is filled in the place of one with a `dataSourceRef`.
pub const PRIME: &str = "cdi.kubevirt.io/storage.populator.pvcPrime";
/// Kind of the source that such a PVC is filled from.
pub const POPULATOR_KIND: &str = "cdi.kubevirt.io/storage.populator.kind";
/// Progress of the filling of a PVC with a `dataSourceRef`, in percent.
pub const POPULATOR_PROGRESS: &str = "cdi.kubevirt.io/storage.populator.progress";
/// Reclaim policy of a PersistentVolume before it was handed over from one PVC to another.
pub const RECLAIM_POLICY: &str = "cdi.kubevirt.io/storage.populator.reclaimPolicy";
/// Asks for the fields of a PVC to be filled in from the StorageProfile.
pub const APPLY_PROFILE: &str = "cdi.kubevirt.io/applyStorageProfile";

/// Asks for the disk of a PVC as a container image: `docker://HOST/REPO:TAG`. On the PVC, or on its
/// DataVolume.
pub const EXPORT_TARGET: &str = "cdi.kubevirt.io/storage.export.target";
/// Secret with the login of the registry, in the same namespace.
pub const EXPORT_SECRET: &str = "cdi.kubevirt.io/storage.export.secretRef";
/// ConfigMap with certificates of authorities to trust, in the same namespace.
pub const EXPORT_CERTIFICATES: &str = "cdi.kubevirt.io/storage.export.certConfigMap";
/// Format of the disk in the image: `qcow2` or `raw`.
pub const EXPORT_FORMAT: &str = "cdi.kubevirt.io/storage.export.format";
/// Compression of the image layer: `zstd`, `gzip` or `none`.
pub const EXPORT_LAYER: &str = "cdi.kubevirt.io/storage.export.layer";
/// Architecture of the image, as Go calls it.
pub const EXPORT_ARCHITECTURE: &str = "cdi.kubevirt.io/storage.export.architecture";
/// Labels of the image configuration: `NAME=VALUE`, one a line.
pub const EXPORT_LABELS: &str = "cdi.kubevirt.io/storage.export.labels";
/// Any text; a changed text repeats the same export.
pub const EXPORT_ID: &str = "cdi.kubevirt.io/storage.export.id";
/// Prefix of all annotations of exports: any other annotation with this prefix is misspelt.
pub const EXPORT: &str = "cdi.kubevirt.io/storage.export.";
/// Annotations that request an export.
pub const EXPORT_ASKS: [&str; 8] = [
    EXPORT_TARGET,
    EXPORT_SECRET,
    EXPORT_CERTIFICATES,
    EXPORT_FORMAT,
    EXPORT_LAYER,
    EXPORT_ARCHITECTURE,
    EXPORT_LABELS,
    EXPORT_ID,
];

/// Hash of the request that the following annotations report on.
pub const EXPORT_REQUEST: &str = "cdi.kubevirt.io/storage.export.request";
/// Phase of an export: `Pending`, `Running`, `Succeeded` or `Failed`.
pub const EXPORT_PHASE: &str = "cdi.kubevirt.io/storage.export.phase";
/// Progress of an export in percent.
pub const EXPORT_PROGRESS: &str = "cdi.kubevirt.io/storage.export.progress";
/// CamelCase reason why an export waits or failed.
pub const EXPORT_REASON: &str = "cdi.kubevirt.io/storage.export.reason";
/// Human-readable message about the progress, the wait or the failure of an export.
pub const EXPORT_MESSAGE: &str = "cdi.kubevirt.io/storage.export.message";
/// Digest of the manifest of the image, after the export.
pub const EXPORT_DIGEST: &str = "cdi.kubevirt.io/storage.export.digest";
/// Number of times that the export pod was created again.
pub const EXPORT_RESTARTS: &str = "cdi.kubevirt.io/storage.export.restarts";
/// Time of the last change of phase or reason.
pub const EXPORT_SINCE: &str = "cdi.kubevirt.io/storage.export.since";
/// Annotations that report on an export.
pub const EXPORT_ANSWERS: [&str; 8] = [
    EXPORT_REQUEST,
    EXPORT_PHASE,
    EXPORT_PROGRESS,
    EXPORT_REASON,
    EXPORT_MESSAGE,
    EXPORT_DIGEST,
    EXPORT_RESTARTS,
    EXPORT_SINCE,
];
/// Source PVC of a clone, `NAMESPACE/NAME`.
pub const CLONE_REQUEST: &str = "k8s.io/CloneRequest";
/// Method of a clone: `copy`, `csi-clone` or `snapshot`.
pub const CLONE_TYPE: &str = "cdi.kubevirt.io/cloneType";
/// Prefix of an annotation of a PVC that its storage is about to clone. The uid of the DataVolume follows, and
/// the value is its name.
pub const CLONE_INTO: &str = "cdi.kubevirt.io/storage.cloneInto.";
/// CamelCase reason why a PVC is cloned by a copy instead of by its storage.
pub const CLONE_FALLBACK: &str = "cdi.kubevirt.io/cloneFallbackReason";
/// Phase of a clone of a PVC with a `dataSourceRef`, as upstream's CDI writes it on that PVC: `Succeeded` when it is complete. Only read.
pub const CLONE_PHASE: &str = "cdi.kubevirt.io/clonePhase";
/// Token that certifies that the creator of a DataVolume may clone its source.
pub const CLONE_TOKEN: &str = "cdi.kubevirt.io/storage.clone.token";
/// Name of the source pod of a clone.
pub const CLONE_SOURCE_POD: &str = "cdi.kubevirt.io/storage.sourceClonePodName";
/// Uid of the source pod whose address the target pod of a clone got.
pub const CLONE_SOURCE_UID: &str = "cdi.kubevirt.io/storage.sourceClonePodUid";
