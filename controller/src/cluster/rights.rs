//! What the reconcilers read and write, declared: the cluster role of virt-controller is made from this. Every step of
//! every test is compared with it.

use crate::kind::Kind;
use crate::plan::Step;

/// What may be done to a kind, or to the part of it that is named.
pub const RIGHTS: &[(Kind, Option<&str>, &[&str])] = &[
    (Kind::Machine, None, &["delete", "list", "patch", "watch"]),
    (Kind::Machine, Some("status"), &["patch"]),
    // Its status has no path of its own.
    (Kind::Instance, None, &["create", "delete", "get", "list", "patch", "watch"]),
    (Kind::ReplicaSet, None, &["delete", "list", "watch"]),
    (Kind::ReplicaSet, Some("status"), &["patch"]),
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
];

/// A step may be done. (One that makes what is there already reads it.)
pub fn permits(step: &Step) -> bool {
    let may = |kind: Kind, part: Option<&str>, verb: &str| {
        RIGHTS.iter().any(|(known, of, verbs)| *known == kind && *of == part && verbs.contains(&verb))
    };
    match step {
        Step::Create { key, .. } => may(key.kind, None, "create") && may(key.kind, None, "get"),
        Step::Patch { key, part, .. } => may(key.kind, *part, "patch"),
        Step::Delete { key, .. } => may(key.kind, None, "delete"),
        Step::Absent { key } => may(key.kind, None, "get"),
        Step::Issue(issue) => {
            ["create", "get", "patch"].into_iter().all(|verb| may(issue.key.kind, None, verb))
        }
        Step::Tell(_) => may(Kind::Event, None, "create"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_watched_may_be() {
        for kind in crate::cluster::WATCHED {
            let verbs = RIGHTS
                .iter()
                .find(|(known, part, _)| *known == kind && part.is_none())
                .map(|(.., verbs)| verbs);
            assert!(
                verbs.is_some_and(|verbs| verbs.contains(&"list") && verbs.contains(&"watch")),
                "{kind:?}"
            );
        }
    }
}
