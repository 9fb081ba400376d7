//! A claim on storage: `PersistentVolumeClaim` of `v1`.

use crate::meta::{LabelSelector, ObjectMeta};
use crate::object;
use crate::quantity::Quantity;
use serde_json::Value;
use std::collections::BTreeMap;

object! {
    /// A claim on storage.
    pub struct PersistentVolumeClaim {
        /// `v1`.
        pub api_version: Option<String> = "apiVersion",
        /// `PersistentVolumeClaim`.
        pub kind: Option<String> = "kind",
        /// Its name and the like.
        pub metadata: ObjectMeta = "metadata",
        /// What is wanted.
        pub spec: ClaimSpec = "spec",
        /// How it is.
        pub status: Option<ClaimStatus> = "status",
    }
}

object! {
    /// What is wanted of storage.
    pub struct ClaimSpec {
        /// `ReadWriteOnce`, `ReadOnlyMany`, `ReadWriteMany`, `ReadWriteOncePod`.
        pub access_modes: Vec<String> = "accessModes",
        /// Labels of the volumes that will do.
        pub selector: Option<LabelSelector> = "selector",
        /// How much.
        pub resources: Option<ClaimResources> = "resources",
        /// The volume, once it is known.
        pub volume_name: Option<String> = "volumeName",
        /// The class; empty is none, absent is the default.
        pub storage_class_name: Option<String> = "storageClassName",
        /// `Filesystem` or `Block`; not said is `Filesystem`.
        pub volume_mode: Option<String> = "volumeMode",
        /// What fills it.
        pub data_source: Option<DataReference> = "dataSource",
        /// What fills it, of any kind.
        pub data_source_ref: Option<DataReference> = "dataSourceRef",
        /// A class of its volume's properties.
        pub volume_attributes_class_name: Option<String> = "volumeAttributesClassName",
    }
}

object! {
    /// How much storage; the key is `storage`.
    pub struct ClaimResources {
        /// At least.
        pub requests: BTreeMap<String, Quantity> = "requests",
        /// At most.
        pub limits: BTreeMap<String, Quantity> = "limits",
    }
}

object! {
    /// What fills a claim.
    pub struct DataReference (atomic) {
        /// Its group; empty is the core.
        pub api_group: Option<String> = "apiGroup",
        /// Its kind.
        pub kind: String = "kind",
        /// Its name.
        pub name: String = "name",
        /// Its namespace.
        pub namespace: Option<String> = "namespace",
    }
}

object! {
    /// How it is with a claim.
    pub struct ClaimStatus {
        /// `Pending`, `Bound` or `Lost`.
        pub phase: Option<String> = "phase",
        /// What its volume allows.
        pub access_modes: Vec<String> = "accessModes",
        /// What its volume holds.
        pub capacity: BTreeMap<String, Quantity> = "capacity",
        /// Kept as they stand.
        pub conditions: Vec<Value> = "conditions",
    }
}

impl ClaimSpec {
    /// How much storage is asked for.
    pub fn storage(&self) -> Option<&Quantity> {
        self.resources.as_ref()?.requests.get("storage")
    }
}
