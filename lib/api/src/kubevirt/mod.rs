//! `KubeVirt` of `kubevirt.io/v1`: the installation and its configuration.
//!
//! ```text
//! spec ── what is installed, and how it is removed
//!   └ configuration ── settings of VMIs; read live by every component
//! status ── progress of the installation: phase, conditions, versions
//! ```

mod annotation_policy;
mod client;
pub mod config_map;
mod configuration;
mod developer;
mod devices;
pub mod flags;
mod gates;
mod hardware;
mod migration;
mod network;
mod place;
pub mod served;
mod spec;
mod status;

pub use annotation_policy::*;
pub use client::*;
pub use configuration::*;
pub use developer::*;
pub use devices::*;
pub use hardware::*;
pub use migration::*;
pub use network::*;
pub use place::*;
pub use spec::*;
pub use status::*;

use crate::meta::ObjectMeta;
use crate::object;

object! {
    /// KubeVirt: the installation of the control plane and its configuration.
    pub struct KubeVirt {
        /// API version of this object: `kubevirt.io/v1`.
        pub api_version: Option<String> = "apiVersion",
        /// Kind of this object: `KubeVirt`.
        pub kind: Option<String> = "kind",
        /// Standard Kubernetes metadata of the KubeVirt object: name, namespace, labels, annotations.
        pub metadata: ObjectMeta = "metadata",
        /// Desired state of the installation: images, placement and configuration.
        pub spec: Spec = "spec",
        /// Observed state of the installation, written by the control plane.
        pub status: Option<Status> = "status",
    }
}
