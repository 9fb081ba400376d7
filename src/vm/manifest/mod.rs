//! Manifests.

mod scalar;
pub(crate) mod yaml;
