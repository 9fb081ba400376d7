//! The HTTP client and the one thread behind it.
//!
//! Callers are plain threads. Sockets are watched by one worker of a runtime that the whole process shares; a caller
//! that waits for bytes of its own runs its future itself.

use crate::source::options::Options;
use crate::{Error, Kind, Result};
use reqwest::{Certificate, Client, redirect};
use std::sync::OnceLock;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// The process's runtime for network sources.
pub(super) fn runtime() -> Result<&'static Runtime> {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    if let Some(runtime) = RUNTIME.get() {
        return Ok(runtime);
    }
    let made = Builder::new_multi_thread().worker_threads(1).thread_name("http").enable_all().build();
    let made =
        made.map_err(|e| Error::failed("cannot start the thread that watches connections").because(e))?;
    Ok(RUNTIME.get_or_init(|| made))
}

/// The clients of one source. The trust store is only read when TLS is spoken: it takes milliseconds, and a machine
/// without one can still speak plain HTTP.
pub(super) struct Clients {
    options: Options,
    plain: OnceLock<Client>,
    tls: OnceLock<Client>,
}

impl Clients {
    pub(super) fn new(options: &Options) -> Clients {
        Clients { options: options.clone(), plain: OnceLock::new(), tls: OnceLock::new() }
    }

    /// The client for one scheme.
    pub(super) fn get(&self, tls: bool) -> Result<&Client> {
        let tls = tls || proxy_speaks_tls();
        let slot = if tls { &self.tls } else { &self.plain };
        if let Some(client) = slot.get() {
            return Ok(client);
        }
        let client = self.build(tls)?;
        Ok(slot.get_or_init(|| client))
    }

    fn build(&self, tls: bool) -> Result<Client> {
        // Another part of the process may have chosen a provider already; either will do.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let builder = Client::builder()
            .user_agent(concat!("coracle/", env!("CARGO_PKG_VERSION")))
            // Each range in flight gets a connection of its own: that is what helps where one is slow.
            .http1_only()
            // Redirects are followed in `line.rs`, where extra headers can be kept from other origins.
            .redirect(redirect::Policy::none())
            .retry(reqwest::retry::never())
            .connect_timeout(self.options.connect_timeout)
            .pool_idle_timeout(Duration::from_secs(60))
            .pool_max_idle_per_host(self.options.max_connections.max(1))
            .referer(false);
        let builder = match (tls, self.options.insecure_tls) {
            (true, true) => builder.tls_danger_accept_invalid_certs(true),
            (true, false) => builder.tls_certs_merge(self.extra_roots()?),
            (false, _) => builder.tls_certs_only([]),
        };
        builder.build().map_err(|e| {
            let hint = "install the system's CA certificates, or name a file with the server's CA";
            Error::failed(format!("cannot set up TLS; {hint}")).because(e)
        })
    }

    fn extra_roots(&self) -> Result<Vec<Certificate>> {
        let mut roots = vec![];
        for path in &self.options.ca_files {
            let shown = path.display();
            let pem =
                std::fs::read(path).map_err(|e| Error::io(format!("cannot read the CA file {shown}"), e))?;
            let found = Certificate::from_pem_bundle(&pem);
            let found =
                found.map_err(|e| usage(format!("{shown} is not a PEM file of certificates")).because(e))?;
            if found.is_empty() {
                return Err(usage(format!("{shown} holds no certificate; a PEM file is expected")));
            }
            roots.extend(found);
        }
        Ok(roots)
    }
}

fn usage(what: String) -> Error {
    Error::new(Kind::Usage, what)
}

/// A proxy that is itself reached by TLS needs the trust store for plain URLs too.
fn proxy_speaks_tls() -> bool {
    ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"]
        .iter()
        .any(|name| std::env::var(name).is_ok_and(|proxy| proxy.starts_with("https:")))
}
