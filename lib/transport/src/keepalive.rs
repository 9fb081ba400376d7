//! TCP keepalive: finds clients that are gone without closing. A stream may be silent for days, and nothing
//! else would end it.

use rustix::net::sockopt;
use std::time::Duration;
use tokio::net::TcpStream;

/// Silence of a client before the first probe, unless a server has another.
pub const SILENCE: Duration = Duration::from_secs(30);
/// Unanswered probes after which a connection ends.
const PROBES: u32 = 3;

/// Enables keepalive on this connection: a client that is silent so long is probed, and again after a third of
/// that. If that fails, a client that is gone keeps its place longer.
pub fn probe(stream: &TcpStream, silence: Duration) {
    let set = || -> rustix::io::Result<()> {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, silence)?;
        sockopt::set_tcp_keepintvl(stream, silence / 3)?;
        sockopt::set_tcp_keepcnt(stream, PROBES)
    };
    if let Err(e) = set() {
        tracing::debug!("a connection is not probed: {e}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn a_connection_is_probed() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(!sockopt::socket_keepalive(&stream).unwrap());
        probe(&stream, SILENCE);
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let times = (sockopt::tcp_keepidle(&stream).unwrap(), sockopt::tcp_keepintvl(&stream).unwrap());
        let seconds = Duration::from_secs;
        assert_eq!((times, sockopt::tcp_keepcnt(&stream).unwrap()), ((seconds(30), seconds(10)), 3));
    }
}
