//! Servers of our programs: the one of [`transport::network`], with the certificates and the settings of the
//! cluster.
//!
//! ```text
//!  KubeVirt object ─► tls::Terms ──────────────┐
//!  Secret ─► tls::CurrentCertificate ──────────┼─► tls::Offer ─► transport::network ─► Answers
//!  ConfigMap ─► authorities::Authorities ──────┘
//! ```

mod authorities;
pub mod tls;

pub use authorities::Authorities;
pub use transport::network::*;
pub use transport::{Acceptor, LogLimiter, SILENCE, probe, response, upgrade_response, wants_upgrade};

use cluster_client::error::{Error, Result};
use cluster_client::metrics::Page;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use tokio::net::{TcpListener, TcpSocket};

/// Connections that the kernel queues until we accept them.
const BACKLOG: u32 = 4096;

/// Address that accepts connections to this port on all addresses of the host, IPv4 and IPv6 if it has both.
#[expect(clippy::disallowed_methods, reason = "asked of the kernel while the command line is read")]
pub fn everywhere(port: u16) -> SocketAddr {
    // A kernel may be built, or started, without IPv6.
    let both = Path::new("/proc/net/if_inet6").exists();
    let address: IpAddr = if both { Ipv6Addr::UNSPECIFIED.into() } else { Ipv4Addr::UNSPECIFIED.into() };
    SocketAddr::new(address, port)
}

/// Listens on an address.
pub async fn listen(address: SocketAddr) -> Result<TcpListener> {
    let open = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(BACKLOG)
    };
    open().map_err(|e| Error::setup(format!("cannot listen on {address}"), e))
}

/// Writes the metrics of a server's connections, under the program's names for open and ended ones.
pub fn connection_metrics(counts: &Counts, page: &mut Page, open: &'static str, ended: &'static str) {
    page.family(open).sample(&[], counts.open as f64);
    page.family(ended)
        .sample(&[("reason", "others")], counts.closed as f64)
        .sample(&[("reason", "waiting")], counts.expired as f64)
        .sample(&[("reason", "full")], counts.turned_away as f64);
}
