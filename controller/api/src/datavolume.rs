//! A request to fill a claim: `DataVolume` of `cdi.kubevirt.io/v1beta1`.

use crate::claim::{ClaimResources, ClaimSpec, DataReference};
use crate::meta::{Empty, LabelSelector, ObjectMeta};
use crate::{object, words};

/// The group and version of a DataVolume.
pub const API_VERSION: &str = "cdi.kubevirt.io/v1beta1";

object! {
    /// A request to fill a claim.
    pub struct DataVolume {
        /// `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// `DataVolume`.
        pub kind: Option<String> = "kind",
        /// Its name is the claim's.
        pub metadata: ObjectMeta = "metadata",
        /// What is wanted.
        pub spec: Spec = "spec",
        /// How far it is.
        pub status: Option<Status> = "status",
    }
}

object! {
    /// What is wanted: a claim, and what fills it.
    pub struct Spec {
        /// What fills it.
        pub source: Option<Source> = "source",
        /// What says what fills it.
        pub source_ref: Option<SourceRef> = "sourceRef",
        /// The claim, word for word.
        pub pvc: Option<ClaimSpec> = "pvc",
        /// The claim, of which storage profiles fill in what is left open.
        pub storage: Option<Storage> = "storage",
        /// For the scheduler.
        pub priority_class_name: Option<String> = "priorityClassName",
        /// For the worker.
        pub service_account_name: Option<String> = "serviceAccountName",
        /// What the bytes are; not said is `kubevirt`.
        pub content_type: Option<ContentType> = "contentType",
        /// The stages of an import in several.
        pub checkpoints: Vec<Checkpoint> = "checkpoints",
        /// The last of them is there.
        pub final_checkpoint: Option<bool> = "finalCheckpoint",
        /// All blocks are there.
        pub preallocation: Option<bool> = "preallocation",
    }
}

object! {
    /// What fills a claim; exactly one.
    pub struct Source {
        /// A web server.
        pub http: Option<Http> = "http",
        /// An object store.
        pub s3: Option<S3> = "s3",
        /// Google's object store.
        pub gcs: Option<Gcs> = "gcs",
        /// A registry of images.
        pub registry: Option<Registry> = "registry",
        /// Another claim.
        pub pvc: Option<PvcSource> = "pvc",
        /// Somebody sends it.
        pub upload: Option<Empty> = "upload",
        /// Nothing: an empty disk.
        pub blank: Option<Empty> = "blank",
        /// oVirt.
        pub imageio: Option<ImageIo> = "imageio",
        /// VMware.
        pub vddk: Option<Vddk> = "vddk",
        /// A snapshot of a claim.
        pub snapshot: Option<PvcSource> = "snapshot",
    }
}

object! {
    /// A web server.
    #[allow(missing_docs)]
    pub struct Http {
        pub url: String = "url",
        /// A secret.
        pub secret_ref: Option<String> = "secretRef",
        /// A config map with certificates of authorities.
        pub cert_config_map: Option<String> = "certConfigMap",
        pub extra_headers: Vec<String> = "extraHeaders",
        pub secret_extra_headers: Vec<String> = "secretExtraHeaders",
        pub checksum: Option<String> = "checksum",
        /// The server's certificate is not looked at.
        pub insecure_skip_verify: Option<bool> = "insecureSkipVerify",
    }
}

object! {
    /// An object store.
    #[allow(missing_docs)]
    pub struct S3 {
        pub url: String = "url",
        /// A secret.
        pub secret_ref: Option<String> = "secretRef",
        /// A config map with certificates of authorities.
        pub cert_config_map: Option<String> = "certConfigMap",
    }
}

object! {
    /// Google's object store.
    #[allow(missing_docs)]
    pub struct Gcs {
        pub url: String = "url",
        /// A secret.
        pub secret_ref: Option<String> = "secretRef",
    }
}

object! {
    /// A registry of images.
    #[allow(missing_docs)]
    pub struct Registry {
        pub url: Option<String> = "url",
        pub image_stream: Option<String> = "imageStream",
        pub pull_method: Option<PullMethod> = "pullMethod",
        /// A secret.
        pub secret_ref: Option<String> = "secretRef",
        /// A config map with certificates of authorities.
        pub cert_config_map: Option<String> = "certConfigMap",
        pub platform: Option<Platform> = "platform",
    }
}

object! {
    /// Which image of several.
    #[allow(missing_docs)]
    pub struct Platform {
        pub architecture: Option<String> = "architecture",
    }
}

object! {
    /// Another claim.
    #[allow(missing_docs)]
    pub struct PvcSource {
        pub namespace: String = "namespace",
        pub name: String = "name",
    }
}

object! {
    /// oVirt.
    #[allow(missing_docs)]
    pub struct ImageIo {
        pub url: String = "url",
        pub disk_id: String = "diskId",
        /// A secret.
        pub secret_ref: Option<String> = "secretRef",
        /// A config map with certificates of authorities.
        pub cert_config_map: Option<String> = "certConfigMap",
        /// The server's certificate is not looked at.
        pub insecure_skip_verify: Option<bool> = "insecureSkipVerify",
    }
}

object! {
    /// VMware.
    #[allow(missing_docs)]
    pub struct Vddk {
        pub url: Option<String> = "url",
        pub uuid: Option<String> = "uuid",
        pub backing_file: Option<String> = "backingFile",
        pub thumbprint: Option<String> = "thumbprint",
        /// A secret.
        pub secret_ref: Option<String> = "secretRef",
        /// A config map with certificates of authorities.
        pub cert_config_map: Option<String> = "certConfigMap",
        pub init_image_url: Option<String> = "initImageURL",
        pub extra_args: Option<String> = "extraArgs",
    }
}

object! {
    /// A DataSource that says what fills the claim.
    #[allow(missing_docs)]
    pub struct SourceRef {
        pub kind: String = "kind",
        pub namespace: Option<String> = "namespace",
        pub name: String = "name",
    }
}

object! {
    /// A claim of which storage profiles fill in what is left open.
    #[allow(missing_docs)]
    pub struct Storage {
        pub access_modes: Vec<String> = "accessModes",
        pub selector: Option<LabelSelector> = "selector",
        pub resources: Option<ClaimResources> = "resources",
        pub volume_name: Option<String> = "volumeName",
        pub storage_class_name: Option<String> = "storageClassName",
        pub volume_mode: Option<String> = "volumeMode",
        pub data_source: Option<DataReference> = "dataSource",
        pub data_source_ref: Option<DataReference> = "dataSourceRef",
    }
}

object! {
    /// One stage of several.
    #[allow(missing_docs)]
    pub struct Checkpoint {
        pub previous: String = "previous",
        pub current: String = "current",
    }
}

object! {
    /// How far it is.
    #[allow(missing_docs)]
    pub struct Status {
        /// The claim's name.
        pub claim_name: Option<String> = "claimName",
        pub phase: Option<Phase> = "phase",
        pub progress: Option<String> = "progress",
        pub restart_count: Option<i64> = "restartCount",
        /// By type.
        pub conditions: Vec<Condition> = "conditions",
    }
}

object! {
    /// One thing that is true or false of a DataVolume.
    #[allow(missing_docs)]
    pub struct Condition {
        pub r#type: ConditionType = "type",
        pub status: String = "status",
        /// RFC 3339.
        pub last_transition_time: Option<String> = "lastTransitionTime",
        /// RFC 3339.
        pub last_heartbeat_time: Option<String> = "lastHeartbeatTime",
        /// A word for it.
        pub reason: Option<String> = "reason",
        /// A sentence for it.
        pub message: Option<String> = "message",
    }
}

words! {
    /// What the bytes are.
    #[allow(missing_docs)]
    pub enum ContentType {
        Kubevirt = "kubevirt",
        Archive = "archive",
    }
}

words! {
    /// Who pulls an image.
    #[allow(missing_docs)]
    pub enum PullMethod {
        Pod = "pod",
        Node = "node",
    }
}

words! {
    /// What a condition is about.
    #[allow(missing_docs)]
    pub enum ConditionType {
        Ready = "Ready",
        Bound = "Bound",
        Running = "Running",
    }
}

words! {
    /// How far a DataVolume is; empty at first.
    #[allow(missing_docs)]
    pub enum Phase {
        Pending = "Pending",
        PvcBound = "PVCBound",
        ImportScheduled = "ImportScheduled",
        ImportInProgress = "ImportInProgress",
        CloneScheduled = "CloneScheduled",
        CloneInProgress = "CloneInProgress",
        SnapshotForSmartCloneInProgress = "SnapshotForSmartCloneInProgress",
        CloneFromSnapshotSourceInProgress = "CloneFromSnapshotSourceInProgress",
        SmartClonePvcInProgress = "SmartClonePVCInProgress",
        CsiCloneInProgress = "CSICloneInProgress",
        ExpansionInProgress = "ExpansionInProgress",
        NamespaceTransferInProgress = "NamespaceTransferInProgress",
        PrepClaimInProgress = "PrepClaimInProgress",
        RebindInProgress = "RebindInProgress",
        UploadScheduled = "UploadScheduled",
        UploadReady = "UploadReady",
        WaitForFirstConsumer = "WaitForFirstConsumer",
        PendingPopulation = "PendingPopulation",
        Paused = "Paused",
        Succeeded = "Succeeded",
        Failed = "Failed",
        Unknown = "Unknown",
    }
}
