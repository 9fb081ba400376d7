//! Options for opening a source: one set for all kinds of names; each source uses those that concern it.

use container_disk::open::Places;
pub use fetch::least_rate::{self, Decoded, LeastRate};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Options beside the name. `Debug` shows no secret.
#[derive(Clone)]
pub struct Options {
    /// True if an author has chosen the name of the file, as in an image: it promises no format.
    pub is_named_by_author: bool,
    /// Extra request headers. They count as secrets: they are never shown, and never sent to another origin.
    pub headers: Vec<(String, String)>,
    /// User for basic authentication; overrides a user in the URL.
    pub user: Option<String>,
    /// Password for basic authentication.
    pub password: Option<String>,
    /// Bearer token; overrides basic authentication.
    pub bearer: Option<String>,
    /// Credentials of an object store; override all of the above.
    pub store: Option<Store>,
    /// Files with certificates (PEM) that are trusted besides the system's.
    pub ca_files: Vec<PathBuf>,
    /// Certificates for mutual TLS; override `ca_files`.
    pub mutual: Option<Mutual>,
    /// Accept any TLS certificate, and redirects from TLS to plain HTTP.
    pub insecure_tls: bool,
    /// Longest time without a byte from a server that bytes are expected from.
    pub idle_timeout: Duration,
    /// Bytes per second that a web server must give. Unset: no least rate.
    pub least_rate: Option<LeastRate>,
    /// Bytes that decompression makes of the received ones; they count for the rate, too.
    pub decoded: Decoded,
    /// Longest time of one attempt to connect, with name lookup and TLS handshake.
    pub connect_timeout: Duration,
    /// The most repetitions of a request in a row without progress.
    pub retries: u32,
    /// The pause before the first repetition; it doubles with each further one.
    pub first_pause: Duration,
    /// The most requests in flight at once.
    pub max_connections: usize,
    /// The places of images: the store, registries, archives.
    pub places: Arc<Places>,
    /// Choice of the image and of the file in it.
    pub image: super::image::Options,
}

/// Files (PEM) by which two programs of this project authenticate each other. No other authority is trusted,
/// and no proxy is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutual {
    /// Certificate of this end.
    pub certificate: PathBuf,
    /// Key of this end.
    pub key: PathBuf,
    /// The only authorities of the server.
    pub authority: PathBuf,
}

/// Credentials of an object store.
#[derive(Clone)]
pub enum Store {
    /// An access key: requests are signed (S3).
    S3 {
        /// ID of the key.
        id: String,
        /// The secret key, which is never sent.
        key: String,
    },
    /// A service account (Google Cloud Storage).
    Account {
        /// Key file of the account, in JSON.
        key_file: Vec<u8>,
    },
}

impl Default for Options {
    fn default() -> Self {
        Options {
            is_named_by_author: false,
            headers: vec![],
            user: None,
            password: None,
            bearer: None,
            store: None,
            ca_files: vec![],
            mutual: None,
            insecure_tls: false,
            idle_timeout: Duration::from_secs(60),
            least_rate: None,
            decoded: Decoded::default(),
            connect_timeout: Duration::from_secs(30),
            retries: 5,
            first_pause: Duration::from_millis(250),
            max_connections: 8,
            places: Arc::new(Places::new(None)),
            image: super::image::Options::default(),
        }
    }
}

/// Parses a header of the form `NAME: VALUE`; `None` without a colon.
pub fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    Some((name.trim().to_owned(), value.trim().to_owned()))
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hidden = |set: bool| if set { "set" } else { "none" };
        let headers: Vec<_> = self.headers.iter().map(|(name, _)| name).collect();
        f.debug_struct("Options")
            .field("headers", &headers)
            .field("user", &hidden(self.user.is_some()))
            .field("password", &hidden(self.password.is_some()))
            .field("bearer", &hidden(self.bearer.is_some()))
            .field("store", &hidden(self.store.is_some()))
            .field("ca_files", &self.ca_files)
            .field("mutual", &self.mutual)
            .field("insecure_tls", &self.insecure_tls)
            .field("idle_timeout", &self.idle_timeout)
            .field("least_rate", &self.least_rate)
            .field("connect_timeout", &self.connect_timeout)
            .field("retries", &self.retries)
            .field("first_pause", &self.first_pause)
            .field("max_connections", &self.max_connections)
            .field("image", &self.image)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let options = Options {
            headers: vec![("X-Token".into(), "s3cret-a".into())],
            user: Some("s3cret-b".into()),
            password: Some("s3cret-c".into()),
            bearer: Some("s3cret-d".into()),
            store: Some(Store::S3 { id: "s3cret-e".into(), key: "s3cret-f".into() }),
            ..Options::default()
        };
        let shown = format!("{options:?}");
        assert!(shown.contains("X-Token") && !shown.contains("s3cret"), "{shown}");
    }
}
