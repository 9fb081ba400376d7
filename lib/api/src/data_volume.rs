//! `DataVolume` of `cdi.kubevirt.io/v1beta1`: a PVC and the source of its content.

use crate::claim::{ClaimResources, ClaimSpec, DataReference};
use crate::condition::{CheckTime, ConditionKind};
use crate::fault::{Fault, Reason};
use crate::meta::{Empty, LabelSelector, ObjectMeta};
use crate::quantity::Quantity;
use crate::{object, string_enum};

/// The group and version of a DataVolume.
pub const API_VERSION: &str = "cdi.kubevirt.io/v1beta1";

object! {
    /// DataVolume: a PersistentVolumeClaim (PVC) and the source that its content is imported from.
    pub struct DataVolume {
        /// API version of this object: `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `DataVolume`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the DataVolume. The PVC has the same name.
        pub metadata: ObjectMeta = "metadata",
        /// Desired state of the DataVolume: source, size and storage.
        pub spec: Spec = "spec",
        /// Observed state of the DataVolume, written by the control plane.
        pub status: Option<Status> = "status",
    }
}

object! {
    /// Desired state of a DataVolume: source, size and storage.
    pub struct Spec {
        /// Source of the content; exactly one of its fields. Excludes `sourceRef`.
        pub source: Option<Source> = "source",
        /// Reference to a DataSource that names the source. Excludes `source`.
        pub source_ref: Option<SourceRef> = "sourceRef",
        /// Spec of the PersistentVolumeClaim, used as it stands. Excludes `storage`.
        pub pvc: Option<ClaimSpec> = "pvc",
        /// Spec of the PersistentVolumeClaim, with unset fields taken from the StorageProfile of the storage
        /// class. Excludes `pvc`.
        pub storage: Option<Storage> = "storage",
        /// Name of the PriorityClass of the worker pod. Unset: the default priority class of the cluster.
        pub priority_class_name: Option<String> = "priorityClassName",
        /// Name of the ServiceAccount of the worker pod. Unset: the default ServiceAccount.
        pub service_account_name: Option<String> = "serviceAccountName",
        /// Content type of the source: `kubevirt` is a disk image, `archive` is a tar archive of files.
        /// Default: `kubevirt`.
        pub content_type: Option<ContentType> = "contentType",
        /// Checkpoints of a multi-stage import from vddk or imageio.
        pub checkpoints: Vec<Checkpoint> = "checkpoints",
        /// Marks the last checkpoint as final, which completes a multi-stage import. Default: false.
        pub final_checkpoint: Option<bool> = "finalCheckpoint",
        /// Preallocates all blocks of the disk image. Default: the setting of the cluster.
        pub preallocation: Option<bool> = "preallocation",
    }
}

impl Source {
    /// Address of the file or the image, which may hold a password or a signature; `None` for other sources.
    pub fn address(&self) -> Option<&str> {
        let web = self.http.as_ref().map(|http| http.url.as_str());
        let object = || self.s3.as_ref().map(|s3| s3.url.as_str());
        let object = || object().or_else(|| self.gcs.as_ref().map(|gcs| gcs.url.as_str()));
        web.or_else(object).or_else(|| self.registry.as_ref()?.url.as_deref())
    }
}

/// Scheme of the reference of an image in a registry.
const DOCKER: &str = "docker://";

impl Registry {
    /// Reference of the image as container runtimes write it: `HOST/NAME:TAG`. `None` if the URL does not
    /// have the scheme `docker`.
    pub fn reference(&self) -> Option<&str> {
        let url = self.url.as_deref()?;
        let is_docker = url.get(..DOCKER.len()).is_some_and(|start| start.eq_ignore_ascii_case(DOCKER));
        url.get(DOCKER.len()..).filter(|rest| is_docker && !rest.is_empty())
    }

    /// Reference of the image, if the node pulls it.
    pub fn of_node(&self) -> Option<&str> {
        self.reference().filter(|_| self.pull_method == Some(PullMethod::Node))
    }

    /// Registry of the image: `HOST` or `HOST:PORT`, in lower case.
    pub fn host(&self) -> Option<String> {
        Some(self.reference()?.split('/').next()?.to_ascii_lowercase())
    }

    /// Requested architecture of the image.
    pub fn architecture(&self) -> Option<&str> {
        self.platform.as_ref()?.architecture.as_deref().filter(|name| !name.is_empty())
    }
}

impl Spec {
    /// Requested size of the disk, of `pvc` or of `storage`.
    pub fn size(&self) -> Option<&Quantity> {
        let of_claim = self.pvc.as_ref().and_then(|claim| claim.storage());
        let of_storage = || self.storage.as_ref()?.resources.as_ref()?.requests.get("storage");
        of_claim.or_else(of_storage)
    }

    /// `dataSource` and `dataSourceRef` of the PVC.
    pub fn data_references(&self) -> [Option<&DataReference>; 2] {
        let of_pvc = self.pvc.as_ref().map(|pvc| [&pvc.data_source, &pvc.data_source_ref]);
        let of_storage = || self.storage.as_ref().map(|pvc| [&pvc.data_source, &pvc.data_source_ref]);
        of_pvc.or_else(of_storage).map_or([None, None], |both| both.map(Option::as_ref))
    }

    /// True if the PVC names its own source by `dataSource` or `dataSourceRef`, and the DataVolume has no
    /// source.
    pub fn is_populated_externally(&self) -> bool {
        let names_its_own = self.data_references().iter().any(Option::is_some);
        self.source.is_none() && self.source_ref.is_none() && names_its_own
    }

    /// Fault of a `dataSource` that the API server drops from the PVC without a word, in the spec at the path `at`. The PVC would get
    /// an empty volume.
    pub fn dropped_data_source(&self, at: &str) -> Option<Fault> {
        let [Some(source), None] = self.data_references() else { return None };
        let part = if self.pvc.is_some() { "pvc" } else { "storage" };
        let what = "Kubernetes drops a dataSource that is neither a PersistentVolumeClaim without apiGroup nor a VolumeSnapshot of \
                    snapshot.storage.k8s.io, and the disk would be empty: name the object by dataSourceRef";
        let fault = Fault::new(format!("{at}.{part}.dataSource"), Reason::NotSupported, what);
        (!source.is_kept_as_data_source()).then_some(fault)
    }

    /// The field that reads from another namespace without a permission check, and that namespace: a
    /// `dataSourceRef`, or a VolumeSnapshot.
    pub fn unchecked_reference(&self, namespace: Option<&str>) -> Option<(&'static str, &str)> {
        let snapshot =
            || self.foreign_clone_source(namespace).filter(|(field, _)| field.starts_with("source.snapshot"));
        self.foreign_data_source_ref(namespace).or_else(snapshot)
    }

    /// The field that clones a PVC or a snapshot of another namespace, and that namespace.
    pub fn foreign_clone_source(&self, namespace: Option<&str>) -> Option<(&'static str, &str)> {
        let source = self.source.as_ref()?;
        let claims = [("source.pvc.namespace", &source.pvc), ("source.snapshot.namespace", &source.snapshot)];
        claims.into_iter().find_map(|(field, claim)| {
            let other = claim.as_ref()?.namespace.as_str();
            (!other.is_empty() && Some(other) != namespace).then_some((field, other))
        })
    }

    /// The field by which the PVC itself would name an object of another namespace, and that namespace.
    /// Permission to read there is not checked, so a component that creates such a PVC for a user would lend
    /// the user its own permissions. It must not create one.
    pub fn foreign_data_source_ref(&self, namespace: Option<&str>) -> Option<(&'static str, &str)> {
        let references = [
            ("pvc.dataSourceRef.namespace", self.pvc.as_ref().and_then(|pvc| pvc.data_source_ref.as_ref())),
            (
                "storage.dataSourceRef.namespace",
                self.storage.as_ref().and_then(|pvc| pvc.data_source_ref.as_ref()),
            ),
        ];
        references.into_iter().find_map(|(field, reference)| {
            let other = reference?.namespace.as_deref().filter(|other| !other.is_empty())?;
            (Some(other) != namespace).then_some((field, other))
        })
    }
}

object! {
    /// Source of the content of a DataVolume; exactly one.
    pub struct Source {
        /// Import from an HTTP or HTTPS server.
        pub http: Option<Http> = "http",
        /// Import from an S3 object store.
        pub s3: Option<S3> = "s3",
        /// Import from Google Cloud Storage (GCS).
        pub gcs: Option<Gcs> = "gcs",
        /// Import from a container image in a registry.
        pub registry: Option<Registry> = "registry",
        /// Clone of another PersistentVolumeClaim.
        pub pvc: Option<PvcSource> = "pvc",
        /// Upload by a client, for example `virtctl image-upload`.
        pub upload: Option<Empty> = "upload",
        /// Empty disk image without content.
        pub blank: Option<Empty> = "blank",
        /// Import from an oVirt image service (imageio).
        pub imageio: Option<ImageIo> = "imageio",
        /// Import from VMware vSphere through the VDDK library.
        pub vddk: Option<Vddk> = "vddk",
        /// Restore of a VolumeSnapshot into a new PersistentVolumeClaim.
        pub snapshot: Option<PvcSource> = "snapshot",
    }
}

object! {
    /// Import from an HTTP or HTTPS server.
    pub struct Http {
        /// URL of the file: `http://HOST/PATH` or `https://HOST/PATH`.
        pub url: String = "url",
        /// Name of a Secret with credentials under the keys `accessKeyId` and `secretKey`. Unset: anonymous
        /// access.
        pub secret_ref: Option<String> = "secretRef",
        /// Name of a ConfigMap with CA certificates for the server. Unset: the system's CAs.
        pub cert_config_map: Option<String> = "certConfigMap",
        /// Additional HTTP request headers in the form `NAME: VALUE`.
        pub extra_headers: Vec<String> = "extraHeaders",
        /// Names of Secrets whose values are additional HTTP request headers.
        pub secret_extra_headers: Vec<String> = "secretExtraHeaders",
        /// Checksum of the file in the form `ALGORITHM:HEX` with sha256 or sha512; md5 and sha1 are refused.
        /// Unset: unchecked.
        pub checksum: Option<String> = "checksum",
        /// Skips the verification of the server's TLS certificate. Default: false.
        pub insecure_skip_verify: Option<bool> = "insecureSkipVerify",
    }
}

object! {
    /// Import from an S3 object store.
    pub struct S3 {
        /// URL of the object in the S3 store.
        pub url: String = "url",
        /// Name of a Secret with credentials under the keys `accessKeyId` and `secretKey`. Unset: anonymous
        /// access.
        pub secret_ref: Option<String> = "secretRef",
        /// Name of a ConfigMap with CA certificates for the server. Unset: the system's CAs.
        pub cert_config_map: Option<String> = "certConfigMap",
    }
}

object! {
    /// Import from Google Cloud Storage (GCS).
    pub struct Gcs {
        /// URL of the object in Google Cloud Storage.
        pub url: String = "url",
        /// Name of a Secret with a service account key. Unset: anonymous access.
        pub secret_ref: Option<String> = "secretRef",
    }
}

object! {
    /// Import from a container image in a registry.
    pub struct Registry {
        /// Reference of the container image as a URL: `docker://HOST/NAME:TAG`. Excludes `imageStream`.
        pub url: Option<String> = "url",
        /// Name of an OpenShift ImageStream with the container image. Excludes `url`.
        pub image_stream: Option<String> = "imageStream",
        /// Component that pulls the image: the worker pod (`pod`) or the container runtime of the node
        /// (`node`). Default: `pod`.
        pub pull_method: Option<PullMethod> = "pullMethod",
        /// Name of a Secret with credentials under the keys `accessKeyId` and `secretKey`, or of a Secret of
        /// type `kubernetes.io/dockerconfigjson`. Unset: anonymous access.
        pub secret_ref: Option<String> = "secretRef",
        /// Name of a ConfigMap with CA certificates for the registry. Unset: the system's CAs.
        pub cert_config_map: Option<String> = "certConfigMap",
        /// Platform to choose from a multi-platform image. Unset: the platform of the worker.
        pub platform: Option<Platform> = "platform",
    }
}

object! {
    /// Platform of a multi-platform image.
    pub struct Platform {
        /// CPU architecture of the image, for example `amd64` or `arm64`.
        pub architecture: Option<String> = "architecture",
    }
}

object! {
    /// Reference to a source object by namespace and name.
    pub struct PvcSource {
        /// Namespace of the source object.
        pub namespace: String = "namespace",
        /// Name of the source object.
        pub name: String = "name",
    }
}

object! {
    /// Import from an oVirt image service (imageio).
    pub struct ImageIo {
        /// URL of the oVirt engine API.
        pub url: String = "url",
        /// ID of the disk in oVirt.
        pub disk_id: String = "diskId",
        /// Name of a Secret with credentials under the keys `accessKeyId` and `secretKey`.
        pub secret_ref: Option<String> = "secretRef",
        /// Name of a ConfigMap with CA certificates for the engine. Unset: the system's CAs.
        pub cert_config_map: Option<String> = "certConfigMap",
        /// Skips the verification of the server's TLS certificate. Default: false.
        pub insecure_skip_verify: Option<bool> = "insecureSkipVerify",
    }
}

object! {
    /// Import from VMware vSphere through the VDDK library.
    pub struct Vddk {
        /// URL of the vCenter or ESXi host.
        pub url: Option<String> = "url",
        /// UUID of the vSphere VM with the disk.
        pub uuid: Option<String> = "uuid",
        /// Path of the disk in the datastore: `[DATASTORE] FOLDER/FILE.vmdk`.
        pub backing_file: Option<String> = "backingFile",
        /// SHA-1 thumbprint of the server's TLS certificate.
        pub thumbprint: Option<String> = "thumbprint",
        /// Name of a Secret with credentials under the keys `accessKeyId` and `secretKey`.
        pub secret_ref: Option<String> = "secretRef",
        /// Name of a ConfigMap with CA certificates for the server. Unset: the system's CAs.
        pub cert_config_map: Option<String> = "certConfigMap",
        /// Reference of the container image with the VDDK library.
        pub init_image_url: Option<String> = "initImageURL",
        /// Name of a ConfigMap with additional VDDK settings. Unset: none.
        pub extra_args: Option<String> = "extraArgs",
    }
}

object! {
    /// Reference to a DataSource that names the source of the content.
    pub struct SourceRef {
        /// Kind of the referenced object: `DataSource`.
        pub kind: String = "kind",
        /// Namespace of the DataSource. Default: that of the DataVolume.
        pub namespace: Option<String> = "namespace",
        /// Name of the DataSource object.
        pub name: String = "name",
    }
}

object! {
    /// Spec of a PersistentVolumeClaim, with unset fields taken from the StorageProfile of the storage class.
    pub struct Storage {
        /// Access modes: `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany`, `ReadWriteOncePod`. Default: that
        /// of the StorageProfile.
        pub access_modes: Vec<String> = "accessModes",
        /// Label selector of the PersistentVolumes to bind. Unset: every volume qualifies.
        pub selector: Option<LabelSelector> = "selector",
        /// Requested size of the disk; the filesystem overhead is added.
        pub resources: Option<ClaimResources> = "resources",
        /// Name of the PersistentVolume to bind. Unset: chosen by Kubernetes.
        pub volume_name: Option<String> = "volumeName",
        /// Name of the StorageClass. Unset: the default StorageClass of the cluster.
        pub storage_class_name: Option<String> = "storageClassName",
        /// Volume mode: `Filesystem`, `Block` or `FromStorageProfile`. Default: that of the StorageProfile.
        pub volume_mode: Option<String> = "volumeMode",
        /// Object to populate the volume from: a PersistentVolumeClaim or a VolumeSnapshot.
        pub data_source: Option<DataReference> = "dataSource",
        /// Object of any kind to populate the volume from.
        pub data_source_ref: Option<DataReference> = "dataSourceRef",
    }
}

object! {
    /// Checkpoint of a multi-stage import.
    pub struct Checkpoint {
        /// ID of the snapshot that the stage starts from; empty for the first stage.
        pub previous: String = "previous",
        /// ID of the snapshot that the stage imports.
        pub current: String = "current",
    }
}

object! {
    /// Observed state of a DataVolume.
    pub struct Status {
        /// Name of the PersistentVolumeClaim of the DataVolume.
        pub claim_name: Option<String> = "claimName",
        /// Phase of the import, clone or upload.
        pub phase: Option<Phase> = "phase",
        /// Progress of the transfer in percent, for example `12.34%`, or `N/A`.
        pub progress: Option<String> = "progress",
        /// Number of restarts of the transfer.
        pub restart_count: Option<i64> = "restartCount",
        /// Conditions of the DataVolume, one per type.
        pub conditions: Vec<Condition> = "conditions",
    }
}

/// Condition of the DataVolume, for example Bound.
pub type Condition = crate::condition::Condition<ConditionType>;

impl ConditionKind for ConditionType {
    const DESCRIPTION: &'static str = "Condition of the DataVolume, for example Bound.";
    const CHECK_TIME: CheckTime = CheckTime::Heartbeat;
}

string_enum! {
    /// Content type of the source of a DataVolume.
    pub enum ContentType {
        Kubevirt = "kubevirt",
        Archive = "archive",
    }
}

string_enum! {
    /// Component that pulls a container image.
    pub enum PullMethod {
        Pod = "pod",
        Node = "node",
    }
}

string_enum! {
    /// Type of a DataVolume condition.
    pub enum ConditionType {
        Ready = "Ready",
        Bound = "Bound",
        Running = "Running",
        Transferring = "Transferring",
        Cloning = "Cloning",
    }
}

string_enum! {
    /// Phase of a DataVolume; empty at first.
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
