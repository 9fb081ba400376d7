//! TCP keepalive: finds clients that are gone without closing. A stream may be silent for days, and nothing
//! else would end it.

use rustix::net::sockopt;
use std::time::Duration;
use tokio::net::TcpStream;

/// Silence before the first probe, time between probes, and number of unanswered probes.
const PROBES: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);

/// Enables keepalive on this connection. If that fails, a client that is gone keeps its place longer.
pub fn probe(stream: &TcpStream) {
    let set = || -> rustix::io::Result<()> {
        sockopt::set_socket_keepalive(stream, true)?;
        sockopt::set_tcp_keepidle(stream, PROBES.0)?;
        sockopt::set_tcp_keepintvl(stream, PROBES.1)?;
        sockopt::set_tcp_keepcnt(stream, PROBES.2)
    };
    let _ = set();
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
        probe(&stream);
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let times = (sockopt::tcp_keepidle(&stream).unwrap(), sockopt::tcp_keepintvl(&stream).unwrap());
        assert_eq!((times.0, times.1, sockopt::tcp_keepcnt(&stream).unwrap()), PROBES);
    }
}
