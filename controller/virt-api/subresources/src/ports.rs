//! Connections to a port of the guest, dialled by virt-api in the pod network.
//!
//! The address is the pod's, from [`vmi::address`](crate::vmi::address); port and protocol are
//! from the request.

use crate::refusal::{Refusal, Result};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpStream, UdpSocket};

/// Time-out of a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// Maximum digits of a port number.
const DIGITS: usize = 5;

/// The protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// Port and protocol in the rest of a path: `80`, `80/tcp`, `53/udp`.
pub(crate) fn port(rest: &str) -> Result<(u16, Protocol)> {
    let (port, protocol) = rest.split_once('/').unwrap_or((rest, "tcp"));
    let protocol = match protocol {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        other => {
            return Err(Refusal::bad_request(format!("{other:?} is not a protocol: tcp and udp are")));
        }
    };
    // A path of kilobytes, with leading zeros, would stay in memory while the port is dialled.
    let number = Some(port).filter(|port| port.len() <= DIGITS).and_then(|port| port.parse::<u16>().ok());
    let Some(number) = number else { return Err(Refusal::bad_request(format!("{port:?} is not a port"))) };
    if number == 0 { Err(Refusal::bad_request("0 is not a port")) } else { Ok((number, protocol)) }
}

/// A socket connected to the guest's UDP port: it receives from that address only.
pub(crate) async fn dial_udp(address: IpAddr, port: u16) -> Result<UdpSocket> {
    let to = SocketAddr::new(address, port);
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let dialled = async {
        let socket = UdpSocket::bind(SocketAddr::new(any, 0)).await?;
        socket.connect(to).await?;
        Ok::<_, std::io::Error>(socket)
    };
    dialled.await.map_err(|error| Refusal::internal(&format!("dialing VM: {to}: {error}")))
}

/// A TCP connection to the guest.
pub(crate) async fn dial(address: IpAddr, port: u16) -> Result<TcpStream> {
    let to = SocketAddr::new(address, port);
    let why = match tokio::time::timeout(PATIENCE, TcpStream::connect(to)).await {
        Ok(Ok(stream)) => {
            let _ = stream.set_nodelay(true);
            return Ok(stream);
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no answer within 10 s; does a NetworkPolicy let virt-api through?".to_owned(),
    };
    Err(Refusal::internal(&format!("dialing VM: {to}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_number_of_tcp_or_udp() {
        assert_eq!(port("22"), Ok((22, Protocol::Tcp)));
        assert_eq!(port("65535/tcp"), Ok((65535, Protocol::Tcp)));
        assert_eq!(port("53/udp"), Ok((53, Protocol::Udp)));
        for rest in ["0", "0/udp", "65536", "", "22/sctp", "22/", "22/udp/x", "000022"] {
            assert_eq!(port(rest).unwrap_err().status, 400, "{rest}");
        }
    }
}
