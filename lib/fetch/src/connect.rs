//! Connections to one server and to the targets of its redirects: TLS, client certificate, proxies, timeouts,
//! addresses.

use crate::addresses::{self, Addresses};
use crate::{Error, ErrorKind, Location, Result};
use reqwest::{Certificate, Client, Identity, redirect};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Settings of connections to a server.
#[derive(Debug, Clone)]
pub struct Connect {
    /// Files with certificates (PEM) that are trusted besides the system's.
    pub ca: Vec<PathBuf>,
    /// Files of the client's certificate and of its key (PEM). Only the server itself gets the certificate.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// True for a server of this system in the same network: only `ca` is trusted, and no proxy is used.
    pub is_private: bool,
    /// Servers whose certificates are not checked.
    pub unchecked: Unchecked,
    /// Longest time of one attempt to connect, with name lookup and TLS handshake.
    pub timeout: Duration,
    /// Addresses that may be connected to.
    pub addresses: Addresses,
    /// Idle connections that are kept to one server.
    pub kept: usize,
    /// Advice for the case that TLS cannot be set up; it follows "cannot set up TLS; ".
    pub hint: &'static str,
}

/// Servers whose TLS certificates are not checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unchecked {
    /// All certificates are checked.
    None,
    /// The server itself; servers that it redirects to are checked.
    Origin,
    /// The server itself, and all servers that it redirects to.
    All,
}

/// The HTTP clients for one server. Each is made on first use: reading the trust store takes milliseconds,
/// and a host without one can still use plain HTTP.
pub struct Connector {
    connect: Connect,
    plain: OnceLock<Client>,
    own: OnceLock<Client>,
    targets: OnceLock<Client>,
}

impl Connector {
    /// A connector that has neither read a file nor connected to a server yet.
    pub fn new(connect: Connect) -> Connector {
        let (plain, own, targets) = <(OnceLock<Client>, OnceLock<Client>, OnceLock<Client>)>::default();
        Connector { connect, plain, own, targets }
    }

    /// The client for a location of the server itself (`own`) or of a server that it redirects to. Only the
    /// server itself gets our client certificate. An error for a location whose address may not be connected
    /// to.
    pub fn get(&self, place: &Location, own: bool) -> Result<&Client> {
        addresses::check(self.connect.addresses, place)?;
        let tls = place.is_tls() || (!self.connect.is_private && proxy_speaks_tls());
        let slot = match (tls, own || self.is_same_for_targets()) {
            (false, _) => &self.plain,
            (true, true) => &self.own,
            (true, false) => &self.targets,
        };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let client = self.build(tls, own)?;
        Ok(slot.get_or_init(|| client))
    }

    fn is_same_for_targets(&self) -> bool {
        self.connect.identity.is_none() && self.connect.unchecked != Unchecked::Origin
    }

    fn build(&self, tls: bool, own: bool) -> Result<Client> {
        // Another part of the process may have installed a provider already; either will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
            // Each range in flight gets its own connection, which helps where single connections are slow.
            .http1_only()
            // Redirects are followed by `Client`, which keeps credentials from other origins.
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(self.connect.timeout)
            .pool_idle_timeout(Duration::from_secs(60))
            .pool_max_idle_per_host(self.connect.kept.max(1))
            .referer(false);
        if self.connect.addresses == Addresses::Remote {
            builder = builder.dns_resolver(Arc::new(addresses::RemoteResolver));
        }
        let unchecked = match self.connect.unchecked {
            Unchecked::None => false,
            Unchecked::Origin => own,
            Unchecked::All => true,
        };
        builder = match (tls, unchecked) {
            (true, true) => builder.tls_danger_accept_invalid_certs(true),
            (true, false) if self.connect.is_private => builder.tls_certs_only(self.roots()?),
            (true, false) => builder.tls_certs_merge(self.roots()?),
            (false, _) => builder.tls_certs_only([]),
        };
        if self.connect.is_private {
            builder = builder.no_proxy();
        }
        if let (true, true, Some((certificate, key))) = (tls, own, &self.connect.identity) {
            builder = builder.identity(identity(certificate, key)?);
        }
        builder
            .build()
            .map_err(|e| Error::failed(format!("cannot set up TLS; {}", self.connect.hint)).because(e))
    }

    fn roots(&self) -> Result<Vec<Certificate>> {
        let mut roots = vec![];
        for path in &self.connect.ca {
            let shown = path.display();
            let pem = read(path, "CA file")?;
            let found = Certificate::from_pem_bundle(&pem);
            let found = found
                .map_err(|e| Error::usage(format!("{shown} is not a PEM file of certificates")).because(e))?;
            if found.is_empty() {
                let what = format!("{shown} holds no certificate; a PEM file is expected");
                return Err(Error::new(ErrorKind::Usage, what));
            }
            roots.extend(found);
        }
        Ok(roots)
    }
}

fn identity(certificate: &Path, key: &Path) -> Result<Identity> {
    let pem = [read(certificate, "client certificate")?, b"\n".to_vec(), read(key, "key of the client")?];
    // The parser's own message is left out, since it may quote a file with a key.
    Identity::from_pem(&pem.concat()).map_err(|_| {
        let (certificate, key) = (certificate.display(), key.display());
        Error::usage(format!("{certificate} and {key} are not a certificate and its key in PEM"))
    })
}

fn read(path: &Path, what: &str) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| Error::io(format!("cannot read the {what} {}", path.display()), e))
}

/// A proxy that is itself reached by TLS needs the trust store for plain URLs too.
fn proxy_speaks_tls() -> bool {
    ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
        .iter()
        .any(|name| std::env::var(name).is_ok_and(|proxy| proxy.starts_with("https:")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(unchecked: Unchecked, ca: &Path) -> Connector {
        let timeout = Duration::from_secs(1);
        let ca = vec![ca.to_owned()];
        Connector::new(Connect {
            ca,
            identity: None,
            is_private: false,
            unchecked,
            timeout,
            addresses: Addresses::Any,
            kept: 1,
            hint: "look",
        })
    }

    /// A CA file that cannot be read is only looked for by a client that checks certificates.
    #[test]
    fn a_server_that_goes_unchecked_does_not_take_others_with_it() {
        let missing = Path::new("/does/not/exist.pem");
        for (unchecked, own, targets) in
            [(Unchecked::None, false, false), (Unchecked::Origin, true, false), (Unchecked::All, true, true)]
        {
            let connector = with(unchecked, missing);
            let place = |url: &str| Location::parse(url).unwrap().0;
            let (tls, plain) = (place("https://h/"), place("http://h/"));
            assert_eq!(connector.get(&tls, true).is_ok(), own, "{unchecked:?}");
            assert_eq!(connector.get(&tls, false).is_ok(), targets, "{unchecked:?}");
            assert!(connector.get(&plain, true).is_ok(), "plain HTTP needs no certificate");
        }
    }

    #[test]
    fn a_file_without_a_certificate_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "no certificate\n").unwrap();
        let error = with(Unchecked::None, file.path())
            .get(&Location::parse("https://h/").unwrap().0, true)
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Usage);
        assert!(error.to_string().contains("holds no certificate"), "{error}");
        let error = with(Unchecked::None, Path::new("/none.pem"))
            .get(&Location::parse("https://h/").unwrap().0, true)
            .unwrap_err();
        assert_eq!(error.to_string(), "cannot read the CA file /none.pem");
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
