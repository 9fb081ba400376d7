//! The one rule for where a redirect may lead; disks on web servers and registries keep it.
//!
//! | from → to | |
//! |---|---|
//! | a scheme other than `http` and `https` | never |
//! | TLS → plain HTTP | never, unless the user gave up on certificates: whoever is on the way could answer |
//! | outside → an address inside, for a request with credentials | never: a server outside does not choose whom ours ask inside |
//!
//! Who asks (credentials, the user's own headers) is told to the first origin alone; that is kept where requests are sent.

use reqwest::Url;
use std::net::IpAddr;

/// What the request that was redirected carried, and what the user allows.
#[derive(Debug, Clone, Copy, Default)]
pub struct Terms {
    /// It said who asks.
    pub authorized: bool,
    /// It may go on in plain.
    pub may_leave_tls: bool,
}

/// Where `target`, the `Location` of an answer from `from`, leads; or what it leads to that is not followed.
pub fn redirect(from: &Url, target: &str, terms: Terms) -> Result<Url, String> {
    let next = from.join(target).map_err(|_| "something that is no URL".to_owned())?;
    let scheme = next.scheme();
    if !matches!(scheme, "http" | "https") {
        return Err(format!("the scheme {scheme:?}"));
    }
    let shown = || super::anonymous(next.clone()).map_or_else(|scheme| scheme, |(_, shown)| shown);
    if from.scheme() == "https" && scheme == "http" && !terms.may_leave_tls {
        return Err(format!("{}, from TLS to plain HTTP", shown()));
    }
    if terms.authorized
        && from.host_str() != next.host_str()
        && is_inside(host(&next))
        && !is_inside(host(from))
    {
        return Err(format!("{}, a private address, for a request with credentials", shown()));
    }
    Ok(next)
}

fn host(url: &Url) -> &str {
    super::config::host_of(url.host_str().unwrap_or_default())
}

/// Whether a host is an address that only machines nearby reach. Names are not looked up.
fn is_inside(host: &str) -> bool {
    match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(ip)) => inside_v4(ip),
        Ok(IpAddr::V6(ip)) => {
            let first = ip.segments()[0];
            let (unique_local, link_local) = (first & 0xfe00 == 0xfc00, first & 0xffc0 == 0xfe80);
            ip.is_loopback()
                || ip.is_unspecified()
                || unique_local
                || link_local
                || ip.to_ipv4_mapped().is_some_and(inside_v4)
        }
        Err(_) => host == "localhost" || host.ends_with(".localhost"),
    }
}

fn inside_v4(ip: std::net::Ipv4Addr) -> bool {
    let shared = ip.octets()[0] == 100 && ip.octets()[1] & 0xc0 == 64;
    ip.is_private() || ip.is_loopback() || ip.is_link_local() || ip.is_unspecified() || shared
}
