//! `DataImportCron`: imports an image again after each change of it, and points a DataSource to the newest
//! import.

use crate::cdi::{Condition, SourceFormat};
use crate::data_volume::{DataVolume, PvcSource};
use crate::meta::ObjectMeta;
use crate::{object, string_enum};

object! {
    /// DataImportCron: polls an image on a schedule, imports it after each change and updates a DataSource.
    pub struct DataImportCron {
        /// API version of this object: `cdi.kubevirt.io/v1beta1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `DataImportCron`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the DataImportCron: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Desired state of the DataImportCron: image, schedule and retention. Immutable.
        pub spec: DataImportCronSpec = "spec",
        /// Observed state of the DataImportCron, written by the control plane.
        pub status: Option<DataImportCronStatus> = "status",
    }
}

object! {
    /// Desired state of a DataImportCron: image, schedule and retention. Immutable.
    pub struct DataImportCronSpec {
        /// Template of the DataVolumes: one for each version of the image.
        pub template: DataVolume = "template",
        /// Schedule of the polls in cron format, for example `0 */12 * * *`. Empty: the image is imported
        /// once.
        pub schedule: String = "schedule",
        /// Treatment of outdated imports. Default: `Outdated`.
        pub garbage_collect: Option<GarbageCollect> = "garbageCollect",
        /// Number of imports to keep. Default: 3.
        pub imports_to_keep: Option<i64> = "importsToKeep",
        /// Name of the DataSource that refers to the newest import; created if missing.
        pub managed_data_source: String = "managedDataSource",
        /// Retention of DataSource and imports after the deletion of the DataImportCron. Default: `All`.
        pub retention_policy: Option<RetentionPolicy> = "retentionPolicy",
        /// Name of the ServiceAccount for polls of a PVC in another namespace. Not supported: a
        /// DataImportCron with one is refused.
        pub service_account_name: Option<String> = "serviceAccountName",
    }
}

object! {
    /// Observed state of a DataImportCron.
    pub struct DataImportCronStatus {
        /// Import of the newest digest, in progress or complete; at most one.
        pub current_imports: Vec<ImportStatus> = "currentImports",
        /// PersistentVolumeClaim of the latest complete import.
        pub last_imported_pvc: Option<PvcSource> = "lastImportedPVC",
        /// Time of the latest poll (RFC 3339).
        pub last_execution_timestamp: Option<String> = "lastExecutionTimestamp",
        /// Time of the latest complete import (RFC 3339).
        pub last_import_timestamp: Option<String> = "lastImportTimestamp",
        /// Format of the kept images: PVC or VolumeSnapshot.
        pub source_format: Option<SourceFormat> = "sourceFormat",
        /// Conditions of the DataImportCron: `Progressing` and `UpToDate`.
        pub conditions: Vec<Condition> = "conditions",
    }
}

object! {
    /// Import of one version of the image.
    pub struct ImportStatus {
        /// Name of the DataVolume of the import.
        pub data_volume_name: String = "DataVolumeName",
        /// Digest of the image, for example `sha256:HEX`.
        pub digest: String = "Digest",
    }
}

string_enum! {
    /// Treatment of outdated imports.
    pub enum GarbageCollect {
        /// Every import is kept.
        Never = "Never",
        /// Imports beyond `importsToKeep` are deleted, the oldest first.
        Outdated = "Outdated",
    }
}

string_enum! {
    /// Retention of DataSource and imports after the deletion of the DataImportCron.
    pub enum RetentionPolicy {
        /// DataSource and imports are deleted.
        None = "None",
        /// DataSource and imports are kept.
        All = "All",
    }
}
