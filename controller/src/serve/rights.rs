//! What `virt-api` reads: its roles are made from this. It writes nothing.

use crate::kind::Kind;

/// What may be done to a kind; to what an installation has of its own, in its namespace alone.
pub const RIGHTS: &[(Kind, Option<&str>, &[&str])] = &[
    (Kind::KubeVirt, None, &["list", "watch"]),
    // Its own certificate.
    (Kind::Secret, None, &["list", "watch"]),
    // Whether any is left, when the installation is to be deleted.
    (Kind::Machine, None, &["list"]),
    (Kind::Instance, None, &["list"]),
    (Kind::ReplicaSet, None, &["list"]),
];
