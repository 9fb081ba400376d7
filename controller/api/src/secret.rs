//! Small files that are not for everybody: `Secret` of `v1`.

use crate::meta::ObjectMeta;
use crate::object;
use std::collections::BTreeMap;

object! {
    /// Small files that are not for everybody.
    pub struct Secret {
        /// `v1`.
        pub api_version: Option<String> = "apiVersion",
        /// `Secret`.
        pub kind: Option<String> = "kind",
        /// Its name and the like.
        pub metadata: ObjectMeta = "metadata",
        /// What it is for: `Opaque`, `kubernetes.io/dockerconfigjson`, ….
        pub r#type: Option<String> = "type",
        /// The files by name, in base64.
        pub data: BTreeMap<String, String> = "data",
        /// The files by name, as they are; they go before `data`.
        pub string_data: BTreeMap<String, String> = "stringData",
        /// It never changes.
        pub immutable: Option<bool> = "immutable",
    }
}
