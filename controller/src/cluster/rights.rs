//! What the reconcilers read and write, declared: the roles of virt-controller are made from this. Every step of every
//! test is compared with it.

use super::{certificates, kubevirt, owner};
use crate::kind::{Key, Kind};
use crate::lease;
use crate::plan::Step;
use crate::rights::{Grant, Named, Right, each, permits_name};

/// What virt-controller may do.
pub const RIGHTS: &[Grant] = &[
    (Kind::Machine, None, &["delete", "list", "patch", "watch"]),
    (Kind::Machine, Some("status"), &["patch"]),
    (Kind::Machine, Some("finalizers"), &["update"]),
    // Its status has no path of its own.
    (Kind::Instance, None, &["create", "delete", "get", "list", "patch", "watch"]),
    (Kind::Instance, Some("finalizers"), &["update"]),
    (Kind::ReplicaSet, None, &["delete", "list", "watch"]),
    (Kind::ReplicaSet, Some("status"), &["patch"]),
    (Kind::ReplicaSet, Some("finalizers"), &["update"]),
    (Kind::KubeVirt, None, &["create", "get", "list", "patch", "watch"]),
    (Kind::KubeVirt, Some("status"), &["patch"]),
    (Kind::DataVolume, None, &["create", "get", "list", "watch"]),
    (Kind::Revision, None, &["create", "delete", "get"]),
    (Kind::Pod, None, &["create", "delete", "get", "list", "watch"]),
    (Kind::Pod, Some("status"), &["patch"]),
    (Kind::Claim, None, &["list", "watch"]),
    (Kind::Node, None, &["list", "patch", "watch"]),
    (Kind::Event, None, &["create", "list", "watch"]),
    (Kind::Mutating, None, &["create", "delete", "get", "list", "patch", "watch"]),
    (Kind::Validating, None, &["create", "delete", "get", "list", "patch", "watch"]),
    (Kind::Lease, None, &["create", "get", "patch"]),
    (Kind::Secret, None, &["create", "get", "list", "patch", "watch"]),
    (Kind::ConfigMap, None, &["create", "delete", "get", "list", "patch", "watch"]),
    (Kind::Deployment, None, &["list", "watch"]),
    (Kind::DaemonSet, None, &["list", "watch"]),
    // Who may read what it measures.
    (Kind::TokenReview, None, &["create"]),
    (Kind::AccessReview, None, &["create"]),
];

/// The objects that these rights are about, where they are about few: a stolen account reads no other secret of the
/// namespace, and unmakes no other program's webhooks.
pub const NAMED: &[Named] = &[
    (
        Kind::Secret,
        &[
            certificates::AUTHORITY,
            certificates::API.secret,
            certificates::CONTROLLER.secret,
            certificates::HANDLER.secret,
        ],
    ),
    (Kind::ConfigMap, &[certificates::AUTHORITY, kubevirt::NOTE]),
    (Kind::Lease, &[lease::NAME]),
    (Kind::Mutating, &[certificates::MUTATOR]),
    (Kind::Validating, &[certificates::VALIDATOR]),
];

/// A step may be done.
pub fn permits(step: &Step) -> bool {
    needs(step).iter().all(|need| each(RIGHTS).any(|right| right == *need))
        && touched(step).iter().all(|key| permits_name(NAMED, key.kind, &key.name))
}

/// The objects that a step reads or writes.
fn touched(step: &Step) -> Vec<Key> {
    match step {
        Step::Create { key, .. }
        | Step::Patch { key, .. }
        | Step::Delete { key, .. }
        | Step::Absent { key, .. } => {
            vec![key.clone()]
        }
        Step::Issue(issue) => {
            issue.signer.iter().map(|signer| &signer.key).chain([&issue.key]).cloned().collect()
        }
        Step::Tell(_) => Vec::new(),
    }
}

/// What it takes to do a step. (One that makes what is there already reads it.)
pub fn needs(step: &Step) -> Vec<Right> {
    let all = |kind: Kind, verbs: &[&'static str]| verbs.iter().map(|verb| (kind, None, *verb)).collect();
    match step {
        Step::Create { key, object } => [(key.kind, None, "create"), (key.kind, None, "get")]
            .into_iter()
            .chain(owner::rights(object))
            .collect(),
        Step::Patch { key, part, change, .. } => {
            std::iter::once((key.kind, *part, "patch")).chain(owner::rights(change)).collect()
        }
        Step::Delete { key, .. } => all(key.kind, &["delete"]),
        Step::Absent { key, .. } => all(key.kind, &["get"]),
        // Who signs it is read.
        Step::Issue(issue) => match (&issue.version, &issue.signer) {
            (None, _) => all(issue.key.kind, &["create", "get"]),
            (Some(_), None) => all(issue.key.kind, &["patch"]),
            (Some(_), Some(_)) => all(issue.key.kind, &["get", "patch"]),
        },
        Step::Tell(_) => all(Kind::Event, &["create"]),
    }
}

#[cfg(test)]
mod tests;
