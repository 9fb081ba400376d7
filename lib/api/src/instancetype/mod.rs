//! The kinds of `instancetype.kubevirt.io/v1beta1`: sizes of VMs and preferences of operating systems,
//! written once and named by many VMs.
//!
//! ```text
//!  VirtualMachine ── spec.instancetype ──► VirtualMachineInstancetype, …ClusterInstancetype   vCPUs, memory, devices
//!        │        └─ spec.preference ────► VirtualMachinePreference, …ClusterPreference       buses, firmware, features
//!        │ infer: names that a volume's labels give          (pure; who calls it looks the labels up)
//!        │ at_write: what is fixed when a VM is written: architecture, machine type, StorageClass
//!        ▼
//!  expand ─► the template with the values of both, or every field that the VM sets and the instance type sets too
//!        └─► requirements: what the preference wants at least
//! ```
//!
//! The size of both is bounded (`bounds`): each reconcile of a VM expands it with the whole object.
//!
//! An instance type sets resources of a VM, so a field that both set is a conflict. A preference sets fields
//! that the VM leaves unset, and never overrides it. `common` has our own objects. **Absent:** the lookup of
//! the objects, and the ControllerRevisions by which virt-controller keeps them as they were at the first use
//! by the VM.

mod at_write;
mod bounds;
mod check;
pub mod common;
mod expand;
mod infer;
mod matcher;
mod preference;
mod preferred_devices;
mod requirements;
mod size;

pub use at_write::at_write;
pub use check::{of_instancetype, of_preference, warnings_of_instancetype, warnings_of_preference};
pub use expand::{Conflict, expand};
pub use infer::{InferError, Labels, infer};
pub use matcher::{DEFAULTS, Matcher, MatcherKind, Role, Scope};
pub use preference::*;
pub use preferred_devices::*;
pub use requirements::{Requirement, requirements};
pub use size::*;

/// The group of these kinds.
pub const GROUP: &str = "instancetype.kubevirt.io";
/// The version of these kinds that is stored.
pub const VERSION: &str = "v1beta1";
/// Group and version, as in `apiVersion`.
pub const API_VERSION: &str = "instancetype.kubevirt.io/v1beta1";
/// Versions that are served for old manifests; their fields are a part of those of the stored version.
pub const OLD_VERSIONS: [&str; 2] = ["v1alpha2", "v1alpha1"];
