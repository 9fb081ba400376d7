//! `ConfigMap` of `v1`.

use crate::meta::ObjectMeta;
use crate::object;
use std::collections::BTreeMap;

object! {
    /// ConfigMap: configuration files by name.
    pub struct ConfigMap {
        /// API version of this object: `v1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `ConfigMap`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the ConfigMap.
        pub metadata: ObjectMeta = "metadata",
        /// Files by name, as UTF-8 text.
        pub data: BTreeMap<String, String> = "data",
        /// Files by name that are not UTF-8, base64-encoded.
        pub binary_data: BTreeMap<String, String> = "binaryData",
        /// Forbids changes of the data. Default: false.
        pub immutable: Option<bool> = "immutable",
    }
}
