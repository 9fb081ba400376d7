//! How a source is to be opened: one set of options for all kinds of names, each source takes what concerns it.

use container_disk::open::Places;
pub use fetch::least_rate::{self, Decoded, LeastRate};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a user may say about a source beside its name. `Debug` shows no secret.
#[derive(Clone)]
pub struct Options {
    /// Extra request headers. They count as secrets: they are never shown, and never sent to another origin.
    pub headers: Vec<(String, String)>,
    /// User for basic authentication; stands before a user in the URL.
    pub user: Option<String>,
    /// Password for basic authentication.
    pub password: Option<String>,
    /// Bearer token; stands before basic authentication.
    pub bearer: Option<String>,
    /// Who asks an object store; stands before all of the above.
    pub store: Option<Store>,
    /// Files with certificates (PEM) to trust beside the system's.
    pub ca_files: Vec<PathBuf>,
    /// How this end and the server know each other, where that is by certificates; stands before `ca_files`.
    pub mutual: Option<Mutual>,
    /// Accept any TLS certificate, and redirects from TLS to plain HTTP.
    pub insecure_tls: bool,
    /// No byte for this long while we want one is an error.
    pub idle_timeout: Duration,
    /// Bytes per second that a web server must give. Unset: any rate will do.
    pub least_rate: Option<LeastRate>,
    /// Bytes that decompression makes of what the server sends; they count for its rate, too.
    pub decoded: Decoded,
    /// How long one attempt to connect may take, name lookup and TLS included.
    pub connect_timeout: Duration,
    /// How many times in a row a request is repeated without one new byte before we give up.
    pub retries: u32,
    /// The pause before the first repetition; it doubles with each further one.
    pub first_pause: Duration,
    /// The most requests in flight at once.
    pub max_connections: usize,
    /// Where images are.
    pub places: Arc<Places>,
    /// Which image of several, and which file in it.
    pub image: super::image::Options,
}

/// Files (PEM) by which two programs of ours know each other. Nobody else is believed, and no proxy is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mutual {
    /// Certificate of this end.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The only authorities of the server.
    pub authority: PathBuf,
}

/// Who asks an object store for an object.
#[derive(Clone)]
pub enum Store {
    /// The user of an access key: requests are signed (S3).
    S3 {
        /// Id of the key.
        id: String,
        /// The key itself, which is never sent.
        key: String,
    },
    /// A service account (Google Cloud Storage).
    Account {
        /// Its key file, JSON.
        key_file: Vec<u8>,
    },
}

impl Default for Options {
    fn default() -> Self {
        Options {
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

/// Reads a header that is written `NAME: VALUE`; nothing where there is no colon.
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
