//! Settings of the cluster: the fields of the KubeVirt object and of the CDI objects, with their defaults.

pub mod node;
pub mod overhead;
pub mod program;
pub mod tls;

pub use crate::disk_settings::{DiskSettings, Workers};
pub use crate::kubevirt_config::{Config, NO_BACKUP_HOOKS};

#[cfg(test)]
mod served;
