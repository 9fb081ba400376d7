//! The message of DHCPv6: a type, a number of three bytes, options. An option has a type and a length of two
//! bytes each, and bytes; two of them contain options themselves.

use super::Reply;
use std::net::Ipv6Addr;

pub(super) const ADVERTISE: u8 = 2;
pub(super) const REPLY: u8 = 7;

const CLIENT: u16 = 1;
const SERVER: u16 = 2;
pub(super) const ASSOCIATION: u16 = 3;
pub(super) const ADDRESS: u16 = 5;
pub(super) const STATUS: u16 = 13;
pub(super) const QUICK: u16 = 14;
pub(super) const DNS: u16 = 23;
pub(super) const SEARCH: u16 = 24;

pub(super) const SUCCESS: u16 = 0;
pub(super) const NOT_ON_LINK: u16 = 4;

/// Longest identifier of a client or a server: a type of two bytes, and 128 more.
const LONGEST_ID: usize = 130;
/// Bytes before the options of an association: its number and two times.
const ASSOCIATION_HEAD: usize = 12;
/// Bytes of an address and its two times.
const ADDRESS_HEAD: usize = 24;
/// Largest message: every link of IPv6 passes 1280 bytes, of which the headers of IP and UDP take 48.
const MOST: usize = 1280 - 48;

/// The kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Solicit,
    Request,
    Confirm,
    Renew,
    Rebind,
    Release,
    Decline,
    Information,
}

/// A request of the guest's DHCPv6 client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) kind: Kind,
    number: [u8; 3],
    /// The guest's identifier, which is repeated in the answer.
    pub(super) client: Option<&'a [u8]>,
    /// The server that the guest has chosen.
    pub(super) server: Option<&'a [u8]>,
    /// First association for which the guest wants an address; others get none.
    pub(super) association: Option<Association<'a>>,
    /// The guest wants the address in one exchange (rapid commit).
    pub(super) is_quick: bool,
}

/// Identity association: the guest's name for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Association<'a> {
    pub(super) id: [u8; 4],
    options: &'a [u8],
}

impl<'a> Request<'a> {
    /// Reads a request; `None` for any other packet.
    pub(super) fn read(bytes: &'a [u8]) -> Option<Request<'a>> {
        let (head, rest) = bytes.split_at_checked(4)?;
        let kind = match head.first()? {
            1 => Kind::Solicit,
            3 => Kind::Request,
            4 => Kind::Confirm,
            5 => Kind::Renew,
            6 => Kind::Rebind,
            8 => Kind::Release,
            9 => Kind::Decline,
            11 => Kind::Information,
            _ => return None,
        };
        let number = head.get(1..)?.try_into().ok()?;
        let mut request =
            Request { kind, number, client: None, server: None, association: None, is_quick: false };
        for option in options(rest) {
            let (kind, value) = option?;
            match kind {
                CLIENT => request.client = Some(id(value)?),
                SERVER => request.server = Some(id(value)?),
                ASSOCIATION if request.association.is_none() => {
                    request.association = Some(Association::read(value)?);
                }
                QUICK => request.is_quick = true,
                _ => {}
            }
        }
        Some(request)
    }

    /// Addresses that the guest names in its association.
    pub(super) fn addresses(&self) -> impl Iterator<Item = Ipv6Addr> {
        let all = self.association.iter().flat_map(|association| options(association.options)).flatten();
        all.filter(|(kind, _)| *kind == ADDRESS).filter_map(|(_, value)| {
            let bytes: [u8; 16] = value.get(..16)?.try_into().ok()?;
            Some(Ipv6Addr::from(bytes))
        })
    }
}

impl<'a> Association<'a> {
    fn read(value: &'a [u8]) -> Option<Association<'a>> {
        let (head, rest) = value.split_at_checked(ASSOCIATION_HEAD)?;
        let whole = options(rest)
            .all(|option| option.is_some_and(|(kind, value)| kind != ADDRESS || value.len() >= ADDRESS_HEAD));
        let id = head.get(..4)?.try_into().ok()?;
        whole.then_some(Association { id, options: rest })
    }
}

/// An answer that is being written. An option that does not fit is left out, so the important ones come
/// first.
pub(super) struct Answer {
    bytes: Vec<u8>,
    left_out: Vec<u16>,
}

impl Answer {
    /// An answer to a request, with both identifiers.
    pub(super) fn new(kind: u8, request: &Request<'_>, server: &[u8]) -> Answer {
        let mut answer = Answer { bytes: vec![kind], left_out: Vec::new() };
        answer.bytes.extend(request.number);
        if let Some(client) = request.client {
            answer.put(CLIENT, client);
        }
        answer.put(SERVER, server);
        answer
    }

    pub(super) fn put(&mut self, kind: u16, value: &[u8]) {
        if self.bytes.len() + 4 + value.len() > MOST {
            self.left_out.push(kind);
            return;
        }
        option(&mut self.bytes, kind, value);
    }

    /// Adds an option, unless its value is empty.
    pub(super) fn put_some(&mut self, kind: u16, value: &[u8]) {
        if !value.is_empty() {
            self.put(kind, value);
        }
    }

    pub(super) fn finish(self) -> Reply {
        Reply { bytes: self.bytes, left_out: self.left_out }
    }
}

/// Writes an option. A value longer than its length field allows is left out.
pub(super) fn option(bytes: &mut Vec<u8>, kind: u16, value: &[u8]) {
    let Ok(length) = u16::try_from(value.len()) else { return };
    bytes.extend(kind.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes.extend(value);
}

/// The options in some bytes; the last one is `None` if it is truncated.
pub(super) fn options(mut bytes: &[u8]) -> impl Iterator<Item = Option<(u16, &[u8])>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let taken = take(bytes);
        bytes = taken.map(|(_, _, rest)| rest).unwrap_or_default();
        Some(taken.map(|(kind, value, _)| (kind, value)))
    })
}

fn take(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let (head, rest) = bytes.split_at_checked(4)?;
    let [kind, more, length, less] = head.try_into().ok()?;
    let (value, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes([length, less])))?;
    Some((u16::from_be_bytes([kind, more]), value, rest))
}

fn id(value: &[u8]) -> Option<&[u8]> {
    (1..=LONGEST_ID).contains(&value.len()).then_some(value)
}
