//! The Kubernetes objects that our programs read or write. Each kind is one file of `kinds/`.
//!
//! ```text
//!  kinds/pod.rs ──┐  a file declares ([`About`]): the API name, the selectors of each program, the rights of each
//!  kinds/node.rs ─┼─► program, the part of an object that is kept, and the objects whose decision it can change
//!  …             ─┘
//!        │ listed once, in [`Kind`]
//!        ├──► watches ([`Kind::followed_by`])      ──► watch
//!        ├──► rights ([`rights::grants`])              ──► install (roles), tests (nothing is asked without a right)
//!        └──► [`World`]: one store for each kind, and the marks by which objects find each other
//! ```
//!
//! A new kind is a new file and one line in `kind.rs`; virt-controller keeps its objects after one more line
//! in `world.rs`. The package holds no decisions: `virt-controller` makes them.

/// Maximum number of values read from an object: its fields and the entries of its lists. A VM with a hundred
/// disks has some 2,000.
pub const VALUES: usize = 20_000;

/// Marker field of an object that was read as metadata only.
pub const METADATA_ALONE: &str = "metadataAlone";

mod about;
pub mod certificate;
mod disk_claims;
mod index;
mod kind;
mod kinds;
mod launcher_attempt;
mod launcher_pods;
pub mod names;
pub mod owner;
pub mod public_keys;
pub mod rights;
mod store;
mod watch_target;
mod work;
mod world;

pub use about::{About, ClusterObject, Home, Program, Selector, Use, WritableByPrefix};
pub use certificate::Certificate;
pub use disk_claims::{ConflictCause, DiskConflict};
pub use index::IndexKey;
pub use kind::{Key, Kind, followed_by, key, subresources};
pub use kinds::*;
pub use launcher_attempt::{LauncherAttempt, MIGRATION_JOB};
pub use launcher_pods::LauncherPods;
pub use store::{Store, StoredObject};
pub use watch_target::{WatchTarget, escaped};
pub use work::Work;
pub use world::{Attempt, ClusterFacts, Failure, Plain, Warning, World};

use serde_json::Value;

/// False for an object that was read as metadata only.
pub fn is_whole(object: &Value) -> bool {
    object.get(METADATA_ALONE).is_none()
}
