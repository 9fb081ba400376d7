//! `DataSource`: a lasting name for the source of clones, whose disk may be replaced.

use crate::cdi::Condition;
use crate::data_volume::PvcSource;
use crate::meta::ObjectMeta;
use crate::object;

object! {
    /// DataSource: a lasting name for a PVC or a VolumeSnapshot that DataVolumes are cloned from.
    pub struct DataSource {
        /// API version of this object: `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `DataSource`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the DataSource: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Object that DataVolumes are cloned from.
        pub spec: DataSourceSpec = "spec",
        /// Observed state of the DataSource, written by the control plane.
        pub status: Option<DataSourceStatus> = "status",
    }
}

object! {
    /// Object that DataVolumes are cloned from.
    pub struct DataSourceSpec {
        /// Source of the clones; at most one of its fields.
        pub source: DataSourceSource = "source",
    }
}

object! {
    /// Source of clones: a PVC, a VolumeSnapshot or another DataSource.
    pub struct DataSourceSource {
        /// PersistentVolumeClaim that is cloned.
        pub pvc: Option<PvcSource> = "pvc",
        /// VolumeSnapshot that is restored.
        pub snapshot: Option<PvcSource> = "snapshot",
        /// Another DataSource of the same namespace, with a PVC or a VolumeSnapshot as its own source.
        pub data_source: Option<PvcSource> = "dataSource",
    }
}

object! {
    /// Observed state of a DataSource.
    pub struct DataSourceStatus {
        /// Source in use, with a reference to another DataSource resolved.
        pub source: Option<DataSourceSource> = "source",
        /// Conditions of the DataSource: `Ready`.
        pub conditions: Vec<Condition> = "conditions",
    }
}
