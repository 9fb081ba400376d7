//! What our programs may do at the API server. Each declares it in a table; their roles are made from it
//! ([`crate::install`]).
//!
//! ```text
//!  cluster/rights   virt-controller ─┐
//!  serve/rights     virt-api ────────┼─► roles
//!  node/rights      virt-handler ────┘
//!      ▲
//!      └ tests: what the program asks of an API server, all of it, is compared with the table, line by line: a right that
//!        is missing fails, and so does one that nobody uses
//! ```
//!
//! What is asked is known by running it: the code that writes and watches, against a server in memory that notes each
//! request; and for what virt-controller decides, a history in which every decision comes up that takes a right of its own,
//! by what [`cluster::rights::needs`](crate::cluster::rights::needs) says of each step.

use crate::kind::Kind;

/// What may be done to a kind, or to the part of it that is named; to what an installation has of its own, in its
/// namespace alone.
pub type Grant = (Kind, Option<&'static str>, &'static [&'static str]);

/// Kinds of which a program may touch only the objects with these names. The roles carry them as `resourceNames`. An API
/// server does not look at them when something is made: what may be made is for [`crate::install`]'s admission policies.
pub type Named = (Kind, &'static [&'static str]);

/// The names of a kind's objects that may be touched; nothing, where all may be.
pub fn names(named: &'static [Named], kind: Kind) -> Option<&'static [&'static str]> {
    named.iter().find(|(of, _)| *of == kind).map(|(_, names)| *names)
}

/// An object with this name may be touched.
pub fn permits_name(named: &'static [Named], kind: Kind, name: &str) -> bool {
    names(named, kind).is_none_or(|names| names.contains(&name))
}

/// One verb of it.
pub type Right = (Kind, Option<&'static str>, &'static str);

/// All rights of a table, each by itself.
pub fn each(grants: &[Grant]) -> impl Iterator<Item = Right> {
    grants.iter().flat_map(|&(kind, part, verbs)| verbs.iter().map(move |&verb| (kind, part, verb)))
}

/// What it takes to follow a kind.
pub fn follow(kind: Kind) -> [Right; 2] {
    [(kind, None, "list"), (kind, None, "watch")]
}
