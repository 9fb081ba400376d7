//! What the agent of a node reads and writes, declared: its cluster role is made from this.

use crate::kind::Kind;

/// What may be done to a kind, or to the part of it that is named.
pub const RIGHTS: &[(Kind, Option<&str>, &[&str])] = &[
    // Its status has no path of its own. That only machines of the own node are written is the webhook's to see.
    (Kind::Instance, None, &["list", "patch", "watch"]),
    (Kind::Pod, None, &["list", "watch"]),
    (Kind::Node, None, &["get", "patch"]),
    (Kind::Event, None, &["create"]),
];
