//! Sources that a PVC with a `dataSourceRef` is filled from: an import, an upload or a clone.

use crate::claim::DataReference;
use crate::data_volume::{Checkpoint, ContentType, Gcs, Http, ImageIo, Registry, S3, Source, Vddk};
use crate::meta::{Empty, ObjectMeta, is_name};
use crate::object;

object! {
    /// VolumeImportSource: an import as the `dataSourceRef` of PersistentVolumeClaims.
    pub struct VolumeImportSource {
        /// API version of this object: `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VolumeImportSource`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the VolumeImportSource: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Source and content type of the import. Immutable.
        pub spec: VolumeImportSourceSpec = "spec",
        /// Empty object: the state of the import is on the PVC.
        pub status: Option<Empty> = "status",
    }
}

object! {
    /// Source and content type of an import. Immutable.
    pub struct VolumeImportSourceSpec {
        /// Source of the content; exactly one of its fields.
        pub source: Option<ImportSourceType> = "source",
        /// Preallocates all blocks of the disk image. Default: the setting of the cluster.
        pub preallocation: Option<bool> = "preallocation",
        /// Content type of the source: `kubevirt` is a disk image, `archive` is a tar archive of files.
        /// Default: `kubevirt`.
        pub content_type: Option<ContentType> = "contentType",
        /// Name of the only PVC that a multi-stage import fills.
        pub target_claim: Option<String> = "targetClaim",
        /// Checkpoints of a multi-stage import from vddk or imageio.
        pub checkpoints: Vec<Checkpoint> = "checkpoints",
        /// Marks the last checkpoint as final, which completes a multi-stage import. Default: false.
        pub final_checkpoint: Option<bool> = "finalCheckpoint",
    }
}

object! {
    /// Source of an import; exactly one.
    pub struct ImportSourceType {
        /// Import from an HTTP or HTTPS server.
        pub http: Option<Http> = "http",
        /// Import from an S3 object store.
        pub s3: Option<S3> = "s3",
        /// Import from a container image in a registry.
        pub registry: Option<Registry> = "registry",
        /// Import from Google Cloud Storage (GCS).
        pub gcs: Option<Gcs> = "gcs",
        /// Empty disk image without content.
        pub blank: Option<Empty> = "blank",
        /// Import from an oVirt image service (imageio).
        pub imageio: Option<ImageIo> = "imageio",
        /// Import from VMware vSphere through the VDDK library.
        pub vddk: Option<Vddk> = "vddk",
    }
}

object! {
    /// VolumeUploadSource: an upload as the `dataSourceRef` of PersistentVolumeClaims.
    pub struct VolumeUploadSource {
        /// API version of this object: `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VolumeUploadSource`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the VolumeUploadSource: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Content type of the upload. Immutable.
        pub spec: VolumeUploadSourceSpec = "spec",
        /// Empty object: the state of the upload is on the PVC.
        pub status: Option<Empty> = "status",
    }
}

object! {
    /// Content type of an upload. Immutable.
    pub struct VolumeUploadSourceSpec {
        /// Content type of the upload: `kubevirt` is a disk image, `archive` is a tar archive of files.
        /// Default: `kubevirt`.
        pub content_type: Option<ContentType> = "contentType",
        /// Preallocates all blocks of the disk image. Default: the setting of the cluster.
        pub preallocation: Option<bool> = "preallocation",
    }
}

object! {
    /// VolumeCloneSource: a clone as the `dataSourceRef` of PersistentVolumeClaims.
    pub struct VolumeCloneSource {
        /// API version of this object: `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VolumeCloneSource`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the VolumeCloneSource: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Object that is cloned.
        pub spec: VolumeCloneSourceSpec = "spec",
    }
}

object! {
    /// Object that is cloned, and how.
    pub struct VolumeCloneSourceSpec {
        /// PersistentVolumeClaim or VolumeSnapshot that is cloned.
        pub source: DataReference = "source",
        /// Preallocates all blocks of the disk image. Default: the setting of the cluster.
        pub preallocation: Option<bool> = "preallocation",
        /// Name of the PriorityClass of the worker pods. Unset: the default priority class of the cluster.
        pub priority_class_name: Option<String> = "priorityClassName",
    }
}

impl VolumeCloneSourceSpec {
    /// Field and reason of a source that cannot be cloned. `None` for a PVC of the namespace of the
    /// VolumeCloneSource.
    pub fn unserved(&self) -> Option<(&'static str, String)> {
        let DataReference { api_group, kind, name, namespace, .. } = &self.source;
        let group = api_group.as_deref().unwrap_or_default();
        let is = |field, why: &str| Some((field, format!("{field}: {why}")));
        if kind == "VolumeSnapshot" {
            return is(
                "spec.source.kind",
                "a VolumeSnapshot is not cloned this way: name it in the dataSource of the PVC itself, or in source.snapshot of a \
                 DataVolume",
            );
        }
        if kind != "PersistentVolumeClaim" {
            return is("spec.source.kind", &format!("must be PersistentVolumeClaim, not {kind:?}"));
        }
        if !group.is_empty() {
            return is(
                "spec.source.apiGroup",
                &format!("must be empty for a PersistentVolumeClaim, not {group:?}"),
            );
        }
        if !is_name(name) {
            return is(
                "spec.source.name",
                &format!("{name:?} cannot be the name of a PersistentVolumeClaim"),
            );
        }
        if namespace.as_ref().is_some_and(|namespace| !namespace.is_empty()) {
            return is(
                "spec.source.namespace",
                "leave it out: a PersistentVolumeClaim of the same namespace is cloned, and no other",
            );
        }
        if self.priority_class_name.as_deref().is_some_and(|name| !name.is_empty() && !is_name(name)) {
            return is("spec.priorityClassName", "it cannot be the name of a PriorityClass");
        }
        None
    }
}

impl ImportSourceType {
    /// The same source in the form of a DataVolume.
    pub fn of_data_volume(self) -> Source {
        let ImportSourceType { http, s3, registry, gcs, blank, imageio, vddk, other } = self;
        Source { http, s3, registry, gcs, blank, imageio, vddk, other, ..Source::default() }
    }
}
