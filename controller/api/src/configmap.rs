//! Small files: `ConfigMap` of `v1`.

use crate::meta::ObjectMeta;
use crate::object;
use std::collections::BTreeMap;

object! {
    /// Small files.
    pub struct ConfigMap {
        /// `v1`.
        pub api_version: Option<String> = "apiVersion",
        /// `ConfigMap`.
        pub kind: Option<String> = "kind",
        /// Its name and the like.
        pub metadata: ObjectMeta = "metadata",
        /// The files by name, as they are.
        pub data: BTreeMap<String, String> = "data",
        /// The files by name that are not UTF-8, in base64.
        pub binary_data: BTreeMap<String, String> = "binaryData",
        /// It never changes.
        pub immutable: Option<bool> = "immutable",
    }
}
