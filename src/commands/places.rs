//! Where images are: the arguments that every verb on images has.

use container_disk::open::Places;
use std::path::PathBuf;
use std::sync::Arc;

/// Which registries are asked, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct PlaceArgs {
    /// Mirrors, certificates and logins of registries (docs/registries.md)
    /// [default: registries.toml of the user, then of /etc/coracle]
    #[arg(long, value_name = "FILE", help_heading = "Registries")]
    registries: Option<PathBuf>,
}

impl PlaceArgs {
    /// All places that can be named.
    pub(crate) fn open(&self) -> Arc<Places> {
        Arc::new(Places::new(self.registries.clone()))
    }

    /// What was given of these.
    pub(crate) fn given(&self) -> Option<&'static str> {
        self.registries.as_ref().map(|_| "--registries")
    }

    /// The file that says which.
    pub(crate) fn settings(&self) -> Option<PathBuf> {
        self.registries.clone()
    }
}
