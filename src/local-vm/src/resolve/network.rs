//! Network links of a VM's interfaces without a cluster: a network of its own in user space, with port
//! forwards.
//!
//! `-p 2222:22`, `-p 127.0.0.1:2222:22/tcp`, `-p 5353:53/udp`.

use super::port_holder;
use crate::error::{Error, ErrorKind, Result};
use crate::place::Home;
use api::launcher::{Forward, Link};
use api::machine::network::{Network, Protocol};
use api::machine::{Interface, Machine};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

/// Default address of forwards: the guest is reachable from this computer alone.
const HERE: &str = "127.0.0.1";

/// Maximum number of ports in ranges of a manifest: each one is a socket of QEMU.
const MOST: usize = 256;

/// Parses `[ADDRESS:]HOST:GUEST[/udp]`. One port alone is refused: with docker it is that of the guest, at any free one here.
pub fn new_forward(text: &str) -> Result<Forward> {
    let forward = forward(text)?;
    if text.contains(':') {
        return Ok(forward);
    }
    let (port, protocol) = (forward.port, text.find('/').map_or("", |at| &text[at..]));
    let what = format!("{text:?} is one port, and a port forwarding is HOST:GUEST");
    let hint = format!("write {port}:{port}{protocol} for port {port} of this computer and of the guest");
    Err(Error::new(ErrorKind::Usage, what).with_hint(hint))
}

/// Parses `[ADDRESS:]HOST:GUEST[/udp]`, or the `HOST[/udp]` of a forward that there is.
pub fn forward(text: &str) -> Result<Forward> {
    let wrong = || {
        let what = format!(
            "{text:?} is not a port forwarding; write HOST:GUEST, as in 2222:22, 0.0.0.0:80:8080 or 5353:53/udp"
        );
        Error::new(ErrorKind::Usage, what)
    };
    let (ports, protocol) = match text.rsplit_once('/') {
        Some((ports, protocol @ ("tcp" | "udp"))) => (ports, protocol),
        Some(_) => return Err(wrong()),
        None => (text, "tcp"),
    };
    let (host, guest) = ports.rsplit_once(':').unwrap_or((ports, ports));
    let (address, port) = host.rsplit_once(':').unwrap_or((HERE, host));
    let number = |text: &str| text.parse::<u16>().ok().filter(|&port| port > 0).ok_or_else(wrong);
    let address = address.trim_start_matches('[').trim_end_matches(']');
    let address = if address == "localhost" { HERE } else { address };
    let ip: IpAddr = address.parse().map_err(|_| wrong())?;
    Ok(Forward {
        protocol: protocol.into(),
        address: ip.to_string(),
        port: number(port)?,
        guest_port: number(guest)?,
    })
}

/// Forwards for the ports in a manifest, each to the same port here.
pub(crate) fn of_manifest(machine: &Machine) -> Result<Vec<Forward>> {
    let ports = || machine.interfaces.iter().flat_map(|interface| &interface.ports);
    let count: usize = ports().map(|port| usize::from(port.last.saturating_sub(port.number)) + 1).sum();
    if ports().any(|port| port.number != port.last) && count > MOST {
        let what =
            format!("{count} ports are to be forwarded, with those of portRanges, and at most {MOST} are");
        return Err(Error::refused(what).with_hint("name fewer in the manifest, or single ones with -p"));
    }
    let each = ports().flat_map(|port| (port.number..=port.last).map(move |number| (port.protocol, number)));
    let forwards = each.map(|(protocol, number)| Forward {
        protocol: match protocol {
            Protocol::Tcp => "tcp".into(),
            Protocol::Udp => "udp".into(),
        },
        address: HERE.into(),
        port: number,
        guest_port: number,
    });
    Ok(forwards.collect())
}

/// Links of all interfaces; the forwards lead to the first.
pub fn links(home: &Home, machine: &Machine, forwards: Vec<Forward>) -> Result<BTreeMap<String, Link>> {
    if machine.interfaces.is_empty() && !forwards.is_empty() {
        let what = format!("{} has no network interface for port forwards", machine.name);
        return Err(Error::refused(what));
    }
    check(home, &forwards)?;
    let mut forwards = Some(forwards);
    let link = |interface: &Interface| {
        let cidr = match &interface.network {
            Network::Pod { cidr, .. } => cidr.clone(),
            Network::Multus { name, .. } => {
                let what =
                    format!("the network {name} of the interface {}: multus is for clusters", interface.name);
                return Err(Error::refused(what));
            }
        };
        let mac = interface.mac.clone().unwrap_or_else(|| mac(&machine.name, &interface.name));
        let forwards = forwards.take().unwrap_or_default();
        Ok((interface.name.clone(), Link::User { mac, cidr, forwards, isolated: false }))
    };
    machine.interfaces.iter().map(link).collect()
}

/// Tests that all ports are free, before a VM is made that could not start.
pub(crate) fn check(home: &Home, forwards: &[Forward]) -> Result<()> {
    // All sockets stay open during the test, so that two forwards of one port conflict.
    let mut held: Vec<OwnedFd> = vec![];
    for forward in forwards {
        let address: SocketAddr = format!("{}:{}", bracketed(&forward.address), forward.port)
            .parse()
            .map_err(|e| Error::failed("an address that cannot be read").because(e))?;
        let taken = match forward.protocol.as_str() {
            "udp" => UdpSocket::bind(address).map(OwnedFd::from),
            _ => TcpListener::bind(address).map(OwnedFd::from),
        };
        held.push(taken.map_err(|e| {
            let what = format!("the port {address} cannot be forwarded");
            let error = Error::failed(what);
            match e.kind() {
                std::io::ErrorKind::PermissionDenied => error
                    .with_hint("ports below 1024 are for root; choose one above, as in 8080:80")
                    .because(e),
                _ => match port_holder::holder(home, forward) {
                    Some(holder) => {
                        error.with_hint(format!("{holder} has it; choose another one")).because(e)
                    }
                    None => error.with_hint("choose another one").because(e),
                },
            }
        })?);
    }
    Ok(())
}

fn bracketed(address: &str) -> String {
    if address.contains(':') { format!("[{address}]") } else { address.to_owned() }
}

/// A MAC address that is the same on each run: locally administered (the second bit), unicast (the first).
fn mac(vm: &str, interface: &str) -> String {
    let sum = format!("{vm}\0{interface}").bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let [a, b, c, d, e, ..] = sum.to_be_bytes();
    format!("02:{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_read_as_people_write_them() {
        for (text, want) in [
            ("2222:22", ("tcp", "127.0.0.1", 2222, 22)),
            ("22", ("tcp", "127.0.0.1", 22, 22)),
            ("0.0.0.0:80:8080", ("tcp", "0.0.0.0", 80, 8080)),
            ("localhost:5353:53/udp", ("udp", "127.0.0.1", 5353, 53)),
            ("[::1]:80:8080", ("tcp", "::1", 80, 8080)),
        ] {
            let got = forward(text).unwrap();
            assert_eq!(
                (got.protocol.as_str(), got.address.as_str(), got.port, got.guest_port),
                want,
                "{text}"
            );
        }
        for text in ["", "a", "0:22", "22:0", "99999:1", "1:2:3", "x:1:2", "1:2/sctp", ":22"] {
            assert_eq!(forward(text).unwrap_err().kind(), ErrorKind::Usage, "{text}");
        }
    }

    /// It was the same port of the guest, silently.
    #[test]
    fn a_new_forward_has_both_ports() {
        assert_eq!(new_forward("2222:22/udp").unwrap(), forward("2222:22/udp").unwrap());
        for (text, advice) in [("18082", "write 18082:18082 for"), ("53/udp", "write 53:53/udp for")] {
            let e = new_forward(text).unwrap_err();
            assert_eq!(e.kind(), ErrorKind::Usage);
            assert!(e.to_string().contains("is HOST:GUEST") && e.to_string().contains(advice), "{e}");
        }
        assert!(new_forward("0").unwrap_err().to_string().contains("is not a port forwarding"));
    }

    #[test]
    fn an_address_stays_and_two_vms_have_two() {
        assert_eq!(mac("a", "default"), mac("a", "default"));
        assert_ne!(mac("a", "default"), mac("b", "default"));
        assert!(mac("a", "default").starts_with("02:") && mac("a", "x").len() == 17);
    }

    #[test]
    fn a_port_that_is_taken_is_told() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let folder = tempfile::tempdir().unwrap();
        let home = Home::from_env(Some(folder.path().join("h")), |_| None).unwrap();
        let e = check(&home, &[forward(&format!("{port}:22")).unwrap()]).unwrap_err();
        let holder = format!("(process {}) has it; choose another one", std::process::id());
        assert!(e.to_string().contains(&holder), "{e}");
    }
}
