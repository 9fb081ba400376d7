//! Options of DHCP: a number, a length, bytes. RFC 2132, long ones RFC 3396, search lists RFC 3397, routes
//! RFC 3442.

use super::DhcpSettings;
use std::net::Ipv4Addr;

pub(super) const OFFER: u8 = 2;
pub(super) const ACK: u8 = 5;
pub(super) const NAK: u8 = 6;

pub(super) const WANTED: u8 = 50;
pub(super) const LEASE: u8 = 51;
pub(super) const KIND: u8 = 53;
pub(super) const SERVER: u8 = 54;
pub(super) const TAKES: u8 = 57;
pub(super) const ID: u8 = 61;
pub(super) const END: u8 = 255;

const MASK: u8 = 1;
const ROUTER: u8 = 3;
const DNS: u8 = 6;
const HOSTNAME: u8 = 12;
const DOMAIN: u8 = 15;
const MTU: u8 = 26;
const NTP: u8 = 42;
const TFTP: u8 = 66;
const BOOT_FILE: u8 = 67;
const SEARCH: u8 = 119;
const ROUTES: u8 = 121;

/// The options in some bytes; `None` for a truncated one.
pub(super) fn read(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u8, &[u8])>> {
    std::iter::from_fn(move || {
        while bytes.first() == Some(&0) {
            bytes = bytes.get(1..)?;
        }
        let kind = *bytes.first()?;
        if kind == END {
            return None;
        }
        let value = bytes.get(1).and_then(|length| bytes.get(2..2 + usize::from(*length)));
        bytes = value.and_then(|value| bytes.get(2 + value.len()..)).unwrap_or_default();
        Some(value.map(|value| (kind, value)))
    })
}

/// Options that are being written. One that does not fit is left out, so the important ones come first.
pub(super) struct Options {
    bytes: Vec<u8>,
    room: usize,
    left_out: Vec<u16>,
}

impl Options {
    pub(super) fn new(room: usize) -> Options {
        Options { bytes: Vec::new(), room, left_out: Vec::new() }
    }

    pub(super) fn put(&mut self, kind: u8, value: &[u8]) {
        if value.is_empty() {
            return;
        }
        let pieces = value.chunks(255);
        if self.bytes.len() + value.len() + 2 * pieces.len() > self.room {
            self.left_out.push(kind.into());
            return;
        }
        for piece in pieces {
            self.bytes.push(kind);
            // A piece has 255 bytes at most.
            self.bytes.push(u8::try_from(piece.len()).unwrap_or(u8::MAX));
            self.bytes.extend(piece);
        }
    }

    pub(super) fn number(&mut self, kind: u8, value: u32) {
        self.put(kind, &value.to_be_bytes());
    }

    /// The options, and the numbers of those that did not fit.
    pub(super) fn finish(self) -> (Vec<u8>, Vec<u16>) {
        (self.bytes, self.left_out)
    }

    /// Writes every setting of the guest, the important ones first.
    pub(super) fn write_settings(&mut self, told: &DhcpSettings) {
        let lease = &told.lease;
        let mask = u32::MAX.checked_shl(32 - u32::from(lease.prefix)).unwrap_or(0);
        self.number(MASK, mask);
        self.addresses(ROUTER, lease.router.as_slice());
        self.addresses(DNS, &told.dns);
        if let Some(mtu) = told.mtu {
            self.put(MTU, &mtu.to_be_bytes());
        }
        self.put(ROUTES, &routes(told));
        self.text(HOSTNAME, told.hostname.as_deref());
        self.text(DOMAIN, told.domain.as_deref());
        self.put(SEARCH, &search(&told.search));
        self.text(TFTP, told.tftp_server.as_deref());
        self.text(BOOT_FILE, told.boot_file.as_deref());
        self.addresses(NTP, &told.ntp);
        for (kind, value) in &told.private {
            self.put(*kind, value.as_bytes());
        }
    }

    fn addresses(&mut self, kind: u8, all: &[Ipv4Addr]) {
        let bytes: Vec<u8> = all.iter().flat_map(Ipv4Addr::octets).collect();
        self.put(kind, &bytes);
    }

    fn text(&mut self, kind: u8, text: Option<&str>) {
        self.put(kind, text.unwrap_or_default().as_bytes());
    }
}

/// All routes, the default route last: a client that reads this option ignores the router option. Empty if
/// the default route is the only one.
fn routes(told: &DhcpSettings) -> Vec<u8> {
    let lease = &told.lease;
    if lease.routes.is_empty() {
        return Vec::new();
    }
    let last = lease.router.map(|via| (Ipv4Addr::UNSPECIFIED, 0, Some(via)));
    let all = lease.routes.iter().map(|route| (route.to, route.prefix, route.via)).chain(last);
    let mut bytes = Vec::new();
    for (to, prefix, via) in all {
        bytes.push(prefix);
        bytes.extend(to.octets().into_iter().take(usize::from(prefix).div_ceil(8)));
        bytes.extend(via.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
    }
    bytes
}

/// Domains in the format of DNS.
pub(in crate::net) fn search(domains: &[String]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for domain in domains {
        for label in domain.split('.') {
            let Ok(length @ 1..=63) = u8::try_from(label.len()) else { continue };
            bytes.push(length);
            bytes.extend(label.bytes());
        }
        bytes.push(0);
    }
    bytes
}
