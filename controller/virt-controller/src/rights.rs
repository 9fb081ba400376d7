//! The rights that each step of virt-controller takes. Every step of every test is compared with the declared ones.

use cluster_model::issue::KeyChange;
use cluster_model::objects::rights::{Right, all_rights, permits_name};
use cluster_model::objects::{Key, Kind, Program, owner};
use cluster_model::plan::Step;
use serde_json::json;

/// True if virt-controller has the right to carry out this step.
pub(crate) fn permits_step(step: &Step) -> bool {
    required_rights(step).iter().all(|need| all_rights(Program::Controller).any(|right| right == *need))
        && touched_keys(step).iter().all(|key| permits_name(Program::Controller, key.kind, &key.name))
}

/// The objects that a step reads or writes.
fn touched_keys(step: &Step) -> Vec<Key> {
    match step {
        Step::Create { key, .. }
        | Step::Patch { key, .. }
        | Step::Delete { key, .. }
        | Step::DeleteOwnedBy { key, .. }
        | Step::Evict { key, .. }
        | Step::RequireAbsent { key, .. }
        | Step::RequirePresent { key, .. } => {
            vec![key.clone()]
        }
        Step::CreateOnNetworks { key, networks, .. } => {
            [key].into_iter().chain(networks.iter().map(|network| &network.definition)).cloned().collect()
        }
        Step::Issue(issue) => {
            issue.signer.iter().map(|signer| &signer.key).chain([&issue.key]).cloned().collect()
        }
        Step::IssueForPod(issue) => vec![issue.key.clone(), issue.signer(), issue.peer_bundle()],
        Step::RecordDevices(telling) => {
            [&telling.key].into_iter().chain(telling.devices.iter().map(|one| &one.claim)).cloned().collect()
        }
        Step::RequireNoMounter { claim, .. } => vec![Key::new(Kind::Pod, &*claim.namespace, "")],
        Step::RequireMembers(members) => vec![Key::new(members.kind, &*members.namespace, "")],
        Step::RequireNoLauncherPod { namespace, .. } => vec![Key::new(Kind::Pod, namespace, "")],
        Step::IssueKey(issue) => vec![issue.key.clone()],
        Step::RecordEvent(_) => Vec::new(),
    }
}

/// Rights that a step needs. (A creation of an object that exists already reads it.)
pub(crate) fn required_rights(step: &Step) -> Vec<Right> {
    let all = |kind: Kind, verbs: &[&'static str]| -> Vec<Right> {
        verbs.iter().map(|verb| (kind, None, *verb)).collect()
    };
    match step {
        Step::Create { key, object } => [(key.kind, None, "create"), (key.kind, None, "get")]
            .into_iter()
            .chain(owner::rights(object))
            .collect(),
        Step::CreateOnNetworks { key, object, .. } => [(key.kind, None, "create"), (key.kind, None, "get")]
            .into_iter()
            .chain(all(Kind::NetworkAttachmentDefinition, &["get"]))
            .chain(owner::rights(object))
            .collect(),
        Step::Patch { key, part, change, .. } => {
            std::iter::once((key.kind, *part, "patch")).chain(owner::rights(change)).collect()
        }
        Step::Delete { key, .. } => all(key.kind, &["delete"]),
        Step::Evict { key, .. } => vec![(key.kind, Some("eviction"), "create")],
        // A Secret of a tenant is not read: it is asked whose it is by a change that changes nothing.
        Step::DeleteOwnedBy { key, .. } if key.kind == Kind::Secret => all(key.kind, &["delete", "patch"]),
        Step::DeleteOwnedBy { key, .. } => all(key.kind, &["delete", "get"]),
        Step::RequireAbsent { key, .. } | Step::RequirePresent { key, .. } => all(key.kind, &["get"]),
        Step::RecordDevices(telling) => all(Kind::ResourceClaim, &["get"])
            .into_iter()
            .chain(all(Kind::ResourceSlice, &["list"]))
            .chain(all(telling.key.kind, &["patch"]))
            .collect(),
        Step::RequireNoMounter { .. } | Step::RequireNoLauncherPod { .. } => all(Kind::Pod, &["list"]),
        Step::RequireMembers(members) => all(members.kind, &["list"]),
        // The Secret of the signing authority is read.
        Step::Issue(issue) => match (&issue.version, &issue.signer) {
            (None, _) => all(issue.key.kind, &["create", "get"]),
            (Some(_), None) => all(issue.key.kind, &["patch"]),
            (Some(_), Some(_)) => all(issue.key.kind, &["get", "patch"]),
        },
        // An existing Secret is changed.
        Step::IssueForPod(issue) => {
            let written = json!({"metadata": {"ownerReferences": [issue.owner]}});
            let mut needs: Vec<Right> = owner::rights(&written).collect();
            needs.extend(all(issue.key.kind, &["create", "get", "patch"]));
            needs.extend(all(issue.peer_bundle().kind, &["get"]));
            needs
        }
        Step::IssueKey(issue) => match (&issue.version, issue.change) {
            (None, _) => all(issue.key.kind, &["create", "get"]),
            // What was made before is there, and is moved.
            (Some(_), KeyChange::Promote) => all(issue.key.kind, &["get", "patch"]),
            (Some(_), KeyChange::First | KeyChange::Next) => all(issue.key.kind, &["patch"]),
        },
        Step::RecordEvent(_) => all(Kind::Event, &["create"]),
    }
}

#[cfg(test)]
mod tests;
