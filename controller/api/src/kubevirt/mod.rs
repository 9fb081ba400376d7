//! The installation and its settings: `KubeVirt` of `kubevirt.io/v1`.
//!
//! ```text
//! spec ── what is installed, and how it is taken away
//!   └ configuration ── how machines are made; read live by every component
//! status ── how far the installation is: phase, conditions, versions
//! ```

mod client;
mod configuration;
mod developer;
mod devices;
mod hardware;
mod migration;
mod network;
mod place;
mod spec;
mod status;

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
    /// The installation and its settings.
    pub struct KubeVirt {
        /// `kubevirt.io/v1`.
        pub api_version: Option<String> = "apiVersion",
        /// `KubeVirt`.
        pub kind: Option<String> = "kind",
        /// Its name and the like.
        pub metadata: ObjectMeta = "metadata",
        /// What is wanted.
        pub spec: Spec = "spec",
        /// How far the installation is.
        pub status: Option<Status> = "status",
    }
}
