//! The DHCP servers of one VM: a task for each interface with a lease, as long as the value lives.

use super::dhcp::{DhcpSettings, answer};
use super::dhcp_settings::{Pod, dhcp_settings, dhcp6_settings};
use super::dhcp6::{self, Dhcp6Settings};
use crate::error::{Error, ErrorKind, Result};
use api::launcher::Resolved;
use api::machine::Machine;
use rustix::net::netdevice::name_to_index;
use rustix::net::sockopt::{
    set_ipv6_add_membership, set_ipv6_v6only, set_socket_broadcast, set_socket_reuseaddr,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::collections::BTreeSet;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

const SERVER: u16 = 67;
const CLIENT: u16 = 68;
const SERVER6: u16 = 547;
const CLIENT6: u16 = 546;
/// Multicast address of all DHCPv6 servers.
const EVERY_SERVER6: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 1, 2);
/// Size of the receive buffer, larger than any request.
const LARGEST: usize = 2048;
/// Pause before another try after a socket error.
const PAUSE: Duration = Duration::from_millis(200);

/// Servers, which end with this value.
#[derive(Debug, Default)]
pub struct Servers {
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for Servers {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// Answers the guest on every interface whose link has a lease. Called inside a runtime of tokio, before the
/// guest runs.
pub fn serve(machine: &Machine, resolved: &Resolved) -> Result<Servers> {
    let pod = Pod::read();
    let mut servers = Servers::default();
    for interface in &machine.interfaces {
        let Some(link) = resolved.interfaces.get(&interface.name) else { continue };
        if let Some((device, told)) = dhcp_settings(machine, interface, link, &pod)? {
            let socket = open(&device, SERVER, plain)?;
            tracing::info!("DHCP answers on {device}: {} for {:02x?}", told.lease.address, told.mac.0);
            servers.tasks.push(tokio::spawn(answers(socket, told)));
        }
        if let Some((device, told)) = dhcp6_settings(interface, link, &pod)? {
            let socket = open(&device, SERVER6, plain6)?;
            tracing::info!("DHCPv6 answers on {device}: {}", told.lease.address);
            servers.tasks.push(tokio::spawn(answers6(socket, told)));
        }
    }
    Ok(servers)
}

/// Faults that were logged. Each is logged once, as a guest may cause it with each packet.
#[derive(Debug, Default)]
pub(super) struct ReportedFaults(BTreeSet<(&'static str, Option<i32>)>);

impl ReportedFaults {
    /// True if this fault is new. `what`: the failed step; `number`: error number or option.
    fn is_new(&mut self, what: &'static str, number: Option<i32>) -> bool {
        self.0.insert((what, number))
    }

    /// Logs the options that did not fit into an answer, in one line. The guest decides how many there are.
    pub(super) fn left_out(&mut self, protocol: &'static str, options: &[u16]) {
        let is_new = |option: &&u16| self.is_new(protocol, Some(i32::from(**option)));
        let new: Vec<&u16> = options.iter().filter(is_new).collect();
        if !new.is_empty() {
            tracing::warn!("options {new:?} of {protocol} do not fit into an answer to the guest");
        }
    }
}

async fn answers(socket: UdpSocket, told: DhcpSettings) {
    let (mut buffer, mut faults) = ([0; LARGEST], ReportedFaults::default());
    loop {
        let length = match socket.recv_from(&mut buffer).await {
            Ok((length, _)) => length,
            Err(e) => {
                if faults.is_new("read", e.raw_os_error()) {
                    tracing::warn!("cannot read a DHCP request of the guest: {e}");
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(answer) = answer(&told, buffer.get(..length).unwrap_or_default()) else { continue };
        faults.left_out("DHCP", &answer.left_out);
        if let Err(e) = socket.send_to(&answer.bytes, (answer.to, CLIENT)).await
            && faults.is_new("send", e.raw_os_error())
        {
            tracing::warn!("cannot send a DHCP answer to the guest at {}: {e}", answer.to);
        }
    }
}

/// Answers every DHCPv6 request on the bridge, where this guest is the only one.
async fn answers6(socket: UdpSocket, told: Dhcp6Settings) {
    let (mut buffer, mut faults) = ([0; LARGEST], ReportedFaults::default());
    loop {
        let (length, from) = match socket.recv_from(&mut buffer).await {
            Ok((length, SocketAddr::V6(from))) => (length, from),
            Ok(_) => continue,
            Err(e) => {
                if faults.is_new("read", e.raw_os_error()) {
                    tracing::warn!("cannot read a DHCPv6 request of the guest: {e}");
                }
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(to) = client6(from) else { continue };
        let request = buffer.get(..length).unwrap_or_default();
        let Some(answer) = dhcp6::answer(&told, request) else { continue };
        faults.left_out("DHCPv6", &answer.left_out);
        if let Err(e) = socket.send_to(&answer.bytes, to).await
            && faults.is_new("send", e.raw_os_error())
        {
            tracing::warn!("cannot send a DHCPv6 answer to the guest at {to}: {e}");
        }
    }
}

/// Destination of an answer: the client's port of an address of this link, whatever port the request came
/// from.
fn client6(from: SocketAddrV6) -> Option<SocketAddrV6> {
    let is_near = from.ip().is_unicast_link_local();
    is_near.then(|| SocketAddrV6::new(*from.ip(), CLIENT6, 0, from.scope_id()))
}

/// A socket on one device: requests from other devices do not arrive, and answers do not leave elsewhere.
fn open(device: &str, port: u16, plain: impl FnOnce(&str) -> io::Result<OwnedFd>) -> Result<UdpSocket> {
    let failed = |e: io::Error| {
        let hint = match e.kind() {
            io::ErrorKind::PermissionDenied => format!(
                ": port {port} is not open to this user; virt-handler sets net.ipv4.ip_unprivileged_port_start in the pod"
            ),
            _ => String::new(),
        };
        Error::new(ErrorKind::Failed, format!("cannot answer DHCP on {device}{hint}")).because(e)
    };
    let socket = plain(device).map_err(failed)?;
    let socket = std::net::UdpSocket::from(socket);
    socket.set_nonblocking(true).map_err(failed)?;
    let socket = UdpSocket::from_std(socket).map_err(failed)?;
    socket.bind_device(Some(device.as_bytes())).map_err(failed)?;
    Ok(socket)
}

fn plain(_device: &str) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // One socket for each device, all on the same port.
    set_socket_reuseaddr(&socket, true)?;
    set_socket_broadcast(&socket, true)?;
    no_sums(&socket)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, SERVER))?;
    Ok(socket)
}

fn plain6(device: &str) -> io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    set_ipv6_v6only(&socket, true)?;
    bind(&socket, &SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, SERVER6, 0, 0))?;
    set_ipv6_add_membership(&socket, &EVERY_SERVER6, name_to_index(&socket, device)?)?;
    Ok(socket)
}

/// Disables checksums of answers. Between bridge and guest checksums are left for a card to fill in, and
/// there is none; a client that reads raw packets would drop the packets as broken. IPv4 allows packets
/// without one.
#[allow(unsafe_code)] // this option of sockets has no safe function
fn no_sums(socket: &OwnedFd) -> io::Result<()> {
    let on: libc::c_int = 1;
    let size = libc::socklen_t::try_from(size_of_val(&on)).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `size` bytes from `on`, which lives until after the call.
    let done = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_NO_CHECK,
            (&raw const on).cast(),
            size,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_told_once_however_often_a_guest_brings_it_about() {
        let mut faults = ReportedFaults::default();
        let unreachable = Some(libc::ENETUNREACH);
        assert!(faults.is_new("send", unreachable));
        for _ in 0..1000 {
            assert!(!faults.is_new("send", unreachable));
        }
        assert!(faults.is_new("read", unreachable));
        assert!(faults.is_new("send", Some(libc::EPERM)));
        assert!(!faults.is_new("send", unreachable));
    }

    #[test]
    fn an_answer_of_dhcpv6_goes_to_a_client_of_this_link_alone() {
        let from = |ip: &str| client6(SocketAddrV6::new(ip.parse().unwrap(), 53, 0, 7));
        assert_eq!(from("fe80::1"), Some(SocketAddrV6::new("fe80::1".parse().unwrap(), 546, 0, 7)));
        for ip in ["fd10:0:2::2", "::1", "::", "ff02::1", "::ffff:10.0.2.2"] {
            assert_eq!(from(ip), None, "{ip}");
        }
    }
}
