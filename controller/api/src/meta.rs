//! What every object has: a name and the like. And the small things that many of them use.

use crate::object;
use crate::pod::Requirement;
use serde_json::Value;
use std::collections::BTreeMap;

object! {
    /// `metadata` of an object.
    pub struct ObjectMeta {
        /// Its name in its namespace.
        pub name: Option<String> = "name",
        /// The beginning of a name that the server completes.
        pub generate_name: Option<String> = "generateName",
        /// Its namespace.
        pub namespace: Option<String> = "namespace",
        /// One of a kind for ever.
        pub uid: Option<String> = "uid",
        /// Changes with every change.
        pub resource_version: Option<String> = "resourceVersion",
        /// Rises with every change of the spec.
        pub generation: Option<i64> = "generation",
        /// RFC 3339.
        pub creation_timestamp: Option<String> = "creationTimestamp",
        /// RFC 3339: since when it is being deleted.
        pub deletion_timestamp: Option<String> = "deletionTimestamp",
        /// How long the deletion may take.
        pub deletion_grace_period_seconds: Option<i64> = "deletionGracePeriodSeconds",
        /// What it is found by.
        pub labels: BTreeMap<String, String> = "labels",
        /// Notes.
        pub annotations: BTreeMap<String, String> = "annotations",
        /// What it goes with.
        pub owner_references: Vec<OwnerReference> = "ownerReferences",
        /// Who must agree before it is gone.
        pub finalizers: Vec<String> = "finalizers",
        /// Who wrote which field; the server's, kept as it stands.
        pub managed_fields: Vec<Value> = "managedFields",
        /// Deprecated.
        pub self_link: Option<String> = "selfLink",
    }
}

object! {
    /// What an object goes with.
    pub struct OwnerReference {
        /// Its group and version.
        pub api_version: String = "apiVersion",
        /// Its kind.
        pub kind: String = "kind",
        /// Its name.
        pub name: String = "name",
        /// Its uid.
        pub uid: String = "uid",
        /// It is the one that looks after the object.
        pub controller: Option<bool> = "controller",
        /// It stays until the object is gone.
        pub block_owner_deletion: Option<bool> = "blockOwnerDeletion",
    }
}

object! {
    /// An object of the same namespace.
    pub struct LocalReference (atomic) {
        /// Its name.
        pub name: Option<String> = "name",
    }
}

object! {
    /// Labels that are looked for.
    pub struct LabelSelector (atomic) {
        /// Exactly these.
        pub match_labels: BTreeMap<String, String> = "matchLabels",
        /// And what else must be true of them: `LabelSelectorRequirement`.
        pub match_expressions: Vec<Value> = "matchExpressions" as Vec<Requirement>,
    }
}

object! {
    /// Something whose being there says it all.
    pub struct Empty {}
}
