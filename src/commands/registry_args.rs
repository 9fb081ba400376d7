//! Arguments about registries, shared by all verbs on images.

use container_disk::open::Places;
use std::path::PathBuf;
use std::sync::Arc;

/// Flags about the settings of registries.
#[derive(Debug, clap::Args)]
pub(crate) struct RegistryArgs {
    /// Mirrors, certificates and logins of registries (docs/registries.md)
    /// [default: registries.toml of the user, then of /etc/coracle]
    #[arg(long, value_name = "FILE", help_heading = "Registries")]
    registries: Option<PathBuf>,
}

impl RegistryArgs {
    /// The places that image names can refer to.
    pub(crate) fn open(&self) -> Arc<Places> {
        Arc::new(Places::new(self.registries.clone()))
    }

    /// Name of the flag, if given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.registries.as_ref().map(|_| "--registries")
    }

    /// Path of the settings file, if given.
    pub(crate) fn settings(&self) -> Option<PathBuf> {
        self.registries.clone()
    }
}
