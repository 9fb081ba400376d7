//! The HTTP clients of one server, and the one thread behind them all.
//!
//! A caller is a plain thread. Sockets are watched by one worker of a runtime that the whole process shares; it also
//! fetches what is asked for ahead. Whoever calls in from an async task is told so by a panic of the runtime.

use super::config::Access;
use crate::{Error, Result};
use reqwest::{Certificate, Client, Identity, redirect};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

const CONNECT: Duration = Duration::from_secs(10);

/// The process's runtime for registries.
pub(super) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = Builder::new_multi_thread().worker_threads(1).thread_name("registry").enable_all().build();
    let made =
        made.map_err(|e| Error::failed("cannot start the thread that watches connections").because(e))?;
    Ok(RUNTIME.get_or_init(|| made))
}

/// The clients of one server. Each is made when it is needed: reading the trust store takes milliseconds, and a machine
/// without one can still speak plain HTTP.
pub(super) struct Clients {
    access: Access,
    plain: OnceLock<Client>,
    own: OnceLock<Client>,
    elsewhere: OnceLock<Client>,
}

impl Clients {
    pub(super) fn new(access: &Access) -> Clients {
        let (plain, own, elsewhere) = <(OnceLock<Client>, OnceLock<Client>, OnceLock<Client>)>::default();
        Clients { access: access.clone(), plain, own, elsewhere }
    }

    /// The client for the server itself (`own`) or for where it sends us. Only the server itself is shown our
    /// certificate, and only its certificate may go unchecked.
    pub(super) fn get(&self, tls: bool, own: bool) -> Result<&Client> {
        let slot = match (tls || proxy_speaks_tls(), own) {
            (false, _) => &self.plain,
            (true, true) => &self.own,
            (true, false) => &self.elsewhere,
        };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let client = self.build(tls || proxy_speaks_tls(), own)?;
        Ok(slot.get_or_init(|| client))
    }

    fn build(&self, tls: bool, own: bool) -> Result<Client> {
        // Another part of the process may have chosen a provider already; either will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = Client::builder()
            .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
            // Each range in flight gets a connection of its own: that is what helps where one is slow.
            .http1_only()
            // Redirects are followed in `line.rs`, where credentials can be kept from other origins.
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(CONNECT)
            .pool_idle_timeout(Duration::from_secs(60))
            .referer(false);
        builder = match tls {
            true if own && self.access.insecure => builder.tls_danger_accept_invalid_certs(true),
            true => builder.tls_certs_merge(self.roots()?),
            false => builder.tls_certs_only([]),
        };
        if let (true, true, Some((cert, key))) = (tls, own, &self.access.client) {
            builder = builder.identity(identity(cert, key)?);
        }
        builder.build().map_err(|e| {
            let hint =
                "install the system's CA certificates, or name the registry's in registries.toml (ca = …)";
            Error::failed(format!("cannot set up TLS; {hint}")).because(e)
        })
    }

    fn roots(&self) -> Result<Vec<Certificate>> {
        let mut roots = vec![];
        for path in &self.access.ca {
            let found = Certificate::from_pem_bundle(&read(path)?);
            let found = found.unwrap_or_default();
            if found.is_empty() {
                return Err(Error::usage(format!("{} is not a PEM file of certificates", path.display())));
            }
            roots.extend(found);
        }
        Ok(roots)
    }
}

fn identity(cert: &Path, key: &Path) -> Result<Identity> {
    let pem = [read(cert)?, b"\n".to_vec(), read(key)?].concat();
    // The parser's own message stays out: it is about a file that holds a key.
    Identity::from_pem(&pem).map_err(|_| {
        let (cert, key) = (cert.display(), key.display());
        Error::usage(format!("{cert} and {key} are not a certificate and its key in PEM"))
    })
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let cannot = |e| Error::io(format!("cannot read {}, which is set for a registry", path.display()), e);
    std::fs::read(path).map_err(cannot)
}

/// A proxy that is itself reached by TLS needs the trust store for plain URLs too.
fn proxy_speaks_tls() -> bool {
    ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
        .iter()
        .any(|name| std::env::var(name).is_ok_and(|proxy| proxy.starts_with("https:")))
}
