//! A repository with its mirrors.

use super::config::{MirrorUse, Terms, UploadMethod};
use super::counters::Counters;
use super::server_connection::ServerConnection;
use super::suspect_mirrors::SuspectMirrors;
use crate::{Digest, Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// A repository, its mirrors, and the state of its transfers.
pub(super) struct Repository {
    /// The name `docker://HOST/REPO` from the user.
    pub(super) name: String,
    /// The host from the user's name.
    pub(super) host: String,
    /// The mirrors in the order in which they are asked.
    pub(super) mirrors: Vec<Mirror>,
    pub(super) terms: Terms,
    pub(super) counters: Arc<Counters>,
    pub(super) suspects: SuspectMirrors,
    /// Digests of the tags that were resolved.
    pub(super) tags: Mutex<HashMap<String, Digest>>,
    /// Repositories of the same host from which blobs may be mounted.
    pub(super) siblings: Mutex<Vec<String>>,
    /// The upload method for blobs. Changed if the registry rejects it.
    pub(super) upload_method: Mutex<UploadMethod>,
}

/// The repository at one server.
pub(super) struct Mirror {
    pub(super) server: Arc<ServerConnection>,
    pub(super) repository: String,
    pub(super) asks: MirrorUse,
    pub(super) origin: bool,
}

impl Mirror {
    /// The URL path of a resource in the repository, such as `blobs/sha256:…`.
    pub(super) fn path(&self, rest: &str) -> String {
        format!("/v2/{}/{rest}", self.repository)
    }
}

impl Repository {
    /// The host itself, to which pushes go, with its index in `mirrors`.
    pub(super) fn origin(&self) -> Result<(usize, &Mirror)> {
        let found = self.mirrors.iter().enumerate().find(|(_, mirror)| mirror.origin);
        found.ok_or_else(|| {
            let what = "cannot be written: fallback is false, so only mirrors are used; see registries.toml";
            Error::usage(format!("{} {what}", self.name))
        })
    }

    pub(super) fn upload_method(&self) -> UploadMethod {
        *self.upload_method.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_upload_method(&self, upload_method: UploadMethod) {
        *self.upload_method.lock().unwrap_or_else(PoisonError::into_inner) = upload_method;
    }
}
