//! A port of the guest, dialled by virt-api in the pods' network.
//!
//! The address is the pod's, as [`vmi::address`](crate::vmi::address) takes it from the status; the port and the protocol are
//! the request's. UDP is refused by name: its datagrams need a frame each, which the stream does not have yet.

use crate::refused::{Refused, Result};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;

/// The time for a connection.
const PATIENCE: Duration = Duration::from_secs(10);

/// The port that the rest of a path names: `80`, `80/tcp`.
pub(crate) fn port(rest: &str) -> Result<u16> {
    let (port, protocol) = rest.split_once('/').unwrap_or((rest, "tcp"));
    match protocol {
        "tcp" => {}
        "udp" => {
            return Err(Refused::not_served(
                "portforward of UDP",
                "forward a TCP port, or use a Service of type UDP",
            ));
        }
        other => return Err(Refused::bad_request(format!("{other:?} is not a protocol: tcp is"))),
    }
    let number: u16 = port.parse().map_err(|_| Refused::bad_request(format!("{port:?} is not a port")))?;
    if number == 0 { Err(Refused::bad_request("0 is not a port")) } else { Ok(number) }
}

/// A connection to the guest.
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
    Err(Refused::internal(&format!("dialing VM: {to}: {why}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_a_number_of_tcp() {
        assert_eq!(port("22"), Ok(22));
        assert_eq!(port("65535/tcp"), Ok(65535));
        for (rest, status) in [("0", 400), ("65536", 400), ("", 400), ("22/sctp", 400), ("53/udp", 501)] {
            assert_eq!(port(rest).unwrap_err().status, status, "{rest}");
        }
    }
}
