//! Registries: `docker://HOST/REPO`.
//!
//! ```text
//!   Registries: settings, servers, counters                                     config/, counters.rs
//!      │ open("h/r:t")
//!      ▼
//!   Registry (a Place and a Sink) ── documents ─────────────────┐             document.rs
//!      ├── blob() ─► pieces in order, ranges, small ones whole ─┤             blob/, rate.rs, suspect_mirrors.rs
//!      ├── begin() ─► stream, chunks or whole; mounts ──────────┤             push/
//!      ├── update() ─► replaces the document of a tag ──────────┤             update.rs
//!                                                               ▼
//!                      MirrorSession: asks one mirror, then as Walk decides   mirror_session.rs, mirror.rs (pure)
//!                                                               ▼
//!                      ServerConnection: one request to one server            server_connection.rs
//!                             ├── credentials                                 credentials/
//!                             └── a Client: redirects, tokens, faults, TLS    package fetch
//!   copy(Place, Sink): whole images, from anywhere to anywhere                copy.rs
//! ```
//!
//! **Guarantees.** A tag is resolved once; each later mirror is asked by digest. An interrupted transfer is
//! resumed at the byte, from another mirror if necessary. Each such change is one warning in the log and one
//! in [`Counters`]. Credentials are sent to the server they belong to and to its token server, never to
//! another origin, and appear in no output. No document gets its name at a registry before its digest was
//! verified here.
//!
//! **Absent.** No state on disk: partial downloads are kept by the store. No deletion, and no listing of a
//! registry's content. No check whether a host name leads into the cluster's own network.
//!
//! All calls block and are meant for plain threads. They panic inside an async task.

mod blob;
pub mod config;
pub mod copy;
mod counters;
mod credentials;
mod document;
mod mirror;
mod mirror_session;
mod push;
mod rate;
mod repository;
mod server_connection;
mod suspect_mirrors;
mod update;

pub use config::Config;
pub use counters::{Counters, TransferCounts};
pub use push::UPLOAD_MEMORY;

use crate::manifest::{Descriptor, Document};
use crate::place::{Blob, BlobWriter, Place, Reference, Sink};
use crate::reference::Remote;
use crate::{Digest, Result};
use config::{Access, UploadMethod};
use fetch::runtime;
use repository::{Mirror, Repository};
use server_connection::ServerConnection;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

/// All registries, with the settings and the health of each server.
pub struct Registries {
    config: Config,
    counters: Arc<Counters>,
    servers: Mutex<HashMap<(String, Access), Arc<ServerConnection>>>,
}

/// A repository of a registry, with its mirrors.
pub struct Registry(Arc<Repository>);

impl Registries {
    /// Prepares registries without sending a request.
    pub fn new(config: Config) -> Registries {
        Registries { config, counters: Arc::default(), servers: Mutex::default() }
    }

    /// Counters of all transfers.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Opens the repository of a name without sending a request.
    pub fn open(&self, remote: &Remote) -> Result<Registry> {
        let route = self.config.route(&remote.host, &remote.repository)?;
        let mirrors = route.endpoints.into_iter().map(|endpoint| Mirror {
            server: self.server(&endpoint.address, &endpoint.access),
            repository: endpoint.repository,
            asks: endpoint.asks,
            origin: endpoint.origin,
        });
        Ok(Registry(Arc::new(Repository {
            name: format!("docker://{}/{}", remote.host, remote.repository),
            host: remote.host.clone(),
            mirrors: mirrors.collect(),
            upload_method: Mutex::new(route.terms.upload),
            terms: route.terms,
            counters: Arc::clone(&self.counters),
            suspects: suspect_mirrors::SuspectMirrors::default(),
            tags: Mutex::default(),
            siblings: Mutex::default(),
        })))
    }

    /// Loads the credentials for all servers of the repository. Returns the certificate files that are read
    /// when a connection is made.
    pub fn ready(&self, remote: &Remote) -> Result<Vec<PathBuf>> {
        let mut files = vec![];
        for endpoint in self.config.route(&remote.host, &remote.repository)?.endpoints {
            self.server(&endpoint.address, &endpoint.access).ready(&endpoint.repository);
            let (cert, key) = endpoint.access.client.unzip();
            files.extend(endpoint.access.ca.into_iter().chain(cert).chain(key));
        }
        Ok(files)
    }

    /// The connection to a server. It is shared by all repositories, so its health is too.
    fn server(&self, address: &str, access: &Access) -> Arc<ServerConnection> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (address.to_owned(), access.clone());
        Arc::clone(servers.entry(key).or_insert_with(|| Arc::new(ServerConnection::new(address, access))))
    }
}

impl Registry {
    /// True if the registry accepts a blob only if its digest is known before the first byte.
    pub fn wants_digest_first(&self) -> bool {
        self.0.upload_method() == UploadMethod::Whole
    }

    /// Replaces the document of a tag by the one that `make` makes of it, until `make` returns `None`: the tag
    /// may stay as it is. `make` gets `None` if the tag does not exist. Returns the digest of the tag's
    /// document.
    ///
    /// The tag is read from the registry itself, never from a mirror. A registry has no lock and no
    /// compare-and-swap, and another client may replace the new document by one made from the previous one. So
    /// `make` is called again after a while.
    pub fn update(
        &self,
        tag: &str,
        make: impl FnMut(Option<&Document>) -> Result<Option<Document>>,
    ) -> Result<Digest> {
        update::update(&self.0, tag, make)
    }

    /// Allows mounting blobs from another repository of the same host.
    pub fn mount_from(&self, other: &Remote) {
        let mut siblings = self.0.siblings.lock().unwrap_or_else(PoisonError::into_inner);
        let known = siblings.contains(&other.repository) || self.0.name.ends_with(&format!("/{other}"));
        if other.host == self.0.host && !known {
            siblings.push(other.repository.clone());
        }
    }
}

impl Place for Registry {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn document(&self, reference: &Reference) -> Result<Document> {
        runtime()?.block_on(document::get(&self.0, reference))
    }

    fn blob(&self, descriptor: &Descriptor) -> Result<Arc<dyn Blob>> {
        Ok(Arc::new(blob::RemoteBlob::new(&self.0, descriptor)?))
    }
}

impl Sink for Registry {
    fn has(&self, descriptor: &Descriptor) -> Result<bool> {
        runtime()?.block_on(push::has(&self.0, descriptor))
    }

    fn begin(&self, promised: Option<&Descriptor>) -> Result<Box<dyn BlobWriter + '_>> {
        Ok(Box::new(push::Upload::begin(&self.0, promised)?))
    }

    fn put(&self, document: &Document, tag: Option<&str>) -> Result<()> {
        runtime()?.block_on(push::put(&self.0, document, tag))
    }
}
