//! DHCPv6 for one guest, without a pool, a clock or a memory: the same request always has the same answer.
//! RFC 8415.
//!
//! ```text
//!  SOLICIT ─► ADVERTISE, or REPLY where the guest wants it quickly      REQUEST, RENEW, REBIND ─► REPLY with the address
//!  CONFIRM ─► REPLY: the address is right, or is not                    RELEASE, DECLINE ─► REPLY: done
//!  INFORMATION-REQUEST ─► REPLY without an address                      relayed, cut off, or for another server ─► nothing
//! ```
//!
//! The guest writes the requests, so nothing in them is trusted. It gets an address, name servers and search
//! domains, but no route, which DHCPv6 does not have. virt-handler advertises the router.

mod message;

use super::dhcp::search;
use api::lease::Lease6;
use message::{Answer, Kind, Request};
use std::net::Ipv6Addr;

/// The lifetime of the address in seconds: 999 days.
const LEASE: u32 = 86_313_600;
/// Identifier of this server, from the bridge's MAC address on the link, which no guest may have.
const SERVER: [u8; 10] = [0, 3, 0, 1, 2, 0, 0, 0, 0, 0];

/// The settings of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dhcp6Settings {
    pub lease: Lease6,
    pub dns: Vec<Ipv6Addr>,
    pub search: Vec<String>,
}

/// The answer to a packet of the guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The packet, from port 547 to port 546.
    pub bytes: Vec<u8>,
    /// Numbers of the options that did not fit.
    pub left_out: Vec<u16>,
}

/// The answer to a packet; `None` if it gets none.
pub fn answer(told: &Dhcp6Settings, bytes: &[u8]) -> Option<Reply> {
    let request = Request::read(bytes)?;
    let (known, ours) = (request.client.is_some(), request.server == Some(&SERVER));
    let to_any = request.server.is_none();
    match request.kind {
        Kind::Solicit if known && to_any => {
            let kind = if request.is_quick { message::REPLY } else { message::ADVERTISE };
            let mut answer = lease(told, &request, kind);
            if request.is_quick {
                answer.put(message::QUICK, &[]);
            }
            Some(answer.finish())
        }
        Kind::Request | Kind::Renew if known && ours => Some(lease(told, &request, message::REPLY).finish()),
        Kind::Rebind if known && to_any => Some(lease(told, &request, message::REPLY).finish()),
        Kind::Confirm if known && to_any => {
            // A question without an address gets no answer.
            let has = request.addresses().next().is_some();
            let right = request.addresses().all(|address| address == told.lease.address);
            let status = if right { message::SUCCESS } else { message::NOT_ON_LINK };
            has.then(|| done(&request, status))
        }
        Kind::Release | Kind::Decline if known && ours => Some(done(&request, message::SUCCESS)),
        Kind::Information if (to_any || ours) && request.association.is_none() => {
            let mut answer = Answer::new(message::REPLY, &request, &SERVER);
            more(told, &mut answer);
            Some(answer.finish())
        }
        _ => None,
    }
}

fn lease(told: &Dhcp6Settings, request: &Request<'_>, kind: u8) -> Answer {
    let mut answer = Answer::new(kind, request, &SERVER);
    if let Some(association) = &request.association {
        // The two zeros let the guest choose the time of its next request.
        let mut value = association.id.to_vec();
        value.extend([0; 8]);
        let mut address = told.lease.address.octets().to_vec();
        address.extend(LEASE.to_be_bytes());
        address.extend(LEASE.to_be_bytes());
        message::option(&mut value, message::ADDRESS, &address);
        answer.put(message::ASSOCIATION, &value);
    }
    more(told, &mut answer);
    answer
}

/// Adds name servers and search domains.
fn more(told: &Dhcp6Settings, answer: &mut Answer) {
    let servers: Vec<u8> = told.dns.iter().flat_map(Ipv6Addr::octets).collect();
    answer.put_some(message::DNS, &servers);
    answer.put_some(message::SEARCH, &search(&told.search));
}

fn done(request: &Request<'_>, status: u16) -> Reply {
    let mut answer = Answer::new(message::REPLY, request, &SERVER);
    answer.put(message::STATUS, &status.to_be_bytes());
    answer.finish()
}

#[cfg(test)]
mod tests;
