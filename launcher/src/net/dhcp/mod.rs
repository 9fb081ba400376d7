//! DHCP for one guest, without a pool, a clock or a memory: the same request always has the same answer. RFC
//! 2131.
//!
//! ```text
//!  DISCOVER ─► OFFER      REQUEST ─► ACK, or NAK for another address      INFORM ─► ACK without an address
//!  RELEASE, DECLINE, any other packet, any other client ─► nothing
//! ```
//!
//! The guest writes the requests, so nothing in them is trusted. A request that is truncated or has false
//! lengths is ignored. Answers are broadcast on the bridge unless the guest has its address already.

mod options;
mod packet;

pub(super) use options::search;

use api::lease::Lease;
use options::Options;
use packet::{Packet, Question};
use std::net::Ipv4Addr;

/// The lease time in seconds: 999 days.
const LEASE: u32 = 86_313_600;

/// MAC address of a client, six bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Parses a MAC address such as `02:00:00:00:00:01`.
    pub fn read(text: &str) -> Option<Mac> {
        let parts: Option<Vec<u8>> = text.split(':').map(|part| u8::from_str_radix(part, 16).ok()).collect();
        parts?.try_into().ok().map(Mac)
    }
}

/// The settings of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DhcpSettings {
    /// The guest's MAC address.
    pub mac: Mac,
    pub lease: Lease,
    pub mtu: Option<u16>,
    pub dns: Vec<Ipv4Addr>,
    pub search: Vec<String>,
    pub hostname: Option<String>,
    pub domain: Option<String>,
    pub boot_file: Option<String>,
    pub tftp_server: Option<String>,
    pub ntp: Vec<Ipv4Addr>,
    /// Options 224 to 254.
    pub private: Vec<(u8, String)>,
}

/// An answer, and its destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The guest's address, or the broadcast address.
    pub to: Ipv4Addr,
    /// The packet, from port 67 to port 68.
    pub bytes: Vec<u8>,
    /// Numbers of the options that did not fit.
    pub left_out: Vec<u16>,
}

/// The answer to a packet; `None` if it gets none.
pub fn answer(told: &DhcpSettings, bytes: &[u8]) -> Option<Reply> {
    let packet = Packet::read(bytes)?;
    if packet.mac != told.mac.0 || packet.relay != Ipv4Addr::UNSPECIFIED {
        return None;
    }
    let ours = |server: Option<Ipv4Addr>| server.is_none_or(|server| server == told.lease.server);
    let has = packet.client != Ipv4Addr::UNSPECIFIED;
    match packet.question {
        Question::Discover => Some(say(told, &packet, options::OFFER, true)),
        Question::Request if !ours(packet.server) => None,
        Question::Request => {
            let wanted = packet.wanted.or(has.then_some(packet.client));
            match wanted {
                Some(wanted) if wanted == told.lease.address => Some(say(told, &packet, options::ACK, true)),
                Some(_) => Some(refuse(told, &packet)),
                None => None,
            }
        }
        Question::Inform if has => Some(say(told, &packet, options::ACK, false)),
        Question::Inform | Question::Other => None,
    }
}

fn say(told: &DhcpSettings, packet: &Packet, kind: u8, address: bool) -> Reply {
    let mut options = Options::new(packet.room());
    options.put(options::KIND, &[kind]);
    options.put(options::SERVER, &told.lease.server.octets());
    if address {
        options.number(options::LEASE, LEASE);
    }
    options.write_settings(told);
    let to = if packet.client == Ipv4Addr::UNSPECIFIED { Ipv4Addr::BROADCAST } else { packet.client };
    let yours = if address { told.lease.address } else { Ipv4Addr::UNSPECIFIED };
    let next = told.tftp_server.as_deref().and_then(|server| server.parse().ok());
    let head =
        packet::Head { yours, next: next.unwrap_or(Ipv4Addr::UNSPECIFIED), file: told.boot_file.as_deref() };
    let (options, left_out) = options.finish();
    Reply { to, bytes: packet.reply(&head, &options), left_out }
}

fn refuse(told: &DhcpSettings, packet: &Packet) -> Reply {
    let mut options = Options::new(packet.room());
    options.put(options::KIND, &[options::NAK]);
    options.put(options::SERVER, &told.lease.server.octets());
    let head = packet::Head { yours: Ipv4Addr::UNSPECIFIED, next: Ipv4Addr::UNSPECIFIED, file: None };
    let (options, left_out) = options.finish();
    Reply { to: Ipv4Addr::BROADCAST, bytes: packet.refusal(&head, &options), left_out }
}

#[cfg(test)]
mod tests;
