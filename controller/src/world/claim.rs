//! What is looked at of a claim on storage.

use super::shelf::{Kept, meta};
use api::claim::{ClaimSpec, ClaimStatus};
use api::meta::ObjectMeta;
use api::wire;
use serde_json::Value;

/// A claim on storage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// Its name and the like.
    pub meta: ObjectMeta,
    /// What is wanted.
    pub spec: ClaimSpec,
    /// How it is.
    pub status: ClaimStatus,
}

impl Claim {
    /// It has a volume.
    pub fn is_bound(&self) -> bool {
        self.status.phase.as_deref() == Some("Bound")
    }

    /// It is a device, not a file system.
    pub fn is_block(&self) -> bool {
        self.spec.volume_mode.as_deref() == Some("Block")
    }
}

impl Kept for Claim {
    fn take(mut object: Value) -> Option<Self> {
        let mut part =
            |name: &str| object.get_mut(name).map_or_else(|| Value::Object(Default::default()), Value::take);
        let (spec, status) = (part("spec"), part("status"));
        let faults = &mut Vec::new();
        Some(Claim {
            meta: meta(&object)?,
            spec: wire::read_in_part(spec, faults).unwrap_or_default(),
            status: wire::read_in_part(status, faults).unwrap_or_default(),
        })
    }

    fn meta(&self) -> &ObjectMeta {
        &self.meta
    }
}
