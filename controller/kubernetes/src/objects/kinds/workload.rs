//! A program of the installation: a Deployment or a DaemonSet.

use crate::objects::store::{Kept, meta};
use crate::objects::{About, Selector, Use};
use api::meta::ObjectMeta;
use serde_json::Value;

/// What is declared of both kinds.
pub(super) const FOLLOWED: About = About {
    is_of_installation: true,
    controller: Use { follows: &[Selector::ALL], ..Use::NONE },
    touches: |world, _| super::kubevirt::all(world).into_iter().chain(super::cdi::all(world)).collect(),
    ..About::named("apps/v1", "", "")
};

/// The part of a program of the installation that is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Component {
    /// Its name and the like.
    pub meta: ObjectMeta,
    /// What is wanted of it now is what its figures are about.
    pub current: bool,
    /// How many there should be.
    pub wanted: u64,
    /// How many are ready, and of the kind that is wanted now.
    pub ready: u64,
}

impl Kept for Component {
    fn take(object: Value) -> Option<Self> {
        let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_u64);
        let meta = meta(&object)?;
        let seen = number("/status/observedGeneration").unwrap_or_default();
        let generation = meta.generation.and_then(|number| u64::try_from(number).ok()).unwrap_or_default();
        let of_nodes = number("/status/desiredNumberScheduled");
        let (wanted, ready) = match of_nodes {
            Some(wanted) => (wanted, number("/status/numberReady")),
            // A Deployment that says nothing wants one.
            None => (number("/spec/replicas").unwrap_or(1), number("/status/readyReplicas")),
        };
        Some(Component { current: seen >= generation, wanted, ready: ready.unwrap_or_default(), meta })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}
