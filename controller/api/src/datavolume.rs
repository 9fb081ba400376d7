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
        /// How important the worker is to the scheduler: the name of a PriorityClass.
        pub priority_class_name: Option<String> = "priorityClassName",
        /// The service account of the worker.
        pub service_account_name: Option<String> = "serviceAccountName",
        /// What the bytes are; not said is `kubevirt`.
        pub content_type: Option<ContentType> = "contentType",
        /// The stages of an import in several.
        pub checkpoints: Vec<Checkpoint> = "checkpoints",
        /// The last of the stages is there.
        pub final_checkpoint: Option<bool> = "finalCheckpoint",
        /// All blocks of the disk are there from the beginning.
        pub preallocation: Option<bool> = "preallocation",
    }
}

impl Spec {
    /// Where it would be filled from beyond its own namespace, or from where its words alone do not tell: the field, and
    /// why. Whoever makes a DataVolume for somebody else lends them their own rights there, and must not.
    pub fn reaches_out(&self, namespace: Option<&str>) -> Option<(&'static str, String)> {
        let foreign = |other: &str| !other.is_empty() && Some(other) != namespace;
        let beyond = |other: &str| format!("it is in the namespace {other}");
        if let Some(reference) = &self.source_ref {
            let why =
                format!("whose claim the {} {} leads to is not known here", reference.kind, reference.name);
            return Some(("sourceRef", why));
        }
        let source = self.source.as_ref();
        let claims = [
            ("source.pvc.namespace", source.and_then(|source| source.pvc.as_ref())),
            ("source.snapshot.namespace", source.and_then(|source| source.snapshot.as_ref())),
        ];
        let claim = claims.into_iter().find_map(|(field, claim)| {
            let other = &claim?.namespace;
            foreign(other).then(|| (field, beyond(other)))
        });
        let references = [
            ("pvc.dataSourceRef.namespace", self.pvc.as_ref().and_then(|pvc| pvc.data_source_ref.as_ref())),
            (
                "storage.dataSourceRef.namespace",
                self.storage.as_ref().and_then(|pvc| pvc.data_source_ref.as_ref()),
            ),
        ];
        claim.or_else(|| {
            references.into_iter().find_map(|(field, reference)| {
                let other = reference?.namespace.as_deref()?;
                foreign(other).then(|| (field, beyond(other)))
            })
        })
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
    pub struct Http {
        /// Where it is.
        pub url: String = "url",
        /// The secret with what the server wants to know of us.
        pub secret_ref: Option<String> = "secretRef",
        /// The config map with certificates of authorities that the server's is held against.
        pub cert_config_map: Option<String> = "certConfigMap",
        /// Further lines of the request's head: `NAME: VALUE`.
        pub extra_headers: Vec<String> = "extraHeaders",
        /// Secrets whose values are further lines of the request's head.
        pub secret_extra_headers: Vec<String> = "secretExtraHeaders",
        /// What the bytes must add up to: `ALGORITHM:HEX` with md5, sha1, sha256 or sha512.
        pub checksum: Option<String> = "checksum",
        /// The server's certificate is not looked at.
        pub insecure_skip_verify: Option<bool> = "insecureSkipVerify",
    }
}

object! {
    /// An object store.
    pub struct S3 {
        /// Where it is.
        pub url: String = "url",
        /// The secret with what the server wants to know of us.
        pub secret_ref: Option<String> = "secretRef",
        /// The config map with certificates of authorities that the server's is held against.
        pub cert_config_map: Option<String> = "certConfigMap",
    }
}

object! {
    /// Google's object store.
    pub struct Gcs {
        /// Where it is.
        pub url: String = "url",
        /// The secret with what the server wants to know of us.
        pub secret_ref: Option<String> = "secretRef",
    }
}

object! {
    /// A registry of images.
    pub struct Registry {
        /// Where it is: `docker://HOST/NAME:TAG`.
        pub url: Option<String> = "url",
        /// An image stream of OpenShift, instead of a URL.
        pub image_stream: Option<String> = "imageStream",
        /// Who pulls it; not said is the pod.
        pub pull_method: Option<PullMethod> = "pullMethod",
        /// The secret with what the server wants to know of us.
        pub secret_ref: Option<String> = "secretRef",
        /// The config map with certificates of authorities that the server's is held against.
        pub cert_config_map: Option<String> = "certConfigMap",
        /// Which image of several.
        pub platform: Option<Platform> = "platform",
    }
}

object! {
    /// Which image of several.
    pub struct Platform {
        /// The processor it is for: `amd64`, `arm64`, ….
        pub architecture: Option<String> = "architecture",
    }
}

object! {
    /// Another claim.
    pub struct PvcSource {
        /// The namespace it is in.
        pub namespace: String = "namespace",
        /// Its name.
        pub name: String = "name",
    }
}

object! {
    /// oVirt.
    pub struct ImageIo {
        /// Where the engine is.
        pub url: String = "url",
        /// The disk.
        pub disk_id: String = "diskId",
        /// The secret with what the server wants to know of us.
        pub secret_ref: Option<String> = "secretRef",
        /// The config map with certificates of authorities that the server's is held against.
        pub cert_config_map: Option<String> = "certConfigMap",
        /// The server's certificate is not looked at.
        pub insecure_skip_verify: Option<bool> = "insecureSkipVerify",
    }
}

object! {
    /// VMware.
    pub struct Vddk {
        /// Where the vCenter or the host is.
        pub url: Option<String> = "url",
        /// The machine whose disk it is.
        pub uuid: Option<String> = "uuid",
        /// The disk's file: `[STORE] FOLDER/FILE.vmdk`.
        pub backing_file: Option<String> = "backingFile",
        /// The sum of the server's certificate.
        pub thumbprint: Option<String> = "thumbprint",
        /// The secret with what the server wants to know of us.
        pub secret_ref: Option<String> = "secretRef",
        /// The config map with certificates of authorities that the server's is held against.
        pub cert_config_map: Option<String> = "certConfigMap",
        /// The image that holds VMware's library.
        pub init_image_url: Option<String> = "initImageURL",
        /// A config map with further settings of the library.
        pub extra_args: Option<String> = "extraArgs",
    }
}

object! {
    /// A DataSource that says what fills the claim.
    pub struct SourceRef {
        /// `DataSource`.
        pub kind: String = "kind",
        /// The namespace it is in; not said is the DataVolume's own.
        pub namespace: Option<String> = "namespace",
        /// Its name.
        pub name: String = "name",
    }
}

object! {
    /// A claim of which storage profiles fill in what is left open.
    pub struct Storage {
        /// `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany`, `ReadWriteOncePod`; not said is what suits the class.
        pub access_modes: Vec<String> = "accessModes",
        /// Labels of the volumes that will do.
        pub selector: Option<LabelSelector> = "selector",
        /// How much.
        pub resources: Option<ClaimResources> = "resources",
        /// The volume, where it is known.
        pub volume_name: Option<String> = "volumeName",
        /// The class; not said is the default.
        pub storage_class_name: Option<String> = "storageClassName",
        /// `Filesystem`, `Block` or `FromStorageProfile`; not said is what suits the class.
        pub volume_mode: Option<String> = "volumeMode",
        /// What fills it.
        pub data_source: Option<DataReference> = "dataSource",
        /// What fills it, of any kind.
        pub data_source_ref: Option<DataReference> = "dataSourceRef",
    }
}

object! {
    /// One stage of several.
    pub struct Checkpoint {
        /// The snapshot it begins at; empty is the beginning.
        pub previous: String = "previous",
        /// The snapshot it goes to.
        pub current: String = "current",
    }
}

object! {
    /// How far it is.
    pub struct Status {
        /// The claim's name.
        pub claim_name: Option<String> = "claimName",
        /// Where it stands.
        pub phase: Option<Phase> = "phase",
        /// How much of it is there: `12.34%`, or `N/A`.
        pub progress: Option<String> = "progress",
        /// How often the transfer was begun anew.
        pub restart_count: Option<i64> = "restartCount",
        /// What is true or false of it, by type.
        pub conditions: Vec<Condition> = "conditions",
    }
}

object! {
    /// One thing that is true or false of a DataVolume.
    pub struct Condition by "type" {
        /// What it is about.
        pub r#type: ConditionType = "type",
        /// `True`, `False` or `Unknown`.
        pub status: String = "status",
        /// Since when it is so; RFC 3339.
        pub last_transition_time: Option<String> = "lastTransitionTime",
        /// When it was last looked at; RFC 3339.
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
