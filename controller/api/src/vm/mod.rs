//! A machine that outlives its runs: `VirtualMachine` of `kubevirt.io/v1`.
//!
//! ```text
//! VirtualMachine ── spec.template ──► VirtualMachineInstance (one for each run)
//!       └────────── spec.dataVolumeTemplates ──► DataVolume
//! ```

mod reason;
mod spec;
mod status;

pub use reason::*;
pub use spec::*;
pub use status::*;

use crate::meta::ObjectMeta;
use crate::object;

/// The group and version of VirtualMachine and VirtualMachineInstance.
pub const API_VERSION: &str = "kubevirt.io/v1";

object! {
    /// A machine that outlives its runs.
    pub struct VirtualMachine {
        /// `kubevirt.io/v1`.
        pub api_version: Option<String> = "apiVersion",
        /// `VirtualMachine`.
        pub kind: Option<String> = "kind",
        /// Its name and the like.
        pub metadata: ObjectMeta = "metadata",
        /// What is wanted.
        pub spec: Spec = "spec",
        /// How it is.
        pub status: Option<Status> = "status",
    }
}
