//! What our programs may do at the API server: derived from the declarations of all kinds. Roles are made from it
//! (package `install`). What a program follows elsewhere is permitted by a role of the cluster's own ([`elsewhere`]).
//!
//! Tests run the code that writes and watches against a server in memory that notes each request, and compare all that a
//! program asks with its rights, line by line: a right that is missing fails, and so does one that nobody uses. For
//! virt-controller's decisions, a history in which each comes up is compared by
//! `virt_controller::rights::needs`.

use super::{Elsewhere, Kind, Program};

/// Verbs that a program may use on a kind, or on a subresource of it. Of a kind of the installation, in its namespace alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The kind.
    pub kind: Kind,
    /// The subresource.
    pub part: Option<&'static str>,
    /// The verbs, sorted.
    pub verbs: Vec<&'static str>,
}

/// One verb of a grant.
pub type Right = (Kind, Option<&'static str>, &'static str);

/// All grants of a program.
pub fn of(program: Program) -> Vec<Grant> {
    Kind::ALL.iter().flat_map(|&kind| of_kind(program, kind)).collect()
}

fn of_kind(program: Program, kind: Kind) -> Vec<Grant> {
    let used = kind.about().of(program);
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

/// What a program may do in every namespace with a kind that is else of the installation ([`super::Beyond`]).
pub fn beyond(program: Program) -> impl Iterator<Item = Grant> {
    Kind::ALL.iter().filter_map(move |&kind| {
        let mut verbs = kind.about().of(program).beyond?.verbs.to_vec();
        verbs.sort_unstable();
        Some(Grant { kind, part: None, verbs })
    })
}

/// All rights of a program, each by itself.
pub fn each(program: Program) -> impl Iterator<Item = Right> {
    of(program)
        .into_iter()
        .chain(beyond(program))
        .flat_map(|grant| grant.verbs.into_iter().map(move |verb| (grant.kind, grant.part, verb)))
}

/// The names of the only objects of a kind that a program may touch; nothing, where it may touch all.
pub fn names(program: Program, kind: Kind) -> Option<&'static [&'static str]> {
    Some(kind.about().of(program).names).filter(|names| !names.is_empty())
}

/// A program may touch the object of this name; elsewhere it may follow the object, or write it.
pub fn permits_name(program: Program, kind: Kind, name: &str) -> bool {
    let used = kind.about().of(program);
    let is_elsewhere = used.elsewhere.iter().any(|object| object.name == name);
    let is_beyond =
        used.beyond.is_some_and(|beyond| beyond.prefixes.iter().any(|start| name.starts_with(start)));
    is_elsewhere || is_beyond || names(program, kind).is_none_or(|names| names.contains(&name))
}

/// Objects of the cluster's own that a program follows, each by a role that every cluster has.
pub fn elsewhere(program: Program) -> impl Iterator<Item = &'static Elsewhere> {
    Kind::ALL.iter().flat_map(move |kind| kind.about().of(program).elsewhere)
}

/// The rights to follow a kind.
pub fn follow(kind: Kind) -> [Right; 2] {
    [(kind, None, "list"), (kind, None, "watch")]
}
