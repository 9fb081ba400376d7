//! Rights of our programs at the API server, derived from the declarations of all kinds. Roles are made from
//! them (package `install`). Objects in other namespaces are permitted by a role of the cluster
//! ([`cluster_objects`]).
//!
//! Tests run the code that writes and watches against a server in memory that records each request, and
//! compare the requests of a program with its rights, line by line: a missing right fails the test, and so
//! does an unused one. For virt-controller's decisions, a history that contains each of them is compared by
//! `virt_controller::rights::required_rights`.

use super::{ClusterObject, Kind, Program};

/// Verbs that a program may use on a kind, or on a subresource of it. For a kind of the installation they are
/// limited to its namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub kind: Kind,
    /// The subresource; `None` for the object itself.
    pub part: Option<&'static str>,
    pub verbs: Vec<&'static str>,
}

/// A verb of a grant.
pub type Right = (Kind, Option<&'static str>, &'static str);

/// All grants of a program.
pub fn grants(program: Program) -> Vec<Grant> {
    Kind::ALL.iter().flat_map(|&kind| of_kind(program, kind)).collect()
}

fn of_kind(program: Program, kind: Kind) -> Vec<Grant> {
    let used = kind.about().use_by(program);
    let mut grants: Vec<Grant> = Vec::new();
    let follows: &[&str] = if used.follows.is_empty() { &[] } else { &["list", "watch"] };
    for (part, verbs) in [(None, follows)].into_iter().chain(used.verbs.iter().copied()) {
        match grants.iter_mut().find(|grant| grant.part == part) {
            Some(grant) => grant.verbs.extend(verbs),
            None => grants.push(Grant { kind, part, verbs: verbs.to_vec() }),
        }
    }
    grants.retain(|grant| !grant.verbs.is_empty());
    grants.iter_mut().for_each(|grant| grant.verbs.sort_unstable());
    grants
}

/// Rights of a program in every namespace on a kind that is otherwise restricted to the installation
/// ([`super::WritableByPrefix`]).
pub fn grants_by_prefix(program: Program) -> impl Iterator<Item = Grant> {
    Kind::ALL.iter().filter_map(move |&kind| {
        let mut verbs = kind.about().use_by(program).beyond?.verbs.to_vec();
        verbs.sort_unstable();
        Some(Grant { kind, part: None, verbs })
    })
}

/// All rights of a program, one by one.
pub fn all_rights(program: Program) -> impl Iterator<Item = Right> {
    grants(program)
        .into_iter()
        .chain(grants_by_prefix(program))
        .flat_map(|grant| grant.verbs.into_iter().map(move |verb| (grant.kind, grant.part, verb)))
}

/// Names of the only objects of a kind that a program may access; `None` for all.
pub fn names(program: Program, kind: Kind) -> Option<&'static [&'static str]> {
    Some(kind.about().use_by(program).names).filter(|names| !names.is_empty())
}

/// True if a program may access the object of this name, by any of its rights on the kind.
pub fn permits_name(program: Program, kind: Kind, name: &str) -> bool {
    let used = kind.about().use_by(program);
    let is_elsewhere = used.elsewhere.iter().any(|object| object.name == name);
    let is_beyond =
        used.beyond.is_some_and(|beyond| beyond.prefixes.iter().any(|start| name.starts_with(start)));
    is_elsewhere || is_beyond || names(program, kind).is_none_or(|names| names.contains(&name))
}

/// Objects of the cluster that a program follows, each by a role that every cluster has.
pub fn cluster_objects(program: Program) -> impl Iterator<Item = &'static ClusterObject> {
    Kind::ALL.iter().flat_map(move |kind| kind.about().use_by(program).elsewhere)
}

/// The rights to watch a kind.
pub fn watch_rights(kind: Kind) -> [Right; 2] {
    [(kind, None, "list"), (kind, None, "watch")]
}
