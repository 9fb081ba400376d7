//! `Secret` of `v1`.

use crate::meta::ObjectMeta;
use crate::object;
use std::collections::BTreeMap;

object! {
    /// Secret: confidential files by name.
    pub struct Secret {
        /// API version of this object: `v1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `Secret`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the Secret.
        pub metadata: ObjectMeta = "metadata",
        /// Type of the Secret, for example `Opaque` or `kubernetes.io/dockerconfigjson`.
        pub r#type: Option<String> = "type",
        /// Files by name, base64-encoded.
        pub data: BTreeMap<String, String> = "data",
        /// Files by name as text; stronger than `data`.
        pub string_data: BTreeMap<String, String> = "stringData",
        /// Forbids changes of the data. Default: false.
        pub immutable: Option<bool> = "immutable",
    }
}
