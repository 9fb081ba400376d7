//! `VirtualMachineInstance` of `kubevirt.io/v1`: one run of a virtual machine.
//!
//! The objects are forgiving: they keep unknown fields, and any word in place of a known one.
//! [`crate::machine`] checks them.

mod access;
mod clock;
mod cpu;
mod device_status;
mod devices;
mod disk;
mod domain;
mod features;
mod firmware;
mod interface;
mod memory;
mod migration;
mod network;
mod phase;
mod probe;
mod spec;
mod status;
mod volume;
mod volume_status;

pub use access::*;
pub use clock::*;
pub use cpu::*;
pub use device_status::*;
pub use devices::*;
pub use disk::*;
pub use domain::*;
pub use features::*;
pub use firmware::*;
pub use interface::*;
pub use memory::*;
pub use migration::*;
pub use network::*;
pub use probe::*;
pub use spec::*;
pub use status::*;
pub use volume::*;
pub use volume_status::*;

use crate::meta::ObjectMeta;
use crate::object;

object! {
    /// VirtualMachineInstance (VMI): one run of a virtual machine, from its creation until it
    /// stops.
    pub struct VirtualMachineInstance {
        /// API version of this object: `kubevirt.io/v1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `VirtualMachineInstance`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the VMI: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Desired state of the VMI: virtual hardware, volumes, networks and placement.
        pub spec: Spec = "spec",
        /// Observed state of the VMI, written by the control plane.
        pub status: Option<Status> = "status",
    }
}
