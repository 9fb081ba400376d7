//! The kinds of `instancetype.kubevirt.io/v1beta1`: sizes of VMs and what operating systems prefer, written once and named
//! by many VMs.
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
//! What either may say is bounded (`bounds`): every VM that names one is expanded with all of it, again and again.
//!
//! An instance type says what a VM is given, so a field that both set is a conflict. A preference says what the VM leaves
//! open, and never overrides it. `common` is the set of ours. **Absent:** which object a VM means, and that it stays as it
//! was when the VM first used it: virt-controller keeps ControllerRevisions for that.

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
pub use matcher::{DEFAULTS, Matched, Matcher, Reach, Role};
pub use preference::*;
pub use preferred_devices::*;
pub use requirements::{Requirement, requirements};
pub use size::*;

/// The group of these kinds.
pub const GROUP: &str = "instancetype.kubevirt.io";
/// The version of these kinds that is stored.
pub const VERSION: &str = "v1beta1";
/// Group and version, as an object says them.
pub const API_VERSION: &str = "instancetype.kubevirt.io/v1beta1";
/// Versions that are served for old manifests: what they have is a part of what the stored one has.
pub const OLD_VERSIONS: [&str; 2] = ["v1alpha2", "v1alpha1"];
