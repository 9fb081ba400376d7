//! Addresses that may be connected to, for a program that fetches URLs of another user and reaches more than
//! that user may.
//!
//! ```text
//!  a request, each redirect, each token server ─► Connector::get ── an address in the URL ──► check
//!                                                        └── a name ─► resolver: leaves near addresses out
//! ```
//!
//! A name is checked by the addresses that the connection is made to, not by those of an earlier look-up: a
//! name server that answers differently the second time gains nothing. **Caveat:** behind a proxy of the
//! environment the proxy looks names up, and this check does not apply.

use crate::host::is_near;
use crate::{Error, Location, Result, retry};
use reqwest::dns::{Name, Resolve, Resolving};
use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Addresses that may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addresses {
    Any,
    /// All but those of this host, of its link, and of cloud metadata services.
    Remote,
}

/// True if the error says that the address may not be connected to.
pub fn is_barred(error: &(dyn std::error::Error + 'static)) -> bool {
    retry::find::<Barred>(error).is_some()
}

/// The error for an address that may not be connected to.
#[derive(Debug)]
struct Barred;

impl fmt::Display for Barred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "it is an address of this computer, of its link or of a metadata service, which is not asked",
        )
    }
}

impl std::error::Error for Barred {}

/// Refuses a location whose URL names an address that may not be connected to. Names are checked by the
/// resolver.
pub(crate) fn check(addresses: Addresses, place: &Location) -> Result<()> {
    let host = place.host().trim_end_matches('.');
    let is_barred = match host.parse::<IpAddr>() {
        Ok(ip) => is_near(ip),
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    };
    match addresses == Addresses::Remote && is_barred {
        true => Err(Error::refused(format!("{} is not asked", place.shown())).because(Barred)),
        false => Ok(()),
    }
}

/// A resolver that leaves out the addresses that may not be connected to.
pub(crate) struct RemoteResolver;

impl Resolve for RemoteResolver {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let allowed: Vec<SocketAddr> =
                found.iter().copied().filter(|address| !is_near(address.ip())).collect();
            if allowed.is_empty() && !found.is_empty() {
                return Err(Barred.into());
            }
            Ok(Box::new(allowed.into_iter()) as Box<dyn Iterator<Item = SocketAddr> + Send>)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime;

    fn place(url: &str) -> Location {
        Location::parse(url).unwrap().0
    }

    #[test]
    fn a_place_near_is_refused_by_its_address_and_by_what_its_name_leads_to() {
        for url in [
            "http://127.0.0.1/",
            "http://[::1]:5000/",
            "http://localhost./",
            "http://0x7f.1/",
            "http://169.254.169.254/",
        ] {
            let error = check(Addresses::Remote, &place(url)).unwrap_err();
            assert!(is_barred(&error), "{url}");
            assert!(check(Addresses::Any, &place(url)).is_ok(), "{url}");
        }
        for url in ["http://10.0.0.1/", "https://registry.example/"] {
            assert!(check(Addresses::Remote, &place(url)).is_ok(), "{url}");
        }
        let name: Name = "localhost".parse().unwrap();
        let found = runtime().unwrap().block_on(RemoteResolver.resolve(name));
        assert!(is_barred(found.err().unwrap().as_ref()));
    }
}
