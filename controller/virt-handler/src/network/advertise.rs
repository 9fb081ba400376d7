//! Router advertisements (RFC 4861): a guest behind a masquerade learns its router, and that DHCPv6 has its
//! address.
//!
//! ```text
//!  pod's network: a socket, opened in work of virt_handler::blocking ──► a task here: one packet, always the same
//!                                   on k6t-eth0, to all nodes: 3 in a row, then every 5 minutes, and when the guest asks
//! ```
//!
//! Sending them needs a raw socket, for which a launcher has no right, so virt-handler does it. **Of a
//! guest's packet, one byte is read**, of at most five packets a second: it is a router solicitation, or it
//! is ignored. A guest that floods the socket loses its own solicitations. Packets of other senders to the
//! pod do not arrive: the socket is bound to the bridge, and receives router solicitations only. The socket
//! belongs to the pod's network and ends with the VMI.

use super::facts::{Address, Mac};
use super::netlink::{Socket, link};
use super::plan::router6;
use super::{look, names, namespace};
use crate::error::{Error, Result};
use crate::pod::Process;
use api::machine::{Binding, Machine};
use rustix::net::sockopt::{
    set_ipv6_add_membership, set_ipv6_multicast_hops, set_ipv6_multicast_loop, set_socket_recv_buffer_size,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddrV6};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

const EVERY_NODE: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
const EVERY_ROUTER: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// ICMPv6 types of router solicitation and advertisement.
const QUESTION: u8 = 133;
const ADVERTISEMENT: u8 = 134;
/// Option of a raw socket that filters the received types (RFC 3542).
const ICMP6_FILTER: libc::c_int = 1;
/// MAC address of the bridge of a masquerade.
const ROUTER: Mac = Mac([2, 0, 0, 0, 0, 0]);
/// Lifetime of the router in seconds; the maximum.
const LIFETIME: u16 = 9000;
/// Number and interval of the first advertisements, interval of later ones, and least interval of any two.
const FIRST: u32 = 3;
const BETWEEN_FIRST: Duration = Duration::from_secs(4);
const BETWEEN: Duration = Duration::from_secs(300);
const LEAST: Duration = Duration::from_secs(3);
/// Pause after each packet of the guest.
const PAUSE: Duration = Duration::from_millis(200);

/// Tasks that send advertisements; they end on drop.
#[derive(Debug, Default)]
pub(crate) struct Advertisers(Vec<JoinHandle<()>>);

impl Drop for Advertisers {
    fn drop(&mut self) {
        for task in &self.0 {
            task.abort();
        }
    }
}

impl Advertisers {
    /// Starts the tasks. Call it inside a tokio runtime.
    pub(crate) fn start(all: Vec<Advertiser>) -> Advertisers {
        Advertisers(all.into_iter().map(|one| tokio::spawn(one.run())).collect())
    }
}

/// Router of one guest.
#[derive(Debug)]
pub(crate) struct Advertiser {
    socket: OwnedFd,
    bridge: u32,
    message: Vec<u8>,
}

/// True if a VMI has an interface whose guest may need a router.
pub(crate) fn may_advertise(machine: &Machine) -> bool {
    machine.interfaces.iter().any(|interface| interface.binding == Binding::Masquerade)
}

/// Routers for guests behind a masquerade whose pod has IPv6, in the network of `process`. The links exist
/// already.
pub(crate) fn advertisers(machine: &Machine, process: &Process) -> Result<Vec<Advertiser>> {
    namespace::run_in_namespace(process, || {
        let cannot = |e| Error::io("cannot open a socket for the router of the guest", e);
        let mut route = Socket::route().map_err(cannot)?;
        let mut all = Vec::new();
        for interface in machine.interfaces.iter().filter(|one| one.binding == Binding::Masquerade) {
            let card = look::card(&mut route, &names::card(interface))?;
            let Some(network) = router6(interface).filter(|_| card.has_v6()) else { continue };
            let name = names::bridge(&card.name);
            let links = link::links(&mut route).map_err(cannot)?;
            let Some(bridge) = links.iter().find(|link| link.name == name).map(|link| link.index) else {
                continue;
            };
            let socket = socket(bridge, &name).map_err(cannot)?;
            all.push(Advertiser { socket, bridge, message: message(network, card.mtu) });
        }
        Ok(all)
    })
}

fn socket(bridge: u32, name: &str) -> io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::INET6, SocketType::RAW, flags, Some(ipproto::ICMPV6))?;
    // Packets with a lower hop limit may come from beyond the link, and are ignored by the guest.
    set_ipv6_multicast_hops(&socket, 255)?;
    set_ipv6_multicast_loop(&socket, false)?;
    set_socket_recv_buffer_size(&socket, 4096)?;
    set_option(&socket, libc::IPPROTO_ICMPV6, ICMP6_FILTER, &solicitation_filter())?;
    set_option(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, name.as_bytes())?;
    set_ipv6_add_membership(&socket, &EVERY_ROUTER, bridge)?;
    Ok(socket)
}

/// Filter of ICMPv6 types, one bit each: all are blocked but solicitations.
fn solicitation_filter() -> [u8; 32] {
    let mut words = [u32::MAX; 8];
    words[usize::from(QUESTION >> 5)] &= !(1 << (QUESTION & 31));
    let mut bytes = [0; 32];
    for (at, word) in bytes.chunks_exact_mut(4).zip(words) {
        at.copy_from_slice(&word.to_ne_bytes());
    }
    bytes
}

#[allow(unsafe_code)] // these options of sockets have no safe functions
fn set_option(socket: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &[u8]) -> io::Result<()> {
    let size = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: the kernel reads `size` bytes from `value`, which lives until after the call.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value.as_ptr().cast(), size) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The advertisement: a default router, DHCPv6 for addresses and other settings, the MTU, and the on-link
/// prefix without autoconfiguration.
fn message(network: Address, mtu: u32) -> Vec<u8> {
    let (managed, other, on_link) = (0x80, 0x40, 0x80);
    let mut bytes = vec![ADVERTISEMENT, 0, 0, 0, 64, managed | other];
    bytes.extend(LIFETIME.to_be_bytes());
    bytes.extend([0; 8]);
    bytes.extend([1, 1]);
    bytes.extend(ROUTER.0);
    bytes.extend([5, 1, 0, 0]);
    bytes.extend(mtu.to_be_bytes());
    if let IpAddr::V6(ip) = network.ip {
        let first = u128::from(ip) & u128::MAX.checked_shl(128 - u32::from(network.prefix)).unwrap_or(0);
        bytes.extend([3, 4, network.prefix, on_link]);
        bytes.extend([0xff; 8]);
        bytes.extend([0; 4]);
        bytes.extend(first.to_be_bytes());
    }
    bytes
}

impl Advertiser {
    async fn run(self) {
        let Advertiser { socket, bridge, message } = self;
        // Raw sockets use the same calls for datagrams as UDP sockets.
        let socket = match UdpSocket::from_std(socket.into()) {
            Ok(socket) => socket,
            Err(e) => return tracing::warn!("cannot send router advertisements: {e}"),
        };
        let to = SocketAddrV6::new(EVERY_NODE, 0, 0, bridge);
        let (mut pace, mut first) = (Pace::new(Instant::now()), [0; 1]);
        loop {
            tokio::select! {
                () = sleep_until(pace.next) => {
                    // The link may not be ready yet, or be gone already.
                    if let Err(e) = socket.send_to(&message, to).await {
                        tracing::debug!("cannot send a router advertisement: {e}");
                    }
                    pace.record_sent(Instant::now());
                }
                // The rest of a packet is dropped.
                heard = socket.recv(&mut first) => match heard {
                    Ok(length) => {
                        if length > 0 && first == [QUESTION] {
                            pace.on_solicitation();
                        }
                        sleep(PAUSE).await;
                    }
                    Err(e) => return tracing::warn!("router advertisements have ended: {e}"),
                },
            }
        }
    }
}

/// Schedule of advertisements: the first ones follow quickly, then at a fixed interval or on request.
#[derive(Debug)]
struct Pace {
    next: Instant,
    last: Option<Instant>,
    first: u32,
}

impl Pace {
    fn new(now: Instant) -> Pace {
        Pace { next: now, last: None, first: FIRST }
    }

    fn record_sent(&mut self, now: Instant) {
        self.first = self.first.saturating_sub(1);
        (self.last, self.next) = (Some(now), now + if self.first > 0 { BETWEEN_FIRST } else { BETWEEN });
    }

    fn on_solicitation(&mut self) {
        if let Some(last) = self.last {
            self.next = self.next.min(last + LEAST);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_advertisement_has_its_form() {
        let bytes = message("fd10:0:2::1/120".parse().unwrap(), 1450);
        let mut wanted = vec![134, 0, 0, 0, 64, 0xc0, 0x23, 0x28, 0, 0, 0, 0, 0, 0, 0, 0];
        wanted.extend([1, 1, 2, 0, 0, 0, 0, 0]);
        wanted.extend([5, 1, 0, 0, 0, 0, 0x05, 0xaa]);
        wanted.extend([3, 4, 120, 0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        wanted.extend([0xfd, 0x10, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn questions_alone_arrive() {
        let filter = solicitation_filter();
        let word = |kind: u8| {
            let at = usize::from(kind >> 5) * 4;
            u32::from_ne_bytes(filter[at..at + 4].try_into().unwrap())
        };
        let arrive: Vec<u8> = (0..=255).filter(|kind| word(*kind) & (1 << (kind & 31)) == 0).collect();
        assert_eq!(arrive, [QUESTION]);
    }

    #[test]
    fn a_guest_that_asks_without_end_hears_one_every_three_seconds() {
        let begun = Instant::now();
        let at = |pace: &Pace| (pace.next - begun).as_secs();
        let mut pace = Pace::new(begun);
        pace.on_solicitation();
        assert_eq!(at(&pace), 0);
        pace.record_sent(begun);
        assert_eq!(at(&pace), 4);
        for _ in 0..100 {
            pace.on_solicitation();
        }
        assert_eq!(at(&pace), 3);
        for seconds in [3, 7] {
            pace.record_sent(begun + Duration::from_secs(seconds));
        }
        assert_eq!(at(&pace), 307, "the first three are over");
        pace.on_solicitation();
        assert_eq!(at(&pace), 10);
    }
}
