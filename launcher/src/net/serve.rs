//! The DHCP servers of one VM: a task per interface with a lease, as long as the value lives.

use super::dhcp::{DhcpSettings, answer};
use super::told::{Pod, told};
use crate::error::{Error, ErrorKind, Result};
use api::launcher::Resolved;
use api::machine::Machine;
use rustix::net::sockopt::{set_socket_broadcast, set_socket_reuseaddr};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;

const SERVER: u16 = 67;
const CLIENT: u16 = 68;
/// More than any request has.
const LARGEST: usize = 2048;
/// The pause before a socket that failed is tried again.
const PAUSE: Duration = Duration::from_millis(200);

/// Servers; they end with this value.
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

/// Answers the guest on every interface whose link has a lease. Called inside a runtime of tokio, before the guest runs.
pub fn serve(machine: &Machine, resolved: &Resolved) -> Result<Servers> {
    let pod = Pod::look();
    let mut servers = Servers::default();
    for interface in &machine.interfaces {
        let Some(link) = resolved.interfaces.get(&interface.name) else { continue };
        if let Some((device, told)) = told(machine, interface, link, &pod)? {
            let socket = open(&device)?;
            tracing::info!("DHCP answers on {device}: {} for {:02x?}", told.lease.address, told.mac.0);
            servers.tasks.push(tokio::spawn(answers(socket, told)));
        }
    }
    Ok(servers)
}

async fn answers(socket: UdpSocket, told: DhcpSettings) {
    let mut buffer = [0; LARGEST];
    loop {
        let length = match socket.recv_from(&mut buffer).await {
            Ok((length, _)) => length,
            Err(e) => {
                tracing::warn!("cannot read a DHCP request of the guest: {e}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let Some(answer) = answer(&told, buffer.get(..length).unwrap_or_default()) else { continue };
        if let Err(e) = socket.send_to(&answer.bytes, (answer.to, CLIENT)).await {
            tracing::warn!("cannot send a DHCP answer to the guest at {}: {e}", answer.to);
        }
    }
}

/// A socket on one device: requests of other devices do not arrive, no answer goes elsewhere.
fn open(device: &str) -> Result<UdpSocket> {
    let failed = |e: std::io::Error| {
        let hint = match e.kind() {
            std::io::ErrorKind::PermissionDenied => {
                ": port 67 is not open to this user; virt-handler sets net.ipv4.ip_unprivileged_port_start in the pod"
            }
            _ => "",
        };
        Error::new(ErrorKind::Failed, format!("cannot answer DHCP on {device}{hint}")).because(e)
    };
    let socket = plain().map_err(failed)?;
    let socket = std::net::UdpSocket::from(socket);
    socket.set_nonblocking(true).map_err(failed)?;
    let socket = UdpSocket::from_std(socket).map_err(failed)?;
    socket.bind_device(Some(device.as_bytes())).map_err(failed)?;
    Ok(socket)
}

fn plain() -> std::io::Result<OwnedFd> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // One for each device, all on the same port.
    set_socket_reuseaddr(&socket, true)?;
    set_socket_broadcast(&socket, true)?;
    no_sums(&socket)?;
    bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, SERVER))?;
    Ok(socket)
}

/// Answers without a checksum. Between bridge and guest checksums are left for a card to fill in, and there is none; a
/// client that reads raw packets would drop them as broken. IPv4 allows packets without one.
#[allow(unsafe_code)] // this option of sockets has no safe function
fn no_sums(socket: &OwnedFd) -> std::io::Result<()> {
    let on: libc::c_int = 1;
    let size = libc::socklen_t::try_from(size_of_val(&on)).map_err(std::io::Error::other)?;
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
    if done == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
