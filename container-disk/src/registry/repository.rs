//! One repository, wherever it is to be had.

use super::config::{Asks, Manner, Terms};
use super::counters::Counters;
use super::doubt::Doubts;
use super::server_connection::ServerConnection;
use crate::{Digest, Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A repository and everyone who has it.
pub(super) struct Repository {
    /// `docker://HOST/REPO`, as the user calls it.
    pub(super) name: String,
    /// `HOST`, as the user calls it.
    pub(super) host: String,
    /// In the order in which they are asked.
    pub(super) mirrors: Vec<Mirror>,
    pub(super) terms: Terms,
    pub(super) counters: Arc<Counters>,
    pub(super) doubts: Doubts,
    /// What tags meant when they were first asked for.
    pub(super) tags: Mutex<HashMap<String, Digest>>,
    /// Repositories of the same host that blobs may be mounted from.
    pub(super) siblings: Mutex<Vec<String>>,
    /// How blobs are sent, once that is known.
    pub(super) manner: Mutex<Manner>,
}

/// The repository at one server.
pub(super) struct Mirror {
    pub(super) server: Arc<ServerConnection>,
    pub(super) repository: String,
    pub(super) asks: Asks,
    pub(super) origin: bool,
}

impl Mirror {
    /// A path under the repository: `blobs/sha256:…`.
    pub(super) fn path(&self, rest: &str) -> String {
        format!("/v2/{}/{rest}", self.repository)
    }
}

impl Repository {
    /// The host itself, whom pushes go to.
    pub(super) fn origin(&self) -> Result<(usize, &Mirror)> {
        let found = self.mirrors.iter().enumerate().find(|(_, mirror)| mirror.origin);
        found.ok_or_else(|| {
            let what = "cannot be written: fallback is false, so only mirrors are asked; see registries.toml";
            Error::usage(format!("{} {what}", self.name))
        })
    }

    pub(super) fn manner(&self) -> Manner {
        *self.manner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_manner(&self, manner: Manner) {
        *self.manner.lock().unwrap_or_else(PoisonError::into_inner) = manner;
    }
}
