//! Links, addresses and routes: lists, and messages that change them.

use super::message::{CREATE, DUMP, EXCL};
use super::socket::CHANGE;
use super::{Message, Socket, attributes, number, text};
use crate::network::facts::{Address, Mac, Route};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const NEWLINK: u16 = 16;
const DELLINK: u16 = 17;
const GETLINK: u16 = 18;
const SETLINK: u16 = 19;
const NEWADDR: u16 = 20;
const DELADDR: u16 = 21;
const GETADDR: u16 = 22;
const GETROUTE: u16 = 26;

const INET: u8 = 2;
const INET6: u8 = 10;
const BRIDGE: u8 = 7;
/// Flag of a link that is up.
const UP: u32 = 1;
/// Flags of an address that is used at once (no duplicate detection), and makes no route.
const PLAIN: u32 = 0x02 | 0x200;
/// The main routing table, the protocol "kernel", and a unicast route.
const MAIN: u8 = 254;
const BY_KERNEL: u8 = 2;
const UNICAST: u8 = 1;

/// A network interface, as the kernel lists it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) mac: Option<Mac>,
    pub(crate) mtu: u32,
    /// `bridge`, `dummy`, `tun`, `veth`, …
    pub(crate) kind: String,
    pub(crate) alias: String,
    pub(crate) master: u32,
    pub(crate) up: bool,
}

/// Lists the interfaces of this network namespace.
pub(crate) fn links(socket: &mut Socket) -> io::Result<Vec<Link>> {
    let found = socket.list(Message::new(GETLINK, DUMP, &head(0, 0, 0, 0)))?;
    Ok(found.iter().filter_map(|bytes| read_link(bytes)).collect())
}

/// Lists the addresses of a link, without link-local ones.
pub(crate) fn addresses(socket: &mut Socket, link: u32) -> io::Result<Vec<Address>> {
    let found = socket.list(Message::new(GETADDR, DUMP, &[0; 8]))?;
    Ok(found.iter().filter_map(|bytes| read_address(bytes, link)).collect())
}

/// Lists the routes over a link.
pub(crate) fn routes(socket: &mut Socket, link: u32) -> io::Result<Vec<Route>> {
    let mut found = socket.list(Message::new(GETROUTE, DUMP, &family(INET)))?;
    found.extend(socket.list(Message::new(GETROUTE, DUMP, &family(INET6)))?);
    Ok(found.iter().filter_map(|bytes| read_route(bytes, link)).collect())
}

fn family(family: u8) -> [u8; 12] {
    let mut head = [0; 12];
    head[0] = family;
    head
}

/// Makes a virtual link: a bridge, a dummy.
pub(crate) fn make(kind: &str, name: &str, mac: Mac, mtu: u32) -> Message {
    Message::new(NEWLINK, CHANGE | CREATE | EXCL, &head(0, 0, 0, 0))
        .text(3, name)
        .put(1, &mac.0)
        .number(4, mtu)
        .nest(18, |inside| inside.text(1, kind))
}

pub(crate) fn remove(index: u32) -> Message {
    Message::new(DELLINK, CHANGE, &head(0, index, 0, 0))
}

/// Renames a link that is down.
pub(crate) fn rename(index: u32, name: &str) -> Message {
    Message::new(SETLINK, CHANGE, &head(0, index, 0, 0)).text(3, name)
}

/// Sets the alias of a link.
pub(crate) fn alias(index: u32, note: &str) -> Message {
    Message::new(SETLINK, CHANGE, &head(0, index, 0, 0)).text(20, note)
}

/// Sets a link up or down.
pub(crate) fn switch(index: u32, up: bool) -> Message {
    Message::new(NEWLINK, CHANGE, &head(0, index, if up { UP } else { 0 }, UP))
}

/// Sets the MAC address of a link.
pub(crate) fn set_mac(index: u32, mac: Mac) -> Message {
    Message::new(SETLINK, CHANGE, &head(0, index, 0, 0)).put(1, &mac.0)
}

/// Sets the MTU of a link.
pub(crate) fn set_mtu(index: u32, mtu: u32) -> Message {
    Message::new(SETLINK, CHANGE, &head(0, index, 0, 0)).number(4, mtu)
}

/// Adds a link to a bridge.
pub(crate) fn join(index: u32, bridge: u32) -> Message {
    Message::new(SETLINK, CHANGE, &head(0, index, 0, 0)).number(10, bridge)
}

/// Disables the learning of MAC addresses on a bridge port.
pub(crate) fn learn_nothing(index: u32) -> Message {
    Message::new(SETLINK, CHANGE, &head(BRIDGE, index, 0, 0)).nest(12, |port| port.put(8, &[0]))
}

/// Adds an address to a link; an existing address stays.
pub(crate) fn add_address(index: u32, address: &Address, plain: bool) -> Message {
    let message = Message::new(NEWADDR, CHANGE | CREATE, &address_head(index, address));
    let flags = if plain { PLAIN } else { 0x02 };
    with_address(message, address).number(8, flags)
}

/// Removes an address from a link.
pub(crate) fn remove_address(index: u32, address: &Address) -> Message {
    with_address(Message::new(DELADDR, CHANGE, &address_head(index, address)), address)
}

fn with_address(message: Message, address: &Address) -> Message {
    let bytes = octets(address.ip);
    message.put(2, &bytes).put(1, &bytes)
}

fn address_head(index: u32, address: &Address) -> [u8; 8] {
    let family = if address.ip.is_ipv4() { INET } else { INET6 };
    let [a, b, c, d] = index.to_ne_bytes();
    [family, address.prefix, 0, 0, a, b, c, d]
}

/// The fixed part of a message about links (`struct ifinfomsg`).
fn head(family: u8, index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut head = [0; 16];
    head[0] = family;
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    head[8..12].copy_from_slice(&flags.to_ne_bytes());
    head[12..16].copy_from_slice(&change.to_ne_bytes());
    head
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

fn ip(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).ok().map(|bytes| IpAddr::V4(Ipv4Addr::from(bytes)));
    four.or_else(|| <[u8; 16]>::try_from(bytes).ok().map(|bytes| IpAddr::V6(Ipv6Addr::from(bytes))))
}

fn read_link(bytes: &[u8]) -> Option<Link> {
    let mut link = Link {
        index: number(bytes.get(4..8)?)?,
        up: number(bytes.get(8..12)?)? & UP == UP,
        ..Link::default()
    };
    for (kind, value) in attributes(bytes.get(16..)?) {
        match kind {
            1 => link.mac = value.try_into().ok().map(Mac),
            3 => link.name = text(value),
            4 => link.mtu = number(value).unwrap_or_default(),
            10 => link.master = number(value).unwrap_or_default(),
            18 => {
                link.kind = attributes(value)
                    .find(|(kind, _)| *kind == 1)
                    .map_or_else(String::new, |(_, name)| text(name));
            }
            20 => link.alias = text(value),
            _ => {}
        }
    }
    Some(link)
}

fn read_address(bytes: &[u8], link: u32) -> Option<Address> {
    const LINK_SCOPE: u8 = 253;
    let prefix = *bytes.get(1)?;
    if number(bytes.get(4..8)?)? != link {
        return None;
    }
    let is_v6 = *bytes.first()? == INET6;
    if is_v6 && *bytes.get(3)? == LINK_SCOPE {
        return None;
    }
    // On a point-to-point link, `ADDRESS` is the other end's; `LOCAL` is ours.
    let find =
        |wanted| attributes(bytes.get(8..)?).find(|(kind, _)| *kind == wanted).and_then(|(_, v)| ip(v));
    Some(Address { ip: find(2).or_else(|| find(1))?, prefix })
}

fn read_route(bytes: &[u8], link: u32) -> Option<Route> {
    let head = bytes.get(..12)?;
    let (family, prefix) = (*head.first()?, *head.get(1)?);
    if *head.get(4)? != MAIN || *head.get(5)? == BY_KERNEL || *head.get(7)? != UNICAST {
        return None;
    }
    let (mut over, mut to, mut via) = (None, None, None);
    for (kind, value) in attributes(bytes.get(12..)?) {
        match kind {
            1 => to = ip(value),
            4 => over = number(value),
            5 => via = ip(value),
            _ => {}
        }
    }
    let everything: IpAddr =
        if family == INET { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    (over == Some(link)).then(|| Route { to: Address { ip: to.unwrap_or(everything), prefix }, via })
}
