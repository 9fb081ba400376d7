//! The requests so far, and the rights that they took.

use super::request::Request;
use cluster_model::objects::rights::{Right, permits_name};
use cluster_model::objects::{Kind, Program, owner};
use std::collections::BTreeSet;

#[derive(Default)]
pub(super) struct Record {
    /// Requests that no test has taken yet.
    requests: Vec<Request>,
    count: usize,
    rights: BTreeSet<Right>,
    /// Names of objects in requests other than `create`, by kind; `None` for requests about a whole kind.
    names: BTreeSet<(Kind, Option<String>)>,
    /// Requests that are not about a kind of ours.
    others: Vec<String>,
}

impl Record {
    pub(super) fn add(&mut self, request: &Request) {
        self.requests.push(request.clone());
        self.count += 1;
        let Some(place) = request.place() else { return self.others.push(request.line.clone()) };
        if request.verb != "create" {
            self.names.insert((place.kind, request.selected_name()));
        }
        self.rights.insert((place.kind, place.part, request.verb));
        self.rights.extend(owner::rights(&request.body));
    }

    pub(super) fn take(&mut self, is_meant: impl Fn(&Request) -> bool) -> Vec<Request> {
        let (taken, left) = std::mem::take(&mut self.requests).into_iter().partition(is_meant);
        self.requests = left;
        taken
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn rights(&self) -> &BTreeSet<Right> {
        assert!(self.others.is_empty(), "these are about no kind that is known here: {:?}", self.others);
        &self.rights
    }

    pub(super) fn kept_to(&self, program: Program) {
        for (kind, name) in &self.names {
            let name = name.as_deref().unwrap_or("(all)");
            assert!(permits_name(program, *kind, name), "asked was {} {name}", kind.plural());
        }
    }
}
