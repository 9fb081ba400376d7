//! `VirtualMachine` of `kubevirt.io/v1`: a virtual machine that persists while stopped.
//!
//! ```text
//! VirtualMachine ── spec.template ──► VirtualMachineInstance (one for each run)
//!       └────────── spec.dataVolumeTemplates ──► DataVolume
//! ```

mod spec;
mod status;

pub use spec::*;
pub use status::*;

use crate::meta::ObjectMeta;
use crate::object;

/// The group and version of VirtualMachine and VirtualMachineInstance.
pub const API_VERSION: &str = "kubevirt.io/v1";

object! {
    /// VirtualMachine (VM): a virtual machine that persists while stopped. Each run is a
    /// VirtualMachineInstance of the same name.
    pub struct VirtualMachine {
        /// API version of this object: `kubevirt.io/v1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VirtualMachine`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the VM: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Desired state of the VM: run strategy, VMI template and DataVolume templates.
        pub spec: Spec = "spec",
        /// Observed state of the VM, written by the control plane.
        pub status: Option<Status> = "status",
    }
}

impl VirtualMachine {
    /// The run strategy, from whichever of the two fields is set.
    pub fn run_strategy(&self) -> RunStrategy {
        match (&self.spec.run_strategy, self.spec.running) {
            (Some(strategy), _) => strategy.clone(),
            (None, Some(true)) => RunStrategy::Always,
            (None, _) => RunStrategy::Halted,
        }
    }
}
